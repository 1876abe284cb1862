//! cloud-init: its verdict on the first boot, from exit code and JSON.
//!
//! Reboots during the first boot are expected: a guest that is away is waited for. "done" is no proof that the user-data
//! was applied (22.4 says done for unparsable user-data); the login with our key, which got us here, is the second
//! witness. The verified verdict is recorded and never asked again: once the drive is gone, cloud-init says `disabled`.

use std::time::Duration;

use crate::diagnose::Diagnostic;
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::guest::cloud_init::{Verdict, judge};
use crate::guest::probes;
use crate::guest::remote::SshError;
use crate::stage::Vm;
use crate::stage::ownership::Owned;
use crate::stage::start::{Running, relearn};
use crate::state::record::Phase;

/// cloud-init is done, and its verdict is good.
#[derive(Clone, Debug)]
pub struct Initialized {
    /// The VM.
    pub vm: Vm,
    /// The verdict in words.
    pub verdict: String,
    _made: (),
}

impl Initialized {
    /// The verdict is on record already.
    pub fn before(owned: Owned) -> Self {
        Self { vm: owned.vm, verdict: "on record".to_owned(), _made: () }
    }
}

/// The stage.
pub struct CloudInit {
    /// The guest runs commands.
    pub running: Running,
}

impl Stage for CloudInit {
    const NAME: StageName = StageName::CloudInit;
    type Evidence = Initialized;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Initialized>, Failure> {
        let waits = &run.machine.waits;
        let command = probes::cloud_init_status_command(waits.cloud_init_command, Duration::from_secs(3));
        let output = match run.on_guest(&command).await {
            Ok(output) => output,
            Err(SshError::HostKey { text, changed: true }) => {
                relearn(run, &text)?;
                return Ok(Seen::Pending(wait(run, "the guest is away (it restarts)")));
            }
            Err(error) if error.may_pass_while_booting() => {
                return Ok(Seen::Pending(wait(run, &format!("the guest is away: {error}"))));
            }
            Err(error) => return Err(Failure::new(run.explain_guest(&error))),
        };
        let (code, stdout, stderr) = probes::parse_cloud_init_status(&output);
        match judge(code, &stdout, &stderr) {
            Verdict::Running { detail } => Ok(Seen::Pending(wait(run, &detail))),
            Verdict::Error { over: false, .. } => Ok(Seen::Pending(wait(run, "reports an error while stages still run"))),
            Verdict::Done { warnings } => {
                for warning in &warnings {
                    run.warn(
                        &Diagnostic::warning("cloud-init/warning", format!("cloud-init on {}: {warning}", run.machine.host))
                            .help("a deprecated key still works today; mend the template that writes it"),
                    );
                }
                let verdict = if warnings.is_empty() { "done" } else { "done, with warnings" };
                Ok(Seen::Done(Initialized { vm: self.running.vm.clone(), verdict: verdict.to_owned(), _made: () }))
            }
            bad @ (Verdict::Degraded { .. }
            | Verdict::Error { over: true, .. }
            | Verdict::Disabled
            | Verdict::NotInstalled
            | Verdict::Unreadable { .. }) => Err(Failure::new(self.explain(run, &bad))),
        }
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn settles(&self, initialized: &Initialized) -> Option<Phase> {
        Some(Phase::Initialized {
            vmid: initialized.vm.vmid,
            uuid: initialized.vm.uuid.clone(),
            node: initialized.vm.node.clone(),
            verdict: initialized.verdict.clone(),
        })
    }

    fn tell(&self, initialized: &Initialized) -> String {
        initialized.verdict.clone()
    }
}

impl CloudInit {
    fn explain(&self, run: &HostRun, verdict: &Verdict) -> Diagnostic {
        let host = &run.machine.host;
        let (code, message, errors): (_, String, &[String]) = match verdict {
            Verdict::Degraded { problems } => ("cloud-init/degraded", format!("cloud-init on {host} ended degraded"), problems),
            Verdict::Error { errors, .. } => ("cloud-init/error", format!("cloud-init on {host} ended with an error"), errors),
            Verdict::Disabled => ("cloud-init/disabled", format!("cloud-init on {host} is disabled: it found no data source, so the user-data was not applied"), &[]),
            Verdict::NotInstalled => ("cloud-init/not-installed", format!("there is no cloud-init on {host}"), &[]),
            Verdict::Unreadable { detail } => ("cloud-init/unreadable", format!("cloud-init on {host} gave no readable status: {detail}"), &[]),
            Verdict::Running { .. } | Verdict::Done { .. } => ("cloud-init/unreadable", format!("cloud-init on {host} is not over"), &[]),
        };
        let mut diagnostic = Diagnostic::error(code, message).rule("only a clean end of cloud-init counts as created; the VM was left as it is");
        for error in errors {
            diagnostic = diagnostic.note(None, run.clean(error));
        }
        diagnostic
            .help(format!("on {host}: `cloud-init status --long`, /var/log/cloud-init.log and /var/log/cloud-init-output.log"))
            .help("mend the cause there (or in the inventory and remove the VM), then run the same command again")
    }
}

fn wait(run: &HostRun, detail: &str) -> Wait {
    let waits = &run.machine.waits;
    let host = &run.machine.host;
    let late = Diagnostic::error("cloud-init/timeout", format!("cloud-init on {host} did not end within {} s", waits.cloud_init.as_secs()))
        .note(None, format!("last seen: {}", run.clean(detail)))
        .rule("the bound is vms_cloud_init_poll_retries x vms_cloud_init_poll_delay; one call may take vms_cloud_init_command_timeout")
        .help(format!("on {host}: `cloud-init status --long`, /var/log/cloud-init.log and /var/log/cloud-init-output.log"))
        .help("run the same command again to go on waiting");
    Wait { what: format!("cloud-init: {}", run.clean(detail)), pace: Pace::CloudInit, budget: waits.cloud_init, late: Box::new(late) }
}
