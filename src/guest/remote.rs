//! The door to machines: run a script there, look at their host keys.
//!
//! [`Remote`] is one of the four doors to the world. Behind it stands [`OpenSsh`](super::openssh::OpenSsh), or a
//! simulation. What goes through is a [`Command`]; what comes back is its [`Output`], whatever its exit code, or an
//! [`SshError`] when there is no exit code.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::machine::SshTarget;

/// What a script left: exit code and both streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Whether the exit code is 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard output as text, invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// One line for people: the exit code and the last line of standard error that says something.
    pub fn summary(&self) -> String {
        let stderr = String::from_utf8_lossy(&self.stderr);
        let last = stderr.lines().rev().map(str::trim).find(|l| !l.is_empty());
        let code = match self.code {
            Some(code) => format!("exit code {code}"),
            None => "ended by a signal".to_owned(),
        };
        match last {
            Some(line) => format!("{code}: {line}"),
            None => code,
        }
    }
}

/// Why there is no exit code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    /// No connection: refused, timed out, no route, name unknown, or the server hung up before the login. Nothing ran.
    /// While a machine boots this is normal.
    #[error("not reachable over SSH: {0}")]
    NotReachable(String),
    /// The host key is unknown, or another one than the known one. Nothing ran. Waiting does not help.
    #[error("host key {}: {text}", if *.changed { "is not the known one" } else { "is not known" })]
    HostKey {
        /// What `ssh` said.
        text: String,
        /// A key is known for the machine, and it is another one.
        changed: bool,
    },
    /// The server refused the login. Nothing ran. Until cloud-init made the user this is normal on a first boot. From
    /// OpenSSH 9.8 on a server shuts out an address for a while that fails often (`PerSourcePenalties`: 5 s a failure,
    /// enforced from 15 s on): wait some seconds before the next try, not milliseconds.
    #[error("SSH login refused: {0}")]
    Denied(String),
    /// The connection broke after the command was sent: it may have run, to its end or in part.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The command did not end within its time. The far side was told to end it; it may have run in part.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Something on this side: no `ssh` program, an argument that is not understood, a file that cannot be written.
    /// Nothing ran. Waiting does not help.
    #[error("ssh cannot be started: {0}")]
    Setup(String),
}

impl SshError {
    /// Whether the command certainly did not run.
    pub fn nothing_ran(&self) -> bool {
        match self {
            Self::NotReachable(_) | Self::HostKey { .. } | Self::Denied(_) | Self::Setup(_) => true,
            Self::Lost(_) | Self::TimedOut(_) => false,
        }
    }

    /// Whether a machine that is booting may answer so, and later answer properly.
    pub fn may_pass_while_booting(&self) -> bool {
        match self {
            Self::NotReachable(_) | Self::Denied(_) | Self::Lost(_) | Self::TimedOut(_) => true,
            Self::HostKey { .. } | Self::Setup(_) => false,
        }
    }
}

/// A script to run on the far side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Run by `sh -c`. It may be seen in the process list there: no secrets.
    pub script: String,
    /// What its standard input holds; `None` is empty.
    pub stdin: Option<Vec<u8>>,
    /// How long it may run. Rounded up to whole seconds.
    pub timeout: Duration,
    /// Run it as root: by `sudo -n`, unless the login is root's.
    pub sudo: bool,
}

impl Command {
    /// A script without input, as the login's user.
    pub fn new(script: impl Into<String>, timeout: Duration) -> Self {
        Self {
            script: script.into(),
            stdin: None,
            timeout,
            sudo: false,
        }
    }

    /// Runs it as root.
    #[must_use]
    pub fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Gives it standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }
}

/// Which host keys are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKeys {
    /// Exactly these, each `type base64` as in a `.pub` file. Nothing else is looked at.
    Known(Vec<String>),
    /// What this `known_hosts` file says of the machine's alias, or of its address where the alias has no entry; an
    /// unknown machine is refused.
    File(PathBuf),
    /// First contact: a machine that is not in this file yet is accepted and written into it; one that is there with
    /// another key is refused.
    LearnInto(PathBuf),
}

/// THE DOOR to nodes and guests.
pub trait Remote: Send + Sync {
    /// Runs a script on a machine.
    ///
    /// # Errors
    /// [`SshError`], by what the caller can do. Any exit code is an [`Output`], not an error.
    fn run<'a>(
        &'a self,
        target: &'a SshTarget,
        keys: &'a HostKeys,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, SshError>>;

    /// Whether something answers on the machine's SSH port within this time: no login, no host key.
    fn answers<'a>(&'a self, target: &'a SshTarget, within: Duration) -> BoxFuture<'a, bool>;

    /// Drops kept connections to a machine, for example because it restarts.
    fn forget(&self, target: &SshTarget);

    /// The host keys that a machine shows, of all types, `type base64` each, sorted. Nothing authenticates them.
    ///
    /// # Errors
    /// [`SshError::NotReachable`] if it shows none.
    fn scan<'a>(&'a self, target: &'a SshTarget) -> BoxFuture<'a, Result<Vec<String>, SshError>>;
}

/// A text as one word of a POSIX shell.
pub fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_code_and_the_last_words() {
        let output = Output {
            code: Some(3),
            stdout: vec![],
            stderr: b"warning: x\ncat: no\n\n".to_vec(),
        };
        assert_eq!(output.summary(), "exit code 3: cat: no");
        assert_eq!(Output::default().summary(), "ended by a signal");
    }

    #[test]
    fn only_what_was_certainly_not_sent_is_called_so() {
        assert!(SshError::Denied(String::new()).nothing_ran());
        assert!(!SshError::Lost(String::new()).nothing_ran());
        assert!(!SshError::TimedOut(Duration::ZERO).nothing_ran());
    }

    #[test]
    fn quotes_survive_the_shell() {
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
    }

    #[test]
    fn a_host_key_error_tells_which_kind() {
        let text = "x".to_owned();
        let changed = SshError::HostKey {
            text: text.clone(),
            changed: true,
        };
        assert_eq!(changed.to_string(), "host key is not the known one: x");
        assert_eq!(
            SshError::HostKey { text, changed: false }.to_string(),
            "host key is not known: x"
        );
    }
}
