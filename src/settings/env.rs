//! The environment variables that vmwright reads, declared once: the settings, the documentation and the check for
//! misspelt names all use this table.

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The setting that it sets, as in `vmwright.yaml`; empty where the file has none such.
    pub setting: &'static str,
    /// What it means, one sentence without a full stop.
    pub meaning: &'static str,
}

/// All variables, in the order of the documentation. An empty value counts as unset.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "VMWRIGHT_CONFIG",
        setting: "",
        meaning: "the settings file to read instead of those that are looked for",
    },
    Variable {
        name: "VMWRIGHT_STATE_DIR",
        setting: "state_dir",
        meaning: "where locks, records and journals are kept",
    },
    Variable {
        name: "VMWRIGHT_FORKS",
        setting: "forks",
        meaning: "how many hosts are worked on at once",
    },
    Variable {
        name: "VMWRIGHT_CLONE_LIMIT_PER_STORAGE",
        setting: "clone_limit_per_storage",
        meaning: "how many clones may run at once on one storage, or `unlimited`",
    },
    Variable {
        name: "VMWRIGHT_MIGRATE_LIMIT_PER_NODE",
        setting: "migrate_limit_per_node",
        meaning: "how many migrations may run at once on one node, or `unlimited`",
    },
    Variable {
        name: "VMWRIGHT_KNOWN_HOSTS",
        setting: "known_hosts",
        meaning: "the known_hosts file that guests' keys are written to",
    },
    Variable {
        name: "VMWRIGHT_TEMPLATES_DIR",
        setting: "templates_dir",
        meaning: "a directory whose cloud-init templates are used instead of the embedded ones",
    },
    Variable {
        name: "VMWRIGHT_VAULT_PASSWORD_FILES",
        setting: "vault_password_files",
        meaning: "files that hold vault passwords, separated by colons",
    },
    Variable {
        name: "VMWRIGHT_VAULT_IDS",
        setting: "vault_ids",
        meaning: "vault ids, `label@source`, separated by commas",
    },
    Variable {
        name: "VMWRIGHT_HASH_BEHAVIOUR",
        setting: "hash_behaviour",
        meaning: "`replace` or `merge`: what becomes of a mapping that is defined at two levels",
    },
    Variable {
        name: "VMWRIGHT_ALLOW_PIPE_LOOKUP",
        setting: "allow_pipe_lookup",
        meaning: "`true` lets templates run commands with the lookup `pipe`",
    },
    Variable {
        name: "VMWRIGHT_OUTPUT",
        setting: "output",
        meaning: "`human` or `json`: what is written to standard output",
    },
    Variable {
        name: "VMWRIGHT_LOG_FORMAT",
        setting: "log_format",
        meaning: "`text` or `json`: how log lines are written to standard error",
    },
    Variable {
        name: "VMWRIGHT_WAIT_LOCK",
        setting: "wait_lock",
        meaning: "how long to wait for a VM that another run holds, such as `5m`; `0` fails at once",
    },
    Variable {
        name: "ANSIBLE_VAULT_PASSWORD_FILE",
        setting: "vault_password_files",
        meaning: "Ansible's own name for one vault password file, used when VMWRIGHT_VAULT_PASSWORD_FILES is not set",
    },
    Variable {
        name: "ANSIBLE_VAULT_IDENTITY_LIST",
        setting: "vault_ids",
        meaning: "Ansible's own name for vault ids, used when VMWRIGHT_VAULT_IDS is not set",
    },
    Variable {
        name: "XDG_STATE_HOME",
        setting: "state_dir",
        meaning: "the default state directory is `vmwright` in it; `~/.local/state` when unset",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        setting: "",
        meaning: "`vmwright/vmwright.yaml` in it is the user's settings file; `~/.config` when unset",
    },
    Variable {
        name: "HOME",
        setting: "",
        meaning: "what `~` stands for in paths, and where the XDG directories are by default",
    },
];
