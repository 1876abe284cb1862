//! Random inventories, read by vmwright and by the Ansible that is installed.
//!
//! ```text
//! proptest --(texts of INI, YAML, TOML)--> one directory each --> both answers, which must be equal;
//!                                                                 what Ansible refuses is refused
//! ```
//!
//! `VMWRIGHT_RANDOM_INVENTORIES` says how many, `VMWRIGHT_RANDOM_SEED` which.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value as Json, json};

use vmwright::inventory::Inventory;

use super::common::{answer, ask, difference, oracle, skipped};

const GROUPS: [&str; 8] = ["a", "b", "c", "d", "e", "all", "ungrouped", "g-1.é"];

/// The groups that may be parents or children: Ansible loses hosts when `ungrouped` is one.
fn relative() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "c", "d", "e", "all", "g-1.é"][..]).prop_map(str::to_owned)
}

fn group() -> impl Strategy<Value = String> {
    prop::sample::select(&GROUPS[..]).prop_map(str::to_owned)
}

/// A host as an inventory names it.
fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-c]?[hw][1-4]",
        2 => "[hw]\\[[0-9]{1,2}:[0-9]{1,2}(:[0-3])?\\](\\.x)?",
        1 => "[hw]\\[0[0-3]:0[2-9]\\]",
        1 => "[hw]\\[[a-d]:[c-f](:2)?\\]",
        1 => "h\\[1:2\\]\\[[ab]:c\\]",
        1 => "[hw][1-4]:[0-9]{1,4}",
        1 => "\\[[hw][1-4]\\]:22",
        1 => "\\[?(::1|fe80::[0-9a-f]{1,4}|1:2::\\[1:3\\])(\\]:22)?",
        1 => "10\\.0\\.0\\.(\\[1:3\\]|[0-9])(:22)?",
        1 => "(localhost|é1|A\\.b-c|h_1|1|-h|h-|x\\.|a@b|h1,h2)",
        1 => "[a-c1:.\\[\\]_-]{2,6}",
    ]
}

/// The value of a variable, as it may stand in an INI inventory.
fn ini_value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,5}",
        3 => "[-+]{0,2}[0-9]{1,4}",
        2 => "[-+]?[0-9]{0,3}[._]?[0-9]{0,3}([eE][-+]?[0-9]{1,2})?[jJ]?",
        2 => "0[xob][0-9a-f_]{0,3}",
        2 => prop::sample::select(&[
            "True", "False", "None", "true", "yes", "no", "[]", "{}", "()", "[1, 2]", "[1,'a',None]", "{'a': 1}", "{'a': [1, {2: 3}]}",
            "(1,)", "(1)", "1,2", "[a]", "{a}", "'x'", "'x''y'", "'x' \"y\"", "u'x'", "r'\\n'", "b'x'", "'\\n\\x41'", "{{ x }}",
            "{% if x %}y{% endif %}", "a=b", "=", "#x", "1 # x", "a # x", "''", "\"\"", "'", "\"", "\\", "\\\\", "...", "None,", "[1,", "set()",
            "-(1)", "- 1", "1 2", "1-2", "1+2j", "10.0.0.1", "1:2", "é", "日本", "~", "null", "[True, False]", "{'k': (1, 'x')}", "-True",
            "{1, 2}", "f'x'", "'a' b'b'", "''''x''''", "'''x'''", "[[[[]]]]", "lambda: 1", "x()", "[*x]", "{**x}", "not 1", "1if 1else 2",
        ][..]).prop_map(str::to_owned),
        1 => "[-+0-9a-cTFN'\"\\[\\](){},:. #\\\\=_]{0,8}",
    ]
}

/// A value on a host's line: bare, or in quotes.
fn word() -> impl Strategy<Value = String> {
    (ini_value(), 0..4u8).prop_map(|(value, quote)| match quote {
        0 => format!("\"{value}\""),
        1 => format!("'{value}'"),
        _ => value,
    })
}

fn variable() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[k-n]", 1 => Just("ansible_group_priority".to_owned()), 1 => "(ansible_port|ansible_host|é|n-1|n\\.1)"]
}

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![8 => Just(String::new()), 1 => "[ \t]{0,2}(#|;) ?[a-z'\"]{0,3}", 1 => "[ \t]{1,2}"]
}

fn ini() -> impl Strategy<Value = String> {
    let host_line = (host(), prop::collection::vec(("[k-n]", word()), 0..3), blank()).prop_map(|(host, vars, end)| {
        let vars: String = vars.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        let end = if end.starts_with([';', '#']) {
            format!(" {end}")
        } else {
            end
        };
        format!("{host}{vars}{}\n", end.replace(';', "#"))
    });
    let var_line = (variable(), "( ?= ?)", ini_value()).prop_map(|(key, equals, value)| {
        let value = if key == "ansible_group_priority" {
            value.len().to_string()
        } else {
            value
        };
        format!("{key}{equals}{value}\n")
    });
    let child_line = (relative(), blank()).prop_map(|(group, end)| format!("{group} {}\n", end.replace(';', "#")));
    let hosts = prop::collection::vec(host_line, 0..4);
    let vars = prop::collection::vec(var_line, 0..5);
    let children = prop::collection::vec(child_line, 0..3);
    let section = prop_oneof![
        4 => (group(), hosts).prop_map(|(group, lines)| format!("[{group}]\n{}", lines.concat())),
        2 => (group(), vars).prop_map(|(group, lines)| format!("[{group}:vars]\n{}", lines.concat())),
        2 => (relative(), children).prop_map(|(group, lines)| format!("[{group}:children]\n{}", lines.concat())),
        1 => blank().prop_map(|line| line.trim_start().to_owned() + "\n"),
    ];
    (prop::collection::vec(section, 1..7), 0..10u8).prop_map(|(sections, end)| {
        let mut text = sections.concat();
        if end > 0 {
            let named = GROUPS.iter().filter(|group| text.contains(*group));
            let headers: String = named.map(|group| format!("[{group}]\n")).collect();
            text += &headers;
        }
        match end {
            1 => text.replace('\n', "\r\n"),
            2 => text.trim_end().to_owned(),
            _ => text,
        }
    })
}

/// A scalar as it may stand in a YAML inventory.
fn yaml_scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,5}",
        2 => "[-+]?[0-9]{1,4}",
        2 => "[-+]?[0-9]{1,3}[._:]?[0-9]{0,3}([eE][-+]?[0-9]{1,2})?",
        1 => "0[xob]?[0-9a-f_]{0,3}",
        2 => prop::sample::select(&[
            "yes", "No", "ON", "off", "true", "TRUE", "y", "null", "~", "Null", "''", "\"\"", "'it''s'", "\"a\\tb\\u00e9\"", "[]", "{}", "[a, 1, yes]",
            "{k: 1, l: [2]}", "{1: a, yes: b, null: c}", "!!str 1", "!!int \"1\"", "!unsafe '{{ x }}'", "'{{ x }}'", "a b # c", "a#b", "12:30:45", "1:2",
            ".inf", ".5", "5.", "1e3", "1.0e+3", "0o7", "1_000", "é", "日本 語", "a: b", "- a", "*x", "&x a", "@a", "`a", "%a", "? a", "!!float 1",
            "!!bool yes", "!!null x", "[a, [b, {c: d}]]", "=", "<<", "---", "|", ">", "a\\n",
        ][..]).prop_map(str::to_owned),
    ]
}

fn yaml_group(name: &str, depth: u32) -> BoxedStrategy<String> {
    let indent = "    ".repeat(depth as usize + 1);
    let inner = format!("{indent}    ");
    let vars = prop::collection::btree_map("[k-n]", yaml_scalar(), 0..4);
    let hosts = prop::collection::btree_map(host(), prop::collection::btree_map("[k-n]", yaml_scalar(), 0..3), 0..3);
    let children = if depth == 0 && name != "ungrouped" {
        prop::collection::btree_set(prop::sample::select(&["a", "b", "c"][..]), 0..3)
            .prop_flat_map(|names| names.into_iter().map(|name| yaml_group(name, 2)).collect::<Vec<_>>())
            .boxed()
    } else {
        Just(Vec::new()).boxed()
    };
    let name = name.to_owned();
    (vars, hosts, children, 0..8u8)
        .prop_map(move |(vars, hosts, children, empty)| {
            let outer = "    ".repeat(depth as usize);
            let mut text = format!("{outer}{name}:\n");
            if empty == 0 {
                return text;
            }
            if !children.is_empty() {
                writeln!(text, "{indent}children:\n{}", children.concat().trim_end()).ok();
            }
            if !hosts.is_empty() {
                writeln!(text, "{indent}hosts:").ok();
                for (host, vars) in hosts {
                    writeln!(text, "{inner}\"{host}\":").ok();
                    for (key, value) in vars {
                        writeln!(text, "{inner}  {key}: {value}").ok();
                    }
                }
            }
            if !vars.is_empty() {
                writeln!(text, "{indent}vars:").ok();
                for (key, value) in vars {
                    writeln!(text, "{inner}{key}: {value}").ok();
                }
            }
            text
        })
        .boxed()
}

fn yaml() -> impl Strategy<Value = String> {
    prop::sample::subsequence(vec!["all", "a", "d", "ungrouped"], 1..4)
        .prop_flat_map(|names| names.into_iter().map(|name| yaml_group(name, 0)).collect::<Vec<_>>())
        .prop_map(|groups| groups.concat())
}

fn toml() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "[-+]?[1-9][0-9]{0,3}",
        "0[xob][01]{1,3}",
        "[0-9]\\.[0-9]{1,2}(e[0-9])?",
        "(true|false|\"a b\"|'x\\\\n'|\"\\\\t\"|\\[1, 2\\]|\\[\\]|\\{\\}|\\{a = 1, b.c = 2\\}|1979-05-27|07:32:00|1979-05-27T07:32:00Z)",
    ];
    let vars = prop::collection::btree_map("[k-n]", value, 0..3);
    let hosts = prop::collection::btree_map(host(), vars.clone(), 0..4);
    let children = prop::collection::vec(prop::sample::select(&GROUPS[..5]), 0..3);
    let group = (hosts, vars, children);
    prop::collection::btree_map(prop::sample::select(&GROUPS[..7]), group, 1..4).prop_map(|groups| {
        let mut text = String::new();
        let table = |vars: &std::collections::BTreeMap<String, String>| {
            let vars: Vec<String> = vars.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            vars.join(", ")
        };
        for (name, (hosts, vars, children)) in groups {
            let children = if name == "ungrouped" { Vec::new() } else { children };
            writeln!(text, "[{name}]\nchildren = {children:?}\n[{name}.hosts]").ok();
            for (host, vars) in hosts {
                writeln!(text, "\"{host}\" = {{ {} }}", table(&vars)).ok();
            }
            writeln!(
                text,
                "[{name}.vars]\n{}",
                table(&vars)
                    .replace(", k", "\nk")
                    .replace(", l", "\nl")
                    .replace(", m =", "\nm =")
                    .replace(", n", "\nn")
            )
            .ok();
        }
        text
    })
}

/// A pattern of hosts.
fn pattern() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        4 => group(),
        3 => "[a-c]?[hw][1-4]",
        2 => "[a-e*?hw][1-4*?]?",
        2 => "([a-e*]|[hw][*?])\\[-?[0-9]\\]",
        2 => "([a-e*]|all)\\[[0-9][:-][0-9]?\\]",
        1 => "[hw]\\[!?[0-9](-[0-9])?\\]",
        1 => "~[hw\\.][0-9\\.]?[*+$]?",
        1 => "(::1|fe80::\\*|10\\.0\\.0\\.[0-9*]|localhost|h1:22)",
    ];
    let sign = prop_oneof![5 => Just(""), 1 => Just("!"), 1 => Just("&")];
    let signed = (sign, one).prop_map(|(sign, one)| format!("{sign}{one}"));
    (
        prop::collection::vec(signed, 1..4),
        prop::sample::select(&[",", ":", " , ", ",,", "::"][..]),
    )
        .prop_map(|(parts, between)| parts.join(between))
}

/// Files of variables beside the inventory.
fn beside() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let value = "([a-z]{1,3}|[1-9][0-9]?|yes|\\[1, a\\]|\\{x: 1\\}|'\\{\\{ k \\}\\}')";
    let vars = prop::collection::btree_map("[k-n]", value, 0..3).prop_map(|vars| {
        let lines = vars.iter().map(|(key, value)| format!("{key}: {value}\n"));
        lines.collect::<String>()
    });
    let path = prop::sample::select(
        &[
            "group_vars/all.yml",
            "group_vars/all",
            "group_vars/a/z.yml",
            "group_vars/a/b.json",
            "group_vars/b.yaml",
            "group_vars/ungrouped.json",
            "host_vars/h1.yml",
            "host_vars/h1",
            "host_vars/w1/a",
            "host_vars/w1/a.txt",
            "host_vars/w2",
        ][..],
    );
    prop::collection::vec((path, vars), 0..4)
}

/// Where vmwright refuses what Ansible reads, on purpose: docs/coming-from-ansible.md.
fn meant(ours: &Json) -> bool {
    let told = ours["faults"].to_string();
    [
        "is after its end",
        "is not between 0 and 65535",
        "the step of the range",
        "neither a number nor a letter",
        "inventory/yaml-tag",
        "inventory/yaml-value",
        "inventory/yaml-duplicate-key",
        "inventory/group-priority",
    ]
    .iter()
    .any(|known| told.contains(known))
}

/// The patterns that select other hosts. One that matches nothing is an error, on purpose.
fn selections(inventory: &Inventory, theirs: &Json) -> String {
    let mut out = String::new();
    for (pattern, want) in theirs.as_object().into_iter().flatten() {
        let Ok(got) = inventory.select(pattern) else {
            continue;
        };
        // The order of groups of one level varies from run to run in Ansible, and with it what a position selects.
        let positions = pattern.contains('[');
        let mut want: Vec<&str> = want.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let mut got: Vec<&str> = got.iter().map(String::as_str).collect();
        want.sort_unstable();
        got.sort_unstable();
        if got != want && !(positions && got.len() == want.len()) {
            writeln!(out, "  the pattern `{pattern}`: got {got:?}, want {want:?}").ok();
        }
    }
    out
}

#[test]
fn random_inventories_are_read_as_ansible_does() {
    let Some(python) = oracle() else {
        skipped("random inventories against a live Ansible");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("VMWRIGHT_RANDOM_INVENTORIES").unwrap_or(60);
    let seed = number("VMWRIGHT_RANDOM_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let strategy = prop_oneof![
        3 => ini().prop_map(|text| ("hosts.ini", text)),
        2 => yaml().prop_map(|text| ("hosts.yml", text)),
        1 => toml().prop_map(|text| ("hosts.toml", text)),
    ];
    let root = tempfile::tempdir().unwrap();
    let mut requests = Vec::new();
    let mut texts = Vec::new();
    let patterns = prop::collection::vec(pattern(), 6);
    let beside = beside();
    for index in 0..count {
        let (name, text) = strategy.new_tree(&mut runner).unwrap().current();
        let dir = root.path().join(index.to_string());
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(name), &text).unwrap();
        let mut text = text;
        for (path, vars) in beside.new_tree(&mut runner).unwrap().current() {
            let path = dir.join(path);
            if std::fs::create_dir_all(path.parent().unwrap()).is_err() {
                continue;
            }
            // A directory may stand in its place.
            if std::fs::write(&path, &vars).is_ok() {
                writeln!(text, "--- {}\n{vars}", path.display()).unwrap();
            }
        }
        let patterns = patterns.new_tree(&mut runner).unwrap().current();
        requests.push(json!({"cwd": dir, "args": ["-i", name], "patterns": patterns}));
        texts.push((dir, name, text));
    }
    let mut failed = String::new();
    let mut read = 0;
    for ((dir, name, text), live) in texts.iter().zip(ask(&python, &requests)) {
        let ours = answer(dir, &["-i".to_owned(), (*name).to_owned()]);
        let refused = live["list"].is_null() || live["stderr"].to_string().contains("Unable to parse");
        let different = match (refused, ours.inventory.is_none()) {
            (true, true) => continue,
            (false, true) if meant(&ours.list) => continue,
            (true, false) => format!("  read, but Ansible says {}\n", live["stderr"]),
            (false, _) => {
                read += 1;
                let hosts = ours.hosts.as_ref().map(|hosts| difference(hosts, &live["hosts"]));
                let selected = ours
                    .inventory
                    .as_ref()
                    .map(|inventory| selections(inventory, &live["patterns"]));
                difference(&ours.list, &live["list"]) + &hosts.unwrap_or_default() + &selected.unwrap_or_default()
            }
        };
        if !different.is_empty() {
            writeln!(failed, "== {name}\n{text}\n--\n{different}").unwrap();
        }
    }
    assert!(failed.is_empty(), "seed {seed}\n{failed}");
    assert!(read * 3 > count, "only {read} of {count} could be read (seed {seed})");
}
