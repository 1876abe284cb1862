//! The API's schema, and whether a request obeys it.
//!
//! Written from the meaning of PVE's JSONSchema: types, enums, bounds, lengths, patterns, named formats as far as the
//! client uses them, property strings with their default key and aliases, indexed families (`net[n]`).

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};
use vmwright::proxmox::transport::ApiRequest;

use crate::reference;

pub struct Schema {
    version: String,
    calls: Map<String, Value>,
    formats: Map<String, Value>,
    indexed: Map<String, Value>,
}

impl Schema {
    /// The schemas of these releases.
    pub fn load(releases: &[&str]) -> Option<Vec<Self>> {
        let path = reference::path("pve-apidoc.json")?;
        let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let versions = all["versions"].as_object().unwrap();
        let schemas = releases
            .iter()
            .map(|release| {
                let (version, calls) = versions
                    .iter()
                    .find(|(version, _)| version.starts_with(release))
                    .unwrap();
                Self {
                    version: version.clone(),
                    calls: calls.as_object().unwrap().clone(),
                    formats: all["formats"].as_object().unwrap().clone(),
                    indexed: all["_about"]["indexed_max"].as_object().unwrap().clone(),
                }
            })
            .collect();
        Some(schemas)
    }

    /// The template of a call, `POST /nodes/{node}/qemu/{vmid}/clone`, and what its places hold.
    pub fn template(&self, method: &str, path: &str) -> Option<(String, BTreeMap<String, String>)> {
        let segments: Vec<&str> = path.split('/').collect();
        let matching = self.calls.keys().filter_map(|call| {
            let template = call.strip_prefix(method)?.strip_prefix(' ')?;
            let parts: Vec<&str> = template.split('/').collect();
            if parts.len() != segments.len() {
                return None;
            }
            let mut places = BTreeMap::new();
            for (part, segment) in parts.iter().zip(&segments) {
                match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                    Some(name) => {
                        places.insert(name.to_owned(), reference::decode(segment));
                    }
                    None if part == segment => {}
                    None => return None,
                }
            }
            Some((call.clone(), places))
        });
        matching.min_by_key(|(_, places)| places.len())
    }

    /// Everything in a request that the schema forbids.
    pub fn violations(&self, request: &ApiRequest) -> Vec<String> {
        let Some((call, places)) = self.template(request.method.as_str(), &request.path) else {
            return vec![format!(
                "{}: no such call: {} {}",
                self.version, request.method, request.path
            )];
        };
        let rules = self.calls[&call]["parameters"].as_object().cloned().unwrap_or_default();
        let mut found = Vec::new();
        let mut given: BTreeMap<String, Vec<String>> =
            places.into_iter().map(|(name, value)| (name, vec![value])).collect();
        for (name, value) in &request.params {
            given.entry(name.clone()).or_default().push(value.clone());
        }
        for (name, values) in &given {
            match self.rule(&rules, name) {
                None => found.push(format!("{name}: not in the schema")),
                Some(rule) if rule["type"] == "array" => {
                    for value in values {
                        found.extend(self.check(name, value, &rule["items"]));
                    }
                }
                Some(_) if values.len() > 1 => found.push(format!("{name}: given {} times", values.len())),
                Some(rule) => {
                    found.extend(self.check(name, &values[0], rule));
                    if let Some(other) = rule["requires"].as_str()
                        && !given.contains_key(other)
                    {
                        found.push(format!("{name}: needs {other}"));
                    }
                }
            }
        }
        for (name, rule) in &rules {
            if !truthy(&rule["optional"]) && !given.contains_key(name) {
                found.push(format!("{name}: missing"));
            }
        }
        found
            .into_iter()
            .map(|what| format!("{} {call}: {what}", self.version))
            .collect()
    }

    /// The rule of a parameter, by its own name or by that of its family.
    fn rule<'r>(&self, rules: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
        if let Some(rule) = rules.get(name) {
            return Some(rule);
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let index: u32 = name[stem.len()..].parse().ok()?;
        let family = format!("{stem}[n]");
        let rule = rules.get(&family)?;
        let last = self
            .indexed
            .get(&family)
            .and_then(Value::as_str)
            .and_then(|range| range.split_once('-'));
        let last = last.map_or(31, |(_, last)| last.parse().unwrap());
        (index <= last).then_some(rule)
    }

    fn check(&self, name: &str, value: &str, rule: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let mut bad = |what: String| found.push(format!("{name}={value:?}: {what}"));
        match rule["type"].as_str().unwrap_or("string") {
            "boolean" if !matches!(value, "0" | "1") => bad("no boolean".to_owned()),
            "integer" if value.parse::<i64>().is_err() => bad("no integer".to_owned()),
            "number" if value.parse::<f64>().is_err() => bad("no number".to_owned()),
            _ => {}
        }
        if let Ok(number) = value.parse::<f64>() {
            if rule["minimum"].as_f64().is_some_and(|minimum| number < minimum) {
                bad(format!("below {}", rule["minimum"]));
            }
            if rule["maximum"].as_f64().is_some_and(|maximum| number > maximum) {
                bad(format!("above {}", rule["maximum"]));
            }
        }
        let length = u64::try_from(value.chars().count()).unwrap();
        if rule["maxLength"].as_u64().is_some_and(|limit| length > limit) {
            bad(format!("longer than {}", rule["maxLength"]));
        }
        if rule["minLength"].as_u64().is_some_and(|limit| length < limit) {
            bad(format!("shorter than {}", rule["minLength"]));
        }
        if rule["enum"]
            .as_array()
            .is_some_and(|values| !values.iter().any(|one| one == value))
        {
            bad(format!("not one of {}", rule["enum"]));
        }
        if let Some(pattern) = rule["pattern"].as_str() {
            // Perl prints a compiled pattern as (?^:...).
            let pattern = format!("^(?:{})$", pattern.replace("(?^:", "(?:"));
            if !Regex::new(&pattern).unwrap().is_match(value) {
                bad(format!("does not match {pattern}"));
            }
        }
        match &rule["format"] {
            Value::String(format) => {
                let parts: Vec<&str> = match format.strip_suffix("-list") {
                    Some(_) => value.split([',', ';', ' ']).filter(|part| !part.is_empty()).collect(),
                    None => vec![value],
                };
                let format = format.strip_suffix("-list").unwrap_or(format);
                if let Some(pattern) = named(format)
                    && let Some(part) = parts.iter().find(|part| !Regex::new(pattern).unwrap().is_match(part))
                {
                    bad(format!("{part:?} is no {format}"));
                }
            }
            Value::Object(inline) => {
                let properties = match inline.get("$ref").and_then(Value::as_str) {
                    Some(reference) => self.formats[reference.rsplit('/').next().unwrap()].as_object().unwrap(),
                    None => inline,
                };
                for what in self.property_string(value, properties) {
                    bad(what);
                }
            }
            _ => {}
        }
        found
    }

    fn property_string(&self, text: &str, properties: &Map<String, Value>) -> Vec<String> {
        let mut found = Vec::new();
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.to_owned(), value.to_owned()),
                None => match properties.iter().find(|(_, rule)| truthy(&rule["default_key"])) {
                    Some((key, _)) => (key.clone(), part.to_owned()),
                    None => {
                        found.push(format!("{part:?} has no key, and there is no default one"));
                        continue;
                    }
                },
            };
            let Some(rule) = properties.get(&key) else {
                found.push(format!("{key}: not in the format"));
                continue;
            };
            if let Some(model) = rule["keyAlias"].as_str() {
                given.insert(model.to_owned(), key.clone());
            }
            let name = rule["alias"].as_str().map_or(key, str::to_owned);
            if given.insert(name.clone(), value).is_some() {
                found.push(format!("{name}: twice"));
            }
        }
        for (name, value) in &given {
            let value = match (properties[name]["type"].as_str(), value.as_str()) {
                (Some("boolean"), "on" | "yes" | "true") => "1",
                (Some("boolean"), "off" | "no" | "false") => "0",
                (_, value) => value,
            };
            found.extend(self.check(name, value, &properties[name]));
        }
        for (name, rule) in properties {
            let optional = truthy(&rule["optional"]) || rule.get("alias").is_some();
            if !optional && !given.contains_key(name) {
                found.push(format!("{name}: missing"));
            }
        }
        found
    }
}

fn truthy(value: &Value) -> bool {
    value.as_bool().unwrap_or(false) || value.as_u64() == Some(1)
}

/// Named formats that matter for what the client sends.
fn named(format: &str) -> Option<&'static str> {
    match format {
        "pve-vmid" => Some("^[1-9][0-9]{2,8}$"),
        "pve-node" => Some("^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"),
        "pve-storage-id" => Some("^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$"),
        "pve-configid" => Some("^[A-Za-z][A-Za-z0-9_-]+$"),
        "pve-poolid" => Some("^[A-Za-z0-9./_-]+$"),
        "dns-name" => Some(r"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$"),
        "mac-addr" => Some("^[0-9A-Fa-f][02468ACEace](:[0-9A-Fa-f]{2}){5}$"),
        "pve-tag" => Some(r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"),
        _ => None,
    }
}
