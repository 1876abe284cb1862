//! The cluster as a whole: version, nodes, who may what, which guests there are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::{NodeName, VmId};
use super::json;

/// The version of the node that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `9.2.11`.
    pub version: String,
    /// `9.2`.
    pub release: String,
    /// `9`.
    pub major: u32,
}

/// Nodes and quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Whether the cluster can be written to; `None` on a host that is in no cluster.
    pub quorate: Option<bool>,
    /// The nodes, as the cluster sees them.
    pub nodes: Vec<ClusterNode>,
}

/// A node as the cluster sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: NodeName,
    /// Whether it takes part.
    pub online: bool,
    /// Its address in the cluster network.
    pub ip: Option<String>,
    /// Whether it is the node that answered.
    pub local: bool,
}

/// A node with its resources. Without Sys.Audit on it, and while it is offline, the numbers are missing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeInfo {
    /// Its name.
    pub node: NodeName,
    /// `online`, `offline` or `unknown`.
    #[serde(default, deserialize_with = "json::text")]
    pub status: String,
    /// Memory, in bytes.
    #[serde(default, deserialize_with = "json::opt_number")]
    pub maxmem: Option<u64>,
    /// Memory in use, in bytes.
    #[serde(default, deserialize_with = "json::opt_number")]
    pub mem: Option<u64>,
    /// Processors.
    #[serde(default, deserialize_with = "json::opt_number")]
    pub maxcpu: Option<u32>,
    /// SHA-256 of the certificate that it shows, `AA:BB:...`.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub ssl_fingerprint: Option<String>,
}

/// VM or container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestKind {
    /// A VM.
    Qemu,
    /// A container.
    Lxc,
}

/// A guest in the cluster's overview.
///
/// Number, node, kind, lock, tags and pool are current; name, status and template are up to 10 s old and may be another
/// guest's that had the number before (pve-manager: `cluster/resources` mixes pmxcfs and broadcast data).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VmResource {
    /// Its number.
    #[serde(deserialize_with = "json::parsed")]
    pub vmid: VmId,
    /// The node that it is on.
    pub node: NodeName,
    /// VM or container.
    #[serde(rename = "type")]
    pub kind: GuestKind,
    /// Its name, once the node has told it.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub name: Option<String>,
    /// QEMU's state: `running`, `stopped`, `paused`, ...; `unknown` until the node has told it.
    #[serde(default, deserialize_with = "json::text")]
    pub status: String,
    /// Whether it is a template.
    #[serde(default, deserialize_with = "json::flag")]
    pub template: bool,
    /// Its lock, `clone`, `migrate`, ...
    #[serde(default, deserialize_with = "json::opt_text")]
    pub lock: Option<String>,
    /// Its pool.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub pool: Option<String>,
    /// Its tags.
    #[serde(default, deserialize_with = "json::list")]
    pub tags: Vec<String>,
}

impl Client {
    /// The version of the node that answers.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn version(&self) -> Result<Version, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::text")]
            version: String,
            #[serde(default, deserialize_with = "json::text")]
            release: String,
        }
        self.get_with("/version".to_owned(), Vec::new(), |data| {
            let Raw { version, release } = json::from_value(data)?;
            let major = version.split(['.', '-']).next().and_then(|text| text.parse().ok());
            let major = major.ok_or_else(|| format!("{version:?} is no version"))?;
            Ok(Version {
                version,
                release,
                major,
            })
        })
        .await
    }

    /// Nodes and quorum. Needs Sys.Audit on `/`.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn cluster_status(&self) -> Result<ClusterStatus, ApiError> {
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all = "lowercase")]
        enum Raw {
            Cluster {
                #[serde(default, deserialize_with = "json::flag")]
                quorate: bool,
            },
            Node {
                name: NodeName,
                #[serde(default, deserialize_with = "json::flag")]
                online: bool,
                #[serde(default, deserialize_with = "json::opt_text")]
                ip: Option<String>,
                #[serde(default, deserialize_with = "json::flag")]
                local: bool,
            },
        }
        self.get_with("/cluster/status".to_owned(), Vec::new(), |data| {
            let mut status = ClusterStatus {
                quorate: None,
                nodes: Vec::new(),
            };
            for entry in json::entries(data)? {
                match entry {
                    Raw::Cluster { quorate } => status.quorate = Some(quorate),
                    Raw::Node {
                        name,
                        online,
                        ip,
                        local,
                    } => status.nodes.push(ClusterNode {
                        name,
                        online,
                        ip,
                        local,
                    }),
                }
            }
            Ok(status)
        })
        .await
    }

    /// The nodes with their resources.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, ApiError> {
        self.list("/nodes".to_owned(), Vec::new()).await
    }

    /// The privileges of the identity that asks: path, privilege, and whether it goes down to the paths below. A privilege
    /// that is listed is granted, whatever its flag; a deeper path replaces what it would inherit
    /// (pve-access-control: `roles`).
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn permissions(&self, path: Option<&str>) -> Result<BTreeMap<String, BTreeMap<String, bool>>, ApiError> {
        let params = path.map(|path| param("path", path)).into_iter().collect();
        self.get_with("/access/permissions".to_owned(), params, |data| {
            let raw: BTreeMap<String, BTreeMap<String, Value>> = match data {
                // Perl writes an empty hash as an empty list where nobody filled it.
                Value::Null => BTreeMap::new(),
                Value::Array(list) if list.is_empty() => BTreeMap::new(),
                other => json::from_value(other)?,
            };
            raw.into_iter()
                .map(|(path, privileges)| {
                    let privileges: Result<BTreeMap<String, bool>, String> = privileges
                        .into_iter()
                        .map(|(name, flag)| Ok((name, json::is_true(&flag)?)))
                        .collect();
                    Ok((path, privileges?))
                })
                .collect()
        })
        .await
    }

    /// Every guest that the identity may see, on all nodes; see [`VmResource`] for how fresh this is.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn resources_vm(&self) -> Result<Vec<VmResource>, ApiError> {
        self.list("/cluster/resources".to_owned(), vec![param("type", "vm")])
            .await
    }

    /// The lowest free VM id, or `wanted` if it is free. Nothing is reserved: the clone decides.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Exists`] if `wanted` is taken; as every call.
    pub async fn next_id(&self, wanted: Option<VmId>) -> Result<VmId, ApiError> {
        let params = wanted.map(|vmid| param("vmid", vmid)).into_iter().collect();
        self.get_with("/cluster/nextid".to_owned(), params, |data| {
            let text = json::plain(&data)?.unwrap_or_default();
            text.parse().map_err(|error: super::ids::InvalidId| error.to_string())
        })
        .await
    }
}
