//! The SSH doors: one server for each address at which a guest answers, and one for each node.
//!
//! ```text
//!   world changes --+
//!   next event    --+--> reconcile: files of guests, doors opened and closed, sessions of an ended boot cut
//!   fault set     --+
//!   client --TCP--> russh (server) --\
//!   tests --in process (Doors::exec)---> run: sh -c in the machine's root --pipe--> reboot, poweroff --> world
//! ```
//!
//! A guest's door is open from the moment its sshd answers until it goes down: before and after, its address refuses
//! connections, and what ran is killed. Addresses come from the network-config that the guest really read, so they must be
//! loopback addresses to be bound; one that cannot be bound is a warning of the world. Without any change nothing runs.

mod options;
mod reconcile;
mod run;
mod server;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::options::{LoggedCommand, Machines, NodeDoor, Options, Output, Refusal, SshEffect, SshFault};
use self::reconcile::Listeners;
use super::guest::{Guest, keys};
use super::shell::{Login, Machine, Request, Shell};

/// The open doors. Dropping it closes them.
#[derive(Debug)]
pub struct Doors {
    inner: Arc<Inner>,
    main: Option<JoinHandle<()>>,
    pipe: JoinHandle<()>,
}

struct Inner {
    world: Arc<dyn Machines>,
    shell: Shell,
    options: Options,
    faults: Mutex<Vec<SshFault>>,
    log: Mutex<Vec<LoggedCommand>>,
    lives: Mutex<HashMap<Machine, (u32, CancellationToken)>>,
    /// The guests whose root directories stand there.
    roots: Mutex<BTreeSet<u32>>,
    open: watch::Sender<Vec<SocketAddr>>,
    wake: Notify,
    stop: CancellationToken,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Locks that cannot stay poisoned: the data behind them is valid at each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the doors of a world. Must be called inside a tokio runtime.
///
/// # Errors
/// The directories cannot be written, or a node's address cannot be bound.
pub async fn start(world: Arc<dyn Machines>, options: Options) -> std::io::Result<Doors> {
    let shell = Shell::new(&options.dir)?;
    std::fs::create_dir_all(&options.guest_roots)?;
    for node in &options.nodes {
        for dir in [
            "root",
            "etc",
            "tmp",
            "run",
            "var/lib/vz/snippets",
            "proc/sys/kernel/random",
            ".sim",
        ] {
            std::fs::create_dir_all(node.root.join(dir))?;
        }
        std::fs::write(node.root.join("proc/sys/kernel/hostname"), format!("{}\n", node.name))?;
        std::fs::write(node.root.join("etc/hostname"), format!("{}\n", node.name))?;
        std::fs::write(node.root.join(".sim/fqdn"), format!("{}\n", node.name))?;
        std::fs::write(
            node.root.join("proc/sys/kernel/random/boot_id"),
            format!("{}\n", uuid::Uuid::new_v4()),
        )?;
    }
    let pipe = tokio::net::unix::pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(shell.pipe())?;
    let inner = Arc::new(Inner {
        world,
        shell,
        options,
        faults: Mutex::default(),
        log: Mutex::default(),
        lives: Mutex::default(),
        roots: Mutex::default(),
        open: watch::channel(Vec::new()).0,
        wake: Notify::new(),
        stop: CancellationToken::new(),
    });
    let mut changes = inner.world.changes();
    let mut listeners = Listeners::new();
    changes.borrow_and_update();
    inner.reconcile(&mut listeners).await;
    let nodes_bound = |node: &NodeDoor| listeners.contains_key(&(Machine::Node(node.name.clone()), node.address));
    if let Some(node) = inner
        .options
        .nodes
        .iter()
        .find(|node| inner.options.tcp && inner.world.node_online(&node.name) && !nodes_bound(node))
    {
        return Err(std::io::Error::other(format!(
            "cannot listen on {} for node {}",
            node.address, node.name
        )));
    }
    let main = tokio::spawn(Arc::clone(&inner).keep(listeners, changes));
    let pipe = tokio::spawn(Arc::clone(&inner).requests(pipe));
    Ok(Doors {
        inner,
        main: Some(main),
        pipe,
    })
}

impl Doors {
    /// Replaces the scripted faults.
    pub fn set_faults(&self, faults: Vec<SshFault>) {
        *lock(&self.inner.faults) = faults;
        self.inner.wake.notify_one();
    }

    /// The commands of all sessions so far, in the order they came.
    pub fn log(&self) -> Vec<LoggedCommand> {
        lock(&self.inner.log).clone()
    }

    /// The sockets that are open; a receiver to wait for a door without polling.
    pub fn open(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.inner.open.subscribe()
    }

    /// The public host keys (`type base64`) of a node.
    pub fn node_host_keys(name: &str) -> Vec<String> {
        node_keys(name).iter().map(keys::public_line).collect()
    }

    /// Brings files and doors up to date with the world, now.
    pub fn refresh(&self) {
        self.inner.sync_all();
        self.inner.wake.notify_one();
    }

    /// The host keys that the machine at an address shows.
    ///
    /// # Errors
    /// Nothing answers there.
    pub fn host_keys(&self, address: IpAddr, port: u16) -> Result<Vec<String>, Refusal> {
        let (machine, _) = self.inner.at(address, port)?;
        Ok(self.inner.keys_of(&machine).iter().map(keys::public_line).collect())
    }

    /// Runs a command as a client with the given public key (`type base64`) would, without a socket.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn exec(
        &self,
        address: IpAddr,
        port: u16,
        user: &str,
        public_key: &str,
        command: &str,
        stdin: &[u8],
    ) -> Result<Output, Refusal> {
        let (machine, boot) = self.inner.at(address, port)?;
        if !self.inner.accepts(&machine, user, public_key) {
            return Err(Refusal::Denied);
        }
        run::in_process(&self.inner, &machine, boot, user, command, stdin).await
    }

    /// Closes everything; sessions are cut.
    pub async fn stop(mut self) {
        self.inner.stop.cancel();
        if let Some(main) = self.main.take() {
            // It ends by itself; a panic in it was printed where it happened.
            let _joined = main.await;
        }
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.inner.stop.cancel();
        self.pipe.abort();
    }
}

fn node_keys(name: &str) -> Vec<russh::keys::PrivateKey> {
    keys::host_keys(&format!("node {name}"), 1, &format!("root@{name}"))
}

impl Inner {
    fn guest_root(&self, vmid: u32) -> PathBuf {
        self.options.guest_roots.join(vmid.to_string())
    }

    /// One guest, advanced to now, without the world taking it for a change.
    fn look<T>(&self, vmid: u32, mut look: impl FnMut(&mut Guest) -> T) -> Option<T> {
        let mut found = None;
        self.world.each_guest(&mut |id, guest| {
            if id == vmid {
                found = Some(look(guest));
            }
        });
        found
    }

    /// The machine that answers at an address, and its boot.
    fn at(&self, address: IpAddr, port: u16) -> Result<(Machine, u32), Refusal> {
        let socket = SocketAddr::new(address, port);
        let nobody = || Refusal::NotReachable(socket.to_string());
        let now = self.world.clock().now_ms();
        let mut found = self
            .options
            .nodes
            .iter()
            .find(|node| node.address == socket && self.world.node_online(&node.name))
            .map(|node| (Machine::Node(node.name.clone()), 0));
        if port == self.options.guest_port && found.is_none() {
            let text = address.to_string();
            self.world.each_guest(&mut |vmid, guest| {
                if let Some(boot) = guest
                    .boot_number()
                    .filter(|_| guest.ssh_answers(now) && guest.has_address(now, &text))
                {
                    found.get_or_insert((Machine::Guest(vmid), boot));
                }
            });
        }
        let found = found.ok_or_else(nobody)?;
        if self.refuses_connections(&found.0) {
            Err(nobody())
        } else {
            Ok(found)
        }
    }

    fn keys_of(&self, machine: &Machine) -> Vec<russh::keys::PrivateKey> {
        match machine {
            Machine::Node(name) => node_keys(name),
            Machine::Guest(vmid) => self.look(*vmid, |guest| guest.host_keys()).unwrap_or_default(),
        }
    }

    /// Whether a login is accepted. Counts for faults that refuse logins.
    fn accepts(&self, machine: &Machine, user: &str, public_key: &str) -> bool {
        let known = match machine {
            Machine::Guest(vmid) => self
                .look(*vmid, |guest| guest.accepts(user, public_key))
                .unwrap_or(false),
            Machine::Node(name) => {
                let Some(node) = self.options.nodes.iter().find(|node| node.name == *name) else {
                    return false;
                };
                let file = std::fs::read_to_string(node.root.join("root/.ssh/authorized_keys")).unwrap_or_default();
                let given = node.authorized_keys.iter().map(String::as_str).chain(file.lines());
                user == "root" && given.into_iter().any(|line| keys::line_has_key(line, public_key))
            }
        };
        known && self.fault(machine, None).is_none()
    }

    fn refuses_connections(&self, machine: &Machine) -> bool {
        let fits =
            |f: &SshFault| f.effect == SshEffect::RefuseConnection && f.machine.as_ref().is_none_or(|m| m == machine);
        lock(&self.faults).iter().any(fits)
    }

    /// The fault that strikes a command (or a login, without one) now; counted.
    fn fault(&self, machine: &Machine, command: Option<&str>) -> Option<SshEffect> {
        let mut faults = lock(&self.faults);
        for fault in faults.iter_mut() {
            let login = fault.effect == SshEffect::RefuseLogin;
            let here = fault.machine.as_ref().is_none_or(|m| m == machine);
            let text = command.unwrap_or_default();
            let contains = fault.containing.as_ref().is_none_or(|part| text.contains(part));
            let closed = fault.effect == SshEffect::RefuseConnection || fault.times == Some(0);
            if !here || !contains || login != command.is_none() || closed {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            return Some(fault.effect.clone());
        }
        None
    }

    /// Cancelled when that boot of the machine ends.
    fn life(&self, machine: &Machine, boot: u32) -> CancellationToken {
        let mut lives = lock(&self.lives);
        let fresh = || (boot, self.stop.child_token());
        let (known, token) = lives.entry(machine.clone()).or_insert_with(fresh);
        if *known < boot {
            token.cancel();
            (*known, *token) = fresh();
        }
        if *known == boot {
            return token.clone();
        }
        let ended = CancellationToken::new();
        ended.cancel();
        ended
    }

    /// How a login is run.
    fn login(&self, machine: &Machine, user: &str) -> Option<Login> {
        match machine {
            Machine::Guest(vmid) => {
                let now = self.world.clock().now_ms();
                let root = self.guest_root(*vmid);
                self.look(*vmid, |guest| {
                    self.sync_one(*vmid, guest, now);
                    Login {
                        machine: machine.clone(),
                        root: root.clone(),
                        user: user.to_owned(),
                        sudo: guest.has_sudo(user),
                        no_python: guest.behaviour().is_some_and(|b| b.no_python),
                        no_cloud_init: guest.behaviour().is_some_and(|b| b.no_cloud_init_command),
                    }
                })
            }
            Machine::Node(name) => self
                .options
                .nodes
                .iter()
                .find(|node| node.name == *name)
                .map(|node| Login {
                    machine: machine.clone(),
                    root: node.root.clone(),
                    user: user.to_owned(),
                    sudo: true,
                    no_python: false,
                    no_cloud_init: true,
                }),
        }
    }

    /// After a command: the guest's model learns what changed on its disk.
    fn after_command(&self, machine: &Machine) {
        if let Machine::Guest(vmid) = machine {
            self.look(*vmid, Guest::read_switches);
        }
    }

    /// Does what commands inside machines ask for.
    async fn requests(self: Arc<Self>, pipe: tokio::net::unix::pipe::Receiver) {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Some(request) = Request::parse(&line) else { continue };
            let clock = self.world.clock();
            let durations = self.world.durations();
            let mut change = |guest: &mut Guest| {
                guest.read_switches();
                let now = clock.now_ms();
                match &request {
                    Request::Reboot(_) => guest.reboot_inside(now, &durations).is_some(),
                    Request::Poweroff(_) => guest.shutdown_inside(now, &durations).is_some(),
                    Request::Clean(_) => {
                        guest.clean();
                        true
                    }
                };
            };
            match &request {
                Request::Reboot(Machine::Guest(vmid))
                | Request::Poweroff(Machine::Guest(vmid))
                | Request::Clean(Machine::Guest(vmid)) => {
                    self.world.change_guest(*vmid, &mut change);
                    self.wake.notify_one();
                }
                Request::Reboot(Machine::Node(name))
                | Request::Poweroff(Machine::Node(name))
                | Request::Clean(Machine::Node(name)) => {
                    self.world.warn(format!(
                        "node {name} was asked to restart or power off; simulated nodes do not"
                    ));
                }
            }
        }
    }
}
