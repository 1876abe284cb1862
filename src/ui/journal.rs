//! The journal's listener: every event as one line of the run's file in the state directory.
//!
//! A journal that cannot be written must not break the run: the first failure is told once, and the run goes on.
//! It is history, not state: what a rerun needs stands in locks and records. So only ends are waited for until they are on
//! the disk; a power cut may cost the lines before, a death of the process costs none.

use std::sync::{Mutex, PoisonError};

use crate::engine::event::{Event, EventKind, Listener, Outcome};
use crate::state::journal::Journal;

/// Writes events into a run's journal.
pub struct JournalListener {
    journal: Mutex<Option<Journal>>,
}

impl JournalListener {
    /// Writes into `journal`.
    pub fn new(journal: Journal) -> Self {
        Self {
            journal: Mutex::new(Some(journal)),
        }
    }
}

impl Listener for JournalListener {
    fn on(&self, event: &Event) {
        let mut held = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(journal) = held.as_mut() else { return };
        let written = if is_end(&event.kind) {
            journal.append(event)
        } else {
            journal.note(event)
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the run's journal cannot be written; the run goes on without it");
            *held = None;
        }
    }
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
