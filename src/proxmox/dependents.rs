//! What hangs on a VM and would be lost with it, or stand in the way of its removal: snapshots, replication jobs, HA.
//!
//! Sources: qemu-server `API2/Qemu.pm` (`snapshot_list`: the live state is in the list as `current`), pve-manager
//! `API2/Replication.pm` (`status`, of one node, filtered by guest).

use serde::Deserialize;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::{NodeName, VmId};
use super::json;
use super::vm::vm;

impl Client {
    /// The names of a VM's snapshots, the live state left out.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Missing`] when it is not on this node; as every call.
    pub async fn snapshots(&self, node: &NodeName, vmid: VmId) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::text")]
            name: String,
        }
        let rows: Vec<Raw> = self.list(vm(node, vmid, "/snapshot"), Vec::new()).await?;
        Ok(rows
            .into_iter()
            .map(|row| row.name)
            .filter(|name| name != "current")
            .collect())
    }

    /// The ids of the replication jobs of a VM on its node.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn replication_jobs(&self, node: &NodeName, vmid: VmId) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::text")]
            id: String,
            #[serde(default, deserialize_with = "json::text")]
            guest: String,
        }
        let rows: Vec<Raw> = self
            .list(format!("/nodes/{node}/replication"), vec![param("guest", vmid)])
            .await?;
        let own = vmid.to_string();
        Ok(rows
            .into_iter()
            .filter(|row| row.guest == own || row.id.split('-').next() == Some(own.as_str()))
            .map(|row| row.id)
            .collect())
    }
}
