//! The guest of a host under way: commands on it, the host keys that it must show, and what its failures mean.

use std::path::PathBuf;
use std::time::Duration;

use super::failure::{Failure, Retry, explain_ssh};
use super::host::HostRun;
use super::pace::Pace;
use crate::diagnose::Diagnostic;
use crate::guest::remote::{Command, HostKeys, Output, SshError};
use crate::machine::SshTarget;
use crate::state::record::Phase;

impl HostRun {
    /// Runs a command on the guest with the host keys that are known so far: those on record, else those learned in this
    /// run.
    pub async fn on_guest(&self, command: &Command) -> Result<Output, SshError> {
        self.shared
            .remote
            .run(&self.machine.ssh, &self.guest_keys(), command)
            .await
    }

    /// The host keys that the guest must show.
    pub fn guest_keys(&self) -> HostKeys {
        match self.phase() {
            Some(Phase::Finalizing { host_keys, .. } | Phase::Complete { host_keys, .. }) if !host_keys.is_empty() => {
                HostKeys::Known(host_keys)
            }
            _ => HostKeys::LearnInto(self.first_contact_file()),
        }
    }

    /// Whether the guest may still draw new host keys: until cloud-init's verdict is on record.
    pub fn is_first_boot(&self) -> bool {
        match self.phase() {
            None | Some(Phase::Cloning { .. } | Phase::Created { .. }) => true,
            Some(
                Phase::Initialized { .. } | Phase::Finalizing { .. } | Phase::Complete { .. } | Phase::Removing { .. },
            ) => false,
        }
    }

    /// The file of this run with the guest's host keys as learned at first contact.
    pub fn first_contact_file(&self) -> PathBuf {
        self.shared.scratch.join(format!("known-{}", self.key.as_str()))
    }

    /// A diagnostic for an SSH failure at the guest.
    pub fn explain_guest(&self, error: &SshError) -> Diagnostic {
        explain_ssh(
            error,
            &format!("guest {} ({})", self.machine.host, at(&self.machine.ssh)),
        )
    }

    /// An SSH failure at the guest during a command that may be repeated: a guest that is away for a moment is asked again.
    pub fn guest_failure(&self, error: &SshError) -> Failure {
        let retry = match error {
            SshError::NotReachable(_) | SshError::Denied(_) => Retry::NotExecuted,
            SshError::Lost(_) | SshError::TimedOut(_) => Retry::Doubt,
            SshError::HostKey { .. } | SshError::Setup(_) => Retry::No,
        };
        let mut failure = Failure::new(self.explain_guest(error)).retry(retry);
        if matches!(error, SshError::Denied(_)) {
            failure.rest = Pace::Login.pause(Duration::ZERO);
        }
        failure
    }
}

/// `user@host:port`, for messages.
pub fn at(target: &SshTarget) -> String {
    format!("{}@{}:{}", target.user, target.host, target.port)
}
