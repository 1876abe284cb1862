//! Stop: the VM is stopped. An orderly shutdown first, bounded by `vms_shutdown_timeout`, then the plug.
//!
//! ```text
//!   a power task of an earlier run --> its end is waited for
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
use crate::engine::stage::{Seen, Stage};
use crate::proxmox::task::TaskFilter;
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
        let status = run.api().vm_status(&vm.node, vm.vmid).await?;
        still_named(vm, &run.machine.name, &status.name)?;
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
        let filter = TaskFilter {
            vmid: Some(vm.vmid),
            running_only: true,
            ..TaskFilter::default()
        };
        let tasks = run.api().tasks(&vm.node, &filter).await?;
        if let Some(task) = tasks
            .iter()
            .find(|task| matches!(task.upid.kind(), "qmshutdown" | "qmstop"))
        {
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
