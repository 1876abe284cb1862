//! [`Remote`] by the system's `ssh`: one master connection per machine, kept and reused.
//!
//! ```text
//!   run ──> configuration (pure) ──> kept master alive? ──yes──────────────┐
//!                                         │ no                             v
//!                          TCP answers? (unless a jump or proxy)     command over the
//!                                         │ yes                      control socket
//!                                  ssh -M -f -N ──────────────────────────^
//! ```
//!
//! Everything lives in the run's private folder, removed at drop or, after a kill, by the next run. A master that nobody
//! uses ends after 60 s, also when this process was killed.
//!
//! Failures: before the command is sent, `ssh`'s words are classified (`ssh_stderr`); after it was sent, a broken
//! connection is [`SshError::Lost`] and a missing answer [`SshError::TimedOut`], and the master is dropped. Remote
//! commands run under `timeout`, so giving up here ends them there.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use openssh::Session;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::process;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout};

use super::known_hosts;
use super::probes::public_key;
use super::remote::{Command, HostKeys, Output, Remote, SshError};
use super::run_folder::RunFolder;
use super::ssh_config::{HostKeyLines, config};
use super::ssh_exec::{GRACE, execute, is_timeout, remote_line, whole_seconds};
use super::ssh_process::{LOGIN, bounded, is_direct, no_program, private_folder, quiet, setup, ssh};
use super::ssh_stderr::classify;
use crate::machine::SshTarget;

pub use super::ssh_config::UserConfig;

/// Commands at once over one connection; sshd allows ten (`MaxSessions`), and a node serves many hosts.
const AT_ONCE: usize = 8;

/// Settings of the client.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a TCP connection may take.
    pub connect_timeout: Duration,
    /// Whether the user's own `ssh` configuration counts.
    pub user_config: UserConfig,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            user_config: UserConfig::Include,
        }
    }
}

/// The client. Dropping it ends all connections and removes its folder.
pub struct OpenSsh {
    options: Options,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// What `ssh` says of the way to a target. The host keys that are asked for do not change the way.
    ways: Mutex<HashMap<SshTarget, bool>>,
    // Last, so that the masters are gone before their folder.
    home: RunFolder,
}

/// One way to reach one machine, and its master.
struct Slot {
    target: SshTarget,
    /// Where the key of a first contact is learned into.
    learned: Option<PathBuf>,
    config: PathBuf,
    direct: OnceCell<bool>,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    commands: Semaphore,
}

impl Slot {
    fn new(target: &SshTarget, keys: &HostKeys, config: PathBuf, session: Option<Arc<Session>>) -> Self {
        Self {
            target: target.clone(),
            learned: match keys {
                HostKeys::LearnInto(file) => Some(file.clone()),
                HostKeys::Known(_) | HostKeys::File(_) => None,
            },
            config,
            direct: OnceCell::new(),
            session: tokio::sync::Mutex::new(session),
            commands: Semaphore::new(AT_ONCE),
        }
    }
}

impl OpenSsh {
    /// A client with its own private folder.
    ///
    /// # Errors
    /// [`SshError::Setup`] if no such folder can be made.
    pub fn new(options: Options) -> Result<Self, SshError> {
        Ok(Self {
            options,
            slots: Mutex::default(),
            ways: Mutex::default(),
            home: RunFolder::new()?,
        })
    }

    /// The private folder, for what belongs to this run only.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The slot of a target with these keys; other connections to the target are dropped.
    fn slot(&self, target: &SshTarget, keys: &HostKeys) -> Result<Arc<Slot>, SshError> {
        let text = self.config_text(target, keys)?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&text) {
            return Ok(Arc::clone(slot));
        }
        let session = slots.values().find_map(|slot| handed_over(slot, target, keys));
        slots.retain(|_, slot| slot.target != *target);
        let slot = Arc::new(Slot::new(target, keys, self.file("c", text.as_bytes())?, session));
        slots.insert(text, Arc::clone(&slot));
        Ok(slot)
    }

    fn config_text(&self, target: &SshTarget, keys: &HostKeys) -> Result<String, SshError> {
        let file;
        let lines = match keys {
            HostKeys::Known(keys) => {
                let keys: Vec<String> = keys.iter().filter_map(|k| public_key(k)).collect();
                if keys.is_empty() {
                    return Err(SshError::Setup(format!("no host key of {} is known", target.alias)));
                }
                let text: String = keys.iter().map(|k| format!("{} {k}\n", target.alias)).collect();
                file = self.file("k", text.as_bytes())?;
                HostKeyLines {
                    file: &file,
                    by_alias: true,
                    accept_new: false,
                    only: true,
                }
            }
            HostKeys::File(path) => HostKeyLines {
                file: path,
                by_alias: !only_by_address(path, target)?,
                accept_new: false,
                only: false,
            },
            HostKeys::LearnInto(path) => HostKeyLines {
                file: path,
                by_alias: true,
                accept_new: true,
                only: true,
            },
        };
        let seconds = self.options.connect_timeout.as_secs().max(1);
        config(target, &lines, seconds, self.options.user_config)
    }

    /// A private file named after its content.
    fn file(&self, kind: &str, content: &[u8]) -> Result<PathBuf, SshError> {
        let digest = Sha256::digest(content);
        let hex: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let path = self.home.path().join(format!("{kind}-{hex}"));
        match fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(mut file) => io::Write::write_all(&mut file, content).map_err(|e| setup(&path, &e))?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(setup(&path, &e)),
        }
        Ok(path)
    }

    /// A master that answers, kept or new.
    async fn session(&self, slot: &Slot) -> Result<Arc<Session>, SshError> {
        let mut kept = slot.session.lock().await;
        if let Some(session) = kept.as_ref() {
            if session.check().await.is_ok() {
                return Ok(Arc::clone(session));
            }
            *kept = None;
        }
        if *slot.direct.get_or_try_init(|| self.is_direct(slot)).await? {
            self.knock(&slot.target).await?;
        }
        let session = Arc::new(self.master(slot).await?);
        *kept = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Whether no jump or proxy stands between; asked once a target.
    async fn is_direct(&self, slot: &Slot) -> Result<bool, SshError> {
        let known = self
            .ways
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&slot.target)
            .copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = is_direct(&slot.config, &slot.target.alias).await?;
        self.ways
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(slot.target.clone(), found);
        Ok(found)
    }

    /// Whether the port answers: costs no process while a machine boots.
    async fn knock(&self, target: &SshTarget) -> Result<(), SshError> {
        let place = format!("{} port {}", target.host, target.port);
        let connect = TcpStream::connect((target.host.as_str(), target.port));
        match timeout(self.options.connect_timeout, connect).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(SshError::NotReachable(format!("connect to {place}: {e}"))),
            Err(_) => Err(SshError::NotReachable(format!(
                "connect to {place}: no answer within {} s",
                self.options.connect_timeout.as_secs()
            ))),
        }
    }

    /// Starts a master; it goes to the background when the login is done.
    async fn master(&self, slot: &Slot) -> Result<Session, SshError> {
        let folder = private_folder("s-", self.home.path()).map_err(|e| setup(self.home.path(), &e))?;
        let log = folder.path().join("log");
        let stderr = fs::File::create(&log).map_err(|e| setup(&log, &e))?;
        let mut ssh = ssh(&slot.config);
        ssh.arg("-S")
            .arg(folder.path().join("master"))
            .args(["-M", "-f", "-N"])
            .arg(&slot.target.alias)
            .stderr(stderr);
        let limit = self.options.connect_timeout + LOGIN;
        let status = match timeout(limit, ssh.status()).await {
            Ok(status) => status.map_err(|e| no_program("ssh", &e))?,
            Err(_) => {
                return Err(SshError::NotReachable(format!(
                    "the login at {} did not end within {} s",
                    slot.target.host,
                    limit.as_secs()
                )));
            }
        };
        if status.success() {
            return Ok(Session::new_native_mux(folder));
        }
        let words = fs::read(&log).unwrap_or_default();
        match classify(&String::from_utf8_lossy(&words)) {
            SshError::NotReachable(text) if slot.direct.get() == Some(&false) => {
                Err(self.ask_the_jump(slot, text).await)
            }
            error => Err(error),
        }
    }

    /// Why there is no way through a jump or proxy: a master silences their standard error, a plain `ssh` does not.
    async fn ask_the_jump(&self, slot: &Slot, text: String) -> SshError {
        let mut ssh = ssh(&slot.config);
        ssh.args(["-S", "none", "-o", "ControlPersist=no"])
            .arg(&slot.target.alias)
            .arg("true")
            .stderr(Stdio::piped());
        match bounded("ssh", &mut ssh, self.options.connect_timeout + LOGIN).await {
            Ok(output) if !output.status.success() => on_the_way(classify(&String::from_utf8_lossy(&output.stderr))),
            Ok(_) => SshError::NotReachable(text),
            Err(error) => error,
        }
    }

    async fn run_command(&self, target: &SshTarget, keys: &HostKeys, command: &Command) -> Result<Output, SshError> {
        let slot = self.slot(target, keys)?;
        let _permit = slot
            .commands
            .acquire()
            .await
            .map_err(|e| SshError::Setup(e.to_string()))?;
        let session = self.session(&slot).await?;
        let began = Instant::now();
        let line = remote_line(&target.user, command);
        let result = match timeout(whole_seconds(command) + GRACE, execute(&session, &line, command)).await {
            Ok(Ok(output)) if is_timeout(&output, command, began.elapsed()) => {
                return Err(SshError::TimedOut(command.timeout));
            }
            Ok(result) => result,
            Err(_) => Err(SshError::TimedOut(command.timeout)),
        };
        if result.is_err() {
            let mut kept = slot.session.lock().await;
            if kept.as_ref().is_some_and(|k| Arc::ptr_eq(k, &session)) {
                *kept = None;
            }
        }
        result
    }

    /// One host key of each family, learnt by `ssh` itself on the way that it takes: through a jump or proxy.
    async fn scan_by_ssh(&self, target: &SshTarget) -> Result<Vec<String>, SshError> {
        let folder = private_folder("n-", self.home.path()).map_err(|e| setup(self.home.path(), &e))?;
        let mut found = Vec::new();
        let mut last = String::new();
        for (i, family) in [
            "ssh-ed25519",
            "ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521",
            "rsa-sha2-512,rsa-sha2-256",
        ]
        .into_iter()
        .enumerate()
        {
            let learnt = folder.path().join(format!("known-{i}"));
            let config = self.file(
                "c",
                self.config_text(target, &HostKeys::LearnInto(learnt.clone()))?
                    .as_bytes(),
            )?;
            let mut ssh = ssh(&config);
            ssh.args([
                "-S",
                "none",
                "-o",
                "PreferredAuthentications=none",
                "-o",
                "PubkeyAuthentication=no",
            ])
            .arg("-o")
            .arg(format!("HostKeyAlgorithms={family}"))
            .arg(&target.alias)
            .arg("true")
            .stderr(Stdio::piped());
            let output = bounded("ssh", &mut ssh, self.options.connect_timeout + LOGIN).await?;
            last = String::from_utf8_lossy(&output.stderr).into_owned();
            found.extend(known_hosts::lookup(
                &fs::read(&learnt).unwrap_or_default(),
                &target.alias,
            ));
        }
        if found.is_empty() {
            return Err(no_keys(target, &last));
        }
        Ok(found)
    }

    /// All host keys, by `ssh-keyscan`.
    async fn scan_directly(&self, target: &SshTarget) -> Result<Vec<String>, SshError> {
        self.knock(target).await?;
        let seconds = self.options.connect_timeout.as_secs().max(1);
        let mut keyscan = process::Command::new("ssh-keyscan");
        keyscan
            .arg("-T")
            .arg(seconds.to_string())
            .arg("-p")
            .arg(target.port.to_string())
            .arg(&target.host)
            .stderr(Stdio::piped());
        quiet(&mut keyscan);
        // It asks for one key after the other.
        let output = bounded("ssh-keyscan", &mut keyscan, self.options.connect_timeout * 6).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Vec<String> = text
            .lines()
            .filter(|l| !l.starts_with('#'))
            .filter_map(|l| public_key(l.split_once(' ')?.1))
            .collect();
        if found.is_empty() {
            let comments = |l: &&str| !l.starts_with('#');
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let words: Vec<&str> = stderr.lines().filter(comments).collect();
            return Err(no_keys(target, &words.join("; ")));
        }
        Ok(found)
    }
}

impl Remote for OpenSsh {
    fn run<'a>(
        &'a self,
        target: &'a SshTarget,
        keys: &'a HostKeys,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(self.run_command(target, keys, command))
    }

    fn answers<'a>(&'a self, target: &'a SshTarget, within: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let connect = TcpStream::connect((target.host.as_str(), target.port));
            matches!(timeout(within, connect).await, Ok(Ok(_)))
        })
    }

    fn forget(&self, target: &SshTarget) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| slot.target != *target);
    }

    fn scan<'a>(&'a self, target: &'a SshTarget) -> BoxFuture<'a, Result<Vec<String>, SshError>> {
        Box::pin(async move {
            let throwaway = HostKeys::LearnInto(self.home.path().join("scan"));
            let text = self.config_text(target, &throwaway)?;
            let slot = Slot::new(target, &throwaway, self.file("c", text.as_bytes())?, None);
            let mut found = match self.is_direct(&slot).await? {
                true => self.scan_directly(target).await?,
                false => self.scan_by_ssh(target).await?,
            };
            found.sort();
            found.dedup();
            Ok(found)
        })
    }
}

/// The connection of a first contact goes on once the host's keys are known, if every key that was learned is one of them:
/// it stands on such a key. A new connection is made with the known keys only.
fn handed_over(slot: &Slot, target: &SshTarget, keys: &HostKeys) -> Option<Arc<Session>> {
    let (HostKeys::Known(known), Some(file)) = (keys, &slot.learned) else {
        return None;
    };
    let learned = match slot.target == *target {
        true => known_hosts::read(file, &target.alias).ok()?,
        false => return None,
    };
    let known: Vec<String> = known.iter().filter_map(|key| public_key(key)).collect();
    let stands = !learned.is_empty() && learned.iter().all(|key| known.contains(key));
    stands.then(|| slot.session.try_lock().ok()?.clone())?
}

/// Whether the file knows the target by its address only, as plain `ssh` would have entered it.
fn only_by_address(path: &Path, target: &SshTarget) -> Result<bool, SshError> {
    let know = |name: &str| known_hosts::read(path, name).map(|keys| !keys.is_empty());
    let address = match target.port {
        22 => target.host.clone(),
        port => format!("[{}]:{port}", target.host),
    };
    let decide = || Ok::<_, known_hosts::KnownHostsError>(!know(&target.alias)? && know(&address)?);
    decide().map_err(|e| {
        let source = std::error::Error::source(&e)
            .map(|s| format!(": {s}"))
            .unwrap_or_default();
        SshError::Setup(format!("{e}{source}"))
    })
}

/// Says that it is about the jump host or proxy, not about the machine itself.
fn on_the_way(error: SshError) -> SshError {
    let on = |text: String| format!("on the way, at the jump host or proxy: {text}");
    match error {
        SshError::NotReachable(text) => SshError::NotReachable(on(text)),
        SshError::HostKey { text, changed } => SshError::HostKey {
            text: on(text),
            changed,
        },
        SshError::Denied(text) => SshError::Denied(on(text)),
        other @ (SshError::Lost(_) | SshError::TimedOut(_) | SshError::Setup(_)) => other,
    }
}

fn no_keys(target: &SshTarget, words: &str) -> SshError {
    let place = format!("{} port {}", target.host, target.port);
    match classify(words) {
        SshError::Setup(text) => SshError::Setup(text),
        _ if words.trim().is_empty() => SshError::NotReachable(format!("{place} shows no host key")),
        _ => SshError::NotReachable(format!(
            "{place} shows no host key: {}",
            words.trim().replace('\n', "; ")
        )),
    }
}
