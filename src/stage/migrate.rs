//! Migrate: the VM is on the requested node.
//!
//! Only when it is not; offline, since the VM was never started; local disks go along (qemu-server: an offline migration
//! copies them, `with-local-disks` matters for running VMs only). A VM that was started already stays where it is: later
//! moves are the operator's.

use std::time::Duration;

use crate::diagnose::Diagnostic;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::limits::Limit;
use crate::engine::pace::Pace;
use crate::engine::stage::{Seen, Stage, Wait};
use crate::proxmox::error::Kind;
use crate::proxmox::ids::{NodeName, VmId};
use crate::proxmox::task::TaskFilter;
use crate::stage::clone::Cloned;
use crate::stage::{Vm, still_named};
use crate::state::record::Phase;

/// The VM is where it is to be.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The VM, with its node.
    pub vm: Vm,
    _made: (),
}

/// How long a migration that somebody else follows may take: local disks go along.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a lock may outlive its task before it counts as left behind: the task may have ended between two looks.
const LEFT_OVER: Duration = Duration::from_secs(10);

/// The stage.
pub struct Migrate {
    /// The clone.
    pub cloned: Cloned,
}

impl Migrate {
    /// The VM has the lock of a migration: one that runs is waited for; a lock without a task is an operator's matter.
    async fn locked(&self, run: &HostRun, node: &NodeName) -> Result<Seen<Placed>, Failure> {
        let vmid = self.cloned.vm.vmid;
        let runs = !run.api().tasks(node, &running(vmid)).await?.is_empty();
        let (budget, late) = if runs {
            let late = Diagnostic::error("migrate/late", format!("VM {vmid} stays locked by a migration"))
                .help("look at the migration's task in Proxmox, then run the same command again");
            (run.machine.waits.task_idle.max(LONGEST), late)
        } else {
            let message = format!("VM {vmid} is locked (migrate), but no migration runs: a killed one was left behind");
            let late = Diagnostic::error("migrate/left-over", message)
                .help(format!(
                    "look at VM {vmid} and its disks in Proxmox; clear the lock on {node} with `qm unlock {vmid}`, then run the same command again"
                ));
            (LEFT_OVER, late)
        };
        Ok(Seen::Pending(Wait {
            what: format!("the migration of VM {vmid}"),
            pace: Pace::Task,
            budget,
            late: Box::new(late),
        }))
    }
}

/// The migrations of a VM that run.
fn running(vmid: VmId) -> TaskFilter {
    TaskFilter {
        vmid: Some(vmid),
        kind: Some("qmigrate".to_owned()),
        running_only: true,
        ..TaskFilter::default()
    }
}

impl Stage for Migrate {
    const NAME: StageName = StageName::Migrate;
    type Evidence = Placed;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Placed>, Failure> {
        let vmid = self.cloned.vm.vmid;
        let target = &run.machine.node;
        let here = if *target == self.cloned.vm.node {
            Some(target.clone())
        } else {
            locate(run, &self.cloned.vm).await?
        };
        let Some(node) = here else {
            return Err(Failure::new(Diagnostic::error(
                "migrate/lost",
                format!("VM {vmid} is on no node any more"),
            )));
        };
        let vm = Vm {
            node: node.clone(),
            ..self.cloned.vm.clone()
        };
        if node == *target {
            return Ok(Seen::Done(Placed { vm, _made: () }));
        }
        let status = run.api().vm_status(&node, vmid).await?;
        still_named(&vm, &run.machine.name, &status.name)?;
        if status.running {
            return Ok(Seen::Done(Placed { vm, _made: () }));
        }
        if status.lock.as_deref() == Some("migrate") {
            return self.locked(run, &node).await;
        }
        Ok(Seen::Absent(vec![Change::set(
            "node",
            Some(node.to_string()),
            Some(target.to_string()),
        )]))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let vmid = self.cloned.vm.vmid;
        let Some(source) = locate(run, &self.cloned.vm).await? else {
            return Ok(());
        };
        let what = format!("migration of VM {vmid} from {source} to {}", run.machine.node);
        // One that an earlier request began, whose answer was lost, is followed, not sent again.
        if let Some(task) = run.api().tasks(&source, &running(vmid)).await?.first() {
            return run.follow(Self::NAME, &task.upid, &what).await;
        }
        let upid = run
            .api()
            .migrate(&source, vmid, &run.machine.node, false)
            .await
            .map_err(under_way)?;
        run.follow(Self::NAME, &upid, &what).await.map_err(under_way)
    }

    /// The node on record is where the VM was seen last: this stage only ever runs on a VM that is created and no further.
    fn settles(&self, placed: &Placed) -> Option<Phase> {
        Some(Phase::Created {
            vmid: placed.vm.vmid,
            uuid: placed.vm.uuid.clone(),
            node: placed.vm.node.clone(),
        })
    }

    fn tell(&self, placed: &Placed) -> String {
        format!("on {}", placed.vm.node)
    }

    fn limit(&self, _run: &HostRun) -> Option<Limit> {
        Some(Limit::Migrate {
            node: self.cloned.vm.node.to_string(),
        })
    }
}

/// A VM that is being migrated already is looked at again, not given up.
fn under_way(error: impl Into<Failure>) -> Failure {
    let failure = error.into();
    match &failure.kind {
        Some(Kind::Locked { lock: Some(lock) }) if lock == "migrate" => failure.retry(Retry::Doubt),
        Some(_) | None => failure,
    }
}

/// The node that the VM is on now: the last known one is asked first, then the cluster.
async fn locate(run: &HostRun, vm: &Vm) -> Result<Option<crate::proxmox::ids::NodeName>, Failure> {
    match run.api().vm_status(&vm.node, vm.vmid).await {
        Ok(_) => return Ok(Some(vm.node.clone())),
        Err(error) if error.kind() == Kind::Missing => {}
        Err(error) => return Err(error.into()),
    }
    let listing = run.fresh_listing().await?;
    Ok(listing.by_id(vm.vmid).map(|listed| listed.node.clone()))
}
