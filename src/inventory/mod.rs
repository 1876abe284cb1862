//! Ansible inventories, read as Ansible reads them.

mod scalar;
pub mod value;
pub mod yaml;
