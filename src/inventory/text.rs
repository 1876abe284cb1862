//! Values on their way out of the template engine, and values as text.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Value as Jinja, ValueKind};
use minijinja::{Error, ErrorKind};

use super::lazy::Lazy;
use super::lookup;
use super::template::Run;
use super::value::{Data, Entry, Value, float_text};
use crate::diagnose::Place;

const MAX_DEPTH: usize = 64;

/// Takes a value out of the engine. `None` stands for `omit`, which vanishes from lists and mappings.
pub(crate) fn take(run: &Arc<Run>, value: &Jinja, place: &Place, depth: usize) -> Result<Option<Value>, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "the value nests too deep"));
    }
    if let Some(lazy) = value.downcast_object_ref::<Lazy>() {
        let resolved = lazy.resolve().map_err(|failure| run.nested_error(failure))?;
        return Ok(resolved.map(|mut value| {
            if depth == 0 {
                value.place = place.clone();
            }
            value
        }));
    }
    if lookup::is_omit(value) {
        return Ok(None);
    }
    let data = match value.kind() {
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => Data::Null,
        ValueKind::Bool => Data::Bool(value.is_true()),
        ValueKind::Number => number(value)?,
        ValueKind::String => Data::Str(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Bytes => Data::Str(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut list = Vec::new();
            for item in value.try_iter()?.checked() {
                list.extend(take(run, &item?, place, depth + 1)?);
            }
            Data::List(list)
        }
        ValueKind::Map => {
            let mut map = IndexMap::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let name = self::key(&key)
                    .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "a list or mapping cannot be a key"))?;
                let inner = value.get_item(&key)?;
                if let Some(value) = take(run, &inner, place, depth + 1)? {
                    let key_place = place.clone();
                    map.insert(name, Entry { key_place, value });
                }
            }
            Data::Map(map)
        }
        ValueKind::Invalid => {
            // Using it gives the error that it stands for.
            value
                .try_iter()
                .and_then(|iter| iter.checked().collect::<Result<Vec<_>, _>>())?;
            return Err(Error::new(ErrorKind::InvalidOperation, value.to_string()));
        }
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("a {} is no value for a variable", value.kind()),
            ));
        }
    };
    Ok(Some(Value::new(data, place.clone())))
}

fn number(value: &Jinja) -> Result<Data, Error> {
    if value.is_integer() {
        return i128::try_from(value.clone()).map(Data::Int);
    }
    f64::try_from(value.clone()).map(Data::Float)
}

/// Whether there is a secret in it.
pub(crate) fn has_secret(value: &Value) -> bool {
    value.secret
        || match &value.data {
            Data::List(list) => list.iter().any(has_secret),
            Data::Map(map) => map.values().any(|entry| has_secret(&entry.value)),
            _ => false,
        }
}

/// A key of the engine as a key of a mapping.
pub(crate) fn key(key: &Jinja) -> Option<String> {
    match key.kind() {
        ValueKind::String => key.as_str().map(str::to_owned),
        ValueKind::None => Some("null".to_owned()),
        ValueKind::Bool => Some(key.is_true().to_string()),
        ValueKind::Number => match number(key).ok()? {
            Data::Int(value) => Some(value.to_string()),
            Data::Float(value) => Some(float_text(value)),
            _ => None,
        },
        _ => None,
    }
}

/// A value as text inside a text: as Python's `str`, none as nothing.
pub(crate) fn display(value: &Value) -> String {
    match &value.data {
        Data::Null => String::new(),
        Data::Str(text) | Data::Unsafe(text) => text.clone(),
        _ => {
            let mut out = String::new();
            repr(value, &mut out);
            out
        }
    }
}

/// A value as Python's `repr` writes it.
pub(crate) fn repr(value: &Value, out: &mut String) {
    match &value.data {
        Data::Null => out.push_str("None"),
        Data::Bool(true) => out.push_str("True"),
        Data::Bool(false) => out.push_str("False"),
        Data::Int(value) => out.push_str(&value.to_string()),
        Data::Float(value) => out.push_str(&float_text(*value)),
        Data::Str(text) | Data::Unsafe(text) => repr_text(text, out),
        Data::Vault(text) => repr_text(text, out),
        Data::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(item, out);
            }
            out.push(']');
        }
        Data::Map(map) => {
            out.push('{');
            for (i, (key, entry)) in map.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr_text(key, out);
                out.push_str(": ");
                repr(&entry.value, out);
            }
            out.push('}');
        }
    }
}

fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_python_writes_them() {
        let json = serde_json::json!(["it's", "q\"'", "a\\b\n", true, null, 1.0, {"k": [1]}]);
        let mut out = String::new();
        repr(&Value::from_json(&json, &Place::whole("t")), &mut out);
        assert_eq!(out, r#"["it's", 'q"\'', 'a\\b\n', True, None, 1.0, {'k': [1]}]"#);
    }
}
