//! Which files an inventory consists of, and which lie beside it for nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::sources::{entries, ignored, is_script, meant_as_yaml};
use super::super::vars::join;
use super::super::vault::Vault;
use super::super::{LoadOptions, Source, parent};
use super::document::{self, Document};
use super::tree::{self, Body};
use super::{Finding, finding};
use crate::diagnose::Place;

/// Endings that nobody takes for an inventory: backups and what editors leave.
const BACKUPS: [&str; 7] = [".bak", ".orig", ".swp", ".retry", "~", ".pyc", ".pyo"];
const DEPTH: usize = 32;

/// Reads the sources; scripts and encrypted files are left out.
pub(super) fn sources(options: &LoadOptions, documents: &mut Vec<Document>, findings: &mut Vec<Finding>) {
    for source in &options.sources {
        if let Source::Path(path) = Source::of(source, &options.working_dir) {
            let full = options.working_dir.join(path);
            source_path(&full, source, documents, findings, 0);
        }
    }
}

fn source_path(path: &Path, shown: &str, documents: &mut Vec<Document>, findings: &mut Vec<Finding>, depth: usize) {
    if !path.is_dir() {
        // TOML has types of its own and surprises nobody.
        let toml = path.extension().is_some_and(|extension| extension == "toml");
        if !toml
            && !is_script(path)
            && let Some(text) = text(path)
        {
            documents.push(inventory(path, &text, &shown.into()));
        }
        return;
    }
    for name in entries(path).unwrap_or_default() {
        let (inner, shown) = (path.join(&name), format!("{}/{name}", shown.trim_end_matches('/')));
        if !ignored(&name) {
            if depth < DEPTH {
                source_path(&inner, &shown, documents, findings, depth + 1);
            }
        } else if worth_telling(&name) && inner.is_file() && looks_like_inventory(&inner) {
            let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy();
            let rewrite = format!("mv {shown} {}", shown.replace(&name, &format!("{stem}.ini")));
            findings.push(
                finding(
                    "lint/ignored-file",
                    format!("{shown} looks like an inventory and is ignored"),
                )
                .at(Place::whole(shown.as_str()))
                .rewrite(rewrite),
            );
        }
    }
}

fn worth_telling(name: &str) -> bool {
    !name.starts_with('.') && !BACKUPS.iter().any(|ending| name.ends_with(ending)) && name != "ansible.cfg"
}

/// Whether a text is that of an inventory: a section header followed by something, or groups with hosts in YAML.
fn looks_like_inventory(path: &Path) -> bool {
    let Some(text) = text(path) else { return false };
    // A page of prose has no sections, a settings file has `key = value` in them and no section for it.
    let sections = text.lines().filter(|line| {
        let line = line.trim();
        super::super::ini::header(line).is_some_and(|(_, kind)| matches!(kind, "vars" | "children" | "hosts"))
    });
    sections.count() > 0
        || {
            let root = tree::read(&text).root.map(|root| root.body);
            matches!(root, Some(Body::Map(map)) if map.iter().any(|(_, group)| {
                matches!(&group.body, Body::Map(map) if map.iter().any(|(key, _)| matches!(key.text(), Some("hosts" | "children"))))
            }))
        }
}

/// The text of a file that is not encrypted as a whole.
fn text(path: &Path) -> Option<String> {
    let text = String::from_utf8(std::fs::read(path).ok()?).ok()?;
    (!Vault::is_encrypted(&text)).then_some(text)
}

fn inventory(path: &Path, text: &str, shown: &Arc<str>) -> Document {
    let yaml = match path.extension().map(|e| e.to_string_lossy().into_owned()).as_deref() {
        Some("yml" | "yaml" | "json") => true,
        Some(_) => false,
        None => {
            let root = tree::read(text).root.map(|root| root.body);
            matches!(root, Some(Body::Map(map)) if !map.is_empty()) || meant_as_yaml(text)
        }
    };
    if yaml {
        document::yaml_inventory(text, shown)
    } else {
        document::ini_inventory(text, shown)
    }
}

/// Reads `group_vars` and `host_vars` beside the sources and in the working directory; `complete` tells whether the names are
/// all that there are.
pub(super) fn variables(
    options: &LoadOptions,
    (groups, hosts): (&HashSet<String>, &HashSet<String>),
    complete: bool,
    documents: &mut Vec<Document>,
    findings: &mut Vec<Finding>,
) {
    let mut seen = HashSet::new();
    let mut bases: Vec<(PathBuf, String, bool)> = Vec::new();
    for source in &options.sources {
        if let Source::Path(path) = Source::of(source, &options.working_dir) {
            let full = options.working_dir.join(&path);
            let (dir, shown) = if full.is_dir() {
                (full.as_path(), path.as_path())
            } else {
                (parent(&full), parent(&path))
            };
            bases.push((dir.to_owned(), shown.display().to_string(), complete));
        }
    }
    // Other inventories may share what lies in the working directory: what belongs to nobody here may belong there.
    bases.push((options.working_dir.clone(), String::new(), false));
    for (dir, shown, beside) in bases {
        if !seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.clone())) {
            continue;
        }
        for (kind, names) in [("group_vars", groups), ("host_vars", hosts)] {
            let folder = Folder {
                path: dir.join(kind),
                shown: join(&shown, kind),
                kind,
                names,
                beside,
            };
            folder.read(documents, findings);
        }
    }
}

struct Folder<'n> {
    path: PathBuf,
    shown: String,
    kind: &'static str,
    names: &'n HashSet<String>,
    beside: bool,
}

impl Folder<'_> {
    fn read(&self, documents: &mut Vec<Document>, findings: &mut Vec<Finding>) {
        let mut taken: HashSet<String> = HashSet::new();
        let found = entries(&self.path).unwrap_or_default();
        let what = if self.kind == "group_vars" { "group" } else { "host" };
        for name in found.iter().filter(|name| worth_telling(name) && !is_prose(name)) {
            let (path, shown) = (self.path.join(name), join(&self.shown, name));
            let stem = [".yml", ".yaml", ".json"]
                .iter()
                .find_map(|ending| name.strip_suffix(ending))
                .unwrap_or(name);
            let owner = [name.as_str(), stem]
                .into_iter()
                .find(|name| self.names.contains(*name));
            if let Some(owner) = owner {
                // Of several files for one name the loader reads the first and tells of the others.
                if taken.insert(owner.to_owned()) {
                    let level = format!("{}/{owner}", self.shown);
                    files(&path, &shown, &level, documents, findings, 0);
                }
                continue;
            }
            let before = name.split_once('.').map_or(name.as_str(), |(before, _)| before);
            if path.is_file() && self.names.contains(before) {
                findings.push(other_extension(&shown, before, name));
            } else if self.beside {
                let near = crate::diagnose::nearest(stem, self.names.iter().map(String::as_str));
                let mut found = finding(
                    "lint/vars-for-nobody",
                    format!("there is no {what} `{stem}`: {shown} is not read"),
                )
                .at(Place::whole(shown.as_str()));
                if let Some(near) = near {
                    let rewrite = format!("mv {shown} {}", join(&self.shown, &name.replacen(stem, near, 1)));
                    found = found.help(format!("did you mean `{near}`?")).rewrite(rewrite);
                } else {
                    found = found.help(format!("remove the file, or add the {what}"));
                }
                findings.push(found);
            }
        }
    }
}

fn is_prose(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with("README") || [".md", ".rst"].iter().any(|ending| name.ends_with(ending))
}

fn other_extension(shown: &str, stem: &str, name: &str) -> Finding {
    let rewrite = format!("mv {shown} {}", shown.replace(name, &format!("{stem}.yml")));
    finding(
        "lint/ignored-file",
        format!("{shown} is not read: its extension is none of .yml, .yaml, .json"),
    )
    .at(Place::whole(shown))
    .rewrite(rewrite)
}

/// Reads a file of variables, or all in a directory.
fn files(
    path: &Path,
    shown: &str,
    level: &str,
    documents: &mut Vec<Document>,
    findings: &mut Vec<Finding>,
    depth: usize,
) {
    if !path.is_dir() {
        if let Some(text) = text(path) {
            documents.push(document::variables(&text, &shown.into(), level));
        }
        return;
    }
    for name in entries(path).unwrap_or_default() {
        let (inner, shown) = (path.join(&name), join(shown, &name));
        if !worth_telling(&name) || is_prose(&name) || depth > DEPTH {
            continue;
        }
        let extension = inner.extension().map(|e| e.to_string_lossy().into_owned());
        match extension.as_deref() {
            None => files(&inner, &shown, level, documents, findings, depth + 1),
            Some("yml" | "yaml" | "json") if inner.is_file() => {
                files(&inner, &shown, level, documents, findings, depth + 1);
            }
            Some(_) => {
                let stem = name.split_once('.').map_or(name.as_str(), |(before, _)| before);
                findings.push(other_extension(&shown, stem, &name));
            }
        }
    }
}
