//! The stages, in the order of the workflow: one file a stage, with what it looks at and what it changes.
//!
//! Evidence types have no public constructor: only the stage that proves a thing can make the evidence of it, so a stage
//! out of order does not compile. Stages decide in pure functions and do in thin ones; they print nothing.

pub mod adopt;
pub mod clone;
pub mod cloud_init;
pub mod discover;
pub mod dns;
pub mod finalize;
pub mod forget;
pub mod hardware;
pub mod lock;
pub mod migrate;
pub mod node_access;
pub mod ownership;
pub mod protect;
pub mod readiness;
pub mod remove;
pub mod snippets;
pub mod start;
pub mod trust;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::failure::Failure;
use crate::proxmox::config::VmConfig;
use crate::proxmox::ids::{NodeName, VmId};

/// Whether what Proxmox shows under the VM's number is still that VM; asked before writes that happen long after ownership
/// was decided. A number whose VM was destroyed may be given away again.
pub(crate) fn still_ours(vm: &Vm, name: &str, config: &VmConfig) -> Result<(), Failure> {
    if config.name() == Some(name) && config.smbios_uuid().as_deref() == Some(vm.uuid.as_str()) {
        return Ok(());
    }
    let seen = config.smbios_uuid();
    Err(Failure::new(
        Diagnostic::error(
            "ownership/changed",
            format!("VM {} on {} is not {name} any more", vm.vmid, vm.node),
        )
        .note(None, format!("name and SMBIOS UUID on record: {name}, {}", vm.uuid))
        .note(
            None,
            format!(
                "name and SMBIOS UUID in Proxmox: {}, {}",
                config.name().unwrap_or("none"),
                seen.as_deref().unwrap_or("none")
            ),
        )
        .rule("ownership is proven again before each write that destroys; nothing was changed here")
        .exit(Exit::Refused),
    ))
}

/// The same for calls that show the name only.
pub(crate) fn still_named(vm: &Vm, name: &str, seen: &str) -> Result<(), Failure> {
    if seen == name {
        return Ok(());
    }
    Err(Failure::new(
        Diagnostic::error(
            "ownership/changed",
            format!("VM {} on {} is called {seen} now, not {name}", vm.vmid, vm.node),
        )
        .rule("a VM that is not surely ours is not touched")
        .exit(Exit::Refused),
    ))
}

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
