//! cloud-init: its verdict on the first boot, from exit code and JSON.
//!
//! Reboots during the first boot are expected: a guest that is away is waited for. "done" is no proof that the user-data
//! was applied (22.4 says done for unparsable user-data); the login with our key, which got us here, is the second
//! witness. The verified verdict is recorded and never asked again: once the drive is gone, cloud-init says `disabled`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::Diagnostic;
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::guest::cloud_init::{Verdict, Why};
use crate::guest::probes;
use crate::guest::remote::SshError;
use crate::stage::Vm;
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
    pub fn before(running: Running) -> Self {
        Self {
            vm: running.vm,
            verdict: "on record".to_owned(),
            _made: (),
        }
    }
}

/// How long one look waits on the guest for cloud-init's end before it asks.
const WAIT: Duration = Duration::from_secs(3);

/// The stage.
pub struct CloudInit {
    running: Running,
    /// Since when, and how often in a row, the same bad answer came.
    doubt: Mutex<Option<(Instant, u32)>>,
}

/// How often in a row an error must be reported, and for how long, before it is believed: 25.1 may report one while
/// systemd's units settle.
const ERROR_SEEN: (u32, Duration) = (2, Duration::from_secs(1));
/// The same for an answer that is no evidence at all.
const UNREADABLE_SEEN: (u32, Duration) = (5, Duration::from_secs(60));

impl Stage for CloudInit {
    const NAME: StageName = StageName::CloudInit;
    type Evidence = Initialized;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Initialized>, Failure> {
        let waits = &run.machine.waits;
        let probe = probes::cloud_init_status(WAIT, waits.cloud_init_command);
        let command = probe.command(probes::cloud_init_budget(WAIT, waits.cloud_init_command));
        let asked = Instant::now();
        let output = match run.on_guest(&command).await {
            Ok(output) => output,
            Err(SshError::HostKey { text, changed: true }) => {
                relearn(run, &text)?;
                return Ok(Seen::Pending(wait(run, "the guest is away (it restarts)")));
            }
            Err(error) if error.may_pass_while_booting() => {
                self.calm();
                let mut away = wait(run, &format!("the guest is away: {error}"));
                if matches!(error, SshError::Denied(_)) {
                    away.pace = Pace::Login;
                }
                return Ok(Seen::Pending(away));
            }
            Err(error) => return Err(Failure::new(run.explain_guest(&error))),
        };
        let sample = match probe.read(&output) {
            Ok(sample) => sample,
            Err(error) => return Ok(Seen::Pending(wait(run, &error.to_string()))),
        };
        let verdict = sample.verdict();
        let believed = match &verdict {
            Verdict::Error { over, .. } => *over == Some(false) || self.doubted(ERROR_SEEN),
            Verdict::Unreadable(Why::TimedOut | Why::Killed) => false,
            Verdict::Unreadable(Why::NoStatus { .. } | Why::UnknownStatus(_) | Why::Contradiction(_)) => {
                self.doubted(UNREADABLE_SEEN)
            }
            Verdict::Running { .. }
            | Verdict::Done { .. }
            | Verdict::Degraded { .. }
            | Verdict::Disabled
            | Verdict::NotInstalled => {
                self.calm();
                true
            }
        };
        if !believed {
            let detail = match &verdict {
                Verdict::Unreadable(why) => why.to_string(),
                _ => "reports an error; asking once more".to_owned(),
            };
            return Ok(Seen::Pending(wait(run, &detail)));
        }
        match verdict {
            Verdict::Running { stage } => {
                let mut running = wait(run, stage.as_deref().unwrap_or("running"));
                if asked.elapsed() >= WAIT / 2 {
                    // The guest watched for the end all the while; a pause would be time in which nobody does.
                    running.pace = Pace::Watched;
                }
                Ok(Seen::Pending(running))
            }
            Verdict::Done { .. } if sample.shutdown_scheduled => {
                Ok(Seen::Pending(wait(run, "done, and a restart is scheduled")))
            }
            Verdict::Error { over: Some(false), .. } => {
                Ok(Seen::Pending(wait(run, "reports an error while stages still run")))
            }
            Verdict::Done { warnings } => {
                for warning in &warnings {
                    run.warn(
                        &Diagnostic::warning(
                            "cloud-init/warning",
                            format!("cloud-init on {}: {warning}", run.machine.host),
                        )
                        .help("a deprecated key still works today; mend the template that writes it"),
                    );
                }
                let verdict = if warnings.is_empty() {
                    "done"
                } else {
                    "done, with warnings"
                };
                Ok(Seen::Done(Initialized {
                    vm: self.running.vm.clone(),
                    verdict: verdict.to_owned(),
                    _made: (),
                }))
            }
            bad @ (Verdict::Degraded { .. }
            | Verdict::Error { .. }
            | Verdict::Disabled
            | Verdict::NotInstalled
            | Verdict::Unreadable(_)) => Err(Failure::new(self.explain(run, &bad))),
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
    /// The stage for a guest that runs commands.
    pub fn new(running: Running) -> Self {
        Self {
            running,
            doubt: Mutex::new(None),
        }
    }

    /// Counts a bad answer; whether it has come often enough and for long enough to be believed.
    fn doubted(&self, (times, time): (u32, Duration)) -> bool {
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, seen) = doubt.get_or_insert_with(|| (Instant::now(), 0));
        *seen += 1;
        *seen >= times && since.elapsed() >= time
    }

    /// A good answer: what was bad before does not count any more.
    fn calm(&self) {
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn explain(&self, run: &HostRun, verdict: &Verdict) -> Diagnostic {
        let host = &run.machine.host;
        let (code, message, errors): (_, String, Vec<String>) = match verdict {
            Verdict::Degraded { problems } => (
                "cloud-init/degraded",
                format!("cloud-init on {host} ended degraded"),
                problems
                    .iter()
                    .map(|(level, text)| format!("{level}: {text}"))
                    .collect(),
            ),
            Verdict::Error { errors, .. } => (
                "cloud-init/error",
                format!("cloud-init on {host} ended with an error"),
                errors.clone(),
            ),
            Verdict::Disabled => (
                "cloud-init/disabled",
                format!("cloud-init on {host} is disabled: it found no data source, so the user-data was not applied"),
                Vec::new(),
            ),
            Verdict::NotInstalled => (
                "cloud-init/not-installed",
                format!("there is no cloud-init on {host}"),
                Vec::new(),
            ),
            Verdict::Unreadable(why) => (
                "cloud-init/unreadable",
                format!("cloud-init on {host} gave no readable status: {why}"),
                Vec::new(),
            ),
            Verdict::Running { .. } | Verdict::Done { .. } => (
                "cloud-init/unreadable",
                format!("cloud-init on {host} is not over"),
                Vec::new(),
            ),
        };
        let mut diagnostic = Diagnostic::error(code, message)
            .rule("only a clean end of cloud-init counts as created; the VM was left as it is");
        for error in errors {
            diagnostic = diagnostic.note(None, run.clean(&error));
        }
        diagnostic
            .help(format!(
                "on {host}: `cloud-init status --long`, /var/log/cloud-init.log and /var/log/cloud-init-output.log"
            ))
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
    Wait {
        what: format!("cloud-init: {}", run.clean(detail)),
        pace: Pace::CloudInit,
        budget: waits.cloud_init,
        late: Box::new(late),
    }
}

#[cfg(test)]
mod tests;
