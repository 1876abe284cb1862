//! `provision`: create and finalize the VMs, or go on where an earlier run stopped; with `--plan`, only tell.

use std::collections::BTreeMap;
use std::io;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::args::{self, Global};
use super::prepare::{self, Loaded};
use super::{Problems, say};
use crate::diagnose::{Diagnostic, Exit};
use crate::dns::{NoDns, Pihole, Provider};
use crate::engine::cluster::Cluster;
use crate::engine::event::{EventKind, Events, Listener, Outcome, StageName, Told};
use crate::engine::failure::Failure;
use crate::engine::fleet::Fleet;
use crate::engine::host::{Halt, HostRun, Mode, RunShared, millis};
use crate::engine::limits::Limits;
use crate::guest::openssh::{OpenSsh, Options};
use crate::machine::{Auth, Dns, Machine, Trust};
use crate::proxmox::client::Client;
use crate::proxmox::https::HttpsTransport;
use crate::secret::Redactor;
use crate::settings::{OutputFormat, Overrides, Settings};
use crate::stage::{Vm, lock};
use crate::state::StateDir;
use crate::ui::human::{Lines, Live};
use crate::ui::journal::JournalListener;
use crate::ui::ndjson::Ndjson;
use crate::ui::recap::Recap;
use crate::workflow;

/// Runs the verb.
pub async fn run(global: &Global, args: &args::Provision) -> Result<Exit, Problems> {
    let overrides = Overrides {
        forks: args.forks,
        clone_limit_per_storage: args.clone_limit_per_storage,
        migrate_limit_per_node: args.migrate_limit_per_node,
        known_hosts: args.known_hosts.clone(),
        templates_dir: args.templates_dir.clone(),
        output: args.output,
        wait_lock: args.wait_lock,
        ..global.overrides()
    };
    let mut loaded = prepare::load(global, &args.sources, overrides)?;
    let hosts = loaded.hosts(args.limit.as_deref())?;
    let embedded = loaded.embedded(&hosts).await?;
    let mut machines = loaded.machines(&hosts)?;
    loaded.authorize(&mut machines, !args.plan)?;
    let redactor = loaded.secrets(&machines);
    if let Some(first) = hosts.first() {
        loaded.settle_state_dir(first)?;
    }
    loaded.warnings.extend(insecure(&machines));
    loaded.tell_warnings(&redactor);
    let plan = Plan {
        mode: if args.plan { Mode::Plan } else { Mode::Apply },
        fail_fast: args.fail_fast,
        resume: resume(args),
    };
    let exit = fleet(&loaded, machines, &hosts, redactor, plan).await;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    exit
}

/// What the run is to do.
pub struct Plan {
    /// Apply or plan.
    pub mode: Mode,
    /// Begin no further host once one has failed.
    pub fail_fast: bool,
    /// The command to go on with, without `--limit`.
    pub resume: String,
}

/// The command to go on with. Values of `-e` may be secrets: only their names stand in it.
fn resume(args: &args::Provision) -> String {
    let mut command = "vmwright provision".to_owned();
    for source in &args.sources.inventory {
        command.push_str(&format!(" -i {source}"));
    }
    for extra in &args.sources.extra_vars {
        let name = extra.split('=').next().unwrap_or_default();
        command.push_str(&format!(" -e {name}=..."));
    }
    command
}

/// Verification that is switched off is told at every run.
fn insecure(machines: &[Machine]) -> Vec<Diagnostic> {
    let mut told: Vec<Diagnostic> = Vec::new();
    for machine in machines
        .iter()
        .filter(|machine| machine.cluster.trust == Trust::Insecure)
    {
        let warning = Diagnostic::warning(
            "cli/insecure",
            format!(
                "the certificate of {}:{} is not verified",
                machine.cluster.host, machine.cluster.port
            ),
        )
        .key("vms_pve_tls_insecure")
        .at(machine.origins.place("vms_pve_tls_insecure"))
        .rule("whoever is in between can read the token and change every call")
        .help("set global_proxmox_api_fingerprint or global_proxmox_api_ca_file instead");
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    told
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
    listeners.push(show(settings, hosts));
    let events = Events::new(run, listeners);
    let scratch = tempfile::tempdir().map_err(|error| {
        vec![
            Diagnostic::error("cli/scratch", format!("no temporary directory can be made: {error}"))
                .exit(Exit::HostFailed),
        ]
    })?;
    let remote = OpenSsh::new(Options::default()).map_err(|error| {
        vec![
            Diagnostic::error("ssh/setup", error.to_string())
                .help("an OpenSSH client (`ssh`, `ssh-keygen`, `ssh-keyscan`) must be installed")
                .exit(Exit::HostFailed),
        ]
    })?;
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
        remote: Arc::new(remote),
        known_hosts: settings.known_hosts.value.clone(),
        templates_dir: settings.templates_dir.value.clone(),
        scratch: scratch.path().to_owned(),
        resume: plan.resume,
    });
    events.emit(
        None,
        EventKind::RunStarted {
            command: "provision".to_owned(),
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
    let wait_lock = settings.wait_lock.value;
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
                let shared = Arc::clone(&shared);
                async move { host(HostRun::new(machine, shared, cluster, dns), wait_lock).await }
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
fn show(settings: &Settings, hosts: &[String]) -> Box<dyn Listener> {
    match settings.output.value {
        OutputFormat::Json => Box::new(Ndjson::new(io::stdout())),
        OutputFormat::Human if say::is_live() => Box::new(Live::new(hosts)),
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
async fn host(run: HostRun, wait_lock: Duration) -> Outcome {
    run.emit(EventKind::HostStarted {
        name: run.machine.name.clone(),
    });
    let mut end = workflow::provision::provision(&run, wait_lock).await;
    if let Err(failure) = lock::release(&run)
        && end.is_ok()
    {
        end = Err(Halt::Failed {
            stage: StageName::Lock,
            diagnostic: failure.diagnostic,
        });
    }
    tell_end(&run, end)
}

fn tell_end(run: &HostRun, end: Result<Vm, Halt>) -> Outcome {
    let changed = run.changed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (outcome, stage, diagnostic) = match end {
        Ok(_) if run.shared.mode == Mode::Plan => (Outcome::Planned, None, None),
        Ok(_) if changed.is_empty() => (Outcome::Unchanged, None, None),
        Ok(_) => (Outcome::Changed, None, None),
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
        vmid: phase.as_ref().map(|phase| phase.vmid().get()),
        node: phase.as_ref().and_then(|phase| phase.node()).map(ToString::to_string),
        address: run.machine.address().map(|address| address.to_string()),
        changed,
        stage,
        diagnostic,
        next: goes_on.then(|| format!("{} --limit {}", run.shared.resume, run.machine.host)),
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
        Outcome::Changed | Outcome::Unchanged | Outcome::Planned => false,
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

/// The doors of a run: one client a cluster and identity, one DNS provider a server.
#[derive(Default)]
struct Doors {
    clusters: std::cell::RefCell<BTreeMap<String, Arc<Cluster>>>,
    dns: std::cell::RefCell<BTreeMap<String, Arc<dyn Provider>>>,
}

impl Doors {
    fn cluster(&self, machine: &Machine) -> Result<Arc<Cluster>, Problems> {
        let cluster = &machine.cluster;
        let user = match &cluster.auth {
            Auth::Token { user, id, .. } => format!("{user}!{id}"),
            Auth::Password { user, .. } => user.clone(),
        };
        let key = format!(
            "{user}@{}:{} {:?} {}",
            cluster.host, cluster.port, cluster.trust, cluster.assume_full_visibility
        );
        if let Some(known) = self.clusters.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let transport = HttpsTransport::new(cluster).map_err(|error| vec![*Failure::from(error).diagnostic])?;
        let made = Arc::new(Cluster::new(
            Client::new(Arc::new(transport)),
            cluster.assume_full_visibility,
        ));
        self.clusters.borrow_mut().insert(key, Arc::clone(&made));
        Ok(made)
    }

    fn dns(&self, machine: &Machine) -> Result<Arc<dyn Provider>, Problems> {
        let (key, made): (String, Arc<dyn Provider>) = match &machine.dns {
            Dns::None => (String::new(), Arc::new(NoDns)),
            Dns::Pihole { url, password } => {
                let key = format!("{url} {}", password.expose());
                if let Some(known) = self.dns.borrow().get(&key) {
                    return Ok(Arc::clone(known));
                }
                let provider = Pihole::new(url, password.clone()).map_err(|error| {
                    vec![
                        Diagnostic::error("dns/setup", error.to_string())
                            .host(&machine.host)
                            .key("pihole_api_host"),
                    ]
                })?;
                (key, Arc::new(provider))
            }
        };
        self.dns.borrow_mut().insert(key, Arc::clone(&made));
        Ok(made)
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
