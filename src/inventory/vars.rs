//! Variables beside the inventory, and the precedence of all.
//!
//! ```text
//! weakest    inventory: vars of `all`, then of the groups by depth, priority, name
//!            group_vars/all of every source, then of the working directory
//!            group_vars/<group> of every source, then of the working directory
//!            inventory: vars of the host
//!            host_vars/<host> of every source, then of the working directory
//! strongest  extra vars
//! ```
//!
//! A stronger level replaces a weaker one's value; with `hash_behaviour: merge` mappings are put together, key by key.
//!
//! A file of variables is `<name>` without extension or with .yml, .yaml or .json, the first that exists; a directory
//! `<name>/` stands for its files, sorted, recursively. The working directory counts as the directory of the playbook
//! does for Ansible (ansible-core `vars/manager.py`, `plugins/vars/host_group_vars.py`).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::extra::Pairs;
use super::groups::{ALL, Graph, Owner, Shadowed, Vars, keep};
use super::sources::{Loader, entries};
use super::value::{Data, Entry, Value};
use super::{Merge, yaml};
use crate::diagnose::{Diagnostic, Place, nearest};

/// The variables of one directory that has `group_vars` or `host_vars`.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub groups: HashMap<usize, Vars>,
    pub hosts: HashMap<usize, Vars>,
    /// What later files of one directory replaced.
    pub shadowed: Vec<Shadowed>,
}

/// All layers.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// One per source that is a file or directory, in the order of the sources.
    pub sources: Vec<Arc<Beside>>,
    /// The working directory.
    pub play: Arc<Beside>,
    pub extra: Vars,
    /// What later `-e` replaced.
    pub extra_shadowed: Vec<(Arc<str>, Arc<Value>)>,
    /// What becomes of a mapping that is defined twice.
    pub merge: Merge,
}

/// Sets a variable over what a weaker level says; what stood there before.
pub(crate) fn put(vars: &mut Vars, name: &Arc<str>, value: &Arc<Value>, merge: Merge) -> Option<Arc<Value>> {
    let merged = match (merge, vars.get(name)) {
        (Merge::Merge, Some(weaker)) => merged(weaker, value),
        _ => None,
    };
    vars.insert(Arc::clone(name), merged.map_or_else(|| Arc::clone(value), Arc::new))
}

/// Two mappings in one, all the way down; `None` if either is none.
fn merged(weaker: &Value, stronger: &Value) -> Option<Value> {
    let (Data::Map(weak), Data::Map(strong)) = (&weaker.data, &stronger.data) else {
        return None;
    };
    let mut map = weak.clone();
    for (key, entry) in strong {
        match map.get_mut(key) {
            Some(old) => {
                let value = merged(&old.value, &entry.value).unwrap_or_else(|| entry.value.clone());
                *old = Entry {
                    key_place: entry.key_place.clone(),
                    value,
                };
            }
            None => {
                map.insert(key.clone(), entry.clone());
            }
        }
    }
    Some(Value {
        data: Data::Map(map),
        place: stronger.place.clone(),
        secret: weaker.secret || stronger.secret,
    })
}

impl Layers {
    /// Adds the variables of one `-e`.
    pub fn add_extra(&mut self, vars: Pairs) {
        for (name, value) in vars {
            if let Some(old) = put(&mut self.extra, &name, &value, self.merge) {
                self.extra_shadowed.push((name, old));
            }
        }
    }

    /// The variables that all hosts of exactly these groups have in common.
    pub fn of_groups(&self, graph: &Graph, groups: &[usize]) -> Vars {
        let mut vars = graph.groups[ALL].vars.clone();
        let mut add = |more: Option<&Vars>| {
            for (name, value) in more.into_iter().flatten() {
                put(&mut vars, name, value, self.merge);
            }
        };
        groups.iter().for_each(|group| add(Some(&graph.groups[*group].vars)));
        let besides = || self.sources.iter().chain([&self.play]);
        besides().for_each(|beside| add(beside.groups.get(&ALL)));
        for beside in besides() {
            groups.iter().for_each(|group| add(beside.groups.get(group)));
        }
        vars
    }

    /// The variables of a host, over those of its groups.
    pub fn of_host(&self, graph: &Graph, host: usize, mut vars: Vars) -> Vars {
        let besides = self.sources.iter().chain([&self.play]);
        let layers = [&graph.hosts[host].vars]
            .into_iter()
            .chain(besides.filter_map(|beside| beside.hosts.get(&host)))
            .chain([&self.extra]);
        for layer in layers {
            for (name, value) in layer {
                put(&mut vars, name, value, self.merge);
            }
        }
        vars
    }
}

/// The name of the directory, whom it is for, and where the variables go.
type Kind<'k> = (
    &'k str,
    Vec<(usize, &'k str)>,
    &'k mut HashMap<usize, Vars>,
    fn(usize) -> Owner,
);

/// Reads `group_vars` and `host_vars` in a directory; `shown` is how the user names the directory.
pub(crate) fn read_beside(
    dir: &Path,
    shown: &str,
    graph: &Graph,
    merge: Merge,
    loader: &mut Loader<'_>,
    faults: &mut Vec<Diagnostic>,
) -> Beside {
    let mut beside = Beside::default();
    let shadowed = &mut beside.shadowed;
    let all_groups = graph.groups.iter().map(|group| &*group.name).enumerate();
    let all_hosts = graph.hosts.iter().map(|host| &*host.name).enumerate();
    let kinds: [Kind<'_>; 2] = [
        ("group_vars", all_groups.collect(), &mut beside.groups, Owner::Group),
        ("host_vars", all_hosts.collect(), &mut beside.hosts, Owner::Host),
    ];
    for (kind, entities, into, owner) in kinds {
        let path = dir.join(kind);
        if !path.exists() {
            continue;
        }
        let shown = join(shown, kind);
        if !path.is_dir() {
            loader.warnings.push(
                Diagnostic::warning(
                    "inventory/vars-not-a-directory",
                    format!("{shown} is not a directory: ignored"),
                )
                .at(Place::whole(shown.as_str()))
                .rule(format!("{kind} is a directory with one file or directory a name"))
                .help(format!("make it a directory, for example {shown}/all.yml")),
            );
            continue;
        }
        let names: HashSet<String> = match entries(&path) {
            Ok(names) => names.into_iter().collect(),
            Err(error) => {
                faults.push(
                    Diagnostic::error("inventory/unreadable", format!("{shown} cannot be read: {error}"))
                        .at(Place::whole(shown.as_str()))
                        .help("check its permissions"),
                );
                continue;
            }
        };
        let mut used = HashSet::new();
        for (index, name) in &entities {
            // A host named by a path, as for chroots, has no files.
            if name.starts_with('/') {
                continue;
            }
            let candidates = [
                (*name).to_owned(),
                format!("{name}.yml"),
                format!("{name}.yaml"),
                format!("{name}.json"),
            ];
            let mut found: Option<&String> = None;
            for candidate in &candidates {
                // A name with a slash in it is a path below.
                let exists = names.contains(candidate) || candidate.contains('/') && path.join(candidate).exists();
                if !exists {
                    continue;
                }
                used.insert(candidate.clone());
                if let Some(first) = found {
                    loader.warnings.push(
                        Diagnostic::warning("inventory/vars-shadowed", format!("{shown}/{candidate} is not read"))
                            .at(Place::whole(join(&shown, candidate)))
                            .rule(format!(
                                "of the files for one name the first is read, and {shown}/{first} exists"
                            ))
                            .help("merge the two, or put both into a directory of that name"),
                    );
                } else {
                    found = Some(candidate);
                }
            }
            let Some(found) = found else { continue };
            let mut files = Vec::new();
            collect(&path.join(found), &join(&shown, found), &mut files, 0);
            let mut vars = Vars::new();
            for (file, shown) in files {
                match read_file(&file, &shown, loader) {
                    Ok(more) => more
                        .iter()
                        .for_each(|(name, value)| keep(&mut vars, shadowed, owner(*index), name, value, merge)),
                    Err(fault) => faults.push(fault),
                }
            }
            if !vars.is_empty() {
                into.insert(*index, vars);
            }
        }
        strays(&names, &used, &entities, &shown, kind, loader);
    }
    beside
}

pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() || dir == "." {
        return name.to_owned();
    }
    format!("{}/{name}", dir.trim_end_matches('/'))
}

/// Warns of files whose name is nearly that of a group or host.
fn strays(
    names: &HashSet<String>,
    used: &HashSet<String>,
    entities: &[(usize, &str)],
    shown: &str,
    kind: &str,
    loader: &mut Loader<'_>,
) {
    if entities.len() > 2_000 {
        return;
    }
    let mut strays: Vec<&String> = names
        .difference(used)
        .filter(|name| !name.starts_with('.') && !name.ends_with('~'))
        .collect();
    strays.sort_unstable();
    for stray in strays {
        let stem = stray
            .trim_end_matches(".yml")
            .trim_end_matches(".yaml")
            .trim_end_matches(".json");
        if entities.iter().any(|(_, name)| *name == stem) {
            continue;
        }
        if let Some(near) = nearest(stem, entities.iter().map(|(_, name)| *name)) {
            let what = if kind == "group_vars" { "group" } else { "host" };
            loader.warnings.push(
                Diagnostic::warning(
                    "inventory/vars-for-nobody",
                    format!("there is no {what} `{stem}`: {shown}/{stray} is not read"),
                )
                .at(Place::whole(join(shown, stray)))
                .rule(format!("a file in {kind} is read for the {what} of its name"))
                .help(format!("did you mean `{near}`?")),
            );
        }
    }
}

/// The files that a path stands for, with the names to show.
fn collect(path: &Path, shown: &str, files: &mut Vec<(PathBuf, String)>, depth: usize) {
    if !path.is_dir() {
        files.push((path.to_owned(), shown.to_owned()));
        return;
    }
    if depth > 32 {
        return;
    }
    // An unreadable directory below shows when its files are missed; the top one was listed by the caller.
    for name in entries(path).unwrap_or_default() {
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        let inner = path.join(&name);
        let extension = inner.extension().map(|e| e.to_string_lossy().into_owned());
        let good = matches!(extension.as_deref(), None | Some("yml" | "yaml" | "json"));
        if good && (!inner.is_dir() || extension.is_none()) {
            collect(&inner, &join(shown, &name), files, depth + 1);
        }
    }
}

fn read_file(path: &Path, shown: &str, loader: &mut Loader<'_>) -> Result<Vars, Diagnostic> {
    let text = loader.text(path, shown)?;
    let document = yaml::parse(&text.text, &shown.into())?;
    loader.warnings.extend(document.warnings);
    let mut value: Value = document.value;
    if text.secret {
        value.make_secret();
    }
    match value.data {
        Data::Map(map) => Ok(map
            .into_iter()
            .map(|(key, entry)| (key.as_str().into(), Arc::new(entry.value)))
            .collect()),
        Data::Null => Ok(Vars::new()),
        _ => Err(Diagnostic::error(
            "inventory/vars-structure",
            format!("{shown} holds a {}, not variables", value.type_name()),
        )
        .at(value.place.clone())
        .rule("a file of variables is a mapping of names to values")
        .help("write `name: value`")),
    }
}
