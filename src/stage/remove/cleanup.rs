//! Cleanup: what stood outside the VM goes, now that the VM is seen to be gone.
//!
//! ```text
//!   DNS            exactly the records of the guest's name and its addresses, declared or on record
//!   known_hosts    the entries of all its names; an address's only while its key is the guest's
//!   snippets       the two documents on the node that they were delivered to: they hold a password hash
//!   record         last: it is what a rerun goes on from
//! ```
//!
//! The first three do not wait for each other: what fails is told at the end, when the others are done, and the record
//! stays until all are.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::diagnose::{Diagnostic, chain};
use crate::dns::{Record, Removed};
use crate::engine::event::{Change, StageName};
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::guest::known_hosts::{self, KnownHostsError};
use crate::machine::{Dns as DnsChoice, Machine};
use crate::stage::remove::Gone;
use crate::stage::{Vm, dns, snippets, trust};
use crate::state::record::Phase;

/// Nothing of the VM is left.
#[derive(Clone, Debug)]
pub struct Clean {
    /// The VM that was there, unless only its clone was intended.
    pub vm: Option<Vm>,
    _made: (),
}

/// The stage.
pub struct Cleanup {
    gone: Gone,
    clean: Mutex<BTreeSet<Part>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Dns,
    KnownHosts,
    Snippets,
}

const PARTS: [Part; 3] = [Part::Dns, Part::KnownHosts, Part::Snippets];

impl Cleanup {
    /// The stage for a VM that is gone.
    pub fn new(gone: Gone) -> Self {
        Self {
            gone,
            clean: Mutex::default(),
        }
    }

    fn is_clean(&self, part: Part) -> bool {
        self.clean
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&part)
    }
}

impl Stage for Cleanup {
    const NAME: StageName = StageName::Cleanup;
    type Evidence = Clean;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Clean>, Failure> {
        let (mut left, mut failed) = (Vec::new(), None);
        for part in PARTS {
            if self.is_clean(part) {
                continue;
            }
            match part.left(run).await {
                Ok(changes) if changes.is_empty() => {
                    self.clean.lock().unwrap_or_else(PoisonError::into_inner).insert(part);
                }
                Ok(changes) => left.extend(changes),
                Err(failure) => {
                    failed.get_or_insert(failure);
                }
            }
        }
        let has_record = run.record.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if has_record && (failed.is_none() && left.is_empty() || is_plan(run)) {
            let path = run.shared.state.record_path(&run.key);
            left.push(Change::set("record", Some(path.display().to_string()), None));
        }
        match failed {
            Some(failure) if left.is_empty() || is_plan(run) => Err(failure),
            Some(_) | None if !left.is_empty() => Ok(Seen::Absent(left)),
            Some(failure) => Err(failure),
            None => Ok(Seen::Done(Clean {
                vm: self.gone.vm.clone(),
                _made: (),
            })),
        }
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let mut failed = None;
        for part in PARTS {
            if !self.is_clean(part)
                && let Err(failure) = part.take_back(run).await
            {
                failed.get_or_insert(failure);
            }
        }
        match failed {
            // What could not be looked at could not be taken back either; the next look tells it.
            Some(failure) => Err(failure),
            None if PARTS.iter().all(|part| self.is_clean(*part)) => drop_record(run),
            None => Ok(()),
        }
    }

    fn tell(&self, _clean: &Clean) -> String {
        "nothing of it is left".to_owned()
    }
}

fn is_plan(run: &HostRun) -> bool {
    run.shared.mode == crate::engine::host::Mode::Plan
}

impl Part {
    /// What is left, as the changes that take it away.
    async fn left(self, run: &HostRun) -> Result<Vec<Change>, Failure> {
        let gone = |what: &str, value: String| Change::set(what, Some(value), None);
        match self {
            Self::Dns => {
                let mut left = Vec::new();
                for record in records(run) {
                    let seen = run.dns.observe(&record).await.map_err(|error| dns::explain(&error))?;
                    if seen.present {
                        left.push(gone("DNS record", record.to_string()));
                    }
                }
                Ok(left)
            }
            Self::KnownHosts => {
                let names = known_names(run)?;
                Ok(if names.is_empty() {
                    Vec::new()
                } else {
                    vec![gone("known_hosts entries", names.join(", "))]
                })
            }
            Self::Snippets => {
                let node = &run.machine.node;
                let found = snippets::present(run, node)
                    .await
                    .map_err(|failure| snippets_left(run, failure))?;
                Ok(found
                    .into_iter()
                    .map(|name| gone("snippet", format!("{name} on {node}")))
                    .collect())
            }
        }
    }

    async fn take_back(self, run: &HostRun) -> Result<(), Failure> {
        match self {
            Self::Dns => {
                for record in records(run) {
                    match run.dns.remove(&record).await.map_err(|error| dns::explain(&error))? {
                        Removed::Absent | Removed::Removed | Removed::NotPublished => {}
                        Removed::Shared { entry } => {
                            return Err(Failure::new(
                                Diagnostic::error(
                                    "remove/dns-shared",
                                    format!(
                                        "{} stands in an entry with other names in {}: {entry}",
                                        record.name,
                                        run.dns.label()
                                    ),
                                )
                                .rule("an entry with further names was made by somebody else and is left alone")
                                .help("take the name out of that entry there, then run the same command again"),
                            ));
                        }
                    }
                }
                Ok(())
            }
            Self::KnownHosts => {
                let names = known_names(run)?;
                if !names.is_empty() {
                    known_hosts::remove(&run.shared.known_hosts, &names)
                        .await
                        .map_err(known_hosts_failure)?;
                }
                Ok(())
            }
            Self::Snippets => snippets::remove(run, &run.machine.node)
                .await
                .map_err(|failure| snippets_left(run, failure)),
        }
    }
}

/// The last step: the record goes.
fn drop_record(run: &HostRun) -> Result<(), Failure> {
    let guard = run.guard.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(guard) = guard.as_ref() else {
        return Err(Failure::new(Diagnostic::error(
            "state/no-lock",
            "the record can only be dropped under the VM's lock",
        )));
    };
    run.shared.state.delete_record(guard)?;
    *run.record.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(())
}

/// The guest's name on its addresses: those that are declared, and those on record. Nothing else is ours.
fn records(run: &HostRun) -> Vec<Record> {
    if matches!(run.machine.dns, DnsChoice::None) {
        return Vec::new();
    }
    ours(&run.machine, run.phase().as_ref())
}

fn ours(machine: &Machine, phase: Option<&Phase>) -> Vec<Record> {
    let mut records = dns::records(machine);
    for address in recorded(phase) {
        let record = Record::new(&machine.guest.fqdn, address);
        if !records.contains(&record) {
            records.push(record);
        }
    }
    records
}

fn recorded(phase: Option<&Phase>) -> Vec<IpAddr> {
    let Some(Phase::Removing { addresses, .. }) = phase else {
        return Vec::new();
    };
    addresses
        .iter()
        .filter_map(|text| text.split('/').next()?.parse().ok())
        .collect()
}

/// The names that known_hosts has an entry of ours for.
fn known_names(run: &HostRun) -> Result<Vec<String>, Failure> {
    let machine = &run.machine;
    let phase = run.phase();
    let mut names = trust::names(machine);
    let addresses: Vec<String> = recorded(phase.as_ref()).iter().map(ToString::to_string).collect();
    names.extend(known_hosts::names("", &addresses, machine.ssh.port));
    let mut seen = BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    let keys = match phase {
        Some(Phase::Removing { host_keys, .. }) => host_keys,
        Some(_) | None => Vec::new(),
    };
    let mut found = Vec::new();
    for name in names {
        let entry = known_hosts::read(&run.shared.known_hosts, &name).map_err(known_hosts_failure)?;
        if !entry.is_empty() && (!is_address(&name) || is_guests(&entry, &keys)) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Whether a name of known_hosts is an address, `10.0.0.5` or `[10.0.0.5]:2222`.
fn is_address(name: &str) -> bool {
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(name, |(host, _)| host);
    bare.parse::<IpAddr>().is_ok()
}

/// Whether an entry is the guest's: an address may be another machine's by now. Where no keys are on record, it is.
fn is_guests(entry: &[String], keys: &[String]) -> bool {
    keys.is_empty() || entry.iter().any(|key| keys.contains(key))
}

fn known_hosts_failure(error: KnownHostsError) -> Failure {
    Failure::new(
        Diagnostic::error("trust/known-hosts", chain(&error))
            .help("check the file's owner and mode, or give another one with --known-hosts"),
    )
}

/// The VM is gone and everything else is clean: what is left is told with the way out.
fn snippets_left(run: &HostRun, mut failure: Failure) -> Failure {
    let diagnostic = failure.diagnostic.help(format!(
        "the VM is gone; only its snippets may be left on {}. If that node never comes back: `vmwright forget HOST --confirm {}` drops the record",
        run.machine.node, run.machine.name
    ));
    failure.diagnostic = Box::new(diagnostic);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{Fixture, machine};
    use crate::state::record::RemoveStep;

    fn phase(host_keys: &[&str], addresses: &[&str]) -> Phase {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Phase::Removing {
            vmid: 100.try_into().unwrap(),
            uuid: "u".to_owned(),
            node: machine().node,
            host_keys: all(host_keys),
            addresses: all(addresses),
            step: RemoveStep::Gone,
            upid: None,
            since: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_records_are_the_declared_and_the_recorded_ones() {
        let machine = machine();
        let declared = machine.address().unwrap();
        let phase = phase(&[], &[&format!("{declared}/24"), "10.9.9.9/24", "nonsense"]);
        let found: Vec<String> = ours(&machine, Some(&phase)).iter().map(ToString::to_string).collect();
        let fqdn = &machine.guest.fqdn;
        assert_eq!(found, [format!("{fqdn} -> {declared}"), format!("{fqdn} -> 10.9.9.9")]);
        assert_eq!(ours(&machine, None), dns::records(&machine));
    }

    #[test]
    fn an_address_that_another_machine_has_now_keeps_its_entry() {
        let (ours, other) = (
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOurs",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOther",
        );
        let fixture = Fixture::new().recorded(phase(&[ours], &["10.9.9.9/24"]));
        let machine = machine();
        let address = machine.address().unwrap();
        let text = format!("{},10.9.9.9 {ours}\n{address} {other}\nelse {other}\n", machine.host);
        std::fs::write(fixture.known_hosts(), text).unwrap();
        assert_eq!(
            known_names(&fixture.run).unwrap(),
            [machine.host, "10.9.9.9".to_owned()]
        );
    }

    #[test]
    fn addresses_are_told_from_names() {
        assert!(is_address("10.0.0.5") && is_address("[10.0.0.5]:2222") && is_address("2001:db8::1"));
        assert!(!is_address("web-0") && !is_address("[web-0]:2222"));
    }
}
