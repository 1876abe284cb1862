//! The inventory in the other shapes of `ansible-inventory` 2.19: `--list` with `--export` or `--limit`, the trees of
//! `--yaml` and `--toml`, and the text of `--graph`.
//!
//! ```text
//! flat (JSON)    {"_meta": {"hostvars": ..}, "web": {"hosts": [..], "children": [..], "vars": {..}}, ..}
//! tree (YAML)    all: {children: {web: {hosts: {w: {..}}, vars: {..}}}}    a host's variables stand where it is first met
//! tables (TOML)  [web] children = [..]   [web.hosts.w] ..                  the same, flat
//! graph          @all:  |--@web:  |  |--w  |  |  |--{name = value}
//! ```
//!
//! With `export` the variables of a group stand with the group, and a host has its own only: what the inventory and the
//! directories of its sources say, without the working directory and without `-e`, as `ansible-inventory` has it.

use std::collections::HashSet;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value as Json, json};

use super::groups::{ALL, UNGROUPED, Vars};
use super::list::{INTERNAL, host_vars};
use super::value::{Data, Value};
use super::vars::put;
use super::yaml_write::{Lines, Style};
use super::{Core, Inventory, text, yaml_write};
use crate::diagnose::Place;

/// What of the inventory is shown.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// `***` in the place of every secret.
    pub masked: bool,
    /// The variables of groups with the groups.
    pub export: bool,
    /// Only these hosts.
    pub limit: Option<Vec<String>>,
}

/// How a variable is shown in a graph: its name and its raw value give the value to print.
pub type Shown<'s> = &'s dyn Fn(&str, &Value) -> Value;

struct Export<'c> {
    core: &'c Core,
    masked: bool,
    export: bool,
    limit: Option<HashSet<usize>>,
}

impl<'c> Export<'c> {
    fn new(core: &'c Core, shape: &Shape) -> Self {
        let index = |name: &String| core.graph.host_index.get(name.as_str()).copied();
        Self {
            core,
            masked: shape.masked,
            export: shape.export,
            limit: shape
                .limit
                .as_ref()
                .map(|names| names.iter().filter_map(index).collect()),
        }
    }

    fn has(&self, host: usize) -> bool {
        self.limit.as_ref().is_none_or(|limit| limit.contains(&host))
    }

    /// The variables of a group alone.
    fn group(&self, group: usize) -> Vars {
        let known = &self.core.graph.groups[group];
        let mut vars = known.vars.clone();
        for beside in &self.core.layers.sources {
            self.over(&mut vars, beside.groups.get(&group));
        }
        if known.priority != 1 {
            let priority = Value::new(Data::Int(known.priority), Place::whole("the inventory"));
            vars.insert("ansible_group_priority".into(), Arc::new(priority));
        }
        vars
    }

    /// The variables of a host: all, or its own.
    fn host(&self, host: usize) -> Arc<Vars> {
        if !self.export {
            return self.core.vars_of(host);
        }
        let mut vars = self.core.graph.hosts[host].vars.clone();
        for beside in &self.core.layers.sources {
            self.over(&mut vars, beside.hosts.get(&host));
        }
        Arc::new(vars)
    }

    fn over(&self, vars: &mut Vars, stronger: Option<&Vars>) {
        for (name, value) in stronger.into_iter().flatten() {
            put(vars, name, value, self.core.layers.merge);
        }
    }

    fn json(&self, vars: &Vars) -> Json {
        host_vars(vars, self.masked)
    }

    /// A group as the list has it.
    fn listed(&self, group: usize) -> Map<String, Json> {
        let graph = &self.core.graph;
        let mut shown = Map::new();
        self.add(&mut shown, "children", self.names_of_children(group));
        if group != ALL {
            let hosts = graph.groups[group].hosts.iter().filter(|host| self.has(**host));
            let names: Vec<&str> = hosts.map(|host| &*graph.hosts[*host].name).collect();
            self.add(&mut shown, "hosts", json!(names));
        }
        self.add_vars(&mut shown, group);
        shown
    }

    fn names_of_children(&self, group: usize) -> Json {
        let graph = &self.core.graph;
        let children = graph.groups[group].children.iter();
        json!(children.map(|child| &*graph.groups[*child].name).collect::<Vec<_>>())
    }

    fn add(&self, shown: &mut Map<String, Json>, key: &str, value: Json) {
        if !empty(&value) {
            shown.insert(key.to_owned(), value);
        }
    }

    fn add_vars(&self, shown: &mut Map<String, Json>, group: usize) {
        if self.export {
            self.add(shown, "vars", self.json(&self.group(group)));
        }
    }

    /// The hosts of a group with their variables, each host's where it is met first.
    fn hosts(&self, group: usize, seen: &mut HashSet<usize>) -> Json {
        let graph = &self.core.graph;
        let mut hosts = Map::new();
        for host in graph.groups[group].hosts.iter().filter(|host| self.has(**host)) {
            let vars = if seen.insert(*host) {
                self.json(&self.host(*host))
            } else {
                Json::Object(Map::new())
            };
            hosts.insert(graph.hosts[*host].name.to_string(), vars);
        }
        Json::Object(hosts)
    }

    /// A group with all below it; nothing for one that holds nothing.
    fn tree(&self, group: usize, seen: &mut HashSet<usize>, met: &mut HashSet<usize>) -> Option<Json> {
        let graph = &self.core.graph;
        let mut children = Map::new();
        for child in &graph.groups[group].children {
            let name = graph.groups[*child].name.to_string();
            if met.contains(child) {
                children.insert(name, Json::Object(Map::new()));
                continue;
            }
            if let Some(inner) = self.tree(*child, seen, met) {
                children.insert(name, inner);
            }
            met.insert(*child);
        }
        let mut shown = Map::new();
        self.add(&mut shown, "children", Json::Object(children));
        if group != ALL {
            self.add(&mut shown, "hosts", self.hosts(group, seen));
        }
        self.add_vars(&mut shown, group);
        (!shown.is_empty()).then_some(Json::Object(shown))
    }

    /// All groups beside each other, each with its hosts and the names of its children.
    fn tables(&self) -> Json {
        let mut out = Map::new();
        self.table(ALL, &mut HashSet::new(), &mut out);
        Json::Object(out)
    }

    fn table(&self, group: usize, seen: &mut HashSet<usize>, out: &mut Map<String, Json>) {
        let graph = &self.core.graph;
        let mut children = Vec::new();
        for child in &graph.groups[group].children {
            if *child == UNGROUPED && graph.groups[UNGROUPED].hosts.is_empty() {
                continue;
            }
            if group != ALL {
                children.push(&*graph.groups[*child].name);
            }
            self.table(*child, seen, out);
        }
        let mut shown = Map::new();
        self.add(&mut shown, "children", json!(children));
        if group != ALL {
            self.add(&mut shown, "hosts", self.hosts(group, seen));
        }
        self.add_vars(&mut shown, group);
        if !shown.is_empty() {
            out.insert(graph.groups[group].name.to_string(), Json::Object(shown));
        }
    }

    fn graph(&self, group: usize, depth: usize, vars: Option<Shown<'_>>, out: &mut String) {
        let graph = &self.core.graph;
        line(out, depth, &format!("@{}:", graph.groups[group].name));
        for child in &graph.groups[group].children {
            self.graph(*child, depth + 1, vars, out);
        }
        if group != ALL {
            for host in &graph.groups[group].hosts {
                line(out, depth + 1, &graph.hosts[*host].name);
                if let Some(shown) = vars {
                    lines(out, depth + 2, &self.host(*host), shown);
                }
            }
        }
        if let Some(shown) = vars {
            lines(out, depth + 1, &self.group(group), shown);
        }
    }
}

/// The list, made while it is serialized.
struct List<'l> {
    export: Export<'l>,
    last: &'l dyn Fn(&mut Json),
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let graph = &self.export.core.graph;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("_meta", &Meta(self))?;
        let mut groups: Vec<usize> = (0..graph.groups.len()).collect();
        groups.sort_by(|a, b| graph.groups[*a].name.cmp(&graph.groups[*b].name));
        for group in groups {
            let mut shown = Json::Object(self.export.listed(group));
            if !empty(&shown) {
                (self.last)(&mut shown);
                out.serialize_entry(&*graph.groups[group].name, &shown)?;
            }
        }
        out.end()
    }
}

/// The part of the list that is about variables of hosts.
struct Meta<'m>(&'m List<'m>);

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(2))?;
        out.serialize_entry("hostvars", &HostVars(self.0))?;
        out.serialize_entry("profile", "inventory_legacy")?;
        out.end()
    }
}

struct HostVars<'m>(&'m List<'m>);

impl Serialize for HostVars<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let export = &self.0.export;
        let graph = &export.core.graph;
        let mut hosts = graph.hosts_of(ALL);
        hosts.retain(|host| export.has(*host));
        hosts.sort_by(|a, b| graph.hosts[*a].name.cmp(&graph.hosts[*b].name));
        let mut out = serializer.serialize_map(None)?;
        for host in hosts {
            let mut vars = export.json(&export.host(host));
            if !empty(&vars) {
                (self.0.last)(&mut vars);
                out.serialize_entry(&*graph.hosts[host].name, &vars)?;
            }
        }
        out.end()
    }
}

fn empty(json: &Json) -> bool {
    match json {
        Json::Object(map) => map.is_empty(),
        Json::Array(list) => list.is_empty(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

fn line(out: &mut String, depth: usize, name: &str) {
    out.extend(std::iter::repeat_n("  |", depth));
    if depth > 0 {
        out.push_str("--");
    }
    out.push_str(name);
    out.push('\n');
}

fn lines(out: &mut String, depth: usize, vars: &Vars, shown: Shown<'_>) {
    let mut vars: Vec<_> = vars.iter().filter(|(name, _)| !INTERNAL.contains(&&***name)).collect();
    vars.sort_by(|a, b| a.0.cmp(b.0));
    for (name, value) in vars {
        let value = shown(name, value);
        let mut text = String::new();
        match value.as_str() {
            Some(plain) => text.push_str(plain),
            None => text::repr(&value, &mut text),
        }
        line(out, depth, &format!("{{{name} = {text}}}"));
    }
}

impl Inventory {
    /// What `ansible-inventory --list` prints, with `--export` and `--limit`. It is made while it is serialized, host by
    /// host, since all of a large inventory at once takes ten times the room of its text. `last` changes what is shown of
    /// a host or group.
    pub fn list<'s>(&'s self, shape: &Shape, last: &'s dyn Fn(&mut Json)) -> impl Serialize + 's {
        List {
            export: Export::new(&self.core, shape),
            last,
        }
    }

    /// What `ansible-inventory --list --yaml` prints, as data.
    pub fn tree(&self, shape: &Shape) -> Json {
        let export = Export::new(&self.core, shape);
        match export.tree(ALL, &mut HashSet::new(), &mut HashSet::new()) {
            Some(all) => json!({ "all": all }),
            None => json!({}),
        }
    }

    /// What `ansible-inventory --list --toml` prints, as data.
    pub fn tables(&self, shape: &Shape) -> Json {
        Export::new(&self.core, shape).tables()
    }

    /// What `ansible-inventory --graph GROUP` prints, with `--vars` where it is told how to show them. None for an unknown
    /// group. Hosts are not limited, as there.
    pub fn graph(&self, group: &str, export: bool, vars: Option<Shown<'_>>) -> Option<String> {
        let group = self.core.graph.group_index.get(group)?;
        let shape = Shape {
            export,
            ..Shape::default()
        };
        let mut out = String::new();
        Export::new(&self.core, &shape).graph(*group, 0, vars, &mut out);
        Some(out)
    }

    /// What `ansible-inventory --host` prints with `--export`: the host's own variables. Empty for an unknown host.
    pub fn own_vars_json(&self, host: &str, masked: bool) -> Json {
        let shape = Shape {
            masked,
            export: true,
            limit: None,
        };
        let export = Export::new(&self.core, &shape);
        match self.core.graph.host_index.get(host) {
            Some(host) => export.json(&export.host(*host)),
            None => json!({}),
        }
    }
}

/// JSON as YAML, as Ansible's dumper writes it: keys sorted, blocks, `!unsafe` texts plain.
pub fn to_yaml(json: &Json) -> String {
    let mut value = Value::from_json(json, &Place::whole(""));
    value.revive_tags();
    yaml_write::write(
        &value,
        &Style {
            indent: 2,
            sort: true,
            width: 80,
            lines: Lines::Block,
        },
    )
}

/// Turns `{"__ansible_unsafe": text}` into the text: so `ansible-inventory` prints it everywhere but in `--list`.
pub fn drop_unsafe(json: &mut Json) {
    match json {
        Json::Object(map) => {
            if map.len() == 1
                && let Some(Json::String(text)) = map.get("__ansible_unsafe")
            {
                *json = Json::String(text.clone());
                return;
            }
            map.values_mut().for_each(drop_unsafe);
        }
        Json::Array(list) => list.iter_mut().for_each(drop_unsafe),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
