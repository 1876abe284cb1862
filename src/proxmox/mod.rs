//! The Proxmox door.

pub mod boot;
pub mod config;
pub mod drive;
pub mod ids;
pub mod nic;
pub mod property;
pub mod size;
