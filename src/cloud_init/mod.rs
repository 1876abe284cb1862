//! The two cloud-init documents of a guest: rendered from templates, read back and checked before they are sent.
//!
//! ```text
//! Machine --(template)--> text --(read as YAML 1.1)--> checked against cloud-init's rules --> Documents
//! ```
//!
//! * [`emit`] writes every value of a template as YAML that a YAML 1.1 reader, which cloud-init is, reads back as
//!   exactly that value. A template cannot forget it: it is how `{{ value }}` prints.
//! * [`mod@render`] has the templates (`templates/*.j2`, in the binary, or a directory of the user's) and what they may use.
//! * [`user_data`] and [`network_data`] hold cloud-init's rules. cloud-init itself says little: 22.4 reports `done` for a
//!   user-data that it could not even parse. So a document that breaks a rule never leaves this module.
//!
//! Nothing here talks to the world but for reading the user's own templates.

pub mod emit;
pub mod network_data;
pub mod render;
mod rules;
pub mod user_data;

use crate::diagnose::Diagnostic;
use crate::machine::Machine;

pub use render::{render, render_masked};

/// The two documents of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// Who the guest is: begins with `#cloud-config`.
    pub user_data: String,
    /// Its network, version 2.
    pub network_data: String,
}

/// The most that Proxmox reads of one snippet, in bytes (qemu-server: `PVE::QemuServer::Cloudinit`).
pub const MAX_BYTES: usize = 1024 * 1024;

/// The names of the two snippets, by the VM's name in Proxmox.
pub fn file_names(machine: &Machine) -> (String, String) {
    (
        format!("{}-user-data-ci.yml", machine.name),
        format!("{}-network-data-ci.yml", machine.name),
    )
}

/// Checks both documents against cloud-init's rules; `names` are told as their file names.
pub fn validate(documents: &Documents, names: (&str, &str)) -> Vec<Diagnostic> {
    let mut problems = user_data::check(&documents.user_data, names.0);
    problems.extend(network_data::check(&documents.network_data, names.1));
    problems
}
