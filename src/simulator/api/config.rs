//! A VM's config: read, change, resize.

use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;
use crate::simulator::jobs::Job;
use crate::simulator::jobs::change::{ConfigJob, ResizeJob};
use crate::simulator::schema::config_json;
use crate::simulator::task::vm_lock;

/// A value as it is shown: passwords are masked.
fn shown(key: &str, value: &str) -> Value {
    if key == "cipassword" {
        return Value::from("**********");
    }
    if key == "description" {
        return Value::from(value.trim_end());
    }
    config_json(key, value)
}

pub(super) fn read(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let config = &call.world.vm_on(&node, vmid)?.config;
    let mut values = match call.get("snapshot") {
        Some(name) => {
            let snapshot = config
                .snapshots
                .get(name)
                .ok_or_else(|| ApiError::failed(format!("snapshot '{name}' does not exist")))?;
            let mut values = snapshot.values.clone();
            if let Some(text) = &snapshot.description {
                values.insert("description".to_owned(), text.clone());
            }
            values.insert("snaptime".to_owned(), snapshot.time.to_string());
            values
        }
        None if call.flag("current") => config.current.clone(),
        None => config.applied(),
    };
    values.insert("digest".to_owned(), config.digest());
    let map: Map<String, Value> = values.iter().map(|(k, v)| (k.clone(), shown(k, v))).collect();
    Ok(Reply::Data(Value::Object(map)))
}

pub(super) fn pending(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let config = &call.world.vm_on(&node, vmid)?.config;
    let mut rows = Vec::new();
    for (key, value) in &config.current {
        let mut row = json!({"key": key, "value": shown(key, value)});
        if let Some(next) = config.pending.get(key) {
            row["pending"] = shown(key, next);
        }
        if let Some(force) = config.removals.get(key) {
            row["delete"] = Value::from(if *force { 2 } else { 1 });
        }
        rows.push(row);
    }
    for (key, value) in config.pending.iter().filter(|(key, _)| config.get(key).is_none()) {
        rows.push(json!({"key": key, "pending": shown(key, value)}));
    }
    rows.push(json!({"key": "digest", "value": config.digest()}));
    Ok(Reply::Data(Value::from(rows)))
}

/// Waits while a task holds the VM's lock; the error once that took too long.
fn wait_for_lock(call: &Call) -> Result<Option<Reply>, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    if !call.world.is_locked(&vm_lock(&node, vmid)) {
        return Ok(None);
    }
    let until = call.arrived_ms + call.world.durations.lock_wait;
    if call.world.now_ms < until {
        return Ok(Some(Reply::Wait(until)));
    }
    Err(ApiError::failed(format!(
        "can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"
    )))
}

pub(super) fn put(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let update = call
        .world
        .plan_update(&call.who.clone(), &node, vmid, &call.params.clone())?;
    check_plus(call)?;
    if let Some(wait) = wait_for_lock(call)? {
        return Ok(wait);
    }
    call.world.check_config_quorum(&node, vmid)?;
    call.world.run_update(&node, vmid, &update, &mut Vec::new())?;
    Ok(Reply::Data(Value::Null))
}

/// `+2` passes the schema and then does not.
fn check_plus(call: &Call) -> Result<(), ApiError> {
    match call
        .params
        .iter()
        .find(|(k, v)| v.starts_with('+') && matches!(k.as_str(), "cores" | "sockets" | "vcpus"))
    {
        Some((key, value)) => Err(ApiError::failed(format!(
            "unable to parse value of '{key}' - type check ('integer') failed - got '{value}'"
        ))),
        None => Ok(()),
    }
}

pub(super) fn post(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let update = call
        .world
        .plan_update(&call.who.clone(), &node, vmid, &call.params.clone())?;
    let newer = call.world.major() >= 9;
    if !newer && let Some(wait) = wait_for_lock(call)? {
        return Ok(wait);
    }
    call.world.check_config_quorum(&node, vmid)?;
    let shown: Vec<String> = call
        .params
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "digest" | "background_delay"))
        .map(|(key, value)| {
            if key == "cipassword" {
                format!("-{key} <hidden>")
            } else {
                format!("-{key} {value}")
            }
        })
        .collect();
    let job = Job::Config(ConfigJob {
        vmid,
        update,
        shown: shown.join(" "),
        stage: 0,
    });
    let upid = call
        .world
        .spawn(&call.who.id, &node, "qmconfig", &vmid.to_string(), job);
    match call.number("background_delay") {
        Some(seconds) => Ok(Reply::Follow {
            upid,
            until_ms: call.world.now_ms + seconds * call.world.durations.second,
        }),
        None => Ok(Reply::Data(Value::from(upid))),
    }
}

pub(super) fn unlink(call: &mut Call) -> Result<Reply, ApiError> {
    let mut params = vec![("delete".to_owned(), call.take("idlist").unwrap_or_default())];
    if call.flag("force") {
        params.push(("force".to_owned(), "1".to_owned()));
    }
    call.params = params;
    put(call)
}

pub(super) fn resize(call: &mut Call) -> Result<Reply, ApiError> {
    call.root_only(&["skiplock"])?;
    let (node, vmid) = (call.node(), call.vmid());
    let job = ResizeJob {
        vmid,
        disk: call.take("disk").unwrap_or_default(),
        size: call.take("size").unwrap_or_default(),
        digest: call.take("digest"),
        stage: 0,
    };
    let drive = call
        .world
        .vms
        .get(&vmid)
        .and_then(|vm| vm.config.get(&job.disk).map(str::to_owned));
    if let Some(storage) = drive
        .as_deref()
        .and_then(|d| d.split_once(':'))
        .map(|(s, _)| s.to_owned())
    {
        call.check(&format!("/storage/{storage}"), &["Datastore.AllocateSpace"])?;
    }
    if call.world.major() < 8 {
        if let Some(wait) = wait_for_lock(call)? {
            return Ok(wait);
        }
        job.apply(call.world, &node, &mut Vec::new())
            .map_err(ApiError::failed)?;
        return Ok(Reply::Data(Value::Null));
    }
    let upid = call
        .world
        .spawn(&call.who.id, &node, "resize", &vmid.to_string(), Job::Resize(job));
    Ok(Reply::Data(Value::from(upid)))
}

impl crate::simulator::world::World {
    /// What pmxcfs says to a write without quorum.
    pub(crate) fn check_config_quorum(&self, node: &str, vmid: u32) -> Result<(), ApiError> {
        if self.quorate {
            return Ok(());
        }
        Err(ApiError::failed(format!(
            "unable to open file '/etc/pve/nodes/{node}/qemu-server/{vmid}.conf.tmp.4711' - Permission denied"
        )))
    }
}
