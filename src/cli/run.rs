//! The run of a verb that works on many hosts: the doors, who listens, signals, the fleet, and how each host ended.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::again::Again;
use super::doors::Doors;
use super::prepare::Loaded;
use super::{Problems, say};
use crate::diagnose::{Diagnostic, Exit, nearest};
use crate::engine::event::{EventKind, Events, Listener, Outcome, StageName, Told};
use crate::engine::fleet::Fleet;
use crate::engine::host::{Halt, HostRun, Mode, RunShared, millis};
use crate::engine::limits::Limits;
use crate::engine::ourselves::{Ourselves, SelfProtection};
use crate::guest::openssh::{OpenSsh, Options};
use crate::machine::Machine;
use crate::proxmox::ids::VmId;
use crate::secret::Redactor;
use crate::settings::{OutputFormat, Settings};
use crate::stage::{Vm, lock};
use crate::state::StateDir;
use crate::ui::human::{Lines, Live};
use crate::ui::journal::JournalListener;
use crate::ui::ndjson::Ndjson;
use crate::ui::recap::Recap;
use crate::workflow;
use crate::workflow::remove::Removal;

/// What a run is to do.
pub struct Plan {
    /// The verb.
    pub work: Work,
    /// Apply or plan.
    pub mode: Mode,
    /// Begin no further host once one has failed.
    pub fail_fast: bool,
    /// The command to go on with, without `--limit`.
    pub again: Again,
    /// `--override-protection`.
    pub overrides: Vec<String>,
}

/// The verbs that work on many hosts.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Create and finalize.
    Provision,
    /// Take away.
    Remove {
        /// Snapshots go too.
        with_snapshots: bool,
    },
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Remove { .. } => "remove",
        }
    }

    fn stages(self) -> &'static [StageName] {
        match self {
            Self::Provision => StageName::PROVISION,
            Self::Remove { .. } => StageName::REMOVE,
        }
    }

    /// The command that goes on with one host.
    fn next(self, again: &Again, machine: &Machine) -> String {
        let command = again.clone().with("--limit", &machine.host);
        match self {
            Self::Provision => command.line(),
            Self::Remove { .. } => command.with("--confirm", &machine.name).line(),
        }
    }
}

/// How the work on one host ended well.
enum Done {
    Ready,
    Removed(Option<Vm>),
    Nothing,
}

/// Refuses an override that names no VM of the run: a misspelt one would be found out too late.
pub fn check_overrides(overrides: &[String], machines: &[Machine]) -> Result<(), Problems> {
    let unknown = |name: &&String| machines.iter().all(|machine| machine.name != **name);
    let problems: Problems = overrides
        .iter()
        .filter(unknown)
        .map(|name| {
            let problem = Diagnostic::error(
                "cli/override-unknown",
                format!("--override-protection {name} names no VM of this run"),
            )
            .rule("the protection of exactly one VM is overridden by its own name (vms_name)");
            match nearest(name, machines.iter().map(|machine| machine.name.as_str())) {
                Some(near) => problem.help(format!("did you mean {near}?")),
                None => problem,
            }
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Runs all hosts and tells how they ended.
pub async fn fleet(
    loaded: &Loaded,
    machines: Vec<Machine>,
    hosts: &[String],
    redactor: Redactor,
    plan: Plan,
) -> Result<Exit, Problems> {
    let settings = &loaded.settings;
    let begun = Instant::now();
    let open = if plan.mode == Mode::Plan {
        StateDir::peek
    } else {
        StateDir::open
    };
    let state = open(&settings.state_dir.value).map_err(|error| vec![error.diagnostic()])?;
    say::diagnostics(&state.warnings().map_err(|error| vec![error.diagnostic()])?, &redactor);
    let journal = state.open_journal(redactor.clone());
    let run = journal.run();
    let recap = Recap::default();
    let mut listeners: Vec<Box<dyn Listener>> = vec![Box::new(recap.clone())];
    if plan.mode == Mode::Apply {
        listeners.push(Box::new(JournalListener::new(journal)));
    }
    listeners.push(show(settings, hosts, plan.work.stages()));
    let events = Events::new(run, listeners);
    let remote = OpenSsh::new(Options::default()).map_err(|error| {
        vec![
            Diagnostic::error("cli/scratch", error.to_string())
                .help("check TMPDIR and the room on that filesystem")
                .exit(Exit::HostFailed),
        ]
    })?;
    let scratch = remote.home().to_owned();
    let cancel = CancellationToken::new();
    let signals = tokio::spawn(watch_signals(cancel.clone()));
    let shared = Arc::new(RunShared {
        events: events.clone(),
        mode: plan.mode,
        cancel: cancel.clone(),
        limits: Limits::new(
            settings.clone_limit_per_storage.value.permits(),
            settings.migrate_limit_per_node.value.permits(),
        ),
        redactor,
        state: Arc::new(state),
        recorded: std::sync::OnceLock::new(),
        remote: Arc::new(remote),
        known_hosts: settings.known_hosts.value.clone(),
        templates_dir: settings.templates_dir.value.clone(),
        nodes: loaded.other_hosts(),
        scratch,
        protection: SelfProtection {
            ourselves: Ourselves::look(),
            overrides: plan.overrides.into_iter().collect(),
        },
    });
    events.emit(
        None,
        EventKind::RunStarted {
            command: plan.work.name().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            hosts: hosts.to_vec(),
        },
    );
    let doors = Doors::default();
    let mut runs = Vec::new();
    for machine in machines {
        let machine = Arc::new(machine);
        let (cluster, dns) = (doors.cluster(&machine)?, doors.dns(&machine)?);
        runs.push((machine, cluster, dns));
    }
    let names: Vec<(String, String)> = runs
        .iter()
        .map(|(machine, _, _)| (machine.host.clone(), machine.name.clone()))
        .collect();
    let (work, wait_lock) = (plan.work, settings.wait_lock.value);
    let again = Arc::new(plan.again);
    let fleet = Fleet {
        forks: settings.forks.value.get(),
        fail_fast: plan.fail_fast,
    };
    let ends = fleet
        .run(
            runs,
            &cancel,
            |end: &Outcome| is_failure(*end),
            |(machine, cluster, dns)| {
                let (shared, again) = (Arc::clone(&shared), Arc::clone(&again));
                async move { host(HostRun::new(machine, shared, cluster, dns), work, &again, wait_lock).await }
            },
        )
        .await;
    signals.abort();
    for ((host, name), _) in names.iter().zip(&ends).filter(|(_, end)| end.is_none()) {
        events.emit(Some(host), not_begun(name.clone()));
    }
    let outcomes: Vec<Outcome> = ends.into_iter().map(|end| end.unwrap_or(Outcome::Skipped)).collect();
    let exit = exit_of(&outcomes, cancel.is_cancelled());
    events.emit(
        None,
        EventKind::RunDone {
            exit: exit.code(),
            ms: millis(begun.elapsed()),
        },
    );
    if settings.output.value == OutputFormat::Human {
        say::data(&recap.render(hosts));
    }
    Ok(exit)
}

/// Who shows the run.
fn show(settings: &Settings, hosts: &[String], stages: &'static [StageName]) -> Box<dyn Listener> {
    match settings.output.value {
        OutputFormat::Json => Box::new(Ndjson::new(say::Output)),
        OutputFormat::Human if say::is_live() => Box::new(Live::new(hosts, stages)),
        OutputFormat::Human => Box::new(Lines::new(io::stderr(), hosts, true)),
    }
}

/// The first signal asks the run to stop at the next safe point; the second ends the process, which is safe too.
async fn watch_signals(cancel: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    next().await;
    say::talk("stopping at the next safe point; once more to end at once (that is safe too)");
    cancel.cancel();
    next().await;
    #[expect(
        clippy::exit,
        reason = "the second signal ends the process at once; the record and the locks stand it"
    )]
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

/// One host from lock to end.
async fn host(run: HostRun, work: Work, again: &Again, wait_lock: Duration) -> Outcome {
    run.emit(EventKind::HostStarted {
        name: run.machine.name.clone(),
    });
    let mut end = match work {
        Work::Provision => workflow::provision::provision(&run, wait_lock)
            .await
            .map(|_| Done::Ready),
        Work::Remove { with_snapshots } => {
            workflow::remove::remove(&run, wait_lock, with_snapshots)
                .await
                .map(|removal| match removal {
                    Removal::Nothing => Done::Nothing,
                    Removal::Removed(vm) => Done::Removed(vm),
                })
        }
    };
    if let Err(failure) = lock::release(&run)
        && end.is_ok()
    {
        end = Err(Halt::Failed {
            stage: StageName::Lock,
            diagnostic: failure.diagnostic,
        });
    }
    tell_end(&run, work, again, end)
}

fn tell_end(run: &HostRun, work: Work, again: &Again, end: Result<Done, Halt>) -> Outcome {
    let changed = run.changed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let gone = match &end {
        Ok(Done::Removed(vm)) => vm.clone(),
        Ok(Done::Ready | Done::Nothing) | Err(_) => None,
    };
    let (outcome, stage, diagnostic) = match end {
        Ok(Done::Nothing) => (Outcome::Absent, None, None),
        Ok(Done::Removed(_)) => (Outcome::Removed, None, None),
        Ok(Done::Ready) if run.shared.mode == Mode::Plan => (Outcome::Planned, None, None),
        Ok(Done::Ready) if changed.is_empty() => (Outcome::Unchanged, None, None),
        Ok(Done::Ready) => (Outcome::Changed, None, None),
        Err(Halt::Planned { .. }) => (Outcome::Planned, None, None),
        Err(Halt::Interrupted { stage }) => (Outcome::Interrupted, Some(stage), None),
        Err(Halt::Failed { stage, diagnostic }) => {
            let outcome = match diagnostic.exit {
                Exit::Locked => Outcome::Locked,
                Exit::Refused => Outcome::Refused,
                Exit::Interrupted => Outcome::Interrupted,
                Exit::Done | Exit::HostFailed | Exit::Usage => Outcome::Failed,
            };
            (outcome, Some(stage), Some(run.told(&diagnostic)))
        }
    };
    let phase = run.phase();
    let goes_on = matches!(outcome, Outcome::Failed | Outcome::Locked | Outcome::Interrupted);
    run.emit(EventKind::HostDone {
        outcome,
        name: run.machine.name.clone(),
        vmid: phase
            .as_ref()
            .map(|phase| phase.vmid())
            .or(gone.as_ref().map(|vm| vm.vmid))
            .map(VmId::get),
        node: phase
            .as_ref()
            .and_then(|phase| phase.node())
            .or(gone.as_ref().map(|vm| &vm.node))
            .map(ToString::to_string),
        address: run.machine.address().map(|address| address.to_string()),
        changed,
        stage,
        diagnostic,
        next: goes_on.then(|| work.next(again, &run.machine)),
        ms: millis(run.begun.elapsed()),
    });
    outcome
}

fn not_begun(name: String) -> EventKind {
    EventKind::HostDone {
        outcome: Outcome::Skipped,
        name,
        vmid: None,
        node: None,
        address: None,
        changed: Vec::new(),
        stage: None,
        diagnostic: None::<Told>,
        next: None,
        ms: 0,
    }
}

fn is_failure(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Changed | Outcome::Unchanged | Outcome::Removed | Outcome::Absent | Outcome::Planned => false,
        Outcome::Failed | Outcome::Locked | Outcome::Refused | Outcome::Interrupted | Outcome::Skipped => true,
    }
}

/// The exit code of a run: the reason that all failed hosts share, else 1.
fn exit_of(outcomes: &[Outcome], interrupted: bool) -> Exit {
    if interrupted {
        return Exit::Interrupted;
    }
    let mut failed: Vec<Outcome> = outcomes
        .iter()
        .copied()
        .filter(|end| is_failure(*end) && *end != Outcome::Skipped)
        .collect();
    failed.dedup();
    match failed.as_slice() {
        [] => Exit::Done,
        [Outcome::Locked] => Exit::Locked,
        [Outcome::Refused] => Exit::Refused,
        [Outcome::Interrupted] => Exit::Interrupted,
        _ => Exit::HostFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_reason_that_all_failures_share() {
        use Outcome::{Changed, Failed, Locked, Refused, Skipped, Unchanged};
        assert_eq!(exit_of(&[Changed, Unchanged], false), Exit::Done);
        assert_eq!(exit_of(&[Changed, Locked, Locked], false), Exit::Locked);
        assert_eq!(exit_of(&[Refused, Skipped], false), Exit::Refused);
        assert_eq!(exit_of(&[Refused, Failed], false), Exit::HostFailed);
        assert_eq!(exit_of(&[Refused, Locked], false), Exit::HostFailed);
        assert_eq!(exit_of(&[Changed], true), Exit::Interrupted);
    }
}
