//! Extra variables, `-e`: `key=value ..`, YAML or JSON in braces, or `@file`.
//!
//! Values of the first form are always text, as in Ansible (`parsing/splitter.py`).

use std::sync::Arc;

use super::sources::Loader;
use super::value::{Data, Value};
use super::yaml;
use crate::diagnose::{Diagnostic, Place};

/// Names and values in the order of the argument; of two with one name the later wins.
pub(crate) type Pairs = Vec<(Arc<str>, Arc<Value>)>;

/// Reads one `-e` argument.
///
/// # Errors
///
/// `inventory/extra-vars`, and what the YAML reader and the vault find in a file.
pub(crate) fn read(argument: &str, loader: &mut Loader<'_>) -> Result<Pairs, Diagnostic> {
    let wrong = |message: String| {
        Diagnostic::error("inventory/extra-vars", message)
            .at(Place::whole("--extra-vars"))
            .rule("extra variables are `key=value ..`, a YAML or JSON mapping in braces, or @FILE")
    };
    let (mut value, secret) = if let Some(file) = argument.strip_prefix('@') {
        let text = loader.text(&loader.working_dir.join(file), file)?;
        let document = yaml::parse(&text.text, &file.into())?;
        loader.warnings.extend(document.warnings);
        (document.value, text.secret)
    } else if argument.starts_with(['/', '.']) {
        return Err(wrong(format!("`{argument}` looks like the path of a file")).help(format!("write -e @{argument}")));
    } else if argument.starts_with(['[', '{']) {
        let document = yaml::parse(argument, &"--extra-vars".into())?;
        (document.value, false)
    } else {
        let pairs = pairs(argument)
            .map_err(|why| wrong(format!("`{argument}` cannot be split: {why}")).help("close the quotes and braces"))?;
        if pairs.is_empty() && !argument.trim().is_empty() {
            return Err(wrong(format!("`{argument}` sets nothing")).help("write -e key=value"));
        }
        return Ok(pairs);
    };
    if secret {
        value.make_secret();
    }
    match value.data {
        Data::Map(map) => Ok(map
            .into_iter()
            .map(|(key, entry)| (key.as_str().into(), Arc::new(entry.value)))
            .collect()),
        Data::Null if argument.starts_with('@') => Ok(Pairs::new()),
        _ => Err(wrong(format!("`{argument}` is a {}, not a mapping", value.type_name())).help("write -e key=value")),
    }
}

/// What an `-e` argument names, without its values, which may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// `@FILE`.
    File,
    /// The keys of a mapping; none if it cannot be read.
    Mapping(Vec<String>),
    /// The keys of `key=value ..`; none if they cannot be split.
    Pairs(Vec<String>),
}

/// The names in an `-e` argument, in its own form.
pub fn named(argument: &str) -> Named {
    if argument.starts_with('@') {
        return Named::File;
    }
    if !argument.starts_with(['[', '{']) {
        let vars = pairs(argument).unwrap_or_default();
        return Named::Pairs(vars.iter().map(|(key, _)| key.to_string()).collect());
    }
    let document = yaml::parse(argument, &"--extra-vars".into());
    match document.map(|document| document.value.data) {
        Ok(Data::Map(map)) => Named::Mapping(map.into_iter().map(|(key, _)| key.as_str().to_owned()).collect()),
        Ok(_) | Err(_) => Named::Mapping(Vec::new()),
    }
}

fn pairs(text: &str) -> Result<Pairs, &'static str> {
    let mut vars = Pairs::new();
    for word in split(text)? {
        let word = unescape(&word);
        let Some(at) = word
            .char_indices()
            .skip(1)
            .find(|(at, c)| *c == '=' && !word[..*at].ends_with('\\'))
            .map(|(at, _)| at)
        else {
            continue;
        };
        let (key, value) = (word[..at].trim(), unquote(word[at + 1..].trim()));
        let value = Value::text(value, Place::whole("--extra-vars"));
        vars.push((key.into(), Arc::new(value)));
    }
    Ok(vars)
}

/// Splits at blanks outside quotes and outside `{{ }}`, `{% %}`, `{# #}`.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut depth = 0usize;
    let mut previous = ' ';
    for c in text.chars() {
        if let ('\'' | '"', true) = (c, previous != '\\') {
            match quote {
                None => quote = Some(c),
                Some(open) if open == c => quote = None,
                Some(_) => {}
            }
        }
        match (previous, c) {
            ('{', '{' | '%' | '#') => depth += 1,
            ('}' | '%' | '#', '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c.is_whitespace() && quote.is_none() && depth == 0 {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else {
            word.push(c);
        }
        previous = c;
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    if depth > 0 {
        return Err("a template is not closed");
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

fn unquote(text: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote))
            && !inner.ends_with('\\')
        {
            return inner;
        }
    }
    text
}

/// Python's escapes of one character, `\x`, `\u` and `\U`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let coded = |digits: usize| {
            let hex = after.get(1..=digits)?;
            char::from_u32(u32::from_str_radix(hex, 16).ok()?).map(|c| (c, digits + 1))
        };
        let hit = match after.chars().next() {
            Some(c @ ('\\' | '\'' | '"')) => Some((c, 1)),
            Some('a') => Some(('\u{7}', 1)),
            Some('b') => Some(('\u{8}', 1)),
            Some('f') => Some(('\u{c}', 1)),
            Some('n') => Some(('\n', 1)),
            Some('r') => Some(('\r', 1)),
            Some('t') => Some(('\t', 1)),
            Some('v') => Some(('\u{b}', 1)),
            Some('x') => coded(2),
            Some('u') => coded(4),
            Some('U') => coded(8),
            _ => None,
        };
        match hit {
            Some((c, length)) => {
                out.push(c);
                rest = &after[length..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let vars = pairs(text).unwrap();
        vars.iter()
            .map(|(key, value)| (key.to_string(), value.as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn pairs_are_split_as_in_ansible() {
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(
            read("x=1 y=\"a b\" z={{ q }}"),
            owned(&[("x", "1"), ("y", "a b"), ("z", "{{ q }}")])
        );
        assert_eq!(read("a=b=c stray d='e\\nf'"), owned(&[("a", "b=c"), ("d", "e\nf")]));
        assert!(pairs("a='b").is_err());
        assert!(pairs("a={{ b").is_err());
    }
}
