//! `POST .../clone`: the checks before the task.

use serde_json::Value;

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::clone::CloneJob;
use crate::simulator::props::{Net, net_index};
use crate::simulator::vm::Config;

pub(super) fn clone(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, source) = (call.node(), call.vmid());
    let newid = u32::try_from(call.number("newid").unwrap_or(0)).unwrap_or(0);
    let pool = call.take("pool");
    super::qemu::check_new_id(call, newid, pool.as_deref())?;
    let storage = call.take("storage");
    let target = call.take("target");
    if let Some(target) = &target
        && !call.world.nodes.contains_key(target)
    {
        return Err(ApiError::failed(format!("no such cluster node '{target}'")));
    }
    call.world.check_quorum()?;
    let vm = call.world.vms.get(&source).filter(|vm| vm.node == node);
    let (template, values, locked) = match vm {
        None => {
            return Err(ApiError::failed(format!(
                "unable to find configuration file for VM {source} on node '{node}'"
            )));
        }
        Some(vm) => {
            let values = match call.get("snapname") {
                Some(name) => vm
                    .config
                    .snapshots
                    .get(name)
                    .map(|s| s.values.clone())
                    .ok_or_else(|| ApiError::failed(format!("snapshot '{name}' does not exist")))?,
                None => vm.config.current.clone(),
            };
            (vm.is_template(), values, vm.lock().map(str::to_owned))
        }
    };
    if let Some(lock) = locked {
        return Err(ApiError::failed(format!("VM is locked ({lock})")));
    }
    let full = match call.get("full") {
        Some(flag) => flag == "1",
        None => !template,
    };
    if !full {
        for name in ["storage", "format"] {
            if call.get(name).is_some() {
                return Err(ApiError::failed(format!(
                    "parameter '{name}' not allowed for linked clones"
                )));
            }
        }
    }
    if let Some(id) = &storage {
        let known = call.world.usable_storage(id, &node)?;
        if !known.takes("images") {
            return Err(ApiError::invalid(
                "storage",
                format!("storage '{id}' does not support vm images"),
            ));
        }
    }
    if call.world.vmid_taken(newid).is_some() {
        return Err(ApiError::failed(format!(
            "unable to create VM {newid}: config file already exists"
        )));
    }
    check_volumes(call, &values, full, storage.as_deref(), target.as_deref(), template)?;
    for (key, text) in values.iter().filter(|(key, _)| net_index(key).is_some()) {
        let _ = key;
        if call.world.major() >= 8 {
            call.world.check_bridge_use(&call.who, &Net::parse(text))?;
        }
    }
    let job = CloneJob {
        source,
        newid,
        full,
        storage,
        format: call.take("format"),
        target,
        name: call.take("name"),
        description: call.take("description"),
        pool,
        snapname: call.take("snapname"),
        bwlimit: call.number("bwlimit").unwrap_or(0),
        stage: 0,
        created: false,
        made: Vec::new(),
        config: Config::default(),
    };
    let upid = call.world.spawn(
        &call.who.id,
        &node,
        "qmclone",
        &source.to_string(),
        Job::Clone(Box::new(job)),
    );
    if let Some(task) = call.world.tasks.last_mut() {
        task.due_ms += call.world.durations.fork;
    }
    Ok(Reply::Data(Value::from(upid)))
}

/// Each disk's storage: may be used, can link, is on the target.
fn check_volumes(
    call: &Call,
    values: &indexmap::IndexMap<String, String>,
    full: bool,
    storage: Option<&str>,
    target: Option<&str>,
    template: bool,
) -> Result<(), ApiError> {
    let node = call.node();
    let world = &call.world;
    let elsewhere = target.filter(|t| *t != node);
    for (slot, drive) in Config::drives(values) {
        let Some(own) = drive.storage() else {
            continue;
        };
        if let Some(target) = elsewhere
            && !world.volume_home(own, &node).is_empty()
        {
            return Err(ApiError::failed(format!(
                "can't clone VM to node '{target}' (VM uses local storage)"
            )));
        }
        if drive.is_cdrom() {
            continue;
        }
        if !full && !template {
            return Err(ApiError::failed(format!(
                "Linked clone feature is not supported for '{}' ({slot})",
                drive.file
            )));
        }
        let goes_to = storage.unwrap_or(own);
        call.check(&format!("/storage/{goes_to}"), &["Datastore.AllocateSpace"])?;
    }
    if let (Some(target), Some(storage)) = (elsewhere, storage) {
        if !world.volume_home(storage, &node).is_empty() {
            return Err(ApiError::failed(format!(
                "can't clone to non-shared storage '{storage}'"
            )));
        }
        world.usable_storage(storage, target)?;
    }
    Ok(())
}
