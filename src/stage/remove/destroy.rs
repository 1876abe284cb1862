//! Destroy: the VM and its volumes are gone, and seen to be gone.
//!
//! ```text
//!   our destroying task runs --> its end is waited for
//!   the VM is there          --> DELETE with purge, the UPID recorded, followed to its end; one that was started in the
//!                                meantime is stopped first
//!   not on its node, not in a complete listing, or our task ended well ---> Gone
//!   the number is another VM's now ------------------------------------------> Gone, and that one is left alone
//!   not on its node, and the listing is incomplete --------------------------> refuse: not seen is not gone
//! ```
//!
//! A second DELETE of the same VM is harmless (it fails in its task as missing), but one of a number that was given away
//! again would not be: identity is proven right before each.
//! Source: qemu-server `API2/Qemu.pm`, `destroy_vm`; purge also takes it out of backup jobs, replication and HA.

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::Kind;
use crate::proxmox::ids::Upid;
use crate::proxmox::task::{TaskFilter, TaskStatus};
use crate::proxmox::vm::View;
use crate::stage::discover::moving;
use crate::stage::remove::stop::Stopped;
use crate::stage::remove::{Gone, removing};
use crate::stage::{Vm, still_ours};
use crate::state::record::{Phase, RemoveStep};

/// The stage.
pub struct Destroy {
    /// The VM is stopped.
    pub stopped: Stopped,
}

impl Stage for Destroy {
    const NAME: StageName = StageName::Destroy;
    type Evidence = Gone;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Gone>, Failure> {
        let vm = &self.stopped.vm;
        let upid = recorded(run);
        let task = match &upid {
            Some(upid) => standing(run, upid).await?,
            None => None,
        };
        if task == Some(TaskStatus::Running) {
            return Ok(Seen::Pending(wait(run, vm)));
        }
        let ended_well = matches!(task, Some(TaskStatus::Ok | TaskStatus::Warnings(_)));
        let gone = |detail: String| {
            Ok(Seen::Done(Gone {
                vm: Some(vm.clone()),
                phase: removing(run.phase().as_ref(), vm, RemoveStep::Gone),
                detail,
                _made: (),
            }))
        };
        let config = match run.api().vm_config(&vm.node, vm.vmid, View::Current).await {
            Ok(config) => Some(config),
            Err(error) if error.kind() == Kind::Missing => elsewhere(run, vm, ended_well).await?,
            Err(error) => return Err(error.into()),
        };
        let Some(config) = config else {
            return gone(format!("VM {} is gone", vm.vmid));
        };
        let same_uuid = config.smbios_uuid().as_deref() == Some(vm.uuid.as_str());
        if same_uuid {
            still_ours(vm, &run.machine.name, &config)?;
            return Ok(Seen::Absent(vec![Change::set(
                run.machine.name.clone(),
                Some(format!("{vm}, with {}", volumes(&config))),
                None,
            )]));
        }
        if ended_well || config.name() != Some(run.machine.name.as_str()) && config.lock() != Some("destroyed") {
            return gone(format!("VM {} is gone; its number is another machine's now", vm.vmid));
        }
        Ok(Seen::Foreign(Box::new(half_gone(run, vm))))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let vm = &self.stopped.vm;
        // One that an earlier request began, whose answer was lost, is followed, not sent again.
        let filter = TaskFilter {
            vmid: Some(vm.vmid),
            kind: Some("qmdestroy".to_owned()),
            running_only: true,
            ..TaskFilter::default()
        };
        let upid = match run.api().tasks(&vm.node, &filter).await?.into_iter().next() {
            Some(task) => task.upid,
            None => {
                let config = match run.api().vm_config(&vm.node, vm.vmid, View::Current).await {
                    Ok(config) => config,
                    Err(error) if error.kind() == Kind::Missing => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                still_ours(vm, &run.machine.name, &config)?;
                // A start that was on its way when it was seen stopped: it is to be destroyed anyhow.
                if run.api().vm_status(&vm.node, vm.vmid).await?.running {
                    let upid = run.api().stop(&vm.node, vm.vmid).await?;
                    run.follow(Self::NAME, &upid, &format!("stop of VM {}", vm.vmid))
                        .await?;
                }
                match run.api().delete_vm(&vm.node, vm.vmid, true).await {
                    Ok(upid) => upid,
                    Err(error) if error.kind() == Kind::Missing => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        record(run, &upid)?;
        match run
            .follow(Self::NAME, &upid, &format!("removal of VM {}", vm.vmid))
            .await
        {
            // Another task was faster: look.
            Err(failure) if failure.kind == Some(Kind::Missing) => Err(failure.retry(Retry::Doubt)),
            // It was started in the meantime (qemu-server: "VM N is running - destroy failed"): nothing was destroyed.
            Err(failure) if failure.diagnostic.message.contains("is running - destroy failed") => {
                Err(failure.retry(Retry::NotExecuted))
            }
            other => other,
        }
    }

    fn assume(&self, _run: &HostRun) -> Option<Gone> {
        Some(Gone {
            vm: Some(self.stopped.vm.clone()),
            phase: None,
            detail: "would be gone".to_owned(),
            _made: (),
        })
    }

    fn settles(&self, gone: &Gone) -> Option<Phase> {
        gone.phase.clone()
    }

    fn tell(&self, gone: &Gone) -> String {
        gone.detail.clone()
    }
}

/// The task on record.
fn recorded(run: &HostRun) -> Option<Upid> {
    match run.phase()? {
        Phase::Removing { upid, .. } => upid,
        Phase::Cloning { .. }
        | Phase::Created { .. }
        | Phase::Initialized { .. }
        | Phase::Finalizing { .. }
        | Phase::Complete { .. } => None,
    }
}

/// Puts the task on record.
fn record(run: &HostRun, task: &Upid) -> Result<(), Failure> {
    match run.phase() {
        Some(Phase::Removing {
            vmid,
            uuid,
            node,
            host_keys,
            addresses,
            step,
            since,
            ..
        }) => run.record_phase(Phase::Removing {
            vmid,
            uuid,
            node,
            host_keys,
            addresses,
            step,
            upid: Some(task.clone()),
            since,
        }),
        Some(_) | None => Ok(()),
    }
}

/// How a task stands; none if its node has forgotten it.
async fn standing(run: &HostRun, upid: &Upid) -> Result<Option<TaskStatus>, Failure> {
    match run.api().task_status(upid).await {
        Ok(status) => Ok(Some(status)),
        Err(error) if matches!(error.kind(), Kind::Missing | Kind::Invalid) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Somebody else's VM of that number on another node; `None` if there is surely none.
async fn elsewhere(run: &HostRun, vm: &Vm, ended_well: bool) -> Result<Option<VmConfig>, Failure> {
    let listing = run.fresh_listing().await?;
    match run.cluster.whereabouts(&listing, vm.vmid, View::Current).await? {
        Whereabouts::Container(_) | Whereabouts::Gone => Ok(None),
        Whereabouts::Moving(listed) => Err(moving(&listed)),
        Whereabouts::Vm(listed, config) if config.smbios_uuid().as_deref() == Some(vm.uuid.as_str()) => {
            Err(Failure::new(
                Diagnostic::error("remove/moved", format!("VM {} was moved to {}", vm.vmid, listed.node))
                    .rule("a VM that is moved while it is removed is looked at anew")
                    .help("run the same command again"),
            ))
        }
        Whereabouts::Vm(_, config) => Ok(Some(config)),
        Whereabouts::Away(_) | Whereabouts::Unknown(_) if ended_well => Ok(None),
        Whereabouts::Away(listed) => Err(unseen(vm, vec![format!("node {} is offline", listed.node)])),
        Whereabouts::Unknown(gaps) => Err(unseen(vm, gaps)),
    }
}

fn unseen(vm: &Vm, gaps: Vec<String>) -> Failure {
    let mut diagnostic = Diagnostic::error(
        "ownership/unknown",
        format!(
            "VM {} is not to be seen, but the view of the cluster is not complete",
            vm.vmid
        ),
    )
    .rule("not seen is not gone: DNS, snippets, known_hosts and record were kept")
    .exit(Exit::Refused);
    for gap in gaps {
        diagnostic = diagnostic.note(None, gap);
    }
    Failure::new(diagnostic)
}

fn volumes(config: &VmConfig) -> String {
    let names: Vec<String> = config.disks().iter().map(|drive| drive.volume.to_string()).collect();
    if names.is_empty() {
        "no disk".to_owned()
    } else {
        names.join(", ")
    }
}

fn wait(run: &HostRun, vm: &Vm) -> Wait {
    Wait {
        what: format!("the task that destroys VM {}", vm.vmid),
        pace: Pace::Task,
        budget: run.machine.waits.task_idle.max(std::time::Duration::from_secs(3600)),
        late: Box::new(
            Diagnostic::error(
                "remove/late",
                format!("the task that destroys VM {} does not end", vm.vmid),
            )
            .help("look at the task in Proxmox; when it has ended, run the same command again"),
        ),
    }
}

fn half_gone(run: &HostRun, vm: &Vm) -> Diagnostic {
    Diagnostic::error(
        "remove/stub",
        format!(
            "what is left of {} (VM {}) cannot be told from another machine",
            run.machine.name, vm.vmid
        ),
    )
    .rule("a task that was killed while destroying leaves a locked stub without identity; DNS and record were kept")
    .help(format!(
        "look at VM {} in Proxmox; if it is locked (destroyed): `qm unlock {} && qm destroy {}` on {}, then run the same command again",
        vm.vmid, vm.vmid, vm.vmid, vm.node
    ))
    .exit(Exit::Refused)
}
