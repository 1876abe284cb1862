//! The narrow view of an inventory that a machine is built from: the variables of one host, templated.
//!
//! The inventory's scope implements it; tests and tools may bring their own.

use std::path::PathBuf;

use crate::diagnose::Diagnostic;
pub use crate::inventory::value::{Data, Entry, Value};

/// The variables of one host.
pub trait Variables {
    /// `inventory_hostname`.
    fn host(&self) -> &str;

    /// The groups that the host is in, as Ansible's `group_names`: sorted, without `all`.
    fn groups(&self) -> Vec<String>;

    /// The value of a variable, fully templated; `None` where it is not defined.
    ///
    /// # Errors
    ///
    /// A template that cannot be evaluated: an undefined variable, a loop, a syntax error.
    fn get(&self, name: &str) -> Result<Option<Value>, Diagnostic>;

    /// One entry of a variable that is a mapping; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Variables::get`].
    fn entry(&self, name: &str, key: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(match self.get(name)?.map(|value| value.data) {
            Some(Data::Map(mut map)) => map.swap_remove(key).map(|entry| entry.value),
            Some(_) | None => None,
        })
    }

    /// The names of all variables that are defined for the host.
    fn names(&self) -> Vec<String>;

    /// The variables of another host of the same inventory; `None` where there is no such host. A Proxmox node may be one.
    fn of_host(&self, host: &str) -> Option<Box<dyn Variables + '_>>;

    /// The user's home directory, for paths that begin with `~/`.
    fn home(&self) -> Option<PathBuf> {
        None
    }
}
