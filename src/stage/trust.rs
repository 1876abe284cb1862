//! Trust: the guest's host keys stand in known_hosts, for its name, its FQDN and its addresses, of all key types.
//!
//! ```text
//!   guest agent (authenticated by the API) ---> must hold the key that the first contact showed, else refuse
//!      | does not answer
//!      v
//!   /etc/ssh on the guest, over the first contact's session --> must hold that key, else it tells of another sshd
//!      | does not
//!      v
//!   ssh-keyscan -------------------------------> and it is said that nobody vouches for it
//! ```

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::diagnose::{Diagnostic, Exit, count};
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::guest::known_hosts::{self, KnownHostsError};
use crate::guest::probes;
use crate::machine::Machine;
use crate::proxmox::error::Kind;
use crate::stage::Vm;
use crate::stage::cloud_init::Initialized;
use crate::state::record::Phase;

/// The guest's host keys are known.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// The VM.
    pub vm: Vm,
    /// The keys, `type base64`.
    pub host_keys: Vec<String>,
    /// Who vouches for them.
    pub source: Source,
    _made: (),
}

/// Who vouches for host keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The guest agent, through the authenticated API.
    Agent,
    /// The guest's own files, over a session whose key was learned at first contact.
    Session,
    /// Nobody: they were scanned.
    Scan,
    /// The record of an earlier run.
    Record,
}

impl Source {
    fn words(self) -> &'static str {
        match self {
            Self::Agent => "vouched for by the guest agent",
            Self::Session => "read on the guest, over the key of the first contact",
            Self::Scan => "scanned; nobody vouches for them",
            Self::Record => "on record",
        }
    }
}

/// The stage.
pub struct Trust {
    /// cloud-init is done.
    initialized: Initialized,
    keys: Mutex<Option<(Vec<String>, Source)>>,
}

impl Trust {
    /// The stage for an initialized VM.
    pub fn new(initialized: Initialized) -> Self {
        Self {
            initialized,
            keys: Mutex::new(None),
        }
    }

    async fn keys(&self, run: &HostRun) -> Result<(Vec<String>, Source), Failure> {
        let held = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(found) = held {
            return Ok(found);
        }
        let found = self.find(run).await?;
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        Ok(found)
    }

    async fn find(&self, run: &HostRun) -> Result<(Vec<String>, Source), Failure> {
        if let Some(Phase::Finalizing { host_keys, .. } | Phase::Complete { host_keys, .. }) = run.phase()
            && !host_keys.is_empty()
        {
            return Ok((host_keys, Source::Record));
        }
        let learned = self.learned(run).await?;
        let vouches = |keys: &[String]| learned.iter().any(|key| keys.contains(key));
        if let Some(keys) = self.agents_keys(run).await? {
            if !vouches(&keys) {
                return Err(Failure::new(impostor(run, &learned, &keys)));
            }
            return Ok((keys, Source::Agent));
        }
        let probe = probes::host_keys();
        let output = run
            .on_guest(&probe.command(Duration::from_secs(20)))
            .await
            .map_err(|error| run.guest_failure(&error))?;
        if let Ok(keys) = probe.read(&output)
            && vouches(&keys)
        {
            return Ok((keys, Source::Session));
        }
        let keys = run
            .shared
            .remote
            .scan(&run.machine.ssh)
            .await
            .map_err(|error| run.guest_failure(&error))?;
        if !vouches(&keys) {
            return Err(Failure::new(impostor(run, &learned, &keys)));
        }
        Ok((keys, Source::Scan))
    }

    /// The keys that the first contact showed; a resumed run makes its first contact here.
    async fn learned(&self, run: &HostRun) -> Result<Vec<String>, Failure> {
        let file = run.first_contact_file();
        let alias = &run.machine.ssh.alias;
        let mut keys = known_hosts::read(&file, alias).map_err(explain)?;
        if keys.is_empty() {
            let probe = probes::boot_id();
            run.on_guest(&probe.command(Duration::from_secs(20)))
                .await
                .map_err(|error| run.guest_failure(&error))?;
            keys = known_hosts::read(&file, alias).map_err(explain)?;
        }
        Ok(keys)
    }

    /// The public host keys as the guest agent reads them; `None` if it does not answer.
    async fn agents_keys(&self, run: &HostRun) -> Result<Option<Vec<String>>, Failure> {
        let vm = &self.initialized.vm;
        let mut keys = BTreeSet::new();
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let path = format!("/etc/ssh/ssh_host_{kind}_key.pub");
            match run.api().agent_read_file(&vm.node, vm.vmid, &path).await {
                Ok(text) => keys.extend(text.lines().filter_map(probes::public_key)),
                Err(error) => match error.kind() {
                    Kind::Unauthorized | Kind::Untrusted { .. } => return Err(error.into()),
                    // A key type that the guest does not have is an agent error too.
                    _ if error.to_string().contains("No such file") => {}
                    // An agent that is not there, or may not read files, fails on the first file.
                    _ if keys.is_empty() => return Ok(None),
                    // Some keys of several would pass for all: ask again.
                    _ => return Err(Failure::from(error).retry(Retry::Doubt)),
                },
            }
        }
        Ok(if keys.is_empty() {
            None
        } else {
            Some(keys.into_iter().collect())
        })
    }
}

impl Stage for Trust {
    const NAME: StageName = StageName::Trust;
    type Evidence = Trusted;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Trusted>, Failure> {
        let (keys, source) = self.keys(run).await?;
        let names = names(&run.machine);
        let mut right = true;
        for name in &names {
            right &= known_hosts::read(&run.shared.known_hosts, name).map_err(explain)? == keys;
        }
        if !right {
            let to = format!(
                "{} in {}",
                count(keys.len(), "host key"),
                run.shared.known_hosts.display()
            );
            return Ok(Seen::Absent(vec![Change::new(names.join(", "), to)]));
        }
        Ok(Seen::Done(Trusted {
            vm: self.initialized.vm.clone(),
            host_keys: keys,
            source,
            _made: (),
        }))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let (keys, _) = self.keys(run).await?;
        known_hosts::replace(&run.shared.known_hosts, &names(&run.machine), &keys)
            .await
            .map_err(explain)?;
        Ok(())
    }

    fn tell(&self, trusted: &Trusted) -> String {
        format!(
            "{}, {}",
            count(trusted.host_keys.len(), "host key"),
            trusted.source.words()
        )
    }
}

/// The names that the guest is reached by, as known_hosts writes them.
pub fn names(machine: &Machine) -> Vec<String> {
    let mut others = vec![machine.guest.fqdn.clone()];
    others.extend(
        machine
            .network
            .interfaces
            .iter()
            .flat_map(|nic| &nic.addresses)
            .map(|cidr| cidr.address.to_string()),
    );
    others.push(machine.ssh.host.clone());
    known_hosts::names(&machine.ssh.alias, &others, machine.ssh.port)
}

fn impostor(run: &HostRun, learned: &[String], vouched: &[String]) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(
        "trust/other-key",
        format!(
            "what answers at {} is not the guest {}: its host key is not one of the guest's",
            run.machine.ssh.host, run.machine.host
        ),
    )
    .rule("the guest's own host keys decide; nothing was written to known_hosts")
    .help("another machine has this address, or somebody is in between: find it before going on")
    .exit(Exit::Refused);
    for key in learned {
        diagnostic = diagnostic.note(None, format!("shown at the address: {key}"));
    }
    for key in vouched {
        diagnostic = diagnostic.note(None, format!("the guest's: {key}"));
    }
    diagnostic
}

/// What to tell about the known_hosts file.
pub(super) fn explain(error: KnownHostsError) -> Failure {
    let text = crate::diagnose::chain(&error);
    Failure::new(
        Diagnostic::error("trust/known-hosts", text)
            .help("check the file's owner and mode, or give another one with --known-hosts"),
    )
}

#[cfg(test)]
impl Trusted {
    /// As if the keys had been found and written.
    pub(crate) fn of(vm: Vm, host_keys: Vec<String>) -> Self {
        Self {
            vm,
            host_keys,
            source: Source::Agent,
            _made: (),
        }
    }
}

#[cfg(test)]
mod tests;
