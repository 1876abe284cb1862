//! The embedded cluster, for inventories that ask for one with `vms_simulator`.

use super::Problems;
use crate::inventory::Inventory;

/// A running embedded cluster.
pub struct Embedded;

impl Embedded {
    /// Stops it and keeps its world.
    pub async fn stop(self) {}
}

/// Starts the embedded cluster if the hosts' inventory asks for one.
pub async fn start(_inventory: &Inventory, _hosts: &[String]) -> Result<Option<Embedded>, Problems> {
    Ok(None)
}
