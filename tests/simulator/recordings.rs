//! Exchanges that were recorded from a real Proxmox VE 9.2.11, asked again of the simulator.
//!
//! An exchange holds when status, reason and the map of bad parameters are the same, when every recorded key is there
//! with the same type, and when configs, pending lists, task ends and logs have the same values but for what is random.
//! What stands outside the API in the recording (a lock set by hand, a killed worker) is done to the world by name.

use std::collections::BTreeMap;

use serde_json::Value;
use vmwright::simulator::{Request, Response};

use crate::contract::reference;
use crate::replay_world::{self as setup, World};
use crate::support::encode;

/// How many exchanges must hold: raised when more do.
const HOLD_AT_LEAST: usize = 932;

/// Keys of answers that depend on the machine, or that no client needs.
const IGNORED: &[&str] = &[
    "cgroup-mode",
    "clipboard",
    "cpuinfo",
    "current-kernel",
    "boot-info",
    "ksm",
    "meta",
    "message",
    "mem",
    "memhost",
    "nics",
    "has-dbus-vmstate",
    "cap",
    "netin",
    "netout",
    "running-qemu",
    "running-machine",
    "pid",
    "uptime",
    "idle",
    "snaptime",
];

struct Recorded {
    name: String,
    method: String,
    path: String,
    query: String,
    token: Option<String>,
    params: Vec<(String, String)>,
    raw: Option<(String, Option<String>)>,
    headers: BTreeMap<String, String>,
    status: u16,
    reason: String,
    body: Value,
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn read(file: &str) -> Option<Vec<Recorded>> {
    let path = reference("pve-recordings")?.join(file);
    let list: Vec<Value> = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let one = |e: &Value| {
        let full = text_of(&e["path"]);
        let (path, query) = full.split_once('?').map_or((full.as_str(), ""), |(p, q)| (p, q));
        let raw = e["request_body"].as_str().map(str::to_owned);
        let headers = e["request_headers"].as_object().into_iter().flatten();
        Recorded {
            name: text_of(&e["name"]),
            method: text_of(&e["method"]),
            path: path.to_owned(),
            query: query.to_owned(),
            token: e["token"].as_str().map(str::to_owned),
            params: e["params"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), text_of(v)))
                .collect(),
            raw: raw.map(|body| (body, e["request_content_type"].as_str().map(str::to_owned))),
            headers: headers.map(|(k, v)| (k.clone(), text_of(v))).collect(),
            status: e["status"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
            reason: text_of(&e["reason"]),
            body: e["body"].clone(),
        }
    };
    Some(list.iter().map(one).collect())
}

/// The request, with UPIDs and tickets of this run.
fn request_of(recorded: &Recorded, known: &BTreeMap<String, String>) -> Request {
    let mut path = recorded.path.clone();
    for (theirs, ours) in known.iter().filter(|(theirs, _)| theirs.starts_with("UPID:")) {
        let escaped = |upid: &str| encode(&[("", upid)])[1..].to_owned();
        path = path
            .replace(&escaped(theirs), &escaped(ours))
            .replace(theirs.as_str(), ours);
    }
    let ours = |value: &'_ String| known.get(value).unwrap_or(value).clone();
    let pairs: Vec<(String, String)> = recorded.params.iter().map(|(k, v)| (k.clone(), ours(v))).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let form = encode(&pairs);
    let reads = matches!(
        recorded.method.as_str(),
        "GET" | "DELETE" | "HEAD" | "PATCH" | "OPTIONS"
    );
    let header = |name: &str| {
        let value = recorded
            .headers
            .iter()
            .find(|(k, _)| k.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.clone())?;
        let mut value = value;
        for (theirs, ours) in known {
            value = value.replace(theirs.as_str(), ours);
        }
        Some(value)
    };
    let token = recorded.token.as_deref().map(setup::authorization);
    let (body, content_type) = match &recorded.raw {
        Some((body, kind)) => (body.clone().into_bytes(), kind.clone()),
        None if reads => (Vec::new(), None),
        None => (
            form.clone().into_bytes(),
            Some("application/x-www-form-urlencoded".to_owned()),
        ),
    };
    let query = match (reads, recorded.query.as_str()) {
        (true, "") => form,
        (_, query) => query.to_owned(),
    };
    Request {
        method: recorded.method.clone(),
        path,
        query,
        authorization: header("authorization").or(token),
        cookie: header("cookie"),
        csrf: header("csrfpreventiontoken"),
        content_type,
        body,
    }
}

/// A value without what is random or ignored.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(k, _)| !IGNORED.contains(&k.as_str()) && !k.starts_with("pressure"))
                .map(|(k, v)| (k.clone(), plain(v)))
                .collect(),
        ),
        Value::Array(all) => {
            let mut all: Vec<Value> = all.iter().map(plain).collect();
            all.sort_by_key(ToString::to_string);
            Value::Array(all)
        }
        Value::String(text) => Value::String(setup::without_random(text)),
        other => other.clone(),
    }
}

/// Only the kinds of values; a list is the set of the kinds of its entries.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), shape(v))).collect()),
        Value::Array(all) => {
            let mut kinds: Vec<Value> = all.iter().map(shape).collect();
            kinds.sort_by_key(ToString::to_string);
            kinds.dedup();
            Value::Array(kinds)
        }
        Value::String(_) => Value::from("text"),
        Value::Number(_) => Value::from("number"),
        Value::Bool(_) => Value::from("flag"),
        Value::Null => Value::Null,
    }
}

/// Whether everything of `theirs` is in `ours`.
fn covers(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => b.iter().all(|(k, v)| a.get(k).is_some_and(|own| covers(own, v))),
        (Value::Array(a), Value::Array(b)) => b.iter().all(|v| a.iter().any(|own| covers(own, v))),
        (a, b) => a == b,
    }
}

/// Lines of a log that tell the same on every machine.
fn lines(body: &Value) -> Vec<String> {
    let skipped = |line: &str| {
        [
            "Formatting",
            "transferred",
            "clone ",
            "kvm:",
            "qemu-img",
            "Removed volume",
        ]
        .iter()
        .any(|s| line.starts_with(s))
    };
    body["data"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| setup::without_random(row["t"].as_str().unwrap_or_default()))
        .filter(|line| !skipped(line))
        .collect()
}

/// Why an exchange does not hold; none: it does.
fn complaint(recorded: &Recorded, response: &Response) -> Option<String> {
    let reason = setup::without_random(&response.reason);
    let wanted = setup::without_random(&recorded.reason);
    if (response.status, &reason) != (recorded.status, &wanted) {
        return Some(format!(
            "{} {reason}\n      instead of {} {wanted}",
            response.status, recorded.status
        ));
    }
    let body = serde_json::from_slice(&response.body)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&response.body).into_owned()));
    if recorded.status >= 400 {
        let errors = |body: &Value| plain(&body["errors"]);
        if recorded.body.is_object() && errors(&body) != errors(&recorded.body) {
            return Some(format!(
                "{}\n      instead of {}",
                body["errors"], recorded.body["errors"]
            ));
        }
        return (recorded.body == "" && body != "").then(|| format!("a body: {body}"));
    }
    if recorded.name.ends_with("/log") {
        let (ours, theirs) = (lines(&body), lines(&recorded.body));
        return (ours != theirs).then(|| format!("{ours:?}\n      instead of {theirs:?}"));
    }
    let (ours, theirs) = (plain(&body), plain(&recorded.body));
    let exact = recorded.path.contains("/config")
        || recorded.path.contains("/pending")
        || recorded.path.contains("/cloudinit")
        || recorded.path.contains("/snapshot")
        || recorded.path.contains("/feature");
    let same = if recorded.name.ends_with("/status") {
        ours["data"]["exitstatus"] == theirs["data"]["exitstatus"] && covers(&shape(&ours), &shape(&theirs))
    } else if exact {
        covers(&ours, &theirs) && (ours["data"].as_array().map(Vec::len) == theirs["data"].as_array().map(Vec::len))
    } else if recorded.body.is_object() {
        covers(&shape(&ours), &shape(&theirs))
    } else {
        true
    };
    (!same).then(|| format!("{ours}\n      instead of {theirs}"))
}

/// Whether the simulator knows the call, or is right not to.
fn is_replayable(recorded: &Recorded) -> bool {
    recorded.status != 0 && !setup::is_out_of_reach(&recorded.name) && {
        let path = recorded.path.trim_start_matches("/api2/json").trim_end_matches('/');
        recorded.status == 501 || !setup::UNKNOWN_CALLS.iter().any(|part| path.contains(part))
    }
}

async fn replay(file: &str) -> Option<(usize, usize, Vec<String>)> {
    let exchanges = read(file)?;
    let world = World::for_file(file).await;
    let (mut held, mut tried, mut complaints) = (0, 0, Vec::new());
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let loud = std::env::var_os("VMWRIGHT_REPLAY").is_some();
    let mut early = BTreeMap::new();
    for (number, recorded) in exchanges.iter().enumerate() {
        world.before(file, &recorded.name).await;
        if !is_replayable(recorded) {
            continue;
        }
        tried += 1;
        if let Some(upid) = world.task_beside_the_api(&recorded.name).await {
            let theirs = recorded.body["data"]["upid"].as_str().unwrap_or_default();
            known.insert(theirs.to_owned(), upid);
        }
        if recorded.name == "put digest ok"
            && let Some((_, theirs)) = recorded.params.iter().find(|(k, _)| k == "digest")
        {
            known.insert(theirs.clone(), world.digest(100));
        }
        let request = request_of(recorded, &known);
        // Two requests at once: the recorded loser is the one that comes later.
        if let Some(prefix) = recorded.name.strip_suffix("request 0") {
            let other = exchanges.iter().position(|e| e.name == format!("{prefix}request 1"));
            if let Some((at, other)) = other.and_then(|at| Some((at, exchanges.get(at)?))) {
                early.insert(at, world.handle(request_of(other, &known)).await);
            }
        }
        if recorded.path.ends_with("/status") && recorded.body["data"]["status"] == "stopped" {
            world.finish(&request).await;
        }
        let response = match early.remove(&number) {
            Some(response) => response,
            None => world.handle(request).await,
        };
        let body = response.json();
        if let (Some(theirs), Some(ours)) = (recorded.body["data"].as_str(), body["data"].as_str())
            && theirs.starts_with("UPID:")
        {
            known.insert(theirs.to_owned(), ours.to_owned());
        }
        for (key, stand_in) in [("ticket", "TICKET"), ("CSRFPreventionToken", "00000000:CSRFTOKEN")] {
            if let Some(ours) = body["data"][key].as_str() {
                known.insert(stand_in.to_owned(), ours.to_owned());
            }
        }
        match complaint(recorded, &response) {
            None => held += 1,
            Some(why) => complaints.push(format!("{file} {number} {}:\n      {why}", recorded.name)),
        }
    }
    if loud {
        for text in &complaints {
            eprintln!("  {}", text.chars().take(900).collect::<String>());
        }
    }
    Some((held, tried, complaints))
}

#[tokio::test(start_paused = true)]
async fn recorded_exchanges_hold() {
    let (mut held, mut tried, mut all) = (0, 0, 0);
    for file in setup::FILES {
        let Some((ours, of, _)) = replay(file).await else {
            return;
        };
        let recorded = read(file).map_or(0, |list| list.len());
        eprintln!("{file}: {ours} of {of} replayable exchanges hold ({recorded} recorded)");
        held += ours;
        tried += of;
        all += recorded;
    }
    eprintln!("{held} of {tried} replayable exchanges hold ({all} recorded); at least {HOLD_AT_LEAST} must");
    assert!(
        held >= HOLD_AT_LEAST,
        "only {held} recorded exchanges hold, {HOLD_AT_LEAST} did before"
    );
}
