//! vmwright turns a line in an inventory into a running, verified virtual machine on Proxmox VE.
//!
//! The tour, in reading order:
//!
//! * [`workflow`]: provision, on one page each. Start here.
//! * [`stage`]: one file a stage: what it looks at (`observe`), what it changes (`act`).
//! * [`engine`]: the one function that runs a stage, the events it tells, many hosts at once.
//! * [`state`]: the lock, the record and the journal of a VM on disk.
//! * [`inventory`]: Ansible inventories, read as Ansible reads them; every value knows its place.
//! * [`machine`]: variables become a [`machine::Machine`], the typed desired state; every rule is checked there.
//! * [`proxmox`], [`guest`], [`dns`]: the doors to the world.
//! * [`cloud_init`]: rendering, checking and delivering the cloud-init documents.
//! * [`settings`], [`secret`], [`diagnose`]: the tool's own settings, secrets, and how anything is said to the user.
//! * [`cli`], [`ui`]: one file a verb; readers of events.
//! * [`simulator`]: a Proxmox cluster in one process, written against the API's facts and independent of the client.
//!
//! Dependencies run downwards only: `cli -> workflow -> stage -> {engine, machine, state, proxmox, guest, cloud_init,
//! dns}`, `machine -> inventory`. `ui` knows events and nothing else; `simulator` knows nothing of the client.

pub mod cli;
pub mod cloud_init;
pub mod diagnose;
pub mod dns;
pub mod engine;
pub mod guest;
pub mod inventory;
pub mod machine;
pub mod proxmox;
pub mod secret;
pub mod settings;
pub mod simulator;
pub mod stage;
pub mod state;
pub mod ui;
pub mod workflow;
