//! Scripted faults of the API: the nth request that fits is dropped, delayed, answered with an error, or its task fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The connection is lost before anything was done.
    DropBefore,
    /// The request is executed, its answer is lost.
    DropAfter,
    /// Nothing is done; this is the answer. 401 and 595 to 599 have an empty body, as the proxy's have.
    Answer {
        /// The status.
        status: u16,
        /// The text: reason and message.
        text: String,
    },
    /// The request is executed after so many milliseconds.
    Delay(u64),
    /// The request is executed at once, the answer comes so many milliseconds later.
    DelayAnswer(u64),
    /// The task that the request starts fails half-way with this text and cleans up; `unexpected status` stands for a
    /// killed worker, which leaves what it has done (and the config's lock).
    FailTask(String),
}

/// A scripted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    method: String,
    path: String,
    skip: u64,
    times: u64,
    action: Action,
    seen: u64,
    hits: u64,
}

impl Fault {
    /// A fault of requests with a method (`*`: any) to a path without `/api2/json`, in which `*` stands for any text:
    /// `Fault::on("POST", "/nodes/*/qemu/*/clone", Action::DropAfter)`. It happens once, at the first such request.
    pub fn on(method: &str, path: &str, action: Action) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            skip: 0,
            times: 1,
            action,
            seen: 0,
            hits: 0,
        }
    }

    /// It happens first at the nth fitting request, from 1.
    pub fn nth(mut self, nth: u64) -> Self {
        self.skip = nth.saturating_sub(1);
        self
    }

    /// It happens so many times one after the other.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// It happens at every fitting request from then on.
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    fn fits(&self, method: &str, path: &str) -> bool {
        (self.method == "*" || self.method == method) && glob(&self.path, path)
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => match text.strip_prefix(start) {
            None => false,
            Some(tail) if rest.is_empty() => {
                let _ = tail;
                true
            }
            Some(tail) => (0..=tail.len()).any(|at| tail.is_char_boundary(at) && glob(rest, &tail[at..])),
        },
    }
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    DropBefore,
    DropAfter,
    Answer(u16, String),
}

/// Everything that faults say about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) delay_ms: u64,
    pub(crate) delay_answer_ms: u64,
    pub(crate) fail_task: Option<String>,
}

/// How a task ends against its will.
#[derive(Clone, Debug)]
pub(crate) struct Doom {
    pub(crate) kind: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) upid: Option<String>,
    pub(crate) end: String,
}

impl Doom {
    pub(crate) fn is_for(&self, kind: &str, id: &str, upid: &str) -> bool {
        self.kind.as_deref().is_none_or(|k| k == kind)
            && self.id.as_deref().is_none_or(|i| i == id)
            && self.upid.as_deref().is_none_or(|u| u == upid)
    }
}

/// The scripted faults of a running simulator; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Vec<Fault>>>);

impl Faults {
    fn all(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.all().push(fault);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.all().clear();
    }

    /// How often faults have happened.
    pub fn hits(&self) -> u64 {
        self.all().iter().map(|f| f.hits).sum()
    }

    /// Counts a request; what happens to it. The first fault with a verdict decides.
    pub(crate) fn judge(&self, method: &str, path: &str) -> Judged {
        let mut judged = Judged {
            verdict: Verdict::Pass,
            delay_ms: 0,
            delay_answer_ms: 0,
            fail_task: None,
        };
        for fault in self.all().iter_mut().filter(|f| f.fits(method, path)) {
            fault.seen += 1;
            if fault.seen <= fault.skip || fault.seen - fault.skip > fault.times {
                continue;
            }
            fault.hits += 1;
            let verdict = match fault.action.clone() {
                Action::DropBefore => Verdict::DropBefore,
                Action::DropAfter => Verdict::DropAfter,
                Action::Answer { status, text } => Verdict::Answer(status, text),
                Action::Delay(ms) => {
                    judged.delay_ms += ms;
                    continue;
                }
                Action::DelayAnswer(ms) => {
                    judged.delay_answer_ms += ms;
                    continue;
                }
                Action::FailTask(text) => {
                    judged.fail_task = Some(text);
                    continue;
                }
            };
            if judged.verdict == Verdict::Pass {
                judged.verdict = verdict;
            }
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(glob("/nodes/*/qemu/*/clone", "/nodes/pve-0/qemu/9000/clone"));
        assert!(!glob("/nodes/*/qemu/*/clone", "/nodes/pve-0/qemu/9000/config"));
        assert!(glob("*", "/version") && glob("/version", "/version") && !glob("/version", "/versions"));
        assert!(glob("*/status/*", "/nodes/a/qemu/1/status/current"));
    }

    #[test]
    fn the_nth_request_is_hit_and_only_that() {
        let faults = Faults::default();
        faults.add(Fault::on("GET", "/version", Action::DropBefore).nth(2));
        let verdicts: Vec<_> = (0..4).map(|_| faults.judge("GET", "/version").verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Pass, Verdict::DropBefore, Verdict::Pass, Verdict::Pass]
        );
        assert_eq!(faults.hits(), 1);
        faults.add(Fault::on("*", "/version", Action::Delay(5)).always());
        assert_eq!(faults.judge("POST", "/version").delay_ms, 5);
    }
}
