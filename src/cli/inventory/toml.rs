//! Data as a TOML document: tables for mappings, one key a line, keys sorted.
//!
//! TOML has no null: a value that has one cannot be written, and `ansible-inventory --toml` fails there too.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use crate::diagnose::Diagnostic;

/// The document of a mapping.
///
/// # Errors
///
/// `cli/toml` for a null, naming its path.
pub(super) fn document(json: &Json) -> Result<String, Diagnostic> {
    let mut out = String::new();
    if let Json::Object(map) = json {
        table(map, &[], &mut out)?;
    }
    Ok(out)
}

fn table(map: &Map<String, Json>, path: &[&str], out: &mut String) -> Result<(), Diagnostic> {
    let mut entries: Vec<(&String, &Json)> = map.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    let is_table = |json: &Json| json.is_object();
    let inner = |name: &'_ str| -> Vec<String> {
        path.iter()
            .map(|part| (*part).to_owned())
            .chain([name.to_owned()])
            .collect()
    };
    for (name, json) in entries.iter().filter(|(_, json)| !is_table(json)) {
        let mut text = String::new();
        value(json, &mut inner(name), &mut text)?;
        let _ = writeln!(out, "{} = {text}", key(name));
    }
    for (name, json) in entries {
        let Json::Object(below) = json else { continue };
        let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
        // A table that holds tables only needs no header of its own.
        if below.is_empty() || below.values().any(|json| !is_table(json)) {
            if !out.is_empty() {
                out.push('\n');
            }
            let keys: Vec<String> = path.iter().map(|part| key(part)).collect();
            let _ = writeln!(out, "[{}]", keys.join("."));
        }
        table(below, &path, out)?;
    }
    Ok(())
}

fn value(json: &Json, path: &mut Vec<String>, out: &mut String) -> Result<(), Diagnostic> {
    match json {
        Json::Null => {
            return Err(Diagnostic::error("cli/toml", format!("`{}` is null", path.join(".")))
                .rule("TOML has no null")
                .help("print YAML or JSON: vmwright inventory --list --yaml"));
        }
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(value) => text(value, out),
        Json::Array(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                path.push(at.to_string());
                value(item, path, out)?;
                path.pop();
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (at, (name, item)) in map.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { " " });
                let _ = write!(out, "{} = ", key(name));
                path.push(name.clone());
                value(item, path, out)?;
                path.pop();
            }
            out.push_str(if map.is_empty() { "}" } else { " }" });
        }
    }
    Ok(())
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(bare) {
        return name.to_owned();
    }
    let mut out = String::new();
    text(name, &mut out);
    out
}

/// A basic string.
fn text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_and_values_are_written_as_toml() {
        let json = json!({
            "web": {"children": ["eu"], "hosts": {"w.1": {"b": "q\"\\\n", "a": 1, "m": {"x": [1.5, {"y z": true}]}}, "w2": {}}},
        });
        let text = document(&json).unwrap();
        assert_eq!(
            text,
            "[web]\nchildren = [\"eu\"]\n\n[web.hosts.\"w.1\"]\na = 1\nb = \"q\\\"\\\\\\n\"\n\n\
             [web.hosts.\"w.1\".m]\nx = [1.5, { \"y z\" = true }]\n\n[web.hosts.w2]\n"
        );
        let fault = document(&json!({"a": {"b": [null]}})).unwrap_err();
        assert_eq!(fault.message, "`a.b.0` is null");
    }
}
