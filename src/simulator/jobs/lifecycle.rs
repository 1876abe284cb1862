//! Tasks that make and unmake VMs, templates, snapshots and volumes.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{check_unlocked, lock_vm};
use crate::simulator::guest::{Guest, GuestBehaviour, GuestImage};
use crate::simulator::props::{Drive, is_bus_drive, is_drive, print_boot_order};
use crate::simulator::task::{LockKind, Step, TaskView, vm_lock};
use crate::simulator::vm::{Config, Power, Snapshot, Vm};
use crate::simulator::world::World;

/// `qmcreate`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CreateJob {
    pub(crate) vmid: u32,
    pub(crate) values: IndexMap<String, String>,
    pub(crate) pool: Option<String>,
    pub(crate) start: bool,
    pub(crate) stage: u8,
}

impl CreateJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => Step::Lock {
                key: vm_lock(&node, self.vmid),
                kind: LockKind::Exclusive,
                wait_ms: world.durations.clone_lock_wait,
            },
            2 => {
                if world.vmid_taken(self.vmid).is_some() {
                    return Step::Fail(format!("unable to create VM {}: config file already exists", self.vmid));
                }
                Step::At(now + world.durations.config)
            }
            3 => match self.create(world, task, &node) {
                Ok(()) if self.start => {
                    task.say("Execute autostart");
                    Step::At(now + world.durations.start)
                }
                Ok(()) => Step::Done,
                Err(why) => Step::Fail(format!("unable to create VM {} - {why}", self.vmid)),
            },
            _ => match world.power_on(&node, self.vmid) {
                Ok(()) => Step::Done,
                Err(why) => Step::Fail(why),
            },
        }
    }

    fn create(&self, world: &mut World, task: &mut TaskView, node: &str) -> Result<(), String> {
        let mut values = IndexMap::new();
        let mut made = Vec::new();
        for (key, value) in &self.values {
            let mut value = value.clone();
            if is_drive(key) {
                let attached = Config::drives(&values);
                match world.prepare_drive(node, self.vmid, key, &value, &attached, &mut task.log) {
                    Ok(text) => {
                        let asked = Drive::parse(&value);
                        if asked.new_size().is_some() || asked.file.ends_with(":cloudinit") {
                            made.push(Drive::parse(&text).file);
                        }
                        value = text;
                    }
                    Err(error) => {
                        for volid in made {
                            world.free_volume(node, &volid);
                        }
                        return Err(error.task_text());
                    }
                }
            }
            values.insert(key.clone(), value);
        }
        if !values.contains_key("boot") {
            let device = values
                .iter()
                .filter(|(key, _)| is_bus_drive(key))
                .map(|(key, text)| (key.clone(), Drive::parse(text)))
                .min_by_key(|(_, drive)| drive.is_cdrom())
                .map(|(key, _)| key);
            let nets = values
                .keys()
                .find(|k| crate::simulator::props::net_index(k).is_some())
                .cloned();
            let order: Vec<String> = device.into_iter().chain(nets).collect();
            values.insert("boot".to_owned(), print_boot_order(&order));
        }
        if !values.contains_key("smbios1") {
            values.insert("smbios1".to_owned(), format!("uuid={}", world.new_uuid()));
        }
        if !values.contains_key("vmgenid") {
            values.insert("vmgenid".to_owned(), world.new_uuid());
        }
        values.insert(
            "meta".to_owned(),
            format!("creation-qemu=10.1.2,ctime={}", world.now_ms / 1000),
        );
        let image = GuestImage::default();
        let seed = world.next_random();
        world.forget_guest(self.vmid);
        world.vms.insert(
            self.vmid,
            Vm {
                vmid: self.vmid,
                node: node.to_owned(),
                config: Config {
                    current: values,
                    ..Config::default()
                },
                power: Power::Stopped,
                guest: Guest::new_from_template(&image, seed),
                image,
                // An empty disk boots nothing.
                behaviour: GuestBehaviour {
                    never_boots: true,
                    ..GuestBehaviour::default()
                },
                booted: false,
                reboot_requested: false,
                agent_results: IndexMap::new(),
            },
        );
        if let Some(pool) = &self.pool {
            world.pools.entry(pool.clone()).or_default().insert(self.vmid);
        }
        Ok(())
    }
}

/// `qmdestroy`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DestroyJob {
    pub(crate) vmid: u32,
    pub(crate) purge: bool,
    pub(crate) unreferenced: bool,
    pub(crate) stage: u8,
}

impl DestroyJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => match self.check(world, &node) {
                Ok(()) => Step::At(now + world.durations.delete),
                Err(why) => Step::Fail(why),
            },
            _ => {
                self.destroy(world, task, &node);
                Step::Done
            }
        }
    }

    fn check(&self, world: &World, node: &str) -> Result<(), String> {
        let vm = world.vm_on(node, self.vmid).map_err(|e| e.task_text())?;
        if let Some(lock) = vm.lock().filter(|lock| *lock != "suspended") {
            return Err(format!("VM is locked ({lock})"));
        }
        if vm.is_running() {
            return Err(format!("VM {} is running - destroy failed", self.vmid));
        }
        for (_, drive) in Config::drives(&vm.config.current) {
            if world.is_base_in_use(&drive.file) {
                return Err(format!("base volume '{}' is still in use by linked cloned", drive.file));
            }
        }
        Ok(())
    }

    fn destroy(&self, world: &mut World, task: &mut TaskView, node: &str) {
        let volids = world
            .vms
            .get(&self.vmid)
            .map(|vm| vm.config.volumes())
            .unwrap_or_default();
        for volid in volids {
            let id = volid.split(':').next().unwrap_or_default();
            if world.storages.get(id).is_none() {
                task.warn(format!(
                    "failed to get path and owner of volume '{volid}': storage '{id}' does not exist"
                ));
                continue;
            }
            match world.volume(node, &volid).map(|v| v.vmid) {
                Some(owner) if owner == self.vmid => {
                    world.free_volume(node, &volid);
                    if world.storages.get(id).is_some_and(|s| s.kind.starts_with("lvm")) {
                        let name = volid.split(':').nth(1).unwrap_or_default();
                        task.say(format!("  Logical volume \"{name}\" successfully removed."));
                    }
                }
                Some(_) => {}
                None if volid.contains(":iso/") => {}
                None => task.say(format!("disk image '{}' does not exist", world.volume_path(&volid))),
            }
        }
        if self.unreferenced {
            let vmid = self.vmid;
            world
                .volumes
                .retain(|v| v.vmid != vmid || (!v.node.is_empty() && v.node != node));
        }
        world.vms.remove(&self.vmid);
        world.forget_guest(self.vmid);
        for members in world.pools.values_mut() {
            members.remove(&self.vmid);
        }
        let path = format!("/vms/{}", self.vmid);
        world.access.acl.retain(|rule| rule.path != path);
        if self.purge {
            world.ha.remove(&self.vmid);
            world.replicated.remove(&self.vmid);
        }
    }
}

/// `qmtemplate`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TemplateJob {
    pub(crate) vmid: u32,
    pub(crate) stage: u8,
}

impl TemplateJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => Step::At(now + world.durations.config),
            _ => {
                world.make_template(&node, self.vmid);
                Step::Done
            }
        }
    }
}

impl World {
    /// Turns a stopped VM into a template: the flag, and base volumes.
    pub(crate) fn make_template(&mut self, node: &str, vmid: u32) {
        let Some(vm) = self.vms.get_mut(&vmid) else {
            return;
        };
        vm.config.current.insert("template".to_owned(), "1".to_owned());
        for (slot, mut drive) in Config::drives(&vm.config.current.clone()) {
            if !drive.has_volume() || drive.is_cdrom() {
                continue;
            }
            let base = drive.file.replacen(&format!("vm-{vmid}-"), &format!("base-{vmid}-"), 1);
            if let Some(volume) = self.volume_mut(node, &drive.file) {
                volume.volid.clone_from(&base);
            }
            drive.file = base;
            if let Some(vm) = self.vms.get_mut(&vmid) {
                vm.config.current.insert(slot, drive.print());
            }
        }
    }
}

/// `qmsnapshot`, `qmdelsnapshot`, `qmrollback`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotJob {
    pub(crate) vmid: u32,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// The task's type.
    pub(crate) kind: String,
    pub(crate) stage: u8,
}

impl SnapshotJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => Step::At(now + world.durations.config),
            _ => match self.apply(world, task, &node) {
                Ok(()) => Step::Done,
                Err(why) => Step::Fail(why),
            },
        }
    }

    fn apply(&self, world: &mut World, task: &mut TaskView, node: &str) -> Result<(), String> {
        check_unlocked(world, node, self.vmid)?;
        let time = world.now_ms / 1000;
        let vm = world.vm_on_mut(node, self.vmid).map_err(|e| e.task_text())?;
        let missing = format!("snapshot '{}' does not exist", self.name);
        match self.kind.as_str() {
            "qmsnapshot" => {
                if vm.config.snapshots.contains_key(&self.name) {
                    return Err(format!("snapshot name '{}' already used", self.name));
                }
                for (slot, drive) in Config::drives(&vm.config.current) {
                    if !drive.is_cdrom() {
                        task.say(format!("snapshotting 'drive-{slot}' ({})", drive.file));
                    }
                }
                let mut values = vm.config.current.clone();
                values.shift_remove("lock");
                vm.config.snapshots.insert(
                    self.name.clone(),
                    Snapshot {
                        values,
                        description: self.description.clone(),
                        time,
                    },
                );
                vm.config.current.insert("parent".to_owned(), self.name.clone());
            }
            "qmdelsnapshot" => {
                let gone = vm.config.snapshots.shift_remove(&self.name).ok_or(missing)?;
                if vm.config.get("parent") == Some(self.name.as_str()) {
                    match gone.values.get("parent") {
                        Some(parent) => {
                            vm.config.current.insert("parent".to_owned(), parent.clone());
                        }
                        None => {
                            vm.config.current.shift_remove("parent");
                        }
                    }
                }
            }
            _ => {
                let mut values = vm.config.snapshots.get(&self.name).ok_or(missing)?.values.clone();
                values.insert("parent".to_owned(), self.name.clone());
                vm.config.current = values;
                vm.config.pending.clear();
                vm.config.removals.clear();
            }
        }
        Ok(())
    }
}

/// `imgdel`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeleteVolumeJob {
    pub(crate) volid: String,
    pub(crate) stage: u8,
}

impl DeleteVolumeJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, _now: u64) -> Step {
        let node = task.node.clone();
        match world.remove_volume(&node, &self.volid) {
            Ok(()) => {
                task.say(format!("Removed volume '{}'", self.volid));
                Step::Done
            }
            Err(why) => Step::Fail(why),
        }
    }
}

impl World {
    /// Removes a volume or a file.
    pub(crate) fn remove_volume(&mut self, node: &str, volid: &str) -> Result<(), String> {
        let (id, name) = volid.split_once(':').unwrap_or((volid, ""));
        if let Some((kind @ ("iso" | "snippets" | "import" | "vztmpl"), file)) = name.split_once('/') {
            let dir = self
                .content_dir(node, id, kind)
                .ok_or_else(|| format!("storage '{id}' does not exist"))?;
            return std::fs::remove_file(dir.join(file)).map_err(|_| {
                format!(
                    "unlink '{}' failed - No such file or directory",
                    self.volume_path(volid)
                )
            });
        }
        if self.is_base_in_use(volid) {
            return Err(format!("base volume '{volid}' is still in use by linked cloned"));
        }
        if self.free_volume(node, volid) {
            Ok(())
        } else {
            Err(format!("disk image '{}' does not exist", self.volume_path(volid)))
        }
    }
}
