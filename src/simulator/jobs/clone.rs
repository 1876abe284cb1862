//! `qmclone` (qemu-server: `API2/Qemu.pm:clone_vm`).
//!
//! ```text
//! lock source, lock new id -> stub config (lock: clone, " qmclone temporary file")
//!   -> name and description, cloud-init drive, volumes -> copy -> unlocked config -> pool -> target node
//! ```
//! Any failure frees the volumes and removes the config.

use serde::{Deserialize, Serialize};

use crate::simulator::guest::Guest;
use crate::simulator::props::{Drive, Net, human_size, is_drive, is_unused, net_index, print_size, split_props};
use crate::simulator::storage::{CLOUDINIT_SIZE, Volume};
use crate::simulator::task::{LockKind, Step, TaskView, vm_lock};
use crate::simulator::vm::{Config, Power, Vm};
use crate::simulator::world::World;

/// A clone's parameters and progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CloneJob {
    pub(crate) source: u32,
    pub(crate) newid: u32,
    pub(crate) full: bool,
    pub(crate) storage: Option<String>,
    pub(crate) format: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) snapname: Option<String>,
    /// KiB/s; 0: none.
    pub(crate) bwlimit: u64,
    pub(crate) stage: u8,
    pub(crate) created: bool,
    /// Volumes made: slot, source volume, new volume.
    pub(crate) made: Vec<(String, String, String)>,
    /// The config as it will be.
    pub(crate) config: Config,
}

impl CloneJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => {
                let running = world.vms.get(&self.source).is_some_and(Vm::is_running);
                Step::Lock {
                    key: vm_lock(&node, self.source),
                    kind: if running { LockKind::Exclusive } else { LockKind::Shared },
                    wait_ms: world.durations.clone_lock_wait,
                }
            }
            2 => Step::Lock {
                key: vm_lock(&node, self.newid),
                kind: LockKind::Exclusive,
                wait_ms: world.durations.clone_lock_wait,
            },
            3 => self.reserve(world, task, &node, now),
            4 => match (world.clone_lock_limit, self.busiest_storage(world, &node)) {
                (Some(limit), Some((storage, shared))) => Step::Lock {
                    key: if shared {
                        format!("cfs:{storage}")
                    } else {
                        format!("{node}:/var/lock/pve-manager/pve-storage-{storage}")
                    },
                    kind: LockKind::Slot(limit),
                    wait_ms: world.durations.lock_wait,
                },
                _ => self.step(world, task, now),
            },
            5 => match self.allocate(world, task, &node) {
                Ok(bytes) => Step::At(now + self.copy_ms(world, bytes)),
                Err(why) => self.fail(world, &node, &why),
            },
            _ => match self.finish(world, task, &node) {
                Ok(()) => Step::Done,
                Err(why) => self.fail(world, &node, &why),
            },
        }
    }

    /// The stub config.
    fn reserve(&mut self, world: &mut World, task: &mut TaskView, node: &str, now: u64) -> Step {
        if world.vmid_taken(self.newid).is_some() {
            return Step::Fail(format!(
                "unable to create VM {}: config file already exists",
                self.newid
            ));
        }
        let Some(source) = world.vms.get(&self.source).filter(|vm| vm.node == node) else {
            return Step::Fail(format!(
                "unable to find configuration file for VM {} on node '{node}'",
                self.source
            ));
        };
        let (image, behaviour) = (source.image.clone(), source.behaviour.clone());
        let inherited = (source.booted && !source.is_template()).then(|| source.guest.clone());
        let values = match &self.snapname {
            Some(name) => source
                .config
                .snapshots
                .get(name)
                .map(|s| s.values.clone())
                .unwrap_or_default(),
            None => source.config.current.clone(),
        };
        let pending: Vec<String> = source
            .config
            .pending
            .keys()
            .chain(source.config.removals.keys())
            .cloned()
            .collect();
        task.say(format!("creating a clone of VM {} with ID {}", self.source, self.newid));
        if !pending.is_empty() {
            task.say(format!(
                "found pending changes for '{}', discarding for clone",
                pending.join("', '")
            ));
        }
        let default_name = values.get("name").cloned().unwrap_or_else(|| self.source.to_string());
        self.config.current = values;
        self.new_identity(world, &default_name);
        let seed = world.next_random();
        let guest = match inherited {
            Some(mut guest) => {
                guest.power_off(now);
                guest
            }
            None => Guest::new_from_template(&image, seed),
        };
        world.forget_guest(self.newid);
        let mut stub = Config::default();
        stub.current.insert("lock".to_owned(), "clone".to_owned());
        stub.current
            .insert("description".to_owned(), " qmclone temporary file".to_owned());
        world.vms.insert(
            self.newid,
            Vm {
                vmid: self.newid,
                node: node.to_owned(),
                config: stub,
                power: Power::Stopped,
                guest,
                image,
                behaviour,
                booted: false,
                reboot_requested: false,
                agent_results: indexmap::IndexMap::new(),
            },
        );
        self.created = true;
        Step::At(now + self.copy_ms(world, 0) / 4)
    }

    /// The config that the clone will have, without its volumes.
    fn new_identity(&mut self, world: &mut World, default_name: &str) {
        let values = &mut self.config.current;
        for key in [
            "template",
            "lock",
            "parent",
            "snaptime",
            "vmstate",
            "runningmachine",
            "runningcpu",
        ] {
            values.shift_remove(key);
        }
        values.retain(|key, _| !is_unused(key));
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| format!("Copy-of-VM-{default_name}"));
        values.insert("name".to_owned(), name);
        if let Some(text) = self.description.clone().filter(|text| !text.is_empty()) {
            values.insert("description".to_owned(), text);
        }
        let uuid = world.new_uuid();
        let rest: Vec<String> = values
            .get("smbios1")
            .map(|text| {
                split_props(text)
                    .into_iter()
                    .filter_map(|(key, value)| key.filter(|k| *k != "uuid").map(|k| format!(",{k}={value}")))
                    .collect()
            })
            .unwrap_or_default();
        values.insert("smbios1".to_owned(), format!("uuid={uuid}{}", rest.concat()));
        if values.contains_key("vmgenid") {
            let fresh = world.new_uuid();
            values.insert("vmgenid".to_owned(), fresh);
        }
        let nets: Vec<String> = values.keys().filter(|key| net_index(key).is_some()).cloned().collect();
        for key in nets {
            let mut net = Net::parse(values.get(&key).map_or("", String::as_str));
            net.mac = Some(world.new_mac());
            values.insert(key, net.print());
        }
    }

    /// Where the new volumes go: the first disk's storage.
    fn busiest_storage(&self, world: &World, node: &str) -> Option<(String, bool)> {
        let storage = self.storage.clone().or_else(|| {
            Config::drives(&self.config.current)
                .into_iter()
                .find_map(|(_, drive)| drive.storage().filter(|_| !drive.is_cdrom()).map(str::to_owned))
        })?;
        let shared = world.volume_home(&storage, node).is_empty();
        Some((storage, shared))
    }

    /// Writes the config with its name, still locked, and makes the volumes. The bytes to copy.
    fn allocate(&mut self, world: &mut World, task: &mut TaskView, node: &str) -> Result<u64, String> {
        if let Some(vm) = world.vms.get_mut(&self.newid) {
            let mut locked = self.config.current.clone();
            locked.retain(|key, _| !is_drive(key));
            locked.insert("lock".to_owned(), "clone".to_owned());
            vm.config.current = locked;
        }
        let mut bytes = 0;
        for (slot, drive) in Config::drives(&self.config.current.clone()) {
            if drive.is_cloudinit() {
                self.clone_cloudinit(world, task, node, &slot, drive)?;
            } else if drive.has_volume() && !drive.is_cdrom() {
                bytes += self.clone_disk(world, task, node, &slot, drive)?;
            }
        }
        Ok(bytes)
    }

    fn clone_cloudinit(
        &mut self,
        world: &mut World,
        task: &mut TaskView,
        node: &str,
        slot: &str,
        mut drive: Drive,
    ) -> Result<(), String> {
        let old = drive.file.clone();
        let storage = self
            .storage
            .clone()
            .or_else(|| drive.storage().map(str::to_owned))
            .unwrap_or_default();
        task.say(format!("create full clone of drive {slot} ({old})"));
        let (volid, log) = world
            .allocate_cloudinit(node, &storage, self.newid, self.format.as_deref())
            .map_err(|e| e.task_text())?;
        log.into_iter().for_each(|line| task.say(line));
        task.say(format!("allocated target volume '{volid}'"));
        drive.file.clone_from(&volid);
        drive.set("media", "cdrom");
        drive.set("size", &print_size(CLOUDINIT_SIZE));
        self.config.current.insert(slot.to_owned(), drive.print());
        self.made.push((slot.to_owned(), String::new(), volid));
        Ok(())
    }

    fn clone_disk(
        &mut self,
        world: &mut World,
        task: &mut TaskView,
        node: &str,
        slot: &str,
        mut drive: Drive,
    ) -> Result<u64, String> {
        let old = drive.file.clone();
        world.check_volume(node, &old).map_err(|e| e.task_text())?;
        let base: Volume = world
            .volume(node, &old)
            .cloned()
            .ok_or_else(|| format!("volume '{old}' does not exist"))?;
        let mut bytes = 0;
        let volid = if self.full {
            task.say(format!("create full clone of drive {slot} ({old})"));
            let storage = self.storage.clone().unwrap_or_else(|| base.storage().to_owned());
            let format = self.format.clone().unwrap_or_else(|| base.format.clone());
            let (volid, log) = world
                .allocate_disk(node, &storage, self.newid, base.size, Some(&format))
                .map_err(|e| e.task_text())?;
            log.into_iter().for_each(|line| task.say(line));
            task.say(format!("allocated target volume '{volid}'"));
            task.say(format!("transferred 0.0 B of {} (0.00%)", human_size(base.size)));
            bytes = base.size;
            volid
        } else {
            task.say(format!("create linked clone of drive {slot} ({old})"));
            let volid = world
                .allocate_linked(node, &base, self.newid)
                .map_err(|e| e.task_text())?;
            task.say(format!("clone {}: images, {}", old, volid));
            volid
        };
        drive.file.clone_from(&volid);
        drive.set("size", &print_size(base.size));
        self.config.current.insert(slot.to_owned(), drive.print());
        self.made.push((slot.to_owned(), old, volid));
        Ok(bytes)
    }

    fn copy_ms(&self, world: &World, bytes: u64) -> u64 {
        let d = &world.durations;
        let plain = if self.full { d.clone } else { d.linked_clone };
        let plain = if bytes > 0 || !self.full {
            plain - plain / 4
        } else {
            plain
        };
        let slowed = (bytes >> 10).checked_div(self.bwlimit).unwrap_or(0) * d.second;
        plain.max(slowed)
    }

    /// The copy is done, as far as there is room; the config is unlocked.
    fn finish(&mut self, world: &mut World, task: &mut TaskView, node: &str) -> Result<(), String> {
        for (_, old, new) in self.made.clone() {
            if !self.full || old.is_empty() {
                continue;
            }
            let data = world.volume(node, &old).map_or(0, |v| v.used);
            let (id, _) = new.split_once(':').unwrap_or((&new, ""));
            let (used, capacity) = world.storage_usage(id, node);
            if used + data > capacity {
                return Err(self.copy_failed(world, node, &old, &new));
            }
            if let Some(volume) = world.volume_mut(node, &new) {
                volume.used = volume.used.max(data);
                let size = human_size(volume.size);
                task.say(format!("transferred {size} of {size} (100.00%)"));
            }
        }
        let Some(vm) = world.vms.get_mut(&self.newid) else {
            return Err(format!(
                "Configuration file 'nodes/{node}/qemu-server/{}.conf' does not exist",
                self.newid
            ));
        };
        vm.config = self.config.clone();
        if let Some(target) = self.target.clone().filter(|t| t != node) {
            vm.node = target;
        }
        if let Some(pool) = &self.pool {
            world.pools.entry(pool.clone()).or_default().insert(self.newid);
        }
        Ok(())
    }

    fn copy_failed(&self, world: &World, node: &str, old: &str, new: &str) -> String {
        let format = |volid: &str| {
            world
                .volume(node, volid)
                .map_or("raw", |v| v.format.as_str())
                .to_owned()
        };
        format!(
            "copy failed: command '/usr/bin/qemu-img convert -p -n {}-f {} -O {} {} zeroinit:{}' failed: exit code 1",
            if self.bwlimit > 0 {
                format!("-r {}K ", self.bwlimit)
            } else {
                String::new()
            },
            format(old),
            format(new),
            world.volume_path(old),
            world.volume_path(new)
        )
    }

    fn fail(&mut self, world: &mut World, node: &str, why: &str) -> Step {
        self.clean(world, node);
        Step::Fail(format!("clone failed: {why}"))
    }

    fn clean(&mut self, world: &mut World, node: &str) {
        for (_, _, volid) in std::mem::take(&mut self.made) {
            world.free_volume(node, &volid);
        }
        if std::mem::take(&mut self.created) {
            world.vms.remove(&self.newid);
        }
    }

    pub(crate) fn abandon(&mut self, world: &mut World, node: &str) -> String {
        let copying = self
            .made
            .iter()
            .find(|(_, old, _)| !old.is_empty() && self.full)
            .cloned();
        let text = match copying {
            Some((_, old, new)) => {
                let text = self.copy_failed(world, node, &old, &new);
                format!("clone failed: {}", text.replace("exit code 1", "interrupted by signal"))
            }
            None if self.created => "clone failed: interrupted by signal".to_owned(),
            None => "received interrupt".to_owned(),
        };
        self.clean(world, node);
        text
    }
}
