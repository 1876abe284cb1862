//! NDJSON: every event as one line of JSON on standard output.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::engine::event::{Event, Listener};

/// Writes events as lines of JSON.
pub struct Ndjson<W: Write + Send> {
    out: Mutex<W>,
}

impl<W: Write + Send> Ndjson<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out: Mutex::new(out) }
    }
}

impl<W: Write + Send> Listener for Ndjson<W> {
    fn on(&self, event: &Event) {
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that went away must not stop the run: the journal has the events.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
