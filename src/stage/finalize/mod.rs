//! Finalize: the cloud-init drive is gone, proven by a restart, and nothing else changed.
//!
//! ```text
//!   checkpoint (boot id, host keys, addresses)            Begun
//!      v
//!   /etc/cloud/cloud-init.disabled on the guest           CloudInitOff    without it a template whose data source list
//!      v                                                                  ends in None loses address and host keys
//!   delete the drive                                      DriveRemoved    on a running VM this only becomes *pending*
//!      v
//!   power-cycle through the API                           Restarted       a reboot inside the guest applies nothing
//!      v
//!   verify: new boot id, a command runs, same host keys and addresses, the drive in neither config nor pending
//!      v
//!   remove the snippets, which nothing refers to now      Complete
//! ```
//!
//! Every step is in the record before the next begins, so a rerun goes on from the checkpoint.
//! Sources: qemu-server `vmconfig_apply_pending` (applied by stop, shutdown and reboot through the API, and by a cold
//! start; never by a guest's own reboot), `vm_reboot` (the task ends with the VM stopped; a second task starts it).

mod steps;
mod verify;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::{Change, StageName};
use crate::engine::failure::Failure;
use crate::engine::guest::at;
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::guest::remote::SshError;
use crate::stage::Vm;
use crate::stage::start::pace;
use crate::stage::trust::Trusted;
use crate::state::record::{FinalizeStep, Phase};

use verify::Verified;

/// Written for the drive when there was none to remove.
pub const NO_DRIVE: &str = "none";

/// The VM is reached, initialized and finalized.
#[derive(Clone, Debug)]
pub struct Complete {
    /// The VM.
    pub vm: Vm,
    /// Its host keys.
    pub host_keys: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    _made: (),
}

/// The stage.
pub struct Finalize {
    trusted: Trusted,
    proven: AtomicBool,
    snippets_gone: AtomicBool,
    may_restart: AtomicBool,
    restarts: AtomicU32,
}

/// A checkpoint, as it stands in the record.
#[derive(Clone, Debug)]
struct Checkpoint {
    vm: Vm,
    drive: String,
    boot_id_before: String,
    host_keys: Vec<String>,
    addresses: BTreeSet<String>,
    step: FinalizeStep,
}

impl Checkpoint {
    fn of(run: &HostRun, vm: &Vm) -> Option<Self> {
        match run.phase()? {
            Phase::Finalizing {
                drive,
                boot_id_before,
                host_keys,
                addresses,
                step,
                ..
            } => Some(Self {
                vm: vm.clone(),
                drive,
                boot_id_before: boot_id_before.unwrap_or_default(),
                host_keys,
                addresses: addresses.into_iter().collect(),
                step,
            }),
            Phase::Cloning { .. }
            | Phase::Created { .. }
            | Phase::Initialized { .. }
            | Phase::Complete { .. }
            | Phase::Removing { .. } => None,
        }
    }

    fn phase(&self, step: FinalizeStep) -> Phase {
        Phase::Finalizing {
            vmid: self.vm.vmid,
            uuid: self.vm.uuid.clone(),
            node: self.vm.node.clone(),
            drive: self.drive.clone(),
            boot_id_before: Some(self.boot_id_before.clone()),
            host_keys: self.host_keys.clone(),
            addresses: self.addresses.iter().cloned().collect(),
            step,
        }
    }
}

impl Finalize {
    /// The stage for a guest whose host keys are known.
    pub fn new(trusted: Trusted) -> Self {
        Self {
            trusted,
            proven: AtomicBool::new(false),
            snippets_gone: AtomicBool::new(false),
            may_restart: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
        }
    }
}

impl Stage for Finalize {
    const NAME: StageName = StageName::Finalize;
    type Evidence = Complete;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Complete>, Failure> {
        let change = |what: &str, to: &str| Ok(Seen::Absent(vec![Change::new(what, to)]));
        let Some(checkpoint) = Checkpoint::of(run, &self.trusted.vm) else {
            return change("checkpoint", "boot id, host keys and addresses");
        };
        match checkpoint.step {
            FinalizeStep::Begun => return change("cloud-init on the guest", "switched off"),
            FinalizeStep::CloudInitOff if checkpoint.drive == NO_DRIVE => {
                return change("cloud-init drive", "there is none");
            }
            FinalizeStep::CloudInitOff => {
                return Ok(Seen::Absent(vec![Change::set(
                    "cloud-init drive",
                    Some(checkpoint.drive),
                    None,
                )]));
            }
            FinalizeStep::DriveRemoved => return change("power", "cycled through the API"),
            FinalizeStep::Restarted => {}
        }
        // What was proven once in this run is not asked for again: only the snippets have gone since.
        let verified = match self.proven.load(Ordering::Relaxed) {
            true => Verified::Right,
            false => verify::verify(run, &checkpoint).await?,
        };
        match verified {
            Verified::NotYet(error) => Ok(Seen::Pending(wait(run, &error))),
            Verified::AddressesLate(late) => Ok(Seen::Pending(Wait {
                what: format!("the addresses of {}", run.machine.host),
                pace: Pace::Boot,
                budget: ADDRESSES.min(run.machine.waits.restart),
                late,
            })),
            Verified::SameBoot if self.restarts.load(Ordering::Relaxed) >= 2 => {
                Err(Failure::new(same_boot(run, &checkpoint)))
            }
            Verified::SameBoot => change("power", "cycled again, the boot id is still the old one"),
            Verified::DriveStays(diagnostic) if self.restarts.load(Ordering::Relaxed) >= 2 => {
                Err(Failure::new(*diagnostic))
            }
            Verified::DriveStays(_) => change("cloud-init drive", "removed again, it is still there"),
            Verified::Wrong(diagnostic) => Err(Failure::new(*diagnostic)),
            Verified::Right if run.machine.snippets.keep || self.snippets_gone.load(Ordering::Relaxed) => {
                Ok(Seen::Done(Complete {
                    vm: checkpoint.vm,
                    host_keys: checkpoint.host_keys,
                    addresses: checkpoint.addresses.into_iter().collect(),
                    _made: (),
                }))
            }
            Verified::Right => {
                self.proven.store(true, Ordering::Relaxed);
                change("snippets", "removed, nothing refers to them")
            }
        }
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let Some(checkpoint) = Checkpoint::of(run, &self.trusted.vm) else {
            steps::begin(run, &self.trusted).await?;
            self.may_restart.store(true, Ordering::Relaxed);
            return Ok(());
        };
        // A checkpoint of an earlier run does not say where vmwright runs now.
        if !self.may_restart.load(Ordering::Relaxed) {
            steps::check_protection(run, &checkpoint.vm).await?;
            self.may_restart.store(true, Ordering::Relaxed);
        }
        match checkpoint.step {
            FinalizeStep::Begun => {
                steps::switch_off(run).await?;
                run.record_phase(checkpoint.phase(FinalizeStep::CloudInitOff))
            }
            FinalizeStep::CloudInitOff => {
                steps::remove_drive(run, &checkpoint.vm, &checkpoint.drive).await?;
                run.record_phase(checkpoint.phase(FinalizeStep::DriveRemoved))
            }
            FinalizeStep::DriveRemoved => {
                steps::restart(run, &checkpoint.vm, &checkpoint.drive, &checkpoint.boot_id_before).await?;
                self.restarts.fetch_add(1, Ordering::Relaxed);
                run.record_phase(checkpoint.phase(FinalizeStep::Restarted))
            }
            FinalizeStep::Restarted if self.proven.load(Ordering::Relaxed) => {
                steps::remove_snippets(run).await?;
                self.snippets_gone.store(true, Ordering::Relaxed);
                Ok(())
            }
            FinalizeStep::Restarted => {
                // Where its removal was taken back, or got lost with Proxmox's own state, it is asked for again.
                steps::remove_drive(run, &checkpoint.vm, &checkpoint.drive).await?;
                steps::power_cycle(run, &checkpoint.vm).await?;
                self.restarts.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn settles(&self, complete: &Complete) -> Option<Phase> {
        Some(Phase::Complete {
            vmid: complete.vm.vmid,
            uuid: complete.vm.uuid.clone(),
            node: complete.vm.node.clone(),
            host_keys: complete.host_keys.clone(),
            addresses: complete.addresses.clone(),
            finished: jiff::Timestamp::now(),
        })
    }

    fn tell(&self, complete: &Complete) -> String {
        format!(
            "{} restarted without its cloud-init drive, nothing else changed",
            complete.vm
        )
    }
}

fn wait(run: &HostRun, last: &SshError) -> Wait {
    let target = at(&run.machine.ssh);
    let budget = run.machine.waits.restart;
    Wait {
        what: format!("{target} to come back"),
        pace: pace(last),
        budget,
        late: Box::new(
            Diagnostic::error(
                "finalize/not-back",
                format!(
                    "no command ran on {target} within {} s after the restart: {last}",
                    budget.as_secs()
                ),
            )
            .rule("the checkpoint stays: the same command goes on from here")
            .help("look at the VM's console in Proxmox"),
        ),
    }
}

fn same_boot(run: &HostRun, checkpoint: &Checkpoint) -> Diagnostic {
    Diagnostic::error(
        "finalize/same-boot",
        format!("{} still runs the boot from before its restart", run.machine.host),
    )
    .note(None, format!("boot id {}", checkpoint.boot_id_before))
    .rule("a restart is proven by a new boot id; the checkpoint stays")
    .help(format!(
        "power VM {} off and on in Proxmox, then run the same command again",
        checkpoint.vm.vmid
    ))
    .exit(Exit::HostFailed)
}

/// How long the guest is given to shut down for the restart.
const SHUTDOWN: Duration = Duration::from_secs(60);
/// How long a guest that may be booting is waited for before its power is cycled.
const SILENCE: Duration = Duration::from_secs(120);
/// How long after the guest's first answer its addresses may come.
const ADDRESSES: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
