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
mod search;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diagnose::{Diagnostic, Place};
pub(crate) use search::absolute;
use search::{Search, misspelt, set};
pub use value::{Forks, HashBehaviour, Limit, LogFormat, Origin, OutputFormat, Setting, Switch};

/// The settings file's name.
pub const FILE_NAME: &str = "vmwright.yaml";

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
    /// `--vault-id`, as often as given; empty: not given.
    pub vault_ids: Vec<String>,
    /// `--allow-pipe-lookup`.
    pub allow_pipe_lookup: Option<Switch>,
    /// `--hash-behaviour`.
    pub hash_behaviour: Option<HashBehaviour>,
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
    /// Vault ids, `label@source`; none by default.
    pub vault_ids: Setting<Vec<String>>,
    /// What becomes of a mapping that is defined at two levels: replaced by default.
    pub hash_behaviour: Setting<HashBehaviour>,
    /// Whether templates may run commands: no by default.
    pub allow_pipe_lookup: Setting<Switch>,
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
            vault_ids: search.vault_ids(cli.vault_ids),
            hash_behaviour: search.find(
                cli.hash_behaviour,
                "VMWRIGHT_HASH_BEHAVIOUR",
                "hash_behaviour",
                |f| f.hash_behaviour,
                HashBehaviour::Replace,
            ),
            allow_pipe_lookup: search.find(
                cli.allow_pipe_lookup,
                "VMWRIGHT_ALLOW_PIPE_LOOKUP",
                "allow_pipe_lookup",
                |f| f.allow_pipe_lookup,
                Switch(false),
            ),
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

#[cfg(test)]
mod tests;
