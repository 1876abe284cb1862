//! A file of an inventory as the rules see it: which variables it sets for whom, and how they are written.
//!
//! ```text
//! text --(tree)--> YAML inventory | file of variables --+
//!      --(lines)-> INI inventory -----------------------+--> Document: assignments, hosts, groups
//! ```
//!
//! What the loader refuses is left out here: the loader tells of it.

use std::sync::Arc;

use super::super::{host_pattern, ini, literal, value::Value, words};
use super::tree::{self, At, Body, Node, Tree};
use crate::diagnose::Place;

/// Names with ranges that stand for more hosts than this are one name for the rules.
const MAX_RANGE: usize = 1_000;

/// A file that was read.
#[derive(Debug)]
pub(super) struct Document {
    pub file: Arc<str>,
    pub lines: Vec<String>,
    /// The tree of a YAML file.
    pub tree: Option<Tree>,
    /// JSON is exact: its scalars surprise nobody.
    pub json: bool,
    pub assignments: Vec<Assignment>,
    pub hosts: Vec<(String, Place)>,
    pub groups: Vec<(String, Place)>,
}

/// A variable that a file sets.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    /// Whom it is for: `group web`, `host web-0`, and for files of variables their common directory.
    pub levels: Vec<String>,
    pub name: String,
    pub place: Place,
    pub written: Written,
}

/// How a value is written.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// In YAML: the key and the value.
    Yaml(Node, Node),
    /// In INI.
    Ini(IniValue),
}

/// A value in an INI inventory.
#[derive(Clone, Debug)]
pub(super) struct IniValue {
    /// The text, without the quotes of a host line.
    pub text: String,
    /// What it is read as.
    pub value: Value,
    /// In a host line; else in a section `[group:vars]`.
    pub inline: bool,
    /// The whole word or line as it stands in the file.
    pub raw: String,
    /// A `#` inside the word begins a comment.
    pub cut: bool,
}

impl Document {
    fn new(text: &str, file: &Arc<str>) -> Self {
        Self {
            file: Arc::clone(file),
            lines: text.lines().map(str::to_owned).collect(),
            tree: None,
            json: false,
            assignments: Vec::new(),
            hosts: Vec::new(),
            groups: Vec::new(),
        }
    }

    pub fn place(&self, at: At) -> Place {
        Place::new(Arc::clone(&self.file), at.0, at.1)
    }

    /// A line, from 1; empty where there is none.
    pub fn line(&self, number: u32) -> &str {
        let index = (number as usize).checked_sub(1);
        index.and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }

    /// What stands in a line from a column on.
    pub fn rest(&self, at: At) -> &str {
        let line = self.line(at.0);
        let skip = (at.1 as usize).saturating_sub(1);
        line.char_indices().nth(skip).map_or("", |(index, _)| &line[index..])
    }
}

fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn yaml(text: &str, file: &Arc<str>) -> (Document, Option<Node>) {
    let text = without_bom(text);
    let mut document = Document::new(text, file);
    document.json =
        text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok();
    let tree = tree::read(text);
    let root = tree.root.clone();
    document.tree = Some(tree);
    (document, root)
}

/// Reads a file of variables; `level` tells whose they are.
pub(super) fn variables(text: &str, file: &Arc<str>, level: &str) -> Document {
    let (mut document, root) = yaml(text, file);
    if let Some(root) = root {
        document.assign(root, &[level.to_owned()]);
    }
    document
}

/// Reads a YAML inventory.
pub(super) fn yaml_inventory(text: &str, file: &Arc<str>) -> Document {
    let (mut document, root) = yaml(text, file);
    if let Some(Body::Map(groups)) = root.map(|root| root.body) {
        for (name, group) in groups {
            document.group(&name, group);
        }
    }
    document
}

impl Document {
    fn assign(&mut self, node: Node, levels: &[String]) {
        let Body::Map(map) = node.body else { return };
        for (key, value) in map {
            let Some(name) = key.text().map(str::to_owned) else {
                continue;
            };
            let place = self.place(key.at);
            self.assignments.push(Assignment {
                levels: levels.to_vec(),
                name,
                place,
                written: Written::Yaml(key, value),
            });
        }
    }

    fn group(&mut self, name: &Node, group: Node) {
        let Some(name) = name.text().map(|text| (text.to_owned(), self.place(name.at))) else {
            return;
        };
        let sections = match group.body {
            Body::Map(sections) => sections,
            Body::Scalar(text, _) if text.is_empty() => Vec::new(),
            Body::Scalar(..) | Body::List(_) | Body::Alias => return,
        };
        self.groups.push(name.clone());
        for (key, section) in sections {
            match (key.text(), section.body) {
                (Some("vars"), body) => self.assign(Node { body, ..key }, &[format!("group {}", name.0)]),
                (Some("children"), Body::Map(children)) => {
                    for (child, group) in children {
                        self.group(&child, group);
                    }
                }
                (Some("hosts"), Body::Map(hosts)) => {
                    for (pattern, variables) in hosts {
                        let Some(text) = pattern.text() else { continue };
                        let levels = self.hosts(text, self.place(pattern.at));
                        self.assign(variables, &levels);
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes the hosts of a name with ranges; the levels of their variables.
    fn hosts(&mut self, pattern: &str, place: Place) -> Vec<String> {
        let names = match host_pattern::expand(pattern) {
            Ok((names, _)) if names.len() <= MAX_RANGE => names,
            Ok(_) | Err(_) => vec![pattern.to_owned()],
        };
        let levels = names.iter().map(|name| format!("host {name}")).collect();
        self.hosts.extend(names.into_iter().map(|name| (name, place.clone())));
        levels
    }

    fn host_line(&mut self, line: &str, number: u32, first: u32) {
        let Ok(words) = words::split(line, first) else { return };
        let Some((name, variables)) = words.split_first() else {
            return;
        };
        let levels = self.hosts(&name.text, self.place((number, name.column)));
        for word in variables {
            let Some((key, text)) = word.text.split_once('=') else {
                continue;
            };
            let place = self.place((number, word.column));
            let value = literal::evaluate(text, &place);
            let raw = self.rest((number, word.column));
            let raw = raw.split_whitespace().next().unwrap_or(raw).to_owned();
            self.assignments.push(Assignment {
                levels: levels.clone(),
                name: key.to_owned(),
                place,
                written: Written::Ini(IniValue {
                    text: text.to_owned(),
                    value,
                    inline: true,
                    raw,
                    cut: word.cut,
                }),
            });
        }
    }
}

/// Reads an INI inventory.
pub(super) fn ini_inventory(text: &str, file: &Arc<str>) -> Document {
    let text = without_bom(text);
    let mut document = Document::new(text, file);
    let (mut group, mut kind) = ("ungrouped".to_owned(), String::new());
    for (number, whole) in (1u32..).zip(text.lines()) {
        let line = whole.trim();
        let first = whole.chars().take_while(|c| c.is_whitespace()).count() + 1;
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let place = document.place((number, first));
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some((name, of)) = ini::header(line) {
            (group, kind) = (name.to_owned(), of.to_owned());
            if kind != "vars" {
                document.groups.push((group.clone(), place));
            }
            continue;
        }
        match kind.as_str() {
            "" | "hosts" => document.host_line(line, number, first),
            "vars" => {
                let Some((key, text)) = line.split_once('=') else {
                    continue;
                };
                let text = text.trim();
                document.assignments.push(Assignment {
                    levels: vec![format!("group {group}")],
                    name: key.trim().to_owned(),
                    written: Written::Ini(IniValue {
                        text: text.to_owned(),
                        value: literal::evaluate(text, &place),
                        inline: false,
                        raw: line.to_owned(),
                        cut: false,
                    }),
                    place,
                });
            }
            _ => {}
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(document: &Document) -> Vec<String> {
        let told = document.assignments.iter();
        told.map(|one| format!("{} {} {}", one.place, one.levels.join("+"), one.name))
            .collect()
    }

    #[test]
    fn ini_tells_whom_a_variable_is_for() {
        let document = ini_inventory("w[1:2] a=1\n[x]\n h b='c d'\n[x:vars]\ne = f # g\n", &"h.ini".into());
        assert_eq!(
            told(&document),
            [
                "h.ini:1:8 host w1+host w2 a",
                "h.ini:3:4 host h b",
                "h.ini:5:1 group x e"
            ]
        );
        assert_eq!(document.groups[0].0, "x");
    }

    #[test]
    fn yaml_tells_whom_a_variable_is_for() {
        let document = yaml_inventory(
            "all:\n  children:\n    web:\n      vars: {a: 1}\n      hosts: {'h[1:2]': {b: 2}}\n",
            &"h.yml".into(),
        );
        assert_eq!(
            told(&document),
            ["h.yml:4:14 group web a", "h.yml:5:26 host h1+host h2 b"]
        );
        assert_eq!(document.hosts.len(), 2);
    }
}
