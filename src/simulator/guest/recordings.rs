//! The simulated cloud-init against what real ones printed. The recordings lie outside the project: see [`reference`].

use std::path::PathBuf;

use super::*;
use serde_json::Value;

/// The directory of recordings, or a word on stderr.
fn reference() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let dir = std::env::var_os("VMWRIGHT_REFERENCE").map_or_else(beside, PathBuf::from);
    let dir = dir.join("cloud-init-status");
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("SKIPPED: no recordings in {} (set VMWRIGHT_REFERENCE)", dir.display());
    None
}

fn simulated(version: CloudInitVersion, recording: &Value) -> status::Printed {
    let text = |key: &str| recording[key].as_str().map(str::to_owned);
    let seed = text("user_data").map(|user_data| Seed {
        user_data,
        network_data: text("network_config").unwrap_or_default(),
        meta_data: "instance-id: rec\n".to_owned(),
    });
    let on = PowerOn {
        now_ms: 1_796_075_390_000,
        seed,
        nics: vec![Nic {
            index: 0,
            mac: "52:54:00:00:00:01".to_owned(),
            bridge: "vmbr0".to_owned(),
            link_down: false,
            dhcp_address: String::new(),
        }],
        agent_device: true,
        behaviour: GuestBehaviour {
            cloud_init_version: version,
            ..GuestBehaviour::default()
        },
    };
    let mut guest = Guest::new_from_template(&GuestImage::default(), 1);
    guest.power_on(on, &Durations::zero());
    guest.cloud_init().unwrap()
}

/// Keys in order, at every depth but inside the lists of errors.
fn keys(value: &Value) -> Vec<String> {
    let Some(map) = value.as_object() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (key, value) in map {
        all.push(key.clone());
        if !key.contains("recoverable") {
            all.extend(keys(value).into_iter().map(|below| format!("{key}.{below}")));
        }
    }
    all
}

#[test]
fn every_case_ends_as_recorded() {
    let Some(dir) = reference() else { return };
    let mut seen = 0;
    for (folder, version) in [
        ("bookworm-22.4.2-container", CloudInitVersion::V22),
        ("trixie-25.1.4-container", CloudInitVersion::V25),
    ] {
        for case in [
            "bad-network-config",
            "bootcmd-fails",
            "good",
            "invalid-yaml",
            "module-exception",
            "no-drive",
            "no-header",
            "runcmd-fails",
            "schema-deprecated",
            "schema-unknown-key",
            "schema-wrong-type",
        ] {
            let text = std::fs::read_to_string(dir.join(folder).join(format!("{case}.json"))).unwrap();
            let recording: Value = serde_json::from_str(&text).unwrap();
            let real = &recording["final"][0];
            let ours = simulated(version, &recording);
            let parsed: Value = serde_json::from_str(&ours.json).unwrap();
            let name = format!("{folder}/{case}");
            assert_eq!(keys(&parsed), keys(&real["parsed"]), "{name}");
            for key in ["status", "extended_status", "boot_status_code", "datasource"] {
                assert_eq!(parsed.get(key), real["parsed"].get(key), "{name} {key}");
            }
            let count = |value: &Value| value["errors"].as_array().unwrap().is_empty();
            assert_eq!(count(&parsed), count(&real["parsed"]), "{name} errors");
            let levels = |value: &Value| value.get("recoverable_errors").map(self::keys);
            let simple = !matches!(case, "schema-wrong-type" | "module-exception" | "bootcmd-fails");
            if simple {
                assert_eq!(levels(&parsed), levels(&real["parsed"]), "{name} levels");
            }
            assert_eq!(Value::from(ours.exit), real["exit_code"], "{name} exit");
            let plain = &recording["final"][1]["stdout"];
            assert_eq!(Value::from(ours.text.clone()), *plain, "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 22);
}
