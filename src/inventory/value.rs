//! Values as an inventory holds them: data, the place where it stands in the sources, and whether it is secret.
//!
//! ```text
//! YAML, INI, JSON, extra vars --(readers)--> Value (raw: may hold Vault and Unsafe) --(template)--> Value (plain data)
//! ```
//!
//! A *raw* value is what the source says: strings may be templates, and two kinds of text are kept apart because
//! they are treated apart. [`Data::Vault`] is an inline `!vault` text that nobody has decrypted yet; [`Data::Unsafe`]
//! is text marked `!unsafe`, which is never a template. Neither ever comes out of `Scope::get` or `Scope::render`,
//! which give null, booleans, numbers, strings, lists and maps only.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::diagnose::Place;
use crate::secret::MASK;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What it is.
    pub data: Data,
    /// Where it stands; for the result of a template, the place of the template.
    pub place: Place,
    /// It came from a vault, or was computed from something that did. Never shown.
    pub secret: bool,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Nothing: `null`, `~`, an empty value.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a fraction, or infinite, or not a number.
    Float(f64),
    /// Text; in a raw value it may be a template.
    Str(String),
    /// A list.
    List(Vec<Value>),
    /// A mapping, in the order of the source. Keys are text: `1: x` has the key `1`.
    Map(IndexMap<String, Entry>),
    /// Raw values only: text that is never a template (`!unsafe`).
    Unsafe(String),
    /// Raw values only: an encrypted text (`!vault`), not decrypted yet.
    Vault(Arc<str>),
}

/// The value of a key in a mapping, and where the key stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where the key stands.
    pub key_place: Place,
    /// The value.
    pub value: Value,
}

impl Value {
    /// A value that is not secret.
    pub fn new(data: Data, place: Place) -> Self {
        Self {
            data,
            place,
            secret: false,
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>, place: Place) -> Self {
        Self::new(Data::Str(text.into()), place)
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.data {
            Data::Str(text) | Data::Unsafe(text) => Some(text),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_list(&self) -> Option<&[Value]> {
        match &self.data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    /// The mapping, if it is one.
    pub fn as_map(&self) -> Option<&IndexMap<String, Entry>> {
        match &self.data {
            Data::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key).map(|entry| &entry.value)
    }

    /// What it is, in the words of YAML.
    pub fn type_name(&self) -> &'static str {
        match &self.data {
            Data::Null => "null",
            Data::Bool(_) => "boolean",
            Data::Int(_) => "integer",
            Data::Float(_) => "float",
            Data::Str(_) | Data::Unsafe(_) => "string",
            Data::List(_) => "list",
            Data::Map(_) => "mapping",
            Data::Vault(_) => "encrypted string",
        }
    }

    /// As `ansible-inventory` prints it: untemplated, `!vault` and `!unsafe` as tagged objects, keys sorted.
    /// Infinity and not-a-number, which JSON cannot say, become strings; an integer beyond 64 bits becomes a float.
    pub fn to_json(&self) -> serde_json::Value {
        self.json(false)
    }

    /// As [`Value::to_json`], with `***` in the place of every secret.
    pub fn to_json_masked(&self) -> serde_json::Value {
        self.json(true)
    }

    fn json(&self, masked: bool) -> serde_json::Value {
        use serde_json::{Map, Value as Json, json};
        let leaf_masked = masked && (self.secret || matches!(self.data, Data::Vault(_)));
        match &self.data {
            Data::Map(map) => {
                let mut sorted: Vec<_> = map.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(b.0));
                Json::Object(
                    sorted
                        .into_iter()
                        .map(|(key, entry)| (key.clone(), entry.value.json(masked)))
                        .collect::<Map<_, _>>(),
                )
            }
            Data::List(list) => Json::Array(list.iter().map(|value| value.json(masked)).collect()),
            _ if leaf_masked => Json::String(MASK.to_owned()),
            Data::Null => Json::Null,
            Data::Bool(value) => Json::Bool(*value),
            Data::Int(value) => json_int(*value),
            Data::Float(value) => json_float(*value),
            Data::Str(text) => Json::String(text.clone()),
            Data::Unsafe(text) => json!({ "__ansible_unsafe": text }),
            Data::Vault(text) => json!({ "__ansible_vault": &**text }),
        }
    }

    /// Marks this value and everything inside as secret.
    pub(crate) fn make_secret(&mut self) {
        self.secret = true;
        match &mut self.data {
            Data::List(list) => list.iter_mut().for_each(Value::make_secret),
            Data::Map(map) => map.values_mut().for_each(|entry| entry.value.make_secret()),
            Data::Null
            | Data::Bool(_)
            | Data::Int(_)
            | Data::Float(_)
            | Data::Str(_)
            | Data::Unsafe(_)
            | Data::Vault(_) => {}
        }
    }

    /// Marks every text inside as not being a template.
    pub(crate) fn make_unsafe(&mut self) {
        match &mut self.data {
            Data::Str(text) => self.data = Data::Unsafe(std::mem::take(text)),
            Data::List(list) => list.iter_mut().for_each(Value::make_unsafe),
            Data::Map(map) => map.values_mut().for_each(|entry| entry.value.make_unsafe()),
            Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Unsafe(_) | Data::Vault(_) => {}
        }
    }

    /// Turns the JSON forms of tagged text, `{"__ansible_vault": ".."}` and `{"__ansible_unsafe": ".."}`, into what
    /// they stand for. JSON files and inventory scripts write them so.
    pub(crate) fn revive_tags(&mut self) {
        match &mut self.data {
            Data::List(list) => list.iter_mut().for_each(Value::revive_tags),
            Data::Map(map) => {
                let tagged = match (map.len(), map.get_index(0)) {
                    (1, Some((key, entry))) => match (key.as_str(), entry.value.as_str()) {
                        ("__ansible_vault", Some(text)) => Some(Data::Vault(text.into())),
                        ("__ansible_unsafe", Some(text)) => Some(Data::Unsafe(text.to_owned())),
                        _ => None,
                    },
                    _ => None,
                };
                match tagged {
                    Some(data) => self.data = data,
                    None => map.values_mut().for_each(|entry| entry.value.revive_tags()),
                }
            }
            Data::Null
            | Data::Bool(_)
            | Data::Int(_)
            | Data::Float(_)
            | Data::Str(_)
            | Data::Unsafe(_)
            | Data::Vault(_) => {}
        }
    }

    /// From JSON that has no places of its own.
    pub(crate) fn from_json(json: &serde_json::Value, place: &Place) -> Self {
        use serde_json::Value as Json;
        let data = match json {
            Json::Null => Data::Null,
            Json::Bool(value) => Data::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Data::Int(value.into()),
                (None, Some(value)) => Data::Int(value.into()),
                (None, None) => Data::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Data::Str(text.clone()),
            Json::Array(list) => Data::List(list.iter().map(|item| Self::from_json(item, place)).collect()),
            Json::Object(map) => Data::Map(
                map.iter()
                    .map(|(key, value)| {
                        (
                            key.clone(),
                            Entry {
                                key_place: place.clone(),
                                value: Self::from_json(value, place),
                            },
                        )
                    })
                    .collect(),
            ),
        };
        Self::new(data, place.clone())
    }
}

fn json_int(value: i128) -> serde_json::Value {
    if let Ok(value) = i64::try_from(value) {
        return value.into();
    }
    match u64::try_from(value) {
        Ok(value) => value.into(),
        Err(_) => json_float(value as f64),
    }
}

fn json_float(value: f64) -> serde_json::Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => serde_json::Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A float as Python's `repr` writes it: always with a point or an exponent, so that it reads back as a float.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(data: Data) -> Value {
        Value::new(data, Place::whole("t"))
    }

    #[test]
    fn secrets_are_masked_and_only_when_asked() {
        let mut secret = value(Data::Str("hunter2".into()));
        secret.secret = true;
        let list = value(Data::List(vec![
            secret,
            value(Data::Int(1)),
            value(Data::Vault("x".into())),
        ]));
        assert_eq!(list.to_json_masked(), serde_json::json!(["***", 1, "***"]));
        assert_eq!(
            list.to_json(),
            serde_json::json!(["hunter2", 1, {"__ansible_vault": "x"}])
        );
    }

    #[test]
    fn tagged_json_objects_become_what_they_stand_for() {
        let json = serde_json::json!({"a": {"__ansible_unsafe": "{{ x }}"}, "b": {"__ansible_vault": "v", "c": 1}});
        let mut value = Value::from_json(&json, &Place::whole("t"));
        value.revive_tags();
        assert_eq!(value.get("a").unwrap().data, Data::Unsafe("{{ x }}".into()));
        assert_eq!(value.get("b").unwrap().type_name(), "mapping");
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, text) in [
            (1.0, "1.0"),
            (1e20, "1e+20"),
            (1e16, "1e+16"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.5e-7, "1.5e-07"),
        ] {
            assert_eq!(float_text(value), text);
        }
    }
}
