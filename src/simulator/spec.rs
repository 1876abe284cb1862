//! The description of a cluster, in YAML: what a new world is made from.
//!
//! Everything has a default; an empty document is the demo cluster: nodes `pve-0` to `pve-2`, storages `local`,
//! `local-lvm`, `ceph-vm` (shared, block) and `cephfs` (shared, files), bridges `vmbr0` and `vmbr1`, two cloud-init
//! templates, the token `root@pam!vmwright` and the token `automation@pve!vmwright`, which is no root's.

mod demo;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::guest::{GuestBehaviour, GuestImage};
use super::props::parse_size;

pub use self::demo::AUTOMATION_PRIVILEGES;

/// The secret of the demo cluster's tokens.
pub const DEMO_SECRET: &str = "5eed0000-0000-4000-8000-000000000001";

/// A cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldSpec {
    /// The release that the API answers like: `9.2.11`, `8.4.1`, `7.4-16`.
    pub version: String,
    /// The cluster's name; empty: a single node without a cluster.
    pub cluster: String,
    /// Whether the cluster has quorum.
    pub quorate: bool,
    /// Makes UUIDs, MACs and keys repeatable.
    pub seed: Option<u64>,
    /// Nodes by name. The first one answers the API.
    pub nodes: IndexMap<String, NodeSpec>,
    /// Storages by id.
    pub storages: IndexMap<String, StorageSpec>,
    /// Bridges by name.
    pub bridges: IndexMap<String, BridgeSpec>,
    /// Templates and VMs.
    pub vms: Vec<VmSpec>,
    /// Containers, which only take ids and names.
    pub containers: Vec<ContainerSpec>,
    /// Pools and their members.
    pub pools: BTreeMap<String, Vec<u32>>,
    /// Users (`root@pam` is always there).
    pub users: BTreeMap<String, UserSpec>,
    /// Tokens, `user@realm!name`.
    pub tokens: BTreeMap<String, TokenSpec>,
    /// Roles beside the built-in ones.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Access rules.
    pub acl: Vec<AclSpec>,
    /// HA-managed VMs.
    pub ha: Vec<u32>,
    /// VMs with a replication job.
    pub replicated: Vec<u32>,
    /// How guests of certain VM names behave, whatever their template says; the first match holds.
    pub behaviours: Vec<BehaviourSpec>,
    /// Clones that may run at once on one storage; a further one fails with the lock's timeout. None: no limit.
    pub clone_lock_limit: Option<usize>,
    /// Free VM ids start here.
    pub next_id_lower: u32,
    /// Free VM ids end before this one.
    pub next_id_upper: u32,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    /// Whether it answers.
    pub online: bool,
    /// Its address in the cluster.
    pub ip: Option<String>,
    /// Processors.
    pub cpus: u32,
    /// Memory, `64G`.
    pub memory: Size,
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            online: true,
            ip: None,
            cpus: 32,
            memory: Size::gib(256),
        }
    }
}

/// A size in bytes, written `20G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

impl Size {
    /// So many GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_size(&text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no size such as 20G"))
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        super::props::print_size(size.0)
    }
}

/// A storage.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageSpec {
    /// `dir`, `nfs`, `cephfs`, `lvmthin`, `lvm`, `zfspool`, `rbd`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Content types.
    pub content: Vec<String>,
    /// Whether all nodes see the same content.
    pub shared: bool,
    /// The directory of a file storage.
    pub path: Option<String>,
    /// Where snippets lie below the path, when not in `snippets`.
    pub snippets_dir: Option<String>,
    /// The nodes that have it; empty: all.
    pub nodes: Vec<String>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Whether it answers.
    pub active: bool,
    /// Its size on each node.
    pub capacity: Size,
    /// What is taken beside the simulated volumes.
    pub used: Size,
}

impl Default for StorageSpec {
    fn default() -> Self {
        Self {
            kind: "dir".to_owned(),
            content: vec!["images".to_owned()],
            shared: false,
            path: None,
            snippets_dir: None,
            nodes: Vec::new(),
            disabled: false,
            active: true,
            capacity: Size::gib(500),
            used: Size::gib(10),
        }
    }
}

/// A bridge.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BridgeSpec {
    /// The nodes that have it; empty: all.
    pub nodes: Vec<String>,
    /// An address of the node, `192.0.2.1/24`.
    pub address: Option<String>,
}

/// A VM or template.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VmSpec {
    /// Its number.
    pub vmid: u32,
    /// Its name.
    pub name: String,
    /// Its node; empty: the first one.
    pub node: String,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs.
    pub running: bool,
    /// Where its disks are.
    pub storage: String,
    /// Disks by slot.
    pub disks: IndexMap<String, DiskSpec>,
    /// The slot of the cloud-init drive.
    pub cloudinit: Option<String>,
    /// Where the cloud-init drive is; default: with the disks.
    pub cloudinit_storage: Option<String>,
    /// Further config keys, as text. A `netN` without a MAC gets one.
    pub config: IndexMap<String, String>,
    /// The software on the disk.
    pub image: GuestImage,
    /// How the guest behaves.
    pub behaviour: GuestBehaviour,
}

/// A disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Its size.
    pub size: Size,
    /// How much of it holds data; default: a third.
    #[serde(default)]
    pub data: Option<Size>,
    /// Its format; default: the storage's.
    #[serde(default)]
    pub format: Option<String>,
}

/// A container.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its number.
    pub vmid: u32,
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Whether it is a template.
    #[serde(default)]
    pub template: bool,
}

/// A user.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserSpec {
    /// For ticket logins; none: no such login.
    pub password: Option<String>,
    /// Whether the account works.
    pub enable: bool,
    /// Epoch seconds; 0: never.
    pub expire: u64,
}

impl Default for UserSpec {
    fn default() -> Self {
        Self {
            password: None,
            enable: true,
            expire: 0,
        }
    }
}

/// A token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenSpec {
    /// Its secret.
    pub secret: String,
    /// Whether it has rights of its own only (an intersection with the user's).
    pub privsep: bool,
    /// Epoch seconds; 0: never.
    pub expire: u64,
}

impl Default for TokenSpec {
    fn default() -> Self {
        Self {
            secret: DEMO_SECRET.to_owned(),
            privsep: false,
            expire: 0,
        }
    }
}

/// An access rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclSpec {
    /// `/vms/100`
    pub path: String,
    /// A user or token.
    pub id: String,
    /// A role's name.
    pub role: String,
    /// Whether it holds below the path.
    #[serde(default = "yes")]
    pub propagate: bool,
}

fn yes() -> bool {
    true
}

/// How the guests of some VMs behave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BehaviourSpec {
    /// A VM's name, or its start followed by `*`.
    pub name: String,
    /// The behaviour.
    pub behaviour: GuestBehaviour,
}

impl BehaviourSpec {
    /// Whether the rule is for the VM `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.name,
        }
    }
}

impl WorldSpec {
    /// Reads a description.
    ///
    /// # Errors
    ///
    /// The parser's text with line and column.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_yaml::from_str(text).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_survives_yaml_and_unknown_keys_do_not() {
        let text = serde_yaml::to_string(&WorldSpec::default()).unwrap();
        let back = WorldSpec::from_yaml(&text).unwrap();
        assert_eq!(back.vms.len(), 2);
        assert_eq!(back.vms[1].disks["virtio0"].size, Size(3_758_096_384));
        let error = WorldSpec::from_yaml("nodse: {}\n").unwrap_err();
        assert!(error.contains("nodse"), "{error}");
    }
}
