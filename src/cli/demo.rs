//! `demo`: three hosts on the embedded cluster, then the same command again to show that nothing changes, then what was
//! built. It needs no root, no network and no configuration, and touches nothing outside its directory.

use std::path::{Path, PathBuf};

use super::args::{self, Global, Sources};
use super::{Problems, provision, say, status};
use crate::diagnose::{Diagnostic, Exit, Place};

/// The demo's inventory, as in `inventory-examples/demo`.
const FILES: [(&str, &str); 6] = [
    ("hosts.ini", include_str!("../../inventory-examples/demo/hosts.ini")),
    (
        "vmwright.yaml",
        include_str!("../../inventory-examples/demo/vmwright.yaml"),
    ),
    (
        "group_vars/all.yml",
        include_str!("../../inventory-examples/demo/group_vars/all.yml"),
    ),
    (
        "group_vars/vms.yml",
        include_str!("../../inventory-examples/demo/group_vars/vms.yml"),
    ),
    (
        "group_vars/proxmox_nodes.yml",
        include_str!("../../inventory-examples/demo/group_vars/proxmox_nodes.yml"),
    ),
    (
        "host_vars/db-0.yml",
        include_str!("../../inventory-examples/demo/host_vars/db-0.yml"),
    ),
];

/// Runs the demo.
pub async fn run(global: &Global, args: &args::Demo) -> Result<Exit, Problems> {
    let (dir, kept) = match &args.dir {
        Some(dir) => (dir.clone(), None),
        None => {
            let kept = tempfile::tempdir().map_err(|error| cannot(&error, &std::env::temp_dir()))?;
            (kept.path().to_owned(), Some(kept))
        }
    };
    write_inventory(&dir)?;
    let shown = dir.display();
    say::talk(&format!(
        "The demo's inventory, its cluster and everything it writes: {shown}\n"
    ));
    say::talk(&format!("$ vmwright provision -i {shown}"));
    let mut exit = provision::run(global, &provision_args(&dir, args.speed)).await?;
    if exit == Exit::Done {
        say::talk(&format!(
            "\nThe same command again: nothing changes.\n\n$ vmwright provision -i {shown}"
        ));
        exit = provision::run(global, &provision_args(&dir, args.speed)).await?;
    }
    if exit == Exit::Done {
        say::talk(&format!("\nWhat was built:\n\n$ vmwright status -i {shown}"));
        exit = status::run(global, &status_args(&dir, args.speed)).await?;
    }
    if kept.is_some() {
        say::talk("\nThe temporary directory is removed; `vmwright demo --dir DIR` keeps it to look at.");
    }
    Ok(exit)
}

fn write_inventory(dir: &Path) -> Result<(), Problems> {
    for (name, content) in FILES {
        let path = dir.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == content) {
            continue;
        }
        let made = match path.parent() {
            Some(parent) => std::fs::create_dir_all(parent),
            None => Ok(()),
        };
        made.and_then(|()| std::fs::write(&path, content))
            .map_err(|error| cannot(&error, &path))?;
    }
    Ok(())
}

fn cannot(error: &std::io::Error, path: &Path) -> Problems {
    vec![
        Diagnostic::error("cli/demo", format!("the demo's inventory cannot be written: {error}"))
            .at(Place::path(path))
            .help("give another directory with --dir")
            .exit(Exit::HostFailed),
    ]
}

fn sources(dir: &Path, speed: f64) -> Sources {
    // The one variable again, with another speed: extra variables replace whole values.
    let world = dir.join(".vmwright-demo");
    let nodes = r#"{"nodes":{"pve-0":{"ip":"127.64.0.10"},"pve-1":{"ip":"127.64.0.11"},"pve-2":{"ip":"127.64.0.12"}}}"#;
    let scaled = format!(
        r#"{{"vms_simulator":{{"world":{:?},"speed":{speed},"ssh_port":2222,"cluster":{nodes}}}}}"#,
        world.display().to_string()
    );
    #[expect(clippy::float_cmp, reason = "the default is exactly 1")]
    let extra_vars = if speed == 1.0 { Vec::new() } else { vec![scaled] };
    Sources {
        inventory: vec![dir.display().to_string()],
        extra_vars,
        vault_password_file: Vec::new(),
        vault_id: Vec::new(),
        ask_vault_pass: false,
        allow_pipe_lookup: false,
        hash_behaviour: None,
    }
}

fn provision_args(dir: &Path, speed: f64) -> args::Provision {
    args::Provision {
        sources: sources(dir, speed),
        limit: None,
        plan: false,
        forks: None,
        clone_limit_per_storage: None,
        migrate_limit_per_node: None,
        fail_fast: false,
        wait_lock: None,
        output: None,
        known_hosts: None::<PathBuf>,
        templates_dir: None,
        override_protection: Vec::new(),
    }
}

fn status_args(dir: &Path, speed: f64) -> args::Status {
    args::Status {
        sources: sources(dir, speed),
        limit: None,
        output: None,
        offline: false,
    }
}
