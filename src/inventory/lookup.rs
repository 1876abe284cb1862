//! The functions of templates: `lookup`, `query`, and `omit`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value as Jinja, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State};

use super::lazy::Context;
use super::regexes::{Flags, Pattern};
use super::template::current;
use super::vault::Vault;
use super::{lookup_password, lookup_pipe};
use crate::diagnose::Place;

/// Functions and variables that templates have beside those of the host.
pub(crate) const NAMES: [&str; 6] = ["lookup", "query", "q", "omit", "dict", "range"];
/// How the detail of a refusal begins.
pub(crate) const REFUSED: &str = "refused: ";

/// `omit`: a value that vanishes.
struct Omit;

impl fmt::Debug for Omit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("omit")
    }
}

impl Object for Omit {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// The value `omit`.
pub(crate) fn omit() -> Jinja {
    Jinja::from_object(Omit)
}

/// Whether a value is `omit`.
pub(crate) fn is_omit(value: &Jinja) -> bool {
    value.downcast_object_ref::<Omit>().is_some()
}

/// Whether a name is a function that every template has.
pub(crate) fn is_global(name: &str) -> bool {
    NAMES.contains(&name)
        || matches!(
            name,
            "namespace" | "debug" | "cycler" | "joiner" | "loop" | "self" | "super"
        )
}

/// Adds the functions.
pub(crate) fn add(env: &mut Environment<'static>) {
    env.add_function("lookup", |state: &State, name: String, args: Rest<ValueOrKwargs>| {
        lookup(state, &name, args, false)
    });
    for alias in ["query", "q"] {
        env.add_function(alias, |state: &State, name: String, args: Rest<ValueOrKwargs>| {
            lookup(state, &name, args, true)
        });
    }
    env.add_function("dict", dict);
}

/// `dict(pairs, key=value ..)`.
fn dict(args: Rest<ValueOrKwargs>) -> Result<Jinja, Error> {
    let args = args.into_values();
    let (pairs, kwargs) = from_args::<(Option<Jinja>, Kwargs)>(&args)?;
    let mut out: Vec<(Jinja, Jinja)> = Vec::new();
    if let Some(pairs) = pairs {
        let map = matches!(pairs.kind(), minijinja::value::ValueKind::Map);
        for item in pairs.try_iter()?.checked() {
            let item = item?;
            if map {
                out.push((item.clone(), pairs.get_item(&item)?));
            } else {
                out.push((item.get_item_by_index(0)?, item.get_item_by_index(1)?));
            }
        }
    }
    for name in kwargs.args().map(str::to_owned).collect::<Vec<_>>() {
        out.push((Jinja::from(name.as_str()), kwargs.get(&name)?));
    }
    Ok(Jinja::from_pairs(out))
}

fn wrong(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn lookup(state: &State, name: &str, args: Rest<ValueOrKwargs>, list: bool) -> Result<Jinja, Error> {
    let args = args.into_values();
    let (terms, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    for term in terms {
        if term.is_undefined() {
            minijinja::value::StringInput::new(state, term)?;
        }
    }
    let list = list || kwargs.get::<Option<bool>>("wantlist")?.unwrap_or(false);
    let lenient = kwargs
        .get::<Option<String>>("errors")?
        .is_some_and(|errors| matches!(errors.as_str(), "ignore" | "warn"));
    let short = name.strip_prefix("ansible.builtin.").unwrap_or(name);
    let found = match short {
        "env" => env(terms, &kwargs),
        "vars" => vars(terms, &kwargs),
        "varnames" => varnames(terms),
        "file" => file(terms, &kwargs, true),
        "unvault" => file(terms, &kwargs, false),
        "first_found" => first_found(terms, &kwargs),
        "pipe" => each_text(terms, lookup_pipe::pipe),
        "password" => each_text(terms, |term| lookup_password::password(term, &kwargs)),
        "dict" => terms
            .iter()
            .map(dict_items)
            .collect::<Result<Vec<_>, _>>()
            .map(|lists| lists.concat()),
        "items" => one_level(terms),
        "list" => Ok(terms.to_vec()),
        _ => Err(wrong(format!(
            "the lookup `{name}` is unknown: there are env, vars, varnames, file, unvault, first_found, pipe, password, dict, \
             items, list"
        ))),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) if lenient && error.kind() != ErrorKind::EvalBlock => {
            return Ok(if list {
                Jinja::from(Vec::<Jinja>::new())
            } else {
                Jinja::from(())
            });
        }
        Err(error) => return Err(error),
    };
    if list {
        return Ok(Jinja::from(found));
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Ok(Jinja::from(found)),
        // Several texts are joined, as in Ansible.
        _ if found.iter().all(|value| value.as_str().is_some()) => {
            let texts: Vec<&str> = found.iter().filter_map(Jinja::as_str).collect();
            Ok(Jinja::from(texts.join(",")))
        }
        _ => Ok(Jinja::from(found)),
    }
}

fn text(value: &Jinja) -> Result<&str, Error> {
    value
        .as_str()
        .ok_or_else(|| wrong(format!("a lookup takes text, not a {}", value.kind())))
}

fn each_text(terms: &[Jinja], get: impl Fn(&str) -> Result<String, Error>) -> Result<Vec<Jinja>, Error> {
    let found = terms.iter().map(|term| Ok(Jinja::from(get(text(term)?)?)));
    found.collect()
}

/// Terms, and the items of those that are lists.
fn one_level(terms: &[Jinja]) -> Result<Vec<Jinja>, Error> {
    let mut out = Vec::new();
    for term in terms {
        match term.kind() {
            minijinja::value::ValueKind::Seq => {
                for item in term.try_iter()?.checked() {
                    out.push(item?);
                }
            }
            _ => out.push(term.clone()),
        }
    }
    Ok(out)
}

/// The names of variables that match a regular expression.
fn varnames(terms: &[Jinja]) -> Result<Vec<Jinja>, Error> {
    let (_, scope) = current().ok_or_else(|| wrong("no host"))?;
    let mut out = Vec::new();
    for term in terms {
        let pattern = Pattern::new(text(term)?, Flags::default())?;
        let mut names: Vec<&str> = scope.vars.keys().map(|name| &**name).collect();
        names.sort_unstable();
        for name in names {
            if pattern.is_match(name)? {
                out.push(Jinja::from(name));
            }
        }
    }
    Ok(out)
}

fn env(terms: &[Jinja], kwargs: &Kwargs) -> Result<Vec<Jinja>, Error> {
    let default: Option<Jinja> = kwargs.get("default")?;
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let env = &run.session.core.env;
    terms
        .iter()
        .map(|term| {
            Ok(match env.get(text(term)?) {
                Some(value) => Jinja::from(value.as_str()),
                None => default.clone().unwrap_or_else(|| Jinja::from("")),
            })
        })
        .collect()
}

fn vars(terms: &[Jinja], kwargs: &Kwargs) -> Result<Vec<Jinja>, Error> {
    let default: Option<Jinja> = kwargs.get("default")?;
    let (run, scope) = current().ok_or_else(|| wrong("no host"))?;
    let context = Arc::new(Context::new(&run, &scope));
    terms
        .iter()
        .map(|term| {
            let name = text(term)?;
            match Object::get_value(&context, term) {
                Some(value) if !value.is_undefined() => Ok(value),
                _ => match &default {
                    Some(default) => {
                        run.handle();
                        Ok(default.clone())
                    }
                    // A `default` behind it may still help.
                    None => {
                        run.miss(name.to_owned());
                        Ok(Jinja::UNDEFINED)
                    }
                },
            }
        })
        .collect()
}

/// Where a relative path may be: below `files/` and in the working directory.
fn candidates(dir: &Path, name: &str) -> [PathBuf; 2] {
    [dir.join("files").join(name), dir.join(name)]
}

fn file(terms: &[Jinja], kwargs: &Kwargs, strip: bool) -> Result<Vec<Jinja>, Error> {
    let left: bool = kwargs.get::<Option<bool>>("lstrip")?.unwrap_or(false);
    let right: bool = kwargs.get::<Option<bool>>("rstrip")?.unwrap_or(strip);
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let core = &run.session.core;
    terms
        .iter()
        .map(|term| {
            let name = text(term)?;
            let path = candidates(&core.working_dir, name)
                .into_iter()
                .find(|path| path.is_file());
            let path = path.ok_or_else(|| wrong(format!("the file {name} does not exist")))?;
            let bytes =
                std::fs::read(&path).map_err(|error| wrong(format!("the file {name} cannot be read: {error}")))?;
            let mut content = String::from_utf8(bytes).map_err(|_| wrong(format!("the file {name} is not UTF-8")))?;
            if Vault::is_encrypted(&content) {
                run.touch_secret();
                let plain = core
                    .vault
                    .decrypt(&content, &Place::whole(name))
                    .map_err(|fault| wrong(fault.message))?;
                content = plain.as_str().to_owned();
            }
            let mut content = content.as_str();
            if left {
                content = content.trim_start();
            }
            if right {
                content = content.trim_end();
            }
            Ok(Jinja::from(content))
        })
        .collect()
}

fn first_found(terms: &[Jinja], kwargs: &Kwargs) -> Result<Vec<Jinja>, Error> {
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let strings = |value: &Jinja, out: &mut Vec<String>| -> Result<(), Error> {
        match value.as_str() {
            Some(text) => out.extend(text.split([',', ':', ';']).map(str::to_owned)),
            None => {
                for item in value.try_iter()?.checked() {
                    out.push(text(&item?)?.to_owned());
                }
            }
        }
        Ok(())
    };
    let mut skip = kwargs.get::<Option<bool>>("skip")?.unwrap_or(false);
    let mut names = Vec::new();
    let mut dirs = Vec::new();
    for key in ["files", "paths"] {
        if let Some(value) = kwargs.get::<Option<Jinja>>(key)? {
            strings(&value, if key == "files" { &mut names } else { &mut dirs })?;
        }
    }
    for term in terms {
        if term.kind() == minijinja::value::ValueKind::Map {
            for (key, into) in [("files", &mut names), ("paths", &mut dirs)] {
                let value = term.get_attr(key)?;
                if !value.is_undefined() {
                    strings(&value, into)?;
                }
            }
            skip |= term.get_attr("skip")?.is_true();
        } else if let Some(text) = term.as_str() {
            names.push(text.to_owned());
        } else {
            strings(term, &mut names)?;
        }
    }
    let base = &run.session.core.working_dir;
    for name in &names {
        let below = dirs.iter().map(|dir| base.join(dir).join(name));
        let mut paths = below.chain([base.join(name)]);
        if let Some(path) = paths.find(|path| path.exists()) {
            return Ok(vec![Jinja::from(path.display().to_string())]);
        }
    }
    if skip {
        return Ok(Vec::new());
    }
    Err(wrong(format!("none of these files exists: {}", names.join(", "))))
}

fn dict_items(value: &Jinja) -> Result<Vec<Jinja>, Error> {
    let mut out = Vec::new();
    for key in value.try_iter()?.checked() {
        let key = key?;
        let inner = value.get_item(&key)?;
        out.push(Jinja::from_pairs([("key", key), ("value", inner)]));
    }
    Ok(out)
}
