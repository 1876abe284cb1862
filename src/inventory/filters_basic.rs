//! Filters over any value: defaults and conversions.

use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, wrong};
use super::template::current;
use super::value::Data;

pub(crate) fn default(call: &Call<'_>) -> Outcome {
    let other = call.arg(0, "default_value")?.unwrap_or_else(|| Jinja::from(""));
    let lax = call.arg_flag(1, "boolean")?.unwrap_or(false);
    if call.value.is_undefined() {
        if let Some((run, _)) = current() {
            run.handle();
        }
        return Ok(other);
    }
    if lax && !call.value.is_true() {
        return Ok(other);
    }
    Ok(call.value.clone())
}

pub(crate) fn mandatory(call: &Call<'_>) -> Outcome {
    if !call.value.is_undefined() {
        return Ok(call.value.clone());
    }
    if let Some(message) = call.arg_text(0, "msg")? {
        return Err(wrong(message));
    }
    call.defined(&call.value)?;
    Ok(call.value.clone())
}

/// Ansible's `bool`: yes, on, 1, true are true; no, off, 0, false, the empty text are false; anything else is refused
/// (Ansible 2.19 still takes it for false, with a warning that this ends).
pub(crate) fn boolean(call: &Call<'_>) -> Outcome {
    if call.value.is_none() {
        return Ok(Jinja::from(false));
    }
    if let minijinja::value::ValueKind::Bool = call.value.kind() {
        return Ok(call.value.clone());
    }
    let text = call.text()?.to_lowercase();
    match text.as_str() {
        "yes" | "on" | "1" | "true" | "1.0" => Ok(Jinja::from(true)),
        "no" | "off" | "0" | "false" | "0.0" | "" => Ok(Jinja::from(false)),
        _ => Err(wrong("bool: the value is neither yes nor no")),
    }
}

pub(crate) fn int(call: &Call<'_>) -> Outcome {
    let fallback = || Ok(call.arg(0, "default")?.unwrap_or_else(|| Jinja::from(0)));
    let base = call.arg_int(1, "base")?.unwrap_or(10);
    if let Some(text) = call.value.as_str() {
        let text = text.trim().replace('_', "");
        let base = u32::try_from(base)
            .ok()
            .filter(|base| (2..=36).contains(base))
            .ok_or_else(|| wrong("int: bad base"))?;
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(&text)),
        };
        let lower = digits.to_ascii_lowercase();
        let prefix = match base {
            16 => "0x",
            8 => "0o",
            2 => "0b",
            _ => "",
        };
        if let Ok(value) = i64::from_str_radix(lower.strip_prefix(prefix).unwrap_or(&lower), base) {
            return Ok(Jinja::from(sign * value));
        }
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Jinja::from(value as i64)),
            _ => fallback(),
        };
    }
    match call.native()?.data {
        Data::Bool(value) => Ok(Jinja::from(i64::from(value))),
        Data::Int(_) => Ok(call.value.clone()),
        Data::Float(value) if value.is_finite() => Ok(Jinja::from(value as i64)),
        _ => fallback(),
    }
}

pub(crate) fn float(call: &Call<'_>) -> Outcome {
    let fallback = || Ok(call.arg(0, "default")?.unwrap_or_else(|| Jinja::from(0.0)));
    match call.native()?.data {
        Data::Bool(value) => Ok(Jinja::from(f64::from(u8::from(value)))),
        Data::Int(value) => Ok(Jinja::from(value as f64)),
        Data::Float(value) => Ok(Jinja::from(value)),
        Data::Str(text) => match text.trim().parse::<f64>() {
            Ok(value) => Ok(Jinja::from(value)),
            Err(_) => fallback(),
        },
        _ => fallback(),
    }
}

pub(crate) fn ternary(call: &Call<'_>) -> Outcome {
    let pick = |position, name| {
        let picked = call.arg(position, name)?;
        picked.ok_or_else(|| wrong(format!("ternary needs two values: `{name}` is missing")))
    };
    let (yes, no) = (pick(0, "true_val")?, pick(1, "false_val")?);
    if call.value.is_none()
        && let Some(value) = call.arg(2, "none_val")?.filter(|value| !value.is_none())
    {
        return Ok(value);
    }
    Ok(if call.value.is_true() { yes } else { no })
}

pub(crate) fn type_debug(call: &Call<'_>) -> Outcome {
    Ok(Jinja::from(match call.native()?.data {
        Data::Null => "NoneType",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int",
        Data::Float(_) => "float",
        Data::Str(_) | Data::Unsafe(_) | Data::Vault(_) => "str",
        Data::List(_) => "list",
        Data::Map(_) => "dict",
    }))
}
