//! The guest's side: the first start, cloud-init's verdict, host keys, and the proven restart.

use std::path::Path;

use serde_json::json;
use vmwright::simulator::guest::{CloudInitEnd, CloudInitVersion};

use crate::support::{Run, SSH_PORT, Site};

const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];
const WEB_1: [&str; 3] = ["provision", "--limit", "web-1"];

/// The first boot's id, as the checkpoint has it.
fn boot_before(site: &Site, name: &str) -> String {
    let record = site.record(name).unwrap();
    record["phase"]["boot_id_before"].as_str().unwrap().to_owned()
}

/// Nothing of the cloud-init drive is left, and the guest runs.
#[track_caller]
fn assert_finalized(site: &Site, name: &str, run: &Run) {
    site.vm(name, |vm| {
        assert!(vm.is_running(), "{}", run.all());
        assert_eq!(vm.config.cloudinit_slot(), None, "{:?}", vm.config);
        assert!(
            vm.config.pending.is_empty() && vm.config.removals.is_empty(),
            "{:?}",
            vm.config
        );
    });
    assert_eq!(site.phase(name).as_deref(), Some("complete"), "{}", run.all());
}

/// The entries of a name, as `ssh-keygen -F` finds them.
fn entries(site: &Site, name: &str) -> Vec<String> {
    let found = std::process::Command::new("ssh-keygen")
        .args(["-F", name, "-f"])
        .arg(site.path("known_hosts"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let mut keys: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" "))
        .collect();
    keys.sort();
    keys
}

/// The public keys of a guest.
fn host_keys(site: &Site, name: &str) -> Vec<String> {
    let mut keys: Vec<String> = site.vm(name, |vm| {
        vm.guest
            .host_keys()
            .iter()
            .map(|key| {
                let line = key.public_key().to_openssh().unwrap();
                line.split(' ').take(2).collect::<Vec<_>>().join(" ")
            })
            .collect()
    });
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn known_hosts_has_every_name_of_the_guest_and_old_entries_go() {
    let site = Site::start().await;
    let address = site.address(1);
    let with_port = |name: &str| format!("[{name}]:{SSH_PORT}");
    let names = [
        "web-1".to_owned(),
        with_port("web-1"),
        with_port("web-1.test.example"),
        with_port(&address),
    ];
    let old = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIgTHBrSBpMYA3WmwhxXZ0JzfkGNiQbrCMnmJvUYs3Wk";
    site.write(
        "known_hosts",
        &format!(
            "# kept\nother.example,web-1 {old}\n{} {old}\nweb-10 {old}\n",
            with_port(&address)
        ),
    );
    site.vmwright(&WEB_1).await.assert_code(0);
    let keys = host_keys(&site, "prod-web-1");
    assert!(keys.len() > 1, "{keys:?}");
    for name in &names {
        assert_eq!(entries(&site, name), keys, "{name}\n{}", site.read("known_hosts"));
    }
    let text = site.read("known_hosts");
    assert!(
        text.starts_with("# kept\n") && text.contains(&format!("web-10 {old}")),
        "{text}"
    );
    assert_eq!(text.matches("AAAAIIgTHBrSBpMYA3Wmwhx").count(), 2, "{text}");
    assert!(text.contains("other.example"), "{text}");

    // Again: no duplicates, not a byte.
    site.vmwright(&WEB_1).await.assert_code(0);
    assert_eq!(site.read("known_hosts"), text);
    // A plain ssh with this file logs in, by name.
    let login = std::process::Command::new("ssh")
        .args([
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=yes",
            "-o",
            "BatchMode=yes",
            "-p",
            &SSH_PORT.to_string(),
        ])
        .args([
            "-o",
            &format!("UserKnownHostsFile={}", site.path("known_hosts").display()),
        ])
        .args(["-o", "GlobalKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes"])
        .arg("-i")
        .arg(site.path("id_ed25519"))
        .args(["-o", "HostKeyAlias=web-1", &format!("ansible@{address}"), "hostname"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&login.stdout), "web-1\n", "{login:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_is_written_before_the_drive_goes_and_the_drive_goes_before_the_restart() {
    let site = Site::start().await;
    // As far as the start, so that the next change of the configuration is the removal of the drive.
    site.hold("POST", "*/status/start");
    site.killed_there(&WEB_0).await;
    let slot = site.vm("web-0", |vm| vm.config.cloudinit_slot()).unwrap();
    site.hold("PUT", "*/config");
    site.killed_there(&WEB_0).await;

    let phase = site.record("web-0").unwrap()["phase"].clone();
    assert_eq!(phase["is"], "finalizing");
    assert_eq!(phase["drive"], json!(slot));
    assert_eq!(phase["step"], "cloud-init-off");
    assert!(!phase["host_keys"].as_array().unwrap().is_empty());
    assert!(phase["addresses"].to_string().contains(&site.address(0)), "{phase}");
    assert_eq!(site.vm("web-0", |vm| vm.config.cloudinit_slot()), Some(slot.clone()));
    assert!(site.guest_file("web-0", "etc/cloud/cloud-init.disabled").is_some());
    assert_eq!(
        entries(&site, "web-0"),
        host_keys(&site, "web-0"),
        "known_hosts comes before the checkpoint"
    );
    let record = std::fs::read_dir(site.path("state/records"))
        .unwrap()
        .flatten()
        .next()
        .unwrap();
    assert_eq!(mode(&record.path()), 0o600);
    let (before, number) = (
        boot_before(&site, "web-0"),
        site.vm("web-0", |vm| vm.guest.boot_number()),
    );
    assert_eq!(
        site.vm("web-0", |vm| vm.guest.boot_id().map(str::to_owned)),
        Some(before.clone())
    );

    // On: the drive is removed, which is only pending on a running VM, and then the API restarts it.
    site.hold("POST", "*/status/*");
    site.killed_there(&WEB_0).await;
    assert_eq!(site.record("web-0").unwrap()["phase"]["step"], "drive-removed");
    site.vm("web-0", |vm| {
        assert!(vm.config.removals.contains_key(&slot), "{:?}", vm.config);
        assert_eq!(vm.guest.boot_id(), Some(before.as_str()));
    });
    let finished = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    finished.assert_code(0);
    // The recovery branch: no clone, no configuration, no DNS.
    assert_eq!(
        finished.stages("web-0"),
        ["lock", "discover", "ownership", "start", "trust", "finalize"]
    );
    assert_finalized(&site, "web-0", &finished);
    assert_eq!(site.changes_to("/status/reboot").len(), 1);
    assert_eq!(site.changes_to("/status/start").len(), 1);
    site.vm("web-0", |vm| {
        assert_ne!(vm.guest.boot_id(), Some(before.as_str()));
        assert_eq!(vm.guest.boot_number(), number.map(|n| n + 1));
    });
    let phase = site.record("web-0").unwrap()["phase"].clone();
    assert_eq!(phase["is"], "complete");
    assert_eq!(
        phase["host_keys"].as_array().unwrap().len(),
        host_keys(&site, "web-0").len()
    );
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_falls_back_to_no_data_source_keeps_address_and_host_keys() {
    let site = Site::start().await;
    site.behave("web-0", |guest| guest.datasource_none_fallback = true);
    let run = site.vmwright(&WEB_0).await;
    run.assert_code(0);
    assert_finalized(&site, "web-0", &run);
    site.vm("web-0", |vm| {
        assert_eq!(vm.guest.boot_number(), Some(2));
        assert_eq!(vm.guest.key_generation(), 1, "the restart made new host keys");
    });
    assert_eq!(entries(&site, "web-0"), host_keys(&site, "web-0"));
    let now = site.sim.handle().now_ms();
    assert_eq!(site.vm("web-0", |vm| vm.guest.addresses(now)), [site.address(0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ignores_the_shutdown_is_forced_and_finalized() {
    let site = Site::start().await;
    site.behave("web-0", |guest| guest.ignores_shutdown = true);
    let run = site.vmwright(&WEB_0).await;
    run.assert_code(0);
    assert_finalized(&site, "web-0", &run);
    assert_eq!(site.vm("web-0", |vm| vm.guest.boot_number()), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_reboots_itself_boots_slowly_and_has_no_python_is_waited_for() {
    let site = Site::start().await;
    site.behave("web-0", |guest| {
        guest.reboots_itself = true;
        guest.slow_boot_factor = 12.0;
        guest.no_python = true;
    });
    let run = site.vmwright(&WEB_0).await;
    run.assert_code(0);
    assert_finalized(&site, "web-0", &run);
    assert!(site.vm("web-0", |vm| vm.guest.boot_number()) >= Some(3));
    assert_eq!(site.changes_to("/status/reboot").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_cloud_init_and_a_guest_without_agent_are_provisioned_too() {
    let site = Site::with(|plan| {
        for vm in &mut plan.spec.vms {
            vm.image.agent = false;
        }
    })
    .await;
    site.behave("web-0", |guest| guest.cloud_init_version = CloudInitVersion::V22);
    let run = site.vmwright(&WEB_0).await;
    run.assert_code(0);
    assert_finalized(&site, "web-0", &run);
    assert_eq!(entries(&site, "web-0"), host_keys(&site, "web-0"));
    run.assert_says("read on the guest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_key_is_a_warning_and_no_failure() {
    let site = Site::start().await;
    let own = include_str!("../../templates/user-data.j2");
    let template = own.replacen("ssh_pwauth", "  - name: second\n    sudo: false\nssh_pwauth", 1);
    site.write("templates/user-data.j2", &template);
    let templates = site.path("templates");
    let run = site
        .vmwright(&[
            "provision",
            "--limit",
            "web-0",
            "--templates-dir",
            templates.to_str().unwrap(),
        ])
        .await;
    run.assert_code(0);
    run.assert_says("cloud-init/warning");
    run.assert_says("deprecated");
    assert_finalized(&site, "web-0", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_init_error_ends_before_any_restart_and_the_vm_counts_as_unfinished() {
    let site = Site::start().await;
    site.behave("web-0", |guest| guest.cloud_init = CloudInitEnd::Error);
    let run = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    run.assert_code(1);
    let end = run.end("web-0");
    assert_eq!(end["outcome"], "failed");
    assert_eq!(end["stage"], "cloud-init");
    let told = end["diagnostic"].to_string();
    for hint in [
        "cloud-init status --long",
        "/var/log/cloud-init.log",
        "/var/log/cloud-init-output.log",
    ] {
        assert!(told.contains(hint), "{hint} is not in {told}");
    }
    let stages = run.stages("web-0");
    assert_eq!(
        stages.last().map(String::as_str),
        Some("cloud-init"),
        "later stages are not begun"
    );
    assert_eq!(site.changes_to("/status/reboot"), []);
    assert_eq!(site.phase("web-0").as_deref(), Some("created"));
    assert!(site.vm("web-0", |vm| vm.config.cloudinit_slot().is_some()
        && vm.guest.boot_number() == Some(1)));
    assert!(!site.read("known_hosts").contains("web-0"));
    assert_eq!(
        site.locks(),
        Vec::<std::path::PathBuf>::new(),
        "the lock is free after a failure"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_drive_is_found_wherever_the_template_has_it() {
    let site = Site::with(|plan| {
        let template = plan.spec.vms.iter_mut().find(|vm| vm.vmid == 9000).unwrap();
        template.cloudinit = Some("scsi4".to_owned());
        // A name that only sounds like a drive.
        plan.hosts = vec!["web-0 vms_proxmox_node=pve-0 vms_name=cloudinit-web-0".to_owned()];
    })
    .await;
    let run = site.vmwright(&["provision"]).await;
    run.assert_code(0);
    assert_finalized(&site, "cloudinit-web-0", &run);
    assert_eq!(site.key("cloudinit-web-0", "scsi4"), None);
    assert!(site.key("cloudinit-web-0", "scsi0").is_some());
    assert_eq!(site.key("cloudinit-web-0", "name").as_deref(), Some("cloudinit-web-0"));
}
