//! The search for settings: which source wins, and what the losers have wrong.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::file::FileSettings;
use super::{FILE_NAME, Origin, Setting, Sources, duration, env, file};
use crate::diagnose::{Diagnostic, Place, nearest};

/// A settings file that was read.
pub(super) struct ReadFile {
    pub(super) path: PathBuf,
    name: String,
    text: String,
    settings: FileSettings,
}

/// The search, with what it collects on the way.
pub(super) struct Search<'s> {
    pub(super) env: &'s BTreeMap<String, String>,
    pub(super) home: Option<PathBuf>,
    pub(super) working_dir: &'s Path,
    pub(super) files: Vec<ReadFile>,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Search<'_> {
    /// Reads the settings files, the strongest first.
    pub(super) fn read_files(&mut self, sources: &Sources<'_>) {
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
                Err(problem) => self.problems.push(*problem),
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
    pub(super) fn find<T: Clone + FromStr<Err = String>>(
        &mut self,
        cli: Option<T>,
        variable: &'static str,
        key: &'static str,
        field: impl Fn(&FileSettings) -> Option<T>,
        default: T,
    ) -> Setting<T> {
        self.find_with(cli, variable, key, field, default, str::parse)
    }

    pub(super) fn wait_lock(&mut self, cli: Option<Duration>) -> Setting<Duration> {
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

    pub(super) fn path(
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

    pub(super) fn optional_path(&mut self, cli: Option<PathBuf>) -> Setting<Option<PathBuf>> {
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

    pub(super) fn vault_password_files(&self, cli: Option<Vec<PathBuf>>) -> Setting<Vec<PathBuf>> {
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

    /// Vault ids, with the paths of their sources absolute.
    pub(super) fn vault_ids(&self, cli: Vec<String>) -> Setting<Vec<String>> {
        let home = self.home.as_deref();
        let here = |ids: Vec<String>| ids.iter().map(|id| id_at(id, self.working_dir, home)).collect();
        if !cli.is_empty() {
            return Setting {
                value: here(cli),
                origin: Origin::CommandLine,
            };
        }
        for variable in ["VMWRIGHT_VAULT_IDS", "ANSIBLE_VAULT_IDENTITY_LIST"] {
            if let Some(list) = set(self.env, variable) {
                let ids = list.split(',').map(str::trim).filter(|id| !id.is_empty());
                return Setting {
                    value: here(ids.map(str::to_owned).collect()),
                    origin: Origin::Environment(variable),
                };
            }
        }
        for file in &self.files {
            if let Some(ids) = &file.settings.vault_ids {
                let dir = file.path.parent().unwrap_or(Path::new("/"));
                return Setting {
                    value: ids.iter().map(|id| id_at(&id.to_string_lossy(), dir, home)).collect(),
                    origin: file.origin("vault_ids"),
                };
            }
        }
        Setting {
            value: Vec::new(),
            origin: Origin::Default,
        }
    }

    /// An XDG base directory: the variable if it is an absolute path (others are to be ignored), else below home.
    pub(super) fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
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

/// A vault id, `label@source` or `source`, with the source's path absolute; the terminal has none.
fn id_at(id: &str, base: &Path, home: Option<&Path>) -> String {
    let (label, source) = match id.split_once('@') {
        Some((label, source)) => (Some(label), source),
        None => (None, id),
    };
    if matches!(source, "prompt" | "prompt_ask_vault_pass") {
        return id.to_owned();
    }
    let path = absolute(Path::new(source), base, home).display().to_string();
    match label {
        Some(label) => format!("{label}@{path}"),
        // A path with an @ in it is not to be taken for a label.
        None => format!("default@{path}"),
    }
}

/// A variable that is set and not empty.
pub(super) fn set<'e>(env: &'e BTreeMap<String, String>, name: &str) -> Option<&'e str> {
    env.get(name).map(String::as_str).filter(|text| !text.is_empty())
}

/// Variables that look like ours and are probably meant to be.
pub(super) fn misspelt(env: &BTreeMap<String, String>) -> Vec<Diagnostic> {
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
pub(crate) fn absolute(path: &Path, base: &Path, home: Option<&Path>) -> PathBuf {
    let expanded = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    };
    base.join(expanded)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}
