//! Reading variables: typed values out, problems remembered, places remembered.
//!
//! A rule that is broken never stops the reading: the reader notes the problem, answers `None`, and goes on, so that a
//! host's problems are all told at once. A variable whose template failed is told once and not called missing as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;

use indexmap::IndexMap;

use super::schema;
use super::size::{self, Unit};
use super::variables::{Data, Entry, Value, Variables};
use super::{Built, Machine, Origins};
use crate::diagnose::{Diagnostic, Place, Severity, nearest};
use crate::proxmox::ids::InvalidId;
use crate::secret::{MASK, Secret};

/// A value, and the path that leads to it.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// `vms_config.disk_os.size`.
    pub path: String,
    /// The value.
    pub value: Value,
}

impl Field {
    /// Whether the value may never be shown.
    fn is_secret(&self) -> bool {
        self.value.secret || schema::variable(&self.path).is_some_and(|v| v.secret)
    }

    /// The value as it may be shown in a message.
    pub(super) fn show(&self) -> String {
        if self.is_secret() {
            return MASK.to_owned();
        }
        match &self.value.data {
            Data::Null => "null".to_owned(),
            Data::Bool(b) => b.to_string(),
            Data::Int(i) => i.to_string(),
            Data::Float(f) => f.to_string(),
            Data::Str(s) | Data::Unsafe(s) => format!("{s:?}"),
            Data::Vault(_) => MASK.to_owned(),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a mapping".to_owned(),
        }
    }

    /// An error about this value.
    pub(super) fn error(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, message)
            .key(&self.path)
            .at(self.value.place.clone())
    }

    /// A warning about this value.
    pub(super) fn warning(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::warning(code, message)
            .key(&self.path)
            .at(self.value.place.clone())
    }

    /// The error for a value of the wrong type or form.
    pub(super) fn wrong(&self, wanted: &str) -> Diagnostic {
        let found = match &self.value.data {
            Data::Null => "null",
            Data::Bool(_) => "a truth value",
            Data::Int(_) => "a whole number",
            Data::Float(_) => "a number with a fraction",
            Data::Str(_) | Data::Unsafe(_) => "a text",
            Data::Vault(_) => "an encrypted text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        };
        let shown = match self.value.data {
            Data::Null | Data::List(_) | Data::Map(_) | Data::Vault(_) => found.to_owned(),
            _ => format!("{} ({found})", self.show()),
        };
        self.error("machine/wrong-type", format!("{} is {shown}, not {wanted}", self.path))
    }

    /// The text of a scalar, exactly as written where that is known.
    pub(super) fn text(&self) -> Option<String> {
        match &self.value.data {
            Data::Str(s) | Data::Unsafe(s) => Some(s.clone()),
            Data::Int(i) => Some(i.to_string()),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value.data, Data::Null)
    }

    pub(super) fn map(&self) -> Option<&IndexMap<String, Entry>> {
        match &self.value.data {
            Data::Map(map) => Some(map),
            _ => None,
        }
    }
}

/// Reads one host's variables.
pub(super) struct Reader<'v> {
    /// The variables.
    pub vars: &'v dyn Variables,
    problems: Vec<Diagnostic>,
    origins: BTreeMap<String, Place>,
    cache: BTreeMap<String, Option<Field>>,
    broken: BTreeSet<String>,
}

impl<'v> Reader<'v> {
    pub(super) fn new(vars: &'v dyn Variables) -> Self {
        Self {
            vars,
            problems: Vec::new(),
            origins: BTreeMap::new(),
            cache: BTreeMap::new(),
            broken: BTreeSet::new(),
        }
    }

    /// Notes a problem.
    pub(super) fn push(&mut self, problem: Diagnostic) {
        self.problems.push(match problem.host {
            Some(_) => problem,
            None => problem.host(self.vars.host()),
        });
    }

    /// Where the values that were read stand.
    pub(super) fn origins(&self) -> Origins {
        self.origins.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The machine with its warnings, or the problems with the warnings after the errors.
    pub(super) fn finish(mut self, machine: Option<Machine>) -> Result<Built, Vec<Diagnostic>> {
        self.problems.sort_by_key(|p| std::cmp::Reverse(p.severity));
        let failed = self.problems.iter().any(|p| p.severity == Severity::Error);
        match machine {
            Some(machine) if !failed => Ok(Built {
                machine,
                warnings: self.problems,
            }),
            Some(_) | None => Err(self.problems),
        }
    }

    /// Only the problems: of a host that is read beside the one that is built.
    pub(super) fn into_problems(self) -> Vec<Diagnostic> {
        self.problems
    }

    /// A variable, null or not; `None` where it is undefined or its template failed.
    pub(super) fn raw(&mut self, name: &str) -> Option<Field> {
        debug_assert!(schema::variable(name).is_some(), "{name} is not in the schema");
        if let Some(known) = self.cache.get(name) {
            return known.clone();
        }
        let field = match self.vars.get(name) {
            Ok(value) => value.map(|value| Field {
                path: name.to_owned(),
                value,
            }),
            Err(mut problem) => {
                problem.key.get_or_insert_with(|| name.to_owned());
                self.push(problem);
                self.broken.insert(name.to_owned());
                None
            }
        };
        if let Some(field) = &field {
            self.origins.insert(name.to_owned(), field.value.place.clone());
        }
        self.cache.insert(name.to_owned(), field.clone());
        field
    }

    /// A variable that is defined and not null.
    pub(super) fn get(&mut self, name: &str) -> Option<Field> {
        self.raw(name).filter(|field| !field.is_null())
    }

    /// A variable, or its default of the schema.
    pub(super) fn get_or_default(&mut self, name: &str) -> Option<Field> {
        let found = self.get(name);
        if found.is_some() || self.broken.contains(name) {
            return found;
        }
        schema::default_text(name).map(|text| default_field(name, text))
    }

    /// A variable that has to be there.
    pub(super) fn required(&mut self, name: &str, help: &str) -> Option<Field> {
        let found = self.get(name);
        if found.is_none() && !self.broken.contains(name) {
            let place = self.raw(name).map(|field| field.value.place);
            let how = if place.is_some() { "null" } else { "not defined" };
            self.push(
                Diagnostic::error("machine/missing-variable", format!("{name} is {how}"))
                    .key(name)
                    .at(place)
                    .rule(schema::variable(name).map_or("", |v| v.meaning))
                    .help(help),
            );
        }
        found
    }

    /// The first of several spellings that is set.
    pub(super) fn first_of(&mut self, names: &[&str]) -> Option<Field> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Whether a variable's template failed: it is no use to call it missing.
    pub(super) fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    /// A key of a mapping that is there and not null. Null is told as a warning: it means "not set".
    pub(super) fn child(&mut self, parent: &Field, key: &str) -> Option<Field> {
        let child = self.raw_child(parent, key)?;
        if child.is_null() {
            let what = schema::variable(&child.path).map_or("not set", |v| match v.fallback {
                schema::Fallback::Required => "not set, and it has to be",
                schema::Fallback::Nothing => "left as the template has it",
                schema::Fallback::Text(_) | schema::Fallback::Derived(_) => "left at its default",
            });
            self.push(
                child
                    .warning("machine/null-value", format!("{} is null: it is {what}", child.path))
                    .help("give it a value, or remove the line"),
            );
            return None;
        }
        Some(child)
    }

    /// A key of a mapping, null or not.
    pub(super) fn raw_child(&mut self, parent: &Field, key: &str) -> Option<Field> {
        let entry = parent.map()?.get(key)?;
        let path = format!("{}.{key}", parent.path);
        debug_assert!(schema::variable(&path).is_some(), "{path} is not in the schema");
        let mut value = entry.value.clone();
        value.secret |= parent.value.secret;
        self.origins.insert(path.clone(), value.place.clone());
        Some(Field { path, value })
    }

    /// A key of a mapping, or its default of the schema.
    pub(super) fn child_or_default(&mut self, parent: &Field, key: &str) -> Option<Field> {
        self.child(parent, key).or_else(|| {
            let path = format!("{}.{key}", parent.path);
            schema::default_text(&path).map(|text| Field {
                path: path.clone(),
                value: Value {
                    place: parent.value.place.clone(),
                    ..default_field(&path, text).value
                },
            })
        })
    }

    /// A text.
    pub(super) fn text(&mut self, field: &Field) -> Option<String> {
        match field.text() {
            Some(text) if !text.trim().is_empty() => Some(text),
            Some(_) => {
                self.push(field.error("machine/empty", format!("{} is empty", field.path)));
                None
            }
            None => {
                let mut problem = field.wrong("a text");
                if matches!(field.value.data, Data::Float(_) | Data::Bool(_)) {
                    problem = problem.help("put it in quotes");
                }
                self.push(problem);
                None
            }
        }
    }

    /// A secret text, taken as it is.
    pub(super) fn secret(&mut self, field: &Field) -> Option<Secret> {
        self.text(field).map(Secret::new)
    }

    /// A whole number in a range; a text that is exactly one counts.
    pub(super) fn int(&mut self, field: &Field, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let number = match &field.value.data {
            Data::Int(i) => Some(*i),
            Data::Str(s) => s.trim().parse::<i128>().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.push(field.wrong("a whole number"));
            return None;
        };
        match u64::try_from(number) {
            Ok(number) if range.contains(&number) => Some(number),
            Ok(_) | Err(_) => {
                let rule = if *range.end() == u64::MAX {
                    format!("{} or more", range.start())
                } else {
                    format!("{} to {}", range.start(), range.end())
                };
                self.push(
                    field
                        .error("machine/out-of-range", format!("{} is {}", field.path, field.show()))
                        .rule(rule),
                );
                None
            }
        }
    }

    /// A truth value, in every spelling that Ansible takes for one.
    pub(super) fn bool(&mut self, field: &Field) -> Option<bool> {
        let answer = match &field.value.data {
            Data::Bool(b) => Some(*b),
            Data::Int(0) => Some(false),
            Data::Int(1) => Some(true),
            Data::Str(s) => match s.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" | "y" | "t" => Some(true),
                "false" | "no" | "off" | "0" | "n" | "f" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if answer.is_none() {
            self.push(field.wrong("true or false"));
        }
        answer
    }

    /// A truth value of a variable with a default.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let field = self.get_or_default(name);
        field.and_then(|field| self.bool(&field)).unwrap_or(false)
    }

    /// A size.
    pub(super) fn size(&mut self, field: &Field, unit: Unit, least: u64) -> Option<u64> {
        let parsed = field.text().and_then(|text| size::parse(&text, unit));
        if parsed.is_none() {
            self.push(field.wrong(&format!("a size in whole {}", unit.name())).rule(format!(
                "a number of {}, or a number with M, G or T behind it",
                unit.name()
            )));
        }
        let size = parsed?;
        if size < least || size > 1 << 30 {
            self.push(
                field
                    .error("machine/out-of-range", format!("{} is {}", field.path, field.show()))
                    .rule(format!("{least} {} or more", unit.name())),
            );
            return None;
        }
        Some(size)
    }

    /// One of several words.
    pub(super) fn word(&mut self, field: &Field, words: &[&str]) -> Option<String> {
        let text = self.text(field)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let mut problem = field
            .error("machine/unknown-value", format!("{} is {}", field.path, field.show()))
            .rule(format!("one of {}", words.join(", ")));
        if let Some(near) = nearest(&text, words.iter().copied()) {
            problem = problem.help(format!("did you mean {near:?}?"));
        }
        self.push(problem);
        None
    }

    /// A list of texts; one text is split at commas and blanks.
    pub(super) fn texts(&mut self, field: &Field) -> Option<Vec<Field>> {
        match &field.value.data {
            Data::List(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| Field {
                        path: format!("{}[{i}]", field.path),
                        value: Value {
                            secret: item.secret || field.value.secret,
                            ..item.clone()
                        },
                    })
                    .collect(),
            ),
            Data::Str(text) => Some(
                text.split(|c: char| c == ',' || c.is_whitespace())
                    .filter(|word| !word.is_empty())
                    .map(|word| Field {
                        path: field.path.clone(),
                        value: Value {
                            data: Data::Str(word.to_owned()),
                            ..field.value.clone()
                        },
                    })
                    .collect(),
            ),
            _ => {
                self.push(field.wrong("a list"));
                None
            }
        }
    }

    /// A name or id of Proxmox.
    pub(super) fn id<T: FromStr<Err = InvalidId>>(&mut self, field: &Field) -> Option<T> {
        let text = self.text(field)?;
        match text.parse() {
            Ok(id) => Some(id),
            Err(err) => {
                self.push(
                    field
                        .error(
                            "machine/invalid-name",
                            format!("{} is {}: no valid {}", field.path, field.show(), err.kind),
                        )
                        .rule(err.rule),
                );
                None
            }
        }
    }

    /// A path, with `~/` taken for the home directory.
    pub(super) fn path(&mut self, field: &Field) -> Option<PathBuf> {
        let text = self.text(field)?;
        match text.strip_prefix("~/") {
            None => Some(PathBuf::from(text)),
            Some(rest) => match self.vars.home() {
                Some(home) => Some(home.join(rest)),
                None => {
                    self.push(
                        field
                            .error("machine/no-home", format!("{} is {}", field.path, field.show()))
                            .rule("`~/` needs HOME, and HOME is not set"),
                    );
                    None
                }
            },
        }
    }

    /// Checks that a value is a mapping, and that its keys are known.
    pub(super) fn known_map(&mut self, field: &Field) -> Option<Field> {
        let Some(map) = field.map() else {
            self.push(field.wrong("a mapping"));
            return None;
        };
        for (key, entry) in map {
            let path = format!("{}.{key}", field.path);
            if schema::variable(&path).is_some() {
                continue;
            }
            let mut problem = Diagnostic::error("machine/unknown-key", format!("{} has no key {key:?}", field.path))
                .key(path)
                .at(entry.key_place.clone())
                .rule(format!("its keys are {}", schema::keys_under(&field.path).join(", ")));
            if let Some(near) = schema::suggest_under(&field.path, key) {
                problem = problem.help(format!("did you mean {near:?}?"));
            }
            self.push(problem);
        }
        Some(field.clone())
    }
}

/// A default as a field.
fn default_field(name: &str, text: &str) -> Field {
    Field {
        path: name.to_owned(),
        value: Value {
            data: Data::Str(text.to_owned()),
            place: Place::whole(format!("the default of {name}")),
            secret: false,
        },
    }
}
