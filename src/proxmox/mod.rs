//! The Proxmox door.

pub mod ids;
