//! The cluster's state, whole and serialisable, and how time passes in it.
//!
//! Nothing in the world runs by itself: whoever looks at it first lets it [`World::advance`] to now, and every task
//! step and guest event that was due until then happens in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::access::{Access, Identity};
use super::clock::Durations;
use super::fail::ApiError;
use super::guest::{Guest, GuestBehaviour};
use super::spec::{BehaviourSpec, BridgeSpec, ContainerSpec, StorageSpec};
use super::storage::Volume;
use super::task::{Flock, Task};
use super::vm::{Power, Vm};

/// The layout of the saved world; a file with another number is refused.
pub const SCHEMA: u32 = 1;

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Whether it answers.
    pub online: bool,
    /// Its address.
    pub ip: String,
    /// Processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// When it booted, in milliseconds.
    pub booted_ms: u64,
}

/// What pvestatd last told about a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) template: bool,
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    pub(crate) cpus: u64,
    pub(crate) uptime: u64,
}

/// The cluster.
#[derive(Debug, Serialize, Deserialize)]
pub struct World {
    /// [`SCHEMA`]
    pub schema: u32,
    /// The release.
    pub version: String,
    /// The cluster's name; empty: no cluster.
    pub cluster: String,
    /// Whether there is quorum.
    pub quorate: bool,
    /// Nodes in their order; the first answers the API.
    pub nodes: IndexMap<String, Node>,
    /// Storages.
    pub storages: IndexMap<String, StorageSpec>,
    /// Bridges.
    pub bridges: IndexMap<String, BridgeSpec>,
    /// Volumes by (node, empty when shared; volume id).
    pub volumes: Vec<Volume>,
    /// VMs and templates.
    pub vms: BTreeMap<u32, Vm>,
    /// Containers.
    pub containers: BTreeMap<u32, ContainerSpec>,
    /// Pools and members.
    pub pools: BTreeMap<String, BTreeSet<u32>>,
    /// Users and rights.
    pub access: Access,
    /// HA-managed VMs.
    pub ha: BTreeSet<u32>,
    /// VMs with a replication job.
    pub replicated: BTreeSet<u32>,
    /// Behaviour rules by VM name.
    pub behaviours: Vec<BehaviourSpec>,
    /// See `WorldSpec::clone_lock_limit`.
    pub clone_lock_limit: Option<usize>,
    /// Lowest free id.
    pub next_id: (u32, u32),
    /// Tasks, the oldest first.
    pub tasks: Vec<Task>,
    /// What the doors keep (host keys of nodes, Pi-hole records).
    pub doors: BTreeMap<String, serde_json::Value>,
    /// Ends of tasks that faults have ordered: by task type and id.
    #[serde(skip)]
    pub(crate) doomed: Vec<super::fault::Doom>,
    pub(crate) flocks: BTreeMap<String, Flock>,
    pub(crate) stats: BTreeMap<u32, Stat>,
    pub(crate) next_stat_ms: u64,
    pub(crate) next_pid: u32,
    pub(crate) random: u64,
    pub(crate) now_ms: u64,
    /// How long things take.
    #[serde(skip)]
    pub durations: Durations,
    #[serde(skip)]
    pub(crate) dir: PathBuf,
    #[serde(skip)]
    pub(crate) fingerprint: String,
}

/// Forty hexadecimal digits of a text.
pub(crate) fn hex_digest(text: &str) -> String {
    let mut out = String::with_capacity(40);
    for byte in Sha256::digest(text.as_bytes()).iter().take(20) {
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

impl World {
    /// The time of the world, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The release's first number.
    pub(crate) fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(9)
    }

    /// A new random number (splitmix64).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A new UUID.
    pub(crate) fn new_uuid(&mut self) -> String {
        let (high, low) = (self.next_random(), self.next_random());
        uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// A new MAC address with Proxmox's prefix.
    pub(crate) fn new_mac(&mut self) -> String {
        let [a, b, c, ..] = self.next_random().to_be_bytes();
        format!("BC:24:11:{a:02X}:{b:02X}:{c:02X}")
    }

    /// The nodes' names.
    pub fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Whether a node answers.
    pub fn node_online(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|n| n.online)
    }

    /// Switches a node off (its VMs stop, its tasks die) or on.
    pub fn set_node_online(&mut self, node: &str, online: bool) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.online = online;
            known.booted_ms = self.now_ms;
        }
        if online {
            return;
        }
        let now = self.now_ms;
        for vm in self.vms.values_mut().filter(|vm| vm.node == node) {
            vm.power = Power::Stopped;
            vm.guest.power_off(now);
        }
        let dead: Vec<u32> = self
            .tasks
            .iter()
            .filter(|t| t.node == node && t.is_running())
            .map(|t| t.pid)
            .collect();
        for pid in dead {
            self.kill_task(pid);
        }
    }

    /// The directory that is `/` of a node.
    pub fn node_root(&self, node: &str) -> PathBuf {
        self.dir.join("nodes").join(node)
    }

    /// The world's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A VM of a node.
    pub(crate) fn vm_on(&self, node: &str, vmid: u32) -> Result<&Vm, ApiError> {
        self.vms
            .get(&vmid)
            .filter(|vm| vm.node == node)
            .ok_or_else(|| ApiError::no_config(node, vmid))
    }

    /// A VM of a node.
    pub(crate) fn vm_on_mut(&mut self, node: &str, vmid: u32) -> Result<&mut Vm, ApiError> {
        self.vms
            .get_mut(&vmid)
            .filter(|vm| vm.node == node)
            .ok_or_else(|| ApiError::no_config(node, vmid))
    }

    /// The VM with a name.
    pub fn vm_named(&self, name: &str) -> Option<&Vm> {
        self.vms.values().find(|vm| vm.config.get("name") == Some(name))
    }

    /// Whether an id is taken.
    pub(crate) fn vmid_taken(&self, vmid: u32) -> Option<&str> {
        let vm = self.vms.get(&vmid).map(|vm| vm.node.as_str());
        vm.or_else(|| self.containers.get(&vmid).map(|c| c.node.as_str()))
    }

    /// The running VM whose guest answers at an address.
    pub fn guest_by_address(&self, address: &str) -> Option<u32> {
        self.vms
            .values()
            .find(|vm| vm.is_running() && vm.guest.addresses(self.now_ms).iter().any(|a| a == address))
            .map(|vm| vm.vmid)
    }

    /// A VM's guest.
    pub fn guest_mut(&mut self, vmid: u32) -> Option<&mut Guest> {
        self.vms.get_mut(&vmid).map(|vm| &mut vm.guest)
    }

    /// Removes what stands on the disks of a VM that is gone, or that a new one must not find.
    pub(crate) fn forget_guest(&self, vmid: u32) {
        let root = self.dir.join("guests").join(vmid.to_string());
        if !self.dir.as_os_str().is_empty()
            && let Err(error) = std::fs::remove_dir_all(&root)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("simulator: cannot remove {}: {error}", root.display());
        }
    }

    /// How the guest of a VM behaves: a rule for its name, or what its template said.
    pub(crate) fn behaviour_of(&self, vm: &Vm) -> GuestBehaviour {
        let name = vm.name();
        self.behaviours
            .iter()
            .find(|rule| rule.matches(&name))
            .map_or_else(|| vm.behaviour.clone(), |rule| rule.behaviour.clone())
    }

    /// From now on guests of VMs with this name (or start and `*`) behave like this when they are started.
    pub fn set_behaviour(&mut self, name: &str, behaviour: GuestBehaviour) {
        self.behaviours.insert(
            0,
            BehaviourSpec {
                name: name.to_owned(),
                behaviour,
            },
        );
    }

    /// The privileges of somebody on a path; a VM's path has those of its pool too.
    pub(crate) fn privileges(&self, who: &Identity, path: &str) -> BTreeMap<String, bool> {
        let mut found = self.access.privileges(&who.id, path);
        if let Some(vmid) = path.strip_prefix("/vms/").and_then(|id| id.parse::<u32>().ok()) {
            for (pool, _) in self.pools.iter().filter(|(_, members)| members.contains(&vmid)) {
                for (privilege, propagates) in self.access.privileges(&who.id, &format!("/pool/{pool}")) {
                    *found.entry(privilege).or_insert(false) |= propagates;
                }
            }
        }
        found
    }

    /// Whether somebody has one of the privileges on a path.
    pub(crate) fn may(&self, who: &Identity, path: &str, any_of: &[&str]) -> bool {
        let found = self.privileges(who, path);
        any_of.iter().any(|p| found.contains_key(*p))
    }

    /// 403 unless somebody has one of the privileges on a path.
    pub(crate) fn check(&self, who: &Identity, path: &str, any_of: &[&str]) -> Result<(), ApiError> {
        if self.may(who, path, any_of) {
            Ok(())
        } else {
            Err(ApiError::denied(&format!("{path}, {}", any_of.join("|"))))
        }
    }

    /// 500 without quorum.
    pub(crate) fn check_quorum(&self) -> Result<(), ApiError> {
        if self.quorate {
            Ok(())
        } else {
            Err(ApiError::failed("cluster not ready - no quorum?"))
        }
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<u64> {
        let task = self.tasks.iter().filter(|t| t.is_running()).map(|t| t.due_ms).min();
        let guest = self.vms.values().filter_map(|vm| vm.guest.next_event()).min();
        match (task, guest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Lets time pass up to `now_ms`. Whether anything happened.
    pub fn advance(&mut self, now_ms: u64) -> bool {
        let mut happened = false;
        while let Some(at) = self.next_event().filter(|at| *at <= now_ms) {
            let at = at.max(self.now_ms);
            self.take_stats(at);
            self.now_ms = at;
            happened = true;
            self.guest_events(at);
            self.task_events(at);
        }
        self.take_stats(now_ms);
        self.now_ms = self.now_ms.max(now_ms);
        happened
    }

    /// pvestatd's cycle: what lists show of a VM is as old as the last one.
    fn take_stats(&mut self, until_ms: u64) {
        if until_ms < self.next_stat_ms {
            return;
        }
        let cycle = self.durations.stale;
        self.stats = self.vms.values().map(|vm| (vm.vmid, self.stat_of(vm))).collect();
        let missed = (until_ms - self.next_stat_ms).checked_div(cycle).unwrap_or(0);
        self.next_stat_ms += cycle * (missed + 1);
        if cycle == 0 {
            self.next_stat_ms = until_ms;
        }
    }

    pub(crate) fn stat_of(&self, vm: &Vm) -> Stat {
        Stat {
            name: vm.name(),
            status: vm.qmp_status().to_owned(),
            template: vm.is_template(),
            memory: vm.memory(),
            disk: vm.max_disk(),
            cpus: vm.cpus(),
            uptime: vm
                .process()
                .map_or(0, |p| self.now_ms.saturating_sub(p.since_ms) / 1000),
        }
    }

    fn guest_events(&mut self, at: u64) {
        for vm in self.vms.values_mut() {
            if vm.guest.next_event().is_none_or(|due| due > at) {
                continue;
            }
            vm.guest.advance(at);
            if vm.is_running() && !vm.guest.is_powered() {
                // qmeventd: `qm cleanup` after a power-off from inside does not apply pending changes.
                vm.power = Power::Stopped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::spec::WorldSpec;

    #[test]
    fn random_parts_are_repeatable_and_well_formed() {
        let spec = WorldSpec {
            seed: Some(7),
            ..WorldSpec::default()
        };
        let (mut a, mut b) = (World::new(&spec, 1_000).unwrap(), World::new(&spec, 1_000).unwrap());
        let (mac, uuid) = (a.new_mac(), a.new_uuid());
        assert_eq!((mac.clone(), uuid.clone()), (b.new_mac(), b.new_uuid()));
        assert!(mac.starts_with("BC:24:11:") && uuid::Uuid::parse_str(&uuid).is_ok());
    }

    #[test]
    fn lists_are_as_old_as_the_last_cycle() {
        let mut world = World::new(&WorldSpec::default(), 1_000).unwrap();
        world.advance(2_000);
        let now = world.next_stat_ms;
        if let Some(vm) = world.vms.get_mut(&9000) {
            vm.config.current.insert("name".to_owned(), "renamed".to_owned());
        }
        world.advance(now - 1);
        assert_eq!(world.stats[&9000].name, "debian-12-cloudinit");
        world.advance(now);
        assert_eq!(world.stats[&9000].name, "renamed");
    }
}
