//! cloud-init's rules for user-data, as far as they decide whether a guest is set up.
//!
//! Source: canonical/cloud-init, `cloudinit/config/schemas/schema-cloud-config-v1.json` (26.2). The top level, users,
//! files, commands and packages are checked in full; of the other modules the type of their key.

use indexmap::IndexMap;

use super::rules::{Checker, Kind, join};
use crate::diagnose::Diagnostic;
use crate::inventory::value::{Data, Entry, Value};

/// The keys of the top level and the type of each.
const TOP: &[(&str, Kind)] = &[
    ("allow_public_ssh_keys", Kind::Bool),
    ("ansible", Kind::Map),
    ("apk_repos", Kind::Map),
    ("apt", Kind::Map),
    ("apt_pipelining", Kind::Any),
    ("authkey_hash", Kind::Text),
    ("bootcmd", Kind::List),
    ("byobu_by_default", Kind::Text),
    ("ca_certs", Kind::Map),
    ("chef", Kind::Map),
    ("chpasswd", Kind::Map),
    ("cloud_config_modules", Kind::List),
    ("cloud_final_modules", Kind::List),
    ("cloud_init_modules", Kind::List),
    ("create_hostname_file", Kind::Bool),
    ("device_aliases", Kind::Map),
    ("disable_ec2_metadata", Kind::Bool),
    ("disable_root", Kind::Bool),
    ("disable_root_opts", Kind::Text),
    ("disk_setup", Kind::Map),
    ("drivers", Kind::Map),
    ("fan", Kind::Map),
    ("final_message", Kind::Text),
    ("fqdn", Kind::Text),
    ("fs_setup", Kind::List),
    ("groups", Kind::Any),
    ("growpart", Kind::Map),
    ("grub_dpkg", Kind::Map),
    ("hostname", Kind::Text),
    ("keyboard", Kind::Map),
    ("landscape", Kind::Map),
    ("locale", Kind::TextOrBool),
    ("locale_configfile", Kind::Text),
    ("lxd", Kind::Map),
    ("manage_etc_hosts", Kind::TextOrBool),
    ("manage_resolv_conf", Kind::Bool),
    ("mcollective", Kind::Map),
    ("merge_how", Kind::Any),
    ("merge_type", Kind::Any),
    ("mount_default_fields", Kind::List),
    ("mounts", Kind::List),
    ("no_ssh_fingerprints", Kind::Bool),
    ("ntp", Kind::MapOrNull),
    ("output", Kind::Map),
    ("package_reboot_if_required", Kind::Bool),
    ("package_update", Kind::Bool),
    ("package_upgrade", Kind::Bool),
    ("packages", Kind::List),
    ("password", Kind::Text),
    ("phone_home", Kind::Map),
    ("power_state", Kind::Map),
    ("prefer_fqdn_over_hostname", Kind::Bool),
    ("preserve_hostname", Kind::Bool),
    ("puppet", Kind::Map),
    ("random_seed", Kind::Map),
    ("reporting", Kind::Map),
    ("resize_rootfs", Kind::Any),
    ("resolv_conf", Kind::Map),
    ("rh_subscription", Kind::Map),
    ("rpi", Kind::Map),
    ("rsyslog", Kind::Map),
    ("runcmd", Kind::List),
    ("salt_minion", Kind::Map),
    ("snap", Kind::Map),
    ("spacewalk", Kind::Map),
    ("ssh", Kind::Map),
    ("ssh_authorized_keys", Kind::List),
    ("ssh_deletekeys", Kind::Bool),
    ("ssh_fp_console_blacklist", Kind::List),
    ("ssh_genkeytypes", Kind::List),
    ("ssh_import_id", Kind::List),
    ("ssh_key_console_blacklist", Kind::List),
    ("ssh_keys", Kind::Map),
    ("ssh_publish_hostkeys", Kind::Map),
    ("ssh_pwauth", Kind::Bool),
    ("ssh_quiet_keygen", Kind::Bool),
    ("swap", Kind::Map),
    ("timezone", Kind::Text),
    ("ubuntu_pro", Kind::Any),
    ("updates", Kind::Map),
    ("user", Kind::TextOrMap),
    ("users", Kind::Any),
    ("vendor_data", Kind::Map),
    ("version", Kind::Any),
    ("wireguard", Kind::MapOrNull),
    ("write_files", Kind::List),
    ("yum_repo_dir", Kind::Text),
    ("yum_repos", Kind::Map),
    ("zypper", Kind::Map),
];

const USER: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("doas", Kind::List),
    ("expiredate", Kind::Text),
    ("gecos", Kind::Text),
    ("groups", Kind::TextOrList),
    ("homedir", Kind::Text),
    ("inactive", Kind::Text),
    ("lock_passwd", Kind::Bool),
    ("no_create_home", Kind::Bool),
    ("no_log_init", Kind::Bool),
    ("no_user_group", Kind::Bool),
    ("passwd", Kind::Text),
    ("hashed_passwd", Kind::Text),
    ("plain_text_passwd", Kind::Text),
    ("create_groups", Kind::Bool),
    ("primary_group", Kind::Text),
    ("selinux_user", Kind::Text),
    ("shell", Kind::Text),
    ("snapuser", Kind::Text),
    ("ssh_authorized_keys", Kind::List),
    ("ssh_import_id", Kind::List),
    ("ssh_redirect_user", Kind::Bool),
    ("sudo", Kind::Any),
    ("system", Kind::Bool),
    ("uid", Kind::TextOrInt),
];

const FILE: &[(&str, Kind)] = &[
    ("path", Kind::Text),
    ("content", Kind::Text),
    ("source", Kind::Map),
    ("owner", Kind::Text),
    ("permissions", Kind::Text),
    ("encoding", Kind::Text),
    ("append", Kind::Bool),
    ("defer", Kind::Bool),
];

const ENCODINGS: [&str; 9] = [
    "gz",
    "gzip",
    "gz+base64",
    "gzip+base64",
    "gz+b64",
    "gzip+b64",
    "b64",
    "base64",
    "text/plain",
];

/// The problems of a user-data document; `name` is what it is called in places.
pub fn check(text: &str, name: &str) -> Vec<Diagnostic> {
    let mut checker = Checker::new();
    let Some(map) = checker.document(text, name) else {
        return checker.problems;
    };
    let c = &mut checker;
    c.keys("", &map, TOP);
    let items = |key: &str| map.get(key).and_then(|entry| entry.value.as_list()).unwrap_or_default();
    users(c, &map);
    for (i, file) in items("write_files").iter().enumerate() {
        write_file(c, &format!("write_files[{i}]"), file);
    }
    for key in ["runcmd", "bootcmd"] {
        for (i, command) in items(key).iter().enumerate() {
            self::command(c, &format!("{key}[{i}]"), command);
        }
    }
    for (i, package) in items("packages").iter().enumerate() {
        self::package(c, &format!("packages[{i}]"), package);
    }
    for key in ["ssh_authorized_keys", "ssh_import_id"] {
        if let Some(entry) = map.get(key) {
            c.texts(key, &entry.value);
        }
    }
    if let Some(Entry { value, .. }) = map.get("manage_etc_hosts")
        && let Some(word) = value.as_str().filter(|word| *word != "localhost")
    {
        c.push(
            "cloud-init/wrong-value",
            "manage_etc_hosts",
            &value.place,
            format!("manage_etc_hosts is {word:?}"),
            "true, false or localhost",
        );
    }
    checker.problems
}

fn users(c: &mut Checker, map: &IndexMap<String, Entry>) {
    let Some(entry) = map.get("users") else { return };
    let Some(users) = entry.value.as_list() else {
        c.expect("users", &entry.value, Kind::List);
        return;
    };
    for (i, user) in users.iter().enumerate() {
        let path = format!("users[{i}]");
        match &user.data {
            Data::Str(_) => {}
            Data::Map(map) => {
                c.keys(&path, map, USER);
                if !map.contains_key("name") && !map.contains_key("snapuser") {
                    c.push(
                        "cloud-init/missing-key",
                        &path,
                        &user.place,
                        format!("{path} has no name"),
                        "without one the user is not made",
                    );
                }
                for key in ["ssh_authorized_keys", "ssh_import_id", "doas"] {
                    if let Some(entry) = map.get(key) {
                        c.texts(&join(&path, key), &entry.value);
                    }
                }
                if let Some(entry) = map.get("sudo") {
                    sudo(c, &join(&path, "sudo"), &entry.value);
                }
            }
            _ => {
                c.expect(&path, user, Kind::TextOrMap);
            }
        }
    }
}

fn sudo(c: &mut Checker, path: &str, value: &Value) {
    match &value.data {
        Data::Null | Data::Str(_) | Data::Bool(false) => {}
        Data::List(_) => c.texts(path, value),
        _ => {
            c.expect(path, value, Kind::TextOrList);
        }
    }
}

fn write_file(c: &mut Checker, path: &str, file: &Value) {
    let Some(map) = file.as_map() else {
        c.expect(path, file, Kind::Map);
        return;
    };
    c.keys(path, map, FILE);
    match map.get("path").map(|entry| &entry.value) {
        None => c.push(
            "cloud-init/missing-key",
            path,
            &file.place,
            format!("{path} has no path"),
            "a file needs one",
        ),
        Some(value) => {
            if let Some(target) = value.as_str().filter(|target| !target.starts_with('/')) {
                c.push(
                    "cloud-init/wrong-value",
                    &join(path, "path"),
                    &value.place,
                    format!("{path}.path is {target:?}"),
                    "an absolute path",
                );
            }
        }
    }
    if let Some(value) = map.get("permissions").map(|entry| &entry.value)
        && let Some(mode) = value.as_str()
    {
        let digits = mode.strip_prefix("0o").unwrap_or(mode);
        if !(3..=5).contains(&digits.len()) || !digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
            c.push(
                "cloud-init/wrong-value",
                &join(path, "permissions"),
                &value.place,
                format!("{path}.permissions is {mode:?}"),
                "an octal number in quotes, as \"0644\"",
            );
        }
    }
    if let Some(value) = map.get("encoding").map(|entry| &entry.value)
        && let Some(word) = value.as_str().filter(|word| !ENCODINGS.contains(word))
    {
        c.push(
            "cloud-init/wrong-value",
            &join(path, "encoding"),
            &value.place,
            format!("{path}.encoding is {word:?}"),
            format!("one of {}", ENCODINGS.join(", ")),
        );
    }
}

/// A command is a text for the shell, a list of texts, or null.
fn command(c: &mut Checker, path: &str, value: &Value) {
    match &value.data {
        Data::Null | Data::Str(_) => {}
        Data::List(_) => c.texts(path, value),
        _ => {
            c.expect(path, value, Kind::TextOrList);
        }
    }
}

/// A package is a name, a name and a version, or such a list under `apt` or `snap`.
fn package(c: &mut Checker, path: &str, value: &Value) {
    match &value.data {
        Data::List(items) => {
            c.texts(path, value);
            if items.len() != 2 {
                c.push(
                    "cloud-init/wrong-value",
                    path,
                    &value.place,
                    format!("{path} has {} items", items.len()),
                    "a list is a name and a version",
                );
            }
        }
        Data::Map(map) => {
            c.keys(path, map, &[("apt", Kind::List), ("snap", Kind::List)]);
            for (manager, entry) in map {
                for (i, item) in entry.value.as_list().unwrap_or_default().iter().enumerate() {
                    let path = format!("{path}.{manager}[{i}]");
                    match item.data {
                        Data::List(_) => c.texts(&path, item),
                        _ => {
                            c.expect(&path, item, Kind::Text);
                        }
                    }
                }
            }
        }
        _ => {
            c.expect(path, value, Kind::Text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(body: &str) -> Vec<(&'static str, u32)> {
        let problems = check(&format!("#cloud-config\n{body}"), "u.yml");
        problems
            .iter()
            .map(|p| (p.code, p.place.as_ref().map_or(0, |place| place.line)))
            .collect()
    }

    #[test]
    fn good_documents_pass() {
        for body in [
            "{}\n",
            "# a comment\nhostname: web-0 # and one\n# between\nfqdn: a.b\npackages:\n  # inside\n  - vim\n",
            "hostname: web-0\nusers:\n  - default\n  - {name: ops, sudo: null, uid: 1000, groups: [a, b]}\n",
            "runcmd:\n  - echo hi\n  - [sh, -c, 'x']\n  - null\n",
            "packages: [vim, [nginx, '1.2'], {apt: [jq]}]\n",
            "write_files:\n  - {path: /etc/x, permissions: '0o644', content: x, encoding: b64}\n",
            "manage_etc_hosts: localhost\nntp:\nssh_pwauth: false\n",
        ] {
            assert_eq!(codes(body), [], "{body}");
        }
    }

    #[test]
    fn broken_documents_are_told_with_their_line() {
        let table: [(&str, &[(&str, u32)]); 25] = [
            ("hostname = \"ubuntu\"\n", &[("cloud-init/wrong-type", 1)]),
            ("hostname: [\n", &[("cloud-init/yaml", 2)]),
            ("hostname: a\nhostname: b\n", &[("cloud-init/yaml", 3)]),
            ("hostnam: a\n", &[("cloud-init/unknown-key", 2)]),
            ("hostname: yes\n", &[("cloud-init/wrong-type", 2)]),
            (
                "hostname: 12:30:45\n",
                &[("cloud-init/wrong-type", 2), ("cloud-init/wrong-type", 2)],
            ),
            ("package_update: 'true'\n", &[("cloud-init/wrong-type", 2)]),
            ("ssh_pwauth: unchanged\n", &[("cloud-init/wrong-type", 2)]),
            ("packages: []\n", &[("cloud-init/wrong-type", 2)]),
            ("packages:\n  - 3.12\n", &[("cloud-init/wrong-type", 3)]),
            ("packages:\n  - [a]\n", &[("cloud-init/wrong-value", 3)]),
            ("users: {}\n", &[("cloud-init/wrong-type", 2)]),
            ("users:\n  - {gecos: x}\n", &[("cloud-init/missing-key", 3)]),
            (
                "users:\n  - name: ops\n    lock-passwd: true\n",
                &[("cloud-init/unknown-key", 4)],
            ),
            (
                "users:\n  - name: ops\n    lock_passwd: 'no'\n",
                &[("cloud-init/wrong-type", 4)],
            ),
            (
                "users:\n  - name: ops\n    ssh_authorized_keys: ssh-rsa\n",
                &[("cloud-init/wrong-type", 4), ("cloud-init/wrong-type", 4)],
            ),
            (
                "users:\n  - name: ops\n    sudo: true\n",
                &[("cloud-init/wrong-type", 4)],
            ),
            ("write_files:\n  - {content: x}\n", &[("cloud-init/missing-key", 3)]),
            (
                "write_files:\n  - {path: /x, permissions: 0644}\n",
                &[("cloud-init/wrong-type", 3)],
            ),
            (
                "write_files:\n  - {path: /x, permissions: 'rw'}\n",
                &[("cloud-init/wrong-value", 3)],
            ),
            ("write_files:\n  - {path: x}\n", &[("cloud-init/wrong-value", 3)]),
            ("runcmd:\n  - [sleep, 5]\n", &[("cloud-init/wrong-type", 3)]),
            ("runcmd: reboot\n", &[("cloud-init/wrong-type", 2)]),
            ("manage_etc_hosts: sometimes\n", &[("cloud-init/wrong-value", 2)]),
            ("1: x\n", &[("cloud-init/wrong-type", 2), ("cloud-init/unknown-key", 2)]),
        ];
        for (body, want) in table {
            assert_eq!(codes(body), want, "{body}");
        }
        assert_eq!(
            check("#cloud-config\nhostnam: a\n", "u.yml")[0].help,
            ["did you mean \"hostname\"?"]
        );
    }

    #[test]
    fn the_header_and_the_size_are_checked() {
        assert_eq!(check("hostname: a\n", "u.yml")[0].code, "cloud-init/header");
        assert_eq!(
            check("# cloud-config\nhostname: a\n", "u.yml")[0].code,
            "cloud-init/header"
        );
        let large = format!(
            "#cloud-config\nfinal_message: {}\n",
            "x".repeat(super::super::MAX_BYTES)
        );
        assert_eq!(check(&large, "u.yml")[0].code, "cloud-init/too-large");
    }
}
