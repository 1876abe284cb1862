//! Hostile input: nothing panics, nothing hangs, what is promised to be bounded is. The bodies are those of the fuzz targets
//! in `fuzz/`; here they get generated fragments and mutations of the recorded inventories, for a bounded time.

#![expect(clippy::unwrap_used, reason = "a test: what cannot be read is a failure")]

#[path = "robust/bodies.rs"]
mod bodies;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use vmwright::inventory::{Inventory, LoadOptions, host_pattern, yaml};

/// All inventories and files of variables of the recorded cases.
static CORPUS: LazyLock<Vec<(bool, Vec<u8>)>> = LazyLock::new(|| {
    fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory/cases"),
        &mut found,
    );
    found.sort();
    let files = found.into_iter().filter_map(|path| {
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let ini = match extension.as_str() {
            "ini" => true,
            "yml" | "yaml" => false,
            _ => return None,
        };
        Some((ini, std::fs::read(path).unwrap()))
    });
    files.collect()
});

/// Pieces that mean something to the readers.
const PIECES: [&str; 44] = [
    "a",
    "web[1:3]",
    "[0:99999999999]",
    "[a:z:0]",
    "[",
    "]",
    "{",
    "}",
    "{{",
    "}}",
    "{%",
    "%}",
    "{{ a }}",
    ": ",
    ":\n",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    "#",
    " #",
    "'",
    "\"",
    "\\",
    "|",
    ">",
    "&a ",
    "*a",
    "<<: ",
    "!vault ",
    "!!int ",
    "=",
    "[g]\n",
    "[g:vars]\n",
    "[g:children]\n",
    "all:\n",
    "hosts:\n",
    "\u{0}",
    "\u{feff}",
    "é",
    "99999999999999999999999999999999999999999",
    "---\n",
    "$ANSIBLE_VAULT;1.1;AES256\n6162",
];

fn fragments() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

/// A recorded file with a few changes: bytes replaced, pieces put in, parts cut out and doubled.
fn mutations() -> impl Strategy<Value = (bool, Vec<u8>)> {
    let change = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0usize..5,
        any::<u8>(),
    );
    let changes = prop::collection::vec(change, 1..6);
    (any::<prop::sample::Index>(), changes).prop_map(|(file, changes)| {
        let (ini, mut bytes) = CORPUS[file.index(CORPUS.len())].clone();
        for (at, other, kind, byte) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            let piece = PIECES[other.index(PIECES.len())];
            let end = (at + other.index(40)).min(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.splice(at..at, piece.bytes())),
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let part = bytes[at..end].to_vec();
                    drop(bytes.splice(at..at, part));
                }
                _ => bytes.truncate(at),
            }
        }
        (ini, bytes)
    })
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![fragments(), prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn composer_line_hosts_and_pattern_stand_any_input(bytes in any_bytes()) {
        bodies::composer(&bytes);
        bodies::line(&bytes);
        bodies::hosts(&bytes);
        bodies::pattern(&bytes);
    }

    #[test]
    fn templates_stand_any_input(bytes in any_bytes()) {
        bodies::template(&bytes);
        bodies::template(&[b"{{ ", &bytes[..], b" }}"].concat());
    }

    #[test]
    fn inventories_stand_any_input(bytes in any_bytes()) {
        bodies::inventory("hosts.yml", &bytes);
        bodies::inventory("hosts.ini", &bytes);
        bodies::inventory("hosts", &bytes);
    }

    #[test]
    fn inventories_stand_mutations((ini, bytes) in mutations()) {
        bodies::inventory(if ini { "hosts.ini" } else { "hosts.yml" }, &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // Few: every intact form costs a derivation of a key.
    #[test]
    fn vaults_stand_any_input(bytes in any_bytes(), digits in "[0-9a-f\n ]{0,200}") {
        bodies::vault(&bytes);
        bodies::vault(format!("$ANSIBLE_VAULT;1.1;AES256\n{digits}").as_bytes());
    }
}

fn refused(text: &str) -> Option<&'static str> {
    yaml::parse(text, &Arc::from("a.yml")).err().map(|fault| fault.code)
}

#[test]
fn alias_bombs_and_deep_nesting_are_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert_eq!(refused(&bomb), Some("inventory/yaml-bound"));
    for open in ["[", "{a: ", "- ", "? "] {
        assert!(refused(&open.repeat(100_000)).is_some(), "{open}");
    }
    let deep = format!("{}x{}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(matches!(
        refused(&deep),
        Some("inventory/yaml-bound" | "inventory/yaml-syntax")
    ));
}

#[test]
fn huge_scalars_and_many_anchors_are_read() {
    assert_eq!(refused(&format!("a: {}", "x".repeat(4_000_000))), None);
    assert_eq!(refused(&format!("a: \"{}\"", "\\u00e9".repeat(200_000))), None);
    let anchors: String = (0..20_000).map(|number| format!("k{number}: &n{number} v\n")).collect();
    assert_eq!(refused(&anchors), None);
}

#[test]
fn huge_ranges_are_refused() {
    for name in [
        "web[0:999999999]",
        "w[0:99999][0:99999]",
        "w[0:99999999999999999999999999]",
        "w[a:z][a:z][a:z][a:z]",
        "w[1:9:0]",
    ] {
        assert!(host_pattern::expand(name).is_err(), "{name}");
    }
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hosts.ini"), b"web\xff\n").unwrap();
    let options = LoadOptions {
        sources: vec!["hosts.ini".to_owned()],
        working_dir: dir.path().to_owned(),
        ..LoadOptions::default()
    };
    let faults = Inventory::load(&options).unwrap_err();
    assert_eq!(faults[0].code, "inventory/not-utf8");
    bodies::inventory("hosts.ini", b"web\x00 a=\x00\n[\x00]\n");
    bodies::inventory("hosts.yml", b"all: {hosts: {\"a\\0\": {b: \"\\0\"}}}\n");
}
