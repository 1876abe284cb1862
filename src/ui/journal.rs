//! The journal's listener: every event as one line of the run's file in the state directory.
//!
//! A journal that cannot be written must not break the run: the first failure is told once, and the run goes on.

use std::sync::{Mutex, PoisonError};

use crate::engine::event::{Event, Listener};
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
        if let Err(error) = journal.append(event) {
            tracing::warn!(%error, "the run's journal cannot be written; the run goes on without it");
            *held = None;
        }
    }
}
