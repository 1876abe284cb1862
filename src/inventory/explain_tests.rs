//! Tests of [`super`]: inventories on disk, read as a whole.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::inventory::LoadOptions;
use crate::inventory::trace::What;

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn load(files: &[(&str, &str)], sources: &[&str], extra: &[&str]) -> (tempfile::TempDir, Inventory) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), files);
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let options = LoadOptions {
        sources: texts(sources),
        extra_vars: texts(extra),
        working_dir: dir.path().to_owned(),
        env: BTreeMap::new(),
        ..LoadOptions::default()
    };
    let loaded = Inventory::load(&options).unwrap();
    (dir, loaded.inventory)
}

/// Layer, place and value of each definition.
fn told(inventory: &Inventory, host: &str, name: &str) -> Vec<String> {
    let all = inventory.definitions(host);
    let list = all.get(name).map(Vec::as_slice).unwrap_or_default();
    let line = |definition: &Definition| {
        let value = definition.value.to_json();
        format!("{} {} {value}", definition.layer, definition.value.place)
    };
    list.iter().map(line).collect()
}

#[test]
fn definitions_come_in_the_order_of_precedence_with_what_one_layer_overrides() {
    let (_dir, inventory) = load(
        &[
            (
                "a.ini",
                "[all:vars]\nx=1\n[web]\nw x=3\n[web:vars]\nx=2\nx=22\n[eu]\nw x=33\n",
            ),
            ("b.yml", "web: {vars: {x: 222}}\n"),
            ("group_vars/all.yml", "x: 4\n"),
            ("group_vars/web/1.yml", "x: 5\n"),
            ("group_vars/web/2.yml", "x: 6\n"),
            ("host_vars/w", "x: 7\n"),
        ],
        &["a.ini", "b.yml"],
        &["x=8 x=80", "x=9"],
    );
    assert_eq!(
        told(&inventory, "w", "x"),
        [
            "inventory vars of group all a.ini:2:3 1",
            "inventory vars of group web a.ini:6:3 2",
            "inventory vars of group web a.ini:7:3 22",
            "inventory vars of group web b.yml:1:17 222",
            "group_vars/all group_vars/all.yml:1:4 4",
            "group_vars/web group_vars/web/1.yml:1:4 5",
            "group_vars/web group_vars/web/2.yml:1:4 6",
            "inventory vars of host w a.ini:4:5 3",
            "inventory vars of host w a.ini:9:5 33",
            "host_vars/w host_vars/w:1:4 7",
            "-e --extra-vars \"8\"",
            "-e --extra-vars \"80\"",
            "-e --extra-vars \"9\"",
        ]
    );
    let ranks: Vec<String> = inventory.ranks("w").into_iter().map(|rank| rank.name).collect();
    assert_eq!(ranks, ["all", "eu", "web"]);
}

#[test]
fn the_last_definition_is_the_value_in_every_recorded_case() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory/cases");
    let mut compared = 0;
    for case in [
        "precedence",
        "two-sources",
        "ini-repeated",
        "group-vars-directories",
        "play-adjacent-vars",
    ] {
        let case = cases.join(case);
        let arguments = std::fs::read_to_string(case.join("cmd")).unwrap_or_else(|_| "-i\nhosts.ini\n".to_owned());
        let lines: Vec<&str> = arguments.lines().collect();
        let of = |option: &str| {
            lines
                .chunks(2)
                .filter(|pair| pair[0] == option)
                .map(|pair| pair[1].to_owned())
                .collect()
        };
        let options = LoadOptions {
            sources: of("-i"),
            extra_vars: of("-e"),
            working_dir: case,
            ..LoadOptions::default()
        };
        let inventory = Inventory::load(&options).unwrap().inventory;
        for host in inventory.hosts() {
            let scope = inventory.scope(host);
            let all = inventory.definitions(host);
            let names: Vec<&str> = all.keys().map(|name| &**name).collect();
            assert_eq!(names, scope.names(), "{host}");
            for (name, list) in &all {
                assert_eq!(scope.raw(name), list.last().map(|last| &*last.value), "{host} {name}");
                assert!(!is_merged(scope.raw(name).unwrap(), list));
                let other = Value::text("merged", scope.raw(name).unwrap().place.clone());
                assert!(is_merged(&other, list));
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared}");
}

#[test]
fn paths_are_read_and_written() {
    for (text, shown) in [
        ("a", "a"),
        ("a.b.c", "a.b.c"),
        ("a[1].b", "a[1].b"),
        ("a['x.y'][0]", "a['x.y'][0]"),
        ("a[\"b\"]", "a.b"),
        ("a[-1]", "a[-1]"),
        ("a[b]", "a.b"),
    ] {
        assert_eq!(KeyPath::parse(text).unwrap().to_string(), shown, "{text}");
    }
    for text in ["", ".a", "a..b", "a.", "a[1", "a['x]", "a[1]b"] {
        assert!(KeyPath::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_path_leads_through_templates_and_evaluates_nothing_beside_it() {
    let (_dir, inventory) = load(
        &[(
            "h.yml",
            "all: {hosts: {w: {m: {a: '{{ nothing }}', b: [1, '{{ c }}']}, c: {d: '{{ e }}!'}, e: x}}}\n",
        )],
        &["h.yml"],
        &[],
    );
    let scope = inventory.scope("w");
    let get = |path: &str| scope.explain(&KeyPath::parse(path).unwrap());
    let value = |path: &str| get(path).value.unwrap().map(|value| value.to_json());
    assert_eq!(value("m.b[0]"), Some(1.into()));
    assert_eq!(value("m.b[-1].d"), Some("x!".into()));
    assert_eq!(value("m.b[2]"), None);
    assert_eq!(value("m.b[1].z"), None);
    assert_eq!(value("inventory_hostname"), Some("w".into()));
    assert_eq!(get("m.a").value.unwrap_err().code, "inventory/undefined-variable");
}

#[test]
fn steps_tell_what_each_template_used_and_gave() {
    let (_dir, inventory) = load(
        &[(
            "h.ini",
            "w a='{{ b }}.{{ m.k }}' b='{{ inventory_hostname }}' m='{\"k\": 1}' bad='{{ b }}{{ typo }}'\n",
        )],
        &["h.ini"],
        &[],
    );
    let scope = inventory.scope("w");
    let explained = scope.explain(&KeyPath::parse("a").unwrap());
    let used = |step: &Step| -> Vec<String> { step.used.iter().map(|used| used.label.clone()).collect() };
    let [a, b] = explained.steps.as_slice() else {
        panic!("{:?}", explained.steps);
    };
    assert_eq!((&*a.label, used(a)), ("a", vec!["b".to_owned(), "m.k".to_owned()]));
    assert!(matches!(a.used[0].what, What::Step(1)), "{:?}", a.used);
    assert_eq!(a.result.clone().unwrap().unwrap().to_json(), "w.1");
    assert_eq!(used(b), ["inventory_hostname"]);
    assert!(matches!(&b.used[0].what, What::Magic(Some(name)) if name == "w"));
    // Asked for again, the same steps are told.
    assert_eq!(scope.explain(&KeyPath::parse("a").unwrap()).steps.len(), 2);
    let bad = scope.explain(&KeyPath::parse("bad").unwrap());
    assert!(matches!(bad.steps[0].used[1].what, What::Missing));
    assert_eq!(bad.steps[0].result, Err("`typo` is not defined".to_owned()));
}

proptest::proptest! {
    #[test]
    fn no_path_makes_it_panic(text in ".*", path in "[a-c.\\[\\]'\"0-9é-]{0,24}") {
        for text in [text, path] {
            if let Ok(path) = KeyPath::parse(&text) {
                let _ = path.to_string();
                let value = Value::from_json(&serde_json::json!({"a": [1, {"b": 2}]}), &crate::diagnose::Place::whole("t"));
                let _ = inside(&value, &path.inside);
            }
        }
    }
}
