//! The rules of the code base that no compiler checks: which module may use which, what only one module may call, how long
//! a file may be, and that the documentation tells what the code does.
//!
//! Everything is read as text. "Code" below is `src` without comments and without the tests at the foot of a file; files
//! that hold tests only are left out.

#![expect(clippy::unwrap_used, reason = "a test: what cannot be read is a failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// What each module may use of the others; `cli` and the crate's root may use everything. Downwards only.
const MAY_USE: &[(&str, &[&str])] = &[
    ("workflow", &["diagnose", "engine", "machine", "stage", "state"]),
    (
        "stage",
        &[
            "cloud_init",
            "diagnose",
            "dns",
            "engine",
            "guest",
            "machine",
            "proxmox",
            "secret",
            "state",
        ],
    ),
    (
        "engine",
        &["diagnose", "dns", "guest", "machine", "proxmox", "secret", "state"],
    ),
    ("ui", &["diagnose", "engine", "machine", "secret", "settings", "state"]),
    ("cloud_init", &["diagnose", "inventory", "machine", "proxmox", "secret"]),
    ("machine", &["diagnose", "inventory", "proxmox", "secret"]),
    ("inventory", &["diagnose", "secret"]),
    // The doors take their addresses and identities from the machine.
    ("proxmox", &["diagnose", "machine", "secret"]),
    ("guest", &["diagnose", "machine", "secret"]),
    ("dns", &["diagnose", "secret"]),
    ("state", &["diagnose", "proxmox", "secret", "settings"]),
    ("settings", &["diagnose"]),
    // Written against the API's facts: a misreading in the client cannot hide in it.
    ("simulator", &["inventory"]),
    ("secret", &[]),
    ("diagnose", &[]),
];

/// What of a module the module above it may use, where that is less than all of it.
const MAY_USE_OF: &[(&str, &str, &[&str])] = &[
    ("ui", "engine", &["engine::event"]),
    // Which variables are secret: an excerpt does not show their lines.
    ("ui", "machine", &["machine::schema"]),
    ("machine", "proxmox", &["proxmox::ids"]),
    ("state", "proxmox", &["proxmox::ids"]),
];

/// What only these files, or files below these folders, may call, and why.
const ONLY_THERE: &[(&str, &[&str], &str)] = &[
    (
        r"\benv::(var|vars|var_os|vars_os)\b",
        &["cli/prepare.rs", "guest/run_folder.rs"],
        "the environment is read once and handed on; ssh's control folder goes to XDG_RUNTIME_DIR",
    ),
    (
        r"\bprocess::exit\b",
        &["cli/run.rs"],
        "only the second signal ends the process on the spot",
    ),
    (
        r"\bfs::write\(|\bFile::create\(",
        &[
            "cli/demo.rs",
            "cli/embedded.rs",
            "cli/simulator.rs",
            "guest/openssh.rs",
            "simulator/",
        ],
        "a crash in the middle leaves half a file: state::store writes beside it and renames",
    ),
    (
        r"\bsleep\(",
        &[
            "engine/",
            "stage/finalize/steps.rs",
            "proxmox/client.rs",
            "state/lock.rs",
            "inventory/script.rs",
            "cli/demo.rs",
            "simulator/",
        ],
        "waiting is the engine's: it is bounded, told and ends at Ctrl-C",
    ),
    (
        r"\bSystemTime::now\b",
        &["simulator/clock.rs"],
        "times that are kept are jiff::Timestamp, durations tokio::time::Instant",
    ),
    (
        r"\.expose\(\)",
        &[
            "secret.rs",
            "proxmox/",
            "dns/pihole.rs",
            "inventory/",
            "machine/",
            "cloud_init/render.rs",
            "cli/doors.rs",
        ],
        "a secret is opened where it is parsed or sent, and nowhere else",
    ),
    (
        r"\bprocess::(\{[^}]*)?Command\b",
        &[
            "guest/",
            "inventory/script.rs",
            "inventory/vault_source.rs",
            "inventory/lookup_pipe.rs",
            "cli/demo.rs",
            "simulator/",
        ],
        "programs are started by the SSH door, for dynamic inventories, for vault passwords and for the lookup pipe",
    ),
];

/// A file is at most this long.
const LINES: usize = 500;
/// Longer ones, with what they may come to and why.
const LONGER: &[(&str, usize, &str)] = &[
    (
        "engine/host.rs",
        550,
        "one function runs a stage, and what it needs stands beside it",
    ),
    ("guest/openssh_tests.rs", 600, "tests only"),
    ("simulator/guest/status.rs", 560, "a fifth of it is its tests"),
    ("stage/finalize/tests.rs", 640, "tests only"),
    ("stage/hardware/diff/tests.rs", 560, "tests only"),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder with this ending, sorted.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A regular expression.
fn re(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// A source file of `src`: its path below it, and its code.
struct Source {
    path: String,
    lines: usize,
    code: String,
    holds_tests_only: bool,
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let tests_only =
        re(r"(^|[/_])(tests?|testing|recordings|test_server)\.rs$|/tests/|(^|/)\w+_(tests|recordings)\.rs$");
    files(&src, "rs")
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
            let text = read(&file);
            Source {
                holds_tests_only: tests_only.is_match(&path),
                lines: text.lines().count(),
                code: code(&text),
                path,
            }
        })
        .collect()
}

/// The code that is not only for tests.
fn product() -> Vec<Source> {
    sources()
        .into_iter()
        .filter(|source| !source.holds_tests_only)
        .collect()
}

/// A text without comment lines and without what is only compiled for tests: the module at the foot, and single items of
/// one line.
fn code(text: &str) -> String {
    let foot = re(r"^(pub(\([a-z]+\))? )?mod \w+ \{");
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            while lines.next_if(|next| next.trim_start().starts_with("#[")).is_some() {}
            match lines.next() {
                Some(item) if foot.is_match(item.trim()) => break,
                Some(_) | None => continue,
            }
        }
        if !line.trim_start().starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn module(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

fn no_faults(what: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}

/// The paths behind `crate::` in a code, braces taken apart at the first level: `engine::event`, `secret::Redactor`.
fn crate_paths(code: &str) -> BTreeSet<String> {
    let path = re(r"\bcrate::(?:\{([^;]*?)\};|([a-z_]+(?:::\w+)?))");
    let mut found = BTreeSet::new();
    for captures in path.captures_iter(code) {
        match (captures.get(1), captures.get(2)) {
            (Some(braces), _) => found.extend(braces.as_str().split(',').map(|part| part.trim().to_owned())),
            (None, Some(one)) => drop(found.insert(one.as_str().to_owned())),
            (None, None) => {}
        }
    }
    found.retain(|path| path.starts_with(|first: char| first.is_ascii_lowercase()));
    found
}

#[test]
fn dependencies_run_downwards_only() {
    let may: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut faults = Vec::new();
    for source in product() {
        let own = module(&source.path);
        if matches!(own, "cli" | "lib" | "main") {
            continue;
        }
        let Some(allowed) = may.get(own) else {
            faults.push(format!(
                "src/{own} is a module that MAY_USE in tests/tidy.rs does not know"
            ));
            continue;
        };
        for used in crate_paths(&source.code) {
            let other = used.split("::").next().unwrap();
            if other != own && !allowed.contains(&other) {
                faults.push(format!("src/{} uses crate::{used}", source.path));
            }
            for (_, _, parts) in MAY_USE_OF.iter().filter(|(from, to, _)| *from == own && *to == other) {
                if !parts.iter().any(|part| used.starts_with(part)) {
                    faults.push(format!(
                        "src/{} uses crate::{used}, of {other} only {}",
                        source.path,
                        parts.join(", ")
                    ));
                }
            }
        }
    }
    no_faults("modules that use what they may not know", faults);
}

#[test]
fn some_calls_are_made_in_one_place_only() {
    let mut faults = Vec::new();
    for (pattern, places, why) in ONLY_THERE {
        let pattern = re(pattern);
        for source in product() {
            if places.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            if let Some(hit) = pattern.find(&source.code) {
                faults.push(format!("src/{}: `{}`; {why}", source.path, hit.as_str()));
            }
        }
    }
    no_faults("calls outside their place", faults);
}

#[test]
fn no_file_is_too_long() {
    let longer: BTreeMap<&str, usize> = LONGER.iter().map(|(path, lines, _)| (*path, *lines)).collect();
    let faults = sources()
        .into_iter()
        .filter(|source| source.lines > longer.get(source.path.as_str()).copied().unwrap_or(LINES))
        .map(|source| format!("src/{} has {} lines: it is asking to be two", source.path, source.lines))
        .collect();
    no_faults("files that are too long", faults);
}

/// The codes of diagnostics in the code: everything that is made as one, and every text that looks like one of an area
/// that has such, or that `docs/errors.md` has.
fn codes_of_code(mut areas: BTreeSet<String>) -> BTreeSet<String> {
    let made = re(r#"\b(?:error|warning|refuse|told|says)\(\s*"([a-z-]+)/[a-z0-9-]+""#);
    let text = re(r#""([a-z-]+)/([a-z0-9-]+)""#);
    let mut sources = product();
    sources.retain(|source| module(&source.path) != "simulator");
    for source in &sources {
        areas.extend(made.captures_iter(&source.code).map(|hit| hit[1].to_owned()));
    }
    let codes = |source: &Source| -> Vec<String> {
        text.captures_iter(&source.code)
            .filter(|hit| areas.contains(&hit[1]))
            .map(|hit| format!("{}/{}", &hit[1], &hit[2]))
            .collect()
    };
    sources.iter().flat_map(codes).collect()
}

#[test]
fn every_code_is_in_the_list_of_errors_and_the_other_way_round() {
    let page = read(&root().join("docs/errors.md"));
    let row = re(r"(?m)^\| `([a-z-]+)/([a-z0-9-]+)` \| (.*) \| (.*) \|$");
    let mut documented = BTreeSet::new();
    let mut faults = Vec::new();
    let mut last = String::new();
    for captures in row.captures_iter(&page) {
        let code = format!("{}/{}", &captures[1], &captures[2]);
        if captures[3].trim().is_empty() || captures[4].trim().is_empty() {
            faults.push(format!("{code} has no cause or no cure"));
        }
        if last.split('/').next() == Some(&captures[1]) && last >= code {
            faults.push(format!("{code} stands behind {last}: rows are sorted, each code once"));
        }
        last.clone_from(&code);
        documented.insert(code);
    }
    let areas = documented
        .iter()
        .filter_map(|code| Some(code.split_once('/')?.0.to_owned()))
        .collect();
    let made = codes_of_code(areas);
    assert!(
        made.len() > 100,
        "the codes were not found: has the way diagnostics are made changed?"
    );
    faults.extend(
        made.difference(&documented)
            .map(|code| format!("{code} is not in docs/errors.md")),
    );
    faults.extend(
        documented
            .difference(&made)
            .map(|code| format!("{code} is in docs/errors.md, but nothing makes it")),
    );
    no_faults("docs/errors.md and the code", faults);
}

#[test]
fn every_setting_and_variable_is_documented() {
    let page = read(&root().join("docs/settings.md"));
    let mut faults = Vec::new();
    for name in vmwright::settings::file::KEYS {
        if !page.contains(&format!("| `{name}` |")) {
            faults.push(format!("the setting {name} has no row"));
        }
    }
    for variable in vmwright::settings::env::VARIABLES {
        if !page.contains(&format!("`{}`", variable.name)) {
            faults.push(format!("the variable {} is not told", variable.name));
        }
    }
    no_faults("docs/settings.md", faults);
}

/// The documents: README, CHANGELOG and everything in docs.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    found.extend(files(&root().join("docs"), "md"));
    found
}

#[test]
fn the_commands_that_are_told_exist() {
    let cli = vmwright::cli::command();
    let verbs: BTreeMap<&str, &clap::Command> = cli.get_subcommands().map(|verb| (verb.get_name(), verb)).collect();
    let command = re(r"(?:^|[`$ (])(?:vmwright|cargo run(?: --\w+)* --) ([a-z][a-z-]+)((?: [^`\n]*)?)");
    let option = re(r"(?:^| )--([a-z][a-z-]+)");
    let mut faults = Vec::new();
    let mut check = |file: &str, text: &str| {
        for captures in command.captures_iter(text) {
            let Some(verb) = verbs.get(&captures[1]) else {
                faults.push(format!("{file}: there is no `vmwright {}`", &captures[1]));
                continue;
            };
            for given in option.captures_iter(&captures[2]) {
                let known =
                    |command: &clap::Command| command.get_arguments().any(|arg| arg.get_long() == Some(&given[1]));
                if !known(verb) && !known(&cli) {
                    faults.push(format!("{file}: `vmwright {}` has no --{}", &captures[1], &given[1]));
                }
            }
        }
    };
    // In documents: inline code, and blocks that are for a shell.
    let inline = re(r"`(vmwright [^`\n]+)`");
    let block = re(r"(?s)```(?:sh|console)\n(.*?)```");
    for path in documents() {
        let text = read(&path);
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        for captures in inline.captures_iter(&text).chain(block.captures_iter(&text)) {
            for line in captures[1]
                .lines()
                .filter(|line| line.starts_with("vmwright ") || line.starts_with("$ "))
            {
                check(&file, line);
            }
        }
    }
    // In messages: what the user is told to run.
    for source in product() {
        for captures in inline.captures_iter(&source.code) {
            check(&format!("src/{}", source.path), &captures[1]);
        }
    }
    for script in re(r"(?m)^(?:\$ )?\./([\w./-]+)").captures_iter(&read(&root().join("README.md"))) {
        if !root().join(&script[1]).is_file() {
            faults.push(format!("README.md: there is no ./{}", &script[1]));
        }
    }
    no_faults("commands that do not exist", faults);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let link = re(r"\]\(([^)#\s]+)(?:#[^)]*)?\)");
    let mut faults = Vec::new();
    for path in documents() {
        for captures in link.captures_iter(&read(&path)) {
            let target = &captures[1];
            if !target.contains("://") && !path.parent().unwrap().join(target).exists() {
                faults.push(format!("{}: {target}", path.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    no_faults("links that lead nowhere", faults);
}

#[test]
fn every_requirement_names_tests_that_exist() {
    let Ok(page) = fs::read_to_string(root().join("docs/requirements.md")) else {
        return;
    };
    let function = re(r"\bfn (\w+)");
    let mut known = BTreeSet::new();
    for folder in ["src", "tests", "benches"] {
        for file in files(&root().join(folder), "rs") {
            known.extend(function.captures_iter(&read(&file)).map(|hit| hit[1].to_owned()));
        }
    }
    let (row, quoted) = (
        re(r"(?m)^\| *(R\d{3}-\d+)[^|]*\|(.*)$"),
        re(r"`(?:[\w./-]+(?:::|/))*(\w+)`"),
    );
    let mut faults = Vec::new();
    for captures in row.captures_iter(&page) {
        let names: Vec<&str> = quoted
            .captures_iter(captures.get(2).unwrap().as_str())
            .map(|hit| hit.get(1).unwrap().as_str())
            .filter(|name| name.contains('_'))
            .collect();
        if !names.iter().any(|name| known.contains(*name)) {
            faults.push(format!("{}: no test of these names: {names:?}", &captures[1]));
        }
    }
    no_faults("docs/requirements.md", faults);
}
