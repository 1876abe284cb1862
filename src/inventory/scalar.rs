//! Which type a plain YAML scalar has, by the rules of YAML 1.1 as PyYAML implements them (`yaml/resolver.py`,
//! `yaml/constructor.py` of PyYAML 6), because Ansible reads its files with PyYAML.
//!
//! The surprises: `yes` and `off` are booleans and `y` is text, `0644` is 420 and `0o644` is text, `12:30:45` is 45045,
//! `1e3` is text and `1.0e+3` is a number. A date, which PyYAML turns into a date object, stays text here: nothing in
//! an inventory can use a date otherwise.

use super::value::{Data, float_text};

/// The value of a plain scalar; `None` where PyYAML refuses it (a lone `=` or `<<`, digits that make no number).
pub(crate) fn resolve(text: &str) -> Option<Data> {
    if is_null(text) {
        return Some(Data::Null);
    }
    if matches!(text, "=" | "<<") {
        return None;
    }
    if let Some(value) = boolean(text) {
        return Some(Data::Bool(value));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Some(Data::Str(text.to_owned()));
    }
    match integer(text) {
        Number::Is(value) => return Some(Data::Int(value)),
        Number::TooBig => return Some(Data::Str(text.to_owned())),
        Number::Broken => return None,
        Number::Not => {}
    }
    match float(text) {
        Some(value) => Some(Data::Float(value)),
        None => Some(Data::Str(text.to_owned())),
    }
}

/// The forms of null.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The forms of a boolean.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// What an attempt to read an integer found.
#[derive(Debug, PartialEq)]
pub(crate) enum Number {
    /// It is one.
    Is(i128),
    /// It has the form of one, but does not fit 128 bits.
    TooBig,
    /// It has the form of one, but no digits (`0b_`).
    Broken,
    /// It has not the form of one.
    Not,
}

/// An integer: decimal, `0b`, `0x`, octal with a leading zero, base 60 with colons; `_` anywhere between.
pub(crate) fn integer(text: &str) -> Number {
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let all = |part: &str, good: fn(char) -> bool| !part.is_empty() && part.chars().all(|c| good(c) || c == '_');
    let read = |part: &str, radix: u32| {
        let digits = part.replace('_', "");
        if digits.is_empty() {
            return Number::Broken;
        }
        match i128::from_str_radix(&digits, radix) {
            Ok(value) => Number::Is(if negative { -value } else { value }),
            Err(_) => Number::TooBig,
        }
    };
    if let Some(part) = body.strip_prefix("0b")
        && all(part, |c| matches!(c, '0' | '1'))
    {
        return read(part, 2);
    }
    if let Some(part) = body.strip_prefix("0x")
        && all(part, |c| c.is_ascii_hexdigit())
    {
        return read(part, 16);
    }
    if body == "0" {
        return Number::Is(0);
    }
    if body.starts_with('0') && all(&body[1..], |c| matches!(c, '0'..='7')) {
        return read(body, 8);
    }
    if !body.starts_with(|c: char| matches!(c, '1'..='9')) {
        return Number::Not;
    }
    if let Some(parts) = sexagesimal(body) {
        let mut value: i128 = 0;
        for part in parts {
            let Some(next) = part
                .parse()
                .ok()
                .and_then(|part: i128| value.checked_mul(60)?.checked_add(part))
            else {
                return Number::TooBig;
            };
            value = next;
        }
        return Number::Is(if negative { -value } else { value });
    }
    if all(body, |c| c.is_ascii_digit()) {
        read(body, 10)
    } else {
        Number::Not
    }
}

/// The parts of `190:20:30`: a first part of digits, then at least one part below 60.
fn sexagesimal(body: &str) -> Option<Vec<String>> {
    let (first, rest) = body.split_once(':')?;
    if first.is_empty() || !first.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut parts = vec![first.replace('_', "")];
    if !parts[0].bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    for part in rest.split(':') {
        match part.as_bytes() {
            [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => parts.push(part.to_owned()),
            _ => return None,
        }
    }
    Some(parts)
}

/// A float: with a point, its exponent with a sign; base 60 with a point; `.inf`, `.nan`.
pub(crate) fn float(text: &str) -> Option<f64> {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match body {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if body == text => return Some(f64::NAN),
        _ => {}
    }
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    let lead = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    if body.contains(':') {
        let (whole, fraction) = body.split_once('.')?;
        if !digits(fraction) {
            return None;
        }
        let mut value = 0.0;
        for part in sexagesimal(whole)? {
            value = value * 60.0 + part.parse::<f64>().ok()?;
        }
        let fraction: f64 = format!("0.{}0", fraction.replace('_', "")).parse().ok()?;
        return Some(sign * (value + fraction));
    }
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    };
    let (whole, fraction) = mantissa.split_once('.')?;
    let good = lead(whole) && digits(whole) && digits(fraction)
        || whole.is_empty() && text == body && lead(fraction) && digits(fraction);
    if !good {
        return None;
    }
    if let Some(exponent) = exponent {
        let power = exponent.strip_prefix(['-', '+'])?;
        if power.is_empty() || !power.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}

/// A key of a mapping as text: what `json.dumps` makes of it.
pub(crate) fn key_text(data: &Data) -> Option<String> {
    Some(match data {
        Data::Null => "null".to_owned(),
        Data::Bool(value) => value.to_string(),
        Data::Int(value) => value.to_string(),
        Data::Float(value) => float_text(*value),
        Data::Str(text) | Data::Unsafe(text) => text.clone(),
        Data::List(_) | Data::Map(_) | Data::Vault(_) => return None,
    })
}

/// The names that keys equal to this one may bear: Python takes 1, 1.0 and true for one key.
pub(crate) fn equal_keys(data: &Data) -> Vec<String> {
    let number = match data {
        Data::Bool(value) => f64::from(u8::from(*value)),
        Data::Int(value) if value.unsigned_abs() < 1 << 53 => *value as f64,
        Data::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => *value,
        _ => return Vec::new(),
    };
    let mut names = vec![format!("{}", number as i128), float_text(number)];
    if number == 0.0 || number == 1.0 {
        names.push((number == 1.0).to_string());
    }
    names
}

/// Whether an integer was written in base 60, which surprises: `12:30` is 750.
pub(crate) fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_the_types_that_pyyaml_gives() {
        let int = |i| Some(Data::Int(i));
        let text = |s: &str| Some(Data::Str(s.to_owned()));
        for (source, want) in [
            ("yes", Some(Data::Bool(true))),
            ("off", Some(Data::Bool(false))),
            ("NO", Some(Data::Bool(false))),
            ("y", text("y")),
            ("yEs", text("yEs")),
            ("0644", int(420)),
            ("0o644", text("0o644")),
            ("089", text("089")),
            ("12:30:45", int(45045)),
            ("-12:30", int(-750)),
            ("12:60", text("12:60")),
            ("012:30", text("012:30")),
            ("1_000", int(1000)),
            ("0x_fF", int(255)),
            ("-0b11", int(-3)),
            ("0b", text("0b")),
            ("0b_", None),
            ("1e3", text("1e3")),
            ("1.0e+3", Some(Data::Float(1000.0))),
            ("1.0e3", text("1.0e3")),
            ("1.", Some(Data::Float(1.0))),
            (".5", Some(Data::Float(0.5))),
            ("-.5", text("-.5")),
            ("1:30.5", Some(Data::Float(90.5))),
            ("-.inf", Some(Data::Float(f64::NEG_INFINITY))),
            ("2024-01-02", text("2024-01-02")),
            ("10.0.0.1", text("10.0.0.1")),
            ("", Some(Data::Null)),
            ("~", Some(Data::Null)),
            ("nULL", text("nULL")),
            ("=", None),
            ("+", text("+")),
            ("-", text("-")),
            ("+12", int(12)),
        ] {
            assert_eq!(resolve(source), want, "{source:?}");
        }
        assert!(matches!(resolve(".nan"), Some(Data::Float(value)) if value.is_nan()));
        assert_eq!(resolve(&"9".repeat(60)), text(&"9".repeat(60)));
    }
}
