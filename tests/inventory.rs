//! Inventories against ansible-core 2.19.
//!
//! Each directory of `tests/inventory/cases` holds an inventory, the arguments (`cmd`), and what Ansible answers: `list.json`
//! (`--list`), `hosts.json` (`--host` of each) and, for some, `patterns.json` (what patterns select).
//! `tests/inventory/refresh.sh` records them anew. `tests/inventory/bad` holds malformed inventories and what is told of them;
//! `tests/inventory/differences` holds those that are read differently on purpose. Where Ansible is installed, all cases and
//! random inventories are compared with it live as well.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

#[path = "inventory/common.rs"]
mod common;
#[path = "inventory/random.rs"]
mod random;

#[path = "inventory/templates.rs"]
mod templates;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use common::{Answer, answer, arguments, ask, cases, difference, name_of, oracle, skipped, told};
use serde_json::{Value as Json, json};
use vmwright::inventory::Inventory;

fn read(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_case_lists_as_ansible_does() {
    let cases = cases("cases");
    assert!(cases.len() >= 130, "only {} cases", cases.len());
    let mut failed = String::new();
    for case in cases {
        let name = name_of(&case);
        let Answer { list, hosts, .. } = answer(&case, &arguments(&case));
        let different = difference(&list, &read(&case.join("list.json")));
        if !different.is_empty() {
            writeln!(failed, "== {name} --list\n{different}").unwrap();
        } else if let Some(hosts) = hosts {
            let different = difference(&hosts, &read(&case.join("hosts.json")));
            if !different.is_empty() {
                writeln!(failed, "== {name} --host\n{different}").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// What a pattern selects; null where it is an error.
fn selected(inventory: &Inventory, pattern: &str) -> Json {
    inventory.select(pattern).map_or(Json::Null, Json::from)
}

/// Ansible's answer as vmwright gives it: nothing selected is an error there, unless groups without hosts were named.
fn same_selection(got: &Json, want: &Json) -> bool {
    let nothing = |json: &Json| json.as_array().is_none_or(Vec::is_empty);
    got == want || nothing(got) && nothing(want)
}

#[test]
fn patterns_select_as_ansible_does() {
    let mut count = 0;
    let mut failed = String::new();
    for case in cases("cases").iter().filter(|case| case.join("patterns.json").exists()) {
        let inventory = answer(case, &arguments(case)).inventory.unwrap();
        let tables = read(&case.join("patterns.json"));
        for (kind, table) in tables.as_object().unwrap() {
            for (pattern, want) in table.as_object().unwrap() {
                count += 1;
                let mut got = selected(&inventory, pattern);
                if kind == "limits" {
                    // A limit keeps the order of the inventory.
                    let order: Vec<&str> = inventory.hosts().collect();
                    if let Some(names) = got.as_array_mut() {
                        names.sort_by_key(|name| order.iter().position(|host| Some(*host) == name.as_str()));
                    }
                }
                if !same_selection(&got, want) {
                    let name = name_of(case);
                    writeln!(failed, "{name}: {kind} `{pattern}`: got {got}, want {want}").unwrap();
                }
            }
        }
    }
    assert!(count >= 120, "only {count} patterns");
    assert!(failed.is_empty(), "{failed}");
}

/// The faults, each with the code, file, line and column, in order: the file `told`. Each must have an excerpt, which
/// needs a line.
#[test]
fn every_malformed_inventory_is_told_with_its_place() {
    let all = cases("bad");
    assert!(all.len() >= 40, "only {} malformed inventories", all.len());
    let mut failed = String::new();
    for case in all {
        let (options, _) = common::options(&case, &arguments(&case));
        let name = name_of(&case);
        let Err(faults) = Inventory::load(&options) else {
            writeln!(failed, "== {name}: it was read").unwrap();
            continue;
        };
        let got: String = faults.iter().map(|fault| told(fault) + "\n").collect();
        if std::env::var_os("VMWRIGHT_RECORD").is_some() {
            std::fs::write(case.join("told"), &got).unwrap();
        }
        let want = std::fs::read_to_string(case.join("told")).unwrap_or_default();
        if got != want {
            writeln!(failed, "== {name}\n got:\n{got} want:\n{want}").unwrap();
        }
        for fault in &faults {
            if fault.help.is_empty() || fault.place.is_none() {
                writeln!(failed, "== {name}: {} has no help or no place", fault.code).unwrap();
            }
            let about_a_file = !case.join("without-place").exists();
            if about_a_file
                && !fault
                    .place
                    .as_ref()
                    .is_some_and(|place| place.line > 0 && place.column > 0)
            {
                writeln!(failed, "== {name}: {} has no line and column", fault.code).unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn every_case_lists_as_the_ansible_that_is_installed() {
    let Some(python) = oracle() else {
        skipped("inventories against a live Ansible");
        return;
    };
    let cases = cases("cases");
    let requests: Vec<Json> = cases
        .iter()
        .map(|case| {
            let mut request = json!({"cwd": case, "args": arguments(case)});
            if case.join("patterns.json").exists() {
                let tables = read(&case.join("patterns.json"));
                for kind in ["patterns", "limits"] {
                    request[kind] = tables[kind].as_object().unwrap().keys().cloned().collect();
                }
            }
            request
        })
        .collect();
    let mut failed = String::new();
    for (case, live) in cases.iter().zip(ask(&python, &requests)) {
        let name = name_of(case);
        let ours = answer(case, &arguments(case));
        failed += &prefixed(&format!("== {name} --list"), &difference(&ours.list, &live["list"]));
        if let Some(hosts) = &ours.hosts {
            failed += &prefixed(&format!("== {name} --host"), &difference(hosts, &live["hosts"]));
        }
        if case.join("patterns.json").exists() {
            let tables = read(&case.join("patterns.json"));
            for kind in ["patterns", "limits"] {
                let (ours, theirs) = (unordered(&tables[kind]), unordered(&live[kind]));
                failed += &prefixed(&format!("== {name} {kind}"), &difference(&ours, &theirs));
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// What patterns without positions select, in no order: that of groups of one level changes from run to run in Ansible, which
/// keeps them in sets. The recorded answers are compared in their order.
fn unordered(table: &Json) -> Json {
    let patterns = table.as_object().unwrap().iter();
    let patterns = patterns.filter(|(pattern, _)| !pattern.contains('['));
    let sorted = patterns.map(|(pattern, hosts)| {
        let mut hosts = hosts.clone();
        if let Json::Array(hosts) = &mut hosts {
            hosts.sort_by_key(Json::to_string);
        }
        (pattern.clone(), hosts)
    });
    Json::Object(sorted.collect())
}

fn prefixed(title: &str, different: &str) -> String {
    if different.is_empty() {
        String::new()
    } else {
        format!("{title}\n{different}\n")
    }
}

/// Inventories that vmwright reads differently on purpose: `told` holds what it says where it refuses, `ours.json` what it
/// lists where it reads, and `list.json` what Ansible makes of it (null where it refuses).
#[test]
fn every_difference_is_as_documented() {
    let cases = cases("differences");
    let record = std::env::var_os("VMWRIGHT_RECORD").is_some();
    let live = oracle().map(|python| {
        let request = |case: &PathBuf| json!({"cwd": case, "args": arguments(case)});
        ask(&python, &cases.iter().map(request).collect::<Vec<Json>>())
    });
    let keep = |path: PathBuf, json: &Json| {
        std::fs::write(path, serde_json::to_string_pretty(json).unwrap() + "\n").unwrap();
    };
    let mut failed = String::new();
    let documented = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coming-from-ansible.md"));
    let documented = documented.unwrap();
    for (index, case) in cases.iter().enumerate() {
        let name = name_of(case);
        if !documented.contains(&format!("`{name}`")) {
            writeln!(failed, "{name}: not in docs/coming-from-ansible.md").unwrap();
        }
        let ours = answer(case, &arguments(case)).list;
        if record {
            keep(case.join("ours.json"), &ours);
        }
        failed += &prefixed(
            &format!("== {name}"),
            &difference(&ours, &read(&case.join("ours.json"))),
        );
        if let Some(live) = &live {
            let theirs = &live[index]["list"];
            if record {
                keep(case.join("list.json"), theirs);
            }
            failed += &prefixed(
                &format!("== {name}, Ansible"),
                &difference(theirs, &read(&case.join("list.json"))),
            );
        }
        if ours == read(&case.join("list.json")) {
            writeln!(failed, "{name}: there is no difference").unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
