//! A lock that somebody else holds: what is known of the holder, and what the user is told.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::super::error::StateError;
use super::super::owner::{Owner, Verdict};
use crate::diagnose::{Diagnostic, Exit, Place};
use crate::settings::duration;

/// The lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it. Nothing was touched.
    #[error("the lock {} is held: {why_not_taken_over}", path.display())]
    Held {
        /// The lock's directory.
        path: PathBuf,
        /// The holder, where it can be read.
        owner: Option<Box<Owner>>,
        /// For how long it has been held, by this host's clock.
        age: Option<Duration>,
        /// Whether the holder lives, or what is missing for a proof that it does not.
        verdict: Verdict,
        /// The verdict in words.
        why_not_taken_over: String,
    },
    /// The state directory failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A lock that somebody holds, for `status` and `unlock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockState {
    /// The lock's directory.
    pub path: PathBuf,
    /// The holder, where it can be read.
    pub owner: Option<Owner>,
    /// For how long it has been held, by this host's clock.
    pub age: Option<Duration>,
    /// Whether the holder lives. A dead one's lock is taken over by the next run.
    pub verdict: Verdict,
}

impl From<LockState> for LockError {
    fn from(state: LockState) -> Self {
        Self::Held {
            why_not_taken_over: state.verdict.reason(),
            path: state.path,
            owner: state.owner.map(Box::new),
            age: state.age,
            verdict: state.verdict,
        }
    }
}

impl LockError {
    /// What the user is told, about the VM `name` of `host`.
    pub fn diagnostic(&self, host: &str, name: &str) -> Diagnostic {
        match self {
            Self::State(error) => error.diagnostic().host(host),
            Self::Held {
                path,
                owner,
                age,
                verdict,
                why_not_taken_over,
            } => {
                let holder = owner
                    .as_deref()
                    .map_or_else(|| "somebody unknown".to_owned(), Owner::to_string);
                let since = age.map_or_else(String::new, |age| format!(", since {}", duration::show_seconds(age)));
                let said = Diagnostic::error("state/locked", format!("{name} is locked by {holder}{since}"))
                    .host(host)
                    .at(Place::path(path))
                    .rule(why_not_taken_over.clone())
                    .exit(Exit::Locked);
                match verdict {
                    Verdict::Alive | Verdict::Dead(_) => said
                        .help("let it end, then run the same command again; nothing was touched")
                        .help("or wait for it: --wait-lock 5m"),
                    Verdict::Unproven(_) => {
                        let look = owner.as_deref().map_or_else(
                            || "make sure that no vmwright works on this VM".to_owned(),
                            |o| format!("make sure that it has ended: on {}, `ps -p {}`", o.host, o.pid),
                        );
                        said.help(look)
                            .help(format!("then: vmwright unlock {host} --confirm {name}"))
                    }
                }
            }
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` (pid {} on {}, user {})",
            self.command, self.pid, self.host, self.user
        )
    }
}

/// How long ago `since` was; nothing if clocks disagree.
pub(super) fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
