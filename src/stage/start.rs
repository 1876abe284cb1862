//! Start: the VM runs, and a command really runs on the guest.
//!
//! An open port is no guest: only a command that ran over SSH counts, on the guest, not on the control node. Login refused
//! or a new host key are normal until cloud-init made the user; they become errors when the budget is used up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::Diagnostic;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::Failure;
use crate::engine::guest::at;
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::guest::probes;
use crate::guest::remote::SshError;
use crate::stage::hardware::Shaped;
use crate::stage::{Vm, still_named};

/// The guest runs commands.
#[derive(Clone, Debug)]
pub struct Running {
    /// The VM.
    pub vm: Vm,
    /// The boot that answered.
    pub boot_id: String,
    _made: (),
}

/// The stage.
pub struct Start {
    /// The VM has its hardware.
    pub shaped: Shaped,
    power_seen: Mutex<Option<Instant>>,
}

impl Start {
    /// The stage for a VM that has its hardware.
    pub fn new(shaped: Shaped) -> Self {
        Self {
            shaped,
            power_seen: Mutex::new(None),
        }
    }

    /// Whether the VM runs; asked at most every five seconds once it was seen running.
    async fn powered(&self, run: &HostRun) -> Result<bool, Failure> {
        let fresh = |seen: &Instant| seen.elapsed() < Duration::from_secs(5);
        if self
            .power_seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(fresh)
        {
            return Ok(true);
        }
        let vm = &self.shaped.vm;
        let status = run.api().vm_status(&vm.node, vm.vmid).await?;
        still_named(vm, &run.machine.name, &status.name)?;
        *self.power_seen.lock().unwrap_or_else(PoisonError::into_inner) = status.running.then(Instant::now);
        Ok(status.running)
    }
}

impl Stage for Start {
    const NAME: StageName = StageName::Start;
    type Evidence = Running;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Running>, Failure> {
        if !self.powered(run).await? {
            return Ok(Seen::Absent(vec![Change::set(
                "power",
                Some("stopped".to_owned()),
                Some("running".to_owned()),
            )]));
        }
        let probe = probes::boot_id();
        match run.on_guest(&probe.command(Duration::from_secs(20))).await {
            Ok(output) => match probe.read(&output) {
                Ok(boot_id) => Ok(Seen::Done(Running {
                    vm: self.shaped.vm.clone(),
                    boot_id,
                    _made: (),
                })),
                Err(what) => Ok(Seen::Pending(late(run, &SshError::Lost(what.to_string())))),
            },
            Err(SshError::HostKey { text, changed: true }) if run.is_first_boot() => {
                // The first contact may have been with the template's own keys, before cloud-init made new ones.
                relearn(run, &text)?;
                Ok(Seen::Pending(late(run, &SshError::HostKey { text, changed: true })))
            }
            Err(error) if error.may_pass_while_booting() => Ok(Seen::Pending(late(run, &error))),
            Err(error) => Err(Failure::new(run.explain_guest(&error))),
        }
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        power_on(run, Self::NAME, &self.shaped.vm).await
    }

    fn tell(&self, running: &Running) -> String {
        format!(
            "commands run on the guest (boot {})",
            running.boot_id.split('-').next().unwrap_or_default()
        )
    }
}

/// Starts the VM; one that runs already is started. Connections to the boot before are dropped.
pub async fn power_on(run: &HostRun, stage: StageName, vm: &Vm) -> Result<(), Failure> {
    run.shared.remote.forget(&run.machine.ssh);
    let upid = run.api().start(&vm.node, vm.vmid).await?;
    match run.follow(stage, &upid, &format!("start of VM {}", vm.vmid)).await {
        Err(failure) if failure.diagnostic.message.ends_with("already running") => Ok(()),
        other => other,
    }
}

/// Forgets the host keys of the first contact.
pub fn relearn(run: &HostRun, text: &str) -> Result<(), Failure> {
    tracing::info!(host = %run.machine.host, text, "the guest shows new host keys during its first boot; learning them again");
    run.shared.remote.forget(&run.machine.ssh);
    match std::fs::remove_file(run.first_contact_file()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::new(Diagnostic::error(
            "start/scratch",
            format!("the first contact's host keys cannot be forgotten: {error}"),
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// How often to try: fast while nothing answers, slowly once a login was refused.
pub fn pace(last: &SshError) -> Pace {
    match last {
        SshError::Denied(_) => Pace::Login,
        SshError::NotReachable(_)
        | SshError::Lost(_)
        | SshError::TimedOut(_)
        | SshError::HostKey { .. }
        | SshError::Setup(_) => Pace::Boot,
    }
}

/// The wait for the guest, and what is told if it takes too long.
fn late(run: &HostRun, last: &SshError) -> Wait {
    let target = at(&run.machine.ssh);
    let budget = run.machine.waits.startup;
    let (code, help) = match last {
        SshError::Denied(_) => (
            "start/login-refused",
            "the guest runs sshd but refuses this login: was its user-data applied? check ansible_user, the key, and on the console /var/log/cloud-init.log",
        ),
        SshError::NotReachable(_)
        | SshError::Lost(_)
        | SshError::TimedOut(_)
        | SshError::HostKey { .. }
        | SshError::Setup(_) => (
            "start/unreachable",
            "look at the VM's console in Proxmox: does it boot, does it have its address, does sshd run?",
        ),
    };
    let message = format!("no command ran on {target} within {} s: {last}", budget.as_secs());
    Wait {
        what: format!("a command to run on {target}"),
        pace: pace(last),
        budget,
        late: Box::new(Diagnostic::error(code, message).help(help)),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl Running {
    /// As if a command had run.
    pub(crate) fn of(vm: Vm) -> Self {
        Self {
            vm,
            boot_id: "b".to_owned(),
            _made: (),
        }
    }
}
