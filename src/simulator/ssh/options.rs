//! What the doors are given: the world they serve, how they are opened, the faults they play.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::super::clock::{Clock, Durations};
use super::super::guest::Guest;
use super::super::shell::Machine;

/// What the doors need of the world.
pub trait Machines: Send + Sync + 'static {
    /// The world's clock.
    fn clock(&self) -> Clock;
    /// How long things take.
    fn durations(&self) -> Durations;
    /// A number that changes when anything in the world may have changed.
    fn changes(&self) -> watch::Receiver<u64>;
    /// When something happens by itself next, anywhere in the world: the doors then look at the guests again. Without
    /// more knowledge, the guests' own next event; a world with tasks says theirs too.
    fn next_event(&self) -> Option<u64> {
        let mut next: Option<u64> = None;
        self.each_guest(&mut |_, guest| next = [next, guest.next_event()].into_iter().flatten().min());
        next
    }
    /// Every guest, advanced to now. Looking is no change (the doors look after each change), but what time brought to a
    /// guest on this occasion is one: it must be told through [`Machines::changes`], or the doors miss it.
    fn each_guest(&self, look: &mut dyn FnMut(u32, &mut Guest));
    /// One guest, advanced to now, to be changed; the world notices. False when there is none.
    fn change_guest(&self, vmid: u32, change: &mut dyn FnMut(&mut Guest)) -> bool;
    /// Whether a node answers; its sshd does so with it.
    fn node_online(&self, _name: &str) -> bool {
        true
    }
    /// Something that a person should read.
    fn warn(&self, text: String);
}

/// The door of a node.
#[derive(Clone, Debug)]
pub struct NodeDoor {
    /// The node.
    pub name: String,
    /// Where its sshd listens.
    pub address: SocketAddr,
    /// Its root directory.
    pub root: PathBuf,
    /// Lines of root's authorized_keys; `root/.ssh/authorized_keys` below its root directory counts too.
    pub authorized_keys: Vec<String>,
}

/// How the doors are opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the doors keep what they need: shims, a pipe.
    pub dir: PathBuf,
    /// Below it stands the root directory of each guest, named by its vmid.
    pub guest_roots: PathBuf,
    /// The port of every guest's sshd.
    pub guest_port: u16,
    /// Whether sockets are opened; without, only `Doors::exec` reaches machines.
    pub tcp: bool,
    /// The nodes.
    pub nodes: Vec<NodeDoor>,
}

impl Options {
    /// The usual places below a world's directory, guests on port 2222, no node.
    pub fn below(dir: &Path) -> Self {
        Self {
            dir: dir.join("doors"),
            guest_roots: dir.join("guests"),
            guest_port: 2222,
            tcp: true,
            nodes: Vec::new(),
        }
    }
}

/// What a fault does to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SshEffect {
    /// The connection is lost before the command runs.
    DropBefore,
    /// The command runs to its end, then the connection is lost.
    DropAfter,
    /// Every login is refused.
    RefuseLogin,
    /// Nothing listens. Counts nothing: it holds as long as the fault is set.
    RefuseConnection,
    /// The command does not run but answers this.
    Answer {
        /// Exit code.
        code: i32,
        /// Standard error.
        stderr: String,
    },
    /// The command runs so many milliseconds later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
}

/// A scripted fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshFault {
    /// Where; none: everywhere.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// Only commands with this text.
    #[serde(default)]
    pub containing: Option<String>,
    /// So many fitting commands (or logins) pass first.
    #[serde(default)]
    pub skip: u32,
    /// It happens so often; none: always.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens.
    pub effect: SshEffect,
}

/// Why a command in process was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing answers at that address and port.
    #[error("nothing answers at {0}")]
    NotReachable(String),
    /// The key is not the user's.
    #[error("permission denied (publickey)")]
    Denied,
    /// The connection was lost; the command may have run.
    #[error("the connection was lost")]
    Lost,
}

/// What a command gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// A log entry: a session's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Where.
    pub machine: Machine,
    /// As whom.
    pub user: String,
    /// The text as it was sent.
    pub command: String,
}
