//! The journal of a run for people: each event a line, whoever wrote it and however the run ended.
//!
//! A journal may be of another version of vmwright, so events are read as they are: what is not known is shown as it was
//! written, and nothing is an error.

use serde_json::Value;

use crate::ui::duration;

/// What the list of runs shows of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The verb.
    pub command: String,
    /// The hosts.
    pub hosts: Vec<String>,
    /// How it ended; `None` if its end was never written: it was killed, or still runs.
    pub exit: Option<u64>,
    /// How each host ended, in words.
    pub outcomes: Vec<String>,
}

/// Sums a run up.
pub fn summary(events: &[Value]) -> Summary {
    let mut found = Summary::default();
    for event in events {
        match text(event, "event") {
            "run-started" => {
                text(event, "command").clone_into(&mut found.command);
                found.hosts = list(event, "hosts");
            }
            "host-done" => found.outcomes.push(text(event, "outcome").to_owned()),
            "run-done" => found.exit = event["exit"].as_u64(),
            _ => {}
        }
    }
    found
}

/// An event as lines: time, host, stage, words. Empty for events that say nothing by themselves.
pub fn lines(event: &Value) -> Vec<String> {
    let time = text(event, "time");
    // `2026-11-30T23:17:04.123456Z`: the date stands in the heading.
    let clock = time.split('T').nth(1).unwrap_or(time);
    let clock = clock.get(..8).unwrap_or(clock);
    let line = |words: String| {
        let place = [text(event, "host"), text(event, "stage")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        match place.as_str() {
            "" => format!("{clock}  {words}"),
            place => format!("{clock}  {place}: {words}"),
        }
    };
    let told = |label: &str, diagnostic: &Value| {
        let mut out = vec![line(format!(
            "{label}{} [{}]",
            text(diagnostic, "message"),
            text(diagnostic, "code")
        ))];
        for (name, key) in [("seen", "notes"), ("help", "help")] {
            out.extend(
                list(diagnostic, key)
                    .iter()
                    .map(|more| format!("          {name}: {more}")),
            );
        }
        out
    };
    match text(event, "event") {
        "run-started" => vec![line(format!(
            "{} of {} (vmwright {})",
            text(event, "command"),
            list(event, "hosts").join(", "),
            text(event, "version")
        ))],
        "host-started" => vec![line(format!("begins, VM {}", text(event, "name")))],
        "stage-started" => Vec::new(),
        "waiting" => vec![line(format!("waits for {}", text(event, "what")))],
        "changing" => event["changes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|change| line(format!("changes {}", shown(change))))
            .collect(),
        "task" => vec![line(format!("{}, task {}", text(event, "what"), text(event, "upid")))],
        "retrying" => vec![line(format!("tries again: {}", text(event, "why")))],
        "stage-done" => vec![line(format!(
            "{}  {}{}",
            if event["changed"].as_bool() == Some(true) {
                "done"
            } else {
                "ok"
            },
            text(event, "detail"),
            took(event)
        ))],
        "warning" => told("warning: ", &event["diagnostic"]),
        "host-done" => {
            let mut out = match &event["diagnostic"] {
                Value::Object(_) => told(&format!("{}: ", text(event, "outcome")), &event["diagnostic"]),
                _ => vec![line(format!("{}{}", text(event, "outcome"), took(event)))],
            };
            if let Some(next) = event["next"].as_str() {
                out.push(format!("          go on with: {next}"));
            }
            out
        }
        "run-done" => vec![line(format!("ended with exit code {}{}", event["exit"], took(event)))],
        _ => vec![line(event.to_string())],
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value, key: &str) -> Vec<String> {
    let texts = value[key].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn took(event: &Value) -> String {
    match event["ms"].as_u64() {
        Some(ms) if ms >= 100 => format!(" ({})", duration(std::time::Duration::from_millis(ms))),
        Some(_) | None => String::new(),
    }
}

fn shown(change: &Value) -> String {
    let what = text(change, "what");
    match (change["from"].as_str(), change["to"].as_str()) {
        (Some(from), Some(to)) => format!("{what}: {from} -> {to}"),
        (None, Some(to)) => format!("{what}: {to}"),
        (Some(from), None) => format!("{what}: {from} -> (removed)"),
        (None, None) => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_read_as_sentences() {
        let time = "2026-11-30T23:17:04.123456Z";
        let cases = [
            (
                json!({"time": time, "event": "run-started", "command": "remove", "hosts": ["a", "b"], "version": "1"}),
                "23:17:04  remove of a, b (vmwright 1)",
            ),
            (
                json!({"time": time, "event": "changing", "host": "a", "stage": "stop",
                       "changes": [{"what": "power", "from": "running", "to": "stopped"}], "planned": false}),
                "23:17:04  a stop: changes power: running -> stopped",
            ),
            (
                json!({"time": time, "event": "stage-done", "host": "a", "stage": "stop", "changed": true,
                       "detail": "VM 1 is stopped", "ms": 1500}),
                "23:17:04  a stop: done  VM 1 is stopped (1.5 s)",
            ),
            (
                json!({"time": time, "event": "run-done", "exit": 4, "ms": 5}),
                "23:17:04  ended with exit code 4",
            ),
            (
                json!({"event": "of-tomorrow", "n": 1}),
                "  {\"event\":\"of-tomorrow\",\"n\":1}",
            ),
        ];
        for (event, wanted) in cases {
            assert_eq!(lines(&event), [wanted], "{event}");
        }
        let failed = json!({"time": time, "event": "host-done", "host": "a", "outcome": "refused", "stage": "obstacles",
            "diagnostic": {"message": "no", "code": "remove/obstacles", "notes": ["locked"], "help": ["wait"]}, "next": "again"});
        assert_eq!(
            lines(&failed),
            [
                "23:17:04  a obstacles: refused: no [remove/obstacles]",
                "          seen: locked",
                "          help: wait",
                "          go on with: again"
            ]
        );
    }

    #[test]
    fn a_run_without_an_end_was_cut_off() {
        let began = json!({"event": "run-started", "command": "provision", "hosts": ["a"]});
        let cut = summary(std::slice::from_ref(&began));
        assert_eq!((cut.command.as_str(), cut.exit), ("provision", None));
        let done = json!({"event": "host-done", "outcome": "changed"});
        let ended = summary(&[began, done, json!({"event": "run-done", "exit": 0})]);
        assert_eq!((ended.exit, ended.outcomes), (Some(0), vec!["changed".to_owned()]));
    }
}
