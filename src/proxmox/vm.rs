//! A VM's life: list, read, clone, configure, resize, migrate, destroy; its power is in [`super::power`].
//!
//! Source: qemu-server, `API2/Qemu.pm`. Calls that answer a task id say nothing about success: a start of a VM that does
//! not exist gets one too. Follow the task.

use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, Params, param};
use super::config::VmConfig;
use super::error::ApiError;
use super::ids::{NodeName, StorageName, Upid, VmId};
use super::json;
use super::transport::Method;

/// Which configuration to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// With pending changes applied: what the next start will run with.
    Pending,
    /// What the VM runs with now.
    Current,
}

/// What a clone is to be. Everything but the id is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneRequest {
    /// Its id.
    pub newid: VmId,
    /// Its name; Proxmox makes one up otherwise.
    pub name: Option<String>,
    /// A full copy instead of a linked one; of a template the default is linked.
    pub full: Option<bool>,
    /// Where all of its disks go; for a full copy only.
    pub storage: Option<StorageName>,
    /// `raw`, `qcow2` or `vmdk`; for a full copy only.
    pub format: Option<String>,
    /// Another node, when everything is on shared storage.
    pub target: Option<NodeName>,
    /// Its description; the template's is inherited otherwise.
    pub description: Option<String>,
    /// The pool that it joins when it is finished.
    pub pool: Option<String>,
}

impl CloneRequest {
    /// A clone of this id, everything else as Proxmox has it.
    pub fn new(newid: VmId) -> Self {
        Self {
            newid,
            name: None,
            full: None,
            storage: None,
            format: None,
            target: None,
            description: None,
            pool: None,
        }
    }
}

/// A VM in its node's own list, which is live.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeVm {
    /// Its number.
    #[serde(deserialize_with = "json::parsed")]
    pub vmid: VmId,
    /// Its name; `VM 100` when it has none.
    #[serde(default, deserialize_with = "json::text")]
    pub name: String,
    /// `running` or `stopped`.
    #[serde(default, deserialize_with = "json::text")]
    pub status: String,
    /// Whether it is a template.
    #[serde(default, deserialize_with = "json::flag")]
    pub template: bool,
    /// Its lock.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub lock: Option<String>,
    /// Its tags.
    #[serde(default, deserialize_with = "json::list")]
    pub tags: Vec<String>,
}

/// How a VM stands right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmStatus {
    /// Whether its process exists.
    pub running: bool,
    /// QEMU's own state: `running`, `stopped`, `paused`, `io-error`, ...
    pub qmpstatus: String,
    /// Its process; another one means that it was stopped and started in between.
    pub pid: Option<u32>,
    /// Age of its process in seconds, 0 when it is stopped. A reboot inside the guest does not reset it.
    pub uptime: u64,
    /// Its lock.
    pub lock: Option<String>,
    /// Whether the guest agent is enabled in its configuration; not whether it answers.
    pub agent: bool,
    /// Whether the HA stack manages it, so that power tasks end before anything happened.
    pub ha_managed: bool,
    /// Its name.
    pub name: String,
    /// Whether it is a template.
    pub template: bool,
}

/// A configuration key, with what is in force and what waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The key.
    pub key: String,
    /// What is in force.
    pub value: Option<String>,
    /// What waits for the next start.
    pub pending: Option<String>,
    /// Whether its removal waits for the next start.
    pub delete: bool,
}

impl PendingEntry {
    /// Whether anything waits.
    pub fn waits(&self) -> bool {
        self.delete || self.pending.is_some()
    }
}

/// What Proxmox says about moving a VM. Free space, snippets and bridges are not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrateCheck {
    /// Whether the VM runs.
    pub running: bool,
    /// Nodes that have all of its storages; empty also when the VM runs (it is told for stopped ones only).
    pub allowed_nodes: Vec<String>,
    /// Nodes that have not, each with what it lacks.
    pub refused_nodes: Vec<(String, String)>,
    /// Volumes on local storage, which are copied.
    pub local_disks: Vec<String>,
    /// Devices that bind it to its node: passed-through ones, for example.
    pub local_resources: Vec<String>,
}

impl Client {
    /// The VMs of a node, live.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn node_vms(&self, node: &NodeName) -> Result<Vec<NodeVm>, ApiError> {
        self.list(format!("/nodes/{node}/qemu"), Vec::new()).await
    }

    /// A VM's configuration.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Missing`] when it is not on this node; as every call.
    pub async fn vm_config(&self, node: &NodeName, vmid: VmId, view: View) -> Result<VmConfig, ApiError> {
        let params = match view {
            View::Pending => Vec::new(),
            View::Current => vec![param("current", 1)],
        };
        self.get_with(vm(node, vmid, "/config"), params, VmConfig::from_json)
            .await
    }

    /// What waits for a VM's next start: the only place that tells that a change is not in force yet.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn vm_pending(&self, node: &NodeName, vmid: VmId) -> Result<Vec<PendingEntry>, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            key: String,
            #[serde(default)]
            value: Value,
            #[serde(default)]
            pending: Value,
            // 1, or 2 for a removal that also destroys the volume.
            #[serde(default, deserialize_with = "json::flag")]
            delete: bool,
        }
        self.get_with(vm(node, vmid, "/pending"), Vec::new(), |data| {
            json::entries(data)?
                .into_iter()
                .map(
                    |Raw {
                         key,
                         value,
                         pending,
                         delete,
                     }| {
                        Ok(PendingEntry {
                            key,
                            value: json::plain(&value)?,
                            pending: json::plain(&pending)?,
                            delete,
                        })
                    },
                )
                .collect()
        })
        .await
    }

    /// How a VM stands.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Missing`] when it is not on this node; as every call.
    pub async fn vm_status(&self, node: &NodeName, vmid: VmId) -> Result<VmStatus, ApiError> {
        #[derive(Default, Deserialize)]
        struct Ha {
            #[serde(default, deserialize_with = "json::flag")]
            managed: bool,
        }
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::text")]
            status: String,
            #[serde(default, deserialize_with = "json::text")]
            qmpstatus: String,
            #[serde(default, deserialize_with = "json::opt_number")]
            pid: Option<u32>,
            #[serde(default, deserialize_with = "json::number")]
            uptime: u64,
            #[serde(default, deserialize_with = "json::opt_text")]
            lock: Option<String>,
            #[serde(default, deserialize_with = "json::flag")]
            agent: bool,
            #[serde(default)]
            ha: Ha,
            #[serde(default, deserialize_with = "json::text")]
            name: String,
            #[serde(default, deserialize_with = "json::flag")]
            template: bool,
        }
        self.get_with(vm(node, vmid, "/status/current"), Vec::new(), |data| {
            let Raw {
                status,
                qmpstatus,
                pid,
                uptime,
                lock,
                agent,
                ha,
                name,
                template,
            } = json::from_value(data)?;
            let running = match status.as_str() {
                "running" => true,
                "stopped" => false,
                other => return Err(format!("unknown status {other:?}")),
            };
            Ok(VmStatus {
                running,
                qmpstatus,
                pid,
                uptime,
                lock,
                agent,
                ha_managed: ha.managed,
                name,
                template,
            })
        })
        .await
    }

    /// Clones a VM; `node` is the one that has the source.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Exists`] when the id is taken (the task may say the same later); as every call.
    pub async fn clone_vm(&self, node: &NodeName, source: VmId, request: &CloneRequest) -> Result<Upid, ApiError> {
        let CloneRequest {
            newid,
            name,
            full,
            storage,
            format,
            target,
            description,
            pool,
        } = request;
        let mut params = vec![param("newid", newid)];
        params.extend(name.as_ref().map(|name| param("name", name)));
        params.extend(full.map(|full| param("full", u8::from(full))));
        params.extend(storage.as_ref().map(|storage| param("storage", storage)));
        params.extend(format.as_ref().map(|format| param("format", format)));
        params.extend(
            target
                .as_ref()
                .filter(|target| *target != node)
                .map(|target| param("target", target)),
        );
        params.extend(
            description
                .as_ref()
                .map(|description| param("description", description)),
        );
        params.extend(pool.as_ref().map(|pool| param("pool", pool)));
        self.task(Method::Post, vm(node, source, "/clone"), params).await
    }

    /// Changes a VM's configuration at once: for plain keys. Not atomic: after an error look at what is pending.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Busy`] when `digest` is not that of the configuration any more; as every call.
    pub async fn set_config(
        &self,
        node: &NodeName,
        vmid: VmId,
        digest: Option<&str>,
        set: &[(String, String)],
        delete: &[String],
    ) -> Result<(), ApiError> {
        self.change(Method::Put, vm(node, vmid, "/config"), changes(digest, set, delete))
            .await
    }

    /// Changes a VM's configuration in a task: for disks that are allocated, which takes longer than the 30 s that
    /// pveproxy waits.
    ///
    /// # Errors
    ///
    /// As [`Self::set_config`].
    pub async fn set_config_task(
        &self,
        node: &NodeName,
        vmid: VmId,
        digest: Option<&str>,
        set: &[(String, String)],
        delete: &[String],
    ) -> Result<Option<Upid>, ApiError> {
        self.maybe_task(Method::Post, vm(node, vmid, "/config"), changes(digest, set, delete))
            .await
    }

    /// Grows a disk to `bytes`; the same size again is no change. Before PVE 8 it is done when this returns, without a task.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn resize(
        &self,
        node: &NodeName,
        vmid: VmId,
        disk: &str,
        bytes: u64,
        digest: Option<&str>,
    ) -> Result<Option<Upid>, ApiError> {
        let mut params = vec![param("disk", disk), param("size", bytes)];
        params.extend(digest.map(|digest| param("digest", digest)));
        self.maybe_task(Method::Put, vm(node, vmid, "/resize"), params).await
    }

    /// What Proxmox says about moving a VM to `target`.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn migrate_check(
        &self,
        node: &NodeName,
        vmid: VmId,
        target: &NodeName,
    ) -> Result<MigrateCheck, ApiError> {
        let params = vec![param("target", target)];
        self.get_with(vm(node, vmid, "/migrate"), params, migrate_check).await
    }

    /// Moves a VM. The task is `node`'s; its exit status is `migration aborted` at most, the reason is in its log.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn migrate(
        &self,
        node: &NodeName,
        vmid: VmId,
        target: &NodeName,
        online: bool,
    ) -> Result<Upid, ApiError> {
        let mut params = vec![param("target", target)];
        if online {
            // Local disks go along by themselves when the VM is stopped, and only on demand when it runs.
            params.extend([param("online", 1), param("with-local-disks", 1)]);
        }
        self.task(Method::Post, vm(node, vmid, "/migrate"), params).await
    }

    /// Destroys a stopped VM and its own volumes; `purge` takes it out of backup, replication and HA as well.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Missing`] when it is gone already; as every call.
    pub async fn delete_vm(&self, node: &NodeName, vmid: VmId, purge: bool) -> Result<Upid, ApiError> {
        let params = if purge { vec![param("purge", 1)] } else { Vec::new() };
        self.task(Method::Delete, vm(node, vmid, ""), params).await
    }

    /// Writes the cloud-init drive anew from the configuration, at once. Fails with what the next start would fail with.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn regenerate_cloudinit(&self, node: &NodeName, vmid: VmId) -> Result<(), ApiError> {
        self.change(Method::Put, vm(node, vmid, "/cloudinit"), Vec::new()).await
    }
}

/// The path of a VM, with what follows.
pub(super) fn vm(node: &NodeName, vmid: VmId, rest: &str) -> String {
    format!("/nodes/{node}/qemu/{vmid}{rest}")
}

fn changes(digest: Option<&str>, set: &[(String, String)], delete: &[String]) -> Params {
    let mut params: Params = set.to_vec();
    if !delete.is_empty() {
        params.push(param("delete", delete.join(",")));
    }
    params.extend(digest.map(|digest| param("digest", digest)));
    params
}

fn migrate_check(data: Value) -> Result<MigrateCheck, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let texts = |name: &str| -> Vec<String> { data[name].as_array().into_iter().flatten().map(text).collect() };
    let refused = data["not_allowed_nodes"].as_object().into_iter().flatten();
    Ok(MigrateCheck {
        running: json::is_true(&data["running"])?,
        allowed_nodes: texts("allowed_nodes"),
        refused_nodes: refused.map(|(node, why)| (node.clone(), why.to_string())).collect(),
        local_disks: data["local_disks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|disk| text(&disk["volid"]))
            .collect(),
        local_resources: texts("local_resources"),
    })
}
