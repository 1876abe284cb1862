//! Tasks: lists, state, log, stop.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::access::Identity;
use crate::simulator::fail::ApiError;
use crate::simulator::task::{Task, upid_node};

/// Whether a task is somebody's own: a user owns those of its tokens, a token only its own.
fn owns(who: &Identity, task_user: &str) -> bool {
    who.id == task_user || (who.token().is_none() && task_user.split('!').next() == Some(who.id.as_str()))
}

/// The task of the path, once the caller may see (or stop) it.
fn find<'a>(call: &'a Call, privilege: &str) -> Result<Option<&'a Task>, ApiError> {
    let (node, upid) = (call.node(), call.part("upid"));
    if upid_node(upid).is_none() {
        return Err(ApiError::invalid("upid", "unable to parse worker upid"));
    }
    let user = upid.rsplit(':').nth(1).unwrap_or_default();
    if !owns(&call.who, user) {
        call.check(&format!("/nodes/{node}"), &[privilege])?;
    }
    Ok(call.world.task(upid).filter(|task| task.node == node))
}

fn known<'a>(call: &'a Call, privilege: &str) -> Result<&'a Task, ApiError> {
    find(call, privilege)?.ok_or_else(|| ApiError::invalid("upid", "no such task"))
}

fn user_of(task: &Task) -> (&str, Option<&str>) {
    match task.user.split_once('!') {
        Some((user, token)) => (user, Some(token)),
        None => (task.user.as_str(), None),
    }
}

fn facts(task: &Task) -> Value {
    let (user, token) = user_of(task);
    let mut row = json!({
        "upid": task.upid, "node": task.node, "pid": task.pid, "pstart": task.pstart,
        "starttime": task.start_ms / 1000, "type": task.kind, "id": task.id, "user": user,
    });
    if let Some(token) = token {
        row["tokenid"] = Value::from(token);
    }
    row
}

pub(super) fn index(call: &mut Call) -> Result<Reply, ApiError> {
    known(call, "Sys.Audit")?;
    Ok(Reply::Data(json!([{"name": "log"}, {"name": "status"}])))
}

pub(super) fn status(call: &mut Call) -> Result<Reply, ApiError> {
    let task = known(call, "Sys.Audit")?;
    let mut row = facts(task);
    row["status"] = Value::from(if task.is_running() { "running" } else { "stopped" });
    if let Some(exit) = &task.exit {
        row["exitstatus"] = Value::from(exit.as_str());
    }
    Ok(Reply::Data(row))
}

pub(super) fn log(call: &mut Call) -> Result<Reply, ApiError> {
    let lines = match find(call, "Sys.Audit")? {
        Some(task) => task.lines(),
        None => vec!["unable to open file - No such file or directory".to_owned()],
    };
    if call.flag("download") {
        return Ok(Reply::Text(lines.join("\n") + "\n"));
    }
    let start = usize::try_from(call.number("start").unwrap_or(0)).unwrap_or(usize::MAX);
    let limit = match call.number("limit") {
        Some(0) => usize::MAX,
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        None => 50,
    };
    let rows = lines
        .iter()
        .enumerate()
        .skip(start)
        .take(limit)
        .map(|(number, text)| json!({"n": number + 1, "t": text}))
        .collect();
    Ok(Reply::List(rows, lines.len()))
}

pub(super) fn stop(call: &mut Call) -> Result<Reply, ApiError> {
    let pid = {
        let task = known(call, "Sys.Modify")?;
        task.is_running().then_some(task.pid)
    };
    if let Some(pid) = pid {
        call.world.interrupt_task(pid);
    }
    Ok(Reply::Data(Value::Null))
}

/// A task in lists.
fn row(task: &Task) -> Value {
    let mut row = facts(task);
    match (&task.exit, task.end_ms) {
        (Some(exit), Some(end)) => {
            row["status"] = Value::from(exit.as_str());
            row["endtime"] = Value::from(end / 1000);
        }
        _ => {
            row["status"] = Value::from("RUNNING");
            row["user"] = Value::from(task.user.as_str());
            row["saved"] = Value::from("0");
            if let Some(map) = row.as_object_mut() {
                map.remove("tokenid");
            }
        }
    }
    row
}

pub(super) fn list(call: &mut Call) -> Result<Reply, ApiError> {
    let node = call.node();
    let auditor = call.world.may(&call.who, &format!("/nodes/{node}"), &["Sys.Audit"]);
    let source = call.get("source").unwrap_or("archive");
    let seconds = |task: &Task| task.start_ms / 1000;
    let id = call.number("vmid").map(|v| v.to_string());
    let wanted = |task: &&Task| {
        task.node == node
            && (auditor || owns(&call.who, &task.user))
            && match source {
                "active" => task.is_running(),
                "archive" => !task.is_running(),
                _ => true,
            }
            && id.as_ref().is_none_or(|id| &task.id == id)
            && call.get("typefilter").is_none_or(|kind| kind == task.kind)
            && call.get("userfilter").is_none_or(|user| task.user.contains(user))
            && call.number("since").is_none_or(|since| seconds(task) >= since)
            && call.number("until").is_none_or(|until| seconds(task) <= until)
            && (!call.flag("errors") || is_error(task))
            && call
                .get("statusfilter")
                .is_none_or(|filter| filter.split(',').any(|kind| has_status(task, kind)))
    };
    let mut found: Vec<&Task> = call.world.tasks.iter().rev().filter(wanted).collect();
    found.sort_by_key(|task| !task.is_running());
    let total = found.len();
    let start = usize::try_from(call.number("start").unwrap_or(0)).unwrap_or(usize::MAX);
    let limit = usize::try_from(call.number("limit").unwrap_or(50)).unwrap_or(usize::MAX);
    let rows = found.into_iter().skip(start).take(limit).map(row).collect();
    Ok(Reply::List(rows, total))
}

fn is_error(task: &Task) -> bool {
    has_status(task, "error") || has_status(task, "unknown")
}

fn has_status(task: &Task, kind: &str) -> bool {
    let exit = task.exit.as_deref().unwrap_or_default();
    let warning = exit.starts_with("WARNINGS");
    match kind {
        "ok" => exit == "OK",
        "warning" => warning,
        "unknown" => exit == "unexpected status",
        _ => !exit.is_empty() && exit != "OK" && !warning && exit != "unexpected status",
    }
}

pub(super) fn cluster(call: &mut Call) -> Result<Reply, ApiError> {
    let mut rows = Vec::new();
    for node in call.world.nodes.keys() {
        let auditor = call.world.may(&call.who, &format!("/nodes/{node}"), &["Sys.Audit"]);
        let own = call.world.tasks.iter().rev().filter(|t| &t.node == node);
        for task in own.filter(|t| auditor || owns(&call.who, &t.user)).take(25) {
            let mut row = facts(task);
            if let (Some(exit), Some(end)) = (&task.exit, task.end_ms) {
                row["status"] = Value::from(exit.as_str());
                row["endtime"] = Value::from(end / 1000);
                row["saved"] = Value::from("1");
            }
            rows.push(row);
        }
    }
    Ok(Reply::Data(Value::from(rows)))
}
