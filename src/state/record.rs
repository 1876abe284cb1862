//! The record of a VM: whose it is, what was begun, and how far it came, in one file that is written before the deed.
//!
//! ```text
//!                    +--(the clone never happened: a new attempt)--+
//!                    v                                             |
//!   (none) ------> Cloning --------------------------------------- +
//!      |             | the clone is seen, by its operation id
//!      | adopt       v
//!      +---------> Created ------> Initialized ------> Finalizing ------> Complete
//!      |             |  cloud-init    |  before anything     |  no drive,     |
//!      |             |  judged        |  is taken away       |  new boot      |
//!      |             +----------------+-----------+----------+----------------+
//!      +--> Initialized, Complete                 v
//!                                              Removing ------> (none)
//! ```
//!
//! [`Phase::may_become`] is this drawing as a function; a write that it does not have is refused. A record proves
//! ownership, so reading fails closed: another schema version, a field nobody knows, the wrong VM inside, a mode that lets
//! others write. Nothing in it is secret.

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::error::StateErrorKind;
use crate::proxmox::ids::{NodeName, Upid, VmId};

/// The version of the record's format that this vmwright reads and writes.
pub const SCHEMA: u64 = 1;

/// The key of a VM: 64 hexadecimal digits, the SHA-256 of `<api host, lower case>:<port>/<vms_name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VmKey(String);

impl VmKey {
    /// The key of the VM `name` in the cluster behind that API address. Host names do not tell upper from lower case.
    pub fn of(host: &str, port: u16, name: &str) -> Self {
        Self::of_cluster(&cluster(host, port), name)
    }

    fn of_cluster(cluster: &str, name: &str) -> Self {
        let digest = Sha256::digest(format!("{cluster}/{name}"));
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The digits: a file name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for VmKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 64 && text.bytes().all(digit) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is no key: 64 hexadecimal digits in lower case"))
        }
    }
}

impl From<VmKey> for String {
    fn from(key: VmKey) -> Self {
        key.0
    }
}

/// `host:port` as records name a cluster.
fn cluster(host: &str, port: u16) -> String {
    format!("{}:{port}", host.to_lowercase())
}

/// Ownership, intent and checkpoint of one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u64,
    /// The key, once more: a record that was copied to another VM's file is noticed.
    pub key: VmKey,
    /// The cluster's API address, `host:port`, the host in lower case.
    pub cluster: String,
    /// `inventory_hostname`: the guest. It is not part of the key, but another host of the same `vms_name` is refused.
    pub host: String,
    /// `vms_name`: the VM's name in Proxmox.
    pub name: String,
    /// The version of vmwright that wrote it last.
    pub engine: String,
    /// Whether vmwright made the VM: its first record was the intent to clone. An adopted VM is never one, nor is that of a
    /// record which does not say so.
    #[serde(default)]
    pub made: bool,
    /// When the first record of this VM was written.
    pub created: Timestamp,
    /// When this one was written.
    pub updated: Timestamp,
    /// Where its cloud-init documents were delivered to, each folder noted before the first byte went there, and not cleared
    /// from since. They hold a password hash. Records of before this field have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
    /// How far it came.
    pub phase: Phase,
}

/// A folder that cloud-init documents were delivered to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// The node that reads it.
    pub node: NodeName,
    /// The folder, `/var/lib/vz/snippets`.
    pub path: String,
    /// Whether it is mounted on the control node, under this path (`vms_snippets_path`); otherwise it is on the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
}

impl Record {
    /// The first record of a VM.
    pub fn new(api_host: &str, api_port: u16, host: impl Into<String>, name: impl Into<String>, phase: Phase) -> Self {
        let name = name.into();
        let now = Timestamp::now();
        Self {
            schema: SCHEMA,
            key: VmKey::of(api_host, api_port, &name),
            cluster: cluster(api_host, api_port),
            host: host.into(),
            name,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            made: matches!(phase, Phase::Cloning { .. }),
            created: now,
            updated: now,
            deliveries: Vec::new(),
            phase,
        }
    }

    /// The same VM one step further, written by this version now.
    #[must_use]
    pub fn with(&self, phase: Phase) -> Self {
        Self {
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            updated: Timestamp::now(),
            phase,
            ..self.clone()
        }
    }

    /// The same VM as another host of the inventory: that one was renamed.
    #[must_use]
    pub fn of_host(&self, host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            ..self.with(self.phase.clone())
        }
    }

    /// Whether this is the record of a host of the inventory; names of hosts do not tell upper from lower case.
    pub fn is_of(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }

    /// The file's content.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, StateErrorKind> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|e| StateErrorKind::Corrupt(e.to_string()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads a file's content, which has to be the record of `key`.
    pub(super) fn from_bytes(bytes: &[u8], key: &VmKey) -> Result<Self, StateErrorKind> {
        /// The one field that every version has.
        #[derive(Deserialize)]
        struct Versioned {
            schema: u64,
        }
        let corrupt = |e: serde_json::Error| StateErrorKind::Corrupt(e.to_string());
        if bytes.is_empty() {
            return Err(StateErrorKind::Corrupt("the file is empty".to_owned()));
        }
        let Versioned { schema } = serde_json::from_slice(bytes).map_err(corrupt)?;
        if schema != SCHEMA {
            return Err(StateErrorKind::FutureVersion(schema));
        }
        let record: Self = serde_json::from_slice(bytes).map_err(corrupt)?;
        record.check(key)?;
        Ok(record)
    }

    /// Whether the record is that of `key`, inside as outside.
    pub(super) fn check(&self, key: &VmKey) -> Result<(), StateErrorKind> {
        let computed = VmKey::of_cluster(&self.cluster, &self.name);
        if self.key == *key && computed == *key {
            return Ok(());
        }
        Err(StateErrorKind::WrongKey {
            found: format!("{} in cluster {}", self.name, self.cluster),
            wanted: format!("key {key}"),
        })
    }
}

/// How far the VM came. Everything that cannot be repeated is written here before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Phase {
    /// A clone may have been requested. Whether it happened is told by the operation id in a VM's description.
    Cloning {
        /// The id that was asked for.
        vmid: VmId,
        /// The random id that the clone carries in its `description`.
        operation: Uuid,
        /// The template that is cloned.
        template: VmId,
        /// Where the template is.
        template_node: NodeName,
        /// The clone's task, once Proxmox told it.
        upid: Option<Upid>,
        /// When the intent was written.
        since: Timestamp,
    },
    /// The VM is there and ours.
    Created {
        /// Its id.
        vmid: VmId,
        /// Its SMBIOS UUID (`smbios1`), lower case.
        uuid: String,
        /// Where it was seen last: an observation, never identity.
        node: NodeName,
    },
    /// cloud-init has been judged. Never asked again: without its drive cloud-init says `disabled`.
    Initialized {
        /// Its id.
        vmid: VmId,
        /// Its SMBIOS UUID.
        uuid: String,
        /// Where it was seen last.
        node: NodeName,
        /// The verdict.
        verdict: String,
    },
    /// The cloud-init drive is being taken away.
    Finalizing {
        /// Its id.
        vmid: VmId,
        /// Its SMBIOS UUID.
        uuid: String,
        /// Where it was seen last.
        node: NodeName,
        /// The drive's slot, `ide2`.
        drive: String,
        /// The guest's boot id before the restart; once known it never changes, or the restart could not be proven.
        boot_id_before: Option<String>,
        /// The guest's host keys before, as `type base64`.
        host_keys: Vec<String>,
        /// The guest's addresses before.
        addresses: Vec<String>,
        /// What has been seen to be done.
        step: FinalizeStep,
    },
    /// Reached, initialized, finalized.
    Complete {
        /// Its id.
        vmid: VmId,
        /// Its SMBIOS UUID.
        uuid: String,
        /// Where it was seen last.
        node: NodeName,
        /// The guest's host keys.
        host_keys: Vec<String>,
        /// The guest's addresses.
        addresses: Vec<String>,
        /// When; for an adopted VM, when it was adopted.
        finished: Timestamp,
    },
    /// The VM is being taken away. The record goes when nothing of it is left.
    Removing {
        /// Its id.
        vmid: VmId,
        /// Its SMBIOS UUID.
        uuid: String,
        /// Where it was seen last.
        node: NodeName,
        /// The guest's host keys, for known_hosts.
        host_keys: Vec<String>,
        /// The guest's addresses, for DNS and known_hosts.
        addresses: Vec<String>,
        /// What has been seen to be done.
        step: RemoveStep,
        /// The destroying task, once Proxmox told it.
        upid: Option<Upid>,
        /// When the intent was written.
        since: Timestamp,
    },
}

/// What of the finalization has been seen to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinalizeStep {
    /// Nothing yet.
    Begun,
    /// cloud-init is switched off on the guest.
    CloudInitOff,
    /// The drive's removal is accepted: gone, or pending until the next power cycle.
    DriveRemoved,
    /// The VM was power-cycled.
    Restarted,
}

/// What of the removal has been seen to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemoveStep {
    /// Nothing yet: the VM may still run.
    Begun,
    /// The VM is stopped.
    Stopped,
    /// The VM is seen to be gone; DNS, snippets and known_hosts are being cleaned.
    Gone,
}

impl Phase {
    /// The VM's id.
    pub fn vmid(&self) -> VmId {
        match self {
            Self::Cloning { vmid, .. }
            | Self::Created { vmid, .. }
            | Self::Initialized { vmid, .. }
            | Self::Finalizing { vmid, .. }
            | Self::Complete { vmid, .. }
            | Self::Removing { vmid, .. } => *vmid,
        }
    }

    /// The VM's SMBIOS UUID; none while the clone has not been looked at.
    pub fn uuid(&self) -> Option<&str> {
        match self {
            Self::Cloning { .. } => None,
            Self::Created { uuid, .. }
            | Self::Initialized { uuid, .. }
            | Self::Finalizing { uuid, .. }
            | Self::Complete { uuid, .. }
            | Self::Removing { uuid, .. } => Some(uuid),
        }
    }

    /// Where the VM was seen last; none while the clone has not been looked at.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Cloning { .. } => None,
            Self::Created { node, .. }
            | Self::Initialized { node, .. }
            | Self::Finalizing { node, .. }
            | Self::Complete { node, .. }
            | Self::Removing { node, .. } => Some(node),
        }
    }

    /// The guest's addresses, as far as they were seen.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let seen: &[String] = match self {
            Self::Cloning { .. } | Self::Created { .. } | Self::Initialized { .. } => &[],
            Self::Finalizing { addresses, .. }
            | Self::Complete { addresses, .. }
            | Self::Removing { addresses, .. } => addresses,
        };
        seen.iter()
            .filter_map(|address| address.split('/').next()?.parse().ok())
    }

    /// The phase's name, as in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cloning { .. } => "cloning",
            Self::Created { .. } => "created",
            Self::Initialized { .. } => "initialized",
            Self::Finalizing { .. } => "finalizing",
            Self::Complete { .. } => "complete",
            Self::Removing { .. } => "removing",
        }
    }

    /// Whether a VM without a record may get this one: a clone is intended, or an existing VM is adopted.
    pub fn may_begin(&self) -> bool {
        match self {
            Self::Cloning { .. } | Self::Created { .. } | Self::Initialized { .. } | Self::Complete { .. } => true,
            Self::Finalizing { .. } | Self::Removing { .. } => false,
        }
    }

    /// Whether the record may be replaced by one in phase `next`.
    ///
    /// A phase may always be written again with newer observations (node, addresses, a task's UPID). vmid and UUID never
    /// change, except that a clone which provably did not happen is attempted anew under another vmid and operation.
    pub fn may_become(&self, next: &Self) -> bool {
        let same_uuid = match (self.uuid(), next.uuid()) {
            (Some(before), Some(after)) => before == after,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let same_vm = self.vmid() == next.vmid() && same_uuid;
        match (self, next) {
            (Self::Cloning { .. }, Self::Cloning { .. }) => true,
            (
                Self::Finalizing {
                    boot_id_before: before,
                    step,
                    ..
                },
                Self::Finalizing {
                    boot_id_before: after,
                    step: next_step,
                    ..
                },
            ) => same_vm && step <= next_step && (before.is_none() || before == after),
            (Self::Removing { step, .. }, Self::Removing { step: next_step, .. }) => same_vm && step <= next_step,
            (Self::Cloning { .. }, Self::Created { .. })
            | (Self::Created { .. }, Self::Created { .. } | Self::Initialized { .. } | Self::Removing { .. })
            | (Self::Initialized { .. }, Self::Initialized { .. } | Self::Finalizing { .. } | Self::Removing { .. })
            | (Self::Finalizing { .. }, Self::Complete { .. } | Self::Removing { .. })
            | (Self::Complete { .. }, Self::Complete { .. } | Self::Removing { .. }) => same_vm,
            (
                Self::Cloning { .. },
                Self::Initialized { .. } | Self::Finalizing { .. } | Self::Complete { .. } | Self::Removing { .. },
            )
            | (Self::Created { .. }, Self::Cloning { .. } | Self::Finalizing { .. } | Self::Complete { .. })
            | (Self::Initialized { .. }, Self::Cloning { .. } | Self::Created { .. } | Self::Complete { .. })
            | (Self::Finalizing { .. }, Self::Cloning { .. } | Self::Created { .. } | Self::Initialized { .. })
            | (
                Self::Complete { .. },
                Self::Cloning { .. } | Self::Created { .. } | Self::Initialized { .. } | Self::Finalizing { .. },
            )
            | (
                Self::Removing { .. },
                Self::Cloning { .. }
                | Self::Created { .. }
                | Self::Initialized { .. }
                | Self::Finalizing { .. }
                | Self::Complete { .. },
            ) => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
