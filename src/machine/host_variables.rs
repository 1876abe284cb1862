//! The variables of a host of an inventory, as a machine is built from them.

use std::path::PathBuf;

use super::variables::Variables;
use crate::diagnose::Diagnostic;
use crate::inventory::value::Value;
use crate::inventory::{Inventory, Scope};

/// One host of an inventory.
#[derive(Debug)]
pub struct HostVariables<'i> {
    inventory: &'i Inventory,
    host: String,
    scope: Scope<'i>,
    home: Option<PathBuf>,
}

impl<'i> HostVariables<'i> {
    /// The variables of `host`; `home` is the user's home directory, for paths that begin with `~/`.
    pub fn new(inventory: &'i Inventory, host: &str, home: Option<PathBuf>) -> Self {
        Self {
            inventory,
            host: host.to_owned(),
            scope: inventory.scope(host),
            home,
        }
    }
}

impl Variables for HostVariables<'_> {
    fn host(&self) -> &str {
        &self.host
    }

    fn groups(&self) -> Vec<String> {
        self.inventory.groups_of(&self.host)
    }

    fn get(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        self.scope.get(name)
    }

    fn names(&self) -> Vec<String> {
        self.scope.names().into_iter().map(str::to_owned).collect()
    }

    fn of_host(&self, host: &str) -> Option<Box<dyn Variables + '_>> {
        let known = self.inventory.has_host(host);
        known.then(|| Box::new(Self::new(self.inventory, host, self.home.clone())) as Box<dyn Variables>)
    }

    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }
}
