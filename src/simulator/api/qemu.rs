//! `/nodes/{node}/qemu`: lists, status, creation, destruction, templates.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::lifecycle::{CreateJob, DestroyJob, TemplateJob};
use crate::simulator::props::{Drive, is_drive, split_index};
use crate::simulator::task::vm_lock;
use crate::simulator::vm::{Config, Vm};

/// What lists and status have in common.
fn row(call: &Call, vm: &Vm, full: bool) -> Map<String, Value> {
    let now = call.world.now_ms;
    let mut row = json!({
        "vmid": vm.vmid, "name": vm.name(), "cpus": vm.cpus(), "maxmem": vm.memory(), "maxdisk": vm.max_disk(),
        "status": if vm.is_running() { "running" } else { "stopped" },
        "uptime": vm.process().map_or(0, |p| now.saturating_sub(p.since_ms) / 1000),
        "cpu": 0, "mem": 0, "memhost": 0, "disk": 0, "netin": 0, "netout": 0,
    });
    if let Some(process) = vm.process() {
        row["pid"] = Value::from(process.pid);
    }
    if vm.is_template() {
        row["template"] = Value::from(1);
    }
    if vm
        .config
        .current
        .keys()
        .any(|key| matches!(split_index(key), Some(("serial", _))))
    {
        row["serial"] = Value::from(1);
    }
    for key in ["lock", "tags"] {
        if let Some(value) = vm.config.get(key).filter(|v| !v.is_empty()) {
            row[key] = Value::from(value);
        }
    }
    if full {
        row["qmpstatus"] = Value::from(vm.qmp_status());
    }
    match row {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

pub(super) fn list(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, full) = (call.node(), call.flag("full"));
    let rows = call
        .world
        .vms
        .values()
        .filter(|vm| vm.node == node && call.world.may(&call.who, &format!("/vms/{}", vm.vmid), &["VM.Audit"]))
        .map(|vm| Value::Object(row(call, vm, full)));
    Ok(Reply::Data(rows.collect()))
}

pub(super) fn current(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    let mut row = row(call, vm, true);
    let mut ha = json!({ "managed": u8::from(call.world.ha.contains(&vmid)) });
    if call.world.ha.contains(&vmid) {
        ha["state"] = Value::from("started");
    }
    row.insert("ha".to_owned(), ha);
    if vm.agent() {
        row.insert("agent".to_owned(), Value::from(1));
    }
    if vm.is_running() {
        row.insert("running-qemu".to_owned(), Value::from("10.1.2"));
        row.insert("running-machine".to_owned(), Value::from("pc-i440fx-10.1+pve0"));
    }
    Ok(Reply::Data(Value::Object(row)))
}

pub(super) fn index(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    call.world.vm_on(&node, vmid)?;
    let names = [
        "config",
        "cloudinit",
        "pending",
        "status",
        "unlink",
        "migrate",
        "resize",
        "agent",
        "snapshot",
        "feature",
    ];
    Ok(Reply::Data(names.iter().map(|n| json!({ "subdir": n })).collect()))
}

pub(super) fn status_index(_call: &mut Call) -> Result<Reply, ApiError> {
    let names = ["current", "start", "stop", "reset", "shutdown", "suspend", "reboot"];
    Ok(Reply::Data(names.iter().map(|n| json!({ "subdir": n })).collect()))
}

pub(super) fn feature(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    let has = match call.get("feature") {
        Some("snapshot") => call.world.can_snapshot(vm).is_ok(),
        Some("copy") => true,
        _ => vm.is_template(),
    };
    Ok(Reply::Data(json!({"hasFeature": u8::from(has), "nodes": [node]})))
}

pub(super) fn template(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    if let Some(lock) = vm.lock() {
        return Err(ApiError::failed(format!("VM is locked ({lock})")));
    }
    if !vm.config.snapshots.is_empty() {
        return Err(ApiError::failed(
            "unable to create template, because VM contains snapshots",
        ));
    }
    if vm.is_template() {
        return Err(ApiError::failed("you can't convert a template to a template"));
    }
    if vm.is_running() {
        return Err(ApiError::failed("you can't convert a VM to template if VM is running"));
    }
    let job = Job::Template(TemplateJob { vmid, stage: 0 });
    let upid = call
        .world
        .spawn(&call.who.id, &node, "qmtemplate", &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}

pub(super) fn create(call: &mut Call) -> Result<Reply, ApiError> {
    let node = call.node();
    let vmid = u32::try_from(call.number("vmid").unwrap_or(0)).unwrap_or(0);
    if let Some(archive) = call.get("archive") {
        return Err(ApiError::failed(format!("volume '{archive}' does not exist")));
    }
    let pool = call.take("pool");
    check_new_id(call, vmid, pool.as_deref())?;
    let path = match &pool {
        Some(pool) => format!("/pool/{pool}"),
        None => format!("/vms/{vmid}"),
    };
    let mut values: IndexMap<String, String> = IndexMap::new();
    for (key, value) in &call.params {
        if !matches!(
            key.as_str(),
            "vmid" | "pool" | "start" | "storage" | "bwlimit" | "unique" | "force" | "ha-managed"
        ) {
            values.insert(key.clone(), value.clone());
        }
    }
    call.world.normalise(&mut values)?;
    for (key, value) in &values {
        call.world.check_key(&call.who, &node, vmid, key, Some(value), &path)?;
        call.world.check_drive_storage(&call.who, key, value)?;
        if let Some(source) = Drive::parse(value).option("import-from").filter(|_| is_drive(key)) {
            check_import(call, source)?;
        }
    }
    call.world.check_quorum()?;
    let key = vm_lock(&node, vmid);
    if call.world.is_locked(&key) {
        let until = call.arrived_ms + call.world.durations.lock_wait / 2;
        if call.world.now_ms < until {
            return Ok(Reply::Wait(until));
        }
        return Err(ApiError::failed(format!(
            "unable to create VM {vmid} - can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"
        )));
    }
    if let Some(owner) = call.world.vmid_taken(vmid) {
        return Err(ApiError::failed(format!(
            "unable to create VM {vmid} - VM {vmid} already exists on node '{owner}'"
        )));
    }
    let job = Job::Create(CreateJob {
        vmid,
        values,
        pool,
        start: call.flag("start"),
        stage: 0,
    });
    let upid = call
        .world
        .spawn(&call.who.id, &node, "qmcreate", &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}

fn check_import(call: &Call, source: &str) -> Result<(), ApiError> {
    if source.starts_with('/') {
        return Err(ApiError::failed(
            "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.",
        ));
    }
    let storage = source.split(':').next().unwrap_or_default();
    call.check(
        &format!("/storage/{storage}"),
        &["Datastore.AllocateSpace", "Datastore.Audit"],
    )
}

/// VM.Allocate on the new id, or on the pool that the request names.
pub(super) fn check_new_id(call: &Call, vmid: u32, pool: Option<&str>) -> Result<(), ApiError> {
    if let Some(pool) = pool.filter(|pool| !call.world.pools.contains_key(*pool)) {
        return Err(ApiError::denied(&format!("pool '{pool}' does not exist")));
    }
    let on_pool = pool.is_some_and(|pool| call.world.may(&call.who, &format!("/pool/{pool}"), &["VM.Allocate"]));
    if on_pool || call.world.may(&call.who, &format!("/vms/{vmid}"), &["VM.Allocate"]) {
        Ok(())
    } else {
        Err(ApiError::denied(""))
    }
}

pub(super) fn destroy(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock"])?;
    let (node, vmid, purge) = (call.node(), call.vmid(), call.flag("purge"));
    let vm = call.world.vm_on(&node, vmid)?;
    if vm.config.get("protection") == Some("1") {
        return Err(ApiError::failed(format!(
            "can't remove VM {vmid} - protection mode enabled"
        )));
    }
    if !purge && call.world.ha.contains(&vmid) {
        return Err(ApiError::failed(format!(
            "unable to remove VM {vmid} - used in HA resources and purge parameter not set."
        )));
    }
    if !purge && call.world.replicated.contains(&vmid) {
        return Err(ApiError::failed(format!(
            "There is a replication job '{vmid}-0' for guest '{vmid}' - Please remove that first."
        )));
    }
    if vm.is_running() {
        return Err(ApiError::failed(format!("VM {vmid} is running - destroy failed")));
    }
    let job = Job::Destroy(DestroyJob {
        vmid,
        purge,
        unreferenced: call.flag("destroy-unreferenced-disks"),
        stage: 0,
    });
    let upid = call
        .world
        .spawn(&call.who.id, &node, "qmdestroy", &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}

impl crate::simulator::world::World {
    /// Whether all disks of a VM can have snapshots.
    pub(crate) fn can_snapshot(&self, vm: &Vm) -> Result<(), ApiError> {
        for (_, drive) in Config::drives(&vm.config.current) {
            let raw_file = self.volume(&vm.node, &drive.file).is_some_and(|v| v.format == "raw")
                && self
                    .storages
                    .get(drive.storage().unwrap_or_default())
                    .is_some_and(|s| s.is_files());
            if raw_file && !drive.is_cdrom() {
                return Err(ApiError::failed("snapshot feature is not available"));
            }
        }
        Ok(())
    }
}
