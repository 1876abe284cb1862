//! The door to nodes and guests, in process and through the dead switch.
//!
//! Who answers where, whose key logs in and which host keys are shown comes from the simulated cluster. What a command
//! does is told by a real shell in the machine's root directory ([`Far::Shell`]), or, twenty times as fast, by a reading
//! of the few scripts that there are against the guest's model ([`Far::Model`]); a test compares the two on every command
//! of a run.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use vmwright::guest::known_hosts;
use vmwright::guest::remote::{Command, HostKeys, Output, Remote, SshError};
use vmwright::machine::SshTarget;
use vmwright::simulator::Handle;
use vmwright::simulator::guest::keys;
use vmwright::simulator::shell::Machine;
use vmwright::simulator::ssh::{Doors, Refusal};

use crate::door::moment;
use crate::model;
use crate::switch::{Mishap, Switch};

/// Who runs commands on the far side.
#[derive(Clone)]
pub enum Far {
    /// The simulator's shell.
    Shell(Arc<Doors>),
    /// The model of the guest.
    Model,
    /// The shell, and the model must say the same.
    Both(Arc<Doors>, Arc<Mutex<Vec<String>>>),
}

/// The door.
pub struct Ssh {
    /// The cluster.
    pub cluster: Handle,
    /// The switch.
    pub switch: Switch,
    /// Who runs commands.
    pub far: Far,
    /// The control node's public key.
    pub key: String,
}

/// The port of every sshd.
pub const PORT: u16 = 2222;

fn refused(target: &SshTarget) -> SshError {
    SshError::NotReachable(format!(
        "connect to {} port {}: Connection refused",
        target.host, target.port
    ))
}

fn lost() -> SshError {
    SshError::Lost("Connection reset by peer".to_owned())
}

impl Ssh {
    /// The machine that answers, and the host keys that it shows.
    fn at(&self, target: &SshTarget) -> Result<(Machine, Vec<String>), SshError> {
        let address: IpAddr = target.host.parse().map_err(|_| refused(target))?;
        let text = address.to_string();
        let now = self.cluster.now_ms();
        self.cluster.look(|world| {
            if target.port != PORT {
                return Err(refused(target));
            }
            if let Some((name, _)) = world.nodes.iter().find(|(_, node)| node.online && node.ip == text) {
                return Ok((Machine::Node(name.clone()), Doors::node_host_keys(name)));
            }
            let answers = |vm: &&vmwright::simulator::vm::Vm| {
                vm.is_running() && vm.guest.ssh_answers(now) && vm.guest.has_address(now, &text)
            };
            let vm = world.vms.values().find(answers).ok_or_else(|| refused(target))?;
            let mut shown: Vec<String> = vm.guest.host_keys().iter().map(keys::public_line).collect();
            shown.sort();
            Ok((Machine::Guest(vm.vmid), shown))
        })
    }

    /// Compares what the machine shows with what is known, as `ssh` does.
    fn check(target: &SshTarget, keys: &HostKeys, shown: &[String]) -> Result<(), SshError> {
        let unknown = |changed| {
            Err(SshError::HostKey {
                text: "Host key verification failed.".to_owned(),
                changed,
            })
        };
        let read = |file: &std::path::Path, name: &str| {
            known_hosts::read(file, name).map_err(|error| SshError::Setup(error.to_string()))
        };
        match keys {
            HostKeys::Known(known) if known.iter().any(|key| shown.contains(key)) => Ok(()),
            HostKeys::Known(_) => unknown(true),
            HostKeys::File(file) => {
                let mut known = read(file, &target.alias)?;
                if known.is_empty() {
                    known = read(file, &format!("[{}]:{}", target.host, target.port))?;
                }
                match known.iter().any(|key| shown.contains(key)) {
                    true => Ok(()),
                    false => unknown(!known.is_empty()),
                }
            }
            HostKeys::LearnInto(file) => {
                let known = read(file, &target.alias)?;
                if known.iter().any(|key| shown.contains(key)) {
                    return Ok(());
                }
                if !known.is_empty() {
                    return unknown(true);
                }
                // accept-new keeps the key of this connection, one of them.
                let first = shown
                    .iter()
                    .find(|key| key.starts_with("ssh-ed25519"))
                    .or(shown.first());
                let line = format!("{} {}\n", target.alias, first.ok_or_else(|| refused(target))?);
                let written = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(file)
                    .and_then(|mut file| file.write_all(line.as_bytes()));
                written.map_err(|error| SshError::Setup(error.to_string()))
            }
        }
    }

    fn accepts(&self, machine: &Machine, user: &str) -> bool {
        match machine {
            Machine::Node(_) => user == "root",
            Machine::Guest(vmid) => self.cluster.look(|world| {
                let vm = world.vms.get(vmid);
                vm.is_some_and(|vm| vm.guest.accepts(user, &self.key))
            }),
        }
    }

    async fn execute(
        &self,
        machine: &Machine,
        target: &SshTarget,
        command: &Command,
        stdin: &[u8],
    ) -> Result<Output, SshError> {
        match &self.far {
            Far::Model => Ok(model::run(&self.cluster, machine, &target.user, command, stdin)),
            Far::Shell(doors) => shell(doors, target, &self.key, command, stdin).await,
            Far::Both(doors, differences) => {
                // The model answers first, and only looks: the shell's effect is the one that counts.
                let guessed = model::look(&self.cluster, machine, &target.user, command, stdin);
                let real = shell(doors, target, &self.key, command, stdin).await?;
                if guessed.code != real.code || guessed.stdout != real.stdout {
                    differences.lock().unwrap().push(format!(
                        "{}\nshell: {:?} {}\nmodel: {:?} {}",
                        command.script,
                        real.code,
                        String::from_utf8_lossy(&real.stdout),
                        guessed.code,
                        String::from_utf8_lossy(&guessed.stdout)
                    ));
                }
                Ok(real)
            }
        }
    }
}

/// A command's script without the waits on the far side: time there is the cluster's, and it is paused.
fn without_waits(script: &str) -> String {
    script.replace("\nn=3\n", "\nn=0\n")
}

/// Runs a command in the simulator's shell. The paused clock must not run on while the shell works, and it does not while
/// a blocking task is under way.
async fn shell(
    doors: &Doors,
    target: &SshTarget,
    key: &str,
    command: &Command,
    stdin: &[u8],
) -> Result<Output, SshError> {
    let address: SocketAddr = format!("{}:{}", target.host, target.port)
        .parse()
        .map_err(|_| refused(target))?;
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let held = tokio::task::spawn_blocking(move || {
        let _ = wait.recv();
    });
    let quoted = without_waits(&command.script).replace('\'', r"'\''");
    let sudo = if command.sudo && target.user != "root" {
        "sudo -n "
    } else {
        ""
    };
    let line = format!("{sudo}sh -c '{quoted}'");
    let answer = doors
        .exec(address.ip(), address.port(), &target.user, key, &line, stdin)
        .await;
    drop(done);
    let _ = held.await;
    match answer {
        Ok(output) => Ok(Output {
            code: output.code,
            stdout: output.stdout,
            stderr: output.stderr,
        }),
        Err(Refusal::NotReachable(_)) => Err(refused(target)),
        Err(Refusal::Denied) => Err(SshError::Denied("Permission denied (publickey).".to_owned())),
        Err(Refusal::Lost) => Err(lost()),
    }
}

/// What a command is called at the switch.
fn name(target: &SshTarget, command: &Command) -> String {
    let mut lines = command.script.lines().filter(|line| !line.starts_with("echo vmwright"));
    let first: String = lines.next().unwrap_or_default().chars().take(60).collect();
    let kind = match &command.stdin {
        Some(_) => "write",
        None => "run",
    };
    format!("ssh {} {kind} {first}", target.alias)
}

impl Remote for Ssh {
    fn run<'a>(
        &'a self,
        target: &'a SshTarget,
        keys: &'a HostKeys,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(async move {
            let what = name(target, command);
            let mishap = self.switch.before(&what).await;
            match mishap {
                Some(Mishap::CutBefore) => return Err(lost()),
                Some(Mishap::NotSent) => return Err(refused(target)),
                Some(Mishap::CutAfter) | None => {}
            }
            moment().await;
            let (machine, shown) = self.at(target)?;
            Self::check(target, keys, &shown)?;
            if !self.accepts(&machine, &target.user) {
                return Err(SshError::Denied("Permission denied (publickey).".to_owned()));
            }
            let stdin = command.stdin.as_deref().unwrap_or_default();
            if command.stdin.is_some() && self.switch.torn(&what) {
                // The far side reads to the end of what came, and goes on: nobody tells it that there was more.
                let _ = self.execute(&machine, target, command, &stdin[..stdin.len() / 2]).await;
                return self.switch.hang().await;
            }
            let output = self.execute(&machine, target, command, stdin).await;
            self.switch.after(&what).await;
            match mishap {
                Some(Mishap::CutAfter) => Err(lost()),
                Some(Mishap::CutBefore | Mishap::NotSent) | None => output,
            }
        })
    }

    fn answers<'a>(&'a self, target: &'a SshTarget, _within: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            moment().await;
            self.at(target).is_ok()
        })
    }

    fn forget(&self, _target: &SshTarget) {}

    fn scan<'a>(&'a self, target: &'a SshTarget) -> BoxFuture<'a, Result<Vec<String>, SshError>> {
        Box::pin(async move {
            let what = format!("ssh-keyscan {}", target.alias);
            if self.switch.before(&what).await.is_some() {
                return Err(refused(target));
            }
            moment().await;
            let (_, shown) = self.at(target)?;
            self.switch.after(&what).await;
            Ok(shown)
        })
    }
}
