//! The proof at the end of finalize: restarted, reachable, unchanged, without the drive.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Checkpoint, NO_DRIVE};
use crate::diagnose::{Diagnostic, Exit};
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::guest::addresses::{self, GuestAddress};
use crate::guest::probes;
use crate::guest::remote::SshError;
use crate::proxmox::vm::View;

const COMMAND: Duration = Duration::from_secs(20);

/// What the proof says.
pub enum Verified {
    /// The guest does not answer yet.
    NotYet(SshError),
    /// The guest answers, from the boot before.
    SameBoot,
    /// Addresses are missing, which may come a moment later than sshd: a second card, IPv6 after its check for duplicates.
    AddressesLate(Box<Diagnostic>),
    /// The drive is there, or its removal is pending: somebody took the removal back, or the restart did not apply it.
    DriveStays(Box<Diagnostic>),
    /// Something is not as it was.
    Wrong(Box<Diagnostic>),
    /// Restarted and otherwise unchanged.
    Right,
}

/// Looks at everything.
pub(super) async fn verify(run: &HostRun, checkpoint: &Checkpoint) -> Result<Verified, Failure> {
    let boot_id = match boot_id(run).await {
        Ok(boot_id) => boot_id,
        Err(SshError::HostKey { text, .. }) => return Ok(Verified::Wrong(Box::new(other_keys(run, &text)))),
        Err(error @ SshError::Setup(_)) => return Err(Failure::new(run.explain_guest(&error))),
        Err(error) => return Ok(Verified::NotYet(error)),
    };
    if boot_id == checkpoint.boot_id_before {
        return Ok(Verified::SameBoot);
    }
    let now = addresses(run).await?;
    let lost: Vec<&String> = checkpoint.addresses.difference(&now).collect();
    if !lost.is_empty() {
        return Ok(Verified::AddressesLate(Box::new(lost_addresses(run, &lost, &now))));
    }
    drive_is_gone(run, checkpoint).await
}

async fn drive_is_gone(run: &HostRun, checkpoint: &Checkpoint) -> Result<Verified, Failure> {
    if checkpoint.drive == NO_DRIVE {
        return Ok(Verified::Right);
    }
    let vm = &checkpoint.vm;
    let current = run.api().vm_config(&vm.node, vm.vmid, View::Current).await?;
    let pending = run.api().vm_pending(&vm.node, vm.vmid).await?;
    let still = current.get(&checkpoint.drive).is_some()
        || pending.iter().any(|entry| {
            entry.key == checkpoint.drive && (entry.value.is_some() || entry.pending.is_some() || entry.delete)
        });
    if !still {
        return Ok(Verified::Right);
    }
    let diagnostic = Diagnostic::error(
        "finalize/drive-still-there",
        format!(
            "VM {} was restarted, and its drive {} is still there or pending",
            vm.vmid, checkpoint.drive
        ),
    )
    .rule("a removal counts when the drive is in neither the current configuration nor pending; the checkpoint stays")
    .help(format!(
        "look at VM {} in Proxmox: who puts the drive back? Then run the same command again, it removes the drive and restarts the VM once more",
        vm.vmid
    ));
    Ok(Verified::DriveStays(Box::new(diagnostic)))
}

/// The boot that answers.
pub async fn boot_id(run: &HostRun) -> Result<String, SshError> {
    let probe = probes::boot_id();
    let output = run.on_guest(&probe.command(COMMAND)).await?;
    probe.read(&output).map_err(|error| SshError::Lost(error.to_string()))
}

/// The guest's own addresses that nobody leased to it, as text.
pub async fn addresses(run: &HostRun) -> Result<BTreeSet<String>, Failure> {
    let probe = addresses::addresses();
    let output = run
        .on_guest(&probe.command(COMMAND))
        .await
        .map_err(|error| run.guest_failure(&error))?;
    match probe.read(&output) {
        Ok(found) => Ok(found.iter().filter(|address| !address.dynamic).map(text).collect()),
        Err(error) => Err(Failure::new(
            Diagnostic::error(
                "guest/unreadable",
                format!(
                    "the addresses of {} cannot be read: {}",
                    run.machine.host,
                    run.clean(&error.to_string())
                ),
            )
            .rule("they are compared before and after the restart"),
        )),
    }
}

fn text(address: &GuestAddress) -> String {
    match address.prefix {
        Some(prefix) => format!("{}/{prefix}", address.address),
        None => address.address.to_string(),
    }
}

fn other_keys(run: &HostRun, text: &str) -> Diagnostic {
    Diagnostic::error("finalize/host-keys-changed", format!("{} came back with other host keys", run.machine.host))
        .note(None, run.clean(text))
        .rule("a restart without the cloud-init drive must change nothing else; the checkpoint stays")
        .help("on the guest's console: did cloud-init run again? /etc/cloud/cloud-init.disabled must exist, and the data source list must not end in None")
        .exit(Exit::HostFailed)
}

fn lost_addresses(run: &HostRun, lost: &[&String], now: &BTreeSet<String>) -> Diagnostic {
    let list = |items: Vec<&str>| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    Diagnostic::error(
        "finalize/addresses-changed",
        format!(
            "{} lost {} at the restart",
            run.machine.host,
            list(lost.iter().map(|a| a.as_str()).collect())
        ),
    )
    .note(
        None,
        format!("it has now: {}", list(now.iter().map(String::as_str).collect())),
    )
    .rule("a restart without the cloud-init drive must change nothing else; the checkpoint stays")
    .exit(Exit::HostFailed)
}
