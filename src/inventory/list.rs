//! The inventory as `ansible-inventory --list` and `--host` print it.

use serde_json::Value as Json;

use super::Core;
use super::groups::Vars;

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
