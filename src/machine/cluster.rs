//! The cluster: where its API is, and who we are there.

use super::names;
use super::reader::{Field, Reader};
use super::{Auth, Cluster, trust};
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
    let trust = trust::build(reader);
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

/// What a token's text says besides the secret: `user@realm!name`.
struct TokenText<'t> {
    user: Option<&'t str>,
    id: Option<&'t str>,
    rest: &'t str,
}

/// An id: `name`, or `user@realm!name`.
fn split_id(text: &str) -> TokenText<'_> {
    let (user, id) = match text.split_once('!') {
        Some((user, id)) => (Some(user), id),
        None => (None, text),
    };
    TokenText {
        user,
        id: Some(id),
        rest: "",
    }
}

/// A secret: itself, or `user@realm!name=secret`, which a secret of Proxmox never looks like.
fn split_secret(text: &str) -> TokenText<'_> {
    let whole = text.split_once('!').and_then(|(user, rest)| {
        let (id, secret) = rest.split_once('=')?;
        user.contains('@').then_some((user, id, secret))
    });
    match whole {
        Some((user, id, rest)) => TokenText {
            user: Some(user),
            id: Some(id),
            rest,
        },
        None => TokenText {
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
    let in_id = id_text.as_deref().map(split_id);
    let in_secret = secret_text.as_ref().map(|secret| split_secret(secret.expose()));
    let id = in_id.as_ref().or(in_secret.as_ref()).and_then(|token| token.id);
    let user_text = user_field.as_ref().and_then(|field| reader.text(field));
    let token_user = in_id.as_ref().and_then(|token| token.user);
    let token_user = token_user.or_else(|| in_secret.as_ref()?.user);
    if let (Some(field), Some(user), Some(other)) = (&user_field, &user_text, token_user)
        && user != other
    {
        reader.push(
            field
                .error(
                    "machine/api-user",
                    format!(
                        "{} is {}, and the API token is another user's",
                        field.path,
                        field.show()
                    ),
                )
                .rule("a token is used as the user that it belongs to")
                .help("remove global_proxmox_api_user, or write the token's id without its user"),
        );
        return None;
    }
    let user = user_text.as_deref().or(token_user);

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
    if let (Some(secret_field), None, false) = (&secret_field, id, broken) {
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
        None => Diagnostic::error(
            "machine/api-user",
            format!("the API token's user is not valid: {fault}"),
        )
        .key("global_proxmox_api_token_id"),
    };
    let mut problem = problem.rule("user@realm, as in root@pam or vmwright@pve");
    if field.is_some() && fault == "it has no realm" {
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
            (
                good().set("global_proxmox_api_token_id", "root@pam!cli"),
                "machine/api-user",
            ),
            (
                good().unset(user).set("global_proxmox_api_token_id", "root!cli"),
                "machine/api-user",
            ),
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
}
