//! The parameter table against the published API schema (9.2 and 8.4), which is not part of this repository.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use vmwright::simulator::schema::{Kind, Param, Sub, greatest_index};

/// The reference data: `$VMWRIGHT_REFERENCE`, or `shared` beside the crate's directory.
pub fn reference(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VMWRIGHT_REFERENCE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join("reference").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "SKIPPED: there is no {} ($VMWRIGHT_REFERENCE names the directory)",
        path.display()
    );
    None
}

fn schema_of<'a>(all: &'a Value, version: &str, route: &str) -> Option<&'a serde_json::Map<String, Value>> {
    all["versions"][version][route]["parameters"].as_object()
}

/// What differs between a parameter of the table and the schema's.
fn differences(formats: &Value, name: &str, ours: &Kind, optional: bool, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |what: &str, ours: Value, theirs: Value| {
        if ours != theirs {
            found.push(format!("{name}: {what} is {ours}, the schema says {theirs}"));
        }
    };
    expect(
        "optional",
        Value::from(optional),
        Value::from(theirs["optional"] == true),
    );
    let kind = match ours {
        Kind::Bool => "boolean",
        Kind::Int(..) | Kind::Format("pve-vmid", _) => "integer",
        Kind::Number(..) => "number",
        Kind::List => "array",
        Kind::Text(_) | Kind::Enum(_) | Kind::Pattern(_) | Kind::Format(..) | Kind::Props(_) => "string",
    };
    expect("type", kind.into(), theirs["type"].clone());
    let values: Value = match ours {
        Kind::Enum(values) => values.iter().copied().collect(),
        _ => Value::Null,
    };
    expect("enum", values, theirs["enum"].clone());
    if let Kind::Int(low, high) = ours {
        let limit = |n: i64, none: i64| if n == none { Value::Null } else { n.into() };
        expect("minimum", limit(*low, i64::MIN), theirs["minimum"].clone());
        expect("maximum", limit(*high, i64::MAX), theirs["maximum"].clone());
    }
    if let Kind::Text(longest) = ours {
        let longest = if *longest == 0 { Value::Null } else { (*longest).into() };
        expect("maxLength", longest, theirs["maxLength"].clone());
    }
    if let Kind::Pattern(pattern) = ours {
        expect("pattern", (*pattern).into(), theirs["pattern"].clone());
    }
    if let (Kind::Props(subs), Some(reference)) = (ours, theirs["format"]["$ref"].as_str()) {
        let format = &formats[reference.rsplit('/').next().unwrap_or_default()];
        found.extend(sub_differences(formats, name, subs, format));
    }
    found
}

fn sub_differences(formats: &Value, name: &str, subs: &[Sub], format: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let theirs: BTreeMap<_, _> = format
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, v)| v["alias"].is_null())
        .collect();
    for (key, facts) in &theirs {
        let mut facts = (*facts).clone();
        // In a property string a parameter with a default key is no less required.
        facts["optional"] = Value::from(facts["optional"] == true);
        match subs.iter().find(|s| s.name == key.as_str()) {
            None => found.push(format!("{name}.{key} is missing")),
            Some(sub) => {
                if sub.default_key != (facts["default_key"] == 1) {
                    found.push(format!("{name}.{key}: default key"));
                }
                found.extend(differences(
                    formats,
                    &format!("{name}.{key}"),
                    &sub.kind,
                    sub.optional,
                    &facts,
                ));
            }
        }
    }
    for sub in subs.iter().filter(|s| !theirs.keys().any(|k| k.as_str() == s.name)) {
        found.push(format!("{name}.{} is not in the schema", sub.name));
    }
    found
}

fn compare(all: &Value, version: &str, route: &str, ours: &[&Param]) -> Vec<String> {
    let Some(theirs) = schema_of(all, version, route) else {
        return vec![format!("{version} {route}: not in the schema")];
    };
    let mut found = Vec::new();
    for (name, facts) in theirs {
        match ours.iter().find(|p| p.name == name) {
            None => found.push(format!("{name} is missing")),
            Some(param) => {
                // The body's volume id names the storage too; in the path it always does.
                let mut facts = facts.clone();
                if route.contains(&format!("{{{name}}}")) {
                    facts["optional"] = Value::Bool(false);
                }
                found.extend(differences(&all["formats"], name, &param.kind, param.optional, &facts));
                if param.requires != facts["requires"].as_str() {
                    found.push(format!("{name}: requires {:?}", param.requires));
                }
            }
        }
    }
    for param in ours.iter().filter(|p| !theirs.contains_key(p.name)) {
        found.push(format!("{} is not in the schema", param.name));
    }
    found
        .into_iter()
        .map(|text| format!("{version} {route}: {text}"))
        .collect()
}

#[test]
fn every_parameter_is_as_the_published_schema_says() {
    let Some(path) = reference("pve-apidoc.json") else {
        return;
    };
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    let routes = vmwright::simulator::schema::calls();
    for call in &routes {
        let route = format!("{} {}", call.method, call.path);
        if schema_of(&all, "9.2.3", &route).is_none() && route == "GET /" {
            continue;
        }
        let now: Vec<&Param> = call.params.iter().collect();
        compared += now.len();
        wrong.extend(compare(&all, "9.2.3", &route, &now));
        let before: Vec<&Param> = call.params.iter().filter(|p| p.since <= 8).collect();
        let names = |params: &[&Param]| -> Vec<String> { params.iter().map(|p| p.name.to_owned()).collect() };
        if let Some(theirs) = schema_of(&all, "8.4.5", &route) {
            let ours = names(&before);
            wrong.extend(
                theirs
                    .keys()
                    .filter(|k| !ours.contains(k))
                    .map(|k| format!("8.4.5 {route}: {k} is missing")),
            );
            wrong.extend(
                ours.iter()
                    .filter(|k| !theirs.contains_key(*k))
                    .map(|k| format!("8.4.5 {route}: {k} is too much")),
            );
        }
    }
    eprintln!(
        "{} calls with {compared} parameters compared with the schema of 9.2.3 and 8.4.5",
        routes.len()
    );
    assert!(wrong.is_empty(), "{}\n{} differences", wrong.join("\n"), wrong.len());
    let greatest = &all["_about"]["indexed_max"];
    for family in [
        "ide", "sata", "scsi", "virtio", "unused", "net", "ipconfig", "serial", "parallel",
    ] {
        assert_eq!(
            greatest[format!("{family}[n]")],
            format!("0-{}", greatest_index(family)),
            "{family}"
        );
    }
}
