//! What a guest makes of its user-data and meta-data: pure. The network has a file of its own.
//!
//! The rules are cloud-init's as measured on 22.4.2 and 25.1.4: user-data without the `#cloud-config` line, or which is not
//! YAML, is not applied at all; a network-config that is not YAML leaves the guest to DHCP; wrong types are errors of the
//! module that meets them; unknown keys are a schema warning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A text that is no YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlProblem {
    /// Line from 1, 0 if unknown.
    pub line: usize,
    /// Column from 1, 0 if unknown.
    pub column: usize,
    /// What the parser said.
    pub text: String,
}

/// Reads YAML. The only place that knows the parser.
///
/// # Errors
/// The text is no YAML.
pub fn yaml(text: &str) -> Result<Value, YamlProblem> {
    serde_yaml::from_str::<Value>(text).map_err(|error| YamlProblem {
        line: error.location().map_or(0, |at| at.line()),
        column: error.location().map_or(0, |at| at.column()),
        text: error.to_string(),
    })
}

/// A user that cloud-init makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Full name.
    pub gecos: String,
    /// Further groups.
    pub groups: Vec<String>,
    /// Login shell.
    pub shell: String,
    /// sudoers rules (`ALL=(ALL) NOPASSWD:ALL`); none: sudo asks for a password.
    pub sudo: Vec<String>,
    /// Lines of authorized_keys.
    pub keys: Vec<String>,
}

impl User {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            shell: "/bin/bash".to_owned(),
            ..Self::default()
        }
    }
}

/// A file of `write_files`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Absolute path.
    pub path: String,
    /// Content (encodings are not decoded: the simulator keeps the text as given).
    pub content: String,
    /// Permission bits.
    pub mode: u32,
}

/// What the guest does when cloud-init is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    /// Restart.
    Reboot,
    /// Power off.
    Poweroff,
}

/// The effect of a user-data document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    /// Whether it is a cloud-config that was read; nothing below holds otherwise.
    pub applied: bool,
    /// Short host name.
    pub hostname: Option<String>,
    /// Full name.
    pub fqdn: Option<String>,
    /// Users to make, the default user included if asked for.
    pub users: Vec<User>,
    /// Keys for root, when `disable_root` is false.
    pub root_keys: Vec<String>,
    /// Host keys given (`ssh_keys`), OpenSSH private key texts.
    pub host_keys: Vec<String>,
    /// Files.
    pub files: Vec<WrittenFile>,
    /// Packages asked for.
    pub packages: Vec<String>,
    /// Time zone.
    pub timezone: Option<String>,
    /// What happens at the end.
    pub power_state: Option<PowerState>,
    /// Errors of modules in the init stage.
    pub init_errors: Vec<String>,
    /// Errors of modules in the final stage (commands that fail).
    pub final_errors: Vec<String>,
    /// Recoverable warnings of the init stage.
    pub warnings: Vec<String>,
    /// Deprecations.
    pub deprecated: Vec<String>,
}

/// The top-level keys of cloud-config that the two versions know.
const KNOWN_KEYS: &str = "\
    allow_public_ssh_keys ansible apk_repos apt apt_pipelining apt_preserve_sources_list apt_reboot_if_required \
    apt_update apt_upgrade authkey_hash autoinstall bootcmd byobu_by_default ca-certs ca_certs chef chpasswd \
    cloud_config_modules cloud_final_modules cloud_init_modules create_hostname_file datasource datasource_list \
    debug device_aliases disable_ec2_metadata disable_root disable_root_opts disk_setup drivers fan final_message \
    fqdn fs_setup groups growpart hostname keyboard landscape launch-index locale locale_configfile lxd \
    manage_etc_hosts manage_resolv_conf mcollective merge_how merge_type migrate mount_default_fields mounts \
    network no_ssh_fingerprints ntp output package_reboot_if_required package_update package_upgrade packages \
    password phone_home power_state prefer_fqdn_over_hostname preserve_hostname puppet random_seed reporting \
    resize_rootfs resolv_conf rh_subscription rsyslog runcmd salt_minion snap spacewalk ssh ssh_authorized_keys \
    ssh_deletekeys ssh_fp_console_blacklist ssh_genkeytypes ssh_import_id ssh_key_console_blacklist ssh_keys \
    ssh_publish_hostkeys ssh_pwauth ssh_quiet_keygen swap system_info timezone ubuntu_advantage ubuntu_pro updates \
    user users vendor_data version wireguard write_files yum_repo_dir yum_repos zypper";

/// Reads user-data as cloud-init does. `default_user` is the image's.
pub fn user_data(text: &str, default_user: &str) -> UserData {
    if text.trim().is_empty() || text.starts_with("#!") {
        return UserData::default();
    }
    if !text.starts_with("#cloud-config") {
        let head: String = text.lines().next().unwrap_or_default().chars().take(24).collect();
        return UserData {
            warnings: vec![format!(
                "Unhandled non-multipart (text/x-not-multipart) userdata: 'b'{head}'...'"
            )],
            ..UserData::default()
        };
    }
    match yaml(text) {
        Ok(Value::Object(config)) => cloud_config(&config, default_user),
        Ok(Value::Null) => UserData {
            applied: true,
            ..UserData::default()
        },
        Ok(_) => UserData {
            warnings: vec!["Failed at merging in cloud config part from part-001: empty cloud config".to_owned()],
            ..UserData::default()
        },
        Err(problem) => UserData {
            warnings: vec![
                format!("Unexpected failure parsing userdata: {}", problem.text),
                format!(
                    "Failed loading yaml blob. Invalid format at line {} column {}: \"{}\"",
                    problem.line, problem.column, problem.text
                ),
                "Failed at merging in cloud config part from part-001: empty cloud config".to_owned(),
            ],
            ..UserData::default()
        },
    }
}

fn cloud_config(config: &serde_json::Map<String, Value>, default_user: &str) -> UserData {
    let mut data = UserData {
        applied: true,
        hostname: text_of(config.get("hostname")),
        fqdn: text_of(config.get("fqdn")),
        timezone: text_of(config.get("timezone")),
        packages: list_of(config.get("packages"))
            .iter()
            .filter_map(|p| text_of(Some(p)))
            .collect(),
        ..UserData::default()
    };
    if config
        .keys()
        .any(|key| !KNOWN_KEYS.split(' ').any(|known| known == key))
    {
        data.warnings.push(
            "cloud-config failed schema validation! You may run 'sudo cloud-init schema --system' to check the details."
                .to_owned(),
        );
    }
    read_users(config, default_user, &mut data);
    if let Some(keys) = config.get("ssh_keys").and_then(Value::as_object) {
        let private = keys.iter().filter(|(kind, _)| kind.ends_with("_private"));
        data.host_keys = private.filter_map(|(_, text)| text_of(Some(text))).collect();
    }
    match config.get("write_files") {
        None | Some(Value::Null) => {}
        Some(Value::Array(files)) => read_files(files, &mut data),
        Some(_) => data
            .init_errors
            .push("('write-files', AttributeError(\"'str' object has no attribute 'get'\"))".to_owned()),
    }
    commands(config, &mut data);
    data.power_state = match config
        .get("power_state")
        .and_then(|p| p.get("mode"))
        .and_then(Value::as_str)
    {
        Some("reboot") => Some(PowerState::Reboot),
        Some("poweroff" | "halt") => Some(PowerState::Poweroff),
        Some(_) | None => None,
    };
    data
}

fn read_users(config: &serde_json::Map<String, Value>, default_user: &str, data: &mut UserData) {
    let top_keys: Vec<String> = list_of(config.get("ssh_authorized_keys"))
        .iter()
        .filter_map(|k| text_of(Some(k)))
        .collect();
    let default = || {
        let given = config.get("user");
        let name = text_of(given).or_else(|| given.and_then(|u| text_of(u.get("name"))));
        User {
            gecos: default_user.to_owned(),
            sudo: vec!["ALL=(ALL) NOPASSWD:ALL".to_owned()],
            keys: top_keys.clone(),
            ..User::named(name.as_deref().unwrap_or(default_user))
        }
    };
    match config.get("users") {
        None | Some(Value::Null) => data.users.push(default()),
        Some(Value::String(names)) => {
            data.users.extend(names.split(',').map(|name| match name.trim() {
                "default" => default(),
                other => User::named(other),
            }));
        }
        Some(Value::Array(users)) => {
            for user in users {
                match user {
                    Value::String(name) if name == "default" => data.users.push(default()),
                    Value::String(name) => data.users.push(User::named(name)),
                    Value::Object(user) => data.users.extend(read_user(user, &mut data.deprecated)),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => data
                        .init_errors
                        .push(format!("('users-groups', TypeError('Unknown user config {user}'))")),
                }
            }
        }
        Some(Value::Object(users)) => {
            for (name, _) in users.iter().filter(|(_, wanted)| wanted.as_bool() != Some(false)) {
                data.users.push(if name == "default" {
                    default()
                } else {
                    User::named(name)
                });
            }
        }
        Some(Value::Bool(_) | Value::Number(_)) => {}
    }
    if config.get("disable_root").and_then(Value::as_bool) == Some(false) {
        data.root_keys = top_keys;
    }
}

fn read_user(user: &serde_json::Map<String, Value>, deprecated: &mut Vec<String>) -> Option<User> {
    let get = |key: &str| user.get(key).or_else(|| user.get(&key.replace('_', "-")));
    let name = text_of(get("name"))?;
    if user.keys().any(|key| key.contains('-')) {
        deprecated.push(format!(
            "Deprecated cloud-config provided: users: {name}: keys with a dash"
        ));
    }
    if user.get("sudo").and_then(Value::as_bool) == Some(false) {
        deprecated.push(format!(
            "The value of 'false' in user {name}'s 'sudo' config is deprecated in 22.2 and scheduled to be removed in \
             27.2. Use 'null' instead."
        ));
    }
    Some(User {
        gecos: text_of(get("gecos")).unwrap_or_default(),
        groups: names_of(get("groups")),
        shell: text_of(get("shell")).unwrap_or_else(|| "/bin/sh".to_owned()),
        sudo: match get("sudo") {
            Some(Value::String(rule)) => vec![rule.clone()],
            other => list_of(other).iter().filter_map(|r| text_of(Some(r))).collect(),
        },
        keys: list_of(get("ssh_authorized_keys"))
            .iter()
            .filter_map(|k| text_of(Some(k)))
            .collect(),
        name,
    })
}

fn read_files(files: &[Value], data: &mut UserData) {
    for file in files {
        let Some(path) = text_of(file.get("path")) else {
            data.warnings
                .push("No path provided to write for entry in 'write_files'".to_owned());
            continue;
        };
        let owner = text_of(file.get("owner")).unwrap_or_else(|| "root:root".to_owned());
        let user = owner.split(':').next().unwrap_or("root").to_owned();
        let deferred = file.get("defer").and_then(Value::as_bool) == Some(true);
        let known = user == "root" || (deferred && data.users.iter().any(|u| u.name == user));
        if !known {
            data.init_errors.push(format!(
                "('write-files', OSError('Unknown user or group: \"getpwnam(): name not found: \\'{user}\\'\"'))"
            ));
            return;
        }
        let mode = match file.get("permissions") {
            Some(Value::Number(n)) => n.as_u64().and_then(|n| u32::from_str_radix(&n.to_string(), 8).ok()),
            other => text_of(other).and_then(|m| u32::from_str_radix(m.trim_start_matches("0o"), 8).ok()),
        };
        data.files.push(WrittenFile {
            path,
            content: text_of(file.get("content")).unwrap_or_default(),
            mode: mode.unwrap_or(0o644),
        });
    }
}

/// bootcmd and runcmd are not run; a command that certainly fails is seen as failing.
fn commands(config: &serde_json::Map<String, Value>, data: &mut UserData) {
    if list_of(config.get("bootcmd")).iter().any(fails) {
        data.init_errors.push(
            "('bootcmd', ProcessExecutionError(\"Unexpected error while running command.\\nCommand: ['/bin/sh', \
             '/run/cloud-init/tmp/tmpbca9dgco.sh']\\nExit code: 7\\nReason: -\\nStdout: -\\nStderr: -\"))"
                .to_owned(),
        );
    }
    match config.get("runcmd") {
        None | Some(Value::Null) => {}
        Some(Value::Array(commands)) => {
            if commands.last().is_some_and(fails) {
                data.final_errors.push(
                    "('scripts-user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))"
                        .to_owned(),
                );
            }
        }
        Some(other) => data.final_errors.push(format!(
            "('runcmd', TypeError('Failed to shellify {} into file /var/lib/cloud/instance/scripts/runcmd'))",
            text_of(Some(other)).unwrap_or_else(|| other.to_string())
        )),
    }
}

/// `false`, `exit 3`, `[sh, -c, 'exit 3']`, and the YAML booleans that become the commands `True` and `False`.
fn fails(command: &Value) -> bool {
    let word = |v: &Value| match v {
        Value::Bool(_) => true,
        Value::String(text) => {
            let text = text.trim();
            text == "false" || text.strip_prefix("exit ").is_some_and(|code| code.trim() != "0")
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    };
    match command {
        Value::Array(words) => words.first().is_some_and(word) || words.last().is_some_and(word),
        other => word(other),
    }
}

/// `instance-id` and `local-hostname` of meta-data.
pub fn meta_data(text: &str) -> BTreeMap<String, String> {
    let Ok(Value::Object(map)) = yaml(text) else {
        return BTreeMap::new();
    };
    map.iter()
        .filter_map(|(key, value)| Some((key.clone(), text_of(Some(value))?)))
        .collect()
}

pub(super) fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn list_of(value: Option<&Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items.clone(),
        Some(_) | None => Vec::new(),
    }
}

/// A list, or a text with commas.
pub(super) fn names_of(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => text
            .split(',')
            .map(|n| n.trim().to_owned())
            .filter(|n| !n.is_empty())
            .collect(),
        other => list_of(other).iter().filter_map(|n| text_of(Some(n))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_config_gives_users_files_and_names() {
        let data = user_data(
            "#cloud-config\nhostname: web-0\nfqdn: web-0.example.net\nusers:\n- name: ops\n  groups: users,admin\n  sudo: ALL=(ALL) NOPASSWD:ALL\n  ssh_authorized_keys: [ssh-ed25519 AAAA x]\nwrite_files:\n- path: /etc/motd\n  permissions: '0440'\n  content: hi\n",
            "debian",
        );
        assert!(data.applied);
        assert_eq!(data.hostname.as_deref(), Some("web-0"));
        assert_eq!(data.users.len(), 1);
        assert_eq!(data.users[0].groups, ["users", "admin"]);
        assert_eq!(data.users[0].keys, ["ssh-ed25519 AAAA x"]);
        assert_eq!((data.files[0].mode, data.files[0].content.as_str()), (0o440, "hi"));
        assert_eq!(data.warnings, Vec::<String>::new());
    }

    #[test]
    fn without_header_or_yaml_nothing_is_applied() {
        for text in ["hostname: rec\n", "#cloud-config\nhostname: [rec\n  : :\n"] {
            let data = user_data(text, "debian");
            assert!(
                !data.applied && data.users.is_empty() && !data.warnings.is_empty(),
                "{text}"
            );
        }
        let absent = user_data("", "debian");
        assert!(absent.warnings.is_empty());
    }

    #[test]
    fn the_default_user_gets_the_top_level_keys() {
        let data = user_data(
            "#cloud-config\nuser: ops\nssh_authorized_keys: [ssh-rsa AAAA]\n",
            "debian",
        );
        assert_eq!((data.users[0].name.as_str(), data.users[0].keys.len()), ("ops", 1));
        let data = user_data("#cloud-config\nusers: [default, {name: x}]\n", "debian");
        assert_eq!(data.users[0].name, "debian");
        assert_eq!(data.users[1].name, "x");
    }

    #[test]
    fn failing_commands_and_wrong_types_are_errors() {
        assert_eq!(
            user_data("#cloud-config\nruncmd: [[sh, -c, 'exit 3']]\n", "d")
                .final_errors
                .len(),
            1
        );
        assert_eq!(
            user_data("#cloud-config\nruncmd: [[true]]\n", "d").final_errors.len(),
            1
        );
        assert_eq!(
            user_data("#cloud-config\nruncmd: [['true']]\n", "d").final_errors.len(),
            0
        );
        assert_eq!(user_data("#cloud-config\nruncmd: text\n", "d").final_errors.len(), 1);
        let owner = user_data(
            "#cloud-config\nwrite_files: [{path: /x, owner: 'nobody-here:x'}]\n",
            "d",
        );
        assert!(owner.init_errors[0].contains("nobody-here"));
        assert_eq!(user_data("#cloud-config\nno_such_key: 1\n", "d").warnings.len(), 1);
    }

    #[test]
    fn meta_data_is_read() {
        let meta = meta_data("instance-id: abc\n");
        assert_eq!(meta.get("instance-id").map(String::as_str), Some("abc"));
    }
}
