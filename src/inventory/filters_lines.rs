//! Filters that lay text out: lines, widths, comments of URLs.

use minijinja::Error;
use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, display, native, wrong};
use super::text;
use super::value::Data;

/// The widest indentation and the longest line.
const MAX_WIDTH: i64 = 10_000;

fn width(call: &Call<'_>, position: usize, name: &str, default: i64) -> Result<usize, Error> {
    let width = call.arg_int(position, name)?.unwrap_or(default);
    Ok(usize::try_from(width.clamp(0, MAX_WIDTH)).unwrap_or(0))
}

/// `indent(width=4, first=false, blank=false)`; the width may be the text to put in front.
pub(crate) fn indent(call: &Call<'_>) -> Outcome {
    let pad = match call.arg(0, "width")? {
        Some(value) if value.as_str().is_some() => display(&value)?,
        _ => " ".repeat(width(call, 0, "width", 4)?),
    };
    let first = call.arg_flag(1, "first")?.unwrap_or(false);
    let blank = call.arg_flag(2, "blank")?.unwrap_or(false);
    let source = call.text()?;
    let mut out = String::new();
    for (i, line) in source.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let padded = if i == 0 { first } else { blank || !line.is_empty() };
        if padded {
            out.push_str(&pad);
        }
        out.push_str(line.strip_suffix('\r').unwrap_or(line));
    }
    Ok(Jinja::from(out))
}

/// `truncate(length=255, killwords=false, end='...', leeway=5)`.
pub(crate) fn truncate(call: &Call<'_>) -> Outcome {
    let length = width(call, 0, "length", 255)?;
    let kill = call.arg_flag(1, "killwords")?.unwrap_or(false);
    let end = call.arg_text(2, "end")?.unwrap_or_else(|| "...".to_owned());
    let leeway = width(call, 3, "leeway", 5)?;
    let source = call.text()?;
    if source.chars().count() <= length + leeway {
        return Ok(Jinja::from(source));
    }
    let kept = length
        .checked_sub(end.chars().count())
        .ok_or_else(|| wrong("truncate: the length is shorter than the end"))?;
    let cut: String = source.chars().take(kept).collect();
    let cut = match cut.rsplit_once(' ') {
        Some((words, _)) if !kill => words,
        _ => &cut,
    };
    Ok(Jinja::from(format!("{cut}{end}")))
}

/// `wordwrap(width=79, break_long_words=true)`.
pub(crate) fn wordwrap(call: &Call<'_>) -> Outcome {
    let width = width(call, 0, "width", 79)?.max(1);
    let break_long = call.arg_flag(1, "break_long_words")?.unwrap_or(true);
    let source = call.text()?;
    let lines = source.lines().map(|line| {
        let mut lines: Vec<String> = vec![String::new()];
        for word in line.split_whitespace() {
            let mut word: Vec<char> = word.chars().collect();
            loop {
                let last = lines.last().map_or(0, |line| line.chars().count());
                let room = if last == 0 {
                    width
                } else {
                    width.saturating_sub(last + 1)
                };
                if word.len() <= room || last == 0 && !break_long {
                    if let Some(line) = lines.last_mut() {
                        if last > 0 {
                            line.push(' ');
                        }
                        line.extend(word);
                    }
                    break;
                }
                if last == 0 {
                    let rest = word.split_off(width);
                    if let Some(line) = lines.last_mut() {
                        line.extend(word);
                    }
                    word = rest;
                }
                lines.push(String::new());
            }
        }
        lines.join("\n")
    });
    Ok(Jinja::from(lines.collect::<Vec<_>>().join("\n")))
}

/// `pprint`: as Python's `repr`.
pub(crate) fn pprint(call: &Call<'_>) -> Outcome {
    let mut out = String::new();
    text::repr(&call.native()?, &mut out);
    Ok(Jinja::from(out))
}

/// `strftime(second=none, utc=false)`: the text is the format.
pub(crate) fn strftime(call: &Call<'_>) -> Outcome {
    let bad = |why: String| wrong(format!("strftime: {why}"));
    let at = match call.arg(0, "second")?.filter(|second| !second.is_none()) {
        None => jiff::Timestamp::now(),
        Some(second) => {
            let second = f64::try_from(second).map_err(|_| wrong("strftime: the second is a number"))?;
            jiff::Timestamp::from_second(second as i64).map_err(|error| bad(error.to_string()))?
        }
    };
    let zone = if call.arg_flag(1, "utc")?.unwrap_or(false) {
        jiff::tz::TimeZone::UTC
    } else {
        jiff::tz::TimeZone::system()
    };
    let format = call.text()?;
    jiff::fmt::strtime::format(&format, &at.to_zoned_datetime(zone))
        .map(Jinja::from)
        .map_err(|error| bad(error.to_string()))
}

/// Percent-encodes all but letters, digits, `_.-~` and those in `safe`; a blank becomes `+` with `plus`.
fn percent(text: &str, safe: &str, plus: bool, out: &mut String) {
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "_.-~".contains(c) || byte.is_ascii() && safe.contains(c) {
            out.push(c);
        } else if plus && byte == b' ' {
            out.push('+');
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// `urlencode`: of a text its percent form, of a mapping or of pairs a query.
pub(crate) fn urlencode(call: &Call<'_>) -> Outcome {
    let value = call.native()?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    match &value.data {
        Data::Map(map) => pairs.extend(
            map.iter()
                .map(|(key, entry)| (key.clone(), text::display(&entry.value))),
        ),
        Data::List(list) => {
            for item in list {
                match item.as_list() {
                    Some([key, value]) => pairs.push((text::display(key), text::display(value))),
                    _ => return Err(wrong("urlencode needs text, a mapping or pairs")),
                }
            }
        }
        _ => {
            let mut out = String::new();
            percent(&call.text()?, "/", false, &mut out);
            return Ok(Jinja::from(out));
        }
    }
    let mut out = String::new();
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push('&');
        }
        percent(key, "", true, &mut out);
        out.push('=');
        percent(value, "", true, &mut out);
    }
    Ok(Jinja::from(out))
}

pub(crate) fn urldecode(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let mut out = Vec::with_capacity(source.len());
    let mut bytes = source.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let coded = source
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, coded) {
            (b'%', Some(byte)) => {
                out.push(byte);
                bytes.nth(1);
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    Ok(Jinja::from(String::from_utf8_lossy(&out).into_owned()))
}

/// `urlsplit(part)`: a part of a URL, or all of them.
pub(crate) fn urlsplit(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let (rest, fragment) = source.split_once('#').unwrap_or((&source, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let scheme_ok = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if scheme_ok(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), rest),
    };
    let (netloc, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (user_info, host_port) = match netloc.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, netloc),
    };
    let (host, port) = match host_port.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match host_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_port, None),
        },
    };
    let some = |text: Option<&str>| text.map_or_else(|| Jinja::from(()), Jinja::from);
    let user = user_info.map(|user| {
        user.split_once(':')
            .map_or((user, None), |(user, word)| (user, Some(word)))
    });
    let port = match port.filter(|port| !port.is_empty()) {
        Some(port) => Jinja::from(
            port.parse::<u16>()
                .map_err(|_| wrong("urlsplit: the port is no port"))?,
        ),
        None => Jinja::from(()),
    };
    let host = host.to_ascii_lowercase();
    let parts = [
        ("fragment", Jinja::from(fragment)),
        ("hostname", some(Some(host.as_str()).filter(|host| !host.is_empty()))),
        ("netloc", Jinja::from(netloc)),
        ("password", some(user.and_then(|(_, word)| word))),
        ("path", Jinja::from(path)),
        ("port", port),
        ("query", Jinja::from(query)),
        ("scheme", Jinja::from(scheme)),
        ("username", some(user.map(|(user, _)| user))),
    ];
    match call.arg_text(0, "query")?.filter(|part| !part.is_empty()) {
        None => Ok(Jinja::from_pairs(parts)),
        Some(wanted) => parts
            .into_iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
            .ok_or_else(|| wrong(format!("urlsplit: there is no part `{wanted}`"))),
    }
}

/// The text of a value that has to be one, as paths do.
pub(crate) fn only_text(call: &Call<'_>) -> Result<String, Error> {
    match native(&call.value)?.data {
        Data::Str(text) => Ok(text),
        _ => Err(wrong(format!("{} needs text", call.name))),
    }
}
