//! What `ssh` means by its last words.
//!
//! `ssh` exits with 255 for everything that is its own fault; only the text tells refused from denied from a changed host
//! key. The texts are OpenSSH's and are not translated.

use super::remote::SshError;

/// Texts after which the configuration or the installation is at fault: waiting does not help.
const SETUP: &[&str] = &[
    "Bad configuration option",
    "bad configuration options",
    "Bad owner or permissions on",
    "Unsupported option",
    "Bad number",
    "unix_listener:",
    "too long for Unix domain socket",
    "Bad key types",
    "Bad SSH2 KexAlgorithms",
    "no matching host key type found",
    "no matching key exchange method found",
    "no matching cipher found",
];

/// Texts of a refused login.
const DENIED: &[&str] = &["Permission denied (", "Too many authentication failures"];

/// The error that the standard error of an `ssh` that did not connect stands for.
pub(super) fn classify(stderr: &str) -> SshError {
    let text = last_words(stderr);
    let has = |needle: &str| stderr.contains(needle);
    if has("HOST IDENTIFICATION HAS CHANGED") || has("marked as revoked") {
        return SshError::HostKey {
            text: host_key_words(stderr),
            changed: true,
        };
    }
    if has("Host key verification failed") {
        return SshError::HostKey {
            text: host_key_words(stderr),
            changed: false,
        };
    }
    if DENIED.iter().any(|needle| has(needle)) {
        return SshError::Denied(denied_words(stderr));
    }
    if SETUP.iter().any(|needle| has(needle)) {
        return SshError::Setup(text);
    }
    // Everything else is a network or a server that is not there yet: refused, timed out, no route, reset during the key
    // exchange, name unknown, "System is booting up".
    SshError::NotReachable(text)
}

/// The lines that say something, joined; frames of `@` and greetings left out.
fn last_words(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('@') && !l.starts_with("Warning: Permanently added"))
        .collect();
    let from = lines.len().saturating_sub(3);
    match lines[from..].join("; ") {
        text if text.is_empty() => "ssh gave no reason".to_owned(),
        text => text,
    }
}

/// The line with the offending entry, or the one that names the key that is not known.
fn host_key_words(stderr: &str) -> String {
    stderr
        .lines()
        .map(str::trim)
        .find(|l| l.starts_with("Offending ") || l.starts_with("No ") || l.contains("marked as revoked"))
        .map_or_else(|| last_words(stderr), str::to_owned)
}

/// The refusal, and why a key was not even tried.
fn denied_words(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim);
    let why = lines.clone().find(|l| {
        l.starts_with("Load key") || l.contains("UNPROTECTED PRIVATE KEY") || l.starts_with("no such identity:")
    });
    let refusal = lines
        .rev()
        .find(|l| DENIED.iter().any(|needle| l.contains(needle)))
        .unwrap_or_default();
    match why {
        Some(why) => format!("{refusal} ({})", why.trim_matches(['@', ' '])),
        None => refusal.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_timed_out_and_unknown_names_are_not_reachable() {
        for text in [
            "ssh: connect to host 10.0.0.5 port 22: Connection refused",
            "ssh: connect to host 10.0.0.5 port 22: Connection timed out",
            "ssh: connect to host 10.0.0.5 port 22: No route to host",
            "ssh: Could not resolve hostname web1: Name or service not known",
            "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.5 port 22",
            "Connection closed by 10.0.0.5 port 22",
            "Connection timed out during banner exchange",
            "",
        ] {
            assert!(matches!(classify(text), SshError::NotReachable(_)), "{text}");
        }
    }

    #[test]
    fn a_changed_host_key_is_not_an_unknown_one() {
        let changed = "@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@\n\
                       IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nOffending ED25519 key in /tmp/k:1\n\
                       Host key verification failed.\n";
        let wanted = "Offending ED25519 key in /tmp/k:1".to_owned();
        assert_eq!(
            classify(changed),
            SshError::HostKey {
                text: wanted,
                changed: true
            }
        );
        let unknown = "No ED25519 host key is known for web1 and you have requested strict checking.\n\
                       Host key verification failed.\n";
        let SshError::HostKey { text, changed: false } = classify(unknown) else {
            panic!()
        };
        assert!(text.starts_with("No ED25519 host key is known for web1"), "{text}");
    }

    #[test]
    fn a_refused_login_says_why_the_key_was_not_tried() {
        let text = "Load key \"/k\": error in libcrypto\ndebian@10.0.0.5: Permission denied (publickey).\n";
        let wanted = "debian@10.0.0.5: Permission denied (publickey). (Load key \"/k\": error in libcrypto)";
        assert_eq!(classify(text), SshError::Denied(wanted.to_owned()));
    }

    #[test]
    fn a_wrong_option_is_a_fault_of_this_side() {
        let text = "/c: line 8: Bad configuration option: bogus\n/c: terminating, 1 bad configuration options\n";
        assert!(matches!(classify(text), SshError::Setup(_)));
    }
}
