//! The stages, in the order of the workflow: one file a stage, with what it looks at and what it changes.
//!
//! Evidence types have no public constructor: only the stage that proves a thing can make the evidence of it, so a stage
//! out of order does not compile. Stages decide in pure functions and do in thin ones; they print nothing.

pub mod clone;
pub mod cloud_init;
pub mod discover;
pub mod dns;
pub mod finalize;
pub mod hardware;
pub mod lock;
pub mod migrate;
pub mod node_access;
pub mod ownership;
pub mod readiness;
pub mod snippets;
pub mod start;
pub mod trust;

use crate::proxmox::ids::{NodeName, VmId};

/// A VM of ours: number, identity, and where it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its number.
    pub vmid: VmId,
    /// Its SMBIOS UUID, lower case.
    pub uuid: String,
    /// The node it is on.
    pub node: NodeName,
}

impl std::fmt::Display for Vm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VM {} on {}", self.vmid, self.node)
    }
}
