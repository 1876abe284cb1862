//! Config and resize tasks.

use serde::{Deserialize, Serialize};

use super::{check_unlocked, lock_vm};
use crate::simulator::hardware::{Update, check_digest};
use crate::simulator::props::{Drive, parse_size, print_size};
use crate::simulator::task::{Step, TaskView};
use crate::simulator::world::World;

/// `qmconfig`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ConfigJob {
    pub(crate) vmid: u32,
    pub(crate) update: Update,
    /// The request's parameters as the log shows them.
    pub(crate) shown: String,
    pub(crate) stage: u8,
}

impl ConfigJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => {
                task.say(format!("update VM {}: {}", self.vmid, self.shown));
                Step::At(now + world.durations.config)
            }
            _ => match world.run_update(&node, self.vmid, &self.update, &mut task.log) {
                Ok(()) => Step::Done,
                Err(error) => Step::Fail(error.task_text()),
            },
        }
    }
}

/// `resize`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResizeJob {
    pub(crate) vmid: u32,
    pub(crate) disk: String,
    pub(crate) size: String,
    pub(crate) digest: Option<String>,
    pub(crate) stage: u8,
}

impl ResizeJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        match self.stage {
            1 => lock_vm(world, &node, self.vmid),
            2 => match self.check(world, &node) {
                Ok(_) => Step::At(now + world.durations.resize),
                Err(why) => Step::Fail(why),
            },
            _ => match self.apply(world, &node, &mut task.log) {
                Ok(()) => Step::Done,
                Err(why) => Step::Fail(why),
            },
        }
    }

    /// The disk's volume, its size and the new one.
    fn check(&self, world: &World, node: &str) -> Result<(String, u64, u64), String> {
        let vm = world.vm_on(node, self.vmid).map_err(|e| e.task_text())?;
        check_digest(&vm.config, self.digest.as_deref(), world.major()).map_err(|e| e.task_text())?;
        check_unlocked(world, node, self.vmid)?;
        let text = vm
            .config
            .get(&self.disk)
            .ok_or_else(|| format!("disk '{}' does not exist", self.disk))?;
        let drive = Drive::parse(text);
        if !drive.has_volume() {
            return Err(format!("unable to parse volume ID '{}'", drive.file));
        }
        if drive.is_cdrom() {
            return Err("you can't resize a cdrom".to_owned());
        }
        let volume = world
            .volume(node, &drive.file)
            .ok_or_else(|| format!("Could not determine current size of volume '{}'", drive.file))?;
        let (relative, number) = match self.size.strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, self.size.as_str()),
        };
        let number = parse_size(number).unwrap_or(0);
        let wanted = if relative { volume.size + number } else { number };
        if wanted < volume.size {
            return Err("shrinking disks is not supported".to_owned());
        }
        if vm.is_template() && wanted > volume.size {
            return Err(format!(
                "command '/usr/bin/qemu-img resize '--preallocation=metadata' -f {} {} {wanted}' failed: exit code 1",
                volume.format,
                world.volume_path(&drive.file)
            ));
        }
        Ok((drive.file, volume.size, wanted))
    }

    /// Does it; also for releases whose resize is no task.
    pub(crate) fn apply(&self, world: &mut World, node: &str, log: &mut Vec<String>) -> Result<(), String> {
        let (volid, old, wanted) = self.check(world, node)?;
        if wanted == old {
            return Ok(());
        }
        let storage = volid.split(':').next().unwrap_or_default().to_owned();
        let kind = world
            .storages
            .get(&storage)
            .map_or_else(String::new, |s| s.kind.clone());
        if kind == "lvm" {
            let (used, capacity) = world.storage_usage(&storage, node);
            if used + (wanted - old) > capacity {
                return Err(format!(
                    "command '/sbin/lvextend -L {wanted}b {}' failed: exit code 5",
                    world.volume_path(&volid)
                ));
            }
        }
        if let Some(volume) = world.volume_mut(node, &volid) {
            volume.size = wanted;
        }
        let running = world
            .vms
            .get(&self.vmid)
            .is_some_and(crate::simulator::vm::Vm::is_running);
        if !running {
            if kind.starts_with("lvm") {
                let name = volid.split(':').nth(1).unwrap_or_default();
                log.push(format!(
                    "  Size of logical volume pve/{name} changed from {:.2} GiB ({} extents) to {:.2} GiB ({} extents).",
                    gib(old),
                    old >> 22,
                    gib(wanted),
                    wanted >> 22
                ));
                log.push(format!("  Logical volume pve/{name} successfully resized."));
            } else {
                log.push("Image resized.".to_owned());
            }
        }
        if let Some(vm) = world.vms.get_mut(&self.vmid)
            && let Some(text) = vm.config.current.get_mut(&self.disk)
        {
            let mut drive = Drive::parse(text);
            drive.set("size", &print_size(wanted));
            *text = drive.print();
        }
        Ok(())
    }
}

fn gib(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let number = bytes as f64;
    number / 1_073_741_824.0
}
