//! The configuration file that one target's `ssh` is started with: pure text.
//!
//! In `ssh_config` the first value of a key wins, so the order is the policy:
//!
//! 1. what vmwright decides itself: name, address, port, user, host keys, batch mode, multiplexing;
//! 2. the inventory's own arguments (`-J`, `-o`, ...);
//! 3. defaults;
//! 4. the user's and the system's files, as plain `ssh` reads them, or the file that `-F` names.

use std::path::Path;

use super::remote::SshError;
use crate::machine::SshTarget;

/// Which other configuration files count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserConfig {
    /// `~/.ssh/config` and `/etc/ssh/ssh_config`, as for plain `ssh`.
    Include,
    /// None.
    Ignore,
}

/// How strictly the host key is looked at, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostKeyLines<'a> {
    /// `UserKnownHostsFile`.
    pub file: &'a Path,
    /// Look the key up under the alias, else under the address.
    pub by_alias: bool,
    /// An unknown host is accepted and written into the file.
    pub accept_new: bool,
    /// No other file counts.
    pub only: bool,
}

/// Keys that the inventory's arguments may name but that are decided here; they are left out.
const OURS: &[&str] = &[
    "batchmode",
    "checkhostip",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "globalknownhostsfile",
    "hashknownhosts",
    "hostkeyalias",
    "knownhostscommand",
    "requesttty",
    "remotecommand",
    "sessiontype",
    "forkafterauthentication",
    "stdinnull",
    "stricthostkeychecking",
    "updatehostkeys",
    "userknownhostsfile",
    "verifyhostkeydns",
];

/// The configuration for one target.
///
/// # Errors
/// [`SshError::Setup`] for an argument that is not understood, or a text that cannot stand in such a file.
pub(super) fn config(
    target: &SshTarget,
    keys: &HostKeyLines<'_>,
    connect_timeout: u64,
    user_config: UserConfig,
) -> Result<String, SshError> {
    let extra = Extra::parse(&target.extra_args)?;
    let alias = pattern(&target.alias)?;
    let mut out = String::from("# Written by vmwright for one run.\n");
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(&format!("Host {alias}"));
    line(&format!("  HostName {}", word(&target.host)?.replace('%', "%%")));
    line(&format!("  Port {}", target.port));
    line(&format!("  User {}", word(&target.user)?));
    if keys.by_alias {
        line(&format!("  HostKeyAlias {alias}"));
    }
    line(&format!("  UserKnownHostsFile {}", path(keys.file)?));
    if keys.only {
        line("  GlobalKnownHostsFile /dev/null");
    }
    line(&format!(
        "  StrictHostKeyChecking {}",
        if keys.accept_new { "accept-new" } else { "yes" }
    ));
    for fixed in [
        "BatchMode yes",
        "CheckHostIP no",
        "HashKnownHosts no",
        "UpdateHostKeys no",
        "VerifyHostKeyDNS no",
        "ControlPersist 60s",
        "RequestTTY no",
        "RemoteCommand none",
    ] {
        line(&format!("  {fixed}"));
    }
    if let Some(key) = &target.key {
        line(&format!("  IdentityFile {}", path(key)?));
    }
    for option in &extra.lines {
        line(&format!("  {option}"));
    }
    if target.key.is_some() {
        line("  IdentitiesOnly yes");
    }
    line(&format!("  ConnectTimeout {connect_timeout}"));
    line("  ServerAliveInterval 5");
    line("  ServerAliveCountMax 3");
    // From here on for jump hosts too, whose `ssh` reads this file: nobody is there to answer their questions.
    line("Match all");
    line("  BatchMode yes");
    match (&extra.config_file, user_config) {
        (Some(file), _) if file == "none" => {}
        (Some(file), _) => line(&format!("  Include {}", path(Path::new(file))?)),
        (None, UserConfig::Include) => {
            line("  Include ~/.ssh/config");
            line("  Include /etc/ssh/ssh_config");
        }
        (None, UserConfig::Ignore) => {}
    }
    Ok(out)
}

/// The inventory's `ssh` arguments as configuration lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extra {
    lines: Vec<String>,
    config_file: Option<String>,
}

impl Extra {
    fn parse(args: &[String]) -> Result<Self, SshError> {
        let mut extra = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut letters = arg
                .strip_prefix('-')
                .filter(|l| !l.is_empty() && !l.starts_with('-'))
                .ok_or_else(|| unknown(arg))?;
            while let Some(letter) = letters.chars().next() {
                letters = &letters[letter.len_utf8()..];
                if extra.flag(letter) {
                    continue;
                }
                let value = match letters {
                    "" => rest
                        .next()
                        .cloned()
                        .ok_or_else(|| SshError::Setup(format!("the ssh argument -{letter} lacks its value")))?,
                    glued => glued.to_owned(),
                };
                letters = "";
                extra
                    .option(letter, &value)
                    .map_err(|e| e.unwrap_or_else(|| unknown(arg)))?;
            }
        }
        Ok(extra)
    }

    /// A letter without value; `false` if it is none.
    fn flag(&mut self, letter: char) -> bool {
        let line = match letter {
            '4' => "AddressFamily inet",
            '6' => "AddressFamily inet6",
            'A' => "ForwardAgent yes",
            'a' => "ForwardAgent no",
            'C' => "Compression yes",
            'K' => "GSSAPIAuthentication yes",
            'k' => "GSSAPIDelegateCredentials no",
            'q' => "LogLevel ERROR",
            // Nothing to do here: no terminal, no X11, no input, no noise anyway.
            'n' | 'T' | 't' | 'v' | 'x' => "",
            _ => return false,
        };
        if !line.is_empty() {
            self.lines.push(line.to_owned());
        }
        true
    }

    /// A letter with a value; `Err(None)` if it is not understood.
    fn option(&mut self, letter: char, value: &str) -> Result<(), Option<SshError>> {
        if value.contains(['\n', '\r', '\0']) {
            return Err(Some(SshError::Setup(format!(
                "the value of the ssh argument -{letter} has a line break"
            ))));
        }
        let mut keep = |line: String| self.lines.push(line);
        match letter {
            'o' => {
                let key = value
                    .split([' ', '\t', '='])
                    .next()
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                match key.as_str() {
                    "" | "host" | "match" | "include" => {
                        return Err(Some(SshError::Setup(format!(
                            "the ssh option {value:?} cannot be used here"
                        ))));
                    }
                    key if OURS.contains(&key) => {}
                    _ => keep(value.to_owned()),
                }
            }
            'J' => keep(format!("ProxyJump {value}")),
            'i' => keep(format!("IdentityFile {}", path(Path::new(value)).map_err(Some)?)),
            'b' => keep(format!("BindAddress {value}")),
            'B' => keep(format!("BindInterface {value}")),
            'c' => keep(format!("Ciphers {value}")),
            'm' => keep(format!("MACs {value}")),
            'I' => keep(format!("PKCS11Provider {value}")),
            // The inventory's ansible_port and ansible_user are set already and win, as `ssh -p 22 -p 23` keeps the first.
            'p' | 'l' | 'S' | 'E' => {}
            'F' => self.config_file = Some(value.to_owned()),
            _ => return Err(None),
        }
        Ok(())
    }
}

fn unknown(arg: &str) -> SshError {
    SshError::Setup(format!(
        "the ssh argument {arg:?} is not understood: use -J, -o Key=Value, -i, -F or another option of ssh(1) that sets \
         up the connection"
    ))
}

/// A value without blanks, quotes and line breaks: a host, a user.
fn word(text: &str) -> Result<&str, SshError> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '#' | '\\');
    if text.is_empty() || text.starts_with('-') || text.contains(bad) {
        return Err(SshError::Setup(format!("{text:?} is no name for ssh")));
    }
    Ok(text)
}

/// A word that is taken literally as a `Host` pattern.
fn pattern(text: &str) -> Result<&str, SshError> {
    if text.contains(['*', '?', '!', ',']) {
        return Err(SshError::Setup(format!("{text:?} is no name for ssh")));
    }
    word(text)
}

/// A path in quotes, `%` doubled; a leading `~` stays `ssh`'s to expand.
fn path(path: &Path) -> Result<String, SshError> {
    let text = path
        .to_str()
        .filter(|t| !t.is_empty() && !t.contains(['"', '\n', '\r', '\0', '\\']))
        .ok_or_else(|| {
            SshError::Setup(format!(
                "the path {} cannot stand in an ssh configuration",
                path.display()
            ))
        })?;
    Ok(format!("\"{}\"", text.replace('%', "%%")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(extra: &[&str]) -> SshTarget {
        SshTarget {
            alias: "web1".into(),
            host: "10.0.0.5".into(),
            port: 2222,
            user: "debian".into(),
            key: Some("/keys/my id".into()),
            extra_args: extra.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    fn lines(extra: &[&str]) -> Result<Vec<String>, SshError> {
        let keys = HostKeyLines {
            file: Path::new("/k/known"),
            by_alias: true,
            accept_new: false,
            only: true,
        };
        let text = config(&target(extra), &keys, 10, UserConfig::Include)?;
        Ok(text.lines().map(|l| l.trim().to_owned()).collect())
    }

    fn position(lines: &[String], start: &str) -> usize {
        lines
            .iter()
            .position(|l| l.starts_with(start))
            .unwrap_or_else(|| panic!("no {start}"))
    }

    #[test]
    fn the_file_says_who_where_and_how_strictly() {
        let lines = lines(&[]).expect("a configuration");
        for wanted in [
            "Host web1",
            "HostName 10.0.0.5",
            "Port 2222",
            "User debian",
            "HostKeyAlias web1",
            "UserKnownHostsFile \"/k/known\"",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
            "BatchMode yes",
            "IdentityFile \"/keys/my id\"",
            "IdentitiesOnly yes",
            "Include ~/.ssh/config",
        ] {
            assert!(lines.iter().any(|l| l == wanted), "{wanted} is missing");
        }
        assert!(
            position(&lines, "Match all") < position(&lines, "Include"),
            "the user's file counts for jump hosts too"
        );
    }

    #[test]
    fn the_inventorys_arguments_come_after_ours_and_before_the_defaults() {
        let lines = lines(&[
            "-J",
            "jump@bastion:2200",
            "-oConnectTimeout=3",
            "-o",
            "ProxyCommand=ssh -W %h:%p \"b c\"",
            "-4C",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "ControlPath=/x",
        ])
        .expect("a configuration");
        assert!(position(&lines, "User debian") < position(&lines, "ProxyJump jump@bastion:2200"));
        assert!(position(&lines, "ConnectTimeout=3") < position(&lines, "ConnectTimeout 10"));
        position(&lines, "ProxyCommand=ssh -W %h:%p \"b c\"");
        position(&lines, "AddressFamily inet");
        position(&lines, "Compression yes");
        assert!(
            !lines
                .iter()
                .any(|l| l.contains("StrictHostKeyChecking=no") || l.contains("ControlPath"))
        );
    }

    #[test]
    fn a_file_of_ones_own_replaces_the_users() {
        let own = lines(&["-F", "/my/config"]).expect("a configuration");
        position(&own, "Include \"/my/config\"");
        assert!(!own.iter().any(|l| l.contains("~/.ssh/config")));
        assert!(
            !lines(&["-F", "none"])
                .expect("a configuration")
                .iter()
                .any(|l| l.starts_with("Include"))
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (args, named) in [
            (&["-Z"][..], "-Z"),
            (&["bastion"][..], "bastion"),
            (&["--verbose"][..], "--verbose"),
            (&["-J"][..], "-J"),
            (&["-o", "Match all"][..], "Match all"),
            (&["-o", "User=x\n  ProxyCommand evil"][..], "line break"),
        ] {
            let Err(SshError::Setup(text)) = lines(args) else {
                panic!("{args:?}")
            };
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn a_name_cannot_smuggle_lines_or_patterns_in() {
        let keys = HostKeyLines {
            file: Path::new("/k"),
            by_alias: true,
            accept_new: true,
            only: false,
        };
        for (alias, host) in [
            ("*", "h"),
            ("a b", "h"),
            ("a", "h\nProxyCommand x"),
            ("-a", "h"),
            ("a", ""),
        ] {
            let target = SshTarget {
                alias: alias.into(),
                host: host.into(),
                ..target(&[])
            };
            assert!(
                config(&target, &keys, 1, UserConfig::Ignore).is_err(),
                "{alias:?} {host:?}"
            );
        }
    }
}
