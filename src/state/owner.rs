//! Who holds a lock, and whether that holder is proven dead: facts in, verdict out, nothing touched.
//!
//! A lock may be taken over only on proof. The proof is that this kernel says nobody holds the OS lock any more *and* the
//! owner file agrees: the process is gone, its pid belongs to a later process, or its boot is over. Where one of the two
//! cannot be had (another host, an unreadable file, a filesystem that other hosts share), a person decides.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::filesystem::Filesystem;
use super::identity::{Identity, Process};

/// The holder of a lock, as it wrote itself into `owner.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The id of this run of this VM. A lock is ours as long as this is in it.
    pub operation: Uuid,
    /// What it does, for people: the verb and the host. Never the arguments as typed, they may hold secrets.
    pub command: String,
    /// Its process id.
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub process_start: u64,
    /// Its host's name.
    pub host: String,
    /// A digest of its machine's id; empty where the machine has none.
    pub machine: String,
    /// The kernel's id of the boot.
    pub boot_id: String,
    /// Its user.
    pub user: String,
    /// Since when.
    pub since: Timestamp,
}

impl Owner {
    /// This process as the owner of a lock.
    pub fn new(operation: Uuid, command: impl Into<String>, identity: &Identity) -> Self {
        Self {
            operation,
            command: command.into(),
            pid: identity.pid,
            process_start: identity.process_start,
            host: identity.host.clone(),
            machine: identity.machine.clone(),
            boot_id: identity.boot_id.clone(),
            user: identity.user.clone(),
            since: Timestamp::now(),
        }
    }
}

/// What the owner file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerFile {
    /// There is none.
    Missing,
    /// There is one that cannot be read, and why.
    Unreadable(String),
    /// The owner.
    Read(Box<Owner>),
}

/// Everything that the verdict is made of.
#[derive(Clone, Debug)]
pub struct Evidence<'e> {
    /// Where the lock is.
    pub filesystem: Filesystem,
    /// Whether somebody on this kernel holds the OS lock. Without meaning on a shared filesystem.
    pub os_lock_held: bool,
    /// The owner file.
    pub owner: &'e OwnerFile,
    /// Who asks.
    pub us: &'e Identity,
    /// What this host shows under the owner's pid.
    pub process: Process,
}

/// Whether the holder is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds the OS lock: it lives.
    Alive,
    /// It is proven dead.
    Dead(Proof),
    /// Neither is proven.
    Unproven(Doubt),
}

/// What proves a holder dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It died between making the lock and writing its name: the OS lock, which it took before, is free.
    DiedWhileLocking,
    /// It ran in an earlier boot of this host.
    EarlierBoot,
    /// No process has its pid.
    ProcessGone,
    /// Another process, that started at another time, has its pid.
    PidReused,
    /// It was an earlier part of this very process, which has let go of the OS lock.
    ThisProcess,
}

/// Why nothing is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Other hosts may have the directory mounted, on a filesystem of this type.
    SharedFilesystem(&'static str),
    /// The owner file is unreadable, or missing where only it could prove anything.
    NoOwner(String),
    /// The holder is on another host.
    OtherHost(String),
    /// The kernel tells no boot id, then or now.
    NoBootId,
    /// The process is there but does not hold the OS lock.
    ProcessThere(u32),
    /// This host does not tell whether the process is there.
    ProcessUnknown(u32),
}

/// Decides.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    if let Filesystem::Shared(name) = evidence.filesystem {
        return Verdict::Unproven(Doubt::SharedFilesystem(name));
    }
    if evidence.os_lock_held {
        return Verdict::Alive;
    }
    let owner = match evidence.owner {
        OwnerFile::Missing => return Verdict::Dead(Proof::DiedWhileLocking),
        OwnerFile::Unreadable(why) => return Verdict::Unproven(Doubt::NoOwner(why.clone())),
        OwnerFile::Read(owner) => owner,
    };
    let us = evidence.us;
    if owner.host != us.host || owner.machine != us.machine {
        return Verdict::Unproven(Doubt::OtherHost(owner.host.clone()));
    }
    if owner.boot_id.is_empty() || us.boot_id.is_empty() {
        return Verdict::Unproven(Doubt::NoBootId);
    }
    if owner.boot_id != us.boot_id {
        return Verdict::Dead(Proof::EarlierBoot);
    }
    match evidence.process {
        Process::Gone => Verdict::Dead(Proof::ProcessGone),
        Process::Started(start) if start != owner.process_start => Verdict::Dead(Proof::PidReused),
        Process::Started(start) if owner.pid == us.pid && start == us.process_start => {
            Verdict::Dead(Proof::ThisProcess)
        }
        Process::Started(_) => Verdict::Unproven(Doubt::ProcessThere(owner.pid)),
        Process::Unknown => Verdict::Unproven(Doubt::ProcessUnknown(owner.pid)),
    }
}

impl Verdict {
    /// Why the lock is not taken over, as a sentence without full stop; for a dead holder, why it may be.
    pub fn reason(&self) -> String {
        match self {
            Self::Alive => "its holder is running".to_owned(),
            Self::Dead(proof) => match proof {
                Proof::DiedWhileLocking => "its holder died while taking it".to_owned(),
                Proof::EarlierBoot => "its holder ran before this host was restarted".to_owned(),
                Proof::ProcessGone => "its holder's process is gone".to_owned(),
                Proof::PidReused => "its holder's process is gone, another one has its pid now".to_owned(),
                Proof::ThisProcess => "it was left by an earlier part of this process".to_owned(),
            },
            Self::Unproven(doubt) => match doubt {
                Doubt::SharedFilesystem(name) => {
                    format!(
                        "the state directory is on a shared filesystem ({name}), where nothing proves its holder dead"
                    )
                }
                Doubt::NoOwner(why) => format!("its owner file is unreadable: {why}"),
                Doubt::OtherHost(host) => {
                    format!("its holder ran on another host, {host}, which cannot be asked from here")
                }
                Doubt::NoBootId => "the kernel tells no boot id, so nothing proves its holder dead".to_owned(),
                Doubt::ProcessThere(pid) => format!("process {pid} is running, though it holds no OS lock"),
                Doubt::ProcessUnknown(pid) => format!("this host does not tell whether process {pid} is running"),
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::identity::Processes;
    use super::*;

    /// A made-up process on a made-up host.
    pub(in crate::state) fn somebody(host: &str, boot_id: &str, pid: u32, process_start: u64) -> Identity {
        Identity {
            host: host.to_owned(),
            machine: format!("machine of {host}"),
            boot_id: boot_id.to_owned(),
            pid,
            process_start,
            user: "bob".to_owned(),
            uid: rustix::process::geteuid().as_raw(),
            processes: Processes::Fixed(BTreeMap::from([(pid, process_start)])),
        }
    }

    fn verdict(holder: &Identity, os_lock_held: bool, process: Process) -> Verdict {
        judge(&Evidence {
            filesystem: Filesystem::Local,
            os_lock_held,
            owner: &OwnerFile::Read(Box::new(Owner::new(Uuid::from_u128(1), "provision web-0", holder))),
            us: &somebody("ctl", "boot-2", 500, 9000),
            process,
        })
    }

    #[test]
    fn each_case_is_decided() {
        let same_boot = somebody("ctl", "boot-2", 77, 100);
        let cases = [
            (verdict(&same_boot, true, Process::Started(100)), Verdict::Alive),
            (verdict(&same_boot, true, Process::Gone), Verdict::Alive),
            (
                verdict(&same_boot, false, Process::Gone),
                Verdict::Dead(Proof::ProcessGone),
            ),
            (
                verdict(&same_boot, false, Process::Started(101)),
                Verdict::Dead(Proof::PidReused),
            ),
            (
                verdict(&same_boot, false, Process::Started(100)),
                Verdict::Unproven(Doubt::ProcessThere(77)),
            ),
            (
                verdict(&same_boot, false, Process::Unknown),
                Verdict::Unproven(Doubt::ProcessUnknown(77)),
            ),
            (
                verdict(&somebody("ctl", "boot-2", 500, 9000), false, Process::Started(9000)),
                Verdict::Dead(Proof::ThisProcess),
            ),
            (
                verdict(&somebody("ctl", "boot-1", 77, 100), false, Process::Started(100)),
                Verdict::Dead(Proof::EarlierBoot),
            ),
            (
                verdict(&somebody("ctl", "", 77, 100), false, Process::Gone),
                Verdict::Unproven(Doubt::NoBootId),
            ),
            (
                verdict(&somebody("laptop", "boot-1", 77, 100), false, Process::Gone),
                Verdict::Unproven(Doubt::OtherHost("laptop".to_owned())),
            ),
        ];
        for (index, (seen, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(seen, wanted, "case {index}");
        }
    }

    #[test]
    fn two_machines_of_one_name_are_two_hosts() {
        let mut holder = somebody("ctl", "boot-1", 77, 100);
        holder.machine = "another".to_owned();
        assert_eq!(
            verdict(&holder, false, Process::Gone),
            Verdict::Unproven(Doubt::OtherHost("ctl".to_owned()))
        );
    }

    #[test]
    fn a_missing_owner_is_a_death_and_an_unreadable_one_a_doubt() {
        let us = somebody("ctl", "boot-2", 500, 9000);
        let with = |owner: OwnerFile, filesystem, os_lock_held| {
            judge(&Evidence {
                filesystem,
                os_lock_held,
                owner: &owner,
                us: &us,
                process: Process::Gone,
            })
        };
        let nfs = Filesystem::Shared("NFS");
        assert_eq!(with(OwnerFile::Missing, Filesystem::Local, true), Verdict::Alive);
        assert_eq!(
            with(OwnerFile::Missing, Filesystem::Local, false),
            Verdict::Dead(Proof::DiedWhileLocking)
        );
        assert_eq!(
            with(OwnerFile::Missing, nfs, false),
            Verdict::Unproven(Doubt::SharedFilesystem("NFS"))
        );
        let bad = OwnerFile::Unreadable("EOF".to_owned());
        assert_eq!(
            with(bad, Filesystem::Local, false),
            Verdict::Unproven(Doubt::NoOwner("EOF".to_owned()))
        );
    }
}
