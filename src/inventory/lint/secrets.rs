//! Secrets in the clear, and encrypted texts that will not be decrypted.

use super::super::vault::HEADER;
use super::document::{Assignment, Written};
use super::tree::{Body, Node, Style};
use super::{Context, Finding, finding};
use crate::diagnose::Place;

/// Whether a name tells of a secret.
pub(super) fn sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [
        "password",
        "passwd",
        "passphrase",
        "_secret",
        "_token",
        "ansible_ssh_pass",
        "ansible_become_pass",
    ]
    .iter()
    .any(|ending| lower.ends_with(ending))
}

/// Checks a variable.
pub(super) fn check(assignment: &Assignment, context: &Context<'_>, findings: &mut Vec<Finding>) {
    match &assignment.written {
        Written::Ini(ini) => clear(
            &assignment.name,
            &ini.text,
            Some(ini.inline),
            &assignment.place,
            context,
            findings,
        ),
        Written::Yaml(_, value) => node(&assignment.name, value, &assignment.place, context, findings),
    }
}

fn node(path: &str, value: &Node, key_place: &Place, context: &Context<'_>, findings: &mut Vec<Finding>) {
    match &value.body {
        Body::Scalar(text, style) => {
            let vault = matches!(value.tag.as_deref(), Some("!vault" | "!vault-encrypted"));
            let name = path.rsplit('.').next().unwrap_or(path);
            if vault || text.trim_start().starts_with(HEADER) {
                let why = match broken(text, vault, *style) {
                    Some(why) => why,
                    None => return,
                };
                findings.push(
                    finding("lint/vault-broken", format!("the encrypted value of `{path}` {why}"))
                        .at(key_place.clone())
                        .key(path)
                        .rewrite(format!(
                            "{name}: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3163..  (the lines of digits, all indented alike)"
                        ))
                        .help("or encrypt it again: ansible-vault encrypt_string"),
                );
            } else if value.tag.is_none() && !(*style == Style::Plain && super::super::scalar::is_null(text)) {
                clear(path, text, None, key_place, context, findings);
            }
        }
        Body::List(list) => {
            for item in list {
                let place = Place::new(key_place.file.clone(), item.at.0, item.at.1);
                node(path, item, &place, context, findings);
            }
        }
        Body::Map(map) => {
            for (key, value) in map {
                if let Some(name) = key.text() {
                    let place = Place::new(key_place.file.clone(), key.at.0, key.at.1);
                    node(&format!("{path}.{name}"), value, &place, context, findings);
                }
            }
        }
        Body::Alias => {}
    }
}

/// `inline` is told for INI: whether it is a host line.
fn clear(
    path: &str,
    text: &str,
    inline: Option<bool>,
    place: &Place,
    context: &Context<'_>,
    findings: &mut Vec<Finding>,
) {
    let name = path.rsplit('.').next().unwrap_or(path);
    let secret = context.known.get(name).is_some_and(|known| known.secret) || sounds_secret(name);
    let harmless = text.trim().is_empty()
        || ["{{", "{%"].iter().any(|open| text.contains(open))
        || matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "none" | "null" | "*" | "!"
        );
    if !secret || harmless {
        return;
    }
    let plain = name.trim_start_matches("vault_");
    let template = format!("{{{{ vault_{plain} }}}}");
    let rewrite = match inline {
        None => format!("{name}: \"{template}\""),
        Some(true) => format!("{name}=\"{template}\""),
        Some(false) => format!("{name}={template}"),
    };
    findings.push(
        finding(
            "lint/secret-in-clear",
            format!("`{path}` is a secret and stands here in the clear"),
        )
        .at(place.clone())
        .key(path)
        .rewrite(rewrite)
        .help(format!(
            "put vault_{plain} into a file that `ansible-vault create` made, or encrypt the value: \
                 ansible-vault encrypt_string --name {name}"
        ))
        .help("and change the secret: what was once in a repository stays in its history"),
    );
}

/// What is wrong with an encrypted text, if anything.
fn broken(text: &str, tagged: bool, style: Style) -> Option<&'static str> {
    if !tagged {
        return Some("has no tag !vault: it is text and is never decrypted");
    }
    let mut lines = text.trim().lines().map(str::trim);
    let header = lines.next().unwrap_or("");
    if !header.starts_with(HEADER) {
        return Some("does not begin with $ANSIBLE_VAULT");
    }
    let mut parts = header.split(';').skip(1);
    if !matches!(parts.next(), Some("1.1" | "1.2")) || parts.next() != Some("AES256") || header.contains(' ') {
        return Some(if style == Style::Block {
            "has a damaged first line"
        } else {
            "has no `|` behind !vault: its lines become one"
        });
    }
    let mut digits = 0;
    for line in lines {
        if line.is_empty() {
            return Some("has an empty line in it");
        }
        if !line.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Some("has a line that is not of hexadecimal digits");
        }
        digits += line.len();
    }
    match digits {
        0 => Some("has no lines of digits: they must be indented below the key"),
        odd if odd % 2 == 1 => Some("lacks digits: a part was lost"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_texts_are_judged_by_their_form() {
        let good = "$ANSIBLE_VAULT;1.1;AES256\n6162\n63\n";
        assert_eq!(broken(good, true, Style::Block), None);
        assert!(broken(good, false, Style::Block).is_some());
        for bad in [
            "$ANSIBLE_VAULT;1.1;AES256 6162 63",
            "$ANSIBLE_VAULT;1.1;AES256\n",
            "$ANSIBLE_VAULT;1.1;AES256\n616",
            "$ANSIBLE_VAULT;1.1;AES256\n61\n\n62",
            "$ANSIBLE_VAULT;1.1;AES256\nxy",
            "6162",
        ] {
            assert!(broken(bad, true, Style::Plain).is_some(), "{bad}");
        }
    }

    #[test]
    fn names_tell_of_secrets() {
        for name in ["pihole_password", "ansible_become_pass", "my_api_token"] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in [
            "password_length",
            "global_proxmox_api_token_id",
            "token_lifetime",
            "bypass",
        ] {
            assert!(!sounds_secret(name), "{name}");
        }
    }
}
