//! Clone: a full clone of the template exists, it is ours, and there is exactly one.
//!
//! ```text
//!   record: Cloning{vmid, operation}   (written first)
//!        |
//!        v
//!   POST clone, description carries the operation id -------> UPID (recorded) -> followed to its end
//!        |                                                        |
//!   answer lost?                                             task failed: id taken -> new id, new intent
//!        v                                                        v
//!   observe: is there a VM of that number?            with our mark: ours        -> Created{vmid, uuid}
//!                                                     being made: wait
//!                                                     another's: take another id
//!                                                     none, no task: send again (same id, same mark)
//! ```
//!
//! There can be no second VM: a clone is sent again only onto the *same* number, which Proxmox gives away once, and
//! another number is taken only after the old one was seen to be somebody else's.
//!
//! Sources: qemu-server `clone_vm`: the new configuration first holds `lock: clone` and the description
//! ` qmclone temporary file`, then name and description, and the lock goes at the end of the task.

use uuid::Uuid;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::cluster::Listed;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::limits::Limit;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::Kind;
use crate::proxmox::ids::{NodeName, Upid, VmId};
use crate::proxmox::task::{TaskFilter, TaskStatus};
use crate::proxmox::vm::{CloneRequest, View};
use crate::stage::Vm;
use crate::stage::discover::moving;
use crate::stage::ownership::{self, Owned};
use crate::stage::readiness::{Ready, Template};
use crate::state::record::Phase;

/// The clone: finished, unlocked, ours.
#[derive(Clone, Debug)]
pub struct Cloned {
    /// The VM.
    pub vm: Vm,
    _made: (),
}

impl Cloned {
    /// A VM that is ours already was cloned once.
    pub fn before(owned: Owned) -> Self {
        Self {
            vm: owned.vm,
            _made: (),
        }
    }
}

/// The stage.
pub struct Clone<'r> {
    /// Everything that creation needs is there.
    pub ready: &'r Ready,
    /// The template.
    pub template: &'r Template,
}

/// What a VM configuration under the intended number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Ours and finished.
    Ours,
    /// A clone is being made there; whose, it does not say yet, or ours but still locked.
    Making,
    /// Somebody else's.
    Foreign,
}

/// The mark that the clone carries in its description until its hardware is set.
pub fn mark(operation: Uuid) -> String {
    format!("vmwright operation {operation}")
}

/// The description without the mark; `None` if nothing is left.
pub fn unmarked(description: &str) -> Option<String> {
    let kept: Vec<&str> = description
        .lines()
        .filter(|line| !line.starts_with("vmwright operation "))
        .collect();
    let kept = kept.join("\n").trim().to_owned();
    if kept.is_empty() { None } else { Some(kept) }
}

/// Whose the VM is, by its mark.
pub fn read_mark(config: &VmConfig, operation: Uuid) -> Mark {
    let description = config.description().unwrap_or_default();
    let ours = description.lines().any(|line| line.trim() == mark(operation));
    let being_made = config.lock() == Some("clone");
    let nameless = description.trim() == "qmclone temporary file" || config.name().is_none();
    match (ours, being_made) {
        (true, false) => Mark::Ours,
        (true, true) => Mark::Making,
        (false, true) if nameless => Mark::Making,
        (false, _) => Mark::Foreign,
    }
}

impl Stage for Clone<'_> {
    const NAME: StageName = StageName::Clone;
    type Evidence = Cloned;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Cloned>, Failure> {
        let absent = || {
            let from = format!(
                "full clone of {} (VM {} on {})",
                run.machine.template, self.template.vmid, self.template.node
            );
            Ok(Seen::Absent(vec![Change::new(run.machine.name.clone(), from)]))
        };
        let Some(Phase::Cloning {
            vmid, operation, upid, ..
        }) = run.phase()
        else {
            return absent();
        };
        match self.find(run, vmid).await? {
            Some((node, config)) => match read_mark(&config, operation) {
                Mark::Foreign if config.name() == Some(run.machine.name.as_str()) => {
                    Ok(Seen::Foreign(Box::new(same_name(&run.machine.name, vmid, &node))))
                }
                Mark::Foreign => absent(),
                Mark::Ours => match self.namesake(run, vmid).await? {
                    Some(other) => Ok(Seen::Foreign(ambiguous(&run.machine.name, &other, vmid, &node))),
                    None => Ok(Seen::Done(evidence(vmid, node, &config)?)),
                },
                Mark::Making => self.making(run, vmid, upid.as_ref()).await,
            },
            None if self.task_runs(run, upid.as_ref()).await? => Ok(Seen::Pending(wait(
                run,
                "the clone task",
                "clone/late",
                "the clone task does not end",
            ))),
            None => absent(),
        }
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let Some((vmid, operation)) = self.intend(run).await? else {
            return Ok(());
        };
        let hardware = &run.machine.hardware;
        let kept = self.template.config.description().and_then(unmarked);
        let description = match kept {
            Some(text) => format!("{text}\n\n{}", mark(operation)),
            None => mark(operation),
        };
        let request = CloneRequest {
            newid: vmid,
            name: Some(run.machine.name.clone()),
            full: Some(true),
            storage: hardware.storage.clone(),
            format: hardware.format.clone(),
            target: self.ready.clone_target.clone(),
            description: Some(description),
            pool: hardware.pool.clone(),
        };
        let upid = run
            .api()
            .clone_vm(&self.template.node, self.template.vmid, &request)
            .await
            .map_err(taken)?;
        if let Some(Phase::Cloning {
            vmid,
            operation,
            template,
            template_node,
            since,
            ..
        }) = run.phase()
        {
            run.record_phase(Phase::Cloning {
                vmid,
                operation,
                template,
                template_node,
                upid: Some(upid.clone()),
                since,
            })?;
        }
        run.follow(
            Self::NAME,
            &upid,
            &format!("clone of {} as VM {vmid}", run.machine.template),
        )
        .await
        .map_err(taken)
    }

    fn settles(&self, cloned: &Cloned) -> Option<Phase> {
        Some(Phase::Created {
            vmid: cloned.vm.vmid,
            uuid: cloned.vm.uuid.clone(),
            node: cloned.vm.node.clone(),
        })
    }

    fn tell(&self, cloned: &Cloned) -> String {
        cloned.vm.to_string()
    }

    fn limit(&self, run: &HostRun) -> Option<Limit> {
        let storage = match &run.machine.hardware.storage {
            Some(storage) => storage.to_string(),
            None => format!("that of {}", run.machine.template),
        };
        Some(Limit::Clone {
            storage: format!("{}/{storage}", run.machine.cluster.host),
        })
    }
}

impl Clone<'_> {
    /// The VM of this number, wherever it is: the target and the template's node are asked, then the cluster.
    async fn find(&self, run: &HostRun, vmid: VmId) -> Result<Option<(NodeName, VmConfig)>, Failure> {
        let mut nodes = vec![self.template.node.clone()];
        if run.machine.node != self.template.node {
            nodes.push(run.machine.node.clone());
        }
        for node in nodes {
            match run.api().vm_config(&node, vmid, View::Pending).await {
                Ok(config) => return Ok(Some((node, config))),
                Err(error) if error.kind() == Kind::Missing => {}
                Err(error) => return Err(error.into()),
            }
        }
        let listing = run.fresh_listing().await?;
        match run.cluster.whereabouts(&listing, vmid, View::Pending).await? {
            Whereabouts::Vm(listed, config) => Ok(Some((listed.node, config))),
            Whereabouts::Moving(listed) => Err(moving(&listed)),
            // Whether it is really free is asked before anything is sent.
            Whereabouts::Container(_) | Whereabouts::Away(_) | Whereabouts::Gone | Whereabouts::Unknown(_) => Ok(None),
        }
    }

    /// A VM that is being made: wait while a task makes it; a lock without a task is an operator's matter.
    async fn making(&self, run: &HostRun, vmid: VmId, upid: Option<&Upid>) -> Result<Seen<Cloned>, Failure> {
        // An answered request may have failed while an earlier one, whose answer was lost, is still at work.
        if self.task_runs(run, upid).await? || (upid.is_some() && self.task_runs(run, None).await?) {
            return Ok(Seen::Pending(wait(
                run,
                "the clone task",
                "clone/late",
                "the clone task does not end",
            )));
        }
        // The task may have ended between the two looks; a lock that stays is left over from a killed one.
        let mut left_over = wait(
            run,
            &format!("VM {vmid} to be unlocked"),
            "clone/left-over",
            &format!("VM {vmid} is locked (clone), but no clone task runs: a killed clone was left behind"),
        );
        left_over.budget = std::time::Duration::from_secs(10);
        left_over.late = Box::new(left_over.late.help(format!(
            "look at VM {vmid} in Proxmox; if it is that half-made clone, remove it on its node with `qm unlock {vmid} && qm destroy {vmid}`, then run the same command again"
        )));
        Ok(Seen::Pending(left_over))
    }

    /// Whether a clone task of ours may still be running: the recorded one, else any clone of the template.
    async fn task_runs(&self, run: &HostRun, upid: Option<&Upid>) -> Result<bool, Failure> {
        if let Some(upid) = upid {
            return match run.api().task_status(upid).await {
                Ok(status) => Ok(status == TaskStatus::Running),
                Err(error) if matches!(error.kind(), Kind::Invalid | Kind::Missing) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        let filter = TaskFilter {
            vmid: Some(self.template.vmid),
            kind: Some("qmclone".to_owned()),
            running_only: true,
            ..TaskFilter::default()
        };
        let tasks = run.api().tasks(&self.template.node, &filter).await?;
        Ok(!tasks.is_empty())
    }

    /// The intent: the one on record while its number is free, else a new one. Written before anything is sent. `None` when
    /// the number was taken since the last look, perhaps by our own request whose answer was lost: look again.
    ///
    /// A new number is taken only after the old one was *seen* to be somebody else's; "taken" alone proves nothing.
    async fn intend(&self, run: &HostRun) -> Result<Option<(VmId, Uuid)>, Failure> {
        if let Some(Phase::Cloning {
            vmid, operation, since, ..
        }) = run.phase()
        {
            match run.api().next_id(Some(vmid)).await {
                Ok(_) => {
                    run.cluster.hold_id(vmid);
                    // The task of an earlier request says nothing of the one that is sent now.
                    run.record_phase(self.intent(vmid, operation, since))?;
                    return Ok(Some((vmid, operation)));
                }
                Err(error) if matches!(error.kind(), Kind::Exists | Kind::Invalid) => {}
                Err(error) => return Err(error.into()),
            }
            match self.find(run, vmid).await? {
                Some((_, config)) if read_mark(&config, operation) == Mark::Foreign => {}
                Some(_) => return Ok(None),
                None if self.is_container(run, vmid).await? => {}
                None => return Err(unseen(vmid)),
            }
        }
        let vmid = run.cluster.promise_id(run.machine.vmid).await.map_err(|error| {
            if let Some(wanted) = run.machine.vmid
                && matches!(error.kind(), Kind::Exists | Kind::Invalid)
            {
                return Failure::new(
                    Diagnostic::error("clone/vmid-taken", format!("VM id {wanted} is taken by another guest"))
                        .rule("vms_vmid asks for exactly this number")
                        .help("choose another vms_vmid, or leave it out for the next free one"),
                );
            }
            Failure::from(error)
        })?;
        self.name_is_free(run).await?;
        let operation = Uuid::new_v4();
        run.record_phase(self.intent(vmid, operation, jiff::Timestamp::now()))?;
        Ok(Some((vmid, operation)))
    }

    /// The name was free when the cluster was discovered. Since then the run may have waited for a place, and somebody else,
    /// at another control node or in Proxmox itself, may have made a VM of it: there must never be two.
    async fn name_is_free(&self, run: &HostRun) -> Result<(), Failure> {
        let listing = run.recent_listing().await?;
        let name = &run.machine.name;
        match listing.named(name).next() {
            Some(guest) => Err(Failure::new(same_name(name, guest.vmid, &guest.node))),
            None if listing.gaps.is_empty() => Ok(()),
            // A node that comes back, or a VM that arrives where it moves to, ends this.
            None => Err(Failure::new(*ownership::unknown(name, &listing)).retry(Retry::NotExecuted)),
        }
    }

    /// Another VM of the name, made while ours was. It is told before ours is started and takes its address.
    async fn namesake(&self, run: &HostRun, vmid: VmId) -> Result<Option<Listed>, Failure> {
        let listing = run.recent_listing().await?;
        let other = listing.named(&run.machine.name).find(|guest| guest.vmid != vmid);
        Ok(other.cloned())
    }

    fn intent(&self, vmid: VmId, operation: Uuid, since: jiff::Timestamp) -> Phase {
        Phase::Cloning {
            vmid,
            operation,
            template: self.template.vmid,
            template_node: self.template.node.clone(),
            upid: None,
            since,
        }
    }

    async fn is_container(&self, run: &HostRun, vmid: VmId) -> Result<bool, Failure> {
        let listing = run.fresh_listing().await?;
        Ok(listing.by_id(vmid).is_some_and(|guest| guest.kind == GuestKind::Lxc))
    }
}

/// A number that somebody else took in the meantime is no failure: observe sees it, and another one is taken.
fn taken(error: impl Into<Failure>) -> Failure {
    let failure = error.into();
    if failure.kind == Some(Kind::Exists) {
        failure.retry(Retry::NotExecuted)
    } else {
        failure
    }
}

/// Proxmox says that the number is taken, and no VM of it is seen: it may be ours in a moment, or be hidden.
fn unseen(vmid: VmId) -> Failure {
    Failure::new(
        Diagnostic::error(
            "clone/unseen",
            format!("VM id {vmid} is taken, but no guest of that number is to be seen"),
        )
        .rule("it may be the clone that was asked for; another number could make a second VM")
        .help(format!(
            "grant the identity VM.Audit on /vms with propagation, or look who has {vmid} in Proxmox"
        )),
    )
    .retry(Retry::NotExecuted)
}

fn same_name(name: &str, vmid: VmId, node: &NodeName) -> Diagnostic {
    Diagnostic::error(
        "ownership/foreign",
        format!("VM {vmid} on {node} is called {name}, and vmwright has not made it"),
    )
    .rule("a VM is never taken over by its name alone; nothing was touched")
    .help("set another vms_name for this host, or rename that VM")
    .exit(Exit::Refused)
}

fn ambiguous(name: &str, other: &Listed, vmid: VmId, node: &NodeName) -> Box<Diagnostic> {
    ownership::ambiguous(name, (other.vmid, &other.node), (vmid, node))
        .note(
            None,
            format!("VM {vmid} is the one that was made for this host; it was not started"),
        )
        .into()
}

fn evidence(vmid: VmId, node: NodeName, config: &VmConfig) -> Result<Cloned, Failure> {
    let Some(uuid) = config.smbios_uuid() else {
        return Err(Failure::new(
            Diagnostic::error("clone/no-uuid", format!("VM {vmid} has no SMBIOS UUID"))
                .rule("a VM is recognised by its SMBIOS UUID (smbios1)")
                .help("does the template have smbios1? `qm set TEMPLATE --smbios1 uuid=$(uuidgen)` adds it"),
        ));
    };
    Ok(Cloned {
        vm: Vm { vmid, uuid, node },
        _made: (),
    })
}

fn wait(run: &HostRun, what: &str, code: &'static str, late: &str) -> Wait {
    Wait {
        what: what.to_owned(),
        pace: Pace::Task,
        budget: run.machine.waits.task_idle.max(std::time::Duration::from_secs(3600)),
        late: Box::new(Diagnostic::error(code, late)),
    }
}

#[cfg(test)]
mod tests;
