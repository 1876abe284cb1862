//! Reads YAML as PyYAML composes it, over the events of the parser crate. Nothing else but `lint::tree` names that crate.
//!
//! ```text
//! text --(granit-parser)--> events --(compose: anchors, merge keys, tags, types)--> Value with places
//! ```
//!
//! Differences from PyYAML, all on purpose: a duplicate key is an error (PyYAML lets the last one win), a date stays
//! text, `!!binary` is refused, nesting and alias expansion are bounded. A source that is JSON is read by JSON's rules
//! for numbers, as Ansible does, which tries JSON first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use indexmap::IndexMap;

use super::scalar;
use super::value::{Data, Entry, Value};
use crate::diagnose::{Diagnostic, Place};

/// How deep lists and mappings may nest.
pub const MAX_DEPTH: usize = 64;
/// How many values the aliases of one file may expand to.
pub const MAX_EXPANSION: usize = 200_000;

/// A document that was read.
#[derive(Debug)]
pub struct Document {
    /// The value, `null` for an empty document.
    pub value: Value,
    /// Things worth telling: numbers in base 60.
    pub warnings: Vec<Diagnostic>,
    /// Line and column of the keys that are not text (`1: x`, `yes: x`).
    pub odd_keys: HashSet<(u32, u32)>,
}

/// Reads one document.
///
/// `file` names the source in places.
///
/// # Errors
///
/// A [`Diagnostic`] with the code `inventory/yaml-syntax`, `inventory/yaml-duplicate-key`, `inventory/yaml-tag`,
/// `inventory/yaml-value` or `inventory/yaml-bound` and the place.
pub fn parse(text: &str, file: &Arc<str>) -> Result<Document, Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = is_json(text);
    // Another dependency switches the parser crate's comment events on: comments are no data.
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut composer = Composer {
        events: Parser::new_from_str_with_options(text, options),
        file: Arc::clone(file),
        anchors: HashMap::new(),
        json: json.is_some(),
        expanded: 0,
        warnings: Vec::new(),
        odd_keys: HashSet::new(),
    };
    match composer.document() {
        Ok(mut value) => {
            if composer.json {
                value.revive_tags();
            }
            Ok(Document {
                value,
                warnings: composer.warnings,
                odd_keys: composer.odd_keys,
            })
        }
        // Valid JSON that is not valid YAML (surrogate pairs, tabs): keep the data, lose the places.
        Err(fault) if fault.code == "inventory/yaml-syntax" => match json {
            Some(json) => {
                let mut value = Value::from_json(&json, &Place::whole(Arc::clone(file)));
                value.revive_tags();
                Ok(Document {
                    value,
                    warnings: Vec::new(),
                    odd_keys: HashSet::new(),
                })
            }
            None => Err(fault),
        },
        Err(fault) => Err(fault),
    }
}

fn is_json(text: &str) -> Option<serde_json::Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

struct Composer<'t> {
    events: Parser<'t, StrInput<'t>>,
    file: Arc<str>,
    anchors: HashMap<usize, (Value, usize)>,
    json: bool,
    expanded: usize,
    warnings: Vec<Diagnostic>,
    odd_keys: HashSet<(u32, u32)>,
}

/// A composed node: the value and how many values it holds.
type Node = (Value, usize);

impl<'t> Composer<'t> {
    fn place(&self, span: &Span) -> Place {
        Place::new(
            Arc::clone(&self.file),
            u32::try_from(span.start.line()).unwrap_or(u32::MAX),
            u32::try_from(span.start.col() + 1).unwrap_or(u32::MAX),
        )
    }

    fn syntax(&self, error: &ScanError) -> Diagnostic {
        let marker = error.marker();
        let place = Place::new(
            Arc::clone(&self.file),
            u32::try_from(marker.line()).unwrap_or(u32::MAX),
            u32::try_from(marker.col() + 1).unwrap_or(u32::MAX),
        );
        let told = error.info().to_string();
        let told = told.trim_end_matches('.').to_owned();
        let mut fault = Diagnostic::error("inventory/yaml-syntax", format!("not valid YAML: {told}"))
            .at(place)
            .rule("the file must be one YAML document");
        if told.contains("tab") {
            fault = fault.help("indent with spaces: YAML does not allow tabs there");
        } else {
            fault = fault.help(
                "check indentation, colons and quotes in this line and the one before; a value with `: `, ` #` or a leading `{`, `[`, `*`, `&`, `!`, `%`, `@` must stand in quotes",
            );
        }
        fault
    }

    fn next(&mut self) -> Result<(Event<'t>, Place), Diagnostic> {
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                let place = self.place(&span);
                Ok((event, place))
            }
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Place::whole(Arc::clone(&self.file)))),
        }
    }

    fn document(&mut self) -> Result<Value, Diagnostic> {
        let mut root = None;
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(
                        Diagnostic::error("inventory/yaml-syntax", "a second YAML document begins here")
                            .at(place)
                            .rule("a file of variables or hosts holds one document")
                            .help("put the second document in a file of its own, or remove the `---`"),
                    );
                }
                Event::Alias(_)
                | Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::UnresolvedAlias(_) => root = Some(self.node(event, place, 0)?.0),
                _ => {}
            }
        }
        Ok(root.unwrap_or_else(|| Value::new(Data::Null, Place::new(Arc::clone(&self.file), 1, 1))))
    }

    fn node(&mut self, event: Event<'t>, place: Place, depth: usize) -> Result<Node, Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(Diagnostic::error(
                "inventory/yaml-bound",
                format!("lists and mappings nest deeper than {MAX_DEPTH}"),
            )
            .at(place)
            .rule("nesting is bounded, so that a hostile file cannot exhaust the stack")
            .help("flatten the data"));
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref().map(tag_name);
                (self.scalar(&text, style, tag.as_deref(), place)?, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                let tag = tag.as_deref().map(tag_name);
                let mut list = Vec::new();
                let mut size = 1;
                loop {
                    let (event, at) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    let (value, count) = self.node(event, at, depth + 1)?;
                    size += count;
                    list.push(value);
                }
                let value = self.tagged_list(list, tag.as_deref(), place)?;
                ((value, size), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                let tag = tag.as_deref().map(tag_name);
                let (map, size) = self.mapping(depth)?;
                let value = self.tagged_map(map, tag.as_deref(), place)?;
                ((value, size), anchor)
            }
            Event::Alias(id) => return self.alias(id, place),
            Event::UnresolvedAlias(name) => {
                return Err(Diagnostic::error(
                    "inventory/yaml-syntax",
                    format!("the alias *{name} has no anchor before it"),
                )
                .at(place)
                .help("define the anchor (`&name`) above, or quote the text if no alias is meant"));
            }
            _ => {
                return Err(Diagnostic::error("inventory/yaml-syntax", "the document ends in the middle").at(place));
            }
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<Node, Diagnostic> {
        let Some((_, size)) = self.anchors.get(&id) else {
            return Err(
                Diagnostic::error("inventory/yaml-syntax", "an alias inside the value that it stands for")
                    .at(place)
                    .rule("a value cannot contain itself")
                    .help("write the value out"),
            );
        };
        self.expanded = self.expanded.saturating_add(*size);
        if self.expanded > MAX_EXPANSION {
            return Err(Diagnostic::error(
                "inventory/yaml-bound",
                format!("the aliases of this file expand to more than {MAX_EXPANSION} values"),
            )
            .at(place)
            .rule("alias expansion is bounded, so that a small hostile file cannot exhaust memory")
            .help("use variables in place of aliases"));
        }
        let (value, size) = &self.anchors[&id];
        Ok((value.clone(), *size))
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&str>, place: Place) -> Result<Node, Diagnostic> {
        let plain = style == ScalarStyle::Plain;
        let bad = |what: &str| {
            Diagnostic::error("inventory/yaml-value", format!("`{}` is not {what}", short(text)))
                .at(place.clone())
                .help("write it differently, or put it in quotes to make it text")
        };
        let data = match tag {
            None if plain && self.json => json_scalar(text),
            // The tag `!` alone says nothing, by libyaml.
            None | Some("!") if plain => {
                let data = scalar::resolve(text).ok_or_else(|| bad("a value that YAML can read"))?;
                if let Data::Int(value) = data
                    && scalar::is_sexagesimal(text)
                {
                    self.warnings.push(
                        Diagnostic::warning(
                            "inventory/yaml-sexagesimal",
                            format!("`{text}` is read as the number {value}"),
                        )
                        .at(place.clone())
                        .rule("YAML 1.1, which Ansible uses, reads digits with colons as a number in base 60")
                        .help(format!("quote it: \"{text}\"")),
                    );
                }
                data
            }
            None
            | Some(
                "!" | "tag:yaml.org,2002:str" | "tag:yaml.org,2002:python/unicode" | "tag:yaml.org,2002:timestamp",
            ) => Data::Str(text.to_owned()),
            Some("tag:yaml.org,2002:int") => match scalar::integer(text) {
                scalar::Number::Is(value) => Data::Int(value),
                _ => return Err(bad("an integer")),
            },
            Some("tag:yaml.org,2002:float") => match (scalar::float(text), scalar::integer(text)) {
                (Some(value), _) => Data::Float(value),
                (None, scalar::Number::Is(value)) => Data::Float(value as f64),
                _ => return Err(bad("a number")),
            },
            Some("tag:yaml.org,2002:bool") => Data::Bool(scalar::boolean(text).ok_or_else(|| bad("a boolean"))?),
            Some("tag:yaml.org,2002:null") => Data::Null,
            Some("!vault" | "!vault-encrypted") => Data::Vault(text.into()),
            Some("!unsafe") => match scalar::resolve(text).ok_or_else(|| bad("a value that YAML can read"))? {
                Data::Str(text) => Data::Unsafe(text),
                data => data,
            },
            Some(other) => return Err(self.unknown_tag(other, place)),
        };
        Ok((Value::new(data, place), 1))
    }

    fn unknown_tag(&self, tag: &str, place: Place) -> Diagnostic {
        let name = tag
            .strip_prefix("tag:yaml.org,2002:")
            .map_or_else(|| tag.to_owned(), |name| format!("!!{name}"));
        Diagnostic::error("inventory/yaml-tag", format!("the tag `{name}` has no meaning here"))
            .at(place)
            .rule("an inventory may use !vault, !unsafe and the plain types of YAML")
            .help("remove the tag, or quote the text if it begins with `!`")
    }

    fn tagged_list(&mut self, list: Vec<Value>, tag: Option<&str>, place: Place) -> Result<Value, Diagnostic> {
        match tag {
            None | Some("!" | "tag:yaml.org,2002:seq") => Ok(Value::new(Data::List(list), place)),
            Some("!unsafe") => {
                let mut value = Value::new(Data::List(list), place);
                value.make_unsafe();
                Ok(value)
            }
            // Ordered mappings and pairs are lists of two-element lists, as PyYAML makes lists of tuples.
            Some("tag:yaml.org,2002:omap" | "tag:yaml.org,2002:pairs") => {
                let mut pairs = Vec::new();
                for item in list {
                    let Data::Map(map) = item.data else {
                        return Err(
                            Diagnostic::error("inventory/yaml-value", "expected a mapping of one key")
                                .at(item.place)
                                .help("write `- key: value`"),
                        );
                    };
                    for (key, entry) in map {
                        let key = Value::text(key, entry.key_place);
                        pairs.push(Value::new(Data::List(vec![key, entry.value]), item.place.clone()));
                    }
                }
                Ok(Value::new(Data::List(pairs), place))
            }
            Some(other) => Err(self.unknown_tag(other, place)),
        }
    }

    fn tagged_map(
        &mut self,
        map: IndexMap<String, Entry>,
        tag: Option<&str>,
        place: Place,
    ) -> Result<Value, Diagnostic> {
        match tag {
            None | Some("!" | "tag:yaml.org,2002:map" | "tag:yaml.org,2002:python/dict") => {
                Ok(Value::new(Data::Map(map), place))
            }
            Some("!unsafe") => {
                let mut value = Value::new(Data::Map(map), place);
                value.make_unsafe();
                Ok(value)
            }
            Some("tag:yaml.org,2002:set") => {
                let keys = map.into_iter().map(|(key, entry)| Value::text(key, entry.key_place));
                Ok(Value::new(Data::List(keys.collect()), place))
            }
            Some(other) => Err(self.unknown_tag(other, place)),
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<(IndexMap<String, Entry>, usize), Diagnostic> {
        let mut own: IndexMap<String, Entry> = IndexMap::new();
        let mut merged: IndexMap<String, Entry> = IndexMap::new();
        let mut size = 1;
        loop {
            let (event, key_place) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<") && !self.json;
            let key = if merge {
                None
            } else {
                let (key, count) = self.node(event, key_place.clone(), depth + 1)?;
                size += count;
                Some(key)
            };
            let (event, at) = self.next()?;
            let (value, count) = self.node(event, at, depth + 1)?;
            size += count;
            let Some(key) = key else {
                merge_into(&mut merged, value)?;
                continue;
            };
            if !matches!(key.data, Data::Str(_)) {
                self.odd_keys.insert((key_place.line, key_place.column));
            }
            let Some(name) = scalar::key_text(&key.data) else {
                return Err(Diagnostic::error(
                    "inventory/yaml-value",
                    format!("a {} cannot be a key", key.type_name()),
                )
                .at(key_place)
                .rule("the keys of a mapping are plain values")
                .help("if this is a template (`{{ .. }}`), put it in quotes"));
            };
            let odd = |entry: &&Entry| {
                let at = &entry.key_place;
                self.odd_keys.contains(&(at.line, at.column))
            };
            let mut equal = scalar::equal_keys(&key.data).into_iter();
            let equal = equal.find_map(|other| own.get(&other).filter(odd));
            if let Some(first) = own.get(&name).or(equal) {
                return Err(Diagnostic::error(
                    "inventory/yaml-duplicate-key",
                    format!("the key `{name}` stands here a second time"),
                )
                .at(key_place)
                .key(name.clone())
                .rule("a key stands once in a mapping; Ansible would silently take the last one")
                .note(first.key_place.clone(), "it stands here first")
                .help("remove one of the two"));
            }
            own.insert(name, Entry { key_place, value });
        }
        if merged.is_empty() {
            return Ok((own, size));
        }
        // As in PyYAML: merged keys come first, and what the mapping says itself wins.
        for (name, entry) in own {
            merged.insert(name, entry);
        }
        Ok((merged, size))
    }
}

/// What a `<<` key brings: a mapping, or a list of mappings of which the first wins.
fn merge_into(merged: &mut IndexMap<String, Entry>, value: Value) -> Result<(), Diagnostic> {
    let wrong = |place: Place, what: &str| {
        Diagnostic::error(
            "inventory/yaml-value",
            format!("`<<` needs a mapping, and this is a {what}"),
        )
        .at(place)
        .rule("a merge key takes a mapping or a list of mappings")
        .help("use an alias of a mapping: `<<: *name`")
    };
    match value.data {
        Data::Map(map) => merged.extend(map),
        Data::List(list) => {
            for item in list.into_iter().rev() {
                let name = item.type_name();
                match item.data {
                    Data::Map(map) => merged.extend(map),
                    _ => return Err(wrong(item.place, name)),
                }
            }
        }
        _ => {
            let name = value.type_name();
            return Err(wrong(value.place, name));
        }
    }
    Ok(())
}

/// A scalar of a file that is valid JSON.
fn json_scalar(text: &str) -> Data {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(json) => match &json {
            serde_json::Value::Number(_) if !text.contains(['.', 'e', 'E']) => match text.parse() {
                Ok(value) => Data::Int(value),
                Err(_) => Data::Str(text.to_owned()),
            },
            _ => Value::from_json(&json, &Place::whole("")).data,
        },
        Err(_) => Data::Str(text.to_owned()),
    }
}

fn tag_name(tag: &Tag) -> String {
    format!("{}{}", tag.handle(), tag.suffix())
}

fn short(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
