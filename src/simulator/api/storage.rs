//! Storages and their content.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::lifecycle::DeleteVolumeJob;
use crate::simulator::props::{percent_decode, split_list};

/// What lets somebody see a storage.
pub(super) const LOOK: &[&str] = &["Datastore.Audit", "Datastore.AllocateSpace"];

fn info(call: &Call, node: &str, id: &str) -> Option<Value> {
    let storage = call.world.storages.get(id)?;
    let enabled = !storage.disabled && storage.on_node(node);
    let (used, total) = if enabled && storage.active {
        call.world.storage_usage(id, node)
    } else {
        (0, 0)
    };
    let mut row = json!({
        "type": storage.kind, "content": storage.content.join(","), "shared": u8::from(storage.shared),
        "enabled": u8::from(enabled), "active": u8::from(enabled && storage.active),
        "total": total, "used": used, "avail": total.saturating_sub(used),
    });
    if total > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a fraction for people")]
        let fraction = used as f64 / total as f64;
        row["used_fraction"] = Value::from(fraction);
    }
    Some(row)
}

pub(super) fn list(call: &mut Call) -> Result<Reply, ApiError> {
    let node = call.node();
    let contents = call.get("content").map(split_list);
    let target = call.get("target");
    let mut rows = Vec::new();
    for (id, storage) in &call.world.storages {
        let wanted = call.get("storage").is_none_or(|s| s == id)
            && contents.as_ref().is_none_or(|all| all.iter().any(|c| storage.takes(c)))
            && (!call.flag("enabled") || (!storage.disabled && storage.on_node(&node)))
            && target.is_none_or(|t| t == node || (storage.shared && storage.on_node(t)));
        if !wanted || !storage.on_node(&node) || !call.world.may(&call.who, &format!("/storage/{id}"), LOOK) {
            continue;
        }
        if let Some(mut row) = info(call, &node, id) {
            row["storage"] = Value::from(id.as_str());
            rows.push(row);
        }
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn status(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, id) = (call.node(), call.part("storage").to_owned());
    match info(call, &node, &id) {
        Some(row) => Ok(Reply::Data(row)),
        None => Err(ApiError::invalid("storage", "No such storage.")),
    }
}

fn config_row(call: &Call, id: &str) -> Option<Value> {
    let storage = call.world.storages.get(id)?;
    let mut row = json!({
        "storage": id, "type": storage.kind, "content": storage.content.join(","), "digest": "0",
    });
    if let Some(path) = &storage.path {
        row["path"] = Value::from(path.as_str());
    }
    if storage.shared {
        row["shared"] = Value::from(1);
    }
    if storage.disabled {
        row["disable"] = Value::from(1);
    }
    if !storage.nodes.is_empty() {
        row["nodes"] = Value::from(storage.nodes.join(","));
    }
    if let Some(dir) = &storage.snippets_dir {
        row["content-dirs"] = Value::from(format!("snippets={dir}"));
    }
    Some(row)
}

pub(super) fn configs(call: &mut Call) -> Result<Reply, ApiError> {
    let kind = call.get("type");
    let rows = call
        .world
        .storages
        .iter()
        .filter(|(id, storage)| {
            kind.is_none_or(|k| k == storage.kind) && call.world.may(&call.who, &format!("/storage/{id}"), LOOK)
        })
        .filter_map(|(id, _)| config_row(call, id));
    Ok(Reply::Data(rows.collect()))
}

pub(super) fn config(call: &mut Call) -> Result<Reply, ApiError> {
    let id = call.part("storage");
    match config_row(call, id) {
        Some(row) => Ok(Reply::Data(row)),
        None => Err(ApiError::failed(format!("storage '{id}' does not exist"))),
    }
}

/// Files of one kind of content on a storage, as (name, bytes, epoch seconds).
fn files(call: &Call, node: &str, id: &str, kind: &str) -> Vec<(String, u64, u64)> {
    let Some(dir) = call.world.content_dir(node, id, kind) else {
        return Vec::new();
    };
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let data = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            let time = data
                .modified()
                .ok()?
                .duration_since(std::time::UNIX_EPOCH)
                .ok()?
                .as_secs();
            Some((entry.file_name().to_string_lossy().into_owned(), data.len(), time))
        })
        .collect();
    found.sort();
    found
}

pub(super) fn content(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, id) = (call.node(), call.part("storage").to_owned());
    let (wanted, vmid) = (call.get("content"), call.number("vmid"));
    let storage = call.world.usable_storage(&id, &node)?.clone();
    let home = call.world.volume_home(&id, &node);
    let may_all = call
        .world
        .may(&call.who, &format!("/storage/{id}"), &["Datastore.Allocate"]);
    let mut rows = Vec::new();
    for volume in call
        .world
        .volumes
        .iter()
        .filter(|v| v.storage() == id && v.node == home)
    {
        if wanted.is_some_and(|c| c != "images") || vmid.is_some_and(|v| v != u64::from(volume.vmid)) {
            continue;
        }
        if !may_all
            && !call
                .world
                .may(&call.who, &format!("/vms/{}", volume.vmid), &["VM.Config.Disk"])
        {
            continue;
        }
        rows.push(json!({
            "volid": volume.volid, "vmid": volume.vmid, "size": volume.size, "used": volume.used,
            "format": volume.format, "content": "images", "ctime": volume.ctime, "parent": volume.base,
        }));
    }
    if vmid.is_none() && storage.is_files() {
        for (kind, format) in [
            ("iso", "iso"),
            ("snippets", "snippet"),
            ("vztmpl", "tgz"),
            ("import", "qcow2"),
        ] {
            if !storage.takes(kind) || wanted.is_some_and(|c| c != kind) || (kind == "snippets" && !may_all) {
                continue;
            }
            for (name, size, ctime) in files(call, &node, &id, kind) {
                rows.push(json!({
                    "volid": format!("{id}:{kind}/{name}"), "size": size, "ctime": ctime, "format": format,
                    "content": kind,
                }));
            }
        }
    }
    Ok(Reply::Data(Value::from(rows)))
}

fn volid_of(call: &Call) -> String {
    let volume = percent_decode(call.part("volume"), false);
    if volume.contains(':') {
        volume
    } else {
        format!("{}:{volume}", call.part("storage"))
    }
}

/// Who may touch a volume: its VM's, or everything on the storage.
fn check_access(call: &Call, volid: &str) -> Result<(), ApiError> {
    let id = call.part("storage");
    if call
        .world
        .may(&call.who, &format!("/storage/{id}"), &["Datastore.Allocate"])
    {
        return Ok(());
    }
    let owner = call.world.volumes.iter().find(|v| v.volid == volid).map(|v| v.vmid);
    match owner {
        Some(vmid) => call.check(&format!("/vms/{vmid}"), &["VM.Config.Disk"]),
        None => Err(ApiError::denied(&format!("/storage/{id}, Datastore.Allocate"))),
    }
}

pub(super) fn volume(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, volid) = (call.node(), volid_of(call));
    check_access(call, &volid)?;
    match call.world.volume(&node, &volid) {
        Some(volume) => Ok(Reply::Data(json!({
            "path": call.world.volume_path(&volid), "size": volume.size, "used": volume.used,
            "format": volume.format,
        }))),
        None => {
            call.world.check_volume(&node, &volid)?;
            let kind = volid.split([':', '/']).nth(1).unwrap_or_default().to_owned();
            let file = volid.rsplit('/').next().unwrap_or_default();
            let size = call
                .world
                .content_dir(&node, call.part("storage"), &kind)
                .and_then(|dir| std::fs::metadata(dir.join(file)).ok())
                .map_or(0, |data| data.len());
            Ok(Reply::Data(
                json!({"path": call.world.volume_path(&volid), "size": size, "format": kind}),
            ))
        }
    }
}

pub(super) fn delete(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, id, volid) = (call.node(), call.part("storage").to_owned(), volid_of(call));
    check_access(call, &volid)?;
    call.world.usable_storage(&id, &node)?;
    let owner = call.world.volumes.iter().find(|v| v.volid == volid).map(|v| v.vmid);
    let owner = owner.or_else(|| {
        let name = volid.split(':').nth(1)?;
        name.split(['/', '-']).find_map(|part| part.parse().ok())
    });
    let what = owner.map_or_else(|| id.clone(), |vmid| format!("{vmid}@{id}"));
    let job = Job::DeleteVolume(DeleteVolumeJob { volid, stage: 0 });
    let upid = call.world.spawn(&call.who.id, &node, "imgdel", &what, job);
    match call.number("delay") {
        Some(seconds) => Ok(Reply::Follow {
            upid,
            until_ms: call.world.now_ms + seconds * call.world.durations.second,
        }),
        None => Ok(Reply::Data(Value::from(upid))),
    }
}
