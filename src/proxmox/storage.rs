//! Storages: what a node has, where it is, what lies on it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

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

    /// How a storage is configured; `None` if there is none of the name, or the identity may not see it.
    ///
    /// The list is asked, not the one storage: the list tells every storage on which the identity has Datastore.Audit or
    /// Datastore.AllocateSpace, with path and folders, while `GET /storage/{storage}` wants Datastore.Allocate (pve-storage:
    /// `API2/Storage/Config.pm`).
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn storage_config(&self, storage: &StorageName) -> Result<Option<StorageConfig>, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default, deserialize_with = "json::text")]
            storage: String,
            #[serde(rename = "type", default, deserialize_with = "json::text")]
            kind: String,
            #[serde(default, deserialize_with = "json::opt_text")]
            path: Option<String>,
            #[serde(rename = "content-dirs", default)]
            content_dirs: Value,
            #[serde(default, deserialize_with = "json::list")]
            content: Vec<String>,
            #[serde(default, deserialize_with = "json::list")]
            nodes: Vec<String>,
            #[serde(default, deserialize_with = "json::flag")]
            disable: bool,
        }
        let all: Vec<Raw> = self.list("/storage".to_owned(), Vec::new()).await?;
        let found = all.into_iter().find(|raw| raw.storage == storage.as_str());
        Ok(found.map(|raw| StorageConfig {
            kind: raw.kind,
            path: raw.path,
            content_dirs: content_dirs(&raw.content_dirs),
            content: raw.content,
            nodes: raw.nodes,
            disabled: raw.disable,
        }))
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

/// `content-dirs`: `snippets=ci,iso=isos`, or the same as an object, as it was before it was written out as text.
fn content_dirs(value: &Value) -> BTreeMap<String, String> {
    match value {
        Value::String(text) => json::split_list(text)
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(content, dir)| (content.to_owned(), dir.to_owned()))
            .collect(),
        Value::Object(map) => map
            .iter()
            .filter_map(|(content, dir)| Some((content.clone(), dir.as_str()?.to_owned())))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn folders_are_read_as_text_and_as_an_object() {
        let wanted: BTreeMap<String, String> = [("snippets".to_owned(), "ci".to_owned())].into();
        let table = [
            (json!("snippets=ci"), wanted.clone()),
            (json!({"snippets": "ci"}), wanted),
            (json!(null), BTreeMap::new()),
            (json!("snippets"), BTreeMap::new()),
        ];
        for (value, want) in table {
            assert_eq!(content_dirs(&value), want, "{value}");
        }
    }
}
