//! The command to give again, made of the parsed arguments, as a shell takes it.
//!
//! ```text
//!   verb [host]   -i --vault-password-file --config --state-dir   and what else decides what is done (templates, overrides)
//!   left out      what is only pace or show (forks, limits, waits, output), --plan, and --limit and --confirm, which the
//!                 one who tells the command adds for the host that it is about
//!   -e            @FILE as it is; of every other form the names only: a value may be a secret
//! ```

use std::path::{Path, PathBuf};

use super::args::{self, Global, Sources};
use crate::inventory::{Named, named};
use crate::settings::HashBehaviour;

/// Stands for a value that is not shown.
const ELIDED: &str = "...";
/// What is said of such values: a comment, so that the line stays a command.
const NOTE: &str = "   # put the values of -e in for ...: they are not shown, they may be secrets";

/// A command, without the host that it is about.
#[derive(Clone, Debug)]
pub struct Again {
    line: String,
    elided: bool,
}

impl Again {
    /// The verb with what all verbs take.
    fn new(verb: &str, global: &Global, sources: &Sources) -> Self {
        let mut again = Self {
            line: format!("vmwright {verb}"),
            elided: false,
        };
        for source in &sources.inventory {
            again.add("-i", source);
        }
        again.add_paths("--vault-password-file", &sources.vault_password_file);
        again.add_all("--vault-id", &sources.vault_id);
        if sources.ask_vault_pass {
            again.line.push_str(" --ask-vault-pass");
        }
        if sources.allow_pipe_lookup {
            again.line.push_str(" --allow-pipe-lookup");
        }
        if let Some(merge) = sources.hash_behaviour {
            let how = match merge {
                HashBehaviour::Replace => "replace",
                HashBehaviour::Merge => "merge",
            };
            again.add("--hash-behaviour", how);
        }
        again.add_paths("--config", &global.config);
        again.add_paths("--state-dir", &global.state_dir);
        again
    }

    /// `provision`.
    pub fn provision(global: &Global, args: &args::Provision) -> Self {
        let mut again = Self::new("provision", global, &args.sources);
        again.add_paths("--known-hosts", &args.known_hosts);
        again.add_paths("--templates-dir", &args.templates_dir);
        again.add_all("--override-protection", &args.override_protection);
        again.extra(&args.sources)
    }

    /// `remove`.
    pub fn remove(global: &Global, args: &args::Remove) -> Self {
        let mut again = Self::new("remove", global, &args.sources);
        again.add_paths("--known-hosts", &args.known_hosts);
        if args.with_snapshots {
            again.line.push_str(" --with-snapshots");
        }
        again.add_all("--override-protection", &args.override_protection);
        again.extra(&args.sources)
    }

    /// A verb that works on the record of one host.
    pub fn one(verb: &str, host: &str, global: &Global, sources: &Sources) -> Self {
        Self::new(&format!("{verb} {}", quoted(host)), global, sources).extra(sources)
    }

    /// With an option that has no value.
    #[must_use]
    pub fn flag(mut self, option: &str) -> Self {
        self.line.push_str(&format!(" {option}"));
        self
    }

    /// With an option and its value.
    #[must_use]
    pub fn with(mut self, option: &str, value: &str) -> Self {
        self.add(option, value);
        self
    }

    /// The whole line, with a word about values that are not in it.
    pub fn line(&self) -> String {
        format!("{}{}", self.line, if self.elided { NOTE } else { "" })
    }

    fn add(&mut self, option: &str, value: &str) {
        self.line.push_str(&format!(" {option} {}", quoted(value)));
    }

    fn add_all(&mut self, option: &str, values: &[String]) {
        for value in values {
            self.add(option, value);
        }
    }

    fn add_paths<'p>(&mut self, option: &str, paths: impl IntoIterator<Item = &'p PathBuf>) {
        for path in paths {
            self.add(option, &Path::display(path).to_string());
        }
    }

    /// The extra variables, without values.
    fn extra(mut self, sources: &Sources) -> Self {
        for argument in &sources.extra_vars {
            let (shown, elided) = match named(argument) {
                Named::File => (argument.clone(), false),
                Named::Mapping(names) => {
                    let entries: Vec<String> = names.iter().map(|name| format!("{name}: {ELIDED}")).collect();
                    (format!("{{{}}}", entries.join(", ")), !names.is_empty())
                }
                Named::Pairs(names) => {
                    let pairs: Vec<String> = names.iter().map(|name| format!("{name}={ELIDED}")).collect();
                    (pairs.join(" "), !names.is_empty())
                }
            };
            self.add("-e", &shown);
            self.elided |= elided;
        }
        self
    }
}

/// A word as a POSIX shell takes it: bare where that is safe, else in single quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    // A leading `=` is the path of a program to some shells.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Verb};

    fn again(arguments: &[&str]) -> Again {
        let cli = Cli::try_parse_from([&["vmwright"], arguments].concat()).unwrap();
        match &cli.verb {
            Verb::Provision(args) => Again::provision(&cli.global, args),
            Verb::Remove(args) => Again::remove(&cli.global, args),
            Verb::Forget(args) => Again::one("forget", &args.host, &cli.global, &args.sources),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_that_decides_what_is_done_stands_in_the_command() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["provision", "-i", "hosts.ini", "-f", "3", "--plan"],
                "provision -i hosts.ini",
            ),
            (
                &[
                    "provision",
                    "-i",
                    "my hosts",
                    "-i",
                    "a,b,",
                    "--state-dir",
                    "/s t",
                    "--config",
                    "v.yaml",
                ],
                "provision -i 'my hosts' -i a,b, --config v.yaml --state-dir '/s t'",
            ),
            (
                &[
                    "provision",
                    "-i",
                    "h",
                    "--known-hosts",
                    "it's",
                    "--templates-dir",
                    "t",
                    "--vault-password-file",
                    "~/v",
                ],
                r"provision -i h --vault-password-file '~/v' --known-hosts 'it'\''s' --templates-dir t",
            ),
            (
                &[
                    "provision",
                    "-i",
                    "h",
                    "--override-protection",
                    "a",
                    "--override-protection",
                    "b",
                ],
                "provision -i h --override-protection a --override-protection b",
            ),
            (
                &[
                    "remove",
                    "-i",
                    "h",
                    "--all",
                    "--with-snapshots",
                    "--override-protection",
                    "a",
                    "--known-hosts",
                    "k",
                ],
                "remove -i h --known-hosts k --with-snapshots --override-protection a",
            ),
            (
                &["forget", "web-0", "-i", "h", "--state-dir", "s"],
                "forget web-0 -i h --state-dir s",
            ),
        ];
        for (arguments, line) in cases {
            assert_eq!(again(arguments).line(), format!("vmwright {line}"), "{arguments:?}");
        }
    }

    #[test]
    fn no_value_of_an_extra_variable_is_shown() {
        let cases = [
            ("app_password=hunter2", "app_password=..."),
            ("a=hunter2 b='hunter2 hunter2'", "'a=... b=...'"),
            (
                r#"{"app_password":"hunter2", "b": ["hunter2"]}"#,
                "'{app_password: ..., b: ...}'",
            ),
            ("{app_password: hunter2}", "'{app_password: ...}'"),
            ("{app_password: hunter2", "'{}'"),
            ("hunter2", "''"),
            ("a='hunter2", "''"),
        ];
        for (argument, shown) in cases {
            let again = again(&["provision", "-i", "h", "-e", argument]);
            let note = if shown.contains(ELIDED) { NOTE } else { "" };
            assert_eq!(again.line(), format!("vmwright provision -i h -e {shown}{note}"));
            assert!(!again.line().contains("hunter2"));
        }
    }

    #[test]
    fn a_file_of_extra_variables_is_named_as_it_was() {
        let again = again(&["provision", "-i", "h", "-e", "@vars.yml", "-e", "@my vars.yml"]);
        assert_eq!(again.line(), "vmwright provision -i h -e @vars.yml -e '@my vars.yml'");
    }

    #[test]
    fn the_host_stands_before_the_word_about_values() {
        let line = again(&["remove", "-i", "h", "--all", "-e", "a=1"])
            .with("--limit", "web-0")
            .with("--confirm", "prod web")
            .line();
        assert_eq!(
            line,
            format!("vmwright remove -i h -e a=... --limit web-0 --confirm 'prod web'{NOTE}")
        );
    }
}
