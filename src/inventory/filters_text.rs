//! Filters over texts and numbers.

use minijinja::value::Value as Jinja;
use minijinja::{Error, ErrorKind};

use super::filters::{Call, Outcome, native, wrong};
use super::value::Data;
use super::{crypt, encode};

/// The bytes of a text in an encoding that Python names so.
fn encoded(text: &str, encoding: &str) -> Result<Vec<u8>, Error> {
    match encoding.to_lowercase().replace('_', "-").as_str() {
        "utf-8" | "utf8" => Ok(text.as_bytes().to_vec()),
        "utf-16-le" => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        "utf-16-be" => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        "latin-1" | "latin1" | "iso-8859-1" => text
            .chars()
            .map(|c| u8::try_from(u32::from(c)).map_err(|_| wrong("the text has characters beyond Latin-1")))
            .collect(),
        "ascii" if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        _ => Err(wrong(format!("the encoding `{encoding}` is not supported"))),
    }
}

fn decoded(bytes: Vec<u8>, encoding: &str) -> Result<String, Error> {
    let units = |make: fn([u8; 2]) -> u16| {
        let (pairs, []) = bytes.as_chunks::<2>() else {
            return None;
        };
        String::from_utf16(&pairs.iter().map(|pair| make(*pair)).collect::<Vec<_>>()).ok()
    };
    let text = match encoding.to_lowercase().replace('_', "-").as_str() {
        "utf-16-le" => units(u16::from_le_bytes),
        "utf-16-be" => units(u16::from_be_bytes),
        "latin-1" | "latin1" | "iso-8859-1" => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        "utf-8" | "utf8" | "ascii" => String::from_utf8(bytes).ok(),
        _ => return Err(wrong(format!("the encoding `{encoding}` is not supported"))),
    };
    text.ok_or_else(|| wrong(format!("b64decode: the result is not {encoding}")))
}

pub(crate) fn b64encode(call: &Call<'_>) -> Outcome {
    let encoding = call.arg_text(0, "encoding")?.unwrap_or_else(|| "utf-8".to_owned());
    Ok(Jinja::from(encode::base64(&encoded(&call.text()?, &encoding)?)))
}

pub(crate) fn b64decode(call: &Call<'_>) -> Outcome {
    let encoding = call.arg_text(0, "encoding")?.unwrap_or_else(|| "utf-8".to_owned());
    let bytes = encode::unbase64(&call.text()?).ok_or_else(|| wrong("b64decode: this is not base64"))?;
    Ok(Jinja::from(decoded(bytes, &encoding)?))
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

/// `password_hash(hashtype, salt, rounds=..)`. A hash without a salt differs each time that it is made.
pub(crate) fn password_hash(call: &Call<'_>) -> Outcome {
    let Some(password) = call.value.as_str() else {
        return Err(wrong("password_hash needs text"));
    };
    let kind = call.arg_text(0, "hashtype")?.unwrap_or_else(|| "sha512".to_owned());
    let scheme = crypt::Scheme::of(&kind).ok_or_else(|| {
        wrong(format!(
            "password_hash: `{kind}` is not supported: sha512 and sha256 are"
        ))
    })?;
    let salt = match call.arg(1, "salt")?.filter(|salt| !salt.is_none()) {
        Some(salt) => super::filters::display(&salt)?,
        None => crypt::salt().map_err(wrong)?,
    };
    let rounds = match call.arg(usize::MAX, "rounds")?.filter(|rounds| !rounds.is_none()) {
        None => None,
        Some(rounds) => Some(u32::try_from(rounds).map_err(|_| wrong("password_hash: rounds are a whole number"))?),
    };
    crypt::hash(scheme, password.as_bytes(), &salt, rounds)
        .map(Jinja::from)
        .map_err(|why| wrong(format!("password_hash: {why}")))
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
    let bits = call.arg_flag(1, "isbits")?.unwrap_or(false);
    let text = call.text()?;
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let number: f64 = trimmed[..end]
        .parse()
        .map_err(|_| wrong("human_to_bytes: this is not a size"))?;
    let unit = trimmed[end..].trim();
    let unit = if unit.is_empty() {
        call.arg_text(0, "default_unit")?.unwrap_or_default()
    } else {
        unit.to_owned()
    };
    let Some(first) = unit.chars().next() else {
        return Ok(Jinja::from(number.round() as i64));
    };
    let known = UNITS.find(first.to_ascii_uppercase());
    let power = known.ok_or_else(|| wrong(format!("human_to_bytes: the unit `{unit}` is unknown")))?;
    // The rest is B for bytes and b for bits, or the word.
    let rest = &unit[first.len_utf8()..];
    let letter = if bits { "b" } else { "B" };
    let word = if bits { "bit" } else { "byte" };
    let good = if power == 0 {
        rest.is_empty() && (first.to_string() == letter || !bits) || unit.to_lowercase().starts_with(word)
    } else {
        rest.is_empty() || rest == letter
    };
    if !good {
        return Err(wrong(format!(
            "human_to_bytes: the unit `{unit}` is neither {first} nor {first}{letter}"
        )));
    }
    let factor = 1024f64.powi(i32::try_from(power).unwrap_or(0));
    Ok(Jinja::from((number * factor).round() as i64))
}

pub(crate) fn human_readable(call: &Call<'_>) -> Outcome {
    let bits = call.arg_flag(0, "isbits")?.unwrap_or(false);
    let number: f64 = match native(&call.value)?.data {
        Data::Int(value) => value as f64,
        Data::Float(value) => value,
        _ => return Err(wrong("human_readable: this is not a number")),
    };
    let wanted = call.arg_text(1, "unit")?.filter(|unit| !unit.is_empty());
    let power = match wanted.and_then(|unit| unit.chars().next()) {
        Some(unit) => UNITS
            .find(unit.to_ascii_uppercase())
            .and_then(|power| i32::try_from(power).ok())
            .ok_or_else(|| wrong(format!("human_readable: the unit `{unit}` is unknown")))?,
        None => (1..9).rev().find(|power| number >= 1024f64.powi(*power)).unwrap_or(0),
    };
    let scaled = number / 1024f64.powi(power);
    let suffix = match usize::try_from(power)
        .ok()
        .and_then(|power| UNITS.chars().nth(power))
        .filter(|_| power > 0)
    {
        Some(unit) => format!("{unit}{}", if bits { 'b' } else { 'B' }),
        None => (if bits { "bits" } else { "Bytes" }).to_owned(),
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

/// How a style of `comment` looks: what comes before all, before each line, and behind all.
struct CommentStyle {
    begin: String,
    decoration: String,
    end: String,
}

pub(crate) fn comment(call: &Call<'_>) -> Outcome {
    let named = call.arg_text(0, "style")?.unwrap_or_else(|| "plain".to_owned());
    let (begin, decoration, end) = match named.as_str() {
        "plain" => ("", "# ", ""),
        "erlang" => ("", "% ", ""),
        "c" => ("", "// ", ""),
        "cblock" => ("/*", " * ", " */"),
        "xml" => ("<!--", " - ", "-->"),
        other => return Err(wrong(format!("comment: the style `{other}` is unknown"))),
    };
    let option = |name: &str, default: &str| -> Result<String, Error> {
        Ok(call.arg_text(usize::MAX, name)?.unwrap_or_else(|| default.to_owned()))
    };
    let style = CommentStyle {
        begin: option("beginning", begin)?,
        decoration: option("decoration", decoration)?,
        end: option("end", end)?,
    };
    let newline = option("newline", "\n")?;
    let count = |name: &str| -> Result<usize, Error> {
        let count = call.arg_int(usize::MAX, name)?.unwrap_or(1);
        Ok(usize::try_from(count).unwrap_or(0).min(1000))
    };
    let mark = style.decoration.trim_end().to_owned();
    let (prefix, postfix) = (option("prefix", &mark)?, option("postfix", &mark)?);
    let mut lines: Vec<String> = Vec::new();
    lines.extend((!style.begin.is_empty()).then(|| style.begin.clone()));
    lines.extend(std::iter::repeat_n(prefix, count("prefix_count")?));
    let text = call.text()?;
    lines.extend(
        text.split('\n')
            .map(|line| format!("{}{line}", style.decoration).trim_end().to_owned()),
    );
    lines.extend(std::iter::repeat_n(postfix, count("postfix_count")?));
    lines.extend((!style.end.is_empty()).then(|| style.end.clone()));
    Ok(Jinja::from(lines.join(&newline)))
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
