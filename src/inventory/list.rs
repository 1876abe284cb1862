//! The inventory as `ansible-inventory --list` and `--host` print it.

use serde_json::{Map, Value as Json, json};

use super::Core;
use super::groups::{ALL, Vars};

/// Names that those commands leave out (ansible-core `INTERNAL_STATIC_VARS`).
pub(crate) const INTERNAL: [&str; 33] = [
    "ansible_async_path",
    "ansible_collection_name",
    "ansible_config_file",
    "ansible_dependent_role_names",
    "ansible_diff_mode",
    "ansible_facts",
    "ansible_forks",
    "ansible_inventory_sources",
    "ansible_limit",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_role_names",
    "ansible_playbook_python",
    "ansible_role_name",
    "ansible_role_names",
    "ansible_run_tags",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "groups",
    "group_names",
    "hostvars",
    "playbook_dir",
    "play_hosts",
    "role_name",
    "role_names",
    "role_path",
    "role_uuid",
];

/// The variables of a host as `--host` prints them: there Ansible does not tell text that is never a template.
pub(crate) fn alone(core: &Core, index: usize, masked: bool) -> Json {
    fn plain(json: Json) -> Json {
        match json {
            Json::Object(map) => match map.get("__ansible_unsafe") {
                Some(Json::String(text)) if map.len() == 1 => Json::String(text.clone()),
                _ => Json::Object(map.into_iter().map(|(key, value)| (key, plain(value))).collect()),
            },
            Json::Array(list) => Json::Array(list.into_iter().map(plain).collect()),
            other => other,
        }
    }
    plain(host(core, index, masked))
}

/// The variables of a host.
pub(crate) fn host(core: &Core, host: usize, masked: bool) -> Json {
    host_vars(&core.vars_of(host), masked)
}

/// Variables as those commands print them.
pub(crate) fn host_vars(vars: &Vars, masked: bool) -> Json {
    let mut vars: Vec<_> = vars.iter().filter(|(name, _)| !INTERNAL.contains(&&***name)).collect();
    vars.sort_by(|a, b| a.0.cmp(b.0));
    let json = |value: &super::Value| {
        if masked {
            value.to_json_masked()
        } else {
            value.to_json()
        }
    };
    Json::Object(
        vars.into_iter()
            .map(|(name, value)| (name.to_string(), json(value)))
            .collect(),
    )
}

/// All groups and the variables of all hosts.
pub(crate) fn all(core: &Core, masked: bool) -> Json {
    let graph = &core.graph;
    let mut hostvars = Map::new();
    let mut hosts: Vec<usize> = graph.hosts_of(ALL);
    hosts.sort_by(|a, b| graph.hosts[*a].name.cmp(&graph.hosts[*b].name));
    for index in hosts {
        let vars = host(core, index, masked);
        if vars.as_object().is_some_and(|vars| !vars.is_empty()) {
            hostvars.insert(graph.hosts[index].name.to_string(), vars);
        }
    }
    let mut out = Map::new();
    out.insert(
        "_meta".to_owned(),
        json!({"hostvars": hostvars, "profile": "inventory_legacy"}),
    );
    let mut groups: Vec<usize> = (0..graph.groups.len()).collect();
    groups.sort_by(|a, b| graph.groups[*a].name.cmp(&graph.groups[*b].name));
    for index in groups {
        let group = &graph.groups[index];
        let mut shown = Map::new();
        if !group.children.is_empty() {
            let children = group
                .children
                .iter()
                .map(|child| Json::from(&*graph.groups[*child].name));
            shown.insert("children".to_owned(), children.collect());
        }
        if index != ALL && !group.hosts.is_empty() {
            let hosts = group.hosts.iter().map(|host| Json::from(&*graph.hosts[*host].name));
            shown.insert("hosts".to_owned(), hosts.collect());
        }
        if !shown.is_empty() {
            out.insert(group.name.to_string(), Json::Object(shown));
        }
    }
    Json::Object(out)
}
