//! The journal's listener: every event as one line of the run's file in the state directory.
//!
//! A journal that cannot be written must not break the run: the first failure is told once, and the run goes on.
//! It is history, not state: what a rerun needs stands in locks and records. So only ends are waited for until they are on
//! the disk; a power cut may cost the lines before, a death of the process costs none. The file comes when a host holds its
//! lock: a run that found all its hosts locked by others leaves nothing behind.

use std::sync::{Mutex, PoisonError};

use crate::engine::event::{Event, EventKind, Listener, Outcome, StageName};
use crate::state::journal::Journal;

/// Writes events into a run's journal.
pub struct JournalListener {
    writing: Mutex<Writing>,
}

enum Writing {
    /// No host holds its lock yet; what happened so far.
    NotYet(Journal, Vec<Event>),
    Open(Journal),
    /// It cannot be written.
    Never,
}

impl JournalListener {
    /// Writes into `journal`.
    pub fn new(journal: Journal) -> Self {
        Self {
            writing: Mutex::new(Writing::NotYet(journal, Vec::new())),
        }
    }
}

impl Listener for JournalListener {
    fn on(&self, event: &Event) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *writing = match std::mem::replace(&mut *writing, Writing::Never) {
            Writing::NotYet(journal, mut before) => {
                before.push(event.clone());
                match has_lock(&event.kind) {
                    true => before.iter().fold(Writing::Open(journal), write),
                    false => Writing::NotYet(journal, before),
                }
            }
            open => write(open, event),
        };
    }
}

/// Adds an event to an open journal.
fn write(writing: Writing, event: &Event) -> Writing {
    let Writing::Open(journal) = writing else {
        return writing;
    };
    let written = if is_end(&event.kind) {
        journal.append(event)
    } else {
        journal.note(event)
    };
    match written {
        Ok(()) => Writing::Open(journal),
        Err(error) => {
            tracing::warn!(%error, "the run's journal cannot be written; the run goes on without it");
            Writing::Never
        }
    }
}

/// Whether this tells that a host holds its lock.
fn has_lock(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::StageDone {
            stage: StageName::Lock,
            ..
        }
    )
}

/// Whether this is an end that must survive a power cut: the run's, and that of a host which did not come through.
fn is_end(kind: &EventKind) -> bool {
    match kind {
        EventKind::HostDone { outcome, .. } => {
            !matches!(outcome, Outcome::Changed | Outcome::Unchanged | Outcome::Planned)
        }
        EventKind::RunDone { .. } => true,
        _ => false,
    }
}
