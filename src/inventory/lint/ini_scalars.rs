//! Values of INI inventories that are read as something else than they look like.

use super::super::value::{Data, float_text};
use super::document::{Assignment, IniValue, Written};
use super::scalars::{is_exponent, loses_zero};
use super::{Context, Finding, finding};

/// Checks a variable that is written in INI.
pub(super) fn check(assignment: &Assignment, context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Written::Ini(ini) = &assignment.written else {
        return;
    };
    let name = assignment.name.as_str();
    let found = [comment(ini, name, context), typed(ini, name, context)];
    findings.extend(
        found
            .into_iter()
            .flatten()
            .map(|found| found.at(assignment.place.clone()).key(name)),
    );
}

/// The whole assignment with another value: a host line and a section are quoted differently, because the words of a host
/// line lose one pair of quotes before they are read as literals.
fn as_text(ini: &IniValue, name: &str, text: &str) -> String {
    if ini.inline {
        format!("{name}='\"{text}\"'")
    } else {
        format!("{name}=\"{text}\"")
    }
}

fn comment(ini: &IniValue, name: &str, context: &Context<'_>) -> Option<Finding> {
    let secret = context.is_secret(name);
    if ini.cut {
        let whole = ini.raw.split_once('=').map_or("", |(_, value)| value);
        let found = finding("lint/value-cut", format!("the value of `{name}` ends before `#`"));
        return Some(if secret || whole.contains(['\'', '"', '\\']) {
            found.rewrite(format!("{name}='..#..'"))
        } else {
            found.rewrite(format!("{name}='{whole}'"))
        });
    }
    if ini.inline {
        return None;
    }
    let Data::Str(text) = &ini.value.data else { return None };
    // A literal ends before its comment: it is another text than is written.
    if *text != ini.text {
        return None;
    }
    let at = text
        .char_indices()
        .zip(text.chars().skip(1))
        .find_map(|((at, blank), next)| (blank.is_whitespace() && next == '#').then_some(at))?;
    let (value, comment) = (text[..at].trim_end(), text[at..].trim_start());
    let found = finding(
        "lint/comment-kept",
        format!("the comment is a part of the value of `{name}`"),
    );
    Some(if secret {
        found.rewrite(format!("{comment}\n{name}=.."))
    } else {
        found.rewrite(format!("{comment}\n{name}={value}")).help(format!(
            "if it is meant as a part of the value, quote it: {name}=\"{text}\""
        ))
    })
}

fn typed(ini: &IniValue, name: &str, context: &Context<'_>) -> Option<Finding> {
    let text = ini.text.as_str();
    let shown = context.shown(name, text);
    let quoted = as_text(ini, name, shown);
    let hide = |value: String| if shown == text { value } else { shown.to_owned() };
    match &ini.value.data {
        Data::Str(_) => {
            // vmwright reads these words as what its variable wants, and Ansible does so with its own variables.
            let read = context.known.contains_key(name) || name.starts_with("ansible_");
            let value = match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => "True",
                "false" | "no" | "off" => "False",
                _ => return None,
            };
            if read || ini.raw.contains(['\'', '"']) {
                return None;
            }
            let section = if ini.inline {
                "a host line"
            } else {
                "a section [group:vars]"
            };
            Some(
                finding("lint/ini-bool", format!("`{text}` is text in {section}, not a boolean"))
                    .rewrite(format!("{name}={value}"))
                    .help(format!("if the word is meant, quote it: {quoted}")),
            )
        }
        Data::Int(number) if text.to_ascii_lowercase().contains("0o") => {
            let number = hide(number.to_string());
            Some(finding("lint/octal", format!("`{shown}` is read as the number {number}")).rewrite(quoted))
        }
        Data::Int(number) if text.contains('_') => {
            let number = hide(number.to_string());
            Some(
                finding("lint/underscore", format!("`{shown}` is read as the number {number}"))
                    .rewrite(format!("{name}={number}"))
                    .help(format!("if the text is meant, quote it: {quoted}")),
            )
        }
        Data::Float(number) if is_exponent(text) => {
            let number = hide(float_text(*number));
            Some(
                finding(
                    "lint/scientific",
                    format!("`{shown}` is read as the number {number} in INI"),
                )
                .rewrite(quoted),
            )
        }
        Data::Float(number) if loses_zero(text) => {
            let number = hide(float_text(*number));
            Some(finding("lint/float", format!("`{shown}` is read as the number {number}")).rewrite(quoted))
        }
        Data::List(_) if !text.trim_start().starts_with(['[', '(', '{']) && !text.trim_start().starts_with("set") => {
            let list = shown.trim().trim_end_matches(',');
            let list = if ini.inline {
                format!("\"[{list}]\"")
            } else {
                format!("[{list}]")
            };
            Some(
                finding("lint/ini-list", format!("`{shown}` is read as a list"))
                    .rewrite(format!("{name}={list}"))
                    .help(format!("if the text is meant, quote it: {quoted}")),
            )
        }
        Data::Null
        | Data::Bool(_)
        | Data::Int(_)
        | Data::Float(_)
        | Data::List(_)
        | Data::Map(_)
        | Data::Unsafe(_)
        | Data::Vault(_) => None,
    }
}
