//! What the tests of inventories share: the arguments of a case, the answers of the library, the real Ansible.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value as Json, json};
use vmwright::diagnose::Diagnostic;
use vmwright::inventory::{Inventory, LoadOptions, export};

/// A directory below `tests/inventory`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory").join(name)
}

/// The directories in it, sorted.
pub fn cases(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

pub fn name_of(case: &Path) -> String {
    case.file_name().unwrap().to_string_lossy().into_owned()
}

/// The arguments of a case: those in `cmd`, or its inventory.
pub fn arguments(case: &Path) -> Vec<String> {
    match std::fs::read_to_string(case.join("cmd")) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(_) => {
            let names = ["hosts.yml", "hosts.toml", "hosts.ini"];
            let found = names.iter().find(|name| case.join(name).exists()).unwrap_or(&names[2]);
            vec!["-i".to_owned(), (*found).to_owned()]
        }
    }
}

/// The options and the host of `--host`, if any.
pub fn options(dir: &Path, arguments: &[String]) -> (LoadOptions, Option<String>) {
    let mut options = LoadOptions {
        working_dir: dir.to_owned(),
        env: BTreeMap::new(),
        ..LoadOptions::default()
    };
    let mut host = None;
    for pair in arguments.chunks(2) {
        let [option, value] = pair else {
            panic!("{}: an option without a value", dir.display())
        };
        match option.as_str() {
            "-i" => options.sources.push(value.clone()),
            "-e" => options.extra_vars.push(value.clone()),
            "--vault-password-file" => options.vault_password_files.push(PathBuf::from(value)),
            "--host" => host = Some(value.clone()),
            other => panic!("{}: unknown option {other}", dir.display()),
        }
    }
    (options, host)
}

/// What vmwright answers: as `list`, and for every host.
pub struct Answer {
    pub list: Json,
    pub hosts: Option<Json>,
    pub inventory: Option<Inventory>,
}

pub fn answer(dir: &Path, arguments: &[String]) -> Answer {
    let (options, host) = options(dir, arguments);
    match Inventory::load(&options) {
        Ok(loaded) => {
            let inventory = loaded.inventory;
            // As the command prints it.
            let of_host = |host: &str| {
                let mut vars = inventory.host_json(host, false);
                export::drop_unsafe(&mut vars);
                vars
            };
            let (list, hosts) = match host {
                Some(host) => (of_host(&host), None),
                None => {
                    let hosts = inventory.hosts().map(|host| (host.to_owned(), of_host(host)));
                    let hosts: Map<String, Json> = hosts.collect();
                    (inventory.list_json(false), Some(Json::Object(hosts)))
                }
            };
            Answer {
                list,
                hosts,
                inventory: Some(inventory),
            }
        }
        Err(faults) => Answer {
            list: json!({ "faults": faults.iter().map(told).collect::<Vec<_>>() }),
            hosts: None,
            inventory: None,
        },
    }
}

/// A diagnostic: code, place, message, and a line for each note.
pub fn told(fault: &Diagnostic) -> String {
    let notes = fault.notes.iter().map(|(_, note)| format!("\n  {note}"));
    format!("{} {fault}{}", fault.code, notes.collect::<String>())
}

/// The lines in which two answers differ; empty if they are equal.
pub fn difference(got: &Json, want: &Json) -> String {
    if got == want {
        return String::new();
    }
    let pretty = |json: &Json| serde_json::to_string_pretty(json).unwrap();
    let (got, want) = (pretty(got), pretty(want));
    let mut out = String::new();
    for line in got.lines().filter(|line| !want.lines().any(|other| other == *line)) {
        out.push_str(&format!("  got  {line}\n"));
    }
    for line in want.lines().filter(|line| !got.lines().any(|other| other == *line)) {
        out.push_str(&format!("  want {line}\n"));
    }
    if out.is_empty() {
        out = format!("  the order differs: got\n{got}\n  want\n{want}\n");
    }
    out
}

/// The interpreter that has ansible-core 2.19: below `target/tools`, or that of the `ansible-inventory` on the PATH.
pub fn oracle() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/ansible/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::iter::once(ours).chain(std::env::split_paths(&path));
    for program in programs.map(|dir| dir.join("ansible-inventory")) {
        let Ok(text) = std::fs::read_to_string(&program) else {
            continue;
        };
        let first = text.lines().next().unwrap_or_default();
        let python = PathBuf::from(first.trim_start_matches("#!").trim());
        let version = Command::new(&program).arg("--version").output();
        let known = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("core 2.19"));
        if known && python.is_absolute() {
            return Some(python);
        }
    }
    None
}

/// Says that a test is skipped for want of Ansible.
pub fn skipped(what: &str) {
    eprintln!("SKIPPED: {what}: ansible-core 2.19 is not installed (scripts/setup test puts it below target/tools)");
}

/// Asks the real Ansible; the answers come in the order of the requests.
pub fn ask(python: &Path, requests: &[Json]) -> Vec<Json> {
    let mut child = Command::new(python)
        .arg(folder("oracle.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = requests.iter().map(|request| format!("{request}\n")).collect();
    // The other end answers while it reads.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the driver of Ansible failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), requests.len());
    answers
}
