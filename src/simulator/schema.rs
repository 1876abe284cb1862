//! Checking of parameters, with the real texts (pve-common: `JSONSchema.pm`), and the facts about each parameter.
//!
//! The table is this module's own, written from the API's documentation; a test compares it with the published schema.

mod formats;
pub(crate) mod tables;
pub(crate) mod values;

use serde_json::Value;

use self::formats::check_format;
use super::fail::ApiError;
use super::props::{parse_bool, split_index, split_props};

/// A parameter's type and limits.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `0` or `1`.
    Bool,
    /// A whole number between two limits.
    Int(i64, i64),
    /// A number between two limits.
    Number(f64, f64),
    /// A text; with a greatest length, unless that is 0.
    Text(usize),
    /// One of these.
    Enum(&'static [&'static str]),
    /// A text that matches the whole pattern.
    Pattern(&'static str),
    /// A text in a named format, with a greatest length, unless that is 0.
    Format(&'static str, usize),
    /// A property string.
    Props(&'static [Sub]),
    /// A list, given by repeating the key.
    List,
}

/// No limit below.
pub(crate) const LOW: i64 = i64::MIN;
/// No limit above.
pub(crate) const HIGH: i64 = i64::MAX;

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name; `net[n]` stands for `net0`, `net1`, ...
    pub name: &'static str,
    /// Type and limits.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
    /// A parameter that must be there too.
    pub requires: Option<&'static str>,
    /// The first release that has it, 0 for all.
    pub since: u32,
}

/// A key of a property string.
#[derive(Clone, Copy, Debug)]
pub struct Sub {
    /// Its name.
    pub name: &'static str,
    /// Type and limits.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether its name may be left out.
    pub default_key: bool,
    /// Another key that must be there too.
    pub requires: Option<&'static str>,
}

pub(crate) const fn must(name: &'static str, kind: Kind) -> Param {
    Param {
        name,
        kind,
        optional: false,
        requires: None,
        since: 0,
    }
}

pub(crate) const fn may(name: &'static str, kind: Kind) -> Param {
    Param {
        name,
        kind,
        optional: true,
        requires: None,
        since: 0,
    }
}

impl Param {
    pub(crate) const fn with(mut self, other: &'static str) -> Self {
        self.requires = Some(other);
        self
    }

    pub(crate) const fn since(mut self, major: u32) -> Self {
        self.since = major;
        self
    }
}

pub(crate) const fn sub(name: &'static str, kind: Kind) -> Sub {
    Sub {
        name,
        kind,
        optional: true,
        default_key: false,
        requires: None,
    }
}

impl Sub {
    pub(crate) const fn required(mut self) -> Self {
        self.optional = false;
        self
    }

    pub(crate) const fn default(mut self) -> Self {
        self.default_key = true;
        self
    }

    pub(crate) const fn with(mut self, other: &'static str) -> Self {
        self.requires = Some(other);
        self
    }
}

/// The greatest index of an indexed parameter.
pub fn greatest_index(family: &str) -> u32 {
    match family {
        "ide" | "serial" => 3,
        "sata" => 5,
        "scsi" => 30,
        "virtio" => 15,
        "unused" => 255,
        "net" | "ipconfig" => 31,
        "parallel" => 2,
        "numa" => 7,
        "virtiofs" => 9,
        "usb" => 13,
        "hostpci" => 15,
        _ => 0,
    }
}

/// The parameter that a key names.
pub(crate) fn find<'a>(params: &[&'a [Param]], key: &str) -> Option<&'a Param> {
    let all = || params.iter().flat_map(|list| list.iter());
    if let Some(found) = all().find(|p| p.name == key) {
        return Some(found);
    }
    let (family, index) = split_index(key)?;
    all().find(|p| p.name.strip_suffix("[n]") == Some(family) && index <= greatest_index(family))
}

/// A call and what it takes, the parts of its path among it.
#[derive(Clone, Debug)]
pub struct CallFacts {
    /// `GET`
    pub method: &'static str,
    /// `/nodes/{node}/qemu`
    pub path: &'static str,
    /// The parameters.
    pub params: Vec<Param>,
}

/// Every call that the simulator knows.
pub fn calls() -> Vec<CallFacts> {
    super::api::routes::ROUTES
        .iter()
        .map(|route| {
            let parts = route
                .path
                .split('/')
                .filter_map(|p| p.strip_prefix('{')?.strip_suffix('}'));
            let mut params: Vec<Param> = parts.map(super::api::routes::path_param).collect();
            params.extend(route.params.iter().flat_map(|list| list.iter()).copied());
            CallFacts {
                method: route.method,
                path: route.path,
                params,
            }
        })
        .collect()
}

/// Whether a key may stand in a VM's config (what `delete` takes).
pub(crate) fn is_config_key(key: &str) -> bool {
    find(&[tables::CONFIG], key).is_some()
}

/// A config value as JSON: numbers and flags are numbers.
pub(crate) fn config_json(key: &str, value: &str) -> Value {
    let numeric = match find(&[tables::CONFIG], key).map(|p| p.kind) {
        Some(Kind::Bool | Kind::Int(..) | Kind::Number(..)) => true,
        Some(Kind::Text(_) | Kind::Enum(_) | Kind::Pattern(_) | Kind::Format(..) | Kind::Props(_) | Kind::List)
        | None => key == "snaptime",
    };
    match value.parse::<i64>() {
        Ok(number) if numeric => Value::from(number),
        _ => Value::from(value),
    }
}

/// Checks given values. The checked ones as text; a list stays a repeated key.
pub(crate) fn validate(
    params: &[&[Param]],
    given: &[(String, Value)],
    major: u32,
) -> Result<Vec<(String, String)>, ApiError> {
    let mut errors: Vec<(String, String)> = Vec::new();
    let mut checked = Vec::new();
    if let Some((key, _)) = given
        .iter()
        .find(|(key, value)| value.is_null() && find(params, key).is_some())
    {
        return Err(ApiError::failed(format!(
            "unable to parse value of '{key}' - got undefined value"
        )));
    }
    for (key, value) in given {
        match find(params, key).filter(|p| p.since <= major) {
            None => errors.push((
                key.clone(),
                "property is not defined in schema and the schema does not allow additional properties".to_owned(),
            )),
            Some(param) => match as_texts(param, value) {
                Ok(texts) => {
                    for text in texts {
                        if let Err(why) = check_value(key, &param.kind, &text) {
                            errors.push((key.clone(), why));
                        }
                        checked.push((key.clone(), text));
                    }
                }
                Err(why) => errors.push((key.clone(), why)),
            },
        }
    }
    let has = |name: &str| given.iter().any(|(key, _)| key == name);
    for param in params.iter().flat_map(|list| list.iter()) {
        if !param.optional && !has(param.name) {
            errors.push((
                param.name.to_owned(),
                "property is missing and it is not optional".to_owned(),
            ));
        }
        if let Some(other) = param.requires.filter(|other| has(param.name) && !has(other)) {
            let text = format!("missing property required by '{}'", param.name);
            match errors.iter_mut().find(|(name, _)| name == other) {
                Some((_, all)) => *all = format!("{all}\\n{text}"),
                None => errors.push((other.to_owned(), text)),
            }
        }
    }
    if errors.is_empty() {
        Ok(checked)
    } else {
        Err(ApiError::invalid_all(errors))
    }
}

/// The texts of a value, one unless it is a list.
fn as_texts(param: &Param, value: &Value) -> Result<Vec<String>, String> {
    let type_name = match param.kind {
        Kind::Bool => "boolean",
        Kind::Int(..) | Kind::Format("pve-vmid", _) => "integer",
        Kind::Number(..) => "number",
        Kind::List => "array",
        Kind::Text(_) | Kind::Enum(_) | Kind::Pattern(_) | Kind::Format(..) | Kind::Props(_) => "string",
    };
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(u8::from(*flag).to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match value {
        Value::Array(items) if matches!(param.kind, Kind::List) => Ok(items.iter().filter_map(scalar).collect()),
        Value::Array(items) if matches!(param.kind, Kind::Format(name, _) if name.ends_with("-list")) => {
            Ok(vec![items.iter().filter_map(scalar).collect::<Vec<_>>().join(",")])
        }
        Value::Array(_) => Err(format!("type check ('{type_name}') failed - got ARRAY")),
        Value::Object(_) => Err(format!("type check ('{type_name}') failed - got HASH")),
        Value::Null => Ok(vec![String::new()]),
        other => Ok(scalar(other).into_iter().collect()),
    }
}

/// Checks one value; the text of what is wrong.
fn check_value(key: &str, kind: &Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Bool => {
            if matches!(text, "0" | "1") {
                Ok(())
            } else {
                Err(format!("type check ('boolean') failed - got '{text}'"))
            }
        }
        Kind::Int(low, high) => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("type check ('integer') failed - got '{text}'"));
            }
            let number: i64 = text.trim_start_matches('+').parse().unwrap_or(i64::MAX);
            if number < *low {
                return Err(format!("value must have a minimum value of {low}"));
            }
            if number > *high {
                return Err(format!("value must have a maximum value of {high}"));
            }
            Ok(())
        }
        Kind::Number(low, high) => {
            let number = text
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite())
                .ok_or_else(|| format!("type check ('number') failed - got '{text}'"))?;
            if number < *low {
                return Err(format!("value must have a minimum value of {low}"));
            }
            if number > *high {
                return Err(format!("value must have a maximum value of {high}"));
            }
            Ok(())
        }
        Kind::Text(longest) => check_length(text, *longest),
        Kind::Enum(values) => {
            if values.contains(&text) {
                Ok(())
            } else {
                Err(format!(
                    "value '{text}' does not have a value in the enumeration '{}'",
                    values.join(", ")
                ))
            }
        }
        Kind::Pattern(pattern) => {
            let whole = regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|e| e.to_string())?;
            if whole.is_match(text) {
                Ok(())
            } else {
                Err("value does not match the regex pattern".to_owned())
            }
        }
        Kind::Format("pve-vmid", _) => {
            check_value(key, &Kind::Int(LOW, HIGH), text)?;
            check_format("pve-vmid", text).map_err(|why| format!("invalid format - {why}\n"))
        }
        Kind::Format(name, longest) => {
            check_format(name, text).map_err(|why| format!("invalid format - {why}\n"))?;
            check_length(text, *longest)
        }
        Kind::Props(subs) => check_props(key, subs, text),
        Kind::List => Ok(()),
    }
}

fn check_length(text: &str, longest: usize) -> Result<(), String> {
    if longest > 0 && text.chars().count() > longest {
        Err(format!("value may only be {longest} characters long"))
    } else {
        Ok(())
    }
}

/// Checks a property string.
fn check_props(key: &str, subs: &[Sub], text: &str) -> Result<(), String> {
    const UNKNOWN: &str = "property is not defined in schema and the schema does not allow additional properties";
    let mut problems: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let models = subs.iter().any(|s| s.name == "macaddr");
    for (name, value) in split_props(text) {
        let found = match name {
            Some(model) if models && super::props::NIC_MODELS.contains(&model) => {
                seen.push("model");
                subs.iter().find(|s| s.name == "macaddr")
            }
            Some("volume") => subs.iter().find(|s| s.name == "file"),
            Some("freeze-fs-on-backup" | "guest-fsfreeze") => subs.iter().find(|s| s.name == "freeze-fs"),
            Some(name) => subs.iter().find(|s| s.name == name),
            None => subs.iter().find(|s| s.default_key),
        };
        let Some(sub) = found else {
            match name {
                Some(name) => problems.push(format!("{key}.{name}: {UNKNOWN}")),
                None => {
                    return Err(
                        "invalid format - value without key, but schema does not define a default key\n".to_owned(),
                    );
                }
            }
            continue;
        };
        if seen.contains(&sub.name) {
            return Err(format!(
                "invalid format - duplicate key in comma-separated list property: {}\n",
                sub.name
            ));
        }
        seen.push(sub.name);
        let value = match (sub.kind, parse_bool(value)) {
            (Kind::Bool, Some(flag)) => u8::from(flag).to_string(),
            _ => value.to_owned(),
        };
        if let Err(why) = check_value(key, &sub.kind, &value) {
            problems.push(format!("{key}.{}: {why}", sub.name));
        }
    }
    for sub in subs {
        if !sub.optional && !seen.contains(&sub.name) {
            problems.push(format!(
                "{key}.{}: property is missing and it is not optional",
                sub.name
            ));
        }
        if let Some(other) = sub
            .requires
            .filter(|other| seen.contains(&sub.name) && !seen.contains(other))
        {
            problems.push(format!(
                "{key}.{other}: missing property required by '{key}.{}'",
                sub.name
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("invalid format - format error\n{}\n", problems.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(key: &str, value: &str) -> String {
        let given = [(key.to_owned(), Value::from(value))];
        match validate(&[tables::CONFIG], &given, 9) {
            Ok(_) => "fine".to_owned(),
            Err(error) => error.errors[0].1.clone(),
        }
    }

    #[test]
    fn the_texts_are_those_of_the_recordings() {
        assert_eq!(error_of("cores", "two"), "type check ('integer') failed - got 'two'");
        assert_eq!(error_of("cores", "0"), "value must have a minimum value of 1");
        assert_eq!(
            error_of("memory", "8"),
            "invalid format - format error\nmemory.current: value must have a minimum value of 16\n"
        );
        assert_eq!(
            error_of("net0", "bridge=vmbr0"),
            "invalid format - format error\nnet0.model: property is missing and it is not optional\n"
        );
        assert_eq!(
            error_of("net0", "virtio=12:34,bridge=vmbr0"),
            "invalid format - format error\nnet0.macaddr: invalid format - value does not look like a valid unicast MAC \
             address\n\n"
        );
        assert_eq!(
            error_of("ipconfig0", "gw=10.0.0.1"),
            "invalid format - format error\nipconfig0.ip: missing property required by 'ipconfig0.gw'\n"
        );
        assert_eq!(
            error_of("boot", "order=foo"),
            "invalid format - format error\nboot.order: invalid format - invalid boot device 'foo'\n\n"
        );
        assert_eq!(error_of("onboot", "yes"), "type check ('boolean') failed - got 'yes'");
        assert_eq!(error_of("agent", "enabled=1,fstrim_cloned_disks=1"), "fine");
        assert_eq!(
            error_of("scsi31", "a:1"),
            "property is not defined in schema and the schema does not allow additional properties"
        );
        assert_eq!(
            error_of("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"),
            "fine"
        );
    }

    #[test]
    fn numbers_stay_numbers_in_json() {
        assert_eq!(config_json("cores", "2"), Value::from(2));
        assert_eq!(config_json("memory", "128"), Value::from("128"));
        assert_eq!(config_json("template", "1"), Value::from(1));
    }
}
