//! Errors of the doors, as the engine needs them: what to tell, and whether to try again.
//!
//! *Retry only what was certainly not executed; what may have been executed is looked at, never repeated blindly.* The
//! engine observes after every failure that is not final, so a doubt is settled by the world.

use std::time::Duration;

use crate::diagnose::{Diagnostic, Exit};
use crate::guest::remote::SshError;
use crate::proxmox::error::{ApiError, Kind};
use crate::state::StateError;

/// Whether a failed step may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the answer is final.
    No,
    /// Yes: it was certainly not executed.
    NotExecuted,
    /// It may have been executed: look.
    Doubt,
}

/// A step that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What to tell.
    pub diagnostic: Box<Diagnostic>,
    /// Whether to try again.
    pub retry: Retry,
    /// The API's own classification, for stages that know a special case.
    pub kind: Option<Kind>,
    /// The shortest pause before the next try.
    pub rest: Duration,
}

impl Failure {
    /// A final failure of this host.
    pub fn new(diagnostic: Diagnostic) -> Self {
        let diagnostic = if diagnostic.exit == Exit::Usage {
            diagnostic.exit(Exit::HostFailed)
        } else {
            diagnostic
        };
        Self {
            diagnostic: Box::new(diagnostic),
            retry: Retry::No,
            kind: None,
            rest: Duration::ZERO,
        }
    }

    /// The same failure, to be retried like this.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::new(diagnostic)
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::new(error.diagnostic())
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let kind = error.kind();
        Self {
            retry: retry_of(&kind),
            diagnostic: Box::new(explain_api(&error, &kind)),
            kind: Some(kind),
            rest: Duration::ZERO,
        }
    }
}

/// The answer, or nothing from an API that does not know the call, or that this identity may not ask.
pub fn if_told<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), Kind::NotImplemented | Kind::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the API's classification means for a second try.
pub fn retry_of(kind: &Kind) -> Retry {
    match kind {
        Kind::Busy | Kind::NotSent | Kind::NoQuorum => Retry::NotExecuted,
        Kind::Unknown => Retry::Doubt,
        Kind::Unauthorized
        | Kind::Forbidden { .. }
        | Kind::Missing
        | Kind::Locked { .. }
        | Kind::Exists
        | Kind::Invalid
        | Kind::Untrusted { .. }
        | Kind::NotImplemented
        | Kind::TaskFailed
        | Kind::Other => Retry::No,
    }
}

/// What to tell about an API error.
fn explain_api(error: &ApiError, kind: &Kind) -> Diagnostic {
    let told = |code, help: &[&str]| {
        let mut diagnostic = Diagnostic::error(code, error.to_string()).exit(Exit::HostFailed);
        diagnostic.help = help.iter().map(|text| (*text).to_owned()).collect();
        diagnostic
    };
    match kind {
        Kind::Unauthorized => told(
            "api/unauthorized",
            &[
                "check global_proxmox_api_user, global_proxmox_api_token_id and global_proxmox_api_token (or _password); a token that expired or was deleted looks the same",
            ],
        ),
        Kind::Forbidden { path, privileges } => {
            let mut diagnostic = told("api/forbidden", &[]);
            if !privileges.is_empty() {
                let path = if path.is_empty() { "/" } else { path };
                diagnostic = diagnostic
                    .rule(format!("the identity needs {} on {path}", privileges.join(" or ")))
                    .help(format!(
                        "pveum role modify ROLE --append --privs '{}' (ROLE: the one that the identity has on {path} or above, see `pveum acl list`)",
                        privileges.join(" ")
                    ));
            }
            diagnostic
        }
        Kind::Missing => told(
            "api/missing",
            &["look in Proxmox whether the VM was moved or removed meanwhile, then run the same command again"],
        ),
        Kind::Locked { lock } => {
            let what = lock.clone().unwrap_or_else(|| "a lock".to_owned());
            told("api/locked", &[])
                .rule(format!("Proxmox refuses changes while the VM is locked ({what})"))
                .help("wait for the task that holds it; if no task runs on the node, an administrator may clear it there with `qm unlock VMID`")
        }
        Kind::Exists => told("api/exists", &[]),
        Kind::Invalid => told(
            "api/invalid",
            &["this is a value that Proxmox does not accept: the field and its rule stand in the message"],
        ),
        Kind::Busy => told("api/busy", &["nothing was done; run the same command again"]),
        Kind::NoQuorum => told(
            "api/no-quorum",
            &["the cluster has no quorum: bring its nodes back, then run the same command again"],
        ),
        Kind::NotSent => told(
            "api/unreachable",
            &["check global_proxmox_api_host and global_proxmox_api_port, and that pveproxy runs there"],
        ),
        Kind::Untrusted { seen_fingerprint } => {
            let mut diagnostic = told("api/untrusted", &[]).rule("the certificate of the API is verified");
            if let Some(seen) = seen_fingerprint {
                diagnostic = diagnostic.help(format!(
                    "if this is your node's certificate (pvenode cert info), set global_proxmox_api_fingerprint: \"{seen}\""
                ));
            }
            diagnostic
                .help("or set global_proxmox_api_ca_file to the cluster's CA (/etc/pve/pve-root-ca.pem on a node)")
        }
        Kind::Unknown => told(
            "api/unknown-outcome",
            &["the call may have been executed: run the same command again, it looks before it acts"],
        ),
        Kind::NotImplemented => told(
            "api/not-implemented",
            &["this API does not know the call: which Proxmox VE version is it?"],
        ),
        Kind::TaskFailed => told("api/task-failed", &[]),
        Kind::Other => told("api/failed", &[]),
    }
}

/// What to tell about an SSH failure. `whom` names the far side: `guest web-0 (ansible@10.0.20.5:22)`.
pub fn explain_ssh(error: &SshError, whom: &str) -> Diagnostic {
    let told = |code, what: &str, help: &str| {
        Diagnostic::error(code, format!("{what} {whom}: {error}"))
            .help(help)
            .exit(Exit::HostFailed)
    };
    match error {
        SshError::NotReachable(_) => told(
            "ssh/unreachable",
            "cannot reach",
            "check the address, the port and the network in between",
        ),
        SshError::HostKey { .. } => told(
            "ssh/host-key",
            "the host key is not the expected one of",
            "another machine may answer at this address; if the guest was rebuilt on purpose, remove its old entry with `ssh-keygen -R`",
        ),
        SshError::Denied(_) => told(
            "ssh/denied",
            "the login was refused by",
            "check ansible_user and ansible_ssh_private_key_file; `ssh -v` with the same user and key shows what the server says",
        ),
        SshError::Lost(_) => told(
            "ssh/lost",
            "the connection was lost to",
            "the command may have run; run vmwright again, it looks before it acts",
        ),
        SshError::TimedOut(_) => told(
            "ssh/timeout",
            "no answer in time from",
            "the command may have run; run vmwright again, it looks before it acts",
        ),
        SshError::Setup(_) => told(
            "ssh/setup",
            "cannot start ssh for",
            "an OpenSSH client (`ssh`, `ssh-keygen`, `ssh-keyscan`) must be installed",
        ),
    }
}
