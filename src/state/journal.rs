//! The journal of a run: one JSON object a line, appended as things happen, readable after any death.
//!
//! A line is one `write`, so a death tears at most the last one, which reading cuts off and says so. After an append that
//! failed half-way the next one starts on a new line, so that one torn line costs only itself. Everything passes the
//! [`Redactor`]: what an outside party echoed does not bring a secret onto the disk.

use std::path::PathBuf;
use std::sync::Mutex;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::StateDir;
use super::error::{StateError, StateErrorKind};
use crate::secret::Redactor;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    state: StateDir,
    run: Uuid,
    path: PathBuf,
    redactor: Redactor,
    /// Whether the last append may have left half a line.
    torn: Mutex<bool>,
}

/// A journal on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// The run.
    pub run: Uuid,
    /// When it began, as its id tells.
    pub begun: Timestamp,
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunLog {
    /// The events, in order.
    pub events: Vec<Value>,
    /// Whether the last line was torn by a death and is left out.
    pub torn: bool,
    /// The numbers (from 1) of other lines that are no JSON and are left out.
    pub damaged: Vec<usize>,
}

impl StateDir {
    /// Begins the journal of a new run. The file comes with its first event.
    pub fn open_journal(&self, redactor: Redactor) -> Journal {
        let run = Uuid::now_v7();
        Journal {
            state: self.clone(),
            run,
            path: self.run_path(run),
            redactor,
            torn: Mutex::new(false),
        }
    }

    /// All runs, the oldest first.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn runs(&self) -> Result<Vec<RunFile>, StateError> {
        let mut runs = Vec::new();
        for name in self.list("runs")? {
            let Some(run) = name.strip_suffix(".jsonl").and_then(|id| id.parse::<Uuid>().ok()) else {
                continue;
            };
            let path = self.run_path(run);
            let facts = self
                .store
                .facts(&path)
                .map_err(|e| StateError::io(e, "look at", &path))?;
            runs.push(RunFile {
                run,
                begun: begun(run).unwrap_or_default(),
                path,
                size: facts.size,
            });
        }
        runs.sort_by_key(|run| run.run);
        Ok(runs)
    }

    /// Reads the journal of a run.
    ///
    /// # Errors
    /// [`StateErrorKind::UnknownRun`] if there is none, else whatever the system reports.
    pub fn read_run(&self, run: Uuid) -> Result<RunLog, StateError> {
        let path = self.run_path(run);
        match self.store.read(&path) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(StateError::new(StateErrorKind::UnknownRun, "read the journal", &path))
            }
            Err(e) => Err(StateError::io(e, "read the journal", &path)),
        }
    }

    fn run_path(&self, run: Uuid) -> PathBuf {
        self.path().join("runs").join(format!("{run}.jsonl"))
    }
}

impl Journal {
    /// The run's id.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// The file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Adds an event; it is on the disk afterwards. For what was begun, done or failed.
    ///
    /// # Errors
    /// Whatever the system reports. The journal can still be appended to.
    pub fn append(&self, event: &impl Serialize) -> Result<(), StateError> {
        self.write(event, true)
    }

    /// Adds an event that a power cut may cost (a death of the process does not). For progress.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn note(&self, event: &impl Serialize) -> Result<(), StateError> {
        self.write(event, false)
    }

    fn write(&self, event: &impl Serialize, sync: bool) -> Result<(), StateError> {
        const TRIED: &str = "append to the journal";
        let mut value = serde_json::to_value(event).map_err(|e| StateError::io(e.into(), TRIED, &self.path))?;
        self.redactor.mask_json(&mut value);
        let line = format!("{value}\n");
        let mut torn = self.torn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let text = if *torn { format!("\n{line}") } else { line };
        let written = self.state.store.append(&self.path, text.as_bytes(), sync);
        *torn = written.is_err();
        written.map_err(|e| StateError::io(e, TRIED, &self.path))
    }
}

/// When a version 7 id was made: its first 48 bits are milliseconds since the epoch (RFC 9562).
fn begun(run: Uuid) -> Option<Timestamp> {
    let (seconds, nanos) = run.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
}

/// Reads lines, leaving out what a death tore.
fn parse(bytes: &[u8]) -> RunLog {
    let mut log = RunLog::default();
    for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            log.torn = true;
            break;
        };
        match serde_json::from_slice(line) {
            Ok(event) => log.events.push(event),
            Err(_) if line.is_empty() => {}
            Err(_) => log.damaged.push(index + 1),
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn events_are_read_back_in_order_and_runs_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        assert_eq!(state.runs().unwrap(), []);
        let first = state.open_journal(Redactor::default());
        first.append(&json!({"event": "began", "host": "web-0"})).unwrap();
        first.note(&json!({"event": "progress"})).unwrap();
        let second = state.open_journal(Redactor::default());
        second.append(&json!({"event": "began"})).unwrap();
        let log = state.read_run(first.run()).unwrap();
        assert_eq!(
            log.events,
            [json!({"event": "began", "host": "web-0"}), json!({"event": "progress"})]
        );
        assert!(!log.torn && log.damaged.is_empty());
        let runs = state.runs().unwrap();
        let ids: Vec<Uuid> = runs.iter().map(|r| r.run).collect();
        assert_eq!(ids, [first.run(), second.run()]);
        let old = Timestamp::now().duration_since(runs[0].begun).as_secs();
        assert!((0..600).contains(&old), "{old}");
        assert_eq!(state.store.facts(first.path()).unwrap().mode, 0o600);
    }

    #[test]
    fn a_torn_tail_is_cut_and_a_damaged_line_costs_only_itself() {
        let log = parse(b"{\"a\":1}\n{\"b\":\n\n{\"c\":3}\n{\"d\":4");
        assert_eq!(log.events, [json!({"a": 1}), json!({"c": 3})]);
        assert_eq!((log.torn, log.damaged), (true, vec![2]));
        assert_eq!(parse(b""), RunLog::default());
    }

    #[test]
    fn a_secret_that_was_echoed_is_masked() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let journal = state.open_journal(Redactor::new([Secret::new("hun\"ter2")]));
        journal
            .append(&json!({"log": ["it said hun\"ter2"], "hun\"ter2": 1}))
            .unwrap();
        let text = std::fs::read_to_string(journal.path()).unwrap();
        assert_eq!(text, "{\"log\":[\"it said ***\"],\"***\":1}\n");
    }

    #[test]
    fn an_unknown_run_is_an_error_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let error = state.read_run(Uuid::from_u128(1)).unwrap_err();
        assert_eq!(error.kind, StateErrorKind::UnknownRun);
    }
}
