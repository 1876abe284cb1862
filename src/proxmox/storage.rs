//! Storages: what a node has, where it is, what lies on it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::{NodeName, StorageName, VmId};
use super::json;

/// A storage as a node has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StorageInfo {
    /// Its id.
    pub storage: StorageName,
    /// `dir`, `lvmthin`, `zfspool`, `nfs`, ...
    #[serde(rename = "type", default, deserialize_with = "json::text")]
    pub kind: String,
    /// What it takes: `images`, `snippets`, `iso`, ...
    #[serde(default, deserialize_with = "json::list")]
    pub content: Vec<String>,
    /// Whether all its nodes see the same content.
    #[serde(default, deserialize_with = "json::flag")]
    pub shared: bool,
    /// Whether it is enabled, and for this node.
    #[serde(default, deserialize_with = "json::flag")]
    pub enabled: bool,
    /// Whether it could be activated.
    #[serde(default, deserialize_with = "json::flag")]
    pub active: bool,
    /// Bytes in all; 0 when it is not active.
    #[serde(default, deserialize_with = "json::number")]
    pub total: u64,
    /// Bytes in use.
    #[serde(default, deserialize_with = "json::number")]
    pub used: u64,
    /// Bytes free.
    #[serde(default, deserialize_with = "json::number")]
    pub avail: u64,
}

/// A storage as the cluster has it configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageConfig {
    /// `dir`, `nfs`, ...
    pub kind: String,
    /// Its folder, where it has one.
    pub path: Option<String>,
    /// Folders below it that differ from the default, by content type: `snippets` to `custom/snippets`.
    pub content_dirs: BTreeMap<String, String>,
    /// What it takes.
    pub content: Vec<String>,
    /// The nodes that have it; empty means all.
    pub nodes: Vec<String>,
    /// Whether it is switched off.
    pub disabled: bool,
}

/// A volume on a storage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// `local:snippets/web-0-user-data-ci.yml`, `vmdata:100/vm-100-disk-0.qcow2`.
    pub volid: String,
    /// Bytes.
    #[serde(default, deserialize_with = "json::number")]
    pub size: u64,
    /// `qcow2`, `raw`, `snippet`, ...
    #[serde(default, deserialize_with = "json::text")]
    pub format: String,
    /// `images`, `snippets`, ...
    #[serde(default, deserialize_with = "json::text")]
    pub content: String,
    /// The VM that owns it.
    #[serde(default, deserialize_with = "json::opt_parsed")]
    pub vmid: Option<VmId>,
    /// What a linked clone's volume is based on, in the storage's own words: `../9000/base-9000-disk-0.qcow2`,
    /// `base-9000-disk-0@__base__`.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub parent: Option<String>,
}

impl Client {
    /// The storages of a node that the identity may use. Proxmox activates each of them, so one that hangs may let this
    /// fail.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn storages(&self, node: &NodeName) -> Result<Vec<StorageInfo>, ApiError> {
        self.list(format!("/nodes/{node}/storage"), Vec::new()).await
    }

    /// How a storage is configured.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn storage_config(&self, storage: &StorageName) -> Result<StorageConfig, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(rename = "type", default, deserialize_with = "json::text")]
            kind: String,
            #[serde(default, deserialize_with = "json::opt_text")]
            path: Option<String>,
            #[serde(rename = "content-dirs", default, deserialize_with = "json::list")]
            content_dirs: Vec<String>,
            #[serde(default, deserialize_with = "json::list")]
            content: Vec<String>,
            #[serde(default, deserialize_with = "json::list")]
            nodes: Vec<String>,
            #[serde(default, deserialize_with = "json::flag")]
            disable: bool,
        }
        self.get_with(format!("/storage/{storage}"), Vec::new(), |data| {
            let Raw {
                kind,
                path,
                content_dirs,
                content,
                nodes,
                disable,
            } = json::from_value(data)?;
            let content_dirs = content_dirs
                .iter()
                .filter_map(|pair| pair.split_once('='))
                .map(|(content, dir)| (content.to_owned(), dir.to_owned()))
                .collect();
            Ok(StorageConfig {
                kind,
                path,
                content_dirs,
                content,
                nodes,
                disabled: disable,
            })
        })
        .await
    }

    /// What lies on a storage, of one content type or of one VM if wanted. Snippets are seen with Datastore.Allocate only.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn content(
        &self,
        node: &NodeName,
        storage: &StorageName,
        content: Option<&str>,
        vmid: Option<VmId>,
    ) -> Result<Vec<Volume>, ApiError> {
        let params = content
            .map(|content| param("content", content))
            .into_iter()
            .chain(vmid.map(|vmid| param("vmid", vmid)))
            .collect();
        self.list(format!("/nodes/{node}/storage/{storage}/content"), params)
            .await
    }
}
