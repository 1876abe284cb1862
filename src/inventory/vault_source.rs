//! Where vault passwords come from: files, executables that print them, and the terminal.
//!
//! ```text
//! --vault-id LABEL@SOURCE | --vault-id SOURCE | --vault-password-file FILE | --ask-vault-pass
//!     SOURCE: `prompt` --> asked for      file --> its text      executable --> what it prints
//!             executable NAME-client[.EXT] --> what it prints when called with `--vault-id LABEL`
//! ```
//!
//! Happy path: every source gives one password, with the label that it is for; without a label it is for all. Failures,
//! all told at once: a file that is missing, empty or not UTF-8, an executable that fails, no terminal to ask at.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use zeroize::Zeroizing;

use super::LoadOptions;
use super::script::{self, Failure};
use crate::diagnose::{Diagnostic, Place};
use crate::secret::Secret;

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The label of what has none, as Ansible calls it.
const DEFAULT: &str = "default";
/// Sources that mean the terminal.
const PROMPTS: [&str; 2] = ["prompt", "prompt_ask_vault_pass"];

/// One password and where it came from.
#[derive(Debug)]
pub(super) struct Password {
    /// As the user named its source.
    pub shown: String,
    /// The vault id that it is for.
    pub label: Option<String>,
    /// The password.
    pub secret: Secret,
}

/// Whether a source of a vault id is the terminal.
fn is_prompt(source: &str) -> bool {
    PROMPTS.contains(&source)
}

/// Reads all passwords: those of vault ids first, in their order.
pub(super) fn load(options: &LoadOptions) -> Result<Vec<Password>, Vec<Diagnostic>> {
    let mut passwords = Vec::new();
    let mut faults = Vec::new();
    let mut take = |outcome: Result<Password, Diagnostic>| match outcome {
        Ok(password) => passwords.push(password),
        Err(fault) => faults.push(fault),
    };
    for id in &options.vault_ids {
        let (label, source) = match id.split_once('@') {
            Some((label, source)) => (label, source),
            None => (DEFAULT, id.as_str()),
        };
        take(if is_prompt(source) {
            prompt(options, label, id)
        } else {
            file(Path::new(source), id, Some(label), &options.working_dir)
        });
    }
    for path in &options.vault_password_files {
        let shown = path.display().to_string();
        // `label@file`, unless there is a file of the whole name.
        let labelled = shown
            .split_once('@')
            .filter(|_| !options.working_dir.join(path).exists());
        take(match labelled {
            Some((label, rest)) => file(Path::new(rest), &shown, Some(label), &options.working_dir),
            None => file(path, &shown, None, &options.working_dir),
        });
    }
    if options.ask_vault_pass {
        take(prompt(options, DEFAULT, "--ask-vault-pass"));
    }
    if faults.is_empty() { Ok(passwords) } else { Err(faults) }
}

fn prompt(options: &LoadOptions, label: &str, shown: &str) -> Result<Password, Diagnostic> {
    let text = if label == DEFAULT {
        "Vault password: ".to_owned()
    } else {
        format!("Vault password ({label}): ")
    };
    let asked = match options.ask_password {
        Some(ask) => ask(&text),
        None => Err("there is nobody to ask".to_owned()),
    };
    let bad = |why: String| {
        Diagnostic::error(
            "inventory/vault-prompt",
            format!("the vault password cannot be asked for: {why}"),
        )
        .at(Place::whole(shown))
        .rule("a password is asked for at the terminal, which has to be there, and is not empty")
        .help("give a file instead: --vault-id LABEL@FILE or --vault-password-file FILE")
    };
    let secret = asked.map_err(bad)?;
    if secret.expose().is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    Ok(Password {
        shown: shown.to_owned(),
        label: Some(label.to_owned()),
        secret,
    })
}

/// Whether an executable is called with the label that is wanted: its name, without extension, ends so.
fn is_client(path: &Path) -> bool {
    path.file_stem()
        .is_some_and(|stem| stem.to_string_lossy().ends_with("-client"))
}

fn file(source: &Path, shown: &str, label: Option<&str>, working_dir: &Path) -> Result<Password, Diagnostic> {
    let bad = |why: String| {
        Diagnostic::error(
            "inventory/vault-password-file",
            format!("{shown} gives no vault password: {why}"),
        )
        .at(Place::whole(shown))
        .rule("the file holds the password, or is an executable that prints it")
        .help("check the path and the permissions")
    };
    let path = working_dir.join(source);
    let meta = std::fs::metadata(&path).map_err(|error| bad(error.to_string()))?;
    let bytes = if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
        let mut command = Command::new(&path);
        command.current_dir(working_dir);
        let client = is_client(&path);
        if client {
            command.arg("--vault-id").arg(label.unwrap_or(DEFAULT));
        }
        let output = script::run(command, TIME_LIMIT).map_err(|fault| match &fault {
            // What a client answers for a label that it does not know.
            Failure::Exit(how, _) if client && how.ends_with(" 2") => bad(format!(
                "it knows no password for the vault id `{}`",
                label.unwrap_or(DEFAULT)
            )),
            _ => bad(fault.to_string()),
        })?;
        output.stdout
    } else {
        std::fs::read(&path).map_err(|error| bad(error.to_string()))?
    };
    let bytes = Zeroizing::new(bytes);
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| bad("it is not UTF-8".to_owned()))?
        .trim();
    if text.is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    Ok(Password {
        shown: shown.to_owned(),
        label: label.map(str::to_owned),
        secret: Secret::new(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path, ids: &[&str]) -> LoadOptions {
        LoadOptions {
            vault_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            working_dir: dir.to_owned(),
            ..LoadOptions::default()
        }
    }

    fn script(dir: &Path, name: &str, text: &str) {
        std::fs::write(dir.join(name), text).unwrap();
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn files_executables_and_clients_give_passwords() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pw"), "one\n").unwrap();
        script(dir.path(), "run.sh", "#!/bin/sh\necho two $#\n");
        script(dir.path(), "keys-client.sh", "#!/bin/sh\necho \"for $1 $2\"\n");
        let mut options = options(dir.path(), &["dev@pw", "run.sh", "prod@keys-client.sh"]);
        options.vault_password_files = vec!["pw".into()];
        let got = load(&options).unwrap();
        let got: Vec<(&str, Option<&str>, &str)> = got
            .iter()
            .map(|password| (&*password.shown, password.label.as_deref(), password.secret.expose()))
            .collect();
        assert_eq!(
            got,
            [
                ("dev@pw", Some("dev"), "one"),
                ("run.sh", Some("default"), "two 0"),
                ("prod@keys-client.sh", Some("prod"), "for --vault-id prod"),
                ("pw", None, "one"),
            ]
        );
    }

    #[test]
    fn what_gives_no_password_is_told_all_at_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        script(dir.path(), "keys-client", "#!/bin/sh\nexit 2\n");
        let faults = load(&options(
            dir.path(),
            &["dev@nope", "empty", "prod@keys-client", "qa@prompt"],
        ))
        .unwrap_err();
        let told: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(
            told[2].contains("knows no password for the vault id `prod`"),
            "{}",
            told[2]
        );
        assert_eq!(faults[3].code, "inventory/vault-prompt");
    }

    #[test]
    fn a_prompt_names_its_vault_id() {
        let mut options = options(Path::new("/"), &["dev@prompt", "prompt"]);
        options.ask_vault_pass = true;
        options.ask_password = Some(|text| Ok(Secret::new(text)));
        let got = load(&options).unwrap();
        let got: Vec<&str> = got.iter().map(|password| password.secret.expose()).collect();
        assert_eq!(got, ["Vault password (dev): ", "Vault password: ", "Vault password: "]);
        options.ask_password = Some(|_| Ok(Secret::new("")));
        assert_eq!(load(&options).unwrap_err().len(), 3);
    }
}
