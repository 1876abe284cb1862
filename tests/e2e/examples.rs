//! The example inventories and the demo. Those with the embedded cluster have fixed loopback addresses: one at a time, and
//! skipped, loudly, where another program has them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::Run;

static ADDRESSES: Mutex<()> = Mutex::const_new(());

/// The demo's addresses for this test alone; none if something else listens there.
async fn addresses() -> Option<MutexGuard<'static, ()>> {
    let alone = ADDRESSES.lock().await;
    let all = [
        "127.64.0.2:8006",
        "127.64.0.3:8080",
        "127.64.0.10:2222",
        "127.64.0.11:2222",
        "127.64.0.12:2222",
        "127.64.1.10:2222",
        "127.64.1.11:2222",
        "127.64.1.12:2222",
    ];
    for address in all {
        if let Err(error) = std::net::TcpListener::bind(address) {
            eprintln!("SKIPPED: the demo's address {address} cannot be used: {error}");
            return None;
        }
    }
    Some(alone)
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("inventory-examples")
}

/// A copy of an example, so that nothing is written into the source tree.
fn copy(name: &str, to: &Path) -> PathBuf {
    fn tree(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if from.is_dir() {
                tree(&from, &to);
            } else {
                std::fs::copy(&from, &to).unwrap();
            }
        }
    }
    let to = to.join(name);
    tree(&examples().join(name), &to);
    to
}

/// Runs the real binary in a home of its own.
async fn vmwright(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Run {
    let home = dir.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vmwright"))
        .args(args)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", &home)
        .envs(env.iter().copied())
        .current_dir(dir)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let untouched = home.read_dir().unwrap().next().is_none();
    assert!(untouched, "{args:?} wrote into the home directory");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Lists an example and renders each of its VMs; gives the listing.
async fn assert_can_be_read(dir: &Path, inventory: &Path, more: &[&str], env: &[(&str, &str)], vms: &[&str]) -> Value {
    let source = inventory.to_str().unwrap();
    let with = |args: &[&str]| -> Vec<String> {
        let named = ["-i", source];
        let all = args.iter().chain(&named).chain(more);
        all.map(|arg| (*arg).to_owned()).collect()
    };
    let run = |args: Vec<String>| async move {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = vmwright(dir, &args, env).await;
        run.assert_code(0);
        run
    };
    let list = run(with(&["inventory", "--list"])).await;
    let json: Value = serde_json::from_str(&list.stdout).unwrap();
    let variables = json["_meta"]["hostvars"].as_object().unwrap();
    for host in vms {
        assert!(variables.contains_key(*host), "{host}");
        let rendered = run(with(&["render", host])).await;
        assert!(
            rendered.stdout.contains(&format!("hostname: {host}\n")),
            "{}",
            rendered.all()
        );
        assert_eq!(rendered.stderr, "", "an example has nothing to warn about");
    }
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn the_homelab_example_can_be_read_with_its_vault() {
    let dir = tempfile::tempdir().unwrap();
    let inventory = copy("homelab", dir.path());
    // As its README says.
    let password = dir.path().join("password");
    std::fs::write(&password, "homelab-example\n").unwrap();
    let file = ["--vault-password-file", password.to_str().unwrap()];
    let vms = ["git-0", "media-0", "dns-0"];
    let list = assert_can_be_read(dir.path(), &inventory, &file, &[], &vms).await;
    assert_eq!(list["services"]["children"], serde_json::json!(["git", "media"]));
    assert_eq!(list["removable"]["hosts"], serde_json::json!(["media-0"]));
    let text = list.to_string();
    assert!(
        !text.contains("3f0c9a52-6d1e-4b8a-9c77-5e2b1d40af63") && !text.contains("$6$"),
        "{text}"
    );

    let source = inventory.to_str().unwrap();
    let locked = vmwright(dir.path(), &["render", "git-0", "-i", source], &[]).await;
    locked.assert_code(2);
    locked.assert_says("vault");
    std::fs::write(&password, "wrong\n").unwrap();
    let wrong = vmwright(dir.path(), &["render", "git-0", "-i", source, file[0], file[1]], &[]).await;
    wrong.assert_code(2);
    wrong.assert_silent_about("homelab-example\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_example_can_be_read_with_a_token_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let inventory = copy("cluster", dir.path());
    let token = "3f0c9a52-6d1e-4b8a-9c77-5e2b1d40af63";
    let vms = ["web-01", "web-02", "web-03", "db-01"];
    let list = assert_can_be_read(dir.path(), &inventory, &[], &[("PROXMOX_TOKEN", token)], &vms).await;
    assert!(!list.to_string().contains(token));
    assert_eq!(list["vms"]["children"], serde_json::json!(["web", "db"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_example_provisions_through_its_one_variable() {
    let Some(_alone) = addresses().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let inventory = copy("demo", dir.path());
    let world = inventory.join(".vmwright-demo");
    let scaled = serde_json::json!({"vms_simulator": {
        "world": world, "speed": 0.02, "ssh_port": 2222,
        "cluster": {"nodes": {"pve-0": {"ip": "127.64.0.10"}, "pve-1": {"ip": "127.64.0.11"}, "pve-2": {"ip": "127.64.0.12"}}},
    }})
    .to_string();
    let more = ["-e", scaled.as_str()];
    assert_can_be_read(dir.path(), &inventory, &more, &[], &["web-0", "web-1", "db-0"]).await;
    let source = inventory.to_str().unwrap();
    let args = ["provision", "-i", source, "--limit", "web-0", "-e", &scaled];
    let run = vmwright(dir.path(), &args, &[]).await;
    run.assert_code(0);
    run.assert_says("ready, changed");
    // The same cluster, in another process.
    let again = vmwright(dir.path(), &args, &[]).await;
    again.assert_code(0);
    again.assert_says("ready, unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_the_main_job_twice_and_stays_in_its_directory() {
    let Some(_alone) = addresses().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("demo");
    let args = ["demo", "--dir", place.to_str().unwrap(), "--speed", "0"];
    let first = vmwright(dir.path(), &args, &[]).await;
    first.assert_code(0);
    first.assert_says("3 hosts: 3 changed");
    first.assert_says("3 hosts: 3 unchanged");
    for host in ["web-0", "web-1", "db-0"] {
        first.assert_says(host);
    }
    first.assert_says("complete");
    let second = vmwright(dir.path(), &args, &[]).await;
    second.assert_code(0);
    assert_eq!(
        second.stdout.matches("3 hosts: 3 unchanged").count(),
        2,
        "{}",
        second.all()
    );
    let mut beside: Vec<String> = dir
        .path()
        .read_dir()
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    beside.sort();
    assert_eq!(beside, ["demo", "home"]);
}
