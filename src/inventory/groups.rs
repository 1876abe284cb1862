//! Hosts, groups and how they hang together, while sources are read and afterwards.
//!
//! ```text
//! all -+- ungrouped        every group hangs under `all`; a host without a group is in `ungrouped`
//!      +- web -- web_eu    a cycle is an error when the edge that closes it is read
//!      +- db
//! ```
//!
//! Depth is the longest way from `all`; variables of deeper groups win (ansible-core `inventory/group.py`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexMap;

use super::value::{Data, Value};
use super::vars::put;
use super::{Merge, host_pattern};
use crate::diagnose::{Diagnostic, Place};

/// Variables by name.
pub(crate) type Vars = IndexMap<Arc<str>, Arc<Value>>;

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub name: Arc<str>,
    /// Hosts named in this very group, in order.
    pub hosts: Vec<usize>,
    members: HashSet<usize>,
    pub children: Vec<usize>,
    pub parents: Vec<usize>,
    /// `ansible_group_priority`.
    pub priority: i128,
    pub depth: usize,
    pub vars: Vars,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub name: Arc<str>,
    /// Groups that name it directly.
    pub direct: Vec<usize>,
    /// All its groups with ancestors, without `all`, sorted by depth, priority and name.
    pub groups: Vec<usize>,
    pub vars: Vars,
    /// The source that named it first.
    pub source: Option<Arc<str>>,
}

/// Whom a variable is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Group(usize),
    Host(usize),
}

/// A definition that a later one of the same layer replaced: kept for `explain`.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub owner: Owner,
    pub name: Arc<str>,
    pub value: Arc<Value>,
}

/// All hosts and groups.
#[derive(Debug)]
pub(crate) struct Graph {
    pub groups: Vec<Group>,
    pub group_index: HashMap<Arc<str>, usize>,
    pub hosts: Vec<Host>,
    pub host_index: HashMap<Arc<str>, usize>,
    /// What later definitions of the inventory replaced, in the order of reading.
    pub shadowed: Vec<Shadowed>,
    /// What becomes of a mapping that is defined twice for one group or host.
    pub merge: Merge,
}

/// The index of `all`.
pub(crate) const ALL: usize = 0;
/// The index of `ungrouped`.
pub(crate) const UNGROUPED: usize = 1;

impl Graph {
    /// `all` with the child `ungrouped`.
    pub fn new() -> Self {
        let mut graph = Self {
            groups: Vec::new(),
            group_index: HashMap::new(),
            hosts: Vec::new(),
            host_index: HashMap::new(),
            shadowed: Vec::new(),
            merge: Merge::default(),
        };
        graph.add_group("all");
        graph.add_group("ungrouped");
        graph.groups[ALL].children.push(UNGROUPED);
        graph.groups[UNGROUPED].parents.push(ALL);
        graph
    }

    /// The group of this name, made if need be.
    pub fn add_group(&mut self, name: &str) -> usize {
        if let Some(index) = self.group_index.get(name) {
            return *index;
        }
        let name: Arc<str> = name.into();
        let index = self.groups.len();
        self.groups.push(Group {
            name: Arc::clone(&name),
            hosts: Vec::new(),
            members: HashSet::new(),
            children: Vec::new(),
            parents: Vec::new(),
            priority: 1,
            depth: 0,
            vars: Vars::new(),
        });
        self.group_index.insert(name, index);
        index
    }

    /// The host of this name, made if need be, and put into the group.
    pub fn add_host(&mut self, name: &str, group: Option<usize>, source: &Arc<str>) -> usize {
        let index = match self.host_index.get(name) {
            Some(index) => *index,
            None => {
                let name: Arc<str> = name.into();
                let index = self.hosts.len();
                self.hosts.push(Host {
                    name: Arc::clone(&name),
                    direct: Vec::new(),
                    groups: Vec::new(),
                    vars: Vars::new(),
                    source: Some(Arc::clone(source)),
                });
                self.host_index.insert(name, index);
                index
            }
        };
        if let Some(group) = group
            && self.groups[group].members.insert(index)
        {
            self.groups[group].hosts.push(index);
            self.hosts[index].direct.push(group);
        }
        index
    }

    /// Makes one group the child of another.
    ///
    /// # Errors
    ///
    /// `inventory/group-cycle`, naming the whole cycle.
    pub fn add_child(&mut self, parent: usize, child: usize, place: &Place) -> Result<(), Diagnostic> {
        if self.groups[parent].children.contains(&child) {
            return Ok(());
        }
        if let Some(path) = self.way_up(parent, child) {
            let mut names: Vec<&str> = path.iter().map(|group| &*self.groups[*group].name).collect();
            names.reverse();
            names.push(&self.groups[child].name);
            return Err(Diagnostic::error(
                "inventory/group-cycle",
                format!(
                    "the group `{}` would contain itself: {}",
                    self.groups[child].name,
                    names.join(" > ")
                ),
            )
            .at(place.clone())
            .rule("groups form a tree below `all`, without cycles")
            .help(format!(
                "remove `{}` from the children of `{}`, or one of the other steps",
                self.groups[child].name, self.groups[parent].name
            )));
        }
        self.groups[parent].children.push(child);
        self.groups[child].parents.push(parent);
        Ok(())
    }

    /// The way from `from` up to `to`, both included, if there is one.
    fn way_up(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut came: HashMap<usize, usize> = HashMap::new();
        let mut queue = vec![from];
        let mut seen = HashSet::from([from]);
        while let Some(group) = queue.pop() {
            if group == to {
                let mut path = vec![group];
                let mut at = group;
                while let Some(before) = came.get(&at) {
                    path.push(*before);
                    at = *before;
                }
                path.reverse();
                return Some(path);
            }
            for parent in &self.groups[group].parents {
                if seen.insert(*parent) {
                    came.insert(*parent, group);
                    queue.push(*parent);
                }
            }
        }
        None
    }

    /// Sets a variable of a group; `ansible_group_priority` sets its priority and is no variable.
    ///
    /// # Errors
    ///
    /// `inventory/group-priority` when the priority is not an integer.
    pub fn set_group_var(&mut self, group: usize, name: &str, value: Value) -> Result<(), Diagnostic> {
        if name == "ansible_group_priority" {
            let priority = match &value.data {
                Data::Int(priority) => Some(*priority),
                Data::Float(priority) => Some(*priority as i128),
                Data::Bool(priority) => Some((*priority).into()),
                Data::Str(text) | Data::Unsafe(text) => text.trim().parse().ok(),
                Data::Null | Data::List(_) | Data::Map(_) | Data::Vault(_) => None,
            };
            self.groups[group].priority = priority.ok_or_else(|| {
                Diagnostic::error("inventory/group-priority", "ansible_group_priority is not an integer")
                    .at(value.place.clone())
                    .rule("the priority decides which of two groups of the same depth wins; the default is 1")
                    .help("write a number, such as 10")
            })?;
            return Ok(());
        }
        keep(
            &mut self.groups[group].vars,
            &mut self.shadowed,
            Owner::Group(group),
            &name.into(),
            &Arc::new(value),
            self.merge,
        );
        Ok(())
    }

    /// Sets a variable of a host. Of a host that has the name of a group it becomes the group's, as in Ansible, which
    /// looks for groups first; [`Graph::namesakes`] warns of them.
    ///
    /// # Errors
    ///
    /// As [`Graph::set_group_var`].
    pub fn set_host_var(&mut self, host: usize, name: &str, value: &Arc<Value>) -> Result<(), Diagnostic> {
        match self.group_index.get(&self.hosts[host].name) {
            Some(group) => self.set_group_var(*group, name, (**value).clone()),
            None => {
                self.put_host_var(host, name, value);
                Ok(())
            }
        }
    }

    /// Puts a host with its port and variables into a group; the port counts for a host that was not known before.
    ///
    /// # Errors
    ///
    /// As [`Graph::set_group_var`], and `inventory/host-name` for a host without a name.
    pub fn declare_host(
        &mut self,
        name: &str,
        group: usize,
        source: &Arc<str>,
        port: Option<u16>,
        place: &Place,
        vars: &[(Arc<str>, Arc<Value>)],
    ) -> Result<(), Diagnostic> {
        if name.is_empty() {
            return Err(host_pattern::fault(name, "it is empty", place));
        }
        let known = self.host_index.contains_key(name);
        let host = self.add_host(name, Some(group), source);
        // Python takes the port 0 for none.
        if let (Some(port @ 1..), false) = (port, known) {
            let port = Value::new(Data::Int(port.into()), place.clone());
            self.put_host_var(host, "ansible_port", &Arc::new(port));
        }
        for (key, value) in vars {
            self.set_host_var(host, key, value)?;
        }
        Ok(())
    }

    /// Sets a variable of a host that is surely the host's.
    pub fn put_host_var(&mut self, host: usize, name: &str, value: &Arc<Value>) {
        let vars = &mut self.hosts[host].vars;
        keep(
            vars,
            &mut self.shadowed,
            Owner::Host(host),
            &name.into(),
            value,
            self.merge,
        );
    }

    /// Warnings of hosts that have the name of a group.
    pub fn namesakes(&self) -> Vec<Diagnostic> {
        let namesakes = self
            .hosts
            .iter()
            .filter(|host| self.group_index.contains_key(&host.name));
        namesakes
            .map(|host| {
                Diagnostic::warning(
                    "inventory/host-and-group",
                    format!("`{0}` is a host and a group", host.name),
                )
                .host(&*host.name)
                .rule("as in Ansible, what the inventory sets for the host is set for the whole group")
                .help("give the group another name")
            })
            .collect()
    }

    /// Puts everything under `all`, hosts without groups into `ungrouped`, and computes depths and the groups of hosts.
    ///
    /// # Errors
    ///
    /// `inventory/group-cycle`.
    pub fn settle(&mut self) -> Result<(), Diagnostic> {
        for group in 2..self.groups.len() {
            if self.groups[group].parents.is_empty() {
                self.add_child(ALL, group, &Place::whole("the inventory"))?;
            }
        }
        for host in 0..self.hosts.len() {
            let real = self.hosts[host].direct.iter().any(|group| *group > UNGROUPED);
            let ungrouped = self.hosts[host].direct.contains(&UNGROUPED);
            if real && ungrouped {
                self.groups[UNGROUPED].hosts.retain(|other| *other != host);
                self.groups[UNGROUPED].members.remove(&host);
                self.hosts[host].direct.retain(|group| *group != UNGROUPED);
            } else if !real && !ungrouped {
                self.groups[UNGROUPED].hosts.push(host);
                self.groups[UNGROUPED].members.insert(host);
                self.hosts[host].direct.push(UNGROUPED);
            }
        }
        self.compute_depths();
        let ancestors: Vec<Vec<usize>> = (0..self.groups.len()).map(|group| self.with_ancestors(group)).collect();
        for host in 0..self.hosts.len() {
            let mut groups: Vec<usize> = self.hosts[host]
                .direct
                .iter()
                .flat_map(|group| ancestors[*group].iter().copied())
                .collect();
            groups.retain(|group| *group != ALL);
            groups.sort_unstable();
            groups.dedup();
            groups.sort_by(|a, b| {
                let key = |group: usize| {
                    let group = &self.groups[group];
                    (group.depth, group.priority, Arc::clone(&group.name))
                };
                key(*a).cmp(&key(*b))
            });
            self.hosts[host].groups = groups;
        }
        Ok(())
    }

    fn compute_depths(&mut self) {
        let mut pending: Vec<usize> = self.groups.iter().map(|group| group.parents.len()).collect();
        let mut ready: Vec<usize> = (0..self.groups.len()).filter(|group| pending[*group] == 0).collect();
        while let Some(group) = ready.pop() {
            let depth = self.groups[group].depth + 1;
            for child in self.groups[group].children.clone() {
                self.groups[child].depth = self.groups[child].depth.max(depth);
                pending[child] -= 1;
                if pending[child] == 0 {
                    ready.push(child);
                }
            }
        }
    }

    fn with_ancestors(&self, group: usize) -> Vec<usize> {
        let mut seen = HashSet::from([group]);
        let mut queue = vec![group];
        let mut out = Vec::new();
        while let Some(group) = queue.pop() {
            out.push(group);
            for parent in &self.groups[group].parents {
                if seen.insert(*parent) {
                    queue.push(*parent);
                }
            }
        }
        out
    }

    /// The hosts of a group and its descendants, each once: the group's own first, then level by level.
    pub fn hosts_of(&self, group: usize) -> Vec<usize> {
        let mut hosts = Vec::new();
        let mut seen_hosts = HashSet::new();
        let mut seen = HashSet::from([group]);
        let mut level = vec![group];
        while !level.is_empty() {
            let mut next = Vec::new();
            for group in level {
                for host in &self.groups[group].hosts {
                    if seen_hosts.insert(*host) {
                        hosts.push(*host);
                    }
                }
                for child in &self.groups[group].children {
                    if seen.insert(*child) {
                        next.push(*child);
                    }
                }
            }
            level = next;
        }
        hosts
    }
}

/// Sets a variable over what was said before, and keeps that.
pub(crate) fn keep(
    vars: &mut Vars,
    shadowed: &mut Vec<Shadowed>,
    owner: Owner,
    name: &Arc<str>,
    value: &Arc<Value>,
    merge: Merge,
) {
    if let Some(value) = put(vars, name, value, merge) {
        let name = Arc::clone(name);
        shadowed.push(Shadowed { owner, name, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Place {
        Place::whole("t")
    }

    #[test]
    fn a_cycle_is_an_error_that_names_it() {
        let mut graph = Graph::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| graph.add_group(name));
        graph.add_child(a, b, &at()).unwrap();
        graph.add_child(b, c, &at()).unwrap();
        let fault = graph.add_child(c, a, &at()).unwrap_err();
        assert!(fault.message.ends_with("a > b > c > a"), "{}", fault.message);
        assert!(graph.add_child(a, a, &at()).is_err());
    }

    #[test]
    fn depth_is_the_longest_way_and_decides_the_order() {
        let mut graph = Graph::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| graph.add_group(name));
        graph.add_child(a, c, &at()).unwrap();
        graph.add_child(a, b, &at()).unwrap();
        graph.add_child(b, c, &at()).unwrap();
        let host = graph.add_host("h", Some(c), &"s".into());
        let lone = graph.add_host("l", None, &"s".into());
        graph.settle().unwrap();
        assert_eq!(
            (graph.groups[a].depth, graph.groups[b].depth, graph.groups[c].depth),
            (1, 2, 3)
        );
        assert_eq!(graph.hosts[host].groups, [a, b, c]);
        assert_eq!(graph.hosts[lone].groups, [UNGROUPED]);
        assert_eq!(graph.hosts_of(ALL), [lone, host]);
    }
}
