//! Filters and tests over regular expressions.

use minijinja::Error;
use minijinja::value::{Kwargs, Rest, Value as Jinja, ValueOrKwargs, from_args};

use super::filters::{Call, Outcome, display, wrong};
use super::regexes::{Flags, Pattern};

fn flags(call: &Call<'_>) -> Result<Flags, Error> {
    Ok(Flags {
        ignore_case: call.arg_flag(usize::MAX, "ignorecase")?.unwrap_or(false),
        multiline: call.arg_flag(usize::MAX, "multiline")?.unwrap_or(false),
    })
}

pub(crate) fn regex_replace(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "pattern")?.unwrap_or_default();
    let template = call.arg_text(1, "replacement")?.unwrap_or_default();
    let count = call
        .arg_int(usize::MAX, "count")?
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0);
    let (replaced, hits) = Pattern::new(&pattern, flags(call)?)?.replace(&source, &template, count)?;
    if let Some(wanted) = call.arg_int(usize::MAX, "mandatory_count")?
        && wanted > 0
        && usize::try_from(wanted) != Ok(hits)
    {
        return Err(wrong(format!(
            "regex_replace: {hits} matches, and mandatory_count is {wanted}"
        )));
    }
    Ok(Jinja::from(replaced))
}

pub(crate) fn regex_search(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "regex")?.unwrap_or_default();
    let regex = Pattern::new(&pattern, flags(call)?)?;
    let mut groups = Vec::new();
    for group in call.args().get(1..).unwrap_or_default() {
        let told = display(group)?;
        let name = told
            .strip_prefix('\\')
            .ok_or_else(|| wrong(format!("regex_search: `{told}` names no group: write \\1 or \\g<name>")))?;
        let name = name
            .strip_prefix("g<")
            .and_then(|name| name.strip_suffix('>'))
            .unwrap_or(name);
        let index = regex.group(name);
        groups.push(index.ok_or_else(|| wrong(format!("regex_search: the pattern has no group {name}")))?);
    }
    let hits = regex.hits(&source, 1)?;
    let Some(hit) = hits.first() else {
        return Ok(Jinja::from(()));
    };
    if groups.is_empty() {
        return Ok(Jinja::from(hit.text(&source, 0).unwrap_or_default()));
    }
    let found = groups.into_iter().map(|group| match hit.text(&source, group) {
        Some(text) => Jinja::from(text),
        None => Jinja::from(()),
    });
    Ok(Jinja::from(found.collect::<Vec<_>>()))
}

pub(crate) fn regex_findall(call: &Call<'_>) -> Outcome {
    let source = call.text()?;
    let pattern = call.arg_text(0, "regex")?.unwrap_or_default();
    let flags = Flags {
        multiline: call.arg_flag(1, "multiline")?.unwrap_or(false),
        ignore_case: call.arg_flag(2, "ignorecase")?.unwrap_or(false),
    };
    let regex = Pattern::new(&pattern, flags)?;
    let hits = regex.hits(&source, 0)?;
    let found = hits.iter().map(|hit| {
        let group = |i: usize| Jinja::from(hit.text(&source, i).unwrap_or_default());
        match regex.groups() {
            1 => group(0),
            2 => group(1),
            groups => Jinja::from((1..groups).map(group).collect::<Vec<_>>()),
        }
    });
    Ok(Jinja::from(found.collect::<Vec<_>>()))
}

pub(crate) fn regex_escape(call: &Call<'_>) -> Outcome {
    let text = call.text()?;
    let special = match call.arg_text(0, "re_type")?.as_deref() {
        None | Some("python") => "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}",
        Some("posix_basic") => "^$.*[]\\",
        Some(other) => return Err(wrong(format!("regex_escape: the type `{other}` is unknown"))),
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if special.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    Ok(Jinja::from(out))
}

/// Where a test looks for its pattern.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    /// At the beginning.
    Match,
    /// Anywhere.
    Search,
}

/// The tests `match`, `search` and `regex`.
pub(crate) fn regex_test(text: &str, pattern: &str, place: Where, args: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    let args = args.into_values();
    let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    let flag = |position: usize, name: &str| -> Result<bool, Error> {
        Ok(match positional.get(position) {
            Some(value) => value.is_true(),
            None => kwargs.get::<Option<bool>>(name)?.unwrap_or(false),
        })
    };
    let flags = Flags {
        ignore_case: flag(0, "ignorecase")?,
        multiline: flag(1, "multiline")?,
    };
    let kind = kwargs.get::<Option<String>>("match_type")?;
    let pattern = match (kind.as_deref(), place) {
        (Some("fullmatch"), _) => format!("\\A(?:{pattern})\\z"),
        (Some("match"), _) | (None, Where::Match) => format!("\\A(?:{pattern})"),
        (Some("search"), _) | (None, Where::Search) => pattern.to_owned(),
        (Some(other), _) => return Err(wrong(format!("the match type `{other}` is unknown"))),
    };
    Pattern::new(&pattern, flags)?.is_match(text)
}
