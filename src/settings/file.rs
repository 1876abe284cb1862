//! The settings file, `vmwright.yaml`: typed, and every key checked.
//!
//! ```yaml
//! state_dir: ~/vmwright-state        # paths are relative to this file; ~ is the home directory
//! forks: 8
//! clone_limit_per_storage: 2         # or: unlimited
//! migrate_limit_per_node: 1
//! known_hosts: ./known_hosts
//! templates_dir: ./templates
//! vault_password_files: [~/.vault-pass]
//! vault_ids: [prod@~/.vault-prod]
//! hash_behaviour: replace
//! allow_pipe_lookup: false
//! output: human
//! log_format: text
//! wait_lock: 5m
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Forks, HashBehaviour, Limit, LogFormat, OutputFormat, Switch, duration};
use crate::diagnose::{Diagnostic, Place, nearest};

/// The keys, in the order of the documentation.
pub const KEYS: &[&str] = &[
    "state_dir",
    "forks",
    "clone_limit_per_storage",
    "migrate_limit_per_node",
    "known_hosts",
    "templates_dir",
    "vault_password_files",
    "vault_ids",
    "hash_behaviour",
    "allow_pipe_lookup",
    "output",
    "log_format",
    "wait_lock",
];

/// What the file says. Paths are as written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileSettings {
    #[serde(deserialize_with = "path")]
    pub(super) state_dir: Option<PathBuf>,
    #[serde(deserialize_with = "word")]
    pub(super) forks: Option<Forks>,
    #[serde(deserialize_with = "word")]
    pub(super) clone_limit_per_storage: Option<Limit>,
    #[serde(deserialize_with = "word")]
    pub(super) migrate_limit_per_node: Option<Limit>,
    #[serde(deserialize_with = "path")]
    pub(super) known_hosts: Option<PathBuf>,
    #[serde(deserialize_with = "path")]
    pub(super) templates_dir: Option<PathBuf>,
    #[serde(deserialize_with = "paths")]
    pub(super) vault_password_files: Option<Vec<PathBuf>>,
    #[serde(deserialize_with = "paths")]
    pub(super) vault_ids: Option<Vec<PathBuf>>,
    #[serde(deserialize_with = "word")]
    pub(super) hash_behaviour: Option<HashBehaviour>,
    #[serde(deserialize_with = "word")]
    pub(super) allow_pipe_lookup: Option<Switch>,
    #[serde(deserialize_with = "word")]
    pub(super) output: Option<OutputFormat>,
    #[serde(deserialize_with = "word")]
    pub(super) log_format: Option<LogFormat>,
    #[serde(deserialize_with = "time")]
    pub(super) wait_lock: Option<Duration>,
}

/// Reads a file's text.
pub(super) fn parse(text: &str, name: &str) -> Result<FileSettings, Box<Diagnostic>> {
    match serde_yaml::from_str::<Option<FileSettings>>(text) {
        Ok(settings) => Ok(settings.unwrap_or_default()),
        Err(error) => Err(Box::new(diagnostic(&error, name))),
    }
}

/// The line of a top-level key, for [`super::Origin`]. The file is a flat mapping, so the key starts its line; in a flow
/// mapping it is not found, and the file alone is named.
pub(super) fn place_of(text: &str, name: &str, key: &str) -> Place {
    let is_key = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    match text.lines().position(is_key) {
        Some(index) => Place::new(name, u32::try_from(index + 1).unwrap_or(0), 1),
        None => Place::whole(name),
    }
}

fn diagnostic(error: &serde_yaml::Error, name: &str) -> Diagnostic {
    let place = error.location().map_or_else(
        || Place::whole(name),
        |at| {
            let number = |n: usize| u32::try_from(n).unwrap_or(0);
            Place::new(name, number(at.line()), number(at.column()))
        },
    );
    let whole = error.to_string();
    // The place is told in its own field.
    let text = whole.split_once(" at line ").map_or(whole.as_str(), |(text, _)| text);
    let unknown = text
        .split_once("unknown field `")
        .and_then(|(_, rest)| rest.split_once('`'))
        .map(|(key, _)| key.to_owned());
    match unknown {
        Some(key) => {
            let said = Diagnostic::error("settings/unknown-key", format!("there is no setting `{key}`"))
                .key(key.clone())
                .at(place)
                .rule(format!("the settings are {}", KEYS.join(", ")));
            match nearest(&key, KEYS.iter().copied()) {
                Some(near) => said.help(format!("did you mean `{near}`?")),
                None => said.help("remove it; variables of hosts belong in the inventory"),
            }
        }
        None => {
            let said = Diagnostic::error("settings/invalid", text.to_owned()).at(place);
            let key = KEYS
                .iter()
                .find(|key| text.starts_with(&format!("{key}: ")) || text.starts_with(&format!("{key}[")));
            match key {
                Some(key) => said.key(*key),
                None => said,
            }
        }
    }
}

/// Reads a scalar through a function. An error that is raised inside a visitor gets the value's place; one that is raised
/// after it would get that of the whole mapping.
struct Scalar<F> {
    expecting: &'static str,
    read: F,
}

impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Scalar<F> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        (self.read)(text).map(Some).map_err(E::custom)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        self.visit_str(if value { "true" } else { "false" })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<T>, E> {
        self.visit_str(&number.to_string())
    }
}

/// One path or a list of them.
struct Paths;

impl<'de> Visitor<'de> for Paths {
    type Value = Option<Vec<PathBuf>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path or a list of paths")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        to_path(text).map(|path| Some(vec![path])).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut paths = Vec::new();
        while let Some(text) = items.next_element::<String>()? {
            paths.push(to_path(&text).map_err(A::Error::custom)?);
        }
        Ok(Some(paths))
    }
}

fn to_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        Err("the path is empty".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "a path",
        read: to_path,
    })
}

fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<PathBuf>>, D::Error> {
    from.deserialize_any(Paths)
}

fn word<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    from.deserialize_any(Scalar {
        expecting: "a number or a word",
        read: str::parse,
    })
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "a duration such as 30s or 5m",
        read: |text: &str| duration::parse(text).map_err(|e| e.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "\
state_dir: ~/state
forks: 20
clone_limit_per_storage: unlimited
migrate_limit_per_node: 3
known_hosts: ./kh
templates_dir: t
vault_password_files: [a, b]
vault_ids: [p@x, prompt]
hash_behaviour: merge
allow_pipe_lookup: true
output: json
log_format: json
wait_lock: 1h30m
";
        let read = parse(text, "vmwright.yaml").unwrap();
        assert_eq!(read.state_dir, Some("~/state".into()));
        assert_eq!(read.forks.map(Forks::get), Some(20));
        assert_eq!(read.clone_limit_per_storage, Some(Limit::UNLIMITED));
        assert_eq!(read.migrate_limit_per_node.map(Limit::permits), Some(3));
        assert_eq!(read.vault_password_files, Some(vec!["a".into(), "b".into()]));
        assert_eq!(read.vault_ids, Some(vec!["p@x".into(), "prompt".into()]));
        assert_eq!(read.hash_behaviour, Some(HashBehaviour::Merge));
        assert_eq!(read.allow_pipe_lookup, Some(Switch(true)));
        assert_eq!(
            (read.output, read.log_format),
            (Some(OutputFormat::Json), Some(LogFormat::Json))
        );
        assert_eq!(read.wait_lock, Some(Duration::from_secs(5400)));
        for (index, key) in KEYS.iter().enumerate() {
            let line = u32::try_from(index + 1).unwrap();
            assert_eq!(
                place_of(text, "vmwright.yaml", key),
                Place::new("vmwright.yaml", line, 1),
                "{key}"
            );
        }
    }

    #[test]
    fn an_empty_file_says_nothing() {
        for text in ["", "# only a comment\n", "---\n", "null\n"] {
            assert_eq!(parse(text, "f"), Ok(FileSettings::default()), "{text:?}");
        }
    }

    #[test]
    fn a_misspelt_key_names_its_place_and_the_right_one() {
        let said = parse("forks: 3\nstate_dri: x\n", "vmwright.yaml").unwrap_err();
        assert_eq!(said.code, "settings/unknown-key");
        assert_eq!(said.message, "there is no setting `state_dri`");
        assert_eq!(said.place, Some(Place::new("vmwright.yaml", 2, 1)));
        assert_eq!(said.help, ["did you mean `state_dir`?"]);
    }

    #[test]
    fn a_bad_value_names_key_place_and_rule() {
        let cases = [
            (
                "output: human\nforks: many\n",
                "forks",
                2,
                "forks: \"many\" is no whole number from 1 to 1000",
            ),
            (
                "forks: 0\n",
                "forks",
                1,
                "forks: \"0\" is no whole number from 1 to 1000",
            ),
            (
                "wait_lock: 30\n",
                "wait_lock",
                1,
                "wait_lock: \"30\" is no duration: a number needs a unit: d, h, m, s or ms",
            ),
            (
                "output: xml\n",
                "output",
                1,
                "output: \"xml\" is neither `human` nor `json`",
            ),
            (
                "clone_limit_per_storage: -1\n",
                "clone_limit_per_storage",
                1,
                "clone_limit_per_storage: \"-1\" is neither a whole number from 1 nor `unlimited`",
            ),
            ("state_dir: ''\n", "state_dir", 1, "state_dir: the path is empty"),
            (
                "vault_password_files: {a: b}\n",
                "vault_password_files",
                1,
                "vault_password_files: invalid type: map, expected a path or a list of paths",
            ),
            (
                "forks: [1]\n",
                "forks",
                1,
                "forks: invalid type: sequence, expected a number or a word",
            ),
        ];
        for (text, key, line, message) in cases {
            let said = parse(text, "vmwright.yaml").unwrap_err();
            assert_eq!(said.code, "settings/invalid", "{text}");
            assert_eq!(said.message, message);
            assert_eq!(said.key.as_deref(), Some(key), "{text}");
            let place = said.place.unwrap();
            assert_eq!((&*place.file, place.line), ("vmwright.yaml", line), "{text}");
            assert!(place.column > 0);
        }
    }

    #[test]
    fn broken_yaml_and_doubled_keys_are_errors_with_a_line() {
        let said = parse("forks: 1\nforks: 2\n", "f").unwrap_err();
        assert!(said.message.contains("duplicate field `forks`"), "{}", said.message);
        let said = parse("forks: [1\n", "f").unwrap_err();
        assert!(said.place.unwrap().line > 0);
        assert!(parse("- a list\n", "f").is_err());
    }
}
