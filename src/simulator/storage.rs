//! Storages and volumes: names, allocation, capacity, and the directories that stand for file storages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::fail::ApiError;
use super::spec::StorageSpec;
use super::world::World;

/// The size of a cloud-init drive.
pub(crate) const CLOUDINIT_SIZE: u64 = 4 << 20;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The node; empty on a shared storage.
    pub node: String,
    /// `local-lvm:vm-100-disk-0`
    pub volid: String,
    /// The owner.
    pub vmid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that hold data.
    pub used: u64,
    /// `raw`, `qcow2`
    pub format: String,
    /// The base volume of a linked clone.
    pub base: Option<String>,
    /// Epoch seconds.
    pub ctime: u64,
}

impl Volume {
    /// The storage.
    pub fn storage(&self) -> &str {
        self.volid.split(':').next().unwrap_or_default()
    }
}

impl StorageSpec {
    /// Whether it holds files.
    pub(crate) fn is_files(&self) -> bool {
        matches!(self.kind.as_str(), "dir" | "nfs" | "cifs" | "cephfs" | "btrfs")
    }

    /// Whether a node has it.
    pub(crate) fn on_node(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|n| n == node)
    }

    /// Whether it takes this kind of content.
    pub(crate) fn takes(&self, content: &str) -> bool {
        self.content.iter().any(|c| c == content)
    }

    /// The format, as far as the storage can; else its own.
    pub(crate) fn format_or_default(&self, wanted: Option<&str>) -> String {
        match wanted {
            Some(format) if self.is_files() => format.to_owned(),
            _ => "raw".to_owned(),
        }
    }
}

impl World {
    /// A storage by its id.
    pub(crate) fn storage(&self, id: &str) -> Result<&StorageSpec, ApiError> {
        self.storages
            .get(id)
            .ok_or_else(|| ApiError::failed(format!("storage '{id}' does not exist")))
    }

    /// A storage that is usable on a node.
    pub(crate) fn usable_storage(&self, id: &str, node: &str) -> Result<&StorageSpec, ApiError> {
        let storage = self.storage(id)?;
        if storage.disabled {
            return Err(ApiError::failed(format!("storage '{id}' is disabled")));
        }
        if !storage.on_node(node) {
            return Err(ApiError::failed(format!(
                "storage '{id}' is not available on node '{node}'"
            )));
        }
        if !storage.active {
            return Err(ApiError::failed(format!("storage '{id}' is not online")));
        }
        Ok(storage)
    }

    /// The node part of a volume's identity.
    pub(crate) fn volume_home(&self, storage: &str, node: &str) -> String {
        if self.storages.get(storage).is_some_and(|s| s.shared) {
            String::new()
        } else {
            node.to_owned()
        }
    }

    /// A volume, seen from a node.
    pub(crate) fn volume(&self, node: &str, volid: &str) -> Option<&Volume> {
        let home = self.volume_home(volid.split(':').next().unwrap_or_default(), node);
        self.volumes.iter().find(|v| v.volid == volid && v.node == home)
    }

    /// A volume, seen from a node.
    pub(crate) fn volume_mut(&mut self, node: &str, volid: &str) -> Option<&mut Volume> {
        let home = self.volume_home(volid.split(':').next().unwrap_or_default(), node);
        self.volumes.iter_mut().find(|v| v.volid == volid && v.node == home)
    }

    /// The text that says why a volume that a config names cannot be used on a node.
    pub(crate) fn check_volume(&self, node: &str, volid: &str) -> Result<(), ApiError> {
        let (id, name) = volid.split_once(':').unwrap_or((volid, ""));
        let storage = self.usable_storage(id, node)?;
        let there = match name.split_once('/') {
            Some((kind @ ("iso" | "snippets" | "import" | "vztmpl"), file)) => {
                let _ = storage;
                self.content_dir(node, id, kind)
                    .is_some_and(|dir| dir.join(file).is_file())
            }
            _ => self.volume(node, volid).is_some(),
        };
        if there {
            Ok(())
        } else {
            Err(ApiError::failed(format!("volume '{volid}' does not exist")))
        }
    }

    /// The real directory of a file storage's content on a node.
    pub fn content_dir(&self, node: &str, storage: &str, content: &str) -> Option<PathBuf> {
        let spec = self.storages.get(storage)?;
        let path = spec.path.as_deref()?;
        let below = match content {
            "iso" => "template/iso",
            "vztmpl" => "template/cache",
            "snippets" => spec.snippets_dir.as_deref().unwrap_or("snippets"),
            other => other,
        };
        Some(self.node_root(node).join(path.trim_start_matches('/')).join(below))
    }

    /// The path that task logs show for a volume.
    pub(crate) fn volume_path(&self, volid: &str) -> String {
        let (id, name) = volid.split_once(':').unwrap_or((volid, ""));
        match self.storages.get(id) {
            Some(spec) if spec.is_files() => {
                let path = spec.path.as_deref().unwrap_or("/var/lib/vz");
                let own = name.rsplit('/').take(2).collect::<Vec<_>>();
                match own.as_slice() {
                    [file, owner] => format!("{path}/images/{owner}/{file}"),
                    _ => format!("{path}/images/{name}"),
                }
            }
            Some(spec) if spec.kind == "rbd" => format!("rbd:{id}/{name}"),
            _ => format!("/dev/pve/{name}"),
        }
    }

    /// Bytes taken and whole size of a storage, seen from a node.
    pub fn storage_usage(&self, id: &str, node: &str) -> (u64, u64) {
        let Some(spec) = self.storages.get(id) else {
            return (0, 0);
        };
        let home = self.volume_home(id, node);
        let thick = spec.kind == "lvm";
        let volumes: u64 = self
            .volumes
            .iter()
            .filter(|v| v.storage() == id && v.node == home)
            .map(|v| if thick { v.size } else { v.used })
            .sum();
        (spec.used.0 + volumes, spec.capacity.0)
    }

    /// The next free name for a disk of a VM, and its volume id.
    fn free_disk_name(&self, storage: &str, node: &str, vmid: u32, format: &str) -> String {
        let files = self.storages.get(storage).is_some_and(StorageSpec::is_files);
        let home = self.volume_home(storage, node);
        let taken = |number: u32| {
            let stem = format!("vm-{vmid}-disk-{number}");
            self.volumes.iter().any(|v| {
                v.storage() == storage
                    && v.node == home
                    && v.volid
                        .rsplit([':', '/'])
                        .next()
                        .is_some_and(|name| name.split('.').next() == Some(&stem))
            })
        };
        let number = (0..).find(|n| !taken(*n)).unwrap_or(0);
        if files {
            format!("{storage}:{vmid}/vm-{vmid}-disk-{number}.{format}")
        } else {
            format!("{storage}:vm-{vmid}-disk-{number}")
        }
    }

    /// Makes a disk. Gives its volume id and what the task log says.
    pub(crate) fn allocate_disk(
        &mut self,
        node: &str,
        storage: &str,
        vmid: u32,
        size: u64,
        format: Option<&str>,
    ) -> Result<(String, Vec<String>), ApiError> {
        let spec = self.usable_storage(storage, node)?;
        let (used, capacity) = self.storage_usage(storage, node);
        if spec.kind == "lvm" && used + size > capacity {
            return Err(ApiError::failed(format!(
                "lvcreate 'pve/vm-{vmid}-disk-0' error:   Volume group \"pve\" has insufficient free space \
                 ({} extents): {} required.",
                capacity.saturating_sub(used) >> 22,
                size >> 22
            )));
        }
        let format = spec.format_or_default(format);
        let volid = self.free_disk_name(storage, node, vmid, &format);
        let log = self.format_log(&volid, &format, size);
        let home = self.volume_home(storage, node);
        self.volumes.push(Volume {
            node: home,
            volid: volid.clone(),
            vmid,
            size,
            used: (size / 1000).min(1 << 20),
            format,
            base: None,
            ctime: self.now_ms / 1000,
        });
        Ok((volid, log))
    }

    /// Makes the cloud-init drive's volume.
    pub(crate) fn allocate_cloudinit(
        &mut self,
        node: &str,
        storage: &str,
        vmid: u32,
        format: Option<&str>,
    ) -> Result<(String, Vec<String>), ApiError> {
        let spec = self.usable_storage(storage, node)?;
        let format = spec.format_or_default(Some(format.unwrap_or("qcow2")));
        let volid = if spec.is_files() {
            format!("{storage}:{vmid}/vm-{vmid}-cloudinit.{format}")
        } else {
            format!("{storage}:vm-{vmid}-cloudinit")
        };
        if self.volume(node, &volid).is_some() {
            return Err(ApiError::failed(if spec.is_files() {
                format!("disk image '{}' already exists", self.volume_path(&volid))
            } else {
                format!(
                    "lvcreate 'pve/vm-{vmid}-cloudinit' error:   Logical Volume \"vm-{vmid}-cloudinit\" already exists in volume group \"pve\""
                )
            }));
        }
        let log = self.format_log(&volid, &format, CLOUDINIT_SIZE);
        let home = self.volume_home(storage, node);
        self.volumes.push(Volume {
            node: home,
            volid: volid.clone(),
            vmid,
            size: CLOUDINIT_SIZE,
            used: 266_240,
            format,
            base: None,
            ctime: self.now_ms / 1000,
        });
        Ok((volid, log))
    }

    /// What making a volume says in a task log.
    fn format_log(&self, volid: &str, format: &str, size: u64) -> Vec<String> {
        let (id, name) = volid.split_once(':').unwrap_or((volid, ""));
        match self.storages.get(id) {
            Some(spec) if spec.is_files() && format == "qcow2" => vec![format!(
                "Formatting '{}', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata \
                 compression_type=zlib size={size} lazy_refcounts=off refcount_bits=16",
                self.volume_path(volid)
            )],
            Some(spec) if spec.is_files() => vec![format!(
                "Formatting '{}', fmt={format} size={size} preallocation=off",
                self.volume_path(volid)
            )],
            Some(spec) if spec.kind.starts_with("lvm") => vec![format!("  Logical volume \"{name}\" created.")],
            _ => Vec::new(),
        }
    }

    /// Makes a linked clone of a base volume.
    pub(crate) fn allocate_linked(&mut self, node: &str, base: &Volume, vmid: u32) -> Result<String, ApiError> {
        let storage = base.storage().to_owned();
        self.usable_storage(&storage, node)?;
        let own = self.free_disk_name(&storage, node, vmid, "qcow2");
        let own = own.split_once(':').map_or("", |(_, name)| name).to_owned();
        let base_name = base.volid.split_once(':').map_or("", |(_, name)| name);
        let volid = format!("{storage}:{base_name}/{own}");
        let home = self.volume_home(&storage, node);
        self.volumes.push(Volume {
            node: home,
            volid: volid.clone(),
            vmid,
            size: base.size,
            used: 528_384,
            format: base.format.clone(),
            base: Some(base.volid.clone()),
            ctime: self.now_ms / 1000,
        });
        Ok(volid)
    }

    /// Removes a volume; false when there is none.
    pub(crate) fn free_volume(&mut self, node: &str, volid: &str) -> bool {
        let home = self.volume_home(volid.split(':').next().unwrap_or_default(), node);
        let before = self.volumes.len();
        self.volumes.retain(|v| v.volid != volid || v.node != home);
        self.volumes.len() < before
    }

    /// Whether a volume is the base of a linked clone.
    pub(crate) fn is_base_in_use(&self, volid: &str) -> bool {
        self.volumes.iter().any(|v| v.base.as_deref() == Some(volid))
    }
}
