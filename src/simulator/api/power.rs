//! Power: everything but reset, reboot and pause of a stopped VM gives a UPID, even nonsense.

use serde_json::Value;

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::power::{Action, HaJob, PowerJob};

fn spawn(call: &mut Call, job: PowerJob) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let ha = match job.action {
        Action::Start => Some("hastart"),
        Action::Stop | Action::Shutdown => Some("hastop"),
        Action::Reboot | Action::Reset | Action::Suspend | Action::Resume => None,
    };
    let kind = job.action.kind();
    let (kind, job) = match ha.filter(|_| call.world.ha.contains(&vmid)) {
        Some(ha) => (
            ha,
            Job::Ha(HaJob {
                kind: kind.to_owned(),
                vmid,
                then: Box::new(Job::Power(job)),
                stage: 0,
            }),
        ),
        None => (kind, Job::Power(job)),
    };
    let upid = call.world.spawn(&call.who.id, &node, kind, &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}

fn must_run(call: &Call) -> Result<(), ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    if call
        .world
        .vms
        .get(&vmid)
        .is_some_and(|vm| vm.node == node && vm.is_running())
    {
        Ok(())
    } else {
        Err(ApiError::failed(format!("VM {vmid} not running")))
    }
}

pub(super) fn start(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&[
        "skiplock",
        "stateuri",
        "migratedfrom",
        "migration_type",
        "migration_network",
    ])?;
    call.world.check_quorum()?;
    spawn(call, PowerJob::new(call.vmid(), Action::Start))
}

pub(super) fn stop(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock", "keepActive", "migratedfrom"])?;
    let vmid = call.vmid();
    if call.flag("overrule-shutdown") {
        if call.world.ha.contains(&vmid) {
            return Err(ApiError::invalid(
                "overrule-shutdown",
                "Not applicable for HA resources.",
            ));
        }
        let id = vmid.to_string();
        let going: Vec<u32> = call
            .world
            .tasks
            .iter()
            .filter(|t| t.is_running() && t.kind == "qmshutdown" && t.id == id)
            .map(|t| t.pid)
            .collect();
        for pid in going {
            call.world.interrupt_task(pid);
        }
    }
    spawn(call, PowerJob::new(vmid, Action::Stop))
}

fn waiting(call: &Call, action: Action) -> PowerJob {
    let durations = &call.world.durations;
    let timeout_ms = match call.number("timeout") {
        Some(seconds) => seconds * durations.second,
        None => durations.shutdown_limit,
    };
    PowerJob {
        timeout_ms,
        force: call.flag("forceStop"),
        ..PowerJob::new(call.vmid(), action)
    }
}

pub(super) fn shutdown(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock", "keepActive"])?;
    let paused = call
        .world
        .vms
        .get(&call.vmid())
        .and_then(|vm| vm.process())
        .is_some_and(|p| p.paused);
    if paused {
        return Err(ApiError::failed("VM is paused - cannot shutdown"));
    }
    let job = waiting(call, Action::Shutdown);
    spawn(call, job)
}

pub(super) fn reboot(call: &mut Call) -> Result<Reply, ApiError> {
    must_run(call)?;
    let job = waiting(call, Action::Reboot);
    spawn(call, job)
}

pub(super) fn reset(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock"])?;
    must_run(call)?;
    spawn(call, PowerJob::new(call.vmid(), Action::Reset))
}

pub(super) fn suspend(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock"])?;
    must_run(call)?;
    spawn(call, PowerJob::new(call.vmid(), Action::Suspend))
}

pub(super) fn resume(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock", "nocheck"])?;
    must_run(call)?;
    spawn(call, PowerJob::new(call.vmid(), Action::Resume))
}
