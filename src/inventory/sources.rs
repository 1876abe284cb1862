//! Finds out what a source is and reads it: a directory of sources, a list of hosts, a script, YAML, INI.
//!
//! ```text
//! "a,b,"                          list of hosts
//! directory                       its entries, sorted, without what Ansible ignores
//! executable with #! or ELF mark  script
//! .toml                           TOML
//! .yml .yaml .json, no extension  YAML if it is a mapping, else INI
//! any other                       INI
//! ```
//!
//! Ansible tries its plugins one after the other and goes on with a warning when none understands a file. Here a file
//! that cannot be read is an error: a run must not go on with half of its hosts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::groups::{Graph, UNGROUPED};
use super::vault::Vault;
use super::{host_pattern, ini, script, toml_source, yaml, yaml_source};
use crate::diagnose::{Diagnostic, Place};

/// Where things come from.
pub(crate) struct Loader<'o> {
    pub working_dir: &'o Path,
    pub vault: &'o Vault,
    pub warnings: Vec<Diagnostic>,
}

/// A text and whether it was encrypted as a whole.
pub(crate) struct Text {
    pub text: String,
    pub secret: bool,
}

impl Loader<'_> {
    /// Reads a file, decrypts it if it is encrypted as a whole.
    pub fn text(&self, path: &Path, shown: &str) -> Result<Text, Diagnostic> {
        let bytes = std::fs::read(path).map_err(|error| unreadable(shown, &error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.iter().filter(|c| **c == b'\n').count() + 1;
            let column = before.rsplit(|c| *c == b'\n').next().map_or(0, <[u8]>::len) + 1;
            let at = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            Diagnostic::error("inventory/not-utf8", "a byte here is not UTF-8")
                .at(Place::new(shown, at(line), at(column)))
                .rule("inventories and files of variables are UTF-8")
                .help(format!("convert it: iconv -f latin1 -t utf8 {shown}"))
        })?;
        if !Vault::is_encrypted(&text) {
            return Ok(Text { text, secret: false });
        }
        let plain = self.vault.decrypt(&text, &Place::new(shown, 1, 1))?;
        Ok(Text {
            text: plain.as_str().to_owned(),
            secret: true,
        })
    }

    /// Reads one `-i` source into the graph.
    pub fn source(&mut self, source: &str, graph: &mut Graph, faults: &mut Vec<Diagnostic>) {
        let path = self.working_dir.join(source);
        if source.contains(',') && !path.exists() {
            if let Err(fault) = host_list(source, graph) {
                faults.push(fault);
            }
            return;
        }
        if let Err(error) = std::fs::metadata(&path) {
            faults.push(
                Diagnostic::error(
                    "inventory/source-missing",
                    format!("the inventory {source} cannot be read: {error}"),
                )
                .at(Place::whole(source))
                .rule("-i takes a file, a directory, an executable, or a list of hosts with a comma in it")
                .help(format!("check the path; for a single host write -i '{source},'")),
            );
            return;
        }
        self.path(&path, source, graph, faults);
    }

    fn path(&mut self, path: &Path, shown: &str, graph: &mut Graph, faults: &mut Vec<Diagnostic>) {
        if path.is_dir() {
            let entries = match entries(path) {
                Ok(entries) => entries,
                Err(error) => {
                    faults.push(unreadable(shown, &error.to_string()));
                    return;
                }
            };
            for name in entries {
                if !ignored(&name) {
                    let inner = format!("{}/{name}", shown.trim_end_matches('/'));
                    self.path(&path.join(&name), &inner, graph, faults);
                }
            }
            return;
        }
        if let Err(mut found) = self.file(path, shown, graph) {
            faults.append(&mut found);
        }
    }

    fn file(&mut self, path: &Path, shown: &str, graph: &mut Graph) -> Result<(), Vec<Diagnostic>> {
        let one = |fault: Diagnostic| vec![fault];
        let file: Arc<str> = shown.into();
        let source: Arc<str> = absolute(path).into();
        if is_script(path) {
            return script::read(path, &file, &source, self.working_dir, graph);
        }
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned());
        let Text { text, secret } = self.text(path, shown).map_err(one)?;
        let before = if secret {
            Some((graph.hosts.len(), graph.groups.len()))
        } else {
            None
        };
        let read_yaml = |document: yaml::Document, graph: &mut Graph| {
            let mut warnings = yaml_source::read(&document, &source, graph)?;
            warnings.extend(document.warnings);
            Ok::<_, Vec<Diagnostic>>(warnings)
        };
        let read_ini = |graph: &mut Graph| ini::read(&text, &file, &source, graph);
        let warnings = match extension.as_deref() {
            Some("toml") => toml_source::read(&text, &file, &source, graph)?,
            None | Some("yml" | "yaml" | "json") => match yaml::parse(&text, &file) {
                Ok(document) if yaml_source::looks_like_yaml(&document) => read_yaml(document, graph)?,
                Ok(document) if extension.is_some() && meant_as_yaml(&text) => read_yaml(document, graph)?,
                Err(fault) if meant_as_yaml(&text) => return Err(one(fault)),
                // Ansible would take it for INI; if it is not that either, the extension tells what was meant.
                other => match (read_ini(graph), other) {
                    (Ok(warnings), _) => warnings,
                    (Err(_), Err(fault)) if extension.is_some() => return Err(one(fault)),
                    (Err(_), Ok(document)) if extension.is_some() => read_yaml(document, graph)?,
                    (Err(faults), _) => return Err(faults),
                },
            },
            Some(_) => read_ini(graph)?,
        };
        self.warnings.extend(warnings);
        if before.is_some() {
            mark_secret(graph, &file);
        }
        Ok(())
    }
}

/// Marks what came from an encrypted inventory.
fn mark_secret(graph: &mut Graph, file: &Arc<str>) {
    let groups = graph.groups.iter_mut().map(|group| &mut group.vars);
    let hosts = graph.hosts.iter_mut().map(|host| &mut host.vars);
    for vars in groups.chain(hosts) {
        for value in vars.values_mut().filter(|value| value.place.file == *file) {
            Arc::make_mut(value).make_secret();
        }
    }
    let shadowed = graph.shadowed.iter_mut().map(|shadowed| &mut shadowed.value);
    for value in shadowed.filter(|value| value.place.file == *file) {
        Arc::make_mut(value).make_secret();
    }
}

fn unreadable(shown: &str, why: &str) -> Diagnostic {
    Diagnostic::error("inventory/unreadable", format!("{shown} cannot be read: {why}"))
        .at(Place::whole(shown))
        .rule("every file of an inventory must be readable")
        .help("check that it exists and its permissions")
}

/// The names in a directory, sorted by bytes.
pub(crate) fn entries(path: &Path) -> std::io::Result<Vec<String>> {
    let mut names = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// What Ansible skips in a directory of sources (`INVENTORY_IGNORE_EXTS` and the fixed names), and vmwright's own settings.
pub(crate) fn ignored(name: &str) -> bool {
    const ENDINGS: [&str; 16] = [
        ".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry",
        // Never an inventory: Ansible tries and warns. A cluster's CA and keys often lie beside the inventory.
        ".pem", ".crt", ".key", ".pub",
    ];
    name.starts_with('.')
        || name == "vmwright.yaml"
        || matches!(name, "host_vars" | "group_vars" | "vars_plugins")
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// An executable that the system can start: with an interpreter line or an ELF mark. Ansible starts every executable
/// file and takes those that do not start for lists of hosts.
pub(crate) fn is_script(path: &Path) -> bool {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    let executable = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if !executable {
        return false;
    }
    let mut mark = [0u8; 4];
    let Ok(mut file) = std::fs::File::open(path) else {
        return false;
    };
    match file.read(&mut mark) {
        Ok(read) => read >= 2 && &mark[..2] == b"#!" || &mark[..read] == b"\x7fELF",
        Err(_) => false,
    }
}

/// Whether a file without extension that is no valid YAML was meant as YAML.
pub(crate) fn meant_as_yaml(text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim_end)
        .find(|line| !line.trim_start().is_empty() && !line.trim_start().starts_with(['#', ';']));
    first.is_some_and(|line| line == "---" || line.starts_with('{') || line.ends_with(':') && !line.starts_with('['))
}

fn absolute(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut clean = PathBuf::new();
    for part in absolute.components() {
        match part {
            std::path::Component::ParentDir => {
                clean.pop();
            }
            std::path::Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean.display().to_string()
}

/// `-i 'web01,web02:2222,'`.
fn host_list(source: &str, graph: &mut Graph) -> Result<(), Diagnostic> {
    let shown: Arc<str> = source.into();
    for name in source.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let place = Place::whole("the list of hosts");
        let (host, port) = host_pattern::split_port(name).map_err(|why| {
            Diagnostic::error("inventory/host-name", format!("`{name}` is not a host: {why}"))
                .at(place.clone())
                .rule("a list of hosts holds names or addresses, each perhaps with a :port")
                .help("correct the name")
        })?;
        // Ranges are not expanded here, nor are they by Ansible.
        let (host, port) = if host.contains('[') { (name, None) } else { (host, port) };
        graph.declare_host(host, UNGROUPED, &shown, port, &place, &[])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::value::Data;
    use super::*;

    #[test]
    fn what_ansible_ignores_is_ignored() {
        for name in [
            ".git",
            "group_vars",
            "a.md",
            "hosts~",
            "x.cfg",
            "a.retry",
            "pve-root-ca.pem",
        ] {
            assert!(ignored(name), "{name}");
        }
        for name in ["hosts", "a.ini", "a.yml", "mygroup_vars", "a.md.yml"] {
            assert!(!ignored(name), "{name}");
        }
    }

    #[test]
    fn a_list_of_hosts_takes_ports_and_no_ranges() {
        let mut graph = Graph::new();
        host_list("a, b:22,w[1:2],", &mut graph).unwrap();
        let names: Vec<&str> = graph.hosts.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["a", "b", "w[1:2]"]);
        assert_eq!(graph.hosts[1].vars["ansible_port"].data, Data::Int(22));
    }
}
