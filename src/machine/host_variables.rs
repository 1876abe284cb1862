//! The variables of a host of an inventory, as a machine is built from them.

use std::cell::RefCell;
use std::path::PathBuf;

use super::variables::Variables;
use crate::diagnose::Diagnostic;
use crate::inventory::value::{Data, Value};
use crate::inventory::{Inventory, Scope};
use crate::secret::Secret;

/// The secret texts (from vaults, or mixed with such) among the values that were looked at, for the redactor.
#[derive(Debug, Default)]
pub struct SecretsSeen(RefCell<Vec<Secret>>);

impl SecretsSeen {
    /// All of them.
    pub fn all(&self) -> Vec<Secret> {
        self.0.borrow().clone()
    }

    fn note(&self, value: &Value) {
        match &value.data {
            Data::Str(text) if value.secret => self.0.borrow_mut().push(Secret::new(text.to_string())),
            Data::List(items) => items.iter().for_each(|item| self.note(item)),
            Data::Map(entries) => entries.values().for_each(|entry| self.note(&entry.value)),
            Data::Null
            | Data::Bool(_)
            | Data::Int(_)
            | Data::Float(_)
            | Data::Str(_)
            | Data::Unsafe(_)
            | Data::Vault(_) => {}
        }
    }
}

/// One host of an inventory.
#[derive(Debug)]
pub struct HostVariables<'i> {
    inventory: &'i Inventory,
    host: String,
    scope: Scope<'i>,
    home: Option<PathBuf>,
    secrets: &'i SecretsSeen,
}

impl<'i> HostVariables<'i> {
    /// The variables of `host`; `home` is the user's home directory, for paths that begin with `~/`.
    pub fn new(inventory: &'i Inventory, host: &str, home: Option<PathBuf>, secrets: &'i SecretsSeen) -> Self {
        Self {
            inventory,
            host: host.to_owned(),
            scope: inventory.scope(host),
            home,
            secrets,
        }
    }
}

impl HostVariables<'_> {
    /// An entry of a mapping that is evaluated as a whole.
    fn whole(&self, name: &str, key: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(match self.scope.get(name)?.map(|value| value.data) {
            Some(Data::Map(mut map)) => map.swap_remove(key).map(|entry| entry.value),
            Some(_) | None => None,
        })
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
        let value = self.scope.get(name)?;
        if let Some(value) = &value {
            self.secrets.note(value);
        }
        Ok(value)
    }

    /// A mapping of all hosts, asked for each of them, is not evaluated as a whole every time.
    fn entry(&self, name: &str, key: &str) -> Result<Option<Value>, Diagnostic> {
        let value = match self.scope.raw(name).map(|value| &value.data) {
            Some(Data::Map(map)) => match map.get(key).map(|entry| &entry.value) {
                None => return Ok(None),
                Some(Value {
                    data: Data::Str(text),
                    place,
                    ..
                }) => Some(self.scope.render(text, place)?),
                Some(_) => self.whole(name, key)?,
            },
            Some(_) | None => self.whole(name, key)?,
        };
        if let Some(value) = &value {
            self.secrets.note(value);
        }
        Ok(value)
    }

    fn names(&self) -> Vec<String> {
        self.scope.names().into_iter().map(str::to_owned).collect()
    }

    fn of_host(&self, host: &str) -> Option<Box<dyn Variables + '_>> {
        let known = self.inventory.has_host(host);
        known.then(|| Box::new(Self::new(self.inventory, host, self.home.clone(), self.secrets)) as Box<dyn Variables>)
    }

    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }
}
