//! Filters over paths, without looking at the file system.

use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome};
use super::template::current;
use super::text;
use super::value::Data;

pub(crate) fn basename(call: &Call<'_>) -> Outcome {
    let path = call.text()?;
    Ok(Jinja::from(path.rsplit('/').next().unwrap_or_default()))
}

pub(crate) fn dirname(call: &Call<'_>) -> Outcome {
    let path = call.text()?;
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| {
        let trimmed = dir.trim_end_matches('/');
        if trimmed.is_empty() { "/" } else { trimmed }
    });
    Ok(Jinja::from(dir))
}

pub(crate) fn splitext(call: &Call<'_>) -> Outcome {
    let path = call.text()?;
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
    match (absolute, joined.is_empty()) {
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
