//! Reads YAML inventories by the rules of ansible-core (`plugins/inventory/yaml.py`).
//!
//! ```text
//! <group>:
//!   hosts:    {<name, perhaps with ranges and a port>: {<variables>} or nothing}
//!   children: {<group>: {hosts, children, vars} or nothing}
//!   vars:     {<variables>}
//! ```

use std::sync::Arc;

use indexmap::IndexMap;

use super::groups::Graph;
use super::host_pattern;
use super::value::{Data, Entry, Value};
use super::yaml::Document;
use crate::diagnose::{Diagnostic, Place, nearest};

type Map = IndexMap<String, Entry>;

/// Whether the document is a mapping at all: if not, a file without extension may still be an INI inventory.
pub(crate) fn looks_like_yaml(document: &Document) -> bool {
    matches!(&document.value.data, Data::Map(map) if !map.is_empty())
}

struct Reader<'g> {
    graph: &'g mut Graph,
    source: Arc<str>,
    document: &'g Document,
    faults: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

/// Reads a YAML inventory into the graph.
///
/// # Errors
///
/// Everything wrong in the file: `inventory/yaml-structure`, `inventory/yaml-plugin`, `inventory/host-name`,
/// `inventory/group-cycle`, `inventory/group-priority`.
pub(crate) fn read(
    document: &Document,
    source: &Arc<str>,
    graph: &mut Graph,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let Data::Map(root) = &document.value.data else {
        return Err(vec![match &document.value.data {
            Data::Null => structure("the file holds nothing", &document.value.place),
            _ => structure(
                format!(
                    "the file holds a {}, not a mapping of groups",
                    document.value.type_name()
                ),
                &document.value.place,
            ),
        }]);
    };
    if let Some(plugin) = root.get("plugin") {
        return Err(vec![
            Diagnostic::error(
                "inventory/yaml-plugin",
                "this file configures an inventory plugin of Ansible, which vmwright does not run",
            )
            .at(plugin.key_place.clone())
            .rule("sources are INI and YAML inventories, directories of them, and executables that answer --list")
            .help("put the plugin's result into a file: ansible-inventory -i FILE --list --export > hosts.json")
            .help("or name an executable that runs that command"),
        ]);
    }
    let mut reader = Reader {
        graph,
        source: Arc::clone(source),
        document,
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    for (name, entry) in root {
        reader.group(name, entry, None);
    }
    if reader.faults.is_empty() {
        Ok(reader.warnings)
    } else {
        Err(reader.faults)
    }
}

fn structure(message: impl Into<String>, place: &Place) -> Diagnostic {
    Diagnostic::error("inventory/yaml-structure", message)
        .at(place.clone())
        .rule("a YAML inventory is a mapping of groups; a group holds the mappings hosts, children and vars")
        .help("write for example: all: {hosts: {web01: {ansible_host: 10.0.0.5}}}")
}

impl Reader<'_> {
    fn is_text(&self, place: &Place) -> bool {
        !self.document.odd_keys.contains(&(place.line, place.column))
    }

    fn group(&mut self, name: &str, entry: &Entry, parent: Option<usize>) {
        let place = &entry.key_place;
        if name.is_empty() || !self.is_text(place) {
            let fault = structure(format!("`{name}` is not the name of a group: it is not text"), place);
            self.faults.push(fault.help("put it in quotes"));
            return;
        }
        let sections = match &entry.value.data {
            Data::Map(map) => Some(map),
            Data::Null => None,
            _ if parent.is_some() => {
                let message = format!("the group `{name}` is a {}, not a mapping", entry.value.type_name());
                self.faults.push(structure(message, &entry.value.place));
                return;
            }
            _ => {
                self.warnings.push(
                    Diagnostic::warning(
                        "inventory/yaml-ignored",
                        format!("`{name}` is a {} and no group: ignored", entry.value.type_name()),
                    )
                    .at(place.clone())
                    .rule("the top of a YAML inventory holds groups only")
                    .help("variables belong under a group: all: {vars: {..}}"),
                );
                return;
            }
        };
        let group = self.graph.add_group(name);
        for (key, section) in sections.into_iter().flatten() {
            match key.as_str() {
                "vars" => self.vars(group, name, section),
                "children" => self.children(group, name, section),
                "hosts" => self.hosts(group, name, section),
                _ if matches!(section.value.data, Data::Null) => {}
                _ => {
                    let mut warning = Diagnostic::warning(
                        "inventory/yaml-ignored",
                        format!("`{key}` in the group `{name}` is ignored"),
                    )
                    .at(section.key_place.clone())
                    .rule("a group holds hosts, children and vars");
                    warning = match nearest(key, ["hosts", "children", "vars"]) {
                        Some(near) => warning.help(format!("did you mean `{near}`?")),
                        None => warning.help("a variable belongs under `vars`, a group under `children`"),
                    };
                    self.warnings.push(warning);
                }
            }
        }
        if let Some(parent) = parent
            && let Err(fault) = self.graph.add_child(parent, group, place)
        {
            self.faults.push(fault);
        }
    }

    /// The entries of a section; a lone string stands for a mapping with that one key.
    fn entries(&mut self, section: &Entry, what: &str, group: &str) -> Map {
        match &section.value.data {
            Data::Map(map) => map.clone(),
            Data::Null => Map::new(),
            Data::Str(text) | Data::Unsafe(text) => Map::from([(
                text.clone(),
                Entry {
                    key_place: section.value.place.clone(),
                    value: Value::new(Data::Null, section.value.place.clone()),
                },
            )]),
            Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::List(_) | Data::Vault(_) => {
                let name = section.value.type_name();
                let message = format!("`{what}` of the group `{group}` is a {name}, not a mapping");
                let mut fault = structure(message, &section.value.place);
                if matches!(section.value.data, Data::List(_)) {
                    fault = fault.help("write `name:` in the place of `- name`");
                }
                self.faults.push(fault);
                Map::new()
            }
        }
    }

    fn vars(&mut self, group: usize, name: &str, section: &Entry) {
        for (key, entry) in self.entries(section, "vars", name) {
            if let Err(fault) = self.graph.set_group_var(group, &key, entry.value) {
                self.faults.push(fault);
            }
        }
    }

    fn children(&mut self, group: usize, name: &str, section: &Entry) {
        for (child, entry) in self.entries(section, "children", name) {
            self.group(&child, &entry, Some(group));
        }
    }

    fn hosts(&mut self, group: usize, name: &str, section: &Entry) {
        for (pattern, entry) in self.entries(section, "hosts", name) {
            if !self.is_text(&entry.key_place) {
                let fault = structure(
                    format!("`{pattern}` is not the name of a host: it is not text"),
                    &entry.key_place,
                );
                self.faults.push(fault.help("put it in quotes"));
                continue;
            }
            let variables = match &entry.value.data {
                Data::Map(map) => Some(map),
                // Python takes every empty value for "no variables".
                Data::Null | Data::Bool(false) | Data::Int(0) => None,
                Data::Str(text) | Data::Unsafe(text) if text.is_empty() => None,
                Data::List(list) if list.is_empty() => None,
                Data::Bool(_)
                | Data::Int(_)
                | Data::Float(_)
                | Data::Str(_)
                | Data::Unsafe(_)
                | Data::List(_)
                | Data::Vault(_) => {
                    let type_name = entry.value.type_name();
                    let message = format!("the variables of the host `{pattern}` are a {type_name}, not a mapping");
                    self.faults.push(structure(message, &entry.value.place));
                    continue;
                }
            };
            let (names, port) = match host_pattern::expand(&pattern) {
                Ok(expanded) => expanded,
                Err(why) => {
                    self.faults.push(host_pattern::fault(&pattern, &why, &entry.key_place));
                    continue;
                }
            };
            let variables: Vec<(Arc<str>, Arc<Value>)> = variables
                .into_iter()
                .flatten()
                .map(|(key, entry)| (key.as_str().into(), Arc::new(entry.value.clone())))
                .collect();
            for name in names {
                let place = &entry.key_place;
                let done = self
                    .graph
                    .declare_host(&name, group, &self.source, port, place, &variables);
                if let Err(fault) = done {
                    self.faults.push(fault);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::yaml;

    fn load(text: &str) -> (Graph, Result<Vec<Diagnostic>, Vec<Diagnostic>>) {
        let document = yaml::parse(text, &"h.yml".into()).unwrap();
        let mut graph = Graph::new();
        let done = read(&document, &"h.yml".into(), &mut graph);
        (graph, done)
    }

    #[test]
    fn groups_hosts_and_variables_are_read() {
        let (graph, done) = load(
            "all:\n  children:\n    web:\n      hosts:\n        w[1:2]:22: {a: 1}\n      vars: {b: 2, ansible_group_priority: 5}\n",
        );
        assert_eq!(done.unwrap(), []);
        assert_eq!(graph.hosts[1].vars["ansible_port"].data, Data::Int(22));
        let web = &graph.groups[graph.group_index["web"]];
        assert_eq!((web.priority, web.hosts.len(), web.vars.len()), (5, 2, 1));
    }

    #[test]
    fn faults_have_places_and_near_names() {
        let (_, done) = load("all:\n  hosts: [a]\n  children:\n    1: {}\n    b: x\n");
        let faults = done.unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "h.yml:2:10: `hosts` of the group `all` is a list, not a mapping",
                "h.yml:4:5: `1` is not the name of a group: it is not text",
                "h.yml:5:8: the group `b` is a string, not a mapping",
            ]
        );
        let (_, done) = load("all: {host: {a: }}\nx: 1\n");
        let warnings = done.unwrap();
        assert_eq!(warnings[0].help, ["did you mean `hosts`?"]);
        assert_eq!(warnings[1].code, "inventory/yaml-ignored");
        assert_eq!(load("plugin: foo\n").1.unwrap_err()[0].code, "inventory/yaml-plugin");
    }
}
