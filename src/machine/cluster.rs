//! The cluster: where its API is, how its certificate is verified, who we are there.

use std::path::Path;

use super::names;
use super::reader::{Field, Reader};
use super::{Auth, Cluster, Trust};
use crate::diagnose::Diagnostic;
use crate::secret::Secret;

/// Everything about the API.
pub(super) fn build(reader: &mut Reader<'_>) -> Option<Cluster> {
    let host = reader
        .required(
            "global_proxmox_api_host",
            "set it to the name or address of a Proxmox node, in group_vars/all.yml",
        )
        .and_then(|field| names::endpoint(reader, &field));
    let port = reader
        .get_or_default("global_proxmox_api_port")
        .and_then(|field| reader.int(&field, 1..=65535))
        .and_then(|port| u16::try_from(port).ok());
    let trust = trust(reader);
    let auth = auth(reader);
    let assume_full_visibility = reader.flag("vms_assume_full_visibility");
    Some(Cluster {
        host: host?,
        port: port?,
        trust: trust?,
        auth: auth?,
        assume_full_visibility,
    })
}

/// How the certificate is verified: a fingerprint is the tightest, then a CA file, then the system's roots.
fn trust(reader: &mut Reader<'_>) -> Option<Trust> {
    let insecure = reader.get("vms_pve_tls_insecure");
    let is_insecure = reader.flag("vms_pve_tls_insecure");
    let ca = reader.get("global_proxmox_api_ca_file");
    let pin = reader.get("global_proxmox_api_fingerprint");
    if let (true, Some(field)) = (is_insecure, &insecure) {
        reader.push(if ca.is_some() || pin.is_some() {
            field
                .warning("machine/insecure-ignored", "vms_pve_tls_insecure does nothing here")
                .rule("a CA file or a fingerprint is set: the certificate is verified")
                .help("remove vms_pve_tls_insecure")
        } else {
            field
                .warning(
                    "machine/insecure",
                    "the API's certificate is not verified (vms_pve_tls_insecure)",
                )
                .rule("whoever sits between here and the API can read the token")
                .help("set global_proxmox_api_fingerprint or global_proxmox_api_ca_file instead")
        });
    }
    match (pin, ca) {
        (Some(pin), ca) => {
            if let Some(ca) = ca {
                reader.push(
                    ca.warning("machine/two-trusts", "global_proxmox_api_ca_file is not looked at")
                        .rule("global_proxmox_api_fingerprint is set and names the one certificate"),
                );
            }
            fingerprint(reader, &pin).map(Trust::Fingerprint)
        }
        (None, Some(ca)) => {
            let path = reader.path(&ca)?;
            match ca_fault(&path) {
                None => Some(Trust::Ca(path)),
                Some(fault) => {
                    reader.push(
                        ca.error("machine/ca-file", format!("{} cannot be used: {fault}", path.display()))
                            .rule("a PEM file with at least one certificate")
                            .help("copy /etc/pve/pve-root-ca.pem from a node"),
                    );
                    None
                }
            }
        }
        (None, None) if is_insecure => Some(Trust::Insecure),
        (None, None) => Some(Trust::System),
    }
}

/// Why a CA file cannot be used.
fn ca_fault(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Err(err) => Some(err.to_string()),
        Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => None,
        Ok(_) => Some("there is no certificate in it".to_owned()),
    }
}

/// 32 bytes in hexadecimal, with or without colons and the name of the hash.
fn fingerprint(reader: &mut Reader<'_>, field: &Field) -> Option<[u8; 32]> {
    let text = reader.text(field)?;
    let bare = match text.get(..7) {
        Some(prefix) if prefix.eq_ignore_ascii_case("sha256:") => &text[7..],
        _ => text.as_str(),
    };
    let digits: String = bare.trim().chars().filter(|c| *c != ':').collect();
    let bytes: Option<Vec<u8>> = (digits.len() == 64 && digits.is_ascii()).then(|| {
        (0..64)
            .step_by(2)
            .filter_map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok())
            .collect()
    });
    match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) => Some(bytes),
        None => {
            reader.push(
                field
                    .error(
                        "machine/fingerprint",
                        format!("{} is no SHA-256 fingerprint", field.path),
                    )
                    .rule("64 hexadecimal digits, with or without colons")
                    .note(None, "a fingerprint of 40 digits is SHA-1, which is not accepted")
                    .help("pvenode cert info, on a node, prints it"),
            );
            None
        }
    }
}

/// A token as it may be written: `name`, `user@realm!name`, `user@realm!name=secret`.
struct TokenText<'t> {
    user: Option<&'t str>,
    id: Option<&'t str>,
    rest: &'t str,
}

fn split_token(text: &str) -> TokenText<'_> {
    match text.split_once('!') {
        Some((user, rest)) if user.contains('@') => match rest.split_once('=') {
            Some((id, secret)) => TokenText {
                user: Some(user),
                id: Some(id),
                rest: secret,
            },
            None => TokenText {
                user: Some(user),
                id: Some(rest),
                rest,
            },
        },
        Some(_) | None => TokenText {
            user: None,
            id: None,
            rest: text,
        },
    }
}

/// The identity: a token, else a password.
fn auth(reader: &mut Reader<'_>) -> Option<Auth> {
    let id_field = reader.get("global_proxmox_api_token_id");
    let secret_field = reader.get("global_proxmox_api_token");
    let password_field = reader.get("global_proxmox_api_password");
    let user_field = reader.get("global_proxmox_api_user");
    let broken = [
        "global_proxmox_api_token_id",
        "global_proxmox_api_token",
        "global_proxmox_api_password",
        "global_proxmox_api_user",
    ]
    .iter()
    .any(|name| reader.is_broken(name));

    let id_text = id_field.as_ref().and_then(|field| reader.text(field));
    let secret_text = secret_field.as_ref().and_then(|field| reader.secret(field));
    let in_id = id_text.as_deref().map(split_token);
    let in_secret = secret_text.as_ref().map(|secret| split_token(secret.expose()));
    let id = in_id
        .as_ref()
        .map(|t| t.id.unwrap_or(t.rest))
        .or_else(|| in_secret.as_ref()?.id);
    let user_text = user_field.as_ref().and_then(|field| reader.text(field));
    let user = user_text
        .as_deref()
        .or_else(|| in_id.as_ref()?.user)
        .or_else(|| in_secret.as_ref()?.user);

    if let (Some(id_field), None, false) = (&id_field, &secret_field, broken) {
        reader.push(
            id_field
                .error(
                    "machine/half-token",
                    "global_proxmox_api_token_id is set, but not global_proxmox_api_token",
                )
                .rule("a token has an id and a secret")
                .help("set global_proxmox_api_token, or remove the id to use the password"),
        );
        return None;
    }
    if let (Some(secret_field), None) = (&secret_field, id) {
        reader.push(
            secret_field
                .error(
                    "machine/half-token",
                    "global_proxmox_api_token is set, but not global_proxmox_api_token_id",
                )
                .rule("a token has an id and a secret")
                .help("set global_proxmox_api_token_id to the name behind the `!`"),
        );
        return None;
    }
    if secret_field.is_none() && password_field.is_none() {
        if !broken {
            reader.push(
                Diagnostic::error("machine/no-identity", "there is nothing to log in to the API with")
                    .key("global_proxmox_api_token")
                    .rule("an API token (global_proxmox_api_token_id and global_proxmox_api_token) or a password")
                    .help("pveum user token add USER@REALM vmwright, on a node, makes a token"),
            );
        }
        return None;
    }
    let user = checked_user(reader, user_field.as_ref(), user, broken)?;
    let Some(secret_field) = secret_field else {
        let password = password_field.and_then(|field| reader.secret(&field))?;
        return Some(Auth::Password { user, password });
    };
    if let Some(password_field) = password_field {
        reader.push(
            password_field
                .warning("machine/two-identities", "global_proxmox_api_password is not used")
                .rule("an API token is set too, and preferred")
                .help("remove the one that is not needed"),
        );
    }
    let (id, secret) = (id?.to_owned(), in_secret?.rest.to_owned());
    check_token(
        reader,
        id_field.as_ref().unwrap_or(&secret_field),
        &secret_field,
        &id,
        &secret,
    )?;
    Some(Auth::Token {
        user,
        id,
        secret: Secret::new(secret),
    })
}

/// The user, which needs a realm.
fn checked_user(reader: &mut Reader<'_>, field: Option<&Field>, user: Option<&str>, broken: bool) -> Option<String> {
    let Some(user) = user else {
        if !broken {
            reader.push(
                Diagnostic::error("machine/missing-variable", "global_proxmox_api_user is not defined")
                    .key("global_proxmox_api_user")
                    .rule("the identity at the API, with realm")
                    .help("global_proxmox_api_user: vmwright@pve"),
            );
        }
        return None;
    };
    // pve-access-control: user ids have no blanks, colons or slashes; realms are words.
    let fault = match user.rsplit_once('@') {
        None => Some("it has no realm"),
        Some((name, _))
            if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '/' | '!')) =>
        {
            Some("the part before `@` is empty, or has a blank, `:`, `/` or `!` in it")
        }
        Some((_, realm)) if !is_word(realm) => Some("the realm is no word"),
        Some(_) => None,
    };
    let Some(fault) = fault else {
        return Some(user.to_owned());
    };
    let problem = match field {
        Some(field) => field.error(
            "machine/api-user",
            format!("{} is {}: {fault}", field.path, field.show()),
        ),
        None => Diagnostic::error("machine/api-user", format!("the token's user is {user:?}: {fault}")),
    };
    let mut problem = problem.rule("user@realm, as in root@pam or vmwright@pve");
    if fault == "it has no realm" {
        problem = problem.help(format!("global_proxmox_api_user: {user}@pam"));
    }
    reader.push(problem);
    None
}

/// The token's form; its secret is never shown.
fn check_token(reader: &mut Reader<'_>, id_field: &Field, secret_field: &Field, id: &str, secret: &str) -> Option<()> {
    if !is_word(id) {
        let shown = if id_field.path == "global_proxmox_api_token_id" {
            id
        } else {
            "not a valid id"
        };
        reader.push(
            id_field
                .error("machine/token-form", format!("the API token's id is {shown:?}"))
                .rule("a letter, then letters, digits, dots, dashes and underscores; or user@realm!name"),
        );
        return None;
    }
    if secret.is_empty() || secret.contains(|c: char| c.is_whitespace() || c.is_control()) {
        reader.push(
            secret_field
                .error(
                    "machine/token-form",
                    "the API token's secret is empty, or has a blank in it",
                )
                .rule("the secret alone, or user@realm!name=secret"),
        );
        return None;
    }
    if uuid::Uuid::parse_str(secret).is_err() {
        reader.push(
            secret_field
                .warning("machine/token-secret", "the API token's secret is no UUID")
                .rule("Proxmox makes UUIDs: this one was probably not copied whole"),
        );
    }
    Some(())
}

/// A letter, then letters, digits, dots, dashes, underscores; two characters or more for a realm and a token alike
/// (pve-access-control: `realm` and `token-subid`).
fn is_word(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{TestVars, codes, good, problems, warnings};

    fn token(vars: &TestVars) -> (String, String, String) {
        match vars.build().unwrap().machine.cluster.auth {
            Auth::Token { user, id, secret } => (user, id, secret.expose().to_owned()),
            Auth::Password { .. } => panic!("a password"),
        }
    }

    #[test]
    fn a_token_may_be_written_in_three_ways() {
        let secret = "11111111-2222-3333-4444-555555555555";
        let want = ("vmwright@pve".to_owned(), "cli".to_owned(), secret.to_owned());
        assert_eq!(token(&good()), want);
        let whole = good()
            .unset("global_proxmox_api_user")
            .set("global_proxmox_api_token_id", "vmwright@pve!cli");
        assert_eq!(token(&whole), want);
        let one = good()
            .unset("global_proxmox_api_user")
            .unset("global_proxmox_api_token_id")
            .set("global_proxmox_api_token", format!("vmwright@pve!cli={secret}"));
        assert_eq!(token(&one), want);
    }

    #[test]
    fn broken_identities_are_told() {
        let user = "global_proxmox_api_user";
        let table = [
            (good().set(user, "root"), "machine/api-user"),
            (good().set(user, "ro ot@pam"), "machine/api-user"),
            (good().set(user, "root@"), "machine/api-user"),
            (good().unset(user), "machine/missing-variable"),
            (good().unset("global_proxmox_api_token"), "machine/half-token"),
            (good().unset("global_proxmox_api_token_id"), "machine/half-token"),
            (good().set("global_proxmox_api_token_id", "a b"), "machine/token-form"),
            (
                good().set("global_proxmox_api_token", "two words"),
                "machine/token-form",
            ),
            (
                good()
                    .unset("global_proxmox_api_token")
                    .unset("global_proxmox_api_token_id"),
                "machine/no-identity",
            ),
            (good().set("global_proxmox_api_port", 70000), "machine/out-of-range"),
            (good().set("global_proxmox_api_port", "https"), "machine/wrong-type"),
            (good().unset("global_proxmox_api_host"), "machine/missing-variable"),
            (
                good().set("global_proxmox_api_fingerprint", "AA:BB"),
                "machine/fingerprint",
            ),
            (
                good().set("global_proxmox_api_ca_file", "/nonexistent/ca.pem"),
                "machine/ca-file",
            ),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code]);
        }
        assert_eq!(
            problems(&good().set(user, "root"))[0].help,
            ["global_proxmox_api_user: root@pam"]
        );
    }

    #[test]
    fn secrets_are_in_no_message() {
        for vars in [
            good().set("global_proxmox_api_token", "hunter2 hunter2"),
            good()
                .unset("global_proxmox_api_token_id")
                .set("global_proxmox_api_token", "hunter2"),
            good().set("global_vm_template_user_crypted_password", "hunter2"),
            good()
                .set("vms_dns", "pihole")
                .set("pihole_password", serde_json::json!(["hunter2"])),
        ] {
            let text = format!("{:?}", problems(&vars));
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let both = good().set("global_proxmox_api_password", "pw");
        assert_eq!(warnings(&both), ["machine/two-identities"]);
        assert_eq!(token(&both).1, "cli");
        let password = both
            .unset("global_proxmox_api_token")
            .unset("global_proxmox_api_token_id");
        assert!(matches!(
            password.build().unwrap().machine.cluster.auth,
            Auth::Password { .. }
        ));
    }

    #[test]
    fn an_odd_secret_is_warned_about() {
        assert_eq!(
            warnings(&good().set("global_proxmox_api_token", "short")),
            ["machine/token-secret"]
        );
    }

    #[test]
    fn verification_is_on_unless_it_is_switched_off() {
        let trust = |vars: &TestVars| vars.build().unwrap().machine.cluster.trust;
        assert_eq!(trust(&good()), Trust::System);
        let insecure = good().set("vms_pve_tls_insecure", true);
        assert_eq!(trust(&insecure), Trust::Insecure);
        assert_eq!(warnings(&insecure), ["machine/insecure"]);

        let mut bytes = [0xAB; 32];
        bytes[31] = 1;
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
        for text in [
            hex.join(":"),
            hex.concat().to_lowercase(),
            format!("SHA256:{}", hex.join(":")),
        ] {
            assert_eq!(
                trust(&good().set("global_proxmox_api_fingerprint", text)),
                Trust::Fingerprint(bytes)
            );
        }
        let both = insecure.set("global_proxmox_api_fingerprint", hex.concat());
        assert_eq!(trust(&both), Trust::Fingerprint(bytes));
        assert_eq!(warnings(&both), ["machine/insecure-ignored"]);
    }

    #[test]
    fn a_ca_file_is_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "no certificate").unwrap();
        let vars = good().set("global_proxmox_api_ca_file", path.to_str().unwrap());
        assert_eq!(codes(&problems(&vars)), ["machine/ca-file"]);
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(vars.build().unwrap().machine.cluster.trust, Trust::Ca(path));
    }
}
