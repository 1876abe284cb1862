//! Who is running: the facts about this process by which a later one can prove that it is gone.
//!
//! A process is one (host, boot, pid, start time): pids are reused within a boot, and boots follow each other on a host.
//! All facts come from proc(5): `/proc/sys/kernel/random/boot_id`, `/proc/<pid>/stat` (field 3 the state, field 22 the
//! start time in clock ticks since boot), and from uname(2). Tests make up their own [`Identity`].

use std::collections::BTreeMap;
use std::fs;
use std::io;

use sha2::{Digest, Sha256};

/// This process, and how to ask about others.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The host's name.
    pub host: String,
    /// A digest of the machine id (machine-id(5) asks not to publish the id itself); empty where there is none.
    pub machine: String,
    /// The kernel's id of this boot; empty where there is none, and then nothing can be proven about another process.
    pub boot_id: String,
    /// Our process id.
    pub pid: u32,
    /// When we started, in clock ticks since boot.
    pub process_start: u64,
    /// The user's name, or the number.
    pub user: String,
    /// The effective user id: the owner that state files must have.
    pub uid: u32,
    /// How to look at other processes.
    pub processes: Processes,
}

/// How to look at processes of this host.
#[derive(Clone, Debug)]
pub enum Processes {
    /// `/proc`.
    Proc,
    /// A made-up list of pid and start time.
    Fixed(BTreeMap<u32, u64>),
}

/// What is seen of a process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// No process has it, or only its remains do (a zombie has closed all its files).
    Gone,
    /// A process that started then.
    Started(u64),
    /// It cannot be told.
    Unknown,
}

impl Identity {
    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        let uid = rustix::process::geteuid().as_raw();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let machine_id = read("/etc/machine-id");
        Self {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            machine: if machine_id.is_empty() {
                String::new()
            } else {
                machine_digest(&machine_id)
            },
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid,
            process_start: match Processes::Proc.look(pid) {
                Process::Started(at) => at,
                Process::Gone | Process::Unknown => 0,
            },
            user: user_name(&fs::read_to_string("/etc/passwd").unwrap_or_default(), uid)
                .unwrap_or_else(|| uid.to_string()),
            uid,
            processes: Processes::Proc,
        }
    }
}

impl Processes {
    /// What is seen of this pid now.
    pub fn look(&self, pid: u32) -> Process {
        match self {
            Self::Proc => match fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(text) => parse_stat(&text),
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && fs::exists("/proc/self/stat").unwrap_or(false) =>
                {
                    Process::Gone
                }
                // ESRCH: it ended between open and read.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Process::Gone,
                Err(_) => Process::Unknown,
            },
            Self::Fixed(known) => known.get(&pid).map_or(Process::Gone, |start| Process::Started(*start)),
        }
    }
}

/// Reads `/proc/<pid>/stat`. The second field is the command in parentheses and may hold anything, parentheses too.
fn parse_stat(text: &str) -> Process {
    let Some((_, rest)) = text.rsplit_once(')') else {
        return Process::Unknown;
    };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    match fields.first() {
        Some(&("Z" | "X" | "x")) => return Process::Gone,
        Some(_) => {}
        None => return Process::Unknown,
    }
    // Field 3 is the first here.
    fields
        .get(22 - 3)
        .and_then(|field| field.parse().ok())
        .map_or(Process::Unknown, Process::Started)
}

/// The first 32 hexadecimal digits of a digest that belongs to vmwright alone.
fn machine_digest(machine_id: &str) -> String {
    let digest = Sha256::digest(format!("vmwright machine {machine_id}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a user id in a passwd(5) file.
fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?;
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 115 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3\n";

    #[test]
    fn the_start_time_is_found_behind_any_command_name() {
        assert_eq!(parse_stat(STAT), Process::Started(98765));
        assert_eq!(parse_stat(&STAT.replace(") S ", ") Z ")), Process::Gone);
        assert_eq!(parse_stat("4242 (cut) S 1 2"), Process::Unknown);
        assert_eq!(parse_stat(""), Process::Unknown);
    }

    #[test]
    fn this_process_is_seen_and_a_reaped_child_is_not() {
        if !fs::exists("/proc/self/stat").unwrap() {
            eprintln!("SKIPPED: there is no /proc");
            return;
        }
        let me = Identity::current();
        assert_eq!(Processes::Proc.look(me.pid), Process::Started(me.process_start));
        assert!(me.process_start > 0 && !me.boot_id.is_empty() && !me.host.is_empty());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(Processes::Proc.look(pid), Process::Gone);
    }

    #[test]
    fn user_and_machine_have_names() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("bob"));
        assert_eq!(user_name(passwd, 7), None);
        assert_eq!(machine_digest("a").len(), 32);
        assert_ne!(machine_digest("a"), machine_digest("b"));
    }
}
