//! `qmigrate` (qemu-server: `QemuMigrate.pm`): the volumes on local storages go along, the config moves.
//!
//! The exit status only says `migration aborted`; the reason is in the log.

use serde::{Deserialize, Serialize};

use super::lock_vm;
use crate::simulator::task::{Step, TaskView};
use crate::simulator::vm::Config;
use crate::simulator::world::World;

/// A migration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MigrateJob {
    pub(crate) vmid: u32,
    pub(crate) target: String,
    pub(crate) online: bool,
    pub(crate) with_local_disks: bool,
    pub(crate) target_storage: Option<String>,
    pub(crate) stage: u8,
    pub(crate) locked: bool,
}

impl MigrateJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => {
                let checked = super::check_unlocked(world, &node, self.vmid);
                if let Err(why) = checked {
                    return Step::Fail(why);
                }
                task.say(format!(
                    "starting migration of VM {} to node '{}' ({})",
                    self.vmid,
                    self.target,
                    world.nodes.get(&self.target).map_or("", |n| n.ip.as_str())
                ));
                if let Err(why) = self.check(world, &node) {
                    task.say(format!("ERROR: {why}"));
                    task.say("aborting phase 1 - cleanup resources");
                    task.say("ERROR: migration aborted (duration 00:00:00): Failed to sync data - can't migrate VM - check log");
                    return Step::Fail("migration aborted".to_owned());
                }
                if let Some(vm) = world.vms.get_mut(&self.vmid) {
                    vm.config.current.insert("lock".to_owned(), "migrate".to_owned());
                    self.locked = true;
                }
                Step::At(now + world.durations.migrate)
            }
            _ => {
                self.move_volumes(world, task, &node);
                self.unlock(world);
                if let Some(vm) = world.vms.get_mut(&self.vmid) {
                    vm.node.clone_from(&self.target);
                }
                task.say("migration finished successfully (duration 00:00:01)");
                Step::Done
            }
        }
    }

    fn check(&self, world: &World, node: &str) -> Result<(), String> {
        if !world.node_online(&self.target) {
            return Err("Can't connect to destination address using public key".to_owned());
        }
        let vm = world.vm_on(node, self.vmid).map_err(|e| e.task_text())?;
        let running = vm.is_running();
        for (_, drive) in Config::drives(&vm.config.current) {
            let Some(id) = drive.storage() else {
                continue;
            };
            let shared = world.volume_home(id, node).is_empty();
            if shared {
                continue;
            }
            if drive.is_cdrom() && !drive.is_cloudinit() {
                return Err(format!("can't migrate local disk '{}': local cdrom image", drive.file));
            }
            if running && !drive.is_cloudinit() && !self.with_local_disks {
                return Err("can't live migrate attached local disks without with-local-disks option".to_owned());
            }
            let base = world.volume(node, &drive.file).and_then(|v| v.base.clone());
            if let Some(base) = base.filter(|_| self.target_storage.is_none()) {
                return Err(format!("can't migrate '{}' as it's a clone of '{base}'", drive.file));
            }
        }
        Ok(())
    }

    fn move_volumes(&self, world: &mut World, task: &mut TaskView, node: &str) {
        let volids = world
            .vms
            .get(&self.vmid)
            .map(|vm| vm.config.volumes())
            .unwrap_or_default();
        let renamed = self.target_storage.clone().filter(|s| s != "1");
        for volid in volids {
            let id = volid.split(':').next().unwrap_or_default().to_owned();
            if world.volume_home(&id, node).is_empty() && renamed.is_none() {
                continue;
            }
            let new_storage = renamed.clone().unwrap_or(id);
            let home = world.volume_home(&new_storage, &self.target);
            let new = match volid.split_once(':') {
                Some((_, name)) => format!("{new_storage}:{name}"),
                None => volid.clone(),
            };
            if let Some(volume) = world.volume_mut(node, &volid) {
                volume.node = home;
                volume.volid.clone_from(&new);
                task.say(format!("found local disk '{volid}' (attached)"));
                task.say(format!("volume '{volid}' is '{new}' on the target"));
            }
            if new != volid
                && let Some(vm) = world.vms.get_mut(&self.vmid)
            {
                for text in vm.config.current.values_mut() {
                    *text = text.replace(&volid, &new);
                }
            }
        }
    }

    fn unlock(&mut self, world: &mut World) {
        if std::mem::take(&mut self.locked)
            && let Some(vm) = world.vms.get_mut(&self.vmid)
        {
            vm.config.current.shift_remove("lock");
        }
    }

    pub(crate) fn abandon(&mut self, world: &mut World) -> String {
        self.unlock(world);
        "migration aborted".to_owned()
    }
}
