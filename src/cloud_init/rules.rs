//! The few shapes that both documents' rules are made of: reading a value of a type, and telling where it is not one.

use std::sync::Arc;

use indexmap::IndexMap;

use super::MAX_BYTES;
use crate::diagnose::{Diagnostic, Place, nearest};
use crate::inventory::value::{Data, Entry, Value};
use crate::inventory::yaml;

/// Collects the problems of one document.
pub(super) struct Checker {
    pub problems: Vec<Diagnostic>,
}

/// Types as the schema names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Text,
    /// A list with at least one item.
    List,
    Map,
    TextOrList,
    TextOrMap,
    TextOrInt,
    TextOrBool,
    MapOrNull,
    /// Whatever: cloud-init itself is liberal here.
    Any,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Text => "a text",
            Self::List => "a list with at least one item",
            Self::Map => "a mapping",
            Self::TextOrList => "a text or a list",
            Self::TextOrMap => "a text or a mapping",
            Self::TextOrInt => "a text or a whole number",
            Self::TextOrBool => "a text, true or false",
            Self::MapOrNull => "a mapping",
            Self::Any => "anything",
        }
    }

    fn fits(self, data: &Data) -> bool {
        let text = matches!(data, Data::Str(_));
        let list = matches!(data, Data::List(items) if !items.is_empty());
        let map = matches!(data, Data::Map(_));
        match self {
            Self::Bool => matches!(data, Data::Bool(_)),
            Self::Int => matches!(data, Data::Int(_)),
            Self::Text => text,
            Self::List => list,
            Self::Map => map,
            Self::TextOrList => text || list,
            Self::TextOrMap => text || map,
            Self::TextOrInt => text || matches!(data, Data::Int(_)),
            Self::TextOrBool => text || matches!(data, Data::Bool(_)),
            Self::MapOrNull => map || matches!(data, Data::Null),
            Self::Any => true,
        }
    }
}

impl Checker {
    pub(super) fn new() -> Self {
        Self { problems: Vec::new() }
    }

    /// A problem at a place.
    pub(super) fn push(
        &mut self,
        code: &'static str,
        path: &str,
        place: &Place,
        message: String,
        rule: impl Into<String>,
    ) {
        let mut problem = Diagnostic::error(code, message).at(place.clone()).rule(rule);
        problem.key = (!path.is_empty()).then(|| path.to_owned());
        self.problems.push(problem);
    }

    /// The document: within Proxmox's limit, beginning with the header, one mapping with text keys.
    pub(super) fn document(&mut self, text: &str, name: &str) -> Option<IndexMap<String, Entry>> {
        let start = Place::new(name, 1, 1);
        if text.len() > MAX_BYTES {
            self.push(
                "cloud-init/too-large",
                "",
                &Place::whole(name),
                format!("{name} has {} bytes", text.len()),
                "Proxmox reads at most 1 MiB of a snippet",
            );
            return None;
        }
        if text.lines().next().map(str::trim_end) != Some("#cloud-config") {
            self.push(
                "cloud-init/header",
                "",
                &start,
                format!("{name} does not begin with #cloud-config"),
                "without that first line cloud-init takes nothing from it, and some versions still say `done`",
            );
            return None;
        }
        let file: Arc<str> = name.into();
        let document = match yaml::parse(text, &file) {
            Ok(document) => document,
            Err(problem) => {
                let place = problem.place.clone().unwrap_or(start);
                let what = problem.message.trim_start_matches("not valid YAML: ");
                let message = format!("{name} is not valid YAML: {what}");
                self.push(
                    "cloud-init/yaml",
                    "",
                    &place,
                    message,
                    "cloud-init takes nothing from a document that it cannot read",
                );
                return None;
            }
        };
        let mut odd: Vec<&(u32, u32)> = document.odd_keys.iter().collect();
        odd.sort_unstable();
        for (line, column) in odd {
            self.push(
                "cloud-init/wrong-type",
                "",
                &Place::new(Arc::clone(&file), *line, *column),
                "a key is not a text".to_owned(),
                "put it in quotes",
            );
        }
        for warning in document.warnings {
            let place = warning.place.clone().unwrap_or_else(|| start.clone());
            self.push("cloud-init/wrong-type", "", &place, warning.message, "put it in quotes");
        }
        match document.value.data {
            Data::Map(map) => Some(map),
            _ => {
                self.push(
                    "cloud-init/wrong-type",
                    "",
                    &start,
                    format!("{name} is no mapping"),
                    "the document is a mapping of keys to values",
                );
                None
            }
        }
    }

    /// Whether a value has a type; a problem where it has not.
    pub(super) fn expect(&mut self, path: &str, value: &Value, kind: Kind) -> bool {
        let fits = kind.fits(&value.data);
        if !fits {
            self.push(
                "cloud-init/wrong-type",
                path,
                &value.place,
                format!("{path} is a {}", value.type_name()),
                format!("{} is wanted", kind.words()),
            );
        }
        fits
    }

    /// Checks every key of a mapping against a table of key and type.
    pub(super) fn keys(&mut self, path: &str, map: &IndexMap<String, Entry>, known: &[(&str, Kind)]) {
        for (key, entry) in map {
            let inner = join(path, key);
            match known.iter().find(|(name, _)| name == key) {
                Some((_, kind)) => {
                    self.expect(&inner, &entry.value, *kind);
                }
                None => self.unknown(path, key, entry, known.iter().map(|(name, _)| *name)),
            }
        }
    }

    /// A key that cloud-init does not know.
    pub(super) fn unknown<'k>(&mut self, path: &str, key: &str, entry: &Entry, known: impl Iterator<Item = &'k str>) {
        let inner = join(path, key);
        let mut problem = Diagnostic::error("cloud-init/unknown-key", format!("cloud-init knows no {inner:?}"))
            .key(&inner)
            .at(entry.key_place.clone())
            .rule("newer versions end as `degraded` over it, older ones ignore it");
        if let Some(near) = nearest(key, known) {
            problem = problem.help(format!("did you mean {near:?}?"));
        }
        self.problems.push(problem);
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, path: &str, value: &Value) {
        match value.as_list() {
            Some(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.expect(&format!("{path}[{i}]"), item, Kind::Text);
                }
            }
            None => {
                self.expect(path, value, Kind::List);
            }
        }
    }
}

/// A path and a key.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
