//! Stop: the VM is stopped. An orderly shutdown first, bounded by `vms_shutdown_timeout`, then the plug.
//!
//! ```text
//!   a power task of an earlier run, a start too --> its end is waited for
//!   running --shutdown (agent, else ACPI)--> stopped
//!                 | the guest does not follow in time, or is paused
//!                 v
//!               stop ---------------------> stopped
//! ```
//!
//! Nothing is destroyed here: a removal that ends in this stage leaves a stopped VM, which can be started again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::diagnose::Diagnostic;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::proxmox::error::Kind;
use crate::proxmox::task::{TaskFilter, TaskInfo};
use crate::proxmox::vm::View;
use crate::stage::remove::obstacles::Clear;
use crate::stage::remove::removing;
use crate::stage::{Vm, still_named, still_ours};
use crate::state::record::{Phase, RemoveStep};

/// The VM is stopped, or will be in a plan.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The VM.
    pub vm: Vm,
    phase: Option<Phase>,
    _made: (),
}

/// The stage.
pub struct Stop {
    clear: Clear,
    ignores: AtomicBool,
}

impl Stop {
    /// The stage for a VM that nothing keeps.
    pub fn new(clear: Clear) -> Self {
        Self {
            clear,
            ignores: AtomicBool::new(false),
        }
    }
}

impl Stage for Stop {
    const NAME: StageName = StageName::Stop;
    type Evidence = Stopped;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Stopped>, Failure> {
        let vm = &self.clear.vm;
        let status = match run.api().vm_status(&vm.node, vm.vmid).await {
            // It went while it was looked at, by the task of a run that died; destroy proves that it is gone.
            Err(error) if error.kind() == Kind::Missing => {
                return Ok(Seen::Done(Stopped {
                    vm: vm.clone(),
                    phase: None,
                    _made: (),
                }));
            }
            status => status?,
        };
        still_named(vm, &run.machine.name, &status.name)?;
        // What a run that died has begun may still start the VM, or stop it.
        let under_way = power_tasks(run, vm).await?;
        if let Some(task) = under_way.iter().find(|task| !ends_power(task)) {
            return Ok(Seen::Pending(wait(run, vm, task.upid.kind())));
        }
        if status.running {
            let running = Some("running".to_owned());
            return Ok(Seen::Absent(vec![Change::set(
                "power",
                running,
                Some("stopped".to_owned()),
            )]));
        }
        Ok(Seen::Done(Stopped {
            vm: vm.clone(),
            phase: removing(run.phase().as_ref(), vm, RemoveStep::Stopped),
            _made: (),
        }))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let vm = &self.clear.vm;
        if let Some(task) = power_tasks(run, vm).await?.iter().find(|task| ends_power(task)) {
            let what = format!("an earlier {} of VM {}", task.upid.kind(), vm.vmid);
            return match run.follow(Self::NAME, &task.upid, &what).await {
                // How it ended is told by the VM's power.
                Err(failure) if failure.diagnostic.code == "task/failed" => {
                    self.ignores.store(true, Ordering::Relaxed);
                    Ok(())
                }
                other => other,
            };
        }
        let config = run.api().vm_config(&vm.node, vm.vmid, View::Current).await?;
        still_ours(vm, &run.machine.name, &config)?;
        run.shared.remote.forget(&run.machine.ssh);
        if !self.ignores.load(Ordering::Relaxed) {
            match shut_down(run, vm).await {
                Err(failure) if ignores(&failure) && !run.shared.cancel.is_cancelled() => {
                    self.ignores.store(true, Ordering::Relaxed);
                    run.warn(
                        &Diagnostic::warning(
                            "remove/ignores-shutdown",
                            format!("VM {} did not shut down: {}", vm.vmid, failure.diagnostic.message),
                        )
                        .rule("its power is cut now: it is to be destroyed anyhow"),
                    );
                }
                other => return other,
            }
        }
        let upid = run.api().stop(&vm.node, vm.vmid).await?;
        run.follow(Self::NAME, &upid, &format!("stop of VM {}", vm.vmid)).await
    }

    fn assume(&self, _run: &HostRun) -> Option<Stopped> {
        Some(Stopped {
            vm: self.clear.vm.clone(),
            phase: None,
            _made: (),
        })
    }

    fn settles(&self, stopped: &Stopped) -> Option<Phase> {
        stopped.phase.clone()
    }

    fn tell(&self, stopped: &Stopped) -> String {
        format!("{} is stopped", stopped.vm)
    }
}

/// The tasks under way that change the VM's power.
async fn power_tasks(run: &HostRun, vm: &Vm) -> Result<Vec<TaskInfo>, Failure> {
    let filter = TaskFilter {
        vmid: Some(vm.vmid),
        running_only: true,
        ..TaskFilter::default()
    };
    let mut tasks = run.api().tasks(&vm.node, &filter).await?;
    tasks.retain(|task| ends_power(task) || matches!(task.upid.kind(), "qmstart" | "qmreboot" | "qmresume"));
    // An API that does not know the filter tells of all guests' tasks, those that ended too.
    tasks.retain(|task| task.endtime.is_none() && task.upid.id() == vm.vmid.to_string());
    Ok(tasks)
}

fn ends_power(task: &TaskInfo) -> bool {
    matches!(task.upid.kind(), "qmshutdown" | "qmstop")
}

fn wait(run: &HostRun, vm: &Vm, kind: &str) -> Wait {
    Wait {
        what: format!("an earlier {kind} of VM {}", vm.vmid),
        pace: Pace::Task,
        budget: run.machine.waits.task_idle.max(Duration::from_secs(16)),
        late: Box::new(
            Diagnostic::error("remove/late", format!("the task {kind} of VM {} does not end", vm.vmid))
                .help("look at the task in Proxmox; when it has ended, run the same command again"),
        ),
    }
}

async fn shut_down(run: &HostRun, vm: &Vm) -> Result<(), Failure> {
    // A task is given up when it shows no progress for so long, and a shutdown shows none.
    let idle = run.machine.waits.task_idle.saturating_sub(Duration::from_secs(5));
    let timeout = run.machine.waits.shutdown.min(idle).max(Duration::from_secs(1));
    let upid = run.api().shutdown(&vm.node, vm.vmid, timeout, false).await?;
    run.follow(StageName::Stop, &upid, &format!("shutdown of VM {}", vm.vmid))
        .await
}

/// Whether the guest, not the API, said no: its shutdown failed in its task, or it is paused.
fn ignores(failure: &Failure) -> bool {
    let paused = failure.diagnostic.message.contains("is paused");
    // "VM quit/powerdown failed - got timeout" says nothing about a lock, so it is not a call that may be repeated.
    (failure.diagnostic.code == "task/failed" && failure.retry != Retry::NotExecuted) || paused
}
