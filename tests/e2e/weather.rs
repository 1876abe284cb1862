//! What the tests of bad weather share: edits of a site's inventory, and what must not have happened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::ssh::{SshEffect, SshFault};

use crate::support::{Run, Site};

/// One edit of a file of the inventory.
pub enum Edit<'t> {
    /// The whole file.
    Write(&'t str, &'t str),
    /// A text at its end.
    Append(&'t str, &'t str),
    /// A text that stands in it once or more, and what stands there instead.
    Replace(&'t str, &'t str, &'t str),
}

/// Makes edits below the site's inventory.
pub fn edit(site: &Site, edits: &[Edit<'_>]) {
    for edit in edits {
        let path = |name: &str| format!("inventory/{name}");
        match edit {
            Edit::Write(name, text) => site.write(&path(name), text),
            Edit::Append(name, text) => site.write(&path(name), &(site.read(&path(name)) + text)),
            Edit::Replace(name, from, to) => {
                let before = site.read(&path(name));
                assert!(before.contains(from), "{from:?} is not in {name}:\n{before}");
                site.write(&path(name), &before.replace(from, to));
            }
        }
    }
}

/// Every file of the inventory, to put it back.
pub fn inventory_files(site: &Site) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![site.path("inventory")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push((entry.path(), std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    found
}

/// Every guest's configuration, pending changes included, by number.
pub fn configs(site: &Site) -> BTreeMap<u32, String> {
    site.sim
        .handle()
        .look(|world| world.vms.iter().map(|(vmid, vm)| (*vmid, vm.config.text())).collect())
}

/// The snippet files on all nodes.
pub fn snippets(site: &Site) -> Vec<PathBuf> {
    let nodes = site.sim.handle().look(|world| world.node_names());
    let mut found = Vec::new();
    for node in nodes {
        let dir = site.sim.handle().node_root(&node).join("var/lib/vz/snippets");
        if let Ok(entries) = std::fs::read_dir(dir) {
            found.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    found.sort();
    found
}

/// The locks in the state directory.
pub fn locks(site: &Site) -> Vec<PathBuf> {
    entries(site, "state/locks")
        .into_iter()
        .filter(|path| path.is_dir())
        .collect()
}

/// The records in the state directory.
pub fn records(site: &Site) -> Vec<PathBuf> {
    entries(site, "state/records")
}

fn entries(site: &Site, dir: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(site.path(dir))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.sort();
    found
}

/// The single record, parsed.
#[track_caller]
pub fn record(site: &Site) -> serde_json::Value {
    let records = records(site);
    assert_eq!(records.len(), 1, "{records:?}");
    serde_json::from_slice(&std::fs::read(&records[0]).unwrap()).unwrap()
}

/// The hosts that the Pi-hole knows.
pub fn dns(site: &Site) -> Vec<String> {
    site.sim.pihole().unwrap().records().hosts
}

/// Nothing was asked of anybody, and nothing lies about: not even the state directory was made.
#[track_caller]
pub fn assert_never_begun(site: &Site, what: &str, run: &Run) {
    assert_eq!(
        calls(&site.sim.requests()),
        Vec::<String>::new(),
        "{what}: {}",
        run.all()
    );
    assert!(site.sim.pihole().unwrap().log().is_empty(), "{what}: {}", run.all());
    assert!(site.sim.ssh().unwrap().log().is_empty(), "{what}: {}", run.all());
    assert!(!site.path("state").exists(), "{what}: {}", run.all());
    assert!(!site.path("known_hosts").exists(), "{what}: {}", run.all());
    assert_calm(what, run);
}

/// The run looked, and wrote nothing: no change at the API, no DNS record, no snippet, no record, no lock.
#[track_caller]
pub fn assert_wrote_nothing(site: &Site, what: &str, run: &Run) {
    assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{what}: {}", run.all());
    assert_eq!(dns(site), Vec::<String>::new(), "{what}: {}", run.all());
    assert_eq!(snippets(site), Vec::<PathBuf>::new(), "{what}: {}", run.all());
    assert_eq!(records(site), Vec::<PathBuf>::new(), "{what}: {}", run.all());
    assert_tidy(site, what, run);
}

/// Whatever happened: no lock is left, no session of the Pi-hole is open, no temporary file lies about, nothing crashed,
/// and no secret was told.
#[track_caller]
pub fn assert_tidy(site: &Site, what: &str, run: &Run) {
    assert_eq!(locks(site), Vec::<PathBuf>::new(), "{what}: {}", run.all());
    assert_eq!(site.sim.pihole().unwrap().open_sessions(), 0, "{what}: {}", run.all());
    for path in snippets(site) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            name.ends_with("-ci.yml") && !name.starts_with('.'),
            "{what}: half a file: {name}"
        );
    }
    assert_calm(what, run);
}

/// Nothing crashed, and no secret was told.
#[track_caller]
pub fn assert_calm(what: &str, run: &Run) {
    for word in [
        "panicked",
        "RUST_BACKTRACE",
        crate::support::PIHOLE_PASSWORD,
        vmwright::simulator::spec::DEMO_SECRET,
    ] {
        assert!(!run.all().contains(word), "{what}: {word} in {}", run.all());
    }
}

/// Exit code and words.
#[track_caller]
pub fn assert_told(what: &str, run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{what}: {}", run.all());
    let all = flat(&run.all());
    for word in words {
        assert!(all.contains(&flat(word)), "{what}: {word:?} is not in\n{}", run.all());
    }
}

/// A text without the line breaks that wrapping put in.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A fault of the API.
pub fn fault(site: &Site, method: &str, path: &str, action: Action) {
    site.sim.faults().add(Fault::on(method, path, action));
}

/// An answer of the API.
pub fn answer(status: u16, text: &str) -> Action {
    Action::Answer {
        status,
        text: text.to_owned(),
    }
}

/// A fault of an SSH door that holds until it is replaced.
pub fn ssh_fault(machine: Option<vmwright::simulator::shell::Machine>, effect: SshEffect) -> SshFault {
    SshFault {
        machine,
        containing: None,
        skip: 0,
        times: None,
        effect,
    }
}

/// Runs a command that was prepared by hand.
pub async fn run_of(mut command: tokio::process::Command) -> Run {
    let output = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .output()
        .await
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Requests as `PUT /nodes/...`.
pub fn calls(requests: &[vmwright::simulator::RequestRecord]) -> Vec<String> {
    requests
        .iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}

/// The phase on record.
#[track_caller]
pub fn phase(site: &Site) -> String {
    record(site)["phase"]["is"].as_str().unwrap().to_owned()
}
