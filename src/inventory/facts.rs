//! Names that Ansible knows only after it asked the host, or while a playbook runs: told as such, where they are missing.
//!
//! An inventory that sets one of these names itself has it, like any other variable.

/// What begins with `ansible_` and is no fact: variables of connections and of the inventory, where a near name helps more.
const SETTINGS: &[&str] = &[
    "host",
    "port",
    "user",
    "password",
    "connection",
    "ssh_",
    "become",
    "python_interpreter",
    "private_key",
    "shell_",
    "winrm",
    "psrp",
    "network_os",
    "group_priority",
    "remote_tmp",
    "timeout",
    "paramiko",
    "pipelining",
    "scp_",
    "sftp_",
    "httpapi",
    "netconf",
    "persistent",
    "command_timeout",
    "host_key",
    "async",
    "aws",
    "docker",
    "kubectl",
    "lxd",
    "podman",
    "vault",
];

/// Facts whose names would else count as settings.
const FACTS: &[&str] = &[
    "hostname",
    "hostnqn",
    "host_ip",
    "ssh_host_key",
    "user_id",
    "user_uid",
    "user_gid",
    "user_dir",
    "user_gecos",
    "user_shell",
];

/// Variables of a running play.
const PLAY: &[&str] = &[
    "ansible_check_mode",
    "ansible_diff_mode",
    "ansible_forks",
    "ansible_limit",
    "ansible_loop",
    "ansible_loop_var",
    "ansible_index_var",
    "ansible_parent_role_names",
    "ansible_parent_role_paths",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_name",
    "ansible_play_role_names",
    "ansible_playbook_python",
    "ansible_role_name",
    "ansible_role_names",
    "ansible_run_tags",
    "ansible_search_path",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
    "ansible_collection_name",
    "ansible_config_file",
    "ansible_dependent_role_names",
    "environment",
    "item",
    "play_hosts",
    "role_name",
    "role_names",
    "role_path",
];

/// Why a name that the inventory does not set has no value here; `None` for an ordinary name.
pub(crate) fn absent(name: &str) -> Option<String> {
    if PLAY.contains(&name) {
        return Some(format!(
            "`{name}` exists only while a playbook runs, and vmwright runs none"
        ));
    }
    let rest = name.strip_prefix("ansible_")?;
    let fact =
        FACTS.iter().any(|fact| rest.starts_with(fact)) || !SETTINGS.iter().any(|setting| rest.starts_with(setting));
    fact.then(|| format!("`{name}` is a fact of the host, and facts are not gathered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_play_variables_and_settings_are_told_apart() {
        for name in [
            "ansible_facts",
            "ansible_hostname",
            "ansible_default_ipv4",
            "ansible_os_family",
            "ansible_user_id",
        ] {
            assert!(
                absent(name).is_some_and(|why| why.contains("facts are not gathered")),
                "{name}"
            );
        }
        assert!(absent("ansible_play_hosts").is_some_and(|why| why.contains("playbook")));
        for name in ["ansible_host", "ansible_user", "ansible_ssh_pass", "hostname", "items"] {
            assert_eq!(absent(name), None, "{name}");
        }
    }
}
