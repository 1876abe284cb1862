//! Snapshots: as much as a tool meets that removes VMs.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::lifecycle::SnapshotJob;

pub(super) fn list(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    let mut rows: Vec<Value> = Vec::new();
    for (name, snapshot) in &vm.config.snapshots {
        let mut row = json!({
            "name": name, "snaptime": snapshot.time, "vmstate": 0,
            "description": snapshot.description.clone().unwrap_or_default(),
        });
        if let Some(parent) = snapshot.values.get("parent") {
            row["parent"] = Value::from(parent.as_str());
        }
        rows.push(row);
    }
    let mut current = json!({
        "name": "current", "description": "You are here!", "running": u8::from(vm.is_running()),
        "digest": vm.config.digest(),
    });
    if let Some(parent) = vm.config.get("parent") {
        current["parent"] = Value::from(parent);
    }
    rows.push(current);
    Ok(Reply::Data(Value::from(rows)))
}

fn spawn(call: &mut Call, kind: &str, name: String) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let job = Job::Snapshot(SnapshotJob {
        vmid,
        name,
        description: call.take("description"),
        kind: kind.to_owned(),
        stage: 0,
    });
    let upid = call.world.spawn(&call.who.id, &node, kind, &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}

pub(super) fn create(call: &mut Call) -> Result<Reply, ApiError> {
    let name = call.take("snapname").unwrap_or_default();
    if matches!(name.as_str(), "current" | "pending") {
        return Err(ApiError::failed(format!(
            "unable to use snapshot name '{name}' (reserved name)"
        )));
    }
    spawn(call, "qmsnapshot", name)
}

pub(super) fn delete(call: &mut Call) -> Result<Reply, ApiError> {
    let name = call.part("snapname").to_owned();
    spawn(call, "qmdelsnapshot", name)
}

pub(super) fn rollback(call: &mut Call) -> Result<Reply, ApiError> {
    let name = call.part("snapname").to_owned();
    spawn(call, "qmrollback", name)
}
