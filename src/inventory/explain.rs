//! Where the variables of a host come from: all definitions of each, and how templates became values.
//!
//! ```text
//! layers, weakest first --(definitions)--> name -> [Definition ..], the last one wins
//! KeyPath "a.b[1]" --(evaluate)--> value, or what is wrong, with the steps of its templates
//! ```
//!
//! Nothing here is masked: whoever prints it masks it ([`Value::secret`], `!vault` texts, and secrets by their names).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::groups::{ALL, Owner, Shadowed, Vars};
use super::template::is_template;
use super::trace::Step;
use super::value::{Data, Value};
use super::{Inventory, Scope};
use crate::diagnose::Diagnostic;

/// A layer of the precedence of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// What the inventory says of a group.
    InventoryGroup(Arc<str>),
    /// A file below `group_vars`.
    GroupVars(Arc<str>),
    /// What the inventory says of a host.
    InventoryHost(Arc<str>),
    /// A file below `host_vars`.
    HostVars(Arc<str>),
    /// The command line.
    Extra,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InventoryGroup(name) => write!(f, "inventory vars of group {name}"),
            Self::GroupVars(name) => write!(f, "group_vars/{name}"),
            Self::InventoryHost(name) => write!(f, "inventory vars of host {name}"),
            Self::HostVars(name) => write!(f, "host_vars/{name}"),
            Self::Extra => f.write_str("-e"),
        }
    }
}

/// One definition of a variable.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Where in the order of precedence.
    pub layer: Layer,
    /// The value as it is written, with its place.
    pub value: Arc<Value>,
}

/// A group of a host, with what decides its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The group's name.
    pub name: String,
    /// The longest way from `all`.
    pub depth: usize,
    /// `ansible_group_priority`.
    pub priority: i128,
}

/// A variable, or a place inside one: `vms_config.nic0.bridge`, `global_dns_servers[1]`, `a['key.with.dots']`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath {
    /// The variable.
    pub name: String,
    /// The way into it.
    pub inside: Vec<Part>,
}

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A key of a mapping.
    Key(String),
    /// An index into a list, from 0; from the end where it is negative.
    Index(i64),
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for part in &self.inside {
            match part {
                Part::Key(key) if !key.is_empty() && !key.contains(['.', '[', ']', '\'']) => write!(f, ".{key}")?,
                Part::Key(key) => write!(f, "['{key}']")?,
                Part::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl KeyPath {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        if name.is_empty() {
            return Err("it begins with no variable".to_owned());
        }
        let mut inside = Vec::new();
        while let Some(first) = rest.chars().next() {
            if first == '.' {
                let after = &rest[1..];
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, more) = after.split_at(end);
                if key.is_empty() {
                    return Err("a key is missing behind a dot".to_owned());
                }
                inside.push(Part::Key(key.to_owned()));
                rest = more;
                continue;
            }
            let Some(after) = rest.strip_prefix('[') else {
                return Err(format!("`{rest}` follows a bracket: write a dot or a bracket"));
            };
            let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (part, more) = match quote {
                Some(quote) => {
                    let close = format!("{quote}]");
                    let (key, more) = after[1..].split_once(&close).ok_or("a bracket is not closed")?;
                    (Part::Key(key.to_owned()), more)
                }
                None => {
                    let (index, more) = after.split_once(']').ok_or("a bracket is not closed")?;
                    let part = index.parse().map_or_else(|_| Part::Key(index.to_owned()), Part::Index);
                    (part, more)
                }
            };
            inside.push(part);
            rest = more;
        }
        let name = name.to_owned();
        Ok(Self { name, inside })
    }
}

impl Part {
    /// What is there, if anything is.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (&value.data, self) {
            (Data::Map(map), Self::Key(key)) => map.get(key).map(|entry| &entry.value),
            (Data::Map(map), Self::Index(index)) => map.get(&index.to_string()).map(|entry| &entry.value),
            (Data::List(list), Self::Index(index)) => {
                let length = i64::try_from(list.len()).ok()?;
                let index = if *index < 0 { index + length } else { *index };
                list.get(usize::try_from(index).ok()?)
            }
            (Data::List(list), Self::Key(key)) => list.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }
}

/// How far a path leads into a value as it is written.
#[derive(Clone, Copy, Debug)]
pub enum Inside<'v> {
    /// To its end.
    There(&'v Value),
    /// To a template, whose value may have the rest.
    Template(&'v Value, usize),
    /// To a value that does not have the next part; that part's index.
    Absent(&'v Value, usize),
}

/// Follows a path into a value as it is written.
pub fn inside<'v>(value: &'v Value, path: &[Part]) -> Inside<'v> {
    let mut at = value;
    for (done, part) in path.iter().enumerate() {
        match &at.data {
            Data::Str(text) if is_template(text) => return Inside::Template(at, done),
            _ => match part.of(at) {
                Some(inner) => at = inner,
                None => return Inside::Absent(at, done),
            },
        }
    }
    Inside::There(at)
}

/// A value and how it came about.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The value; none where there is none, or it is `omit`.
    pub value: Result<Option<Value>, Box<Diagnostic>>,
    /// The templates that were evaluated, the first one being the value's own.
    pub steps: Vec<Step>,
}

impl Scope<'_> {
    /// The value at a path, and the steps of its templates. Of a list or mapping only what the path leads to is evaluated.
    pub fn explain(&self, path: &KeyPath) -> Explained {
        let Some(raw) = self.raw(&path.name) else {
            let value = self.get(&path.name).map_err(Box::new);
            let value = value.map(|value| value.and_then(|value| follow(value, &path.inside)));
            return Explained {
                value,
                steps: Vec::new(),
            };
        };
        let (at, done) = match inside(raw, &path.inside) {
            Inside::There(at) => (at, path.inside.len()),
            Inside::Template(at, done) => (at, done),
            Inside::Absent(..) => {
                return Explained {
                    value: Ok(None),
                    steps: Vec::new(),
                };
            }
        };
        let label = KeyPath {
            name: path.name.clone(),
            inside: path.inside[..done].to_vec(),
        };
        let (value, steps) = self.traced(at, &label.to_string());
        let value = value.map(|value| value.and_then(|value| follow(value, &path.inside[done..])));
        Explained {
            value: value.map_err(Box::new),
            steps,
        }
    }
}

/// Where a path leads in a value without templates.
fn follow(mut value: Value, path: &[Part]) -> Option<Value> {
    for part in path {
        value = part.of(&value)?.clone();
    }
    Some(value)
}

impl Inventory {
    /// All definitions of all variables of a host, by name: the weakest first, the last one wins (or is merged into what
    /// stands before it, see [`is_merged`]). Empty for an unknown host.
    pub fn definitions(&self, host: &str) -> BTreeMap<Arc<str>, Vec<Definition>> {
        let (graph, layers) = (&self.core.graph, &self.core.layers);
        let mut all = BTreeMap::new();
        let Some(host) = graph.host_index.get(host).copied() else {
            return all;
        };
        let mut add = |layer: Layer, owner: Owner, shadowed: &[Shadowed], vars: Option<&Vars>| {
            let before = shadowed.iter().filter(|shadowed| shadowed.owner == owner);
            let before = before.map(|shadowed| (&shadowed.name, &shadowed.value));
            for (name, value) in before.chain(vars.into_iter().flatten()) {
                let list: &mut Vec<Definition> = all.entry(Arc::clone(name)).or_default();
                list.push(Definition {
                    layer: layer.clone(),
                    value: Arc::clone(value),
                });
            }
        };
        let groups = &graph.hosts[host].groups;
        let named = |group: usize| Arc::clone(&graph.groups[group].name);
        let besides = || layers.sources.iter().chain([&layers.play]).enumerate();
        // A directory may be that of several sources: its variables count at its last place.
        let last = |at: usize, beside: &Arc<super::vars::Beside>| {
            besides().all(|(other, same)| other <= at || !Arc::ptr_eq(beside, same))
        };
        for group in [ALL].iter().chain(groups) {
            let vars = &graph.groups[*group].vars;
            let layer = Layer::InventoryGroup(named(*group));
            add(layer, Owner::Group(*group), &graph.shadowed, Some(vars));
        }
        for (_, beside) in besides().filter(|(at, beside)| last(*at, beside)) {
            let vars = beside.groups.get(&ALL);
            add(Layer::GroupVars(named(ALL)), Owner::Group(ALL), &beside.shadowed, vars);
        }
        for (_, beside) in besides().filter(|(at, beside)| last(*at, beside)) {
            for group in groups {
                let vars = beside.groups.get(group);
                let layer = Layer::GroupVars(named(*group));
                add(layer, Owner::Group(*group), &beside.shadowed, vars);
            }
        }
        let name = &graph.hosts[host].name;
        let layer = Layer::InventoryHost(Arc::clone(name));
        let vars = &graph.hosts[host].vars;
        add(layer, Owner::Host(host), &graph.shadowed, Some(vars));
        for (_, beside) in besides().filter(|(at, beside)| last(*at, beside)) {
            let vars = beside.hosts.get(&host);
            let layer = Layer::HostVars(Arc::clone(name));
            add(layer, Owner::Host(host), &beside.shadowed, vars);
        }
        let before = layers.extra_shadowed.iter().map(|(name, value)| (name, value));
        for (name, value) in before.chain(&layers.extra) {
            all.entry(Arc::clone(name)).or_default().push(Definition {
                layer: Layer::Extra,
                value: Arc::clone(value),
            });
        }
        all
    }

    /// The groups of a host in the order of precedence, weakest first; `all` is the first. Empty for an unknown host.
    pub fn ranks(&self, host: &str) -> Vec<Rank> {
        let graph = &self.core.graph;
        let Some(host) = graph.host_index.get(host) else {
            return Vec::new();
        };
        let rank = |group: &usize| {
            let group = &graph.groups[*group];
            Rank {
                name: group.name.to_string(),
                depth: group.depth,
                priority: group.priority,
            }
        };
        [ALL].iter().chain(&graph.hosts[*host].groups).map(rank).collect()
    }
}

/// Whether a host's value is made of more than the winning definition: mappings that were merged.
pub fn is_merged(value: &Value, definitions: &[Definition]) -> bool {
    definitions.last().is_some_and(|last| *last.value != *value)
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
