//! Where a guest's name is published: address records in a DNS server.
//!
//! [`Provider`] is one of the four doors to the world. Its methods read, compare, and write only what differs:
//!
//! ```text
//!   add(name, address):   present            -> Unchanged
//!                         name elsewhere     -> Conflict, nothing written
//!                         absent             -> written, read back -> Added (and who else has the address)
//!   remove(name, address): absent            -> Absent
//!                          present           -> deleted, read back -> Removed
//! ```
//!
//! A name that points to another address is never overwritten: who wants that removes the old record first, knowingly.
//! This module never prints, and never puts a password into a URL or a log.

mod none;
pub mod pihole;

#[cfg(test)]
mod pihole_tests;

use std::net::IpAddr;

use futures_util::future::BoxFuture;

pub use none::NoDns;
pub use pihole::Pihole;

/// One address record: a fully qualified name and an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// Lower case, without a final dot.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

impl Record {
    /// A record; the name is brought into the form in which names are compared.
    pub fn new(name: &str, address: IpAddr) -> Self {
        Self {
            name: canonical(name),
            address,
        }
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {}", self.name, self.address)
    }
}

/// A name as names are compared: lower case, no final dot.
pub fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// What the server has about a record that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Exactly the record.
    pub present: bool,
    /// The same name on other addresses of the same family.
    pub same_name: Vec<Record>,
    /// The same address under other names.
    pub same_address: Vec<Record>,
}

impl Observation {
    /// Compares all records of a server with a wanted one.
    pub fn of(wanted: &Record, all: &[Record]) -> Self {
        let family = |r: &&Record| r.address.is_ipv4() == wanted.address.is_ipv4();
        Self {
            present: all.contains(wanted),
            same_name: all
                .iter()
                .filter(|r| r.name == wanted.name && r.address != wanted.address)
                .filter(family)
                .cloned()
                .collect(),
            same_address: all
                .iter()
                .filter(|r| r.address == wanted.address && r.name != wanted.name)
                .cloned()
                .collect(),
        }
    }
}

/// What `add` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The record was there already; nothing was written.
    Unchanged {
        /// The same address under other names.
        same_address: Vec<Record>,
    },
    /// The record was written, and read back.
    Added {
        /// The same address under other names, which are left alone.
        same_address: Vec<Record>,
    },
    /// The name points elsewhere; nothing was written.
    Conflict {
        /// Where it points.
        same_name: Vec<Record>,
    },
    /// This provider publishes nothing.
    NotPublished,
}

/// What `remove` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The record was not there.
    Absent,
    /// The record was deleted, and read back as gone.
    Removed,
    /// The record is part of an entry with further names, made by somebody else; nothing was written.
    Shared {
        /// The entry as the server has it.
        entry: String,
    },
    /// This provider publishes nothing.
    NotPublished,
}

/// Why the server could not be asked or changed. Texts never hold the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// No connection; nothing was sent.
    #[error("{server} is not reachable: {detail}")]
    Unreachable {
        /// Base URL.
        server: String,
        /// What happened.
        detail: String,
    },
    /// The login was refused.
    #[error("{server} refused the login: {detail}")]
    Denied {
        /// Base URL.
        server: String,
        /// What the server said.
        detail: String,
    },
    /// Too many sessions or logins; later it may work.
    #[error("{server} takes no further session: {detail}")]
    Busy {
        /// Base URL.
        server: String,
        /// What the server said.
        detail: String,
    },
    /// The server answered no; nothing was changed.
    #[error("{server} answered {status} to {action}: {detail}")]
    Refused {
        /// Base URL.
        server: String,
        /// What was asked.
        action: String,
        /// HTTP status.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// A change was sent and the answer is missing, or reading back did not show it: look again.
    #[error("{server}: whether {action} happened is not known: {detail}")]
    Unknown {
        /// Base URL.
        server: String,
        /// What was asked.
        action: String,
        /// What happened.
        detail: String,
    },
    /// The answer cannot be read: not the server that was expected?
    #[error("{server} gave an answer that is not Pi-hole's: {detail}")]
    Unreadable {
        /// Base URL.
        server: String,
        /// What was wrong.
        detail: String,
    },
}

/// THE DOOR to a DNS server.
pub trait Provider: Send + Sync {
    /// What messages call it: `Pi-hole at http://10.0.20.253`, `no DNS`.
    fn label(&self) -> String;

    /// The addresses of a name.
    ///
    /// # Errors
    /// [`DnsError`], as for all methods here.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Record>, DnsError>>;

    /// The names of an address.
    fn find_address(&self, address: IpAddr) -> BoxFuture<'_, Result<Vec<Record>, DnsError>>;

    /// What the server has about a record, without changing anything.
    fn observe<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Observation, DnsError>>;

    /// Publishes a record unless its name points elsewhere.
    fn add<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Added, DnsError>>;

    /// Takes back exactly this record.
    fn remove<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Removed, DnsError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, address: &str) -> Record {
        Record::new(name, address.parse().expect("an address"))
    }

    #[test]
    fn an_observation_tells_the_three_cases_apart() {
        let all = [
            record("web1.lan", "10.0.0.5"),
            record("WEB1.lan.", "10.0.0.6"),
            record("other.lan", "10.0.0.5"),
            record("web1.lan", "2001:db8::5"),
        ];
        let seen = Observation::of(&record("web1.lan", "10.0.0.5"), &all);
        assert!(seen.present);
        assert_eq!(
            seen.same_name,
            [record("web1.lan", "10.0.0.6")],
            "an address of the other family is no conflict"
        );
        assert_eq!(seen.same_address, [record("other.lan", "10.0.0.5")]);
        assert_eq!(
            Observation::of(&record("new.lan", "10.0.0.9"), &all),
            Observation::default()
        );
    }
}
