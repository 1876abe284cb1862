//! Standing: whose the VM is, and whether it is there. The ownership table, read for a removal.
//!
//! ```text
//!   record       cluster                                        decision
//!   -----------  ---------------------------------------------  -------------------------------------------------
//!   none         no VM, listing complete                        Nothing
//!   Cloning      our clone is being made                        wait for its task
//!   Cloning      our clone is there, by its mark                Here
//!   Cloning      nothing yet, asked for within 30 s, no answer  wait: it may be on its way
//!   Cloning      no such number, or somebody else's             Gone: what was published before the clone goes
//!   Created ..   number, name and UUID agree                    Here
//!   Created ..   number and name gone, listing complete         Gone: it was removed by hand
//!   Removing     number, name and UUID agree                    Here
//!   Removing     gone, or the number is another VM's now        Gone
//!   Removing     a stub with `lock: destroyed`                  refuse: its destroying task was killed
//!   otherwise                                                   refused as ownership refuses, nothing touched
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::cluster::Listed;
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::client::Client;
use crate::proxmox::cluster::ClusterStatus;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::{ApiError, Kind};
use crate::proxmox::ids::{NodeName, Upid, VmId};
use crate::proxmox::task::{TaskFilter, TaskStatus};
use crate::proxmox::vm::View;
use crate::stage::Vm;
use crate::stage::clone::{Mark, read_mark};
use crate::stage::discover::{Discovered, moving};
use crate::stage::ownership;
use crate::stage::remove::{Gone, removing};
use crate::state::record::{Phase, Record, RemoveStep};

/// Where a removal begins.
#[derive(Clone, Debug)]
pub enum Standing {
    /// There is neither VM nor record.
    Nothing,
    /// The VM is there, and ours.
    Here(Here),
    /// The VM is gone; its traces are not.
    Gone(Gone),
}

/// A VM that is ours and there.
#[derive(Clone, Debug)]
pub struct Here {
    /// The VM.
    pub vm: Vm,
    /// What it runs with.
    pub config: VmConfig,
    /// The cluster's nodes.
    pub cluster: ClusterStatus,
    phase: Option<Phase>,
    _made: (),
}

/// The stage.
pub struct Stand {
    found: Discovered,
    unseen: Mutex<Option<Instant>>,
}

impl Stand {
    /// The stage, for what was discovered.
    pub fn new(found: Discovered) -> Self {
        Self {
            found,
            unseen: Mutex::new(None),
        }
    }

    /// How long a clone that is not to be seen may still be asked for: the request of a run that died without an answer
    /// can be on its way, and the record that recognises its VM must not go before it came.
    fn may_come(&self, run: &HostRun) -> Option<Duration> {
        let left = on_its_way(run.record.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?);
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = unseen.get_or_insert_with(Instant::now).elapsed();
        left?.checked_sub(waited).filter(|left| !left.is_zero())
    }
}

impl Stage for Stand {
    const NAME: StageName = StageName::Ownership;
    type Evidence = Standing;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Standing>, Failure> {
        if let Err(diagnostic) = run.with_record(|record| ownership::host::agrees(&run.machine, record)) {
            return Ok(Seen::Foreign(diagnostic));
        }
        let name = &run.machine.name;
        let phase = run.phase();
        if let Some(phase @ Phase::Cloning { .. }) = &phase {
            // Refuses what is not ours by the name, before the number is looked at.
            if let Err(diagnostic) = ownership::decide(name, Some(phase), &self.found) {
                return Ok(Seen::Foreign(diagnostic));
            }
            return self.cloning(run, phase).await;
        }
        let destroyed = match &phase {
            Some(Phase::Removing { upid: Some(upid), .. }) => succeeded(run, upid).await?,
            Some(_) | None => false,
        };
        Ok(match decide(name, phase.as_ref(), &self.found, destroyed) {
            Ok(standing) => Seen::Done(standing),
            Err(diagnostic) => Seen::Foreign(diagnostic),
        })
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn settles(&self, standing: &Standing) -> Option<Phase> {
        match standing {
            Standing::Nothing => None,
            Standing::Here(here) => here.phase.clone(),
            Standing::Gone(gone) => gone.phase.clone(),
        }
    }

    fn tell(&self, standing: &Standing) -> String {
        match standing {
            Standing::Nothing => "no such VM, and no record of one".to_owned(),
            Standing::Here(here) => format!("{} is ours", here.vm),
            Standing::Gone(gone) => gone.detail.clone(),
        }
    }
}

/// The table, for everything but an intent to clone. `destroyed` tells that our own destroying task ended well.
pub fn decide(
    name: &str,
    phase: Option<&Phase>,
    found: &Discovered,
    destroyed: bool,
) -> Result<Standing, Box<Diagnostic>> {
    let Some(phase) = phase else {
        return ownership::decide(name, None, found).map(|_| Standing::Nothing);
    };
    let (Some(uuid), Some(node)) = (phase.uuid(), phase.node()) else {
        return Ok(Standing::Nothing);
    };
    let is_removing = matches!(phase, Phase::Removing { .. });
    let vmid = phase.vmid();
    let somebody_else = found
        .named
        .iter()
        .map(|candidate| &candidate.listed)
        .chain(&found.away)
        .chain(&found.wrong_kind)
        .find(|listed| listed.vmid != vmid);
    let gone = |detail: String| {
        let vm = Vm {
            vmid,
            uuid: uuid.to_owned(),
            node: node.clone(),
        };
        Ok(Standing::Gone(Gone {
            phase: removing(Some(phase), &vm, RemoveStep::Gone),
            vm: Some(vm),
            detail,
            _made: (),
        }))
    };
    if let Some(other) = somebody_else
        && is_removing
    {
        return Err(another(name, vmid, other));
    }
    let Some(seen) = &found.recorded else {
        let complete = found.listing.gaps.is_empty() || destroyed;
        return match ownership::decide(name, Some(phase), found) {
            Err(diagnostic) if somebody_else.is_some() => Err(diagnostic),
            Ok(_) | Err(_) if complete => gone(format!("VM {vmid} is gone; what is left of it goes")),
            Ok(_) | Err(_) => Err(ownership::unknown(name, &found.listing)),
        };
    };
    let here = || {
        Ok(Standing::Here(Here {
            vm: Vm {
                vmid,
                uuid: uuid.to_owned(),
                node: seen.listed.node.clone(),
            },
            config: seen.config.clone(),
            cluster: found.listing.status.clone(),
            phase: None,
            _made: (),
        }))
    };
    if !is_removing {
        return ownership::decide(name, Some(phase), found).and_then(|_| here());
    }
    let same_uuid = seen.config.smbios_uuid().as_deref() == Some(uuid);
    let same_name = seen.config.name() == Some(name);
    match (same_uuid, same_name) {
        (true, true) => here(),
        (false, _) if seen.config.lock() == Some("destroyed") => Err(stub(name, vmid, &seen.listed.node)),
        // The number was given away again. That VM is somebody else's and is not touched.
        (false, same_name) if !same_name || destroyed => gone(format!(
            "VM {vmid} is another machine now, which is left alone; what is left of ours goes"
        )),
        (true, false) | (false, _) => ownership::documented(name, phase, None, found).and_then(|_| here()),
    }
}

impl Stand {
    /// An intent to clone: whether the clone exists is looked at now, not as of the listing.
    async fn cloning(&self, run: &HostRun, phase: &Phase) -> Result<Seen<Standing>, Failure> {
        let Phase::Cloning {
            vmid,
            operation,
            template,
            template_node,
            upid,
            ..
        } = phase
        else {
            return Ok(Seen::Done(Standing::Nothing));
        };
        let runs = clone_runs(run.api(), *template, template_node, upid.as_ref()).await?;
        let listing = run.fresh_listing().await?;
        let mut gaps = listing.gaps.clone();
        let seen = match run.cluster.whereabouts(&listing, *vmid, View::Current).await? {
            Whereabouts::Vm(listed, config) => Some((listed.node, config)),
            Whereabouts::Moving(listed) => return Err(moving(&listed)),
            Whereabouts::Unknown(why) => {
                gaps = why;
                None
            }
            Whereabouts::Container(_) | Whereabouts::Away(_) | Whereabouts::Gone => None,
        };
        let wait = |what: String, budget, code, late: String| {
            Ok(Seen::Pending(Wait {
                what,
                pace: Pace::Task,
                budget,
                late: Box::new(Diagnostic::error(code, late).help(format!(
                    "look at VM {vmid} in Proxmox; a clone that was left half-made is removed on its node with `qm unlock {vmid} && qm destroy {vmid}`; then run the same command again"
                ))),
            }))
        };
        match seen.map(|(node, config)| (read_mark(&config, *operation), node, config)) {
            Some((Mark::Making, ..)) | None if runs => wait(
                "the clone task".to_owned(),
                LONGEST,
                "remove/clone-late",
                format!("the clone task of VM {vmid} does not end"),
            ),
            Some((Mark::Making, ..)) => wait(
                format!("VM {vmid} to be unlocked"),
                LEFT_OVER,
                "remove/half-made",
                format!("VM {vmid} is locked (clone), but no clone task runs"),
            ),
            Some((Mark::Ours, node, config)) => {
                let Some(uuid) = config.smbios_uuid() else {
                    return Err(Failure::new(
                        Diagnostic::error("clone/no-uuid", format!("VM {vmid} has no SMBIOS UUID"))
                            .rule("a VM is recognised by its SMBIOS UUID (smbios1)"),
                    ));
                };
                let vm = Vm {
                    vmid: *vmid,
                    uuid,
                    node,
                };
                let created = Phase::Created {
                    vmid: vm.vmid,
                    uuid: vm.uuid.clone(),
                    node: vm.node.clone(),
                };
                Ok(Seen::Done(Standing::Here(Here {
                    vm,
                    config,
                    cluster: listing.status,
                    phase: Some(created),
                    _made: (),
                })))
            }
            Some((Mark::Foreign, ..)) => Ok(Seen::Done(never_cloned(format!(
                "VM {vmid} is somebody else's and is left alone; ours was never made"
            )))),
            None if upid.is_none() && gaps.is_empty() && self.may_come(run).is_some() => wait(
                "a clone that an earlier run may still have on its way".to_owned(),
                LONGEST,
                "remove/clone-late",
                format!("whether VM {vmid} is being made is not known"),
            ),
            None if gaps.is_empty() => Ok(Seen::Done(never_cloned(format!("VM {vmid} was never made")))),
            None => {
                let mut diagnostic = Diagnostic::error(
                    "ownership/unknown",
                    format!("VM {vmid} is not listed, but the listing is not complete"),
                )
                .rule("not seen is not gone; nothing was touched")
                .exit(Exit::Refused);
                for gap in gaps {
                    diagnostic = diagnostic.note(None, gap);
                }
                Ok(Seen::Foreign(Box::new(diagnostic)))
            }
        }
    }
}

/// How long a clone may take that somebody else asked for.
const LONGEST: Duration = Duration::from_secs(3600);
/// How long a request may be under way that nobody waits for any more: pveproxy gives up after 30 s.
const ON_ITS_WAY: Duration = Duration::from_secs(30);
/// How long the request of an intent that has no answer on record may still be on its way; `None` if it cannot be any more.
pub fn on_its_way(record: &Record) -> Option<Duration> {
    let age = Duration::try_from(jiff::Timestamp::now().duration_since(record.updated)).unwrap_or_default();
    match &record.phase {
        Phase::Cloning { upid: None, .. } => ON_ITS_WAY.checked_sub(age).filter(|left| !left.is_zero()),
        Phase::Cloning { .. }
        | Phase::Created { .. }
        | Phase::Initialized { .. }
        | Phase::Finalizing { .. }
        | Phase::Complete { .. }
        | Phase::Removing { .. } => None,
    }
}

/// How long a clone's lock may outlive its task.
const LEFT_OVER: Duration = Duration::from_secs(10);

fn never_cloned(detail: String) -> Standing {
    Standing::Gone(Gone {
        vm: None,
        phase: None,
        detail,
        _made: (),
    })
}

/// Whether the recorded clone task, or any clone of that template, runs.
pub async fn clone_runs(
    client: &Client,
    template: VmId,
    node: &NodeName,
    upid: Option<&Upid>,
) -> Result<bool, ApiError> {
    if let Some(upid) = upid
        && client
            .task_status(upid)
            .await
            .is_ok_and(|status| status == TaskStatus::Running)
    {
        return Ok(true);
    }
    let filter = TaskFilter {
        vmid: Some(template),
        kind: Some("qmclone".to_owned()),
        running_only: true,
        ..TaskFilter::default()
    };
    Ok(!client.tasks(node, &filter).await?.is_empty())
}

/// Whether a task of ours ended well.
async fn succeeded(run: &HostRun, upid: &Upid) -> Result<bool, Failure> {
    match run.api().task_status(upid).await {
        Ok(TaskStatus::Ok | TaskStatus::Warnings(_)) => Ok(true),
        Ok(TaskStatus::Running | TaskStatus::Failed(_) | TaskStatus::Unexpected) => Ok(false),
        Err(error) if matches!(error.kind(), Kind::Missing | Kind::Invalid) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn stub(name: &str, vmid: VmId, node: &NodeName) -> Box<Diagnostic> {
    Diagnostic::error(
        "remove/stub",
        format!("of {name} (VM {vmid}) only a stub is left: the task that destroyed it was killed"),
    )
    .rule("Proxmox keeps such a stub locked (destroyed), and only root may take it away")
    .help(format!(
        "on {node}: `qm unlock {vmid} && qm destroy {vmid}`, then run the same command again"
    ))
    .exit(Exit::Refused)
    .into()
}

fn another(name: &str, vmid: VmId, other: &Listed) -> Box<Diagnostic> {
    Diagnostic::error(
        "ownership/other-vm",
        format!(
            "the removal of {name} (VM {vmid}) has begun, but guest {} on {} is called {name} too",
            other.vmid, other.node
        ),
    )
    .rule("DNS and known_hosts entries of the name may be that one's; nothing was touched")
    .help("rename that guest and run the same command again")
    .help(format!(
        "or, once VM {vmid} is gone: `vmwright forget HOST --confirm NAME` drops the record and leaves the rest to you"
    ))
    .exit(Exit::Refused)
    .into()
}

#[cfg(test)]
mod tests;
