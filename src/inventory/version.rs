//! The test `version`: loose, strict, semantic and PEP 440 comparison.
//!
//! ```text
//! text --(parts by the kind)--> parts --> Ordering --> operator
//! ```
//!
//! Failures: an empty version, a version that its kind does not allow, and in a loose comparison a number that stands
//! where the other version has a word: Python cannot order these, and Ansible fails too.

use std::cmp::Ordering;

use minijinja::Error;
use minijinja::value::{Kwargs, Rest, Value as Jinja, ValueOrKwargs, from_args};

use super::filters::{display, wrong};

/// The test.
pub(crate) fn version(a: &str, b: &str, args: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    let args = args.into_values();
    let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    let named = |position: usize, name: &str| -> Result<Option<Jinja>, Error> {
        match positional.get(position) {
            Some(value) => Ok(Some(value.clone())),
            None => kwargs.get::<Option<Jinja>>(name),
        }
    };
    let operator = match named(0, "operator")? {
        Some(operator) => display(&operator)?,
        None => "eq".to_owned(),
    };
    let strict = named(1, "strict")?.map(|strict| strict.is_true());
    let kind = match named(2, "version_type")?.filter(|kind| !kind.is_none()) {
        Some(kind) => display(&kind)?,
        None if strict == Some(true) => "strict".to_owned(),
        None => "loose".to_owned(),
    };
    if a.is_empty() || b.is_empty() {
        return Err(wrong("version: a version is empty"));
    }
    let order = match kind.as_str() {
        "loose" => loose(a, b),
        "strict" => ordered(a, b, strict_parts),
        "semver" | "semantic" => ordered(a, b, semantic_parts),
        "pep440" => ordered(a, b, pep440_parts),
        other => return Err(wrong(format!("version: the kind `{other}` is unknown"))),
    }
    .map_err(|why| wrong(format!("version: {why}")))?;
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

fn ordered<T: Ord>(a: &str, b: &str, parts: impl Fn(&str) -> Option<T>) -> Result<Ordering, String> {
    let parts = |text: &str| parts(text).ok_or_else(|| format!("`{text}` is no version of this kind"));
    Ok(parts(a)?.cmp(&parts(b)?))
}

#[derive(Debug, PartialEq)]
enum Loose {
    Number(u128),
    Word(String),
}

/// Numbers, words of small letters, and what is between dots otherwise.
fn loose_parts(text: &str) -> Vec<Loose> {
    let kind = |c: char| match c {
        '0'..='9' => 0,
        'a'..='z' => 1,
        '.' => 2,
        _ => 3,
    };
    let mut parts: Vec<(u8, String)> = Vec::new();
    for c in text.chars() {
        match parts.last_mut() {
            Some((last, part)) if *last == kind(c) && kind(c) != 2 => part.push(c),
            _ => parts.push((kind(c), c.to_string())),
        }
    }
    let parts = parts.into_iter().filter(|(kind, _)| *kind != 2);
    parts
        .map(|(_, part)| match part.parse() {
            Ok(number) => Loose::Number(number),
            Err(_) => Loose::Word(part),
        })
        .collect()
}

fn loose(a: &str, b: &str) -> Result<Ordering, String> {
    let (left, right) = (loose_parts(a), loose_parts(b));
    for (left, right) in left.iter().zip(&right) {
        let order = match (left, right) {
            (Loose::Number(left), Loose::Number(right)) => left.cmp(right),
            (Loose::Word(left), Loose::Word(right)) => left.cmp(right),
            _ => {
                return Err(format!(
                    "`{a}` and `{b}` cannot be compared: a number stands against a word"
                ));
            }
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(left.len().cmp(&right.len()))
}

/// Two or three numbers, and perhaps `a1` or `b1` for what comes before.
fn strict_parts(text: &str) -> Option<(Vec<u64>, bool, char, u64)> {
    let at = text.find(['a', 'b']).unwrap_or(text.len());
    let mut numbers = text[..at]
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    if !(2..=3).contains(&numbers.len()) {
        return None;
    }
    numbers.resize(3, 0);
    match text[at..].chars().next() {
        None => Some((numbers, true, ' ', 0)),
        Some(letter) => Some((numbers, false, letter, text[at + 1..].parse().ok()?)),
    }
}

/// A part of a semantic version's suffix: numbers are before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Semantic {
    Number(u64),
    Word(String),
}

/// Three numbers, whether it is final, the parts before that; what is behind `+` does not count.
fn semantic_parts(text: &str) -> Option<(Vec<u64>, bool, Vec<Semantic>)> {
    let text = text.split('+').next()?;
    let (core, before) = match text.split_once('-') {
        Some((core, before)) => (core, Some(before)),
        None => (text, None),
    };
    let numbers = core
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    if numbers.len() != 3 {
        return None;
    }
    let parts = before.into_iter().flat_map(|before| before.split('.'));
    let parts = parts.map(|part| {
        part.parse()
            .map_or_else(|_| Semantic::Word(part.to_owned()), Semantic::Number)
    });
    Some((numbers, before.is_none(), parts.collect()))
}

/// `(epoch, release, (phase, number), post, dev)`: a development release is before `a`, `b`, `rc`, then the release, then `.post`.
type Pep440 = (u64, Vec<u64>, (i8, u64), Option<u64>, (bool, u64));

fn pep440_parts(text: &str) -> Option<Pep440> {
    let text = text.trim().trim_start_matches('v').to_lowercase();
    let text = text.split('+').next()?;
    let (epoch, text) = match text.split_once('!') {
        Some((epoch, rest)) => (epoch.parse().ok()?, rest),
        None => (0, text),
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let release = text[..end].trim_end_matches('.');
    let mut release = release
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    while release.len() > 1 && release.last() == Some(&0) {
        release.pop();
    }
    let mut rest = text[release_end(text, end)..].trim_start_matches(['.', '-', '_']);
    let mut phase = None;
    let mut post = None;
    let mut dev = None;
    while !rest.is_empty() {
        let word_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(word_end);
        let behind = behind.trim_start_matches(['.', '-', '_']);
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let number = if digits == 0 { 0 } else { behind[..digits].parse().ok()? };
        match word {
            "a" | "alpha" => phase = Some((0, number)),
            "b" | "beta" => phase = Some((1, number)),
            "rc" | "c" | "pre" | "preview" => phase = Some((2, number)),
            "post" | "rev" | "r" => post = Some(number),
            "" if digits > 0 && post.is_none() => post = Some(number),
            "dev" => dev = Some(number),
            _ => return None,
        }
        rest = behind[digits..].trim_start_matches(['.', '-', '_']);
    }
    let phase = match (phase, post, dev) {
        (Some(phase), _, _) => phase,
        (None, None, Some(_)) => (-1, 0),
        _ => (3, 0),
    };
    Some((epoch, release, phase, post, (dev.is_none(), dev.unwrap_or(0))))
}

/// Where the release of a PEP 440 version ends: its last dot belongs to what follows.
fn release_end(text: &str, end: usize) -> usize {
    text[..end].trim_end_matches('.').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_kind() {
        use Ordering::{Equal, Greater, Less};
        assert_eq!(loose("1.10", "1.9"), Ok(Greater));
        assert_eq!(loose("1.0", "1.0.0"), Ok(Less));
        assert!(loose("1.a", "1.1").is_err());
        assert_eq!(ordered("1.0a1", "1.0", strict_parts), Ok(Less));
        assert!(ordered("1.0.0-rc1", "1.0", strict_parts).is_err());
        for (a, b, want) in [
            ("1.0.0-rc1", "1.0.0", Less),
            ("1.2.0-alpha", "1.2.0-alpha.1", Less),
            ("1.2.0+b1", "1.2.0", Equal),
        ] {
            assert_eq!(ordered(a, b, semantic_parts), Ok(want), "{a} {b}");
        }
        for (a, b, want) in [
            ("1.0.dev1", "1.0a1", Less),
            ("1.0rc1", "1.0", Less),
            ("1.0.post1", "1.0", Greater),
            ("1.0", "1", Equal),
            ("1!0.1", "9", Greater),
            ("1.0a1.dev2", "1.0a1", Less),
        ] {
            assert_eq!(ordered(a, b, pep440_parts), Ok(want), "{a} {b}");
        }
    }
}
