//! What a stage is: look at the world, make one change.

use std::time::Duration;

use crate::diagnose::Diagnostic;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::limits::Limit;
use crate::engine::pace::Pace;
use crate::state::record::Phase;

/// What a stage saw.
pub enum Seen<T> {
    /// Not there: these changes are to be made.
    Absent(Vec<Change>),
    /// On its way: look again.
    Pending(Wait),
    /// There, with the evidence that the next stage needs.
    Done(T),
    /// There, but not ours, or contradicting: never retried, never overwritten.
    Foreign(Box<Diagnostic>),
}

/// What a stage waits for.
pub struct Wait {
    /// In words: `sshd on 10.0.20.5:22`.
    pub what: String,
    /// The rhythm.
    pub pace: Pace,
    /// How long in all, from the first such look since the last change.
    pub budget: Duration,
    /// What is told when the budget is used up.
    pub late: Box<Diagnostic>,
}

/// A stage: `observe` asks the world, `act` makes one change; the engine does the rest.
///
/// Nothing believes its own success: after every `act` the engine observes again until the evidence is there. So a rerun
/// after a crash, a plan and a second run are the same code.
pub trait Stage: Sync {
    /// The stage's name.
    const NAME: StageName;
    /// What the stage proves. Only this stage can make it.
    type Evidence: Send;

    /// Asks the world. It changes nothing.
    fn observe(&self, run: &HostRun) -> impl Future<Output = Result<Seen<Self::Evidence>, Failure>> + Send;

    /// Makes one change, and follows the task that makes it to the task's end.
    fn act(&self, run: &HostRun) -> impl Future<Output = Result<(), Failure>> + Send;

    /// What a plan may take for granted instead of acting, so that it can look further; `None` ends the plan here.
    fn assume(&self, _run: &HostRun) -> Option<Self::Evidence> {
        None
    }

    /// The phase to record once the evidence is there.
    fn settles(&self, _evidence: &Self::Evidence) -> Option<Phase> {
        None
    }

    /// The evidence in words, for people.
    fn tell(&self, evidence: &Self::Evidence) -> String;

    /// The limit that `act` falls under, where Proxmox suffers from too many at once.
    fn limit(&self, _run: &HostRun) -> Option<Limit> {
        None
    }
}
