//! Filters over paths. Only `realpath` looks at the file system.

use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, wrong};
use super::filters_lines::only_text;
use super::template::current;
use super::text;
use super::value::Data;

pub(crate) fn basename(call: &Call<'_>) -> Outcome {
    let path = only_text(call)?;
    Ok(Jinja::from(path.rsplit('/').next().unwrap_or_default()))
}

pub(crate) fn dirname(call: &Call<'_>) -> Outcome {
    let path = only_text(call)?;
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| {
        let trimmed = dir.trim_end_matches('/');
        // A path that is slashes only keeps them.
        if trimmed.is_empty() {
            &path[..=dir.len()]
        } else {
            trimmed
        }
    });
    Ok(Jinja::from(dir))
}

pub(crate) fn splitext(call: &Call<'_>) -> Outcome {
    let path = only_text(call)?;
    let start = path.rfind('/').map_or(0, |at| at + 1);
    let leading = path[start..].len() - path[start..].trim_start_matches('.').len();
    let at = path[start + leading..]
        .rfind('.')
        .map_or(path.len(), |at| start + leading + at);
    Ok(Jinja::from(vec![path[..at].to_owned(), path[at..].to_owned()]))
}

pub(crate) fn path_join(call: &Call<'_>) -> Outcome {
    let parts: Vec<String> = match call.native()?.data {
        Data::List(list) => list.iter().map(text::display).collect(),
        _ => vec![call.text()?],
    };
    let mut out = String::new();
    for part in parts {
        if part.starts_with('/') {
            out = part;
        } else {
            if !out.is_empty() && !out.ends_with('/') {
                out.push('/');
            }
            out.push_str(&part);
        }
    }
    Ok(Jinja::from(out))
}

pub(crate) fn expanduser(call: &Call<'_>) -> Outcome {
    let path = call.text()?;
    let home = current().and_then(|(run, _)| run.session.core.env.get("HOME").cloned());
    Ok(Jinja::from(match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path,
    }))
}

fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let absolute = path.starts_with('/');
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    // Two slashes at the beginning, and no third, are kept: POSIX lets a system give them a meaning.
    let two = path.starts_with("//") && !path.starts_with("///");
    match (absolute, joined.is_empty()) {
        (true, _) if two => format!("//{joined}"),
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

pub(crate) fn normpath(call: &Call<'_>) -> Outcome {
    Ok(Jinja::from(normal(&call.text()?)))
}

pub(crate) fn relpath(call: &Call<'_>) -> Outcome {
    let here = current()
        .map(|(run, _)| run.session.core.working_dir.display().to_string())
        .unwrap_or_default();
    let full = |path: &str| {
        normal(&if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{here}/{path}")
        })
    };
    let path = full(&call.text()?);
    let start = full(&call.arg_text(0, "start")?.unwrap_or_else(|| here.clone()));
    let split = |path: &str| {
        path.split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (path, start) = (split(&path), split(&start));
    let common = path.iter().zip(&start).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), start.len() - common);
    let parts: Vec<String> = up.chain(path[common..].iter().cloned()).collect();
    Ok(Jinja::from(if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }))
}

pub(crate) fn commonpath(call: &Call<'_>) -> Outcome {
    let Data::List(list) = call.native()?.data else {
        return Err(wrong("commonpath needs a list"));
    };
    let paths: Vec<String> = list.iter().map(text::display).collect();
    let absolute = paths.iter().filter(|path| path.starts_with('/')).count();
    if paths.is_empty() || absolute > 0 && absolute < paths.len() {
        return Err(wrong("commonpath needs paths, all absolute or all relative"));
    }
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect()
    };
    let mut common = parts(&paths[0]);
    for path in &paths[1..] {
        let same = common.iter().zip(parts(path)).take_while(|(a, b)| **a == *b).count();
        common.truncate(same);
    }
    let start = if absolute > 0 { "/" } else { "" };
    Ok(Jinja::from(format!("{start}{}", common.join("/"))))
}

/// `realpath`: links resolved as far as the path exists.
pub(crate) fn realpath(call: &Call<'_>) -> Outcome {
    let source = only_text(call)?;
    let here = current().map(|(run, _)| run.session.core.working_dir.clone());
    let full = here.unwrap_or_default().join(&source);
    let mut rest = Vec::new();
    let mut known = full.as_path();
    loop {
        if let Ok(real) = known.canonicalize() {
            let whole = rest.iter().rev().fold(real, |path, part| path.join(part));
            return Ok(Jinja::from(normal(&whole.display().to_string())));
        }
        match (known.parent(), known.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                known = parent;
            }
            _ => return Ok(Jinja::from(normal(&full.display().to_string()))),
        }
    }
}

/// `expandvars`: `$NAME` and `${NAME}`; a name that is not set stays.
pub(crate) fn expandvars(call: &Call<'_>) -> Outcome {
    let source = only_text(call)?;
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let env = &run.session.core.env;
    let mut out = String::new();
    let mut rest = source.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, length) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 3),
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                (&after[..end], end + 1)
            }
        };
        match env.get(name) {
            Some(value) => out.push_str(value),
            None => out.push_str(&rest[at..at + length]),
        }
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    Ok(Jinja::from(out))
}
