//! DNS: the guest's name points at its addresses. Read, compare, write only what differs.
//!
//! The same name on another address is refused, never overwritten: it may be somebody else's. The same address under
//! another name is told.

use std::net::IpAddr;

use crate::diagnose::{Diagnostic, Exit};
use crate::dns::{Added, DnsError, Observation, Record};
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::machine::{Dns as DnsChoice, Machine};
use crate::stage::readiness::Ready;

/// The guest's name is published, or it is not to be.
#[derive(Clone, Debug)]
pub struct Named {
    detail: String,
}

/// The stage.
pub struct Dns<'r> {
    /// Everything that creation needs is there.
    pub ready: &'r Ready,
}

impl Stage for Dns<'_> {
    const NAME: StageName = StageName::Dns;
    type Evidence = Named;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Named>, Failure> {
        if matches!(run.machine.dns, DnsChoice::None) {
            return Ok(Seen::Done(Named {
                detail: "not published (vms_dns: none)".to_owned(),
            }));
        }
        let mut missing = Vec::new();
        let records = records(&run.machine);
        for record in &records {
            let seen = run.dns.observe(record).await.map_err(|error| explain(&error))?;
            if !seen.same_name.is_empty() {
                return Ok(Seen::Foreign(Box::new(conflict(
                    record,
                    &seen.same_name,
                    &run.dns.label(),
                ))));
            }
            if !seen.present {
                missing.push(Change::new("DNS record", record.to_string()));
            }
            self.tell_same_address(run, record, &seen);
        }
        if records.is_empty() {
            return Ok(Seen::Done(Named {
                detail: "nothing to publish: no static address".to_owned(),
            }));
        }
        if missing.is_empty() {
            let listed: Vec<String> = records.iter().map(ToString::to_string).collect();
            return Ok(Seen::Done(Named {
                detail: listed.join(", "),
            }));
        }
        Ok(Seen::Absent(missing))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        for record in records(&run.machine) {
            match run.dns.add(&record).await.map_err(|error| explain(&error))? {
                Added::Unchanged { .. } | Added::Added { .. } | Added::NotPublished => {}
                Added::Conflict { same_name } => {
                    return Err(Failure::new(conflict(&record, &same_name, &run.dns.label())));
                }
            }
        }
        Ok(())
    }

    fn assume(&self, _run: &HostRun) -> Option<Named> {
        Some(Named {
            detail: "would be published".to_owned(),
        })
    }

    fn tell(&self, named: &Named) -> String {
        named.detail.clone()
    }
}

impl Dns<'_> {
    fn tell_same_address(&self, run: &HostRun, record: &Record, seen: &Observation) {
        // Told once, before the record is there; a finished record is not commented on again.
        if seen.present || seen.same_address.is_empty() {
            return;
        }
        let names: Vec<&str> = seen.same_address.iter().map(|other| other.name.as_str()).collect();
        run.warn(
            &Diagnostic::warning(
                "dns/same-address",
                format!("{} has the address {} too", names.join(", "), record.address),
            )
            .rule("an address usually belongs to one name; the other entry was left alone")
            .help("remove the old entry if that machine is gone"),
        );
    }
}

/// The records that the guest is to have: its FQDN on the first static address of each family. A name with two addresses
/// of one family cannot be told from a name that points elsewhere.
pub fn records(machine: &Machine) -> Vec<Record> {
    let Some(primary) = machine.network.interfaces.first() else {
        return Vec::new();
    };
    let addresses = || primary.addresses.iter().map(|cidr| cidr.address);
    [addresses().find(IpAddr::is_ipv4), addresses().find(IpAddr::is_ipv6)]
        .into_iter()
        .flatten()
        .map(|address| Record::new(&machine.guest.fqdn, address))
        .collect()
}

fn conflict(record: &Record, same_name: &[Record], server: &str) -> Diagnostic {
    let others: Vec<String> = same_name.iter().map(|other| other.address.to_string()).collect();
    Diagnostic::error(
        "dns/conflict",
        format!(
            "{} already points to {} in {server}, not to {}",
            record.name,
            others.join(", "),
            record.address
        ),
    )
    .rule("a name that points elsewhere is never overwritten: it may be another machine's")
    .help("if the old record is stale, remove it there, then run the same command again")
    .exit(Exit::Refused)
}

/// What to tell about the DNS server.
pub(super) fn explain(error: &DnsError) -> Failure {
    let (code, retry, help) = match error {
        // No connection came about, or only a question or the login got no answer: no record was changed.
        DnsError::Unreachable { .. } => (
            "dns/unreachable",
            Retry::NotExecuted,
            "check pihole_api_host and that the server runs",
        ),
        DnsError::Denied { .. } => (
            "dns/denied",
            Retry::No,
            "check pihole_password (a Pi-hole application password works too)",
        ),
        DnsError::Busy { .. } => (
            "dns/busy",
            Retry::NotExecuted,
            "too many API sessions are open there; they end by themselves",
        ),
        DnsError::Refused { .. } => ("dns/refused", Retry::No, "the server's own words say why"),
        DnsError::Unknown { .. } => (
            "dns/unknown-outcome",
            Retry::Doubt,
            "run the same command again: it looks before it writes",
        ),
        DnsError::Unreadable { .. } => ("dns/unreadable", Retry::No, "is this a Pi-hole of version 6 or later?"),
    };
    Failure::new(
        Diagnostic::error(code, error.to_string())
            .help(help)
            .exit(Exit::HostFailed),
    )
    .retry(retry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_certainly_not_executed_is_tried_again() {
        let (server, detail) = (|| "http://dns".to_owned(), || "why".to_owned());
        let action = || "adding a record".to_owned();
        let table = [
            (
                DnsError::Unreachable {
                    server: server(),
                    detail: detail(),
                },
                Retry::NotExecuted,
            ),
            (
                DnsError::Busy {
                    server: server(),
                    detail: detail(),
                },
                Retry::NotExecuted,
            ),
            (
                DnsError::Unknown {
                    server: server(),
                    action: action(),
                    detail: detail(),
                },
                Retry::Doubt,
            ),
            (
                DnsError::Denied {
                    server: server(),
                    detail: detail(),
                },
                Retry::No,
            ),
            (
                DnsError::Refused {
                    server: server(),
                    action: action(),
                    status: 400,
                    detail: detail(),
                },
                Retry::No,
            ),
            (
                DnsError::Unreadable {
                    server: server(),
                    detail: detail(),
                },
                Retry::No,
            ),
        ];
        for (error, want) in table {
            assert_eq!(explain(&error).retry, want, "{error}");
        }
    }
}
