//! No text makes the readers of an inventory panic, hang or exhaust memory: random bytes, and mutations of fragments that
//! the readers know. Faults are told as diagnostics.

#![expect(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use vmwright::inventory::vault::Vault;
use vmwright::inventory::{Inventory, LoadOptions, host_pattern, words, yaml};

/// Pieces that mean something to one of the readers.
const PIECES: &[&str] = &[
    "a: 1\n",
    "all:\n  hosts:\n",
    "  web[0:3]:\n",
    "[web]\n",
    "[web:vars]\n",
    "[web:children]\n",
    "web ",
    "web[01:10] ",
    "k=v ",
    "k='v #w' ",
    "&x ",
    "*x\n",
    "<<: *x\n",
    "- ",
    "? ",
    ": ",
    "!vault |\n",
    "$ANSIBLE_VAULT;1.1;AES256\n",
    "6162",
    "{{ a }}",
    "{% for x in y %}",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    "\t",
    "  ",
    "#",
    "\u{feff}",
    "\0",
    "\u{85}",
    "é",
    "0644",
    "12:30",
    "---\n",
    "...\n",
    "|2-\n",
    ">\n",
];

fn fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => (prop::sample::select(PIECES), 1..200_usize).prop_map(|(piece, times)| piece.repeat(times)),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Loads a text as the file of an inventory, and takes all that it has for granted.
fn load(name: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), bytes).unwrap();
    let options = LoadOptions {
        sources: vec![name.to_owned()],
        working_dir: dir.path().to_owned(),
        ..LoadOptions::default()
    };
    if let Ok(loaded) = Inventory::load(&options) {
        for host in loaded.inventory.hosts().take(5) {
            let scope = loaded.inventory.scope(host);
            for name in scope.names() {
                let _ = scope.get(name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn yaml_of_any_text_ends(text in fragments()) {
        let _ = yaml::parse(&text, &"f".into());
    }

    #[test]
    fn an_inventory_of_any_text_ends(text in fragments(), name in prop::sample::select(&["hosts", "hosts.ini", "hosts.yml"][..])) {
        load(name, text.as_bytes());
    }

    #[test]
    fn an_inventory_of_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        load("hosts", &bytes);
    }

    #[test]
    fn host_ranges_words_and_vaults_of_any_text_end(text in fragments()) {
        let _ = host_pattern::expand(&text);
        let _ = words::split(&text, 1);
        let _ = Vault::default().decrypt(&text, &vmwright::diagnose::Place::whole("f"));
    }

    #[test]
    fn patterns_of_any_text_end(text in fragments()) {
        let options = LoadOptions { sources: vec!["web01,web02,".to_owned()], ..LoadOptions::default() };
        let inventory = Inventory::load(&options).unwrap().inventory;
        // `@` would name a file.
        let _ = inventory.select(text.trim_start_matches('@'));
    }
}

#[test]
fn bombs_are_refused() {
    let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        aliases += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", "));
    }
    assert_eq!(
        yaml::parse(&aliases, &"f".into()).unwrap_err().code,
        "inventory/yaml-bound"
    );
    for deep in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        assert!(yaml::parse(&deep, &"f".into()).is_err());
    }
    assert!(host_pattern::expand("web[0:999999999]").is_err());
    assert!(host_pattern::expand("w[0:9999][0:9999][0:9999]").is_err());
    let huge = format!("a: {}", "x".repeat(5_000_000));
    assert!(yaml::parse(&huge, &"f".into()).is_ok());
}
