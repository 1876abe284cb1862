//! One host of a run: the engine's one function, [`HostRun::stage`], and what stages need while they run.
//!
//! ```text
//!            +-------------------- observe <------------------+
//!            |          |             |          |            |
//!          Done      Foreign       Pending    Absent          |
//!            |          |             |          |            |
//!       record it    refuse      wait a bit --+  act ---------+
//!            v          v                     +---> (again)
//!        evidence    the host stops
//! ```
//!
//! A failed `act` is followed by `observe` when it may be tried again; only the world says what happened.

mod retry;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::diagnose::{Diagnostic, Exit};
use crate::dns::Provider;
use crate::engine::cluster::{Cluster, Listing};
use crate::engine::deliveries::joined;
use crate::engine::event::{Change, EventKind, Events, StageName, Told};
use crate::engine::failure::Failure;
use crate::engine::limits::{Limit, Limits};
use crate::engine::ourselves::SelfProtection;
use crate::engine::stage::{Seen, Stage};
use crate::guest::remote::Remote;
use crate::machine::{Machine, SshTarget};
use crate::proxmox::client::Client;
use crate::secret::Redactor;
use crate::state::lock::LockGuard;
use crate::state::record::{Delivery, Phase, Record, VmKey};
use crate::state::{Recorded, StateDir};

/// Whether the run changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Observe and act.
    Apply,
    /// Observe only: tell what would be done.
    Plan,
}

/// Why a host's workflow ended early.
#[derive(Debug)]
pub enum Halt {
    /// A stage failed or refused.
    Failed {
        /// Which.
        stage: StageName,
        /// Why.
        diagnostic: Box<Diagnostic>,
    },
    /// A plan can look no further.
    Planned {
        /// The stage that would act next.
        stage: StageName,
    },
    /// The user asked to stop.
    Interrupted {
        /// The stage that was under way.
        stage: StageName,
    },
}

/// What all hosts of a run share.
pub struct RunShared {
    /// Where events go.
    pub events: Events,
    /// Apply or plan.
    pub mode: Mode,
    /// The first Ctrl-C: stop at the next safe point.
    pub cancel: CancellationToken,
    /// Clones per storage, migrations per node.
    pub limits: Limits,
    /// Masks secrets in texts from outside.
    pub redactor: Redactor,
    /// The state directory.
    pub state: Arc<StateDir>,
    /// The addresses in all records, as they were when the first host asked: what the hosts of this run want is compared
    /// before it begins.
    pub recorded: OnceLock<Vec<Recorded>>,
    /// SSH to nodes and guests.
    pub remote: Arc<dyn Remote>,
    /// The user's known_hosts file.
    pub known_hosts: PathBuf,
    /// Templates that replace the built-in ones.
    pub templates_dir: Option<PathBuf>,
    /// The inventory's hosts that are no VMs, as they are logged in to: nodes among them.
    pub nodes: BTreeMap<String, SshTarget>,
    /// A private directory of this run, for the host keys learned at first contact.
    pub scratch: PathBuf,
    /// Who we are, and which VMs may be harmed all the same.
    pub protection: SelfProtection,
}

/// One host under way.
pub struct HostRun {
    /// The desired state.
    pub machine: Arc<Machine>,
    /// The VM's key in the state directory.
    pub key: VmKey,
    /// What the run shares.
    pub shared: Arc<RunShared>,
    /// What the run shares about this host's cluster.
    pub cluster: Arc<Cluster>,
    /// The DNS door.
    pub dns: Arc<dyn Provider>,
    pub(crate) begun: Instant,
    locked: Mutex<Instant>,
    pub(crate) guard: Mutex<Option<LockGuard>>,
    pub(crate) record: Mutex<Option<Record>>,
    /// Folders with the VM's documents that are not on record yet.
    pub(crate) deliveries: Mutex<Vec<Delivery>>,
    pub(crate) changed: Mutex<Vec<StageName>>,
}

/// How often a stage may make the same changes. One that needs more is not converging.
const MAX_ACTS: u32 = 12;

impl HostRun {
    /// A host at its beginning.
    pub fn new(machine: Arc<Machine>, shared: Arc<RunShared>, cluster: Arc<Cluster>, dns: Arc<dyn Provider>) -> Self {
        let key = VmKey::of(&machine.cluster.host, machine.cluster.port, &machine.name);
        Self {
            machine,
            key,
            shared,
            cluster,
            dns,
            begun: Instant::now(),
            locked: Mutex::new(Instant::now()),
            guard: Mutex::new(None),
            record: Mutex::new(None),
            deliveries: Mutex::new(Vec::new()),
            changed: Mutex::new(Vec::new()),
        }
    }

    /// Runs one stage to its evidence.
    pub async fn stage<S: Stage>(&self, stage: S) -> Result<S::Evidence, Halt> {
        let started = Instant::now();
        let failed = |failure: Failure| Halt::Failed {
            stage: S::NAME,
            diagnostic: failure.diagnostic,
        };
        self.check_cancel(S::NAME)?;
        self.emit(EventKind::StageStarted { stage: S::NAME });
        let mut acts: BTreeMap<String, u32> = BTreeMap::new();
        let mut told: BTreeSet<String> = BTreeSet::new();
        let mut changed = false;
        let mut waiting = Waiting::default();
        // Since when looking fails, and since when changing fails: each has its own patience.
        let (mut blind, mut stuck) = (None, None);
        let mut permit = None;
        loop {
            let seen = match stage.observe(self).await {
                Ok(seen) => {
                    blind = None;
                    seen
                }
                Err(failure) => {
                    self.tried(S::NAME, failure, &mut blind).await?;
                    continue;
                }
            };
            match seen {
                Seen::Done(evidence) => {
                    if self.shared.mode == Mode::Apply
                        && let Some(phase) = stage.settles(&evidence)
                    {
                        self.record_phase(phase).map_err(failed)?;
                    }
                    drop(permit);
                    if changed {
                        self.has_changed(S::NAME);
                    }
                    let detail = stage.tell(&evidence);
                    let ms = millis(started.elapsed());
                    self.emit(EventKind::StageDone {
                        stage: S::NAME,
                        changed,
                        detail,
                        ms,
                    });
                    return Ok(evidence);
                }
                Seen::Foreign(diagnostic) => {
                    let exit = if diagnostic.exit == Exit::Usage {
                        Exit::Refused
                    } else {
                        diagnostic.exit
                    };
                    return Err(Halt::Failed {
                        stage: S::NAME,
                        diagnostic: Box::new(diagnostic.exit(exit)),
                    });
                }
                Seen::Pending(wait) if self.shared.mode == Mode::Plan => {
                    let what = self.clean(&wait.what);
                    self.emit(EventKind::Changing {
                        stage: S::NAME,
                        changes: vec![Change::new("wait", what)],
                        planned: true,
                    });
                    return stage.assume(self).ok_or(Halt::Planned { stage: S::NAME });
                }
                Seen::Pending(wait) => {
                    stuck = None;
                    if waiting.told != wait.what {
                        waiting.told.clone_from(&wait.what);
                        self.emit(EventKind::Waiting {
                            stage: S::NAME,
                            what: self.clean(&wait.what),
                        });
                    }
                    let elapsed = waiting.since(wait.budget).elapsed();
                    if elapsed >= wait.budget {
                        return Err(failed(Failure::new(*wait.late)));
                    }
                    self.pause(S::NAME, wait.pace.pause(elapsed)).await?;
                }
                Seen::Absent(changes) => {
                    let planned = self.shared.mode == Mode::Plan;
                    if planned {
                        self.emit(EventKind::Changing {
                            stage: S::NAME,
                            changes,
                            planned,
                        });
                        return stage.assume(self).ok_or(Halt::Planned { stage: S::NAME });
                    }
                    let same = acts.entry(words(&changes)).or_default();
                    if *same == MAX_ACTS {
                        return Err(failed(Failure::new(self.unsettled(S::NAME, &changes))));
                    }
                    self.check_cancel(S::NAME)?;
                    if permit.is_none()
                        && let Some(limit) = stage.limit(self)
                    {
                        let asked = Instant::now();
                        permit = self.place(S::NAME, limit).await?;
                        if asked.elapsed() >= Duration::from_secs(1) {
                            // The world went on in the meantime: look again.
                            continue;
                        }
                    }
                    // What is still to be done is seen at every look; it is told once.
                    let changes: Vec<Change> = changes
                        .into_iter()
                        .filter(|change| told.insert(change.to_string()))
                        .collect();
                    if !changes.is_empty() {
                        self.emit(EventKind::Changing {
                            stage: S::NAME,
                            changes,
                            planned,
                        });
                    }
                    changed = true;
                    match stage.act(self).await {
                        Ok(()) => {
                            // What was done stays told, even if the stage never ends well.
                            self.has_changed(S::NAME);
                            *same += 1;
                            waiting = Waiting::default();
                            stuck = None;
                        }
                        Err(failure) => self.tried(S::NAME, failure, &mut stuck).await?,
                    }
                }
            }
        }
    }

    /// Waits for a place under a limit.
    async fn place(&self, stage: StageName, limit: Limit) -> Result<Option<OwnedSemaphorePermit>, Halt> {
        let what = format!("a free place ({limit})");
        let permit = self.shared.limits.acquire(limit);
        tokio::pin!(permit);
        if let std::task::Poll::Ready(permit) = futures_util::poll!(&mut permit) {
            return Ok(permit);
        }
        self.emit(EventKind::Waiting { stage, what });
        tokio::select! {
            permit = permit => Ok(permit),
            () = self.shared.cancel.cancelled() => Err(Halt::Interrupted { stage }),
        }
    }

    fn has_changed(&self, stage: StageName) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if !changed.contains(&stage) {
            changed.push(stage);
        }
    }

    fn unsettled(&self, stage: StageName, changes: &[Change]) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(
            "engine/unsettled",
            format!("stage {stage} made its changes {MAX_ACTS} times and the world still does not show them"),
        )
        .help("look at the VM in Proxmox: another program may be changing it at the same time");
        for change in changes {
            diagnostic = diagnostic.note(None, format!("still to be done: {change}"));
        }
        diagnostic
    }

    /// Ends the host at this safe point if the user asked for it.
    pub fn check_cancel(&self, stage: StageName) -> Result<(), Halt> {
        if self.shared.cancel.is_cancelled() {
            Err(Halt::Interrupted { stage })
        } else {
            Ok(())
        }
    }

    async fn pause(&self, stage: StageName, pause: Duration) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.shared.cancel.cancelled() => Err(Halt::Interrupted { stage }),
        }
    }

    /// Tells everybody something about this host, with secrets masked: a value of the inventory may be made from one.
    pub fn emit(&self, mut kind: EventKind) {
        kind.for_each_text(&mut |text| {
            if let std::borrow::Cow::Owned(masked) = self.shared.redactor.mask(text) {
                *text = masked;
            }
        });
        self.shared.events.emit(Some(&self.machine.host), kind);
    }

    /// Tells a warning.
    pub fn warn(&self, diagnostic: &Diagnostic) {
        self.emit(EventKind::Warning {
            diagnostic: self.told(diagnostic),
        });
    }

    /// A diagnostic as data, with secrets masked.
    pub fn told(&self, diagnostic: &Diagnostic) -> Told {
        let mut told = Told::from(diagnostic);
        told.message = self.clean(&told.message);
        told.rule = told.rule.map(|rule| self.clean(&rule));
        told.notes = told.notes.iter().map(|note| self.clean(note)).collect();
        told.help = told.help.iter().map(|help| self.clean(help)).collect();
        told
    }

    /// Text from outside with secrets masked.
    pub fn clean(&self, text: &str) -> String {
        self.shared.redactor.mask(text).into_owned()
    }

    /// The API client.
    pub fn api(&self) -> &Client {
        &self.cluster.client
    }

    /// A listing not older than this host's lock: what was seen before may be the work of the lock's holder before us.
    pub async fn listing(&self) -> Result<Listing, Failure> {
        let locked = *self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.cluster.listing(locked).await?)
    }

    /// Notes that the lock is held from now on.
    pub(crate) fn is_locked(&self, guard: LockGuard) {
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// A listing as of now.
    pub async fn fresh_listing(&self) -> Result<Listing, Failure> {
        Ok(self.cluster.listing(Instant::now()).await?)
    }

    /// A listing of which nothing is older than a second; hosts that get as far at the same time share it.
    pub async fn recent_listing(&self) -> Result<Listing, Failure> {
        let now = Instant::now();
        let since = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        Ok(self.cluster.listing(since).await?)
    }

    /// The phase on record.
    pub fn phase(&self) -> Option<Phase> {
        self.record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|record| record.phase.clone())
    }

    /// The addresses in all records of the state directory.
    pub fn recorded(&self) -> &[Recorded] {
        self.shared.recorded.get_or_init(|| self.shared.state.recorded())
    }

    /// Looks at the record.
    pub fn with_record<T>(&self, look: impl FnOnce(Option<&Record>) -> T) -> T {
        look(self.record.lock().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Whether the record says that vmwright made the VM.
    pub fn is_of_our_making(&self) -> bool {
        self.with_record(|record| record.is_some_and(|record| record.made))
    }

    /// Writes a phase to the record, before or after the change that it tells of, with the deliveries that it does not have
    /// yet; what stands already is not written again.
    pub fn record_phase(&self, phase: Phase) -> Result<(), Failure> {
        let mut held = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.as_ref().map_or(&[][..], |record| &record.deliveries);
        let deliveries = joined(known, &new);
        if held
            .as_ref()
            .is_some_and(|record| record.phase == phase && record.deliveries == deliveries)
        {
            return Ok(());
        }
        let mut record = match held.as_ref() {
            Some(record) => record.with(phase),
            None => Record::new(
                &self.machine.cluster.host,
                self.machine.cluster.port,
                self.machine.host.clone(),
                self.machine.name.clone(),
                phase,
            ),
        };
        record.deliveries = deliveries;
        self.write_record(&record)?;
        *held = Some(record);
        new.clear();
        Ok(())
    }

    /// Writes the record, under the lock.
    pub(super) fn write_record(&self, record: &Record) -> Result<(), Failure> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(guard) = guard.as_ref() else {
            return Err(Failure::new(Diagnostic::error(
                "state/no-lock",
                "the record can only be written under the VM's lock",
            )));
        };
        Ok(self.shared.state.write_record(guard, record)?)
    }

    /// The run's id, for marks.
    pub fn run_id(&self) -> Uuid {
        self.shared.events.run()
    }
}

/// The waits of a stage since its last change. A wait is known by its budget: another one begins its own clock, so that a
/// short wait after a long one is not over before it began.
#[derive(Default)]
struct Waiting {
    told: String,
    clocks: BTreeMap<Duration, Instant>,
}

impl Waiting {
    fn since(&mut self, budget: Duration) -> Instant {
        *self.clocks.entry(budget).or_insert_with(Instant::now)
    }
}

fn words(changes: &[Change]) -> String {
    changes.iter().map(|change| format!("{change}\n")).collect()
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
