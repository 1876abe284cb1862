//! `/migrate`: what a migration would meet, and its start.

use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::migrate::MigrateJob;
use crate::simulator::jobs::power::HaJob;
use crate::simulator::vm::Config;

pub(super) fn check(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let world = &call.world;
    let vm = world.vm_on(&node, vmid)?;
    if let Some(lock) = vm.lock() {
        return Err(ApiError::failed(format!("VM is locked ({lock})")));
    }
    let drives = Config::drives(&vm.config.current);
    let mut local = Vec::new();
    for (slot, drive) in &drives {
        let Some(id) = drive.storage() else {
            continue;
        };
        if world.volume_home(id, &node).is_empty() {
            continue;
        }
        let mut row = json!({
            "volid": drive.file, "drivename": slot, "cdrom": u8::from(drive.is_cdrom()), "shared": 0,
            "is_cloudinit": u8::from(drive.is_cloudinit()), "is_unused": 0, "is_attached": 1, "is_vmstate": 0,
            "is_tpmstate": 0, "replicate": 1,
        });
        if let Some(volume) = world.volume(&node, &drive.file).filter(|_| !drive.is_cdrom()) {
            row["size"] = Value::from(volume.size);
        }
        local.push(row);
    }
    let mut allowed = Vec::new();
    let mut refused = Map::new();
    for other in world.nodes.keys().filter(|n| **n != node) {
        let missing: Vec<&str> = drives
            .iter()
            .filter_map(|(_, drive)| drive.storage())
            .filter(|id| world.usable_storage(id, other).is_err())
            .collect();
        if missing.is_empty() && world.node_online(other) {
            allowed.push(Value::from(other.as_str()));
        } else {
            refused.insert(other.clone(), json!({ "unavailable_storages": missing }));
        }
    }
    Ok(Reply::Data(json!({
        "running": u8::from(vm.is_running()), "allowed_nodes": allowed, "not_allowed_nodes": refused,
        "local_disks": local, "local_resources": [], "mapped-resources": [], "mapped-resource-info": {},
        "has-dbus-vmstate": 1,
    })))
}

pub(super) fn start(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["force", "migration_type", "migration_network"])?;
    let (node, vmid) = (call.node(), call.vmid());
    let target = call.take("target").unwrap_or_default();
    if target == node {
        return Err(ApiError::invalid("target", "target is local node."));
    }
    call.world.check_quorum()?;
    if !call.world.nodes.contains_key(&target) {
        return Err(ApiError::failed(format!("no such cluster node '{target}'")));
    }
    let target_storage = call.take("targetstorage");
    if target_storage.as_deref().is_some_and(|s| s != "1") {
        call.check(&format!("/vms/{vmid}"), &["VM.Config.Disk"])?;
    }
    if let Some(storage) = target_storage.as_deref().filter(|s| *s != "1") {
        call.check(&format!("/storage/{storage}"), &["Datastore.AllocateSpace"])?;
        call.world.usable_storage(storage, &target)?;
    }
    let vm = call.world.vm_on(&node, vmid)?;
    if let Some(lock) = vm.lock() {
        return Err(ApiError::failed(format!("VM is locked ({lock})")));
    }
    if vm.is_running() && !call.flag("online") {
        return Err(ApiError::failed("can't migrate running VM without --online"));
    }
    if target_storage.is_none() {
        for (_, drive) in Config::drives(&vm.config.current) {
            if let Some(id) = drive.storage() {
                call.world.usable_storage(id, &target)?;
            }
        }
    }
    let job = Job::Migrate(MigrateJob {
        vmid,
        target,
        online: call.flag("online"),
        with_local_disks: call.flag("with-local-disks"),
        target_storage,
        stage: 0,
        locked: false,
    });
    let (kind, job) = if call.world.ha.contains(&vmid) {
        let then = Box::new(job);
        (
            "hamigrate",
            Job::Ha(HaJob {
                kind: "qmigrate".to_owned(),
                vmid,
                then,
                stage: 0,
            }),
        )
    } else {
        ("qmigrate", job)
    };
    let upid = call.world.spawn(&call.who.id, &node, kind, &vmid.to_string(), job);
    Ok(Reply::Data(Value::from(upid)))
}
