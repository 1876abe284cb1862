//! Where the VM of a number is. "Not seen" is "gone" only after all of these:
//!
//! ```text
//!   listed, its configuration is read ------------------------------> Vm
//!   listed, and not to be read: a newer listing
//!      on another node: read there ---------------------------------> Vm
//!      still listed, and still not to be read ----------------------> Moving
//!      not listed: as below
//!   listed on a node that is offline -------------------------------> Away
//!   listed as a container ------------------------------------------> Container
//!   not listed, and the listing has gaps ---------------------------> Unknown
//!   not listed, but the number is not free -------------------------> Unknown: a guest that is hidden from the identity
//!   not listed, and the number is free -----------------------------> Gone
//! ```
//!
//! A configuration belongs to a node, so a VM that is migrated is for some seconds on neither (pmxcfs moves the file, and
//! requests may see the old state). An identity is not shown guests that it may not audit; its own privileges do not tell
//! of them either, since paths without any are left out there (pve-access-control, `get_effective_permissions`). But
//! `cluster/nextid` knows every number of the cluster, whoever asks.

use tokio::time::Instant;

use super::cluster::{Cluster, Listed, Listing};
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::{ApiError, Kind};
use crate::proxmox::ids::VmId;
use crate::proxmox::vm::View;

/// Where the guest of a number is.
#[derive(Clone, Debug)]
pub enum Whereabouts {
    /// A VM, with its configuration.
    Vm(Listed, VmConfig),
    /// A container.
    Container(Listed),
    /// On a node that is offline.
    Away(Listed),
    /// Listed, but no node has its configuration now.
    Moving(Listed),
    /// Nowhere, and its number is free.
    Gone,
    /// Not to be seen, which is not the same. Why.
    Unknown(Vec<String>),
}

impl Cluster {
    /// Where the guest of this number is, starting from a listing.
    ///
    /// # Errors
    /// What the API answers, but for "does not exist".
    pub async fn whereabouts(&self, listing: &Listing, vmid: VmId, view: View) -> Result<Whereabouts, ApiError> {
        let Some(listed) = listing.by_id(vmid) else {
            return self.absence(listing, vmid).await;
        };
        if let Some(found) = self.read(listing, listed, view).await? {
            return Ok(found);
        }
        let newer = self.listing(Instant::now()).await?;
        let Some(listed) = newer.by_id(vmid) else {
            return self.absence(&newer, vmid).await;
        };
        let found = self.read(&newer, listed, view).await?;
        Ok(found.unwrap_or_else(|| Whereabouts::Moving(listed.clone())))
    }

    /// What is listed; `None` for a VM whose configuration is not there.
    async fn read(&self, listing: &Listing, listed: &Listed, view: View) -> Result<Option<Whereabouts>, ApiError> {
        if listed.kind == GuestKind::Lxc {
            return Ok(Some(Whereabouts::Container(listed.clone())));
        }
        if listing.online(&listed.node) == Some(false) {
            return Ok(Some(Whereabouts::Away(listed.clone())));
        }
        match self.client.vm_config(&listed.node, listed.vmid, view).await {
            Ok(config) => Ok(Some(Whereabouts::Vm(listed.clone(), config))),
            Err(error) if error.kind() == Kind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn absence(&self, listing: &Listing, vmid: VmId) -> Result<Whereabouts, ApiError> {
        if !listing.gaps.is_empty() {
            return Ok(Whereabouts::Unknown(listing.gaps.clone()));
        }
        match self.client.next_id(Some(vmid)).await {
            Ok(_) => Ok(Whereabouts::Gone),
            Err(error) if matches!(error.kind(), Kind::Exists | Kind::Invalid) => {
                Ok(Whereabouts::Unknown(vec![format!(
                    "the number {vmid} is not free, but no guest of it is shown to this identity (VM.Audit on /vms/{vmid})"
                )]))
            }
            Err(error) => Err(error),
        }
    }
}
