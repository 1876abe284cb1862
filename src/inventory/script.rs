//! Dynamic sources: executables that answer `--list`, and `--host NAME` where `--list` brings no `_meta`.
//!
//! ```text
//! script --list  ->  {"web": {"hosts": [..], "children": [..], "vars": {..}}, "_meta": {"hostvars": {..}}}
//! ```
//!
//! A script has a time limit and a bound on its output. Its exit code, its standard error and where its JSON breaks are
//! part of the message when it fails (ansible-core `plugins/inventory/script.py`).

use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::groups::Graph;
use super::value::{Data, Value};
use crate::diagnose::{Diagnostic, Place};

/// How long one run of a script may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How much it may print, in bytes.
pub const OUTPUT_LIMIT: u64 = 256 << 20;

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub stdout: Vec<u8>,
}

/// Why a command gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be started.
    Start(std::io::Error),
    /// It ran too long and was killed.
    Time(Duration),
    /// It printed too much and was killed.
    Size,
    /// It ended with a code or by a signal.
    Exit(String, String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "it could not be started: {error}"),
            Self::Time(limit) => write!(f, "it did not end within {} s and was stopped", limit.as_secs_f64()),
            Self::Size => write!(f, "it printed more than {} MiB and was stopped", OUTPUT_LIMIT >> 20),
            Self::Exit(how, _) => write!(f, "it ended with {how}"),
        }
    }
}

/// Runs a command in a process group of its own, without standard input.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<Output, Failure> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().map_err(Failure::Start)?;
    let deadline = Instant::now() + limit;
    let (send, receive) = mpsc::channel();
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as _),
        child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    for (index, stream) in streams.into_iter().enumerate() {
        let send = send.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                // A read error ends the text; the exit code tells whether that matters.
                let _ = stream.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes);
            }
            let _ = send.send((index, bytes));
        });
    }
    let mut texts = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        let left = deadline.saturating_duration_since(Instant::now());
        match receive.recv_timeout(left) {
            Ok((index, bytes)) if bytes.len() as u64 > OUTPUT_LIMIT => {
                let _ = index;
                kill(&mut child);
                return Err(Failure::Size);
            }
            Ok((index, bytes)) => texts[index] = bytes,
            Err(_) => {
                kill(&mut child);
                return Err(Failure::Time(limit));
            }
        }
    }
    // Both pipes are closed: the end is near, unless the child closed them and went on.
    let status = loop {
        match child.try_wait().map_err(Failure::Start)? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                kill(&mut child);
                return Err(Failure::Time(limit));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let [stdout, stderr] = texts;
    if status.success() {
        return Ok(Output { stdout });
    }
    let how = match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    };
    Err(Failure::Exit(how, String::from_utf8_lossy(&stderr).trim().to_owned()))
}

fn kill(child: &mut std::process::Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may be gone already.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs a script and reads its answer into the graph.
pub(crate) fn read(
    path: &Path,
    shown: &Arc<str>,
    source: &Arc<str>,
    working_dir: &Path,
    graph: &mut Graph,
) -> Result<(), Vec<Diagnostic>> {
    let ask = |arguments: &[&str]| -> Result<(Json, Place), Diagnostic> {
        let place = Place::whole(format!("{shown} {}", arguments.join(" ")));
        let mut command = Command::new(path);
        command.args(arguments).current_dir(working_dir);
        let output = run(command, TIME_LIMIT).map_err(|failure| failed(&failure, shown, &place))?;
        if arguments[0] == "--host" && output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok((Json::Object(serde_json::Map::new()), place));
        }
        let json = serde_json::from_slice(&output.stdout).map_err(|error| {
            let at = Place::new(
                Arc::clone(&place.file),
                u32::try_from(error.line()).unwrap_or(0),
                u32::try_from(error.column()).unwrap_or(0),
            );
            shape(format!("the answer is not JSON: {error}"), &at)
        })?;
        Ok((json, place))
    };
    let (list, place) = ask(&["--list"]).map_err(|fault| vec![fault])?;
    let hosts = apply(&list, source, &place, graph).map_err(|fault| vec![fault])?;
    let meta = list.get("_meta").and_then(|meta| meta.get("hostvars"));
    let mut faults = Vec::new();
    for host in hosts {
        let name = Arc::clone(&graph.hosts[host].name);
        let (vars, place) = match meta {
            Some(meta) => match meta.get(&*name) {
                Some(vars) => (vars.clone(), place.clone()),
                None => continue,
            },
            None => match ask(&["--host", &name]) {
                Ok(answer) => answer,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            },
        };
        let mut vars = Value::from_json(&vars, &place);
        vars.revive_tags();
        let Data::Map(vars) = vars.data else {
            faults.push(shape(
                format!("the variables of the host `{name}` are not an object"),
                &place,
            ));
            continue;
        };
        for (key, entry) in vars {
            graph.put_host_var(host, &key, Arc::new(entry.value));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn failed(failure: &Failure, shown: &str, place: &Place) -> Diagnostic {
    let mut fault = Diagnostic::error(
        "inventory/script-failed",
        format!("the inventory script {shown} failed: {failure}"),
    )
    .at(place.clone())
    .rule("an executable source answers --list with JSON and exit code 0, within a minute");
    if let Failure::Exit(_, stderr) = failure
        && !stderr.is_empty()
    {
        let tail: String = stderr
            .lines()
            .rev()
            .take(5)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join(" | ");
        fault = fault.note(None, format!("it wrote: {tail}"));
    }
    fault
        .help(format!("run it yourself: {place}"))
        .help("if it is no script but a list of hosts, take its execute permission away: chmod -x")
}

fn shape(message: impl Into<String>, place: &Place) -> Diagnostic {
    Diagnostic::error("inventory/script-answer", message)
        .at(place.clone())
        .rule("the answer is {\"group\": {\"hosts\": [..], \"children\": [..], \"vars\": {..}}, \"_meta\": {\"hostvars\": {..}}}")
        .help(format!("look at it: {}", place.file))
}

/// Puts groups and hosts of the answer into the graph; returns the hosts that it named, in order.
fn apply(list: &Json, source: &Arc<str>, place: &Place, graph: &mut Graph) -> Result<Vec<usize>, Diagnostic> {
    let Json::Object(list) = list else {
        return Err(shape("the answer is not an object", place));
    };
    if let Some(meta) = list.get("_meta") {
        let profile = meta.get("profile").and_then(Json::as_str).unwrap_or("inventory_legacy");
        if !meta.is_object() || !meta.get("hostvars").is_none_or(Json::is_object) {
            return Err(shape("_meta.hostvars is not an object", place));
        }
        if !profile.starts_with("inventory_") {
            return Err(shape(format!("_meta.profile `{profile}` is unknown"), place));
        }
    }
    let mut hosts = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (name, data) in list {
        if name == "_meta" {
            continue;
        }
        if name.is_empty() {
            return Err(shape("a group has no name", place));
        }
        let group = graph.add_group(name);
        let mut add = |graph: &mut Graph, host: &str| {
            let host = graph.add_host(host, Some(group), source);
            if seen.insert(host) {
                hosts.push(host);
            }
        };
        let object = match data {
            Json::Array(names) => {
                for host in texts(names, name, "hosts", place)? {
                    add(graph, host);
                }
                continue;
            }
            Json::Object(object) => object,
            _ => {
                return Err(shape(
                    format!("the group `{name}` is neither an object nor a list"),
                    place,
                ));
            }
        };
        let variables = if ["hosts", "vars", "children"]
            .iter()
            .any(|key| object.contains_key(*key))
        {
            match object.get("hosts") {
                None => {}
                Some(Json::Array(names)) => {
                    for host in texts(names, name, "hosts", place)? {
                        add(graph, host);
                    }
                }
                Some(_) => return Err(shape(format!("{name}.hosts is not a list"), place)),
            }
            match object.get("vars") {
                None => None,
                Some(Json::Object(vars)) => Some(vars),
                Some(_) => return Err(shape(format!("{name}.vars is not an object"), place)),
            }
        } else {
            // The oldest form: the group is a host and the object its variables.
            add(graph, name);
            Some(object)
        };
        for (key, value) in variables.into_iter().flatten() {
            let mut value = Value::from_json(value, place);
            value.revive_tags();
            graph.set_group_var(group, key, value)?;
        }
        match object.get("children") {
            None => {}
            Some(Json::Array(names)) => {
                for child in texts(names, name, "children", place)? {
                    let child = graph.add_group(child);
                    graph.add_child(group, child, place)?;
                }
            }
            Some(_) => return Err(shape(format!("{name}.children is not a list"), place)),
        }
    }
    Ok(hosts)
}

fn texts<'j>(list: &'j [Json], group: &str, what: &str, place: &Place) -> Result<Vec<&'j str>, Diagnostic> {
    list.iter()
        .map(|item| match item.as_str() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(shape(
                format!("{group}.{what} holds {item}, which is not a name"),
                place,
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_hangs_is_stopped() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 30 & sleep 30"]);
        let failure = run(command, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(failure, Failure::Time(_)), "{failure}");
    }

    #[test]
    fn exit_codes_and_standard_error_are_told() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no token >&2; exit 3"]);
        let failure = run(command, Duration::from_secs(20)).unwrap_err();
        let fault = failed(&failure, "inv.sh", &Place::whole("inv.sh --list"));
        assert_eq!(
            fault.message,
            "the inventory script inv.sh failed: it ended with exit code 3"
        );
        assert_eq!(fault.notes[0].1, "it wrote: no token");
    }

    #[test]
    fn answers_of_all_forms_are_read() {
        let json = serde_json::json!({"a": ["h1"], "b": {"hosts": ["h2"], "vars": {"v": 1}, "children": ["a"]}, "h3": {"x": 1}, "_meta": {}});
        let mut graph = Graph::new();
        let hosts = apply(&json, &"s".into(), &Place::whole("s"), &mut graph).unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| &*graph.hosts[*host].name).collect();
        assert_eq!(names, ["h1", "h2", "h3"]);
        assert_eq!(graph.groups[graph.group_index["h3"]].vars["x"].data, Data::Int(1));
        for bad in [
            serde_json::json!([]),
            serde_json::json!({"a": 1}),
            serde_json::json!({"a": {"hosts": {}}}),
            serde_json::json!({"a": [1]}),
            serde_json::json!({"_meta": []}),
        ] {
            assert!(
                apply(&bad, &"s".into(), &Place::whole("s"), &mut Graph::new()).is_err(),
                "{bad}"
            );
        }
    }
}
