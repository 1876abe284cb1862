//! Inventories against recordings of `ansible-inventory` (ansible-core 2.19.14): each directory of
//! `tests/inventory/cases` holds an inventory, the arguments (`cmd`) and the answer (`list.json`).
//! `tests/inventory/refresh.sh` records them anew.

#![expect(clippy::unwrap_used, reason = "a test helper")]

#[path = "inventory/templates.rs"]
mod templates;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use vmwright::inventory::{Inventory, LoadOptions};

/// The options and the host of `--host`, if any.
fn options(case: &Path) -> (LoadOptions, Option<String>) {
    let default = if case.join("hosts.yml").exists() {
        "hosts.yml"
    } else {
        "hosts.ini"
    };
    let arguments = std::fs::read_to_string(case.join("cmd")).unwrap_or_else(|_| format!("-i\n{default}\n"));
    let mut options = LoadOptions {
        working_dir: case.to_owned(),
        env: BTreeMap::new(),
        ..LoadOptions::default()
    };
    let mut host = None;
    let mut lines = arguments.lines().map(str::to_owned);
    while let Some(option) = lines.next() {
        let value = lines.next().unwrap();
        match option.as_str() {
            "-i" => options.sources.push(value),
            "-e" => options.extra_vars.push(value),
            "--vault-password-file" => options.vault_password_files.push(PathBuf::from(value)),
            "--host" => host = Some(value),
            other => panic!("{}: unknown option {other}", case.display()),
        }
    }
    (options, host)
}

#[test]
fn every_case_lists_as_ansible_does() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory/cases");
    let mut names: Vec<PathBuf> = std::fs::read_dir(cases)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert!(names.len() >= 40, "only {} cases", names.len());
    let mut failed = String::new();
    for case in names {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let recorded = std::fs::read_to_string(case.join("list.json")).unwrap();
        let want: serde_json::Value = serde_json::from_str(&recorded).unwrap();
        let (options, host) = options(&case);
        let got = match Inventory::load(&options) {
            Ok(loaded) => match host {
                Some(host) => loaded.inventory.host_json(&host, false),
                None => loaded.inventory.list_json(false),
            },
            Err(faults) => {
                let told: Vec<String> = faults.iter().map(|fault| format!("{} {fault}", fault.code)).collect();
                serde_json::json!({ "faults": told })
            }
        };
        if got != want {
            let pretty = |json: &serde_json::Value| serde_json::to_string_pretty(json).unwrap();
            let (got, want) = (pretty(&got), pretty(&want));
            writeln!(failed, "== {name}").unwrap();
            for line in got.lines().filter(|line| !want.lines().any(|other| other == *line)) {
                writeln!(failed, "  got  {line}").unwrap();
            }
            for line in want.lines().filter(|line| !got.lines().any(|other| other == *line)) {
                writeln!(failed, "  want {line}").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
