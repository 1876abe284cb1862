//! The guest agent.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;

/// Refuses when no agent answers; a missing answer takes its three seconds.
fn alive(call: &Call) -> Result<Option<Reply>, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    if vm.config.get("agent").is_none() {
        return Err(ApiError::failed("No QEMU guest agent configured"));
    }
    let Some(process) = vm.process() else {
        return Err(ApiError::failed(format!("VM {vmid} is not running")));
    };
    if process.agent && !process.paused && vm.guest.agent_answers(call.world.now_ms) {
        return Ok(None);
    }
    Ok(Some(Reply::After(
        3 * call.world.durations.second,
        Err(ApiError::failed("QEMU guest agent is not running")),
    )))
}

/// Answers with something that the guest says.
fn ask(call: &mut Call, question: fn(&crate::simulator::guest::Guest, u64) -> Value) -> Result<Reply, ApiError> {
    if let Some(late) = alive(call)? {
        return Ok(late);
    }
    let (node, vmid, now) = (call.node(), call.vmid(), call.world.now_ms);
    let result = question(&call.world.vm_on(&node, vmid)?.guest, now);
    Ok(Reply::Data(json!({ "result": result })))
}

pub(super) fn ping(call: &mut Call) -> Result<Reply, ApiError> {
    ask(call, |_, _| json!({}))
}

pub(super) fn interfaces(call: &mut Call) -> Result<Reply, ApiError> {
    ask(call, |guest, now| guest.interfaces_json(now))
}

pub(super) fn host_name(call: &mut Call) -> Result<Reply, ApiError> {
    ask(call, |guest, _| json!({ "host-name": guest.host_name() }))
}

pub(super) fn osinfo(call: &mut Call) -> Result<Reply, ApiError> {
    ask(call, |guest, _| guest.osinfo_json())
}

pub(super) fn info(call: &mut Call) -> Result<Reply, ApiError> {
    ask(call, |_, _| json!({"version": "7.2.22", "supported_commands": []}))
}

pub(super) fn any(call: &mut Call) -> Result<Reply, ApiError> {
    match call.get("command") {
        Some("ping") => ping(call),
        Some("network-get-interfaces") => interfaces(call),
        Some("get-host-name") => host_name(call),
        Some("get-osinfo") => osinfo(call),
        Some("info") => info(call),
        Some("shutdown") => shutdown(call),
        _ => ask(
            call,
            |_, _| json!({"error": {"class": "CommandNotFound", "desc": "The command has been disabled"}}),
        ),
    }
}

pub(super) fn shutdown(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(late) = alive(call)? {
        return Ok(late);
    }
    let (vmid, now, durations) = (call.vmid(), call.world.now_ms, call.world.durations.clone());
    if let Some(guest) = call.world.guest_mut(vmid) {
        guest.acpi_shutdown(now, &durations);
    }
    Ok(Reply::Data(json!({ "result": null })))
}

pub(super) fn exec(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(late) = alive(call)? {
        return Ok(late);
    }
    let (vmid, now, durations) = (call.vmid(), call.world.now_ms, call.world.durations.clone());
    let command: Vec<String> = call
        .params
        .iter()
        .filter(|(k, _)| k == "command")
        .map(|(_, v)| v.clone())
        .collect();
    let input = call.take("input-data").unwrap_or_default();
    call.world.next_pid += 1;
    let pid = call.world.next_pid;
    let Some(vm) = call.world.vms.get_mut(&vmid) else {
        return Err(ApiError::failed("Agent error: no such VM"));
    };
    let result = vm.guest.agent_exec(now, &durations, &command, input.as_bytes());
    vm.agent_results.insert(pid, result);
    Ok(Reply::Data(json!({ "pid": pid })))
}

pub(super) fn exec_status(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(late) = alive(call)? {
        return Ok(late);
    }
    let vmid = call.vmid();
    let pid = u32::try_from(call.number("pid").unwrap_or(0)).unwrap_or(0);
    let result = call
        .world
        .vms
        .get_mut(&vmid)
        .and_then(|vm| vm.agent_results.shift_remove(&pid));
    let Some(result) = result else {
        return Err(ApiError::failed(format!("Agent error: PID {pid} does not exist")));
    };
    let mut data = json!({ "exited": 1, "exitcode": result.code });
    if !result.stdout.is_empty() {
        data["out-data"] = Value::from(result.stdout);
    }
    if !result.stderr.is_empty() {
        data["err-data"] = Value::from(result.stderr);
    }
    Ok(Reply::Data(data))
}

pub(super) fn file_read(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(late) = alive(call)? {
        return Ok(late);
    }
    let (node, vmid, now) = (call.node(), call.vmid(), call.world.now_ms);
    let path = call.take("file").unwrap_or_default();
    match call.world.vm_on(&node, vmid)?.guest.agent_read_file(now, &path) {
        Ok(bytes) => {
            let content = String::from_utf8_lossy(&bytes);
            Ok(Reply::Data(json!({ "content": content, "bytes-read": bytes.len() })))
        }
        Err(why) => Err(ApiError::failed(format!("Agent error: {why}"))),
    }
}
