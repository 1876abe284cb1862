//! What can go wrong with the state directory, typed by what the caller or the user can do about it.
//!
//! A [`StateError`] names the path, what was tried and the kind; [`StateError::diagnostic`] is the one place that turns it
//! into text, help and exit code. Nothing in `state` repairs what it finds: a mode that is too loose, an owner that is not
//! us or a record that does not parse may be somebody's attack or somebody's mistake, and both are for people to decide.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::diagnose::{Diagnostic, Exit, Place};

/// A fault of the state directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot {tried} {}: {kind}", path.display())]
pub struct StateError {
    /// What kind it is: what the caller decides by.
    pub kind: StateErrorKind,
    /// The file or directory.
    pub path: PathBuf,
    /// What was tried, as an infinitive: `write`, `create the directory`.
    pub tried: &'static str,
    /// The system's own error, where there is one.
    #[source]
    pub source: Option<io::Error>,
}

/// What kind of fault it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateErrorKind {
    /// No space or no quota left. Nothing was replaced: the file has its former content.
    #[error("there is no space left on the device")]
    DiskFull,
    /// The filesystem is mounted read-only.
    #[error("the filesystem is read-only")]
    ReadOnly,
    /// The system refused.
    #[error("permission denied")]
    Denied,
    /// Group or others may read or write it.
    #[error("its mode {mode:04o} lets other users in")]
    LooseMode {
        /// The permission bits found.
        mode: u32,
        /// The bits that it should have: 0700 for a directory, 0600 for a file.
        wanted: u32,
    },
    /// It belongs to another user.
    #[error("it belongs to user {owner}, and this process runs as user {us}")]
    ForeignOwner {
        /// The owner's user id.
        owner: u32,
        /// Our effective user id.
        us: u32,
    },
    /// Something that is no directory stands where a directory should.
    #[error("it is not a directory")]
    NotADirectory,
    /// Something that is no regular file stands where a file should.
    #[error("it is not a regular file")]
    NotAFile,
    /// The record's content cannot be what vmwright wrote.
    #[error("it is no valid record: {0}")]
    Corrupt(String),
    /// The record was written by another version of vmwright.
    #[error("its schema version is {0}, and this vmwright knows version {known}", known = super::record::SCHEMA)]
    FutureVersion(u64),
    /// The record is that of another VM.
    #[error("it is the record of {found}, not of {wanted}")]
    WrongKey {
        /// The VM that the content is about.
        found: String,
        /// The VM that the file name is about.
        wanted: String,
    },
    /// A step that the record's machine does not have: a fault in vmwright.
    #[error("a record in phase {from} cannot become {to}")]
    IllegalTransition {
        /// The phase on disk, or `none`.
        from: String,
        /// The phase that was to be written.
        to: String,
    },
    /// The lock under which this was to happen is no longer ours.
    #[error("the lock was taken away while this process held it")]
    LockLost,
    /// There is no run of that id.
    #[error("there is no such run")]
    UnknownRun,
    /// Anything else that the system said.
    #[error("the system reports an error")]
    Io,
}

impl StateError {
    /// A fault without a system error.
    pub fn new(kind: StateErrorKind, tried: &'static str, path: &Path) -> Self {
        Self {
            kind,
            path: path.to_owned(),
            tried,
            source: None,
        }
    }

    /// A fault that the system reported.
    pub fn io(error: io::Error, tried: &'static str, path: &Path) -> Self {
        let kind = match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT) => StateErrorKind::DiskFull,
            Some(Errno::ROFS) => StateErrorKind::ReadOnly,
            Some(Errno::ACCESS | Errno::PERM) => StateErrorKind::Denied,
            Some(Errno::NOTDIR) => StateErrorKind::NotADirectory,
            Some(Errno::ISDIR | Errno::LOOP) => StateErrorKind::NotAFile,
            _ => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StateErrorKind::DiskFull,
                io::ErrorKind::PermissionDenied => StateErrorKind::Denied,
                _ => StateErrorKind::Io,
            },
        };
        Self {
            kind,
            path: path.to_owned(),
            tried,
            source: Some(error),
        }
    }

    /// What the user is told.
    pub fn diagnostic(&self) -> Diagnostic {
        let path = self.path.display();
        let shell = shell_quoted(&self.path);
        let text = match (&self.kind, &self.source) {
            (StateErrorKind::Io, Some(source)) => format!("cannot {} {path}: {source}", self.tried),
            _ => self.to_string(),
        };
        let place = Place::path(&self.path);
        let says = |code: &'static str| Diagnostic::error(code, text.clone()).at(place.clone());
        match &self.kind {
            StateErrorKind::DiskFull => says("state/disk-full")
                .rule("an intent that cannot be written down is not carried out")
                .help(format!("make room on the filesystem: df -h {}", shell_quoted(existing(&self.path))))
                .help("then run the same command again: it goes on from the last record")
                .exit(Exit::HostFailed),
            StateErrorKind::ReadOnly => says("state/read-only")
                .help("choose another directory with --state-dir, or mount the filesystem writable")
                .exit(Exit::HostFailed),
            StateErrorKind::Denied => says("state/denied")
                .help(format!("look at the owner and the mode: ls -ld {shell}"))
                .help("run as the user who owns the state directory, or choose another with --state-dir")
                .exit(Exit::HostFailed),
            StateErrorKind::LooseMode { wanted, .. } => says("state/loose-mode")
                .rule("directories of the state are 0700 and files 0600: who can write there can make vmwright touch a foreign VM")
                .help(format!("see that nobody has changed its content, then: chmod {wanted:o} {shell}"))
                .exit(self.refusal()),
            StateErrorKind::ForeignOwner { us, .. } => says("state/foreign-owner")
                .rule("the state belongs to the user who runs vmwright")
                .help(format!("if it is yours: sudo chown {us} {shell}"))
                .help("else run as its owner, or choose another directory with --state-dir")
                .exit(self.refusal()),
            StateErrorKind::NotADirectory => says("state/not-a-directory")
                .help(format!("move it away, or choose another directory with --state-dir: ls -ld {shell}")),
            StateErrorKind::NotAFile => says("state/not-a-file")
                .help(format!("move it away: ls -ld {shell}"))
                .exit(Exit::Refused),
            StateErrorKind::Corrupt(_) => says("state/corrupt-record")
                .rule("vmwright changes a VM only while it can prove whose it is")
                .help("restore the file from a backup; do not delete it unread, it is the only proof of ownership")
                .help("if it is lost: move the file away, look at the VM, and take it in again with `vmwright adopt`")
                .exit(Exit::Refused),
            StateErrorKind::FutureVersion(_) => says("state/future-version")
                .help("use the vmwright that wrote it, or a newer one")
                .exit(Exit::Refused),
            StateErrorKind::WrongKey { .. } => says("state/wrong-key")
                .rule("a record is never copied from one VM to another")
                .help("move the file back to where it came from, or restore it from a backup")
                .exit(Exit::Refused),
            StateErrorKind::IllegalTransition { .. } => says("state/illegal-transition")
                .help("this is a fault in vmwright: please report it with the run's journal")
                .exit(Exit::HostFailed),
            StateErrorKind::LockLost => says("state/lock-lost")
                .rule("without the lock another run may be at work on the VM: nothing more is written")
                .help("see who took it with `vmwright status`, and run the same command again when that run has ended")
                .exit(Exit::Locked),
            StateErrorKind::UnknownRun => {
                says("state/unknown-run").help("list the runs with `vmwright history`")
            }
            StateErrorKind::Io => says("state/io")
                .help(format!("look at the file and the system's log: ls -l {shell}"))
                .exit(Exit::HostFailed),
        }
    }

    /// A bad file is a refusal about one host; a bad directory is bad usage and nothing has been touched.
    fn refusal(&self) -> Exit {
        match self.kind {
            StateErrorKind::LooseMode { wanted: 0o600, .. } => Exit::Refused,
            _ if self.tried == READ_RECORD => Exit::Refused,
            _ => Exit::Usage,
        }
    }
}

/// What reading a record is called in messages.
pub(super) const READ_RECORD: &str = "trust the record";

impl From<&StateError> for Diagnostic {
    fn from(error: &StateError) -> Self {
        error.diagnostic()
    }
}

/// The path itself, or the nearest directory above it that is there: `df` takes no other.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|above| above.exists()).unwrap_or(path)
}

/// A path as a POSIX shell takes it: bare where that is safe, else in single quotes.
pub fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ':' | '@');
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_error_numbers_become_kinds() {
        let kind = |errno: Errno| StateError::io(errno.into(), "write", Path::new("/s")).kind;
        assert_eq!(kind(Errno::NOSPC), StateErrorKind::DiskFull);
        assert_eq!(kind(Errno::DQUOT), StateErrorKind::DiskFull);
        assert_eq!(kind(Errno::ROFS), StateErrorKind::ReadOnly);
        assert_eq!(kind(Errno::ACCESS), StateErrorKind::Denied);
        assert_eq!(kind(Errno::NOTDIR), StateErrorKind::NotADirectory);
        assert_eq!(kind(Errno::IO), StateErrorKind::Io);
    }

    #[test]
    fn a_loose_mode_tells_the_command_to_run() {
        let kind = StateErrorKind::LooseMode {
            mode: 0o755,
            wanted: 0o700,
        };
        let said = StateError::new(kind, "use", Path::new("/srv/my state")).diagnostic();
        assert_eq!(said.code, "state/loose-mode");
        assert_eq!(
            said.message,
            "cannot use /srv/my state: its mode 0755 lets other users in"
        );
        assert!(said.help[0].ends_with("chmod 700 '/srv/my state'"), "{:?}", said.help);
        assert_eq!(said.exit, Exit::Usage);
    }

    #[test]
    fn display_does_not_repeat_the_source() {
        let error = StateError::io(Errno::IO.into(), "write", Path::new("/s"));
        let source = error.source.as_ref().unwrap().to_string();
        assert!(!error.to_string().contains(&source));
        assert!(error.diagnostic().message.contains(&source));
    }

    #[test]
    fn a_path_is_quoted_for_the_shell() {
        assert_eq!(shell_quoted(Path::new("/a/b-c")), "/a/b-c");
        assert_eq!(shell_quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
