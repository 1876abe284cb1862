//! Lenient reading of what Perl calls JSON: numbers and booleans may be strings, and empty strings may be either.
//!
//! Source: pve-http-server, `Formatter/Standard.pm`: values are what Perl last used them as.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `1`, `"1"`, `true`: true. `0`, `"0"`, `""`, `false`, null: false.
pub(super) fn is_true(value: &Value) -> Result<bool, String> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        Value::Number(number) => Ok(number.as_f64() != Some(0.0)),
        Value::String(text) => match text.trim() {
            "" | "0" | "no" | "off" | "false" => Ok(false),
            "1" | "yes" | "on" | "true" => Ok(true),
            _ => text
                .trim()
                .parse::<f64>()
                .map(|number| number != 0.0)
                .map_err(|_| format!("{text:?} is no boolean")),
        },
        Value::Array(_) | Value::Object(_) => Err("a list or object is no boolean".to_owned()),
    }
}

/// A plain value as text; `None` for null.
pub(super) fn plain(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(u8::from(*flag).to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => Err("a list or object is no plain value".to_owned()),
    }
}

/// A boolean; with `default` also when absent.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    is_true(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A text that may come as a number; empty and null are `None`.
pub(super) fn opt_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = plain(&Value::deserialize(deserializer)?).map_err(D::Error::custom)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// A text that may come as a number; null is empty.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(plain(&Value::deserialize(deserializer)?)
        .map_err(D::Error::custom)?
        .unwrap_or_default())
}

/// A checked name or number that may come as number or text.
pub(super) fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    text(deserializer)?.parse().map_err(D::Error::custom)
}

/// Like [`parsed`]; null and empty are `None`.
pub(super) fn opt_parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    opt_text(deserializer)?
        .map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

/// A whole number, which may come as a text or as a float; null and empty are `None`.
pub(super) fn opt_number<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let value = Value::deserialize(deserializer)?;
    whole(&value)
        .map_err(D::Error::custom)?
        .map(|number| T::try_from(number).map_err(|_| D::Error::custom(format!("{number} is out of range"))))
        .transpose()
}

/// A whole number; null and empty are 0.
pub(super) fn number<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64> + Default,
{
    Ok(opt_number(deserializer)?.unwrap_or_default())
}

fn whole(value: &Value) -> Result<Option<i64>, String> {
    let Some(text) = plain(value)? else { return Ok(None) };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = text.parse::<i64>() {
        return Ok(Some(number));
    }
    match text.parse::<f64>() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, and sizes of 2^53 bytes are out of reach"
        )]
        Ok(number) if number.is_finite() => Ok(Some(number as i64)),
        Ok(_) | Err(_) => Err(format!("{text:?} is no number")),
    }
}

/// A list in one text, split at commas, semicolons and white space (pve-common: `split_list`).
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(split_list(&text(deserializer)?))
}

/// The parts of a list in one text.
pub(super) fn split_list(text: &str) -> Vec<String> {
    text.split([',', ';', ' ', '\t', '\n', '\0'])
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A value as a type.
pub(super) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// The entries of a list. Every one must be readable: a VM that was skipped would count as absent.
pub(super) fn entries<T: DeserializeOwned>(value: Value) -> Result<Vec<T>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => entries.into_iter().map(from_value).collect(),
        other => Err(format!("a list was expected, not {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        #[serde(default, deserialize_with = "flag")]
        template: bool,
        #[serde(default, deserialize_with = "opt_number")]
        pid: Option<u32>,
        #[serde(default, deserialize_with = "number")]
        size: u64,
        #[serde(default, deserialize_with = "list")]
        tags: Vec<String>,
    }

    fn sample(value: Value) -> Sample {
        from_value(value).unwrap()
    }

    #[test]
    fn booleans_come_in_every_dress() {
        for yes in [json!(1), json!("1"), json!(true)] {
            assert!(sample(json!({ "template": yes })).template);
        }
        for no in [json!(0), json!("0"), json!(""), json!(false), Value::Null] {
            assert!(!sample(json!({ "template": no })).template);
        }
        assert!(!sample(json!({})).template);
        assert!(from_value::<Sample>(json!({ "template": "perhaps" })).is_err());
    }

    #[test]
    fn numbers_may_be_texts_and_must_fit() {
        assert_eq!(sample(json!({ "pid": "12", "size": 1073741824 })).pid, Some(12));
        assert_eq!(sample(json!({ "pid": null, "size": "1.5e3" })).size, 1500);
        assert!(from_value::<Sample>(json!({ "pid": -1 })).is_err());
        assert!(from_value::<Sample>(json!({ "size": "much" })).is_err());
    }

    #[test]
    fn lists_are_split_as_perl_splits_them() {
        assert_eq!(sample(json!({ "tags": "a;b, c" })).tags, ["a", "b", "c"]);
    }
}
