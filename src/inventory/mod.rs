//! Ansible inventories, read as Ansible reads them; every value knows its place.
//!
//! ```text
//! -i sources --(sources)--> yaml | ini | toml | script | list of hosts --> graph of hosts and groups
//! group_vars/ host_vars/ -e --(vars, extra)--> layers, weakest first
//! graph + layers --> Scope of one host --(template)--> Value
//! ```
//!
//! [`Inventory::load`] reads everything that can be malformed, at once, and tells all faults, each with file, line and
//! column; nothing is guessed and nothing is skipped. [`Inventory::scope`] gives the variables of one host with the
//! precedence of Ansible; [`Inventory::definitions`] tells every definition, also those that were overridden ([`explain`]),
//! and [`export`] has the other shapes of `ansible-inventory`. Templates are evaluated when a variable is asked for ([`Scope::get`]), so a fault in one harms
//! only its users. Inline `!vault` texts are decrypted when they are asked for; a file that is encrypted as a whole is
//! decrypted when it is read. What came from a vault is marked secret, and so is what a template made of it.
//!
//! This module knows nothing of virtual machines: which variables mean what is `machine`'s business. It reads files and
//! runs inventory scripts and password scripts. It runs what a template asks for only where `allow_pipe_lookup` says so, and
//! writes only the files of the lookup `password`, where `may_write` says so.
//!
//! Where vmwright differs from ansible-core 2.19: a file that cannot be read, a duplicate key in YAML, a host pattern
//! that matches nothing and `bool` of neither yes nor no are errors; dates stay text; inventory plugins are
//! refused; templates run commands only where they may.

mod checks;
mod crypt;
mod encode;
pub mod explain;
pub mod export;
mod extra;
mod facts;
mod filters;
mod filters_basic;
mod filters_data;
mod filters_encode;
mod filters_lines;
mod filters_net;
mod filters_path;
mod filters_random;
mod filters_regex;
mod filters_text;
mod groups;
pub mod host_pattern;
mod ini;
mod lazy;
pub mod lint;
mod list;
pub mod literal;
#[cfg(test)]
mod load_tests;
mod lookup;
mod lookup_password;
mod lookup_pipe;
mod methods;
mod number;
mod pattern;
mod random;
mod regexes;
mod scalar;
mod scope;
mod script;
#[cfg(test)]
mod secret_tests;
mod sources;
mod template;
mod template_engine;
mod template_escape;
mod template_fault;
#[cfg(test)]
mod template_tests;
mod text;
mod toml_source;
pub mod trace;
pub mod value;
mod vars;
pub mod vault;
mod vault_source;
mod version;
pub mod words;
pub mod yaml;
mod yaml_source;
mod yaml_write;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indexmap::IndexMap;

use crate::diagnose::{Diagnostic, Place};
use crate::secret::Secret;
use groups::{ALL, Graph, Vars};
use sources::Loader;
use template_engine::Engine;
use vars::{Beside, Layers};
use vault::Vault;

pub use extra::{Named, named};
pub use scope::Scope;
pub use value::{Data, Entry, Value};

/// A source of hosts, as `-i` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, a directory or an executable.
    Path(PathBuf),
    /// Names with commas: `web01,web02,`.
    HostList(String),
}

impl Source {
    /// What an `-i` argument means, seen from `working_dir`.
    pub fn of(argument: &str, working_dir: &Path) -> Self {
        if argument.contains(',') && !working_dir.join(argument).exists() {
            Self::HostList(argument.to_owned())
        } else {
            Self::Path(argument.into())
        }
    }
}

/// Asks the user for a password with a text, or tells why it cannot.
pub type AskPassword = fn(&str) -> Result<Secret, String>;

/// What to load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// `-i`, in order: of two sources the later wins.
    pub sources: Vec<String>,
    /// `-e`, in order.
    pub extra_vars: Vec<String>,
    /// `--vault-password-file`, in order; `label@file` sets a label.
    pub vault_password_files: Vec<PathBuf>,
    /// `--vault-id`, in order: `label@source` or `source`; a source is a file, an executable or `prompt`.
    pub vault_ids: Vec<String>,
    /// `--ask-vault-pass`.
    pub ask_vault_pass: bool,
    /// Asks the user for a password, with this text; without it nobody can be asked.
    pub ask_password: Option<AskPassword>,
    /// What relative paths are relative to; its `group_vars` and `host_vars` are read as those beside a playbook.
    pub working_dir: PathBuf,
    /// What the lookup `env` sees.
    pub env: BTreeMap<String, String>,
    /// `--allow-pipe-lookup`: templates may run commands.
    pub allow_pipe_lookup: bool,
    /// The lookup `password` may make the file that it reads.
    pub may_write: bool,
    /// What becomes of a mapping that is defined twice.
    pub merge: Merge,
}

/// What becomes of a variable that is defined at two levels, as Ansible's `hash_behaviour` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The stronger level's value stands alone.
    #[default]
    Replace,
    /// Of two mappings the keys are put together, all the way down; the stronger level wins for each key. Lists are replaced.
    Merge,
}

/// Hosts, groups and variables.
#[derive(Clone, Debug)]
pub struct Inventory {
    core: Arc<Core>,
}

/// A loaded inventory and what is worth telling about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The inventory.
    pub inventory: Inventory,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// All that scopes and templates share.
#[derive(Debug)]
pub(crate) struct Core {
    graph: Graph,
    layers: Layers,
    vault: Vault,
    engine: Engine,
    env: BTreeMap<String, String>,
    working_dir: PathBuf,
    allow_pipe: bool,
    may_write: bool,
    /// Passwords that the lookup `password` gave, by file.
    passwords: Mutex<HashMap<PathBuf, lookup_password::Stored>>,
    /// What hosts of the same groups have in common.
    common: Mutex<HashMap<Vec<usize>, Arc<Vars>>>,
    /// Inline texts that were decrypted.
    decrypted: Mutex<HashMap<Arc<str>, Arc<str>>>,
    groups: OnceLock<Arc<Value>>,
}

impl Core {
    /// The variables of a host, raw.
    fn vars_of(&self, host: usize) -> Arc<Vars> {
        let groups = &self.graph.hosts[host].groups;
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match common.get(groups) {
            Some(shared) => Arc::clone(shared),
            None => {
                let shared = Arc::new(self.layers.of_groups(&self.graph, groups));
                common.insert(groups.clone(), Arc::clone(&shared));
                shared
            }
        };
        drop(common);
        Arc::new(self.layers.of_host(&self.graph, host, (*shared).clone()))
    }

    /// `group_names` of a host.
    fn group_names(&self, host: usize) -> Vec<String> {
        let groups = self.graph.hosts[host].groups.iter();
        let mut names: Vec<String> = groups.map(|group| self.graph.groups[*group].name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// The variable `groups`.
    fn groups_value(&self) -> Arc<Value> {
        let value = self.groups.get_or_init(|| {
            let place = Place::whole("the inventory");
            let entries = (0..self.graph.groups.len()).map(|group| {
                let hosts = self.graph.hosts_of(group);
                let names = hosts.iter().map(|host| &*self.graph.hosts[*host].name);
                let entry = Entry {
                    key_place: place.clone(),
                    value: lazy::texts(names, &place),
                };
                (self.graph.groups[group].name.to_string(), entry)
            });
            Arc::new(Value::new(
                Data::Map(entries.collect::<IndexMap<_, _>>()),
                place.clone(),
            ))
        });
        Arc::clone(value)
    }

    fn decrypt(&self, text: &Arc<str>, place: &Place) -> Result<Arc<str>, Diagnostic> {
        let mut decrypted = self.decrypted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plain) = decrypted.get(text) {
            return Ok(Arc::clone(plain));
        }
        let plain: Arc<str> = self.vault.decrypt(text, place)?.as_str().into();
        decrypted.insert(Arc::clone(text), Arc::clone(&plain));
        Ok(plain)
    }
}

impl Inventory {
    /// Reads sources and variables.
    ///
    /// # Errors
    ///
    /// Every fault that was found, in all files; the codes are `inventory/...`.
    pub fn load(options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
        let vault = Vault::load(options)?;
        let mut loader = Loader {
            working_dir: &options.working_dir,
            vault: &vault,
            warnings: Vec::new(),
        };
        let mut graph = Graph::new();
        graph.merge = options.merge;
        let mut faults = Vec::new();
        for source in &options.sources {
            loader.source(source, &mut graph, &mut faults);
        }
        if let Err(fault) = graph.settle() {
            faults.push(fault);
        }
        loader.warnings.extend(graph.namesakes());
        let mut layers = Layers {
            merge: options.merge,
            ..Layers::default()
        };
        let mut read: HashMap<PathBuf, Arc<Beside>> = HashMap::new();
        let mut beside = |dir: &Path, shown: &str, loader: &mut Loader<'_>, faults: &mut Vec<Diagnostic>| {
            let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
            let known = read.entry(real);
            Arc::clone(
                known.or_insert_with(|| Arc::new(vars::read_beside(dir, shown, &graph, options.merge, loader, faults))),
            )
        };
        for source in &options.sources {
            let Source::Path(path) = Source::of(source, &options.working_dir) else {
                continue;
            };
            let full = options.working_dir.join(&path);
            let (dir, shown) = if full.is_dir() {
                (full.as_path(), path.as_path())
            } else {
                (parent(&full), parent(&path))
            };
            let shown = shown.display().to_string();
            layers.sources.push(beside(dir, &shown, &mut loader, &mut faults));
        }
        layers.play = beside(&options.working_dir, "", &mut loader, &mut faults);
        for argument in options.extra_vars.iter().filter(|argument| !argument.is_empty()) {
            match extra::read(argument, &mut loader) {
                Ok(vars) => layers.add_extra(vars),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let warnings = loader.warnings;
        let core = Core {
            graph,
            layers,
            vault,
            engine: Engine::new(),
            env: options.env.clone(),
            working_dir: options.working_dir.clone(),
            allow_pipe: options.allow_pipe_lookup,
            may_write: options.may_write,
            passwords: Mutex::default(),
            common: Mutex::default(),
            decrypted: Mutex::default(),
            groups: OnceLock::new(),
        };
        Ok(Loaded {
            inventory: Self { core: Arc::new(core) },
            warnings,
        })
    }

    /// All hosts, in the order of the inventory.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let graph = &self.core.graph;
        graph.hosts_of(ALL).into_iter().map(|host| &*graph.hosts[host].name)
    }

    /// Whether there is such a host.
    pub fn has_host(&self, host: &str) -> bool {
        self.core.graph.host_index.contains_key(host)
    }

    /// The groups of a host with their ancestors, sorted, without `all`; empty for an unknown host.
    pub fn groups_of(&self, host: &str) -> Vec<String> {
        let host = self.core.graph.host_index.get(host);
        host.map(|host| self.core.group_names(*host)).unwrap_or_default()
    }

    /// Whether a host is in a group or one of its descendants. Every host is in `all`.
    pub fn in_group(&self, host: &str, group: &str) -> bool {
        let graph = &self.core.graph;
        let (Some(host), Some(group)) = (graph.host_index.get(host), graph.group_index.get(group)) else {
            return false;
        };
        *group == ALL || graph.hosts[*host].groups.contains(group)
    }

    /// The names of all groups, `all` and `ungrouped` first.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.core.graph.groups.iter().map(|group| &*group.name)
    }

    /// The hosts of a group and its descendants, in the order of the inventory; empty for an unknown group.
    pub fn hosts_of_group(&self, group: &str) -> Vec<&str> {
        let graph = &self.core.graph;
        let group = graph.group_index.get(group);
        let hosts = group.map(|group| graph.hosts_of(*group)).unwrap_or_default();
        hosts.into_iter().map(|host| &*graph.hosts[host].name).collect()
    }

    /// The hosts that a `--limit` pattern selects: names, groups, globs, `~regex`, `,` `:` `!` `&`, `group[0]`,
    /// `group[1:3]`, and `@file` with one pattern a line.
    ///
    /// # Errors
    ///
    /// `inventory/no-match` for a part that matches nothing, `inventory/pattern` for one that does not parse.
    pub fn select(&self, pattern: &str) -> Result<Vec<String>, Diagnostic> {
        let graph = &self.core.graph;
        let hosts = pattern::select(graph, pattern, &self.core.working_dir)?;
        Ok(hosts
            .into_iter()
            .map(|host| graph.hosts[host].name.to_string())
            .collect())
    }

    /// The variables of a host; of an unknown host, the extra variables only.
    pub fn scope(&self, host: &str) -> Scope<'_> {
        Scope::new(&self.core, self.core.graph.host_index.get(host).copied())
    }

    /// What `ansible-inventory --list` prints (ansible-core 2.19): templates unevaluated, keys sorted.
    pub fn list_json(&self, masked: bool) -> serde_json::Value {
        let shape = export::Shape {
            masked,
            ..export::Shape::default()
        };
        serde_json::to_value(self.list(&shape, &|_| {})).unwrap_or_default()
    }

    /// What `ansible-inventory --host` prints, but for `!unsafe` texts, which it prints plain ([`export::drop_unsafe`]); an
    /// empty object for an unknown host.
    pub fn host_json(&self, host: &str, masked: bool) -> serde_json::Value {
        match self.core.graph.host_index.get(host) {
            Some(host) => list::host(&self.core, *host, masked),
            None => serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}
