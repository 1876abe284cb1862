//! Ownership: whose the VM is, and what is left to do. A pure table over the record and what was discovered.
//!
//! ```text
//!   record              cluster                          decision
//!   ------------------  -------------------------------  -------------------------------------------
//!   none                no VM, listing complete          New
//!   none                no VM, listing incomplete        refuse: unknown is not absent
//!   none                VM of the name                   refuse: not ours
//!   any                 container/template of the name   refuse: wrong kind
//!   any                 two VMs of the name              refuse: ambiguous
//!   of another host     (whatever)                       refuse: see [`host`]
//!   Cloning             VM of the name, our mark         New, with its intent: the clone stage goes on
//!   Cloning             VM of the name without our mark  refuse: not ours
//!   Cloning             no VM of the name                New, if the number has our mark or the listing is complete
//!   Created ..          number, name and UUID agree      Resume / Finalize / Done by the phase
//!   Created ..          something disagrees              refuse
//!   Created ..          gone, listing complete           refuse: record without VM
//!   Created ..          gone, listing incomplete         refuse: unknown is not absent
//!   Removing            (whatever)                       refuse: the removal is finished first
//! ```
//!
//! The node is an observation, never identity: a VM that moved is the same VM.

pub(crate) mod host;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::cluster::{Listed, Listing};
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::proxmox::ids::{NodeName, VmId};
use crate::stage::Vm;
use crate::stage::clone::{Mark, read_mark};
use crate::stage::discover::{Candidate, Discovered};
use crate::state::record::Phase;

/// What is left to do for a VM that is ours, or may be made.
#[derive(Clone, Debug)]
pub enum Decision {
    /// There is no VM, or only an intent to clone: create it.
    New(New),
    /// The clone exists and is ours; creation goes on.
    Resume(Owned),
    /// cloud-init's verdict is in; trust and finalize are left.
    Finalize(Owned),
    /// Everything is done.
    Done(Owned),
}

/// Leave to create.
#[derive(Clone, Debug)]
pub struct New {
    _made: (),
}

/// A VM that is ours.
#[derive(Clone, Debug)]
pub struct Owned {
    /// The VM.
    pub vm: Vm,
    _made: (),
}

/// The stage.
pub struct Ownership {
    /// What was discovered.
    pub found: Discovered,
}

impl Stage for Ownership {
    const NAME: StageName = StageName::Ownership;
    type Evidence = Decision;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Decision>, Failure> {
        if let Err(diagnostic) = run.with_record(|record| host::agrees(&run.machine, record)) {
            return Ok(Seen::Foreign(diagnostic));
        }
        let phase = run.phase();
        if let (Some(Phase::Complete { .. }), Some(seen)) = (&phase, &self.found.recorded)
            && let Some(drive) = seen.config.cloudinit_drives().first()
        {
            run.warn(
                &Diagnostic::warning(
                    "ownership/drive-again",
                    format!(
                        "VM {} is finished, and has a cloud-init drive again ({})",
                        seen.listed.vmid, drive.slot
                    ),
                )
                .rule("a finished VM is left as it is; cloud-init stays switched off on the guest")
                .help("remove the drive in Proxmox if nobody needs it"),
            );
        }
        Ok(match decide(&run.machine.name, phase.as_ref(), &self.found) {
            Ok(decision) => Seen::Done(decision),
            Err(diagnostic) => Seen::Foreign(diagnostic),
        })
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, decision: &Decision) -> String {
        match decision {
            Decision::New(_) => "to be created".to_owned(),
            Decision::Resume(owned) => format!("{} is ours, creation goes on", owned.vm),
            Decision::Finalize(owned) => format!("{} is ours, finalization goes on", owned.vm),
            Decision::Done(owned) => format!("{} is ours and complete", owned.vm),
        }
    }
}

/// The table.
pub fn decide(name: &str, phase: Option<&Phase>, found: &Discovered) -> Result<Decision, Box<Diagnostic>> {
    if let Some(guest) = found.wrong_kind.first() {
        let what = if guest.template { "template" } else { "container" };
        return Err(refuse(
            "ownership/wrong-kind",
            format!("{name} is the name of {what} {} on {}", guest.vmid, guest.node),
        )
        .rule("a VM is known by its name, so the name must be its alone")
        .help(format!("rename the {what}, or set another vms_name for this host"))
        .into());
    }
    let mut all = found.named.iter().map(|candidate| &candidate.listed).chain(&found.away);
    if let (Some(one), Some(two)) = (all.next(), all.next()) {
        return Err(ambiguous(name, (one.vmid, &one.node), (two.vmid, &two.node)).into());
    }
    let named = found.named.first();
    match phase {
        None => undocumented(name, named, found),
        Some(Phase::Cloning { vmid, operation, .. }) => match named {
            Some(other) if other.listed.vmid != *vmid || read_mark(&other.config, *operation) == Mark::Foreign => {
                Err(foreign(name, &other.listed))
            }
            Some(_) => Ok(Decision::New(New { _made: () })),
            None => match &found.recorded {
                Some(seen) if read_mark(&seen.config, *operation) != Mark::Foreign => {
                    Ok(Decision::New(New { _made: () }))
                }
                // Nothing of ours is there, so that the name must be as free as without a record.
                Some(_) | None if found.away.iter().any(|away| away.vmid == *vmid) => {
                    Err(unknown(name, &found.listing))
                }
                Some(_) | None => undocumented(name, None, found),
            },
        },
        Some(Phase::Removing { vmid, .. }) => Err(refuse(
            "ownership/removing",
            format!("the removal of {name} (VM {vmid}) has begun"),
        )
        .rule("a VM whose removal has begun is not provisioned again before it is gone")
        .help(format!(
            "to finish it: `vmwright remove --limit HOST --confirm {name}`; then provision makes a new one"
        ))
        .into()),
        Some(
            phase @ (Phase::Created { .. }
            | Phase::Initialized { .. }
            | Phase::Finalizing { .. }
            | Phase::Complete { .. }),
        ) => documented(name, phase, named, found),
    }
}

fn undocumented(name: &str, named: Option<&Candidate>, found: &Discovered) -> Result<Decision, Box<Diagnostic>> {
    match named {
        Some(other) => Err(foreign(name, &other.listed)),
        None if !found.away.is_empty() => Err(foreign(name, &found.away[0])),
        None if found.listing.gaps.is_empty() => Ok(Decision::New(New { _made: () })),
        None => Err(unknown(name, &found.listing)),
    }
}

/// What a record of a VM that was made says, given what is seen under its number and name.
pub(crate) fn documented(
    name: &str,
    phase: &Phase,
    named: Option<&Candidate>,
    found: &Discovered,
) -> Result<Decision, Box<Diagnostic>> {
    let vmid = phase.vmid();
    if let Some(other) = named
        && other.listed.vmid != vmid
    {
        return Err(refuse(
            "ownership/other-vm",
            format!(
                "the record says that {name} is VM {vmid}, but Proxmox shows VM {} on {}",
                other.listed.vmid, other.listed.node
            ),
        )
        .rule("number, name and SMBIOS UUID of the record must agree with Proxmox; nothing was touched")
        .help("find out which of the two is right; do not delete the record or take the VM over unseen")
        .into());
    }
    let Some(seen) = &found.recorded else {
        if !found.listing.gaps.is_empty() {
            return Err(unknown(name, &found.listing));
        }
        return Err(refuse(
            "ownership/gone",
            format!("the record says that {name} is VM {vmid}, but there is no such VM"),
        )
        .rule("a record without its VM is never overwritten by a new creation; nothing was touched")
        .help(format!(
            "if the VM was removed on purpose: `vmwright forget HOST --confirm {name}` drops its record, and `vmwright remove --limit HOST --confirm {name}` takes its DNS and known_hosts entries away as well"
        ))
        .into());
    };
    let seen_name = seen.config.name().unwrap_or_default();
    if seen_name != name {
        return Err(refuse(
            "ownership/renamed",
            format!("the record says that {name} is VM {vmid}, but that VM is now called {seen_name}"),
        )
        .rule("number, name and SMBIOS UUID of the record must agree with Proxmox; nothing was touched")
        .help(format!("rename the VM back to {name} if it is the same one"))
        .into());
    }
    let seen_uuid = seen.config.smbios_uuid();
    if seen_uuid.as_deref() != phase.uuid() {
        return Err(refuse(
            "ownership/other-uuid",
            format!("VM {vmid} is called {name} but is another machine than the one on record"),
        )
        .note(
            None,
            format!("SMBIOS UUID on record: {}", phase.uuid().unwrap_or("none")),
        )
        .note(
            None,
            format!("SMBIOS UUID in Proxmox: {}", seen_uuid.as_deref().unwrap_or("none")),
        )
        .rule("number, name and SMBIOS UUID of the record must agree with Proxmox; nothing was touched")
        .into());
    }
    let owned = Owned {
        vm: Vm {
            vmid,
            uuid: seen_uuid.unwrap_or_default(),
            node: seen.listed.node.clone(),
        },
        _made: (),
    };
    match phase {
        Phase::Created { .. } | Phase::Cloning { .. } => Ok(Decision::Resume(owned)),
        Phase::Initialized { .. } | Phase::Finalizing { .. } => Ok(Decision::Finalize(owned)),
        Phase::Complete { .. } | Phase::Removing { .. } => Ok(Decision::Done(owned)),
    }
}

/// Two of one name.
pub(crate) fn ambiguous(name: &str, one: (VmId, &NodeName), two: (VmId, &NodeName)) -> Diagnostic {
    refuse(
        "ownership/ambiguous",
        format!(
            "{name} is the name of VM {} on {} and of VM {} on {}",
            one.0, one.1, two.0, two.1
        ),
    )
    .help("rename or remove the one that is not meant")
}

fn refuse(code: &'static str, message: String) -> Diagnostic {
    Diagnostic::error(code, message).exit(Exit::Refused)
}

fn foreign(name: &str, other: &Listed) -> Box<Diagnostic> {
    refuse(
        "ownership/foreign",
        format!("VM {} on {} is called {name}, and vmwright has no record of having made it", other.vmid, other.node),
    )
    .rule("a VM is never taken over by its name alone; nothing was touched")
    .help(format!(
        "if it is the VM that is meant: `vmwright adopt HOST --vmid {} --confirm {name}` takes it in",
        other.vmid
    ))
    .help("if it is another machine, set another vms_name for this host; if another control node made it, use that one's state directory (--state-dir)")
    .into()
}

/// Not seen is not absent.
pub(crate) fn unknown(name: &str, listing: &Listing) -> Box<Diagnostic> {
    let mut diagnostic = refuse(
        "ownership/unknown",
        format!("{name} is not listed, but the listing is not complete"),
    )
    .rule("not seen is not absent: creating now could make a second VM");
    for gap in &listing.gaps {
        diagnostic = diagnostic.note(None, gap.clone());
    }
    diagnostic.help("bring the nodes back, or grant the identity VM.Audit on /vms with propagation, then run the same command again").into()
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
impl Owned {
    /// As if ownership had been proven.
    pub(crate) fn of(vm: Vm) -> Self {
        Self { vm, _made: () }
    }
}
