//! What the hosts of one run share about a cluster: the client, one listing, the ids that are already promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::proxmox::client::Client;
use crate::proxmox::cluster::{ClusterStatus, GuestKind};
use crate::proxmox::error::{ApiError, Kind};
use crate::proxmox::ids::{NodeName, VmId};

/// How long a VM may be on no node while it moves.
const ARRIVAL: Duration = Duration::from_secs(2);

/// One guest of the cluster, VM or container, by its live name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub vmid: VmId,
    /// The node that it is on.
    pub node: NodeName,
    /// VM or container.
    pub kind: GuestKind,
    /// Its name; `None` when only the cluster's stale overview has it and does not tell yet.
    pub name: Option<String>,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs.
    pub running: bool,
}

/// Everything that was seen at one moment, and whether that is everything there is.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The guests.
    pub guests: Vec<Listed>,
    /// The cluster's own view of its nodes.
    pub status: ClusterStatus,
    /// Why a guest may exist that is not listed; empty if the listing is complete. "Not seen" is "absent" only then.
    pub gaps: Vec<String>,
}

impl Listing {
    /// All guests of this name.
    pub fn named<'l>(&'l self, name: &'l str) -> impl Iterator<Item = &'l Listed> {
        self.guests
            .iter()
            .filter(move |guest| guest.name.as_deref() == Some(name))
    }

    /// The guest of this number.
    pub fn by_id(&self, vmid: VmId) -> Option<&Listed> {
        self.guests.iter().find(|guest| guest.vmid == vmid)
    }

    /// Whether a node is online; `None` for a node that the cluster does not know.
    pub fn online(&self, node: &NodeName) -> Option<bool> {
        self.status
            .nodes
            .iter()
            .find(|known| known.name == *node)
            .map(|known| known.online)
    }
}

/// The privileges of the identity: path, privilege, whether it propagates.
pub type Permissions = BTreeMap<String, BTreeMap<String, bool>>;

/// What the hosts of a run share about one cluster.
pub struct Cluster {
    /// The client.
    pub client: Client,
    /// The operator vouches that the identity sees everything.
    assume_full_visibility: bool,
    listing: tokio::sync::Mutex<Option<(Instant, Listing)>>,
    permissions: tokio::sync::OnceCell<Option<Permissions>>,
    promised: Mutex<BTreeSet<VmId>>,
}

impl Cluster {
    /// A cluster behind this client.
    pub fn new(client: Client, assume_full_visibility: bool) -> Self {
        Self {
            client,
            assume_full_visibility,
            listing: tokio::sync::Mutex::new(None),
            permissions: tokio::sync::OnceCell::new(),
            promised: Mutex::new(BTreeSet::new()),
        }
    }

    /// A listing that was asked for at or after `since`. Hosts that need one at the same time share it.
    pub async fn listing(&self, since: Instant) -> Result<Listing, ApiError> {
        let mut held = self.listing.lock().await;
        if let Some((asked, listing)) = held.as_ref()
            && *asked >= since
        {
            return Ok(listing.clone());
        }
        let mut asked = Instant::now();
        let (mut listing, mut unnamed) = self.list().await?;
        // A VM that moves is on no node for a moment: its name comes.
        let begun = asked;
        while !unnamed.is_empty() && begun.elapsed() < ARRIVAL {
            tokio::time::sleep(Duration::from_millis(250)).await;
            asked = Instant::now();
            (listing, unnamed) = self.list().await?;
        }
        listing.gaps.extend(unnamed);
        *held = Some((asked, listing.clone()));
        Ok(listing)
    }

    /// The identity's privileges, asked once a run; `None` if this API cannot tell.
    pub async fn permissions(&self) -> Result<Option<&Permissions>, ApiError> {
        let permissions = self
            .permissions
            .get_or_try_init(|| async {
                match self.client.permissions(None).await {
                    Ok(permissions) => Ok(Some(permissions)),
                    Err(error) if error.kind() == Kind::NotImplemented => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .await?;
        Ok(permissions.as_ref())
    }

    /// The cluster overview tells which ids exist and where (from pmxcfs, current); names come from each online node,
    /// since the overview's are up to 10 s old (pve-manager: `cluster/resources` mixes pmxcfs and RRD data).
    ///
    /// Beside the listing: the guests whose names are not to be had, each as a gap.
    async fn list(&self) -> Result<(Listing, Vec<String>), ApiError> {
        let (resources, status, permissions) = tokio::try_join!(
            self.client.resources_vm(),
            self.client.cluster_status(),
            self.permissions()
        )?;
        let mut gaps = Vec::new();
        let mut nodes: BTreeSet<NodeName> = resources.iter().map(|resource| resource.node.clone()).collect();
        for node in &status.nodes {
            if node.online {
                nodes.insert(node.name.clone());
            } else {
                nodes.remove(&node.name);
                gaps.push(format!("node {} is offline", node.name));
            }
        }
        let live = futures_util::future::try_join_all(nodes.iter().map(|node| self.client.node_vms(node))).await?;
        let mut guests: BTreeMap<VmId, Listed> = resources
            .into_iter()
            .map(|resource| {
                let listed = Listed {
                    vmid: resource.vmid,
                    node: resource.node,
                    kind: resource.kind,
                    name: resource.name,
                    template: resource.template,
                    running: resource.status != "stopped",
                };
                (listed.vmid, listed)
            })
            .collect();
        for (node, vms) in nodes.into_iter().zip(live) {
            for vm in vms {
                let listed = Listed {
                    vmid: vm.vmid,
                    node: node.clone(),
                    kind: GuestKind::Qemu,
                    name: Some(vm.name),
                    template: vm.template,
                    running: vm.status == "running",
                };
                guests.insert(listed.vmid, listed);
            }
        }
        let mut unnamed = Vec::new();
        for guest in guests.values() {
            if guest.kind == GuestKind::Qemu && guest.name.is_none() && status_online(&status, &guest.node) {
                unnamed.push(format!(
                    "VM {} tells no name yet (it moves or is being made)",
                    guest.vmid
                ));
            }
        }
        match permissions {
            _ if self.assume_full_visibility => {}
            Some(permissions) if sees_all(permissions) => {}
            Some(_) => gaps.push("the identity lacks VM.Audit on /vms (with propagation), so VMs may be hidden from it".to_owned()),
            None => gaps.push(
                "this API does not tell the identity's privileges; if it sees every VM, set vms_assume_full_visibility: true"
                    .to_owned(),
            ),
        }
        let guests = guests.into_values().collect();
        Ok((Listing { guests, status, gaps }, unnamed))
    }

    /// Keeps an id that an earlier run wrote down from the other hosts of this run.
    pub fn hold_id(&self, vmid: VmId) {
        self.promised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(vmid);
    }

    /// Promises the lowest free id at or above the cluster's own proposal, so that hosts of this run do not race.
    pub async fn promise_id(&self, wanted: Option<VmId>) -> Result<VmId, ApiError> {
        if let Some(wanted) = wanted {
            let vmid = self.client.next_id(Some(wanted)).await?;
            self.promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(vmid);
            return Ok(vmid);
        }
        let mut candidate = self.client.next_id(None).await?;
        loop {
            let fresh = self
                .promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(candidate);
            if fresh {
                return Ok(candidate);
            }
            // Somebody of this run has it already: the next number, if the cluster agrees that it is free.
            loop {
                candidate = match VmId::try_from(candidate.get() + 1) {
                    Ok(next) => next,
                    Err(_) => return self.client.next_id(None).await,
                };
                let taken = self
                    .promised
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .contains(&candidate);
                if taken {
                    continue;
                }
                match self.client.next_id(Some(candidate)).await {
                    Ok(_) => break,
                    Err(error) if matches!(error.kind(), Kind::Exists | Kind::Invalid) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

fn status_online(status: &ClusterStatus, node: &NodeName) -> bool {
    status.nodes.iter().any(|known| known.name == *node && known.online)
}

/// Whether the identity may see every VM: VM.Audit on `/vms` or `/`, with propagation, and nowhere below `/vms` a path
/// without it (an ACL on a deeper path replaces what it would inherit).
fn sees_all(permissions: &Permissions) -> bool {
    let audits = |path: &str| {
        permissions
            .get(path)
            .and_then(|privileges| privileges.get("VM.Audit"))
            .copied()
    };
    let general = audits("/vms").or_else(|| audits("/")) == Some(true);
    general
        && permissions
            .iter()
            .filter(|(path, _)| path.starts_with("/vms/"))
            .all(|(_, privileges)| privileges.contains_key("VM.Audit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(paths: &[(&str, &[(&str, bool)])]) -> Permissions {
        paths
            .iter()
            .map(|(path, privileges)| {
                (
                    (*path).to_owned(),
                    privileges
                        .iter()
                        .map(|(name, flag)| ((*name).to_owned(), *flag))
                        .collect(),
                )
            })
            .collect()
    }

    #[test]
    fn only_a_propagating_audit_without_holes_sees_all() {
        assert!(sees_all(&permissions(&[("/vms", &[("VM.Audit", true)])])));
        assert!(sees_all(&permissions(&[("/", &[("VM.Audit", true)])])));
        assert!(!sees_all(&permissions(&[("/vms", &[("VM.Audit", false)])])));
        assert!(!sees_all(&permissions(&[
            ("/vms", &[("VM.Audit", true)]),
            ("/vms/105", &[("VM.Clone", true)])
        ])));
        assert!(!sees_all(&permissions(&[("/pool/ci", &[("VM.Audit", true)])])));
    }
}
