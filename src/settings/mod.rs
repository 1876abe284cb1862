//! The settings of the tool itself: how it works, not what it builds.
//!
//! Each is looked for in this order, and remembers where it was found ([`Origin`]):
//!
//! ```text
//! command line > environment (`env::VARIABLES`) > vmwright.yaml beside the inventory
//!              > $XDG_CONFIG_HOME/vmwright/vmwright.yaml > the inventory's vms_state_dir (state_dir only) > default
//! ```
//!
//! "Beside" is the directory of an inventory file, or inventory directory itself; of several `-i` the last wins, as with
//! their variables. `--config` (or `VMWRIGHT_CONFIG`) names the one file to read instead. Paths in a file are relative to
//! that file, other paths to the working directory; `~` is the home directory. All problems are told at once.

pub mod duration;
pub mod env;
pub mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::diagnose::{Diagnostic, Place, nearest};
use file::FileSettings;

/// The settings file's name.
pub const FILE_NAME: &str = "vmwright.yaml";

/// Where a setting was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line.
    CommandLine,
    /// The environment variable of this name.
    Environment(&'static str),
    /// A settings file.
    File(Place),
    /// The inventory's `vms_state_dir`.
    Inventory(Place),
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("the command line"),
            Self::Environment(name) => write!(f, "the environment ({name})"),
            Self::File(place) => place.fmt(f),
            Self::Inventory(place) => write!(f, "the inventory ({place})"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// A value and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was found.
    pub origin: Origin,
}

/// How many hosts at once, 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forks(u16);

impl Forks {
    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl FromStr for Forks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number @ 1..=1000) => Ok(Self(number)),
            _ => Err(format!("{text:?} is no whole number from 1 to 1000")),
        }
    }
}

/// How many of something at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(Option<u16>);

impl Limit {
    /// As many as there are.
    pub const UNLIMITED: Self = Self(None);

    /// The number of permits for a semaphore: 65535 stands for no limit, more hosts are never at work.
    pub fn permits(self) -> usize {
        usize::from(self.0.unwrap_or(u16::MAX))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "unlimited" => Ok(Self::UNLIMITED),
            Ok(number @ 1..) => Ok(Self(Some(number))),
            _ => Err(format!("{text:?} is neither a whole number from 1 nor `unlimited`")),
        }
    }
}

/// What is written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither `human` nor `json`")),
        }
    }
}

/// How log lines are written to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither `text` nor `json`")),
        }
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// `--forks`.
    pub forks: Option<Forks>,
    /// `--clone-limit-per-storage`.
    pub clone_limit_per_storage: Option<Limit>,
    /// `--migrate-limit-per-node`.
    pub migrate_limit_per_node: Option<Limit>,
    /// `--known-hosts`.
    pub known_hosts: Option<PathBuf>,
    /// `--templates-dir`.
    pub templates_dir: Option<PathBuf>,
    /// `--vault-password-file`, as often as given; empty: not given.
    pub vault_password_files: Vec<PathBuf>,
    /// `--output`.
    pub output: Option<OutputFormat>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
    /// `--wait-lock`.
    pub wait_lock: Option<Duration>,
}

/// Where settings are looked for.
#[derive(Clone, Debug)]
pub struct Sources<'s> {
    /// The command line.
    pub overrides: Overrides,
    /// The environment.
    pub env: &'s BTreeMap<String, String>,
    /// The inventory sources that are paths, in the order of `-i`.
    pub inventories: &'s [PathBuf],
    /// The working directory.
    pub working_dir: &'s Path,
}

/// The settings. All paths are absolute.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where locks, records and journals are kept: `$XDG_STATE_HOME/vmwright` by default.
    pub state_dir: Setting<PathBuf>,
    /// How many hosts at once: 8 by default.
    pub forks: Setting<Forks>,
    /// How many clones at once on one storage: 2 by default.
    pub clone_limit_per_storage: Setting<Limit>,
    /// How many migrations at once on one node: 1 by default.
    pub migrate_limit_per_node: Setting<Limit>,
    /// The known_hosts file that guests' keys are written to: `~/.ssh/known_hosts` by default.
    pub known_hosts: Setting<PathBuf>,
    /// A directory with cloud-init templates; the embedded ones by default.
    pub templates_dir: Setting<Option<PathBuf>>,
    /// Files with vault passwords; none by default.
    pub vault_password_files: Setting<Vec<PathBuf>>,
    /// What is written to standard output: for people by default.
    pub output: Setting<OutputFormat>,
    /// How log lines are written: as text by default.
    pub log_format: Setting<LogFormat>,
    /// How long to wait for a locked VM: not at all by default.
    pub wait_lock: Setting<Duration>,
    /// The settings files that were read, the strongest first.
    pub files: Vec<PathBuf>,
    /// What is worth saying, though nothing is wrong.
    pub warnings: Vec<Diagnostic>,
}

impl Settings {
    /// Looks all settings up. Reads files and changes nothing.
    ///
    /// # Errors
    /// Every problem of every source: an unreadable or wrong file (line and column), a wrong value in the environment, no
    /// home directory where a default needs one.
    pub fn load(sources: &Sources<'_>) -> Result<Self, Vec<Diagnostic>> {
        let mut search = Search {
            env: sources.env,
            home: set(sources.env, "HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute()),
            working_dir: sources.working_dir,
            files: Vec::new(),
            problems: Vec::new(),
            warnings: misspelt(sources.env),
        };
        search.read_files(sources);
        let cli = sources.overrides.clone();
        let vault = (!cli.vault_password_files.is_empty()).then_some(cli.vault_password_files);
        let found = Self {
            state_dir: search.path(
                "state_dir",
                cli.state_dir,
                "VMWRIGHT_STATE_DIR",
                |f| &f.state_dir,
                |s| s.xdg("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("vmwright")),
            ),
            forks: search.find(cli.forks, "VMWRIGHT_FORKS", "forks", |f| f.forks, Forks(8)),
            clone_limit_per_storage: search.find(
                cli.clone_limit_per_storage,
                "VMWRIGHT_CLONE_LIMIT_PER_STORAGE",
                "clone_limit_per_storage",
                |f| f.clone_limit_per_storage,
                Limit(Some(2)),
            ),
            migrate_limit_per_node: search.find(
                cli.migrate_limit_per_node,
                "VMWRIGHT_MIGRATE_LIMIT_PER_NODE",
                "migrate_limit_per_node",
                |f| f.migrate_limit_per_node,
                Limit(Some(1)),
            ),
            known_hosts: search.path(
                "known_hosts",
                cli.known_hosts,
                "VMWRIGHT_KNOWN_HOSTS",
                |f| &f.known_hosts,
                |s| s.home.as_ref().map(|home| home.join(".ssh/known_hosts")),
            ),
            templates_dir: search.optional_path(cli.templates_dir),
            vault_password_files: search.vault_password_files(vault),
            output: search.find(
                cli.output,
                "VMWRIGHT_OUTPUT",
                "output",
                |f| f.output,
                OutputFormat::Human,
            ),
            log_format: search.find(
                cli.log_format,
                "VMWRIGHT_LOG_FORMAT",
                "log_format",
                |f| f.log_format,
                LogFormat::Text,
            ),
            wait_lock: search.wait_lock(cli.wait_lock),
            files: search.files.iter().map(|file| file.path.clone()).collect(),
            warnings: Vec::new(),
        };
        if search.problems.is_empty() {
            Ok(Self {
                warnings: search.warnings,
                ..found
            })
        } else {
            Err(search.problems)
        }
    }

    /// Takes the inventory's `vms_state_dir` in, which is weaker than all but the default. It is known only after the
    /// inventory was read, which takes settings. A relative path is relative to `base`, the inventory's directory.
    pub fn take_state_dir_of_inventory(&mut self, value: &str, base: &Path, home: Option<&Path>, place: Place) {
        if self.state_dir.origin == Origin::Default && !value.is_empty() {
            self.state_dir = Setting {
                value: absolute(Path::new(value), base, home),
                origin: Origin::Inventory(place),
            };
        }
    }
}

/// A settings file that was read.
struct ReadFile {
    path: PathBuf,
    name: String,
    text: String,
    settings: FileSettings,
}

/// The search, with what it collects on the way.
struct Search<'s> {
    env: &'s BTreeMap<String, String>,
    home: Option<PathBuf>,
    working_dir: &'s Path,
    files: Vec<ReadFile>,
    problems: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Search<'_> {
    /// Reads the settings files, the strongest first.
    fn read_files(&mut self, sources: &Sources<'_>) {
        let named = match &sources.overrides.config {
            Some(path) => Some((path.clone(), Place::whole("--config"))),
            None => set(self.env, "VMWRIGHT_CONFIG").map(|path| (path.into(), Place::whole("VMWRIGHT_CONFIG"))),
        };
        if let Some((path, place)) = named {
            let path = absolute(&path, self.working_dir, self.home.as_deref());
            if !self.read_file(&path) {
                let said = Diagnostic::error(
                    "settings/unreadable-file",
                    format!("{}: there is no such file", path.display()),
                );
                self.problems.push(said.at(place));
            }
            return;
        }
        let mut candidates: Vec<PathBuf> = Vec::new();
        for source in sources.inventories.iter().rev() {
            let source = absolute(source, self.working_dir, None);
            let dir = if source.is_dir() {
                Some(source.as_path())
            } else {
                source.parent()
            };
            candidates.extend(dir.map(Path::to_owned));
        }
        candidates.extend(self.xdg("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("vmwright")));
        let mut seen: Vec<PathBuf> = Vec::new();
        for dir in candidates {
            if seen.contains(&dir) {
                continue;
            }
            self.read_file(&dir.join(FILE_NAME));
            let other = dir.join("vmwright.yml");
            if other.exists() {
                self.warnings.push(
                    Diagnostic::warning("settings/wrong-file-name", format!("{} is not read", other.display()))
                        .at(Place::path(&other))
                        .rule(format!("the settings file is called {FILE_NAME}"))
                        .help(format!("rename it to {FILE_NAME}")),
                );
            }
            seen.push(dir);
        }
    }

    /// Reads one file; false if there is none.
    fn read_file(&mut self, path: &Path) -> bool {
        let name = path
            .strip_prefix(self.working_dir)
            .unwrap_or(path)
            .display()
            .to_string();
        match fs::read_to_string(path) {
            Ok(text) => match file::parse(&text, &name) {
                Ok(settings) => self.files.push(ReadFile {
                    path: path.to_owned(),
                    name,
                    text,
                    settings,
                }),
                Err(problem) => self.problems.push(problem),
            },
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return false,
            Err(e) => self.problems.push(
                Diagnostic::error("settings/unreadable-file", format!("cannot read the settings: {e}"))
                    .at(Place::whole(name)),
            ),
        }
        true
    }

    /// A value that is not a path.
    fn find<T: Clone + FromStr<Err = String>>(
        &mut self,
        cli: Option<T>,
        variable: &'static str,
        key: &'static str,
        field: impl Fn(&FileSettings) -> Option<T>,
        default: T,
    ) -> Setting<T> {
        self.find_with(cli, variable, key, field, default, str::parse)
    }

    fn wait_lock(&mut self, cli: Option<Duration>) -> Setting<Duration> {
        let parse = |text: &str| duration::parse(text).map_err(|e| e.to_string());
        self.find_with(
            cli,
            "VMWRIGHT_WAIT_LOCK",
            "wait_lock",
            |f| f.wait_lock,
            Duration::ZERO,
            parse,
        )
    }

    fn find_with<T>(
        &mut self,
        cli: Option<T>,
        variable: &'static str,
        key: &'static str,
        field: impl Fn(&FileSettings) -> Option<T>,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Setting<T> {
        if let Some(value) = cli {
            return Setting {
                value,
                origin: Origin::CommandLine,
            };
        }
        if let Some(text) = set(self.env, variable) {
            match parse(text) {
                Ok(value) => {
                    return Setting {
                        value,
                        origin: Origin::Environment(variable),
                    };
                }
                Err(why) => self.problems.push(
                    Diagnostic::error("settings/bad-environment", format!("{variable}: {why}"))
                        .key(key)
                        .at(Place::whole(variable)),
                ),
            }
        }
        for file in &self.files {
            if let Some(value) = field(&file.settings) {
                return Setting {
                    value,
                    origin: file.origin(key),
                };
            }
        }
        Setting {
            value: default,
            origin: Origin::Default,
        }
    }

    /// A path that was set somewhere.
    fn set_path(
        &self,
        cli: Option<PathBuf>,
        variable: &'static str,
        key: &'static str,
        field: impl Fn(&FileSettings) -> &Option<PathBuf>,
    ) -> Option<Setting<PathBuf>> {
        let home = self.home.as_deref();
        if let Some(path) = cli {
            return Some(Setting {
                value: absolute(&path, self.working_dir, home),
                origin: Origin::CommandLine,
            });
        }
        if let Some(path) = set(self.env, variable) {
            return Some(Setting {
                value: absolute(Path::new(path), self.working_dir, home),
                origin: Origin::Environment(variable),
            });
        }
        self.files.iter().find_map(|file| {
            field(&file.settings).as_ref().map(|path| Setting {
                value: file.absolute(path, home),
                origin: file.origin(key),
            })
        })
    }

    fn path(
        &mut self,
        key: &'static str,
        cli: Option<PathBuf>,
        variable: &'static str,
        field: impl Fn(&FileSettings) -> &Option<PathBuf>,
        default: impl Fn(&Self) -> Option<PathBuf>,
    ) -> Setting<PathBuf> {
        if let Some(found) = self.set_path(cli, variable, key, field) {
            return found;
        }
        let value = default(self).unwrap_or_else(|| {
            self.problems.push(
                Diagnostic::error(
                    "settings/no-home",
                    format!("there is no default for `{key}`: HOME is not set"),
                )
                .key(key)
                .help(format!("set HOME, {variable}, or --{}", key.replace('_', "-"))),
            );
            PathBuf::new()
        });
        Setting {
            value,
            origin: Origin::Default,
        }
    }

    fn optional_path(&mut self, cli: Option<PathBuf>) -> Setting<Option<PathBuf>> {
        match self.set_path(cli, "VMWRIGHT_TEMPLATES_DIR", "templates_dir", |f| &f.templates_dir) {
            Some(found) => Setting {
                value: Some(found.value),
                origin: found.origin,
            },
            None => Setting {
                value: None,
                origin: Origin::Default,
            },
        }
    }

    fn vault_password_files(&self, cli: Option<Vec<PathBuf>>) -> Setting<Vec<PathBuf>> {
        let home = self.home.as_deref();
        let here = |paths: Vec<PathBuf>| paths.iter().map(|p| absolute(p, self.working_dir, home)).collect();
        if let Some(paths) = cli {
            return Setting {
                value: here(paths),
                origin: Origin::CommandLine,
            };
        }
        const OURS: &str = "VMWRIGHT_VAULT_PASSWORD_FILES";
        if let Some(list) = set(self.env, OURS) {
            return Setting {
                value: here(list.split(':').filter(|p| !p.is_empty()).map(PathBuf::from).collect()),
                origin: Origin::Environment(OURS),
            };
        }
        const ANSIBLES: &str = "ANSIBLE_VAULT_PASSWORD_FILE";
        if let Some(path) = set(self.env, ANSIBLES) {
            return Setting {
                value: here(vec![path.into()]),
                origin: Origin::Environment(ANSIBLES),
            };
        }
        for file in &self.files {
            if let Some(paths) = &file.settings.vault_password_files {
                return Setting {
                    value: paths.iter().map(|p| file.absolute(p, home)).collect(),
                    origin: file.origin("vault_password_files"),
                };
            }
        }
        Setting {
            value: Vec::new(),
            origin: Origin::Default,
        }
    }

    /// An XDG base directory: the variable if it is an absolute path (others are to be ignored), else below home.
    fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        set(self.env, variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| self.home.as_ref().map(|home| home.join(below_home)))
    }
}

impl ReadFile {
    fn origin(&self, key: &str) -> Origin {
        Origin::File(file::place_of(&self.text, &self.name, key))
    }

    fn absolute(&self, path: &Path, home: Option<&Path>) -> PathBuf {
        absolute(path, self.path.parent().unwrap_or(Path::new("/")), home)
    }
}

/// A variable that is set and not empty.
fn set<'e>(env: &'e BTreeMap<String, String>, name: &str) -> Option<&'e str> {
    env.get(name).map(String::as_str).filter(|text| !text.is_empty())
}

/// Variables that look like ours and are probably meant to be.
fn misspelt(env: &BTreeMap<String, String>) -> Vec<Diagnostic> {
    let known = || env::VARIABLES.iter().map(|variable| variable.name);
    env.keys()
        .filter(|name| name.starts_with("VMWRIGHT_") && !known().any(|k| k == name.as_str()))
        .filter_map(|name| {
            let near = nearest(name, known())?;
            let said = Diagnostic::warning(
                "settings/unknown-variable",
                format!("the variable {name} means nothing"),
            );
            Some(
                said.at(Place::whole(name.as_str()))
                    .help(format!("did you mean {near}?")),
            )
        })
        .collect()
}

/// A path with `~` replaced, made absolute, without `.` parts. Links are left alone.
fn absolute(path: &Path, base: &Path, home: Option<&Path>) -> PathBuf {
    let expanded = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    };
    base.join(expanded)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

#[cfg(test)]
mod tests;
