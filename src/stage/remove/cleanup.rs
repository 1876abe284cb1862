//! Cleanup: what stood outside the VM goes, now that the VM is seen to be gone.
//!
//! ```text
//!   DNS            exactly the records of the guest's name and its addresses, declared or on record
//!   known_hosts    the entries with the guest's keys; where none are on record, those of its names, and of no address
//!   snippets       the two documents in every folder that they were delivered to: they hold a password hash
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
                let known = known(run)?;
                Ok(if known.names.is_empty() {
                    Vec::new()
                } else {
                    vec![gone("known_hosts entries", known.names.join(", "))]
                })
            }
            Self::Snippets => {
                let found = snippets::present(run)
                    .await
                    .map_err(|failure| snippets_left(run, failure))?;
                Ok(found
                    .into_iter()
                    .map(|(name, node)| gone("snippet", format!("{name} on {node}")))
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
                let known = known(run)?;
                if !known.names.is_empty() {
                    known_hosts::remove(&run.shared.known_hosts, &known.names, known.keys.as_deref())
                        .await
                        .map_err(known_hosts_failure)?;
                }
                Ok(())
            }
            Self::Snippets => snippets::remove(run)
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
    parsed(addresses)
}

/// Addresses without their prefix.
fn parsed(addresses: &[String]) -> Vec<IpAddr> {
    addresses
        .iter()
        .filter_map(|text| text.split('/').next()?.parse().ok())
        .collect()
}

/// What known_hosts has of ours.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// The names, as the file has them.
    names: Vec<String>,
    /// The guest's keys: only their entries are ours. `None` where none are on record; then only names are, not addresses.
    keys: Option<Vec<String>>,
}

/// The names that known_hosts has an entry of ours for.
///
/// With keys on record an entry is ours if it carries one of them, whatever it is called: the name or address may be another
/// machine's by now. Without (the guest was adopted as complete, or never came as far as trust) only the guest's own names
/// are, and no address: what an adopted guest calls its address may be every machine's (172.17.0.1), or a virtual one.
fn known(run: &HostRun) -> Result<Known, Failure> {
    let machine = &run.machine;
    let (host_keys, addresses) = match run.phase() {
        Some(Phase::Removing {
            host_keys, addresses, ..
        }) => (host_keys, addresses),
        Some(_) | None => (Vec::new(), Vec::new()),
    };
    let keys = Some(host_keys).filter(|keys| !keys.is_empty());
    let mut names = trust::names(machine);
    let bare: Vec<String> = parsed(&addresses).iter().map(ToString::to_string).collect();
    names.extend(known_hosts::names("", &bare, machine.ssh.port));
    let mut seen = BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    let mut found = Vec::new();
    for name in names {
        let entry = known_hosts::read(&run.shared.known_hosts, &name).map_err(known_hosts_failure)?;
        let ours = match &keys {
            Some(keys) => entry.iter().any(|key| keys.contains(key)),
            None => !entry.is_empty() && !is_address(&name),
        };
        if ours {
            found.push(name);
        }
    }
    Ok(Known { names: found, keys })
}

/// Whether a name of known_hosts is an address, `10.0.0.5` or `[10.0.0.5]:2222`.
fn is_address(name: &str) -> bool {
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(name, |(host, _)| host);
    bare.parse::<IpAddr>().is_ok()
}

fn known_hosts_failure(error: KnownHostsError) -> Failure {
    Failure::new(
        Diagnostic::error("trust/known-hosts", chain(&error))
            .help("check the file's owner and mode, or give another one with --known-hosts"),
    )
}

/// The VM is gone and everything else is clean: what is left is told with the way out.
fn snippets_left(run: &HostRun, mut failure: Failure) -> Failure {
    let mut nodes: Vec<String> = run
        .deliveries()
        .into_iter()
        .map(|found| found.node.to_string())
        .collect();
    if nodes.is_empty() {
        nodes.push(run.machine.node.to_string());
    }
    nodes.dedup();
    let diagnostic = failure.diagnostic.help(format!(
        "the VM is gone; only its snippets may be left on {}. If that node never comes back: `vmwright forget HOST --confirm {}` drops the record",
        nodes.join(", "), run.machine.name
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

    const OURS: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOurs";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOther";

    /// What is left of a known_hosts file.
    async fn cleaned(phase: Option<Phase>, text: &str) -> String {
        let fixture = Fixture::new();
        let fixture = match phase {
            Some(phase) => fixture.recorded(phase),
            None => fixture,
        };
        std::fs::write(fixture.known_hosts(), text).unwrap();
        Part::KnownHosts.take_back(&fixture.run).await.unwrap();
        assert_eq!(Part::KnownHosts.left(&fixture.run).await.unwrap(), []);
        std::fs::read_to_string(fixture.known_hosts()).unwrap()
    }

    #[tokio::test]
    async fn only_entries_of_the_guest_go() {
        let machine = machine();
        let (host, address) = (machine.host.clone(), machine.address().unwrap().to_string());
        let trusted = || Some(phase(&[OURS], &["10.9.9.9/24"]));
        // Adopted as complete, or never trusted: no keys; the addresses are all that the agent told.
        let untrusted = || Some(phase(&[], &["172.17.0.1/16", "10.9.9.9/24"]));
        let lines = |lines: &[(&str, &str)]| -> String {
            lines.iter().map(|(names, key)| format!("{names} {key}\n")).collect()
        };
        let cases = [
            (
                "its own",
                trusted(),
                lines(&[(&format!("{host},{address},10.9.9.9"), OURS)]),
                String::new(),
            ),
            (
                "an address of another machine",
                trusted(),
                lines(&[(&address, OTHER)]),
                lines(&[(&address, OTHER)]),
            ),
            (
                "a name of another machine",
                trusted(),
                lines(&[(&host, OTHER)]),
                lines(&[(&host, OTHER)]),
            ),
            (
                "two machines at one address",
                trusted(),
                lines(&[(&address, OTHER), (&address, OURS)]),
                lines(&[(&address, OTHER)]),
            ),
            (
                "a neighbour in its line",
                trusted(),
                lines(&[(&format!("{host},gate"), OURS)]),
                lines(&[("gate", OURS)]),
            ),
            (
                "its name, without keys",
                untrusted(),
                lines(&[(&host, OTHER)]),
                String::new(),
            ),
            (
                "no record",
                None,
                lines(&[(&host, OTHER), (&address, OTHER)]),
                lines(&[(&address, OTHER)]),
            ),
            (
                "addresses, without keys",
                untrusted(),
                lines(&[
                    (&format!("{host},{address}"), OURS),
                    ("172.17.0.1", OTHER),
                    ("10.9.9.9", OURS),
                ]),
                lines(&[(&address, OURS), ("172.17.0.1", OTHER), ("10.9.9.9", OURS)]),
            ),
        ];
        for (what, phase, before, after) in cases {
            assert_eq!(cleaned(phase, &before).await, after, "{what}");
        }
    }

    #[test]
    fn addresses_are_told_from_names() {
        assert!(is_address("10.0.0.5") && is_address("[10.0.0.5]:2222") && is_address("2001:db8::1"));
        assert!(!is_address("web-0") && !is_address("[web-0]:2222"));
    }
}
