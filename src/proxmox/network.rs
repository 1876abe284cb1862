//! The bridges of a node.

use serde::Deserialize;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::NodeName;
use super::json;

/// A bridge that the identity may use: a local one, an OVS bridge or a vnet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Bridge {
    /// Its name, `vmbr0`.
    pub iface: String,
    /// `bridge`, `OVSBridge` or `vnet`.
    #[serde(rename = "type", default, deserialize_with = "json::text")]
    pub kind: String,
    /// Whether it is up.
    #[serde(default, deserialize_with = "json::flag")]
    pub active: bool,
}

impl Client {
    /// The bridges of a node; those that the identity may not use are left out by Proxmox.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn bridges(&self, node: &NodeName) -> Result<Vec<Bridge>, ApiError> {
        self.list(format!("/nodes/{node}/network"), vec![param("type", "any_bridge")])
            .await
    }
}
