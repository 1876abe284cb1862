//! Discover: one listing of the cluster, and the configuration of what may be the VM.
//!
//! "Not listed" counts as "absent" only if every node is online and the identity may see all VMs; the listing carries its
//! gaps, and ownership decides with them. A VM that is listed and not to be read is being moved: that is waited for.

use crate::diagnose::Diagnostic;
use crate::engine::cluster::{Listed, Listing};
use crate::engine::event::StageName;
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::ApiError;
use crate::proxmox::ids::VmId;
use crate::proxmox::vm::View;

/// A candidate: listed, with its configuration.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// As listed.
    pub listed: Listed,
    /// What it runs with (`config?current=1`).
    pub config: VmConfig,
}

/// Everything that the cluster shows under this name and under the number on record.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The whole listing.
    pub listing: Listing,
    /// VMs of the name, with their configuration; at most two are read, since two are one too many.
    pub named: Vec<Candidate>,
    /// Containers and templates of the name.
    pub wrong_kind: Vec<Listed>,
    /// VMs of the name on nodes that are offline: their configuration cannot be read.
    pub away: Vec<Listed>,
    /// The guest with the number on record.
    pub recorded: Option<Candidate>,
    _made: (),
}

/// The stage.
pub struct Discover;

impl Stage for Discover {
    const NAME: StageName = StageName::Discover;
    type Evidence = Discovered;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Discovered>, Failure> {
        let mut listing = run.listing().await?;
        let name = &run.machine.name;
        let (vms, wrong_kind): (Vec<Listed>, Vec<Listed>) = listing
            .named(name)
            .cloned()
            .partition(|guest| guest.kind == GuestKind::Qemu && !guest.template);
        let (away, vms): (Vec<Listed>, Vec<Listed>) = vms
            .into_iter()
            .partition(|guest| listing.online(&guest.node) == Some(false));
        let mut named = Vec::new();
        for listed in vms.into_iter().take(2) {
            match seen(run, &listing, listed.vmid).await? {
                Whereabouts::Vm(listed, config) => named.push(Candidate { listed, config }),
                // It was destroyed since it was listed.
                Whereabouts::Gone | Whereabouts::Container(_) => {}
                Whereabouts::Away(listed) | Whereabouts::Moving(listed) => return Err(moving(&listed)),
                Whereabouts::Unknown(gaps) => listing.gaps = gaps,
            }
        }
        let vmid = run.phase().map(|phase| phase.vmid());
        let by_name = named.iter().find(|candidate| Some(candidate.listed.vmid) == vmid);
        let recorded = match (by_name, vmid) {
            (Some(candidate), _) => Some(candidate.clone()),
            (None, None) => None,
            (None, Some(vmid)) => match seen(run, &listing, vmid).await? {
                Whereabouts::Vm(listed, config) => Some(Candidate { listed, config }),
                Whereabouts::Gone | Whereabouts::Container(_) | Whereabouts::Away(_) => None,
                Whereabouts::Moving(listed) => return Err(moving(&listed)),
                Whereabouts::Unknown(gaps) => {
                    listing.gaps = gaps;
                    None
                }
            },
        };
        Ok(Seen::Done(Discovered {
            listing,
            named,
            wrong_kind,
            away,
            recorded,
            _made: (),
        }))
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, found: &Discovered) -> String {
        match (found.named.as_slice(), &found.recorded) {
            ([], None) if found.listing.gaps.is_empty() => "no such VM".to_owned(),
            ([], None) => "no such VM seen".to_owned(),
            ([one], _) => format!("VM {} on {}", one.listed.vmid, one.listed.node),
            ([], Some(one)) => format!("VM {} on {} by its number", one.listed.vmid, one.listed.node),
            (several, _) => format!("{} VMs of this name", several.len()),
        }
    }
}

async fn seen(run: &HostRun, listing: &Listing, vmid: VmId) -> Result<Whereabouts, ApiError> {
    run.cluster.whereabouts(listing, vmid, View::Current).await
}

/// A VM that is neither here nor there, for now.
pub(crate) fn moving(listed: &Listed) -> Failure {
    Failure::new(
        Diagnostic::error(
            "discover/moving",
            format!(
                "VM {} is listed on {}, but has no configuration there",
                listed.vmid, listed.node
            ),
        )
        .rule("a VM that is being moved to another node is not gone; nothing was touched")
        .help("wait for its migration to end, then run the same command again"),
    )
    .retry(Retry::Doubt)
}

#[cfg(test)]
impl Discovered {
    /// As if it had been discovered.
    pub(crate) fn of(
        listing: Listing,
        named: Vec<Candidate>,
        wrong_kind: Vec<Listed>,
        away: Vec<Listed>,
        recorded: Option<Candidate>,
    ) -> Self {
        Self {
            listing,
            named,
            wrong_kind,
            away,
            recorded,
            _made: (),
        }
    }
}
