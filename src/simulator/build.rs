//! A new world from its description.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::access::Access;
use super::clock::Durations;
use super::guest::Guest;
use super::props::{Net, net_index, print_size};
use super::spec::{VmSpec, WorldSpec};
use super::storage::Volume;
use super::vm::{Config, Power, Vm};
use super::world::{Node, SCHEMA, World};

impl World {
    /// Makes a world at a time.
    ///
    /// # Errors
    ///
    /// What in the description contradicts itself: an unknown node or storage, an id twice.
    pub fn new(spec: &WorldSpec, now_ms: u64) -> Result<Self, String> {
        let seed = spec.seed.unwrap_or_else(|| {
            let bytes = uuid::Uuid::new_v4().into_bytes();
            bytes
                .iter()
                .fold(0u64, |all, byte| all.rotate_left(8) ^ u64::from(*byte))
        });
        if spec.nodes.is_empty() {
            return Err("a cluster needs a node".to_owned());
        }
        let nodes = spec
            .nodes
            .iter()
            .enumerate()
            .map(|(number, (name, node))| {
                let node = Node {
                    online: node.online,
                    ip: node.ip.clone().unwrap_or_else(|| format!("127.0.10.{}", number + 1)),
                    cpus: node.cpus,
                    memory: node.memory.0,
                    booted_ms: now_ms.saturating_sub(3_600_000),
                };
                (name.clone(), node)
            })
            .collect();
        let mut users = spec.users.clone();
        users.entry("root@pam".to_owned()).or_default();
        let mut world = Self {
            schema: SCHEMA,
            version: spec.version.clone(),
            cluster: spec.cluster.clone(),
            quorate: spec.quorate,
            nodes,
            storages: spec.storages.clone(),
            bridges: spec.bridges.clone(),
            volumes: Vec::new(),
            vms: BTreeMap::new(),
            containers: spec.containers.iter().map(|c| (c.vmid, c.clone())).collect(),
            pools: spec
                .pools
                .iter()
                .map(|(name, members)| (name.clone(), members.iter().copied().collect::<BTreeSet<_>>()))
                .collect(),
            access: Access {
                users,
                tokens: spec.tokens.clone(),
                roles: spec.roles.clone(),
                acl: spec.acl.clone(),
                ..Access::default()
            },
            ha: spec.ha.iter().copied().collect(),
            replicated: spec.replicated.iter().copied().collect(),
            behaviours: spec.behaviours.clone(),
            clone_lock_limit: spec.clone_lock_limit,
            next_id: (spec.next_id_lower, spec.next_id_upper),
            tasks: Vec::new(),
            doors: BTreeMap::new(),
            doomed: Vec::new(),
            flocks: BTreeMap::new(),
            stats: BTreeMap::new(),
            next_stat_ms: now_ms,
            next_pid: 6000,
            random: seed,
            now_ms,
            durations: Durations::default(),
            dir: PathBuf::new(),
            fingerprint: String::new(),
        };
        for vm in &spec.vms {
            world.add_vm(vm)?;
        }
        world.advance(now_ms);
        Ok(world)
    }

    /// Adds a VM or template.
    ///
    /// # Errors
    ///
    /// An unknown node or storage, a taken id.
    pub fn add_vm(&mut self, spec: &VmSpec) -> Result<(), String> {
        let node = if spec.node.is_empty() {
            self.nodes.keys().next().cloned().unwrap_or_default()
        } else {
            spec.node.clone()
        };
        if !self.nodes.contains_key(&node) {
            return Err(format!("VM {}: there is no node {node:?}", spec.vmid));
        }
        if self.vmid_taken(spec.vmid).is_some() {
            return Err(format!("VM {} is there twice", spec.vmid));
        }
        let mut values = IndexMap::new();
        if !spec.name.is_empty() {
            values.insert("name".to_owned(), spec.name.clone());
        }
        for (key, value) in &spec.config {
            let mut value = value.clone();
            if net_index(key).is_some() {
                let mut net = Net::parse(&value);
                if net.mac.is_none() {
                    net.mac = Some(self.new_mac());
                }
                value = net.print();
            }
            values.insert(key.clone(), value);
        }
        for (slot, disk) in &spec.disks {
            let (volid, _) = self
                .allocate_disk(&node, &spec.storage, spec.vmid, disk.size.0, disk.format.as_deref())
                .map_err(|e| format!("VM {}: {}", spec.vmid, e.message))?;
            if let Some(volume) = self.volume_mut(&node, &volid) {
                volume.used = disk.data.map_or(disk.size.0 / 3, |d| d.0);
            }
            values.insert(slot.clone(), format!("{volid},size={}", print_size(disk.size.0)));
        }
        if let Some(slot) = &spec.cloudinit {
            let storage = spec.cloudinit_storage.as_ref().unwrap_or(&spec.storage);
            let (volid, _) = self
                .allocate_cloudinit(&node, storage, spec.vmid, None)
                .map_err(|e| format!("VM {}: {}", spec.vmid, e.message))?;
            values.insert(slot.clone(), format!("{volid},media=cdrom"));
        }
        if !values.contains_key("smbios1") {
            values.insert("smbios1".to_owned(), format!("uuid={}", self.new_uuid()));
        }
        if !values.contains_key("vmgenid") {
            values.insert("vmgenid".to_owned(), self.new_uuid());
        }
        if !values.contains_key("meta") {
            values.insert(
                "meta".to_owned(),
                format!("creation-qemu=10.1.2,ctime={}", self.now_ms / 1000),
            );
        }
        let seed = self.next_random();
        self.vms.insert(
            spec.vmid,
            Vm {
                vmid: spec.vmid,
                node: node.clone(),
                config: Config {
                    current: values,
                    ..Config::default()
                },
                power: Power::Stopped,
                guest: Guest::new_from_template(&spec.image, seed),
                image: spec.image.clone(),
                behaviour: spec.behaviour.clone(),
                booted: false,
                reboot_requested: false,
                agent_results: IndexMap::new(),
            },
        );
        if spec.template {
            self.make_template(&node, spec.vmid);
        }
        if spec.running {
            self.power_on(&node, spec.vmid)?;
        }
        Ok(())
    }

    /// Makes the directories that stand for the nodes' file storages.
    pub(crate) fn make_directories(&self) -> std::io::Result<()> {
        for node in self.nodes.keys() {
            for (id, storage) in &self.storages {
                let Some(path) = storage
                    .path
                    .as_deref()
                    .filter(|_| storage.is_files() && storage.on_node(node))
                else {
                    continue;
                };
                let own = self.node_root(node).join(path.trim_start_matches('/'));
                if storage.shared {
                    self.link_shared(&own, id)?;
                } else {
                    std::fs::create_dir_all(&own)?;
                }
                for content in &storage.content {
                    if let Some(dir) = self
                        .content_dir(node, id, content)
                        .filter(|_| content.as_str() != "images")
                    {
                        std::fs::create_dir_all(dir)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A shared storage is one directory, and a symbolic link on each node.
    fn link_shared(&self, own: &Path, id: &str) -> std::io::Result<()> {
        let common = self.dir.join("shared").join(id);
        std::fs::create_dir_all(&common)?;
        if let Some(parent) = own.parent() {
            std::fs::create_dir_all(parent)?;
        }
        if own.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(std::path::absolute(&common)?, own)?;
        }
        Ok(())
    }

    /// The volumes of the world, for tests.
    pub fn volumes_of(&self, vmid: u32) -> Vec<&Volume> {
        self.volumes.iter().filter(|v| v.vmid == vmid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_world_has_two_templates_with_base_volumes() {
        let world = World::new(&WorldSpec::default(), 5).unwrap();
        let debian = &world.vms[&9000];
        assert!(debian.is_template() && debian.node == "pve-0");
        assert_eq!(debian.config.get("scsi0"), Some("local-lvm:base-9000-disk-0,size=2G"));
        assert_eq!(
            world.vms[&9001].config.get("ide2"),
            Some("ceph-vm:vm-9001-cloudinit,media=cdrom")
        );
        assert!(world.volume("pve-2", "ceph-vm:base-9001-disk-0").is_some());
        assert!(world.volume("pve-2", "local-lvm:base-9000-disk-0").is_none());
    }

    #[test]
    fn contradictions_are_named() {
        let mut spec = WorldSpec::default();
        spec.vms[1].node = "nowhere".to_owned();
        assert_eq!(
            World::new(&spec, 5).unwrap_err(),
            "VM 9001: there is no node \"nowhere\""
        );
        let mut spec = WorldSpec::default();
        spec.vms[1].vmid = 9000;
        assert_eq!(World::new(&spec, 5).unwrap_err(), "VM 9000 is there twice");
    }
}
