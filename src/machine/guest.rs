//! The guest's identity: user, password hash, keys, time zone, packages.

use super::reader::{Field, Reader};
use super::{Guest, names};
use crate::secret::Secret;

/// Everything about the guest but its network.
pub(super) fn build(reader: &mut Reader<'_>) -> Option<Guest> {
    let host_names = names::host_names(reader);
    let user = reader
        .required(
            "global_vm_template_user",
            "global_vm_template_user: the user that cloud-init makes, as `ops`",
        )
        .and_then(|field| names::user(reader, &field));
    let password_hash = match reader.get("global_vm_template_user_crypted_password") {
        None => None,
        Some(field) => Some(password_hash(reader, &field)?),
    };
    let authorized_keys = authorized_keys(reader);
    let timezone = reader
        .get("vms_global_timezone")
        .or_else(|| reader.get_or_default("global_timezone"))
        .and_then(|field| timezone(reader, &field));
    let packages = packages(reader);
    let host_names = host_names?;
    Some(Guest {
        hostname: host_names.hostname,
        fqdn: host_names.fqdn,
        domain: host_names.domain,
        user: user?,
        password_hash,
        authorized_keys,
        timezone,
        packages,
        package_update: reader.flag("vms_package_update"),
        package_upgrade: reader.flag("vms_package_upgrade"),
    })
}

/// A crypt(3) hash (crypt(5): `$id$...`), or a lock.
fn password_hash(reader: &mut Reader<'_>, field: &Field) -> Option<Secret> {
    let secret = reader.secret(field)?;
    let text = secret.expose();
    let hash = text.starts_with('$')
        && text.matches('$').count() >= 3
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    let lock = matches!(text, "!" | "*" | "!!" | "!*");
    if hash || lock {
        return Some(secret);
    }
    reader.push(
        field
            .error("machine/password-hash", format!("{} is no password hash", field.path))
            .rule("a crypt(3) hash begins with `$`, as `$6$...`; the clear text would never work and be readable on the guest")
            .help("openssl passwd -6, or mkpasswd --method=sha-512, makes one"),
    );
    None
}

/// Public keys, if the inventory names any.
fn authorized_keys(reader: &mut Reader<'_>) -> Vec<String> {
    let fields = match reader.get("vms_authorized_keys") {
        // A key has blanks in it: a text is lines, not words.
        Some(field) => match field.text() {
            Some(text) => lines(&field, &text),
            None => reader.texts(&field).unwrap_or_default(),
        },
        None => match reader.get("vms_sshkey") {
            Some(field) => match field.text() {
                Some(text) => lines(&field, &text),
                None => {
                    reader.push(field.wrong("a public key"));
                    Vec::new()
                }
            },
            None => Vec::new(),
        },
    };
    let mut keys: Vec<String> = Vec::new();
    for field in fields {
        let Some(key) = reader.text(&field).map(|key| key.trim().to_owned()) else {
            continue;
        };
        if !is_public_key(&key) {
            let mut problem = field
                .error("machine/public-key", format!("{} is no OpenSSH public key", field.path))
                .rule("type, base64 and perhaps a comment: ssh-ed25519 AAAA... ops@control");
            if key.contains("PRIVATE KEY") {
                problem =
                    problem.help("this is a private key: take it out of the inventory and give the .pub file's line");
            }
            reader.push(problem);
        } else if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn lines(field: &Field, text: &str) -> Vec<Field> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|line| {
            let mut item = field.clone();
            item.value.data = super::variables::Data::Str(line.to_owned());
            item
        })
        .collect()
}

/// `[options] type base64 [comment]` on one line; options are not looked into.
fn is_public_key(key: &str) -> bool {
    if key.contains(['\n', '\r']) {
        return false;
    }
    let words: Vec<&str> = key.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let kind = pair[0];
        let known = ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
            .iter()
            .any(|prefix| kind.starts_with(prefix));
        // Every key blob begins with the length of its type, three zero bytes and one more.
        known
            && pair[1].starts_with("AAAA")
            && pair[1]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    })
}

/// A time zone's name. One that this machine does not know is warned about: the guest may know it.
fn timezone(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let name = reader.text(field)?;
    let part = |p: &str| {
        !p.is_empty()
            && p.bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-'))
    };
    if !name.split('/').all(part) {
        reader.push(
            field
                .error(
                    "machine/timezone",
                    format!("{} is {}: no time zone", field.path, field.show()),
                )
                .rule("a name of the time zone database, as Europe/Berlin or Etc/UTC"),
        );
        return None;
    }
    let known = |name: &str| jiff::tz::TimeZone::get(name).is_ok();
    if known("Europe/Berlin") && !known(&name) {
        let zones: Vec<String> = jiff::tz::db()
            .available()
            .map(|zone| zone.as_str().to_owned())
            .collect();
        let mut problem = field
            .warning(
                "machine/timezone",
                format!("{} is {}, which this machine does not know", field.path, field.show()),
            )
            .rule("cloud-init fails where the guest does not know it either");
        if let Some(near) = crate::diagnose::nearest(&name, zones.iter().map(String::as_str)) {
            problem = problem.help(format!("did you mean {near:?}?"));
        }
        reader.push(problem);
    }
    Some(name)
}

/// The packages of all guests, then of this one; none twice.
fn packages(reader: &mut Reader<'_>) -> Vec<String> {
    let mut packages: Vec<String> = Vec::new();
    for variable in ["global_packages_list", "vms_additional_packages"] {
        let Some(field) = reader.get_or_default(variable) else {
            continue;
        };
        for item in reader.texts(&field).unwrap_or_default() {
            let Some(name) = reader.text(&item) else { continue };
            // apt, dnf and zypper names, with `=version`, `/release` and `:arch`. A dash in front would be an option.
            let rest = |b: u8| {
                b.is_ascii_alphanumeric()
                    || matches!(b, b'+' | b'-' | b'.' | b':' | b'_' | b'=' | b'~' | b'/' | b'*' | b'@')
            };
            let ok = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@') && name.bytes().all(rest);
            if !ok {
                reader.push(
                    item.error(
                        "machine/package-name",
                        format!("{} is {}: no package name", item.path, item.show()),
                    )
                    .rule("letters, digits and + - . : _ = ~ / * @; a letter or digit first"),
                );
            } else if !packages.contains(&name) {
                packages.push(name);
            }
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::machine::testing::{codes, good, problems, warnings};

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEVZ ops@control";

    #[test]
    fn packages_are_joined_in_order_without_duplicates() {
        let vars = good().set("vms_additional_packages", json!(["jq", "vim", "nginx=1.22.*"]));
        let packages = vars.build().unwrap().machine.guest.packages;
        assert_eq!(packages, ["vim", "qemu-guest-agent", "jq", "nginx=1.22.*"]);
        let defaults = good()
            .unset("global_packages_list")
            .build()
            .unwrap()
            .machine
            .guest
            .packages;
        assert_eq!(
            (defaults.len(), defaults[0].as_str(), defaults[18].as_str()),
            (19, "vim", "nfs-common")
        );
    }

    #[test]
    fn keys_are_lines_and_checked() {
        let keys = |value| {
            good()
                .set("vms_authorized_keys", value)
                .build()
                .unwrap()
                .machine
                .guest
                .authorized_keys
        };
        assert_eq!(keys(json!([KEY, KEY])), [KEY]);
        assert_eq!(keys(json!(format!("# mine\n{KEY}\n"))), [KEY]);
        let old = good()
            .set("vms_sshkey", KEY)
            .build()
            .unwrap()
            .machine
            .guest
            .authorized_keys;
        assert_eq!(old, [KEY]);
        assert!(good().build().unwrap().machine.guest.authorized_keys.is_empty());
    }

    #[test]
    fn broken_guests_are_told() {
        let table = [
            (good().unset("global_vm_template_user"), "machine/missing-variable"),
            (good().set("global_vm_template_user", "Ops"), "machine/invalid-name"),
            (good().set("global_vm_template_user", "-ops"), "machine/invalid-name"),
            (
                good().set("global_vm_template_user_crypted_password", "secret"),
                "machine/password-hash",
            ),
            (good().set("global_timezone", "Europe/ Berlin"), "machine/timezone"),
            (
                good().set("vms_additional_packages", json!(["-y"])),
                "machine/package-name",
            ),
            (
                good().set("vms_additional_packages", json!(["a b"])),
                "machine/package-name",
            ),
            (
                good().set("vms_additional_packages", json!([3.12])),
                "machine/wrong-type",
            ),
            (good().set("vms_authorized_keys", "ssh-rsa"), "machine/public-key"),
            (
                good().set("vms_authorized_keys", json!(["-----BEGIN OPENSSH PRIVATE KEY-----"])),
                "machine/public-key",
            ),
            (good().set("vms_package_update", "perhaps"), "machine/wrong-type"),
            (good().set("global_domain_name", "lab_test"), "machine/invalid-name"),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
        }
    }

    #[test]
    fn a_locked_or_missing_password_is_fine() {
        let name = "global_vm_template_user_crypted_password";
        assert_eq!(
            good()
                .set(name, "!")
                .build()
                .unwrap()
                .machine
                .guest
                .password_hash
                .unwrap()
                .expose(),
            "!"
        );
        assert!(
            good()
                .unset(name)
                .build()
                .unwrap()
                .machine
                .guest
                .password_hash
                .is_none()
        );
    }

    #[test]
    fn the_time_zone_of_the_vm_wins() {
        let zone = |vars: &crate::machine::testing::TestVars| vars.build().unwrap().machine.guest.timezone.unwrap();
        assert_eq!(zone(&good()), "Etc/UTC");
        assert_eq!(
            zone(&good().set("vms_global_timezone", "Europe/Berlin")),
            "Europe/Berlin"
        );
        assert_eq!(zone(&good().unset("global_timezone")), "America/New_York");
        if jiff::tz::TimeZone::get("Europe/Berlin").is_ok() {
            assert_eq!(
                warnings(&good().set("global_timezone", "Europe/Berln")),
                ["machine/timezone"]
            );
        }
    }
}
