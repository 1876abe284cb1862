//! What tasks do, each as a small state machine: [`Job::step`] is called when the job's time has come and says what it
//! wants next; [`Job::abandon`] cleans up after an interruption.

pub(crate) mod change;
pub(crate) mod clone;
pub(crate) mod lifecycle;
pub(crate) mod migrate;
pub(crate) mod power;

use serde::{Deserialize, Serialize};

use super::task::{LockKind, Step, TaskView, vm_lock};
use super::world::World;

/// A task's work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    Clone(Box<clone::CloneJob>),
    Power(power::PowerJob),
    Config(change::ConfigJob),
    Resize(change::ResizeJob),
    Create(lifecycle::CreateJob),
    Destroy(lifecycle::DestroyJob),
    Template(lifecycle::TemplateJob),
    Snapshot(lifecycle::SnapshotJob),
    DeleteVolume(lifecycle::DeleteVolumeJob),
    Migrate(migrate::MigrateJob),
    /// A request to the HA manager, which acts in a task of its own.
    Ha(power::HaJob),
}

impl Job {
    /// One step.
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        match self {
            Self::Clone(job) => job.step(world, task, now),
            Self::Power(job) => job.step(world, task, now),
            Self::Config(job) => job.step(world, task, now),
            Self::Resize(job) => job.step(world, task, now),
            Self::Create(job) => job.step(world, task, now),
            Self::Destroy(job) => job.step(world, task, now),
            Self::Template(job) => job.step(world, task, now),
            Self::Snapshot(job) => job.step(world, task, now),
            Self::DeleteVolume(job) => job.step(world, task, now),
            Self::Migrate(job) => job.step(world, task, now),
            Self::Ha(job) => job.step(world, task, now),
        }
    }

    /// Undoes what is half done; the exit status of an interrupted task.
    pub(crate) fn abandon(&mut self, world: &mut World, node: &str) -> String {
        match self {
            Self::Clone(job) => job.abandon(world, node),
            Self::Migrate(job) => job.abandon(world),
            Self::Power(job) => job.abandon(world),
            Self::Config(_)
            | Self::Resize(_)
            | Self::Create(_)
            | Self::Destroy(_)
            | Self::Template(_)
            | Self::Snapshot(_)
            | Self::DeleteVolume(_)
            | Self::Ha(_) => "received interrupt".to_owned(),
        }
    }
}

/// Waits for the VM's lock as almost every call does.
pub(crate) fn lock_vm(world: &World, node: &str, vmid: u32) -> Step {
    Step::Lock {
        key: vm_lock(node, vmid),
        kind: LockKind::Exclusive,
        wait_ms: world.durations.lock_wait,
    }
}

/// Fails with the lock's word when the config is locked.
pub(crate) fn check_unlocked(world: &World, node: &str, vmid: u32) -> Result<(), String> {
    let vm = world.vm_on(node, vmid).map_err(|e| e.task_text())?;
    match vm.lock() {
        Some(lock) => Err(format!("VM is locked ({lock})")),
        None => Ok(()),
    }
}
