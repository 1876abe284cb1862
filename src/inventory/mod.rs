//! Ansible inventories, read as Ansible reads them.

mod groups;
pub mod host_pattern;
pub mod ini;
pub mod literal;
mod scalar;
mod script;
pub mod value;
pub mod vault;
pub mod words;
pub mod yaml;
mod yaml_source;
