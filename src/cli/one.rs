//! Verbs that work on the record of one host: what they need, read and checked.

use std::sync::Arc;

use super::args::{Global, Sources};
use super::doors::Doors;
use super::embedded::Embedded;
use super::{Problems, doors, prepare, say};
use crate::diagnose::Diagnostic;
use crate::engine::cluster::Cluster;
use crate::machine::Machine;
use crate::state::{LockGuard, StateDir, VmKey};

/// One host, its cluster and its place in the state directory.
pub struct One {
    /// The desired state.
    pub machine: Machine,
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The state directory.
    pub state: StateDir,
    /// The VM's key in it.
    pub key: VmKey,
    /// What other hosts of the inventory want as well: name, number or address.
    pub duplicates: Problems,
    embedded: Option<Embedded>,
}

/// Reads inventory and settings, and opens the doors for one host.
pub async fn open(global: &Global, sources: &Sources, host: &str) -> Result<One, Problems> {
    let mut loaded = prepare::load(global, sources, global.overrides())?;
    let hosts = loaded.hosts(Some(host))?;
    let embedded = loaded.embedded(&hosts).await?;
    let mut machines = loaded.machines(&hosts)?;
    let duplicates = loaded.compare_with_others(&machines).err();
    let redactor = loaded.secrets(&machines);
    loaded.warnings.extend(doors::insecure(&machines));
    loaded.tell_warnings(&redactor);
    let (Some(machine), true) = (machines.pop(), machines.is_empty()) else {
        return Err(vec![Diagnostic::error(
            "cli/one-host",
            format!(
                "{host} selects {} hosts; records are changed one at a time",
                hosts.len()
            ),
        )]);
    };
    loaded.settle_state_dir(&hosts)?;
    let state = StateDir::open(&loaded.settings.state_dir.value).map_err(|error| vec![error.diagnostic()])?;
    say::diagnostics(&state.warnings().map_err(|error| vec![error.diagnostic()])?, &redactor);
    let cluster = Doors::default().cluster(&machine)?;
    let key = VmKey::of(&machine.cluster.host, machine.cluster.port, &machine.name);
    Ok(One {
        machine,
        cluster,
        state,
        key,
        duplicates: duplicates.unwrap_or_default(),
        embedded,
    })
}

impl One {
    /// Takes the VM's lock.
    pub fn lock(&self, verb: &str) -> Result<LockGuard, Problems> {
        let owner = self
            .state
            .owner(uuid::Uuid::now_v7(), format!("{verb} {}", self.machine.host));
        self.state
            .lock(&self.key, owner)
            .map_err(|error| vec![error.diagnostic(&self.machine.host, &self.machine.name)])
    }

    /// Ends the embedded cluster, where there is one.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
