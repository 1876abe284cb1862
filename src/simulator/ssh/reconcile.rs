//! Keeping doors and files as the world says: one task that sleeps until something changes or is due.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::guest::Guest;
use super::super::rootfs;
use super::super::shell::Machine;
use super::{Inner, lock, server};

pub(super) type DoorKey = (Machine, SocketAddr);

/// An open socket: the boot and key generation it belongs to.
pub(super) struct Listener {
    boot: u32,
    generation: u32,
    task: JoinHandle<()>,
}

pub(super) type Listeners = BTreeMap<DoorKey, Listener>;

impl Inner {
    /// Writes a guest's files. A guest that never ran (a template) has none.
    pub(super) fn sync_one(&self, vmid: u32, guest: &mut Guest, now: u64) {
        if !guest.has_run() {
            return;
        }
        lock(&self.roots).insert(vmid);
        if let Err(error) = rootfs::sync(guest, &self.guest_root(vmid), &self.shell, now) {
            self.world
                .warn(format!("the files of VM {vmid} cannot be written: {error}"));
        }
    }

    pub(super) fn sync_all(&self) {
        let now = self.world.clock().now_ms();
        self.world
            .each_guest(&mut |vmid, guest| self.sync_one(vmid, guest, now));
    }

    /// Serves until stopped: sleeps until something changes or is due.
    pub(super) async fn keep(self: Arc<Self>, mut listeners: Listeners, mut changes: watch::Receiver<u64>) {
        loop {
            changes.borrow_and_update();
            let next = self.reconcile(&mut listeners).await;
            let clock = self.world.clock();
            let due = async {
                match next {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                changed = changes.changed() => if changed.is_err() { break },
                () = self.wake.notified() => {}
                () = due => {}
            }
        }
        self.stop.cancel();
        for listener in listeners.into_values() {
            listener.task.abort();
        }
        self.open.send_replace(Vec::new());
    }

    /// Makes doors and files what the world says. When the next event is due.
    pub(super) async fn reconcile(self: &Arc<Self>, listeners: &mut Listeners) -> Option<u64> {
        let now = self.world.clock().now_ms();
        let mut wanted: BTreeMap<DoorKey, (u32, u32)> = BTreeMap::new();
        let mut alive: HashMap<Machine, u32> = HashMap::new();
        let mut there = BTreeSet::new();
        self.world.each_guest(&mut |vmid, guest| {
            there.insert(vmid);
            self.sync_one(vmid, guest, now);
            let machine = Machine::Guest(vmid);
            let Some(boot) = guest.boot_number().filter(|_| guest.ssh_answers(now)) else {
                return;
            };
            alive.insert(machine.clone(), boot);
            if !self.options.tcp || self.refuses_connections(&machine) {
                return;
            }
            for address in guest.addresses(now).iter().filter_map(|a| a.parse::<IpAddr>().ok()) {
                let socket = SocketAddr::new(address, self.options.guest_port);
                wanted.insert((machine.clone(), socket), (boot, guest.key_generation()));
            }
        });
        for node in self.options.nodes.iter().filter(|_| self.options.tcp) {
            let machine = Machine::Node(node.name.clone());
            if self.world.node_online(&node.name) && !self.refuses_connections(&machine) {
                wanted.insert((machine, node.address), (0, 1));
            }
        }
        let stale: Vec<DoorKey> = listeners
            .iter()
            .filter(|(key, l)| wanted.get(*key) != Some(&(l.boot, l.generation)) || l.task.is_finished())
            .map(|(key, _)| key.clone())
            .collect();
        for key in stale {
            if let Some(listener) = listeners.remove(&key) {
                listener.task.abort();
                // The socket is closed when the task is gone.
                let _aborted = listener.task.await;
            }
        }
        // First the doors close, then the sessions end: whoever sees its session cut finds the door closed.
        self.publish(listeners);
        self.end_lives(&alive);
        self.remove_roots(&there);
        for (key, (boot, generation)) in wanted {
            if !listeners.contains_key(&key) {
                self.open_door(listeners, key, boot, generation).await;
            }
        }
        self.publish(listeners);
        self.world.next_event()
    }

    fn publish(&self, listeners: &Listeners) {
        let sockets: Vec<SocketAddr> = listeners.keys().map(|(_, socket)| *socket).collect();
        self.open.send_if_modified(|open| {
            let differs = *open != sockets;
            *open = sockets;
            differs
        });
    }

    async fn open_door(self: &Arc<Self>, listeners: &mut Listeners, key: DoorKey, boot: u32, generation: u32) {
        let (machine, socket) = key.clone();
        match bind(socket).await {
            Ok(listener) => {
                let task = tokio::spawn(server::accept(Arc::clone(self), listener, machine, boot));
                listeners.insert(key, Listener { boot, generation, task });
            }
            Err(error) => {
                self.world
                    .warn(format!("no SSH for {machine:?}: {socket} cannot be bound: {error}"));
            }
        }
    }

    /// Cuts the sessions of boots that are over.
    fn end_lives(&self, alive: &HashMap<Machine, u32>) {
        lock(&self.lives).retain(|machine, (boot, token)| {
            let lives = match machine {
                Machine::Node(name) => self.world.node_online(name),
                Machine::Guest(_) => alive.get(machine) == Some(boot),
            };
            if !lives {
                token.cancel();
            }
            lives
        });
    }

    /// The directories of guests that are gone.
    fn remove_roots(&self, there: &BTreeSet<u32>) {
        let mut roots = lock(&self.roots);
        let gone: Vec<u32> = roots.difference(there).copied().collect();
        for vmid in gone {
            roots.remove(&vmid);
            if let Err(error) = rootfs::remove_tree(&self.guest_root(vmid)) {
                self.world
                    .warn(format!("the files of VM {vmid} cannot be removed: {error}"));
            }
        }
    }
}

/// Listens at an address. The door of the boot before may still be closing, so an address in use is tried again for a
/// fifth of a second.
async fn bind(socket: SocketAddr) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(socket).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries < 40 => {
                tries += 1;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            bound => return bound,
        }
    }
}
