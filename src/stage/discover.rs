//! Discover: one listing of the cluster, and the configuration of what may be the VM.
//!
//! "Not listed" counts as "absent" only if every node is online and the identity may see all VMs; the listing carries its
//! gaps, and ownership decides with them.

use crate::engine::cluster::{Listed, Listing};
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::Kind;
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
        let listing = run.listing().await?;
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
            if let Some(candidate) = read(run, listed).await? {
                named.push(candidate);
            }
        }
        let recorded = match run.phase().map(|phase| phase.vmid()) {
            Some(vmid) => recorded(run, &listing, &named, vmid).await?,
            None => None,
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

async fn recorded(
    run: &HostRun,
    listing: &Listing,
    named: &[Candidate],
    vmid: VmId,
) -> Result<Option<Candidate>, Failure> {
    if let Some(candidate) = named.iter().find(|candidate| candidate.listed.vmid == vmid) {
        return Ok(Some(candidate.clone()));
    }
    match listing.by_id(vmid) {
        Some(listed) if listed.kind == GuestKind::Qemu && listing.online(&listed.node) != Some(false) => {
            read(run, listed.clone()).await
        }
        Some(_) | None => Ok(None),
    }
}

/// The candidate with its configuration; `None` if it vanished since it was listed.
async fn read(run: &HostRun, listed: Listed) -> Result<Option<Candidate>, Failure> {
    match run.api().vm_config(&listed.node, listed.vmid, View::Current).await {
        Ok(config) => Ok(Some(Candidate { listed, config })),
        Err(error) if error.kind() == Kind::Missing => Ok(None),
        Err(error) => Err(error.into()),
    }
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
