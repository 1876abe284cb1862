//! Filters over texts and numbers.

use minijinja::value::{Kwargs, Rest, Value as Jinja, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind};
use regex::{Captures, Regex, RegexBuilder};

use super::encode;
use super::filters::{Call, Outcome, display, native, wrong};
use super::value::Data;

fn regex(pattern: &str, ignore_case: bool, multiline: bool, dotall: bool) -> Result<Regex, Error> {
    let build = |unicode: bool| {
        RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .multi_line(multiline)
            .dot_matches_new_line(dotall)
            .unicode(unicode)
            .build()
    };
    build(true)
        .or_else(|first| build(false).map_err(|_| first))
        .map_err(|error| {
            let told = error.to_string();
            let last = told
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned();
            let hint = if last.contains("look-around") || last.contains("backreference") {
                " (look-around and backreferences are not supported)"
            } else {
                ""
            };
            wrong(format!("the regular expression does not parse: {last}{hint}"))
        })
}

fn flags(call: &Call<'_>) -> Result<(bool, bool), Error> {
    Ok((
        call.arg_flag(usize::MAX, "ignorecase")?.unwrap_or(false),
        call.arg_flag(usize::MAX, "multiline")?.unwrap_or(false),
    ))
}

/// Python's replacement: `\1`, `\g<name>`, escapes.
fn replacement(captures: &Captures<'_>, template: &str, out: &mut String) {
    let mut rest = template;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let group = |name: &str| match name.parse::<usize>() {
            Ok(index) => captures.get(index),
            Err(_) => captures.name(name),
        };
        match rest.chars().next() {
            Some('g') if rest[1..].starts_with('<') && rest.contains('>') => {
                let (name, after) = rest[2..].split_once('>').unwrap_or((&rest[2..], ""));
                out.push_str(group(name).map_or("", |found| found.as_str()));
                rest = after;
            }
            Some(c) if c.is_ascii_digit() => {
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                out.push_str(group(&rest[..digits]).map_or("", |found| found.as_str()));
                rest = &rest[digits..];
            }
            Some('n') => {
                out.push('\n');
                rest = &rest[1..];
            }
            Some('t') => {
                out.push('\t');
                rest = &rest[1..];
            }
            Some(c) => {
                if c != '\\' {
                    out.push('\\');
                }
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
            None => out.push('\\'),
        }
    }
    out.push_str(rest);
}

pub(crate) fn regex_replace(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "pattern")?.unwrap_or_default();
    let template = call.arg_text(1, "replacement")?.unwrap_or_default();
    let (ignore_case, multiline) = flags(call)?;
    let count = call
        .arg_int(usize::MAX, "count")?
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0);
    let replaced =
        regex(&pattern, ignore_case, multiline, false)?.replacen(&source, count, |captures: &Captures<'_>| {
            let mut out = String::new();
            replacement(captures, &template, &mut out);
            out
        });
    Ok(Jinja::from(replaced.into_owned()))
}

pub(crate) fn regex_search(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "regex")?.unwrap_or_default();
    let (ignore_case, multiline) = flags(call)?;
    let regex = regex(&pattern, ignore_case, multiline, false)?;
    let Some(captures) = regex.captures(&source) else {
        return Ok(Jinja::from(()));
    };
    let groups = call.args().get(1..).unwrap_or_default();
    if groups.is_empty() {
        return Ok(Jinja::from(captures.get(0).map_or("", |found| found.as_str())));
    }
    let mut out = Vec::new();
    for group in groups {
        let name = display(group)?;
        let name = name.trim_start_matches('\\');
        let name = name
            .strip_prefix("g<")
            .and_then(|name| name.strip_suffix('>'))
            .unwrap_or(name);
        let found = match name.parse::<usize>() {
            Ok(index) => captures.get(index),
            Err(_) => captures.name(name),
        };
        out.push(match found {
            Some(found) => Jinja::from(found.as_str()),
            None => Jinja::from(()),
        });
    }
    Ok(Jinja::from(out))
}

pub(crate) fn regex_findall(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "regex")?.unwrap_or_default();
    let multiline = call.arg_flag(1, "multiline")?.unwrap_or(false);
    let ignore_case = call.arg_flag(2, "ignorecase")?.unwrap_or(false);
    let regex = regex(&pattern, ignore_case, multiline, false)?;
    let group = |captures: &Captures<'_>, i: usize| Jinja::from(captures.get(i).map_or("", |found| found.as_str()));
    let found = regex.captures_iter(&source).map(|captures| match captures.len() {
        1 => group(&captures, 0),
        2 => group(&captures, 1),
        groups => Jinja::from((1..groups).map(|i| group(&captures, i)).collect::<Vec<_>>()),
    });
    Ok(Jinja::from(found.collect::<Vec<_>>()))
}

pub(crate) fn regex_escape(call: &Call<'_>) -> Outcome {
    Ok(Jinja::from(regex::escape(&call.text()?)))
}

/// The tests `match`, `search`, `regex`.
pub(crate) fn regex_test(text: &str, pattern: &str, args: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    let args = args.into_values();
    let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    let flag = |position: usize, name: &str| -> Result<bool, Error> {
        Ok(match positional.get(position) {
            Some(value) => value.is_true(),
            None => kwargs.get::<Option<bool>>(name)?.unwrap_or(false),
        })
    };
    let regex = regex(pattern, flag(0, "ignorecase")?, flag(1, "multiline")?, false)?;
    Ok(regex.is_match(text))
}

/// The test `version`: parts that are numbers are compared as numbers.
pub(crate) fn version(a: &str, b: &str, args: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    use std::cmp::Ordering;
    let args = args.into_values();
    let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    let operator = match positional.first() {
        Some(operator) => display(operator)?,
        None => kwargs
            .get::<Option<String>>("operator")?
            .unwrap_or_else(|| "eq".to_owned()),
    };
    let parts = |text: &str| -> Vec<(Option<u64>, String)> {
        let mut out: Vec<String> = Vec::new();
        let mut kind = None;
        for c in text.chars() {
            let now = if c.is_ascii_digit() {
                Some(true)
            } else if c.is_alphabetic() {
                Some(false)
            } else {
                None
            };
            match (now, kind == now) {
                (None, _) => {}
                (Some(_), true) => out.last_mut().into_iter().for_each(|last| last.push(c)),
                (Some(_), false) => out.push(c.to_string()),
            }
            kind = now;
        }
        out.into_iter().map(|part| (part.parse().ok(), part)).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let mut order = Ordering::Equal;
    for i in 0..a.len().max(b.len()) {
        order = match (a.get(i), b.get(i)) {
            (Some((Some(a), _)), Some((Some(b), _))) => a.cmp(b),
            (Some((_, a)), Some((_, b))) => a.cmp(b),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        if order != Ordering::Equal {
            break;
        }
    }
    Ok(match operator.as_str() {
        "==" | "=" | "eq" => order == Ordering::Equal,
        "!=" | "<>" | "ne" => order != Ordering::Equal,
        "<" | "lt" => order == Ordering::Less,
        "<=" | "le" => order != Ordering::Greater,
        ">" | "gt" => order == Ordering::Greater,
        ">=" | "ge" => order != Ordering::Less,
        other => return Err(wrong(format!("version: the operator `{other}` is unknown"))),
    })
}

pub(crate) fn b64encode(call: &Call<'_>) -> Outcome {
    Ok(Jinja::from(encode::base64(call.text()?.as_bytes())))
}

pub(crate) fn b64decode(call: &Call<'_>) -> Outcome {
    let bytes = encode::unbase64(&call.text()?).ok_or_else(|| wrong("b64decode: this is not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("b64decode: the result is not UTF-8"))?;
    Ok(Jinja::from(text))
}

pub(crate) fn quote(call: &Call<'_>) -> Outcome {
    let text = if call.value.is_none() {
        String::new()
    } else {
        call.text()?
    };
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    Ok(Jinja::from(if !text.is_empty() && text.chars().all(safe) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\"'\"'"))
    }))
}

pub(crate) fn hash(call: &Call<'_>) -> Outcome {
    let algorithm = call.arg_text(0, "hashtype")?.unwrap_or_else(|| "sha1".to_owned());
    hash_with(call, &algorithm)
}

pub(crate) fn hash_with(call: &Call<'_>, algorithm: &str) -> Outcome {
    match encode::digest(&call.text()?, algorithm) {
        Some(digest) => Ok(Jinja::from(digest)),
        None => Err(wrong(format!("hash: the algorithm `{algorithm}` is unknown"))),
    }
}

/// Ansible's namespace for `to_uuid` (`ansible/plugins/filter/core.py`).
const NAMESPACE: uuid::Uuid = uuid::Uuid::from_u128(0x361E_6D51_FAEC_444A_9079_3413_86DA_8E2E);

pub(crate) fn to_uuid(call: &Call<'_>) -> Outcome {
    let space = match call.arg_text(0, "namespace")? {
        Some(space) => space
            .parse()
            .map_err(|_| wrong("to_uuid: the namespace is not a UUID"))?,
        None => NAMESPACE,
    };
    let mut bytes = space.as_bytes().to_vec();
    bytes.extend(call.text()?.as_bytes());
    let mut id = [0u8; 16];
    id.copy_from_slice(&encode::sha1(&bytes)[..16]);
    id[6] = id[6] & 0x0f | 0x50;
    id[8] = id[8] & 0x3f | 0x80;
    Ok(Jinja::from(uuid::Uuid::from_bytes(id).to_string()))
}

const UNITS: &str = "BKMGTPEZY";

pub(crate) fn human_to_bytes(call: &Call<'_>) -> Outcome {
    let text = call.text()?;
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let number: f64 = trimmed[..end]
        .parse()
        .map_err(|_| wrong("human_to_bytes: this is not a size"))?;
    let unit = trimmed[end..].trim().to_uppercase();
    let unit = if unit.is_empty() {
        call.arg_text(0, "default_unit")?.unwrap_or_default().to_uppercase()
    } else {
        unit
    };
    let power = match unit.chars().next() {
        None => 0,
        Some(c) => UNITS
            .find(c)
            .ok_or_else(|| wrong(format!("human_to_bytes: the unit `{unit}` is unknown")))?,
    };
    let factor = 1024f64.powi(i32::try_from(power).unwrap_or(0));
    Ok(Jinja::from((number * factor).round() as i64))
}

pub(crate) fn human_readable(call: &Call<'_>) -> Outcome {
    let bits = call.arg_flag(0, "isbits")?.unwrap_or(false);
    let number: f64 = match native(&call.value)?.data {
        Data::Int(value) => value as f64,
        Data::Float(value) => value,
        Data::Str(text) => text
            .trim()
            .parse()
            .map_err(|_| wrong("human_readable: this is not a number"))?,
        _ => return Err(wrong("human_readable: this is not a number")),
    };
    let base = if bits { "bits" } else { "Bytes" };
    let power = (1..9).rev().find(|power| number >= 1024f64.powi(*power)).unwrap_or(0);
    let scaled = number / 1024f64.powi(power);
    let suffix = match usize::try_from(power)
        .ok()
        .and_then(|power| UNITS.chars().nth(power))
        .filter(|_| power > 0)
    {
        Some(unit) => format!("{unit}{}", if bits { 'b' } else { 'B' }),
        None => base.to_owned(),
    };
    Ok(Jinja::from(format!("{scaled:.2} {suffix}")))
}

pub(crate) fn center(call: &Call<'_>) -> Outcome {
    let width = call
        .arg_int(0, "width")?
        .and_then(|width| usize::try_from(width).ok())
        .unwrap_or(80)
        .min(10_000);
    let text = call.text()?;
    let missing = width.saturating_sub(text.chars().count());
    // Python puts the odd blank to the left when both are odd.
    let left = missing / 2 + (missing & width & 1);
    Ok(Jinja::from(format!(
        "{}{text}{}",
        " ".repeat(left),
        " ".repeat(missing - left)
    )))
}

pub(crate) fn wordcount(call: &Call<'_>) -> Outcome {
    Ok(Jinja::from(call.text()?.split_whitespace().count()))
}

/// `comment` in its plain style.
pub(crate) fn comment(call: &Call<'_>) -> Outcome {
    let mark = match call.arg_text(0, "style")?.as_deref() {
        None | Some("plain") => "#",
        Some("erlang") => "%",
        Some("c") => "//",
        Some(other) => return Err(wrong(format!("comment: the style `{other}` is not supported"))),
    };
    let text = call.text()?;
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("{mark} {line}").trim_end().to_owned())
        .collect();
    Ok(Jinja::from(format!("{mark}\n{}\n{mark}", lines.join("\n"))))
}

fn numeric(value: &Jinja, what: &str) -> Result<f64, Error> {
    f64::try_from(value.clone()).map_err(|_| Error::new(ErrorKind::InvalidOperation, format!("{what} needs numbers")))
}

pub(crate) fn pow(call: &Call<'_>) -> Outcome {
    let power = call.arg(0, "y")?.ok_or_else(|| wrong("pow needs an exponent"))?;
    Ok(Jinja::from(numeric(&call.value, "pow")?.powf(numeric(&power, "pow")?)))
}

pub(crate) fn log(call: &Call<'_>) -> Outcome {
    let value = numeric(&call.value, "log")?;
    Ok(Jinja::from(match call.arg(0, "base")? {
        None => value.ln(),
        Some(base) => match numeric(&base, "log")? {
            10.0 => value.log10(),
            2.0 => value.log2(),
            base => value.ln() / base.ln(),
        },
    }))
}

pub(crate) fn root(call: &Call<'_>) -> Outcome {
    let value = numeric(&call.value, "root")?;
    Ok(Jinja::from(match call.arg(0, "base")? {
        None => value.sqrt(),
        Some(base) => match numeric(&base, "root")? {
            2.0 => value.sqrt(),
            base => value.powf(1.0 / base),
        },
    }))
}
