//! Names of hosts, groups and variables.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::Inventory;
use super::document::{Document, Written};
use super::tree::{Body, Node};
use super::{Context, Finding, Options, finding};
use crate::diagnose::{Place, nearest};

/// Where names stand first.
fn places<'d>(named: impl Iterator<Item = &'d (String, Place)>) -> HashMap<&'d str, &'d Place> {
    let mut places = HashMap::new();
    for (name, place) in named {
        places.entry(name.as_str()).or_insert(place);
    }
    places
}

/// Checks the names of groups and hosts.
pub(super) fn check(
    documents: &[Document],
    groups: &HashSet<String>,
    hosts: &HashSet<String>,
    findings: &mut Vec<Finding>,
) {
    let of_groups = places(documents.iter().flat_map(|document| &document.groups));
    let of_hosts = places(documents.iter().flat_map(|document| &document.hosts));
    for (name, place) in &of_groups {
        if !is_variable_name(name) {
            findings.push(
                finding("lint/group-name", format!("`{name}` is no good name for a group"))
                    .at((*place).clone())
                    .rewrite(variable_name(name)),
            );
        }
    }
    for name in hosts.intersection(groups) {
        let whole = Place::whole("the inventory");
        let place = of_hosts.get(name.as_str()).copied().unwrap_or(&whole);
        let mut found = finding("lint/host-and-group", format!("`{name}` is a host and a group"))
            .at(place.clone())
            .help("give the group another name");
        if let Some(group) = of_groups.get(name.as_str()) {
            found = found.note((*group).clone(), "the group");
        }
        findings.push(found);
    }
    near("group", groups, &of_groups, findings);
    near("host", hosts, &of_hosts, findings);
}

/// Names that differ in case or in `-` and `_` only.
fn near(kind: &str, names: &HashSet<String>, places: &HashMap<&str, &Place>, findings: &mut Vec<Finding>) {
    let mut alike: BTreeMap<String, Vec<(&Place, &str)>> = BTreeMap::new();
    for name in names {
        if let Some(place) = places.get(name.as_str()) {
            let folded = name.to_lowercase().replace('-', "_");
            alike.entry(folded).or_default().push((place, name));
        }
    }
    for mut names in alike.into_values() {
        names.sort();
        let Some(((first, one), others)) = names.split_first() else {
            continue;
        };
        for (place, other) in others {
            findings.push(
                finding(
                    "lint/near-names",
                    format!("the {kind}s `{one}` and `{other}` are two, and nearly of one name"),
                )
                .at((*place).clone())
                .note((*first).clone(), &format!("`{one}` stands here first"))
                .rewrite(*one)
                .help("if both are meant, give them names that can be told apart"),
            );
        }
    }
}

/// Python's rule for names, by which Ansible warns.
fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_numeric()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn variable_name(name: &str) -> String {
    let good = |c: char| if c.is_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(good).collect();
    if name.starts_with(|c: char| c.is_numeric()) {
        format!("g_{name}")
    } else {
        name
    }
}

/// Hosts that may be removed and are no VMs.
pub(super) fn removable(
    inventory: &Inventory,
    options: &Options<'_>,
    documents: &[Document],
    findings: &mut Vec<Finding>,
) {
    let places = places(documents.iter().flat_map(|document| &document.hosts));
    for host in inventory.hosts_of_group(options.removable_group) {
        if inventory.in_group(host, options.vm_group) {
            continue;
        }
        let whole = Place::whole("the inventory");
        let place = places.get(host).copied().unwrap_or(&whole);
        findings.push(
            finding(
                "lint/removable-no-vm",
                format!(
                    "`{host}` is in the group {} and not in {}",
                    options.removable_group, options.vm_group
                ),
            )
            .at(place.clone())
            .help(format!(
                "put it into {} too, or take it out of {}",
                options.vm_group, options.removable_group
            )),
        );
    }
}

/// Variables that look like vmwright's own and are not.
pub(super) fn unknown(documents: &[Document], context: &Context<'_>, findings: &mut Vec<Finding>) {
    let used = used(documents);
    for assignment in documents.iter().flat_map(|document| &document.assignments) {
        let name = assignment.name.as_str();
        let ours = ["vms_", "global_", "pihole_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if !ours || context.known.contains_key(name) || used.contains(name) {
            continue;
        }
        let mut found = finding("lint/unknown-variable", format!("`{name}` is no variable of vmwright"))
            .at(assignment.place.clone())
            .key(name);
        let mut known: Vec<&str> = context.known.keys().copied().collect();
        known.sort_unstable();
        found = match nearest(name, known) {
            Some(near) => found.help(format!("did you mean `{near}`?")).rewrite(near),
            None => found
                .help("docs/inventory-reference.md lists all; a variable of your own deserves a prefix of your own"),
        };
        findings.push(found);
    }
}

/// All words in templates.
fn used(documents: &[Document]) -> HashSet<String> {
    let mut words = HashSet::new();
    for assignment in documents.iter().flat_map(|document| &document.assignments) {
        match &assignment.written {
            Written::Ini(ini) => template_words(&ini.text, &mut words),
            Written::Yaml(_, value) => node_words(value, &mut words),
        }
    }
    words
}

fn node_words(node: &Node, words: &mut HashSet<String>) {
    match &node.body {
        Body::Scalar(text, _) => template_words(text, words),
        Body::List(list) => list.iter().for_each(|item| node_words(item, words)),
        Body::Map(map) => map.iter().for_each(|(_, value)| node_words(value, words)),
        Body::Alias => {}
    }
}

fn template_words(text: &str, words: &mut HashSet<String>) {
    if text.contains("{{") || text.contains("{%") {
        let all = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.extend(all.filter(|word| !word.is_empty()).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_are_those_of_variables() {
        for name in ["web", "web_eu", "é", "_x"] {
            assert!(is_variable_name(name), "{name}");
        }
        for (name, better) in [("web-eu", "web_eu"), ("1a", "g_1a"), ("a.b", "a_b")] {
            assert!(!is_variable_name(name), "{name}");
            assert_eq!(variable_name(name), better);
        }
    }
}
