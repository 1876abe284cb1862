//! What must hold for any input: shared by the property tests and the fuzz targets.
//!
//! Each body takes bytes, must not panic, and must end soon. Results are checked where a bound is promised.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use vmwright::diagnose::Place;
use vmwright::inventory::vault::Vault;
use vmwright::inventory::{Inventory, LoadOptions, host_pattern, lint, literal, words, yaml};
use vmwright::secret::Secret;

/// The YAML composer.
pub fn composer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file: Arc<str> = "fuzz.yml".into();
    if let Ok(document) = yaml::parse(&text, &file) {
        let _ = document.value.to_json();
    }
}

/// A whole inventory of one file, and what `lint` says to it.
pub fn inventory(name: &str, bytes: &[u8]) {
    let Ok(dir) = tempfile::tempdir() else { return };
    if std::fs::write(dir.path().join(name), bytes).is_err() {
        return;
    }
    let load = options(dir.path(), name);
    if let Ok(loaded) = Inventory::load(&load) {
        let _ = loaded.inventory.list_json(true);
        let hosts: Vec<String> = loaded.inventory.hosts().take(3).map(str::to_owned).collect();
        for host in hosts {
            let scope = loaded.inventory.scope(&host);
            for name in scope.names().into_iter().take(20) {
                let _ = scope.get(name);
            }
        }
    }
    let _ = lint::check(&lint::Options {
        load: &load,
        known: vec![lint::Known {
            name: "pihole_password",
            kind: "text",
            secret: true,
        }],
        vm_group: "vms",
        removable_group: "removable",
        allow: Default::default(),
    });
}

fn options(dir: &Path, source: &str) -> LoadOptions {
    LoadOptions {
        sources: vec![source.to_owned()],
        working_dir: dir.to_owned(),
        ..LoadOptions::default()
    }
}

/// Host names with ranges.
pub fn hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok((names, _)) = host_pattern::expand(&text) {
        assert!(names.len() <= host_pattern::MAX_HOSTS, "{} names", names.len());
    }
}

fn small() -> Option<&'static Inventory> {
    static SMALL: OnceLock<Option<Inventory>> = OnceLock::new();
    let small = SMALL.get_or_init(|| {
        let dir = tempfile::tempdir().ok()?;
        let text = "[web]\nweb[1:9]\n[db]\ndb[a:c] n=5 t='{{ n }}'\n[all_of:children]\nweb\ndb\n";
        std::fs::write(dir.path().join("hosts.ini"), text).ok()?;
        let loaded = Inventory::load(&options(dir.path(), "hosts.ini")).ok()?;
        Some(loaded.inventory)
    });
    small.as_ref()
}

/// Patterns of `--limit`.
pub fn pattern(bytes: &[u8]) {
    let Some(small) = small() else { return };
    if let Ok(hosts) = small.select(&String::from_utf8_lossy(bytes)) {
        assert!(hosts.len() <= 12, "{hosts:?}");
    }
}

/// The template engine.
pub fn template(bytes: &[u8]) {
    let Some(small) = small() else { return };
    let scope = small.scope("dba");
    let _ = scope.render(&String::from_utf8_lossy(bytes), &Place::whole("fuzz"));
}

/// The reader of encrypted texts.
pub fn vault(bytes: &[u8]) {
    let vault = Vault::with_passwords([Secret::new("password")]);
    let text = String::from_utf8_lossy(bytes);
    let _ = vault.decrypt(&text, &Place::new("fuzz", 1, 1));
}

/// The words of a host line and the literals in them.
pub fn line(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = literal::evaluate(&text, &Place::new("fuzz", 1, 1));
    for word in words::split(&text, 1).unwrap_or_default() {
        let _ = literal::evaluate(&word.text, &Place::new("fuzz", 1, word.column));
    }
}
