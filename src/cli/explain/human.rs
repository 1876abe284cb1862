//! What `explain` tells, laid out for people: at most 80 columns where the words allow it, the same in a pipe.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::diagnose::count;
use crate::secret::MASK;
use crate::ui::table::wrap;

const WIDTH: usize = 80;

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json[key].as_str().unwrap_or_default()
}

fn items<'j>(json: &'j Json, key: &str) -> &'j [Json] {
    json[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is(json: &Json, key: &str) -> bool {
    json[key] == true
}

fn place(json: &Json) -> String {
    let place = &json["place"];
    let mut out = text(place, "file").to_owned();
    for part in ["line", "column"] {
        if let Some(number) = place[part].as_u64() {
            let _ = write!(out, ":{number}");
        }
    }
    out
}

/// A value in one line, as JSON with blanks; secrets as `***`.
fn flow(json: &Json) -> String {
    match json {
        Json::String(text) if text == MASK => text.clone(),
        Json::Array(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, inner)| format!("{key}: {}", flow(inner)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => json.to_string(),
    }
}

/// A value in several lines, as in YAML; what fits into `room` columns stands in one.
fn lines(json: &Json, room: usize) -> Vec<String> {
    let nested = |lead: String, inner: &Json| -> Vec<String> {
        let one = flow(inner);
        let fits = lead.chars().count() + 1 + one.chars().count() <= room;
        if fits || !is_long(inner) {
            return vec![format!("{lead} {one}")];
        }
        let below = lines(inner, room.saturating_sub(2));
        let bar = if inner.is_string() { " |" } else { "" };
        let below = below.into_iter().map(|line| format!("  {line}"));
        std::iter::once(format!("{lead}{bar}")).chain(below).collect()
    };
    match json {
        Json::Object(map) => map
            .iter()
            .flat_map(|(key, inner)| nested(format!("{key}:"), inner))
            .collect(),
        Json::Array(list) => list.iter().flat_map(|inner| nested("-".to_owned(), inner)).collect(),
        Json::String(text) if text.trim_end().contains('\n') => {
            text.trim_end().split('\n').map(str::to_owned).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => vec![flow(json)],
    }
}

/// Whether a value can be written in several lines.
fn is_long(json: &Json) -> bool {
    match json {
        Json::Object(map) => !map.is_empty(),
        Json::Array(list) => !list.is_empty(),
        Json::String(text) => text.trim_end().contains('\n'),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Writes `lead` and facts behind it, with commas; a fact that does not fit begins a line below the first.
fn facts(out: &mut String, lead: &str, facts: &[String]) {
    let start = lead.chars().count();
    let mut column = start;
    out.push_str(lead);
    for (at, fact) in facts.iter().enumerate() {
        let comma = if at + 1 < facts.len() { "," } else { "" };
        let length = fact.chars().count() + comma.len();
        if at > 0 {
            if column + 1 + length > WIDTH {
                let _ = write!(out, "\n{}", " ".repeat(start));
                column = start;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        let _ = write!(out, "{fact}{comma}");
        column += length;
    }
    out.push('\n');
}

/// Writes words, wrapped and indented.
fn words(out: &mut String, indent: usize, text: &str) {
    let pad = " ".repeat(indent);
    let _ = writeln!(
        out,
        "{pad}{}",
        wrap(text, WIDTH - indent, "").replace('\n', &format!("\n{pad}"))
    );
}

/// Writes `lead` and a value: behind it, where it fits or is one word, else in lines below, indented.
fn value(out: &mut String, lead: &str, indent: usize, json: &Json) {
    let one = flow(json);
    let fits = !lead.is_empty() && lead.chars().count() + one.chars().count() <= WIDTH;
    if !is_long(json) || fits && !json.is_string() {
        let _ = writeln!(out, "{lead}{one}");
        return;
    }
    if !lead.trim().is_empty() {
        let _ = writeln!(out, "{}", lead.trim_end().trim_end_matches('=').trim_end());
    }
    for line in lines(json, WIDTH.saturating_sub(indent)) {
        let _ = writeln!(out, "{}{line}", " ".repeat(indent));
    }
}

/// A template's text, or another of perhaps several lines, behind `lead`.
fn verbatim(out: &mut String, lead: &str, text: &str) {
    let pad = " ".repeat(lead.chars().count());
    for (at, line) in text.trim_end().split('\n').enumerate() {
        let _ = writeln!(out, "{}{line}", if at == 0 { lead } else { &pad });
    }
}

/// Why there is no value to show, if there is none.
fn nothing(json: &Json) -> Option<String> {
    if !json["error"].is_null() {
        Some(format!("(cannot be evaluated: {})", text(json, "error")))
    } else if is(json, "omitted") {
        Some("(omitted)".to_owned())
    } else {
        None
    }
}

/// All variables of a host.
pub(super) fn host(told: &Json) -> String {
    let groups = items(told, "groups");
    let names: Vec<String> = groups
        .iter()
        .map(|group| match group["priority"].as_i64() {
            Some(1) | None => text(group, "name").to_owned(),
            Some(priority) => format!("{} (priority {priority})", text(group, "name")),
        })
        .collect();
    let mut out = format!("{}\n", text(told, "host"));
    words(&mut out, 4, &format!("groups, weakest first: {}", names.join(" < ")));
    let variables = items(told, "variables");
    for variable in variables {
        out.push('\n');
        let name = text(variable, "name");
        let mut about = vec![place(variable)];
        if text(variable, "layer") == "-e" && about[0] == "--extra-vars" {
            about = vec!["-e".to_owned()];
        }
        if !text(variable, "type").is_empty() {
            about.insert(0, text(variable, "type").to_owned());
        }
        if is(variable, "template") {
            about.push("from a template".to_owned());
        }
        match variable["overrides"].as_u64().unwrap_or(0) {
            0 => {}
            number if is(variable, "merged") => about.push(format!("merged with {number} more")),
            number => about.push(format!("overrides {number}")),
        }
        let json = &variable["value"];
        let one = flow(json);
        match nothing(variable) {
            Some(why) => words(&mut out, 0, &format!("{name} = {why}")),
            None if is_long(json) && (json.is_string() || name.chars().count() + 3 + one.chars().count() > WIDTH) => {
                let _ = writeln!(out, "{name} =");
                value(&mut out, "", 2, json);
            }
            None => {
                let _ = writeln!(out, "{name} = {one}");
            }
        }
        facts(&mut out, "    # ", &about);
    }
    let defaults = items(told, "defaults");
    if !defaults.is_empty() {
        out.push_str("\nNot set, so vmwright's own defaults apply\n");
        for default in defaults {
            let line = format!("{} = {}", text(default, "name"), text(default, "value"));
            let _ = writeln!(out, "  {}", wrap(&line, WIDTH - 2, "    "));
        }
    }
    let _ = writeln!(out, "\n{}", count(variables.len(), "variable"));
    out
}

/// One variable.
pub(super) fn key(told: &Json) -> String {
    let mut out = String::new();
    let (key, host) = (text(told, "key"), text(told, "host"));
    let set = told.get("value").is_some();
    match nothing(told) {
        Some(why) => words(&mut out, 0, &format!("{key} = {why}")),
        None if !set => {
            let _ = writeln!(out, "{key} is not set");
        }
        None => {
            let json = &told["value"];
            let fits = key.chars().count() + 3 + flow(json).chars().count() <= WIDTH;
            if is_long(json) && (json.is_string() || !fits) {
                let _ = writeln!(out, "{key} =");
                value(&mut out, "", 2, json);
            } else {
                let _ = writeln!(out, "{key} = {}", flow(json));
            }
        }
    }
    let mut about = Vec::new();
    if !text(told, "type").is_empty() {
        about.push(text(told, "type").to_owned());
    }
    if is(told, "default_applies") {
        about.push("vmwright's own default".to_owned());
    } else if is(told, "magic") {
        about.push("set by vmwright, as by Ansible".to_owned());
    } else if !told["place"].is_null() {
        about.push(place(told));
    }
    about.push(format!("for {host}"));
    facts(&mut out, "    # ", &about);
    if !text(told, "meaning").is_empty() {
        out.push('\n');
        words(&mut out, 0, text(told, "meaning"));
    }
    definitions(&mut out, told, set);
    let steps = items(told, "steps");
    if !steps.is_empty() {
        out.push_str("\nHow the template became a value\n");
        let mut shown = vec![false; steps.len()];
        step(&mut out, steps, 0, 2, &mut shown);
    }
    out
}

/// All definitions, the strongest first, and vmwright's own default behind them.
fn definitions(out: &mut String, told: &Json, set: bool) {
    let definitions = items(told, "definitions");
    let default = &told["default"];
    let kind = text(default, "kind");
    let own = kind == "value" || kind == "derived" || !set && !default.is_null();
    if definitions.is_empty() && !own {
        return;
    }
    out.push_str("\nDefinitions, strongest first\n");
    let roles = definitions.iter().map(|one| text(one, "role"));
    let roles = roles.chain(own.then_some("default"));
    let width = roles.map(str::len).max().unwrap_or(0);
    let pad = " ".repeat(width + 4);
    for one in definitions {
        let lead = format!("  {:width$}  ", text(one, "role"));
        let without = text(one, "without");
        if !without.is_empty() {
            let _ = writeln!(out, "{lead}(has no {without})");
        } else if is(one, "template") && one["value"].is_string() {
            verbatim(out, &lead, one["value"].as_str().unwrap_or_default());
        } else {
            let mut block = String::new();
            value(&mut block, &pad, width + 4, &one["value"]);
            let _ = writeln!(out, "{lead}{}", block.trim());
        }
        let at = place(one);
        let layer = text(one, "layer").to_owned();
        let about = if at == "--extra-vars" {
            vec![layer]
        } else {
            vec![layer, at]
        };
        facts(out, &format!("{pad}# "), &about);
    }
    if own {
        let lead = format!("  {:width$}  ", "default");
        let mut block = String::new();
        words(&mut block, width + 4, text(default, "text"));
        let _ = writeln!(out, "{lead}{}", block.trim());
        let _ = writeln!(out, "{pad}# vmwright's own");
    }
}

fn step(out: &mut String, steps: &[Json], index: usize, indent: usize, shown: &mut [bool]) {
    let Some(step) = steps.get(index) else { return };
    let pad = " ".repeat(indent);
    let name = text(step, "name");
    let gave = nothing(step).unwrap_or_else(|| flow(&step["value"]));
    if std::mem::replace(&mut shown[index], true) {
        let _ = writeln!(out, "{pad}{name} = {gave} (as above)");
        return;
    }
    // Deep chains keep a readable width.
    let inner = if indent < 24 { indent + 4 } else { indent };
    let deeper = " ".repeat(inner);
    verbatim(out, &format!("{pad}{name}: "), text(step, "template"));
    let _ = writeln!(out, "{deeper}# {}", place(step));
    for used in items(step, "used") {
        if let Some(next) = used["step"].as_u64().and_then(|next| usize::try_from(next).ok()) {
            self::step(out, steps, next, inner, shown);
            continue;
        }
        let lead = format!("{deeper}{} = ", text(used, "name"));
        if is(used, "undefined") {
            let _ = writeln!(out, "{lead}(not defined)");
        } else if is(used, "magic") && used["value"].is_null() {
            let _ = writeln!(out, "{deeper}{}  # set by vmwright, as by Ansible", text(used, "name"));
        } else {
            value(out, &lead, inner + 2, &used["value"]);
            if !is(used, "magic") {
                let _ = writeln!(out, "{deeper}    # {}", place(used));
            }
        }
    }
    if let Some(more) = step["more"].as_u64() {
        let _ = writeln!(out, "{deeper}and {more} more");
    }
    match nothing(step) {
        Some(why) => {
            let _ = writeln!(out, "{deeper}-> {why}");
        }
        None => value(out, &format!("{deeper}-> "), inner + 2, &step["value"]),
    }
}
