//! The steps of finalize, each one change.

use std::time::Duration;

use tokio::time::Instant;

use super::{NO_DRIVE, SHUTDOWN, SILENCE};
use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::StageName;
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::guest::probes;
use crate::proxmox::error::Kind;
use crate::proxmox::task::TaskFilter;
use crate::proxmox::vm::View;
use crate::stage::snippets::{self, cloud_init_keys};
use crate::stage::start::pace;
use crate::stage::start::power_on;
use crate::stage::trust::Trusted;
use crate::stage::{Vm, finalize::verify, protect, still_named, still_ours};
use crate::state::record::{FinalizeStep, Phase};

const NAME: StageName = StageName::Finalize;
const COMMAND: Duration = Duration::from_secs(20);

/// Writes the checkpoint: what must be the same after the restart, and what must not.
pub async fn begin(run: &HostRun, trusted: &Trusted) -> Result<(), Failure> {
    let vm = &trusted.vm;
    let config = run.api().vm_config(&vm.node, vm.vmid, View::Current).await?;
    still_ours(vm, &run.machine.name, &config)?;
    protect::may_restart(run, vm, &config)?;
    let drive = match config.cloudinit_drives().as_slice() {
        [] => NO_DRIVE.to_owned(),
        [one] => one.slot.to_string(),
        several => {
            let slots: Vec<String> = several.iter().map(|drive| drive.slot.to_string()).collect();
            return Err(Failure::new(
                Diagnostic::error(
                    "finalize/ambiguous-drive",
                    format!("VM {} has several cloud-init drives: {}", vm.vmid, slots.join(", ")),
                )
                .rule("the one drive to remove must be certain; nothing was removed")
                .exit(Exit::Refused),
            ));
        }
    };
    let probe = probes::boot_id();
    let command = probe.command(COMMAND);
    let boot_id = async {
        let output = run
            .on_guest(&command)
            .await
            .map_err(|error| run.guest_failure(&error))?;
        probe.read(&output).map_err(|error| unreadable(run, &error.to_string()))
    };
    let (boot_id, addresses) = tokio::try_join!(boot_id, verify::addresses(run))?;
    run.record_phase(Phase::Finalizing {
        vmid: vm.vmid,
        uuid: vm.uuid.clone(),
        node: vm.node.clone(),
        drive,
        boot_id_before: Some(boot_id),
        host_keys: trusted.host_keys.clone(),
        addresses: addresses.into_iter().collect(),
        step: FinalizeStep::Begun,
    })
}

/// Whether the VM may be restarted by us.
pub async fn check_protection(run: &HostRun, vm: &Vm) -> Result<(), Failure> {
    let config = run.api().vm_config(&vm.node, vm.vmid, View::Current).await?;
    still_ours(vm, &run.machine.name, &config)?;
    protect::may_restart(run, vm, &config)
}

/// Switches cloud-init off on the guest.
pub async fn switch_off(run: &HostRun) -> Result<(), Failure> {
    let probe = probes::disable_cloud_init();
    let output = run
        .on_guest(&probe.command(COMMAND))
        .await
        .map_err(|error| run.guest_failure(&error))?;
    match probe.read(&output) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(
            Diagnostic::error(
                "finalize/cloud-init-off",
                format!(
                    "cloud-init cannot be switched off on {}: {}",
                    run.machine.host,
                    run.clean(&error.to_string())
                ),
            )
            .rule(
                "without /etc/cloud/cloud-init.disabled some templates lose their address and host keys at the restart",
            )
            .help(format!(
                "the user {} needs sudo without a password on the guest",
                run.machine.ssh.user
            )),
        )),
    }
}

/// Removes the drive, and the cloud-init keys that only it read.
pub async fn remove_drive(run: &HostRun, vm: &Vm, drive: &str) -> Result<(), Failure> {
    let config = run.api().vm_config(&vm.node, vm.vmid, View::Pending).await?;
    still_ours(vm, &run.machine.name, &config)?;
    let mut delete = Vec::new();
    if drive != NO_DRIVE
        && let Some(current) = drive.parse().ok().and_then(|slot| config.drive(slot))
    {
        if !current.is_cloudinit() {
            return Err(Failure::new(
                Diagnostic::error(
                    "finalize/other-drive",
                    format!(
                        "{drive} of VM {} is not the cloud-init drive any more: {current}",
                        vm.vmid
                    ),
                )
                .rule("only the cloud-init drive that was seen is removed; nothing was removed")
                .exit(Exit::Refused),
            ));
        }
        delete.push(drive.to_owned());
    }
    if !run.machine.snippets.keep {
        delete.extend(cloud_init_keys(run, &config));
    }
    if delete.is_empty() {
        return Ok(());
    }
    Ok(run
        .api()
        .set_config(&vm.node, vm.vmid, config.digest.as_deref(), &[], &delete)
        .await?)
}

/// Sees to it that the VM was power-cycled since the checkpoint: whatever an earlier run did is looked at first.
///
/// ```text
///   power task under way --> its end is waited for
///   stopped              --> started, which applies what is pending
///   drive still there or pending --> power cycle
///   nothing pending: the cycle may have been done already, so the guest decides
///       another boot id  --> done
///       the same boot id --> power cycle
///       no answer        --> it may be booting: waited for, and only then power-cycled
/// ```
pub async fn restart(run: &HostRun, vm: &Vm, drive: &str, boot_id_before: &str) -> Result<(), Failure> {
    wait_for_power_tasks(run, vm).await?;
    let status = run.api().vm_status(&vm.node, vm.vmid).await?;
    still_named(vm, &run.machine.name, &status.name)?;
    if !status.running {
        return power_on(run, NAME, vm).await;
    }
    if !drive_there(run, vm, drive).await?
        && let Some(boot_id) = answer(run).await?
        && boot_id != boot_id_before
    {
        return Ok(());
    }
    power_cycle(run, vm).await
}

/// Whether the drive is there, or its removal still waits for a power cycle.
async fn drive_there(run: &HostRun, vm: &Vm, drive: &str) -> Result<bool, Failure> {
    let pending = run.api().vm_pending(&vm.node, vm.vmid).await?;
    Ok(pending.iter().any(|entry| entry.key == drive))
}

/// The boot that answers; a guest that does not is given time to boot. `None` if it stays silent.
async fn answer(run: &HostRun) -> Result<Option<String>, Failure> {
    let since = Instant::now();
    let patience = SILENCE.min(run.machine.waits.restart);
    loop {
        let error = match verify::boot_id(run).await {
            Ok(boot_id) => return Ok(Some(boot_id)),
            Err(error) => error,
        };
        if !error.may_pass_while_booting() {
            return Err(run.guest_failure(&error));
        }
        if since.elapsed() >= patience {
            return Ok(None);
        }
        pause(run, pace(&error).pause(since.elapsed())).await?;
    }
}

/// Waits, unless the run is to stop.
async fn pause(run: &HostRun, pause: Duration) -> Result<(), Failure> {
    tokio::select! {
        () = tokio::time::sleep(pause) => Ok(()),
        () = run.shared.cancel.cancelled() => Err(Failure::new(
            Diagnostic::error("engine/interrupted", "interrupted while the guest restarts").exit(Exit::Interrupted),
        )),
    }
}

/// Waits for power tasks of an earlier run to end.
async fn wait_for_power_tasks(run: &HostRun, vm: &Vm) -> Result<(), Failure> {
    let filter = TaskFilter {
        vmid: Some(vm.vmid),
        running_only: true,
        ..TaskFilter::default()
    };
    let tasks = run.api().tasks(&vm.node, &filter).await?;
    for task in tasks
        .iter()
        .filter(|task| matches!(task.upid.kind(), "qmreboot" | "qmshutdown" | "qmstop" | "qmstart"))
        // An API that does not know the filter tells of all guests' tasks, those that ended too.
        .filter(|task| task.endtime.is_none() && task.upid.id() == vm.vmid.to_string())
    {
        // How it ends does not matter here: the state afterwards is looked at.
        let _ = run
            .follow(
                NAME,
                &task.upid,
                &format!("an earlier {} of VM {}", task.upid.kind(), vm.vmid),
            )
            .await;
    }
    pause(run, Duration::ZERO).await
}

/// Power-cycles the VM through the API: an orderly reboot; if the guest ignores it, shutdown with force and start.
pub async fn power_cycle(run: &HostRun, vm: &Vm) -> Result<(), Failure> {
    run.shared.remote.forget(&run.machine.ssh);
    let upid = run.api().reboot(&vm.node, vm.vmid, SHUTDOWN).await?;
    let rebooted = run.follow(NAME, &upid, &format!("restart of VM {}", vm.vmid)).await;
    if let Err(failure) = rebooted {
        // Only a task that surely failed for a reason of its own, a guest that does not listen, is answered with force.
        // A lock is not the guest's doing: it is waited for, or told.
        let locked = matches!(failure.kind, Some(Kind::Locked { .. }));
        let ignored = failure.diagnostic.code == "task/failed" && failure.retry == Retry::No && !locked;
        if run.shared.cancel.is_cancelled() || !ignored {
            return Err(failure);
        }
        run.warn(
            &Diagnostic::warning(
                "finalize/ignores-shutdown",
                format!(
                    "VM {} did not follow the reboot: {}",
                    vm.vmid, failure.diagnostic.message
                ),
            )
            .rule("it is shut down with force now, and started again"),
        );
        let upid = run.api().shutdown(&vm.node, vm.vmid, SHUTDOWN, true).await?;
        run.follow(NAME, &upid, &format!("shutdown of VM {}", vm.vmid)).await?;
        return power_on(run, NAME, vm).await;
    }
    came_back(run, vm).await
}

/// After the reboot task the VM is stopped for a moment, and a second task of Proxmox's own starts it. If that does not
/// happen, we start it.
async fn came_back(run: &HostRun, vm: &Vm) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        if run.api().vm_status(&vm.node, vm.vmid).await?.running {
            return Ok(());
        }
        if since.elapsed() >= Duration::from_secs(20) {
            return power_on(run, NAME, vm).await;
        }
        pause(run, Pace::Task.pause(since.elapsed())).await?;
    }
}

/// Removes the snippets from all folders that they were delivered to: they hold a password hash, and nothing refers to them
/// now.
pub async fn remove_snippets(run: &HostRun) -> Result<(), Failure> {
    snippets::remove(run).await?;
    run.clear_deliveries()
}

fn unreadable(run: &HostRun, detail: &str) -> Failure {
    Failure::new(Diagnostic::error(
        "guest/unreadable",
        format!(
            "{} gave an answer that cannot be read: {}",
            run.machine.host,
            run.clean(detail)
        ),
    ))
}
