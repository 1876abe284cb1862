//! What is said to the user about a fault: one [`Diagnostic`] has what, where, why and help, and one place prints it.
//!
//! Library errors are typed by what the caller can do. At the edge they become a `Diagnostic`, whose `code` is documented
//! in `docs/errors.md` (a test compares the two lists) and whose [`Exit`] is the process's exit code.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The exit codes of the process. They are part of the interface: `docs/errors.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// Everything asked for is done (0).
    Done = 0,
    /// At least one host failed (1).
    HostFailed = 1,
    /// Bad usage, settings or inventory: nothing was touched (2).
    Usage = 2,
    /// Another run holds the lock (3).
    Locked = 3,
    /// Refused: ownership, ambiguity or a missing confirmation (4).
    Refused = 4,
    /// Interrupted by a signal (130).
    Interrupted = 130,
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// A place in a source: a file, an argument, an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file's path as the user gave it, or a name such as `--extra-vars` or `the command line`.
    pub file: Arc<str>,
    /// Line, from 1; 0 where the source has no lines.
    pub line: u32,
    /// Column in characters, from 1; 0 where it is unknown.
    pub column: u32,
}

impl Place {
    /// A place in a file.
    pub fn new(file: impl Into<Arc<str>>, line: u32, column: u32) -> Self {
        Self {
            file: file.into(),
            line,
            column,
        }
    }

    /// A source without lines: an argument, a default, the environment.
    pub fn whole(file: impl Into<Arc<str>>) -> Self {
        Self::new(file, 0, 0)
    }

    /// A whole file.
    pub fn path(file: &Path) -> Self {
        Self::whole(file.display().to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth reading; the run goes on.
    Warning,
    /// The run, or the host, stops.
    Error,
}

/// One thing to tell: what, where, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable code such as `machine/unknown-key`, documented in `docs/errors.md`.
    pub code: &'static str,
    /// What is wrong, one sentence without a full stop, naming the thing.
    pub message: String,
    /// The host that it is about.
    pub host: Option<String>,
    /// The variable or key that it is about, as a path: `vms_config.disk_os.size`.
    pub key: Option<String>,
    /// Where the value stands.
    pub place: Option<Place>,
    /// The rule that is broken, or why it matters.
    pub rule: Option<String>,
    /// Further facts, each perhaps with a place ("first defined here").
    pub notes: Vec<(Option<Place>, String)>,
    /// What to do next, each an instruction or a command.
    pub help: Vec<String>,
    /// The exit code if this ends the run.
    pub exit: Exit,
}

impl Diagnostic {
    /// An error; exit code [`Exit::Usage`] until [`Diagnostic::exit`] says otherwise.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            host: None,
            key: None,
            place: None,
            rule: None,
            notes: Vec::new(),
            help: Vec::new(),
            exit: Exit::Usage,
        }
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    /// Names the host.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Names the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Names the place.
    #[must_use]
    pub fn at(mut self, place: impl Into<Option<Place>>) -> Self {
        self.place = place.into();
        self
    }

    /// Names the rule.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, place: impl Into<Option<Place>>, text: impl Into<String>) -> Self {
        self.notes.push((place.into(), text.into()));
        self
    }

    /// Adds an instruction.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

impl fmt::Display for Diagnostic {
    /// One line, without excerpt: for logs and NDJSON. People get the rendering of `ui::diagnostic`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// An error with its sources, on one line: Display never repeats its source.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// `one thing`, `2 things`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

/// The name among `known` that `given` was probably meant to be: at most two edits away, or a third of its length.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (given.chars().count() / 3).clamp(1, 2);
    known
        .into_iter()
        .map(|name| (edits(given, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Edit distance in characters; two neighbours that changed places are one edit.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (row[j - 1] + cost).min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_stranger_is_not() {
        assert_eq!(nearest("coers", ["cores", "sockets"]), Some("cores"));
        assert_eq!(nearest("frobnicate", ["cores", "sockets"]), None);
    }

    #[test]
    fn a_place_prints_what_it_knows() {
        assert_eq!(Place::new("hosts.ini", 3, 7).to_string(), "hosts.ini:3:7");
        assert_eq!(Place::new("hosts.ini", 3, 0).to_string(), "hosts.ini:3");
        assert_eq!(Place::whole("--extra-vars").to_string(), "--extra-vars");
    }
}
