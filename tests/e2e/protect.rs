//! Self-protection: the simulated VM gets this very machine's MAC or address, and is left alone.

use std::net::IpAddr;

use crate::remove;
use crate::support::Site;

const REMOVE: [&str; 5] = ["remove", "--limit", "web-1", "--confirm", "prod-web-1"];

/// What this machine really is; none, and said so, if it has no network card at all.
fn ourselves() -> Option<(String, Option<IpAddr>)> {
    let us = vmwright::engine::ourselves::Ourselves::look();
    let mac = us.macs.first().map(ToString::to_string);
    if mac.is_none() {
        eprintln!("SKIPPED: self-protection needs a machine with a network card");
    }
    Some((mac?, us.addresses.first().copied()))
}

fn give_mac(site: &Site, mac: &str) {
    site.sim.with(|world| {
        let vm = world.vms.values_mut().find(|vm| vm.name() == "prod-web-1").unwrap();
        let card = vm.config.current.get("net0").unwrap();
        let card = card.split_once(',').map_or("", |(_, rest)| rest);
        vm.config
            .current
            .insert("net0".to_owned(), format!("virtio={mac},{card}"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_that_vmwright_runs_on_is_never_removed() {
    let Some((mac, address)) = ourselves() else { return };
    let site = remove::with("web-1", |_| {}).await;
    let refused = async |args: &[&str], texts: &[&str]| {
        let configs = site.configs();
        for args in [args.to_vec(), [args, &["--plan"]].concat()] {
            let run = site.vmwright(&args).await;
            for text in texts {
                run.assert_says(text);
            }
            run.assert_code(4);
            assert_eq!(site.changes(), []);
            assert_eq!(site.configs(), configs);
            assert!(site.vm("prod-web-1", |vm| vm.is_running()));
            assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
        }
    };
    if let Some(address) = address {
        let own = format!("ansible_host={address}");
        let args = [&REMOVE[..], &["-e", &own]].concat();
        refused(&args, &["protection/self", &format!("{address} is this machine's")]).await;
    }
    give_mac(&site, &mac);
    refused(&REMOVE, &["protection/self", &mac, "--override-protection prod-web-1"]).await;

    // Only the VM's own name overrides.
    for name in ["web-1", "yes", "prod-web"] {
        let run = site
            .vmwright(&[&REMOVE[..], &["--override-protection", name]].concat())
            .await;
        run.assert_code(2);
        run.assert_says("cli/override-unknown");
        assert_eq!(site.changes(), []);
    }
    let run = site
        .vmwright(&[&REMOVE[..], &["--override-protection", "prod-web-1"]].concat())
        .await;
    run.assert_code(0);
    run.assert_says("protection/overridden");
    assert_eq!(site.vms(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_this_machine_does_not_know_itself_a_removal_says_so() {
    const CODE: &str = "protection/unknown-self";
    let site = remove::with("web-1", |_| {}).await;
    let plan = site.vmwright(&[&REMOVE[..], &["--plan"]].concat()).await;
    plan.assert_code(0);
    // Looked at here without the code that is under test.
    let has_uuid = std::fs::read_to_string("/sys/class/dmi/id/product_uuid").is_ok();
    let cards = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let has_card = cards
        .map(|card| card.path().join("device"))
        .any(|device| device.exists());
    match has_uuid || has_card {
        true => plan.assert_silent_about(CODE),
        false => plan.assert_says(CODE),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_that_vmwright_runs_on_is_not_restarted() {
    let Some((mac, _)) = ourselves() else { return };
    const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];
    let site = Site::start().await;
    site.hold("POST", "*/status/reboot");
    site.killed_there(&PROVISION).await;
    give_mac(&site, &mac);
    site.sim.handle().clear_requests();
    let pid = site.vm("prod-web-1", |vm| vm.process().map(|process| process.pid));
    let run = site.vmwright(&PROVISION).await;
    run.assert_code(4);
    run.assert_says("protection/self");
    assert_eq!(site.changes(), []);
    assert_eq!(site.vm("prod-web-1", |vm| vm.process().map(|process| process.pid)), pid);
    let run = site
        .vmwright(&[&PROVISION[..], &["--override-protection", "prod-web-1"]].concat())
        .await;
    run.assert_code(0);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_declared_as_protected_is_made_but_not_removed() {
    let site = remove::with("", |plan| {
        plan.hosts = vec!["web-1 vms_proxmox_node=pve-1 vms_name=prod-web-1 vms_protected=true".to_owned()];
    })
    .await;
    site.vmwright(&["provision"]).await.assert_code(0);
    site.sim.handle().clear_requests();
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(4);
    run.assert_says("protection/declared");
    run.assert_says("--override-protection prod-web-1");
    assert_eq!(site.changes(), []);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    assert_eq!(site.sim.pihole().unwrap().records().hosts.len(), 1);
    let run = site
        .vmwright(&[&REMOVE[..], &["--override-protection", "prod-web-1"]].concat())
        .await;
    run.assert_code(0);
    assert_eq!(site.vms(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_vm_stays_protected_when_its_finalization_was_cut_off() {
    const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];
    let site = Site::start().await;
    // A VM that runs with its cloud-init drive, and has no record.
    site.vmwright(&PROVISION).await.assert_code(0);
    site.sim.with(|world| {
        let vm = world.vms.values_mut().find(|vm| vm.name() == "prod-web-1").unwrap();
        let drive = format!("local-lvm:vm-{}-cloudinit,media=cdrom", vm.vmid);
        vm.config.current.insert("ide2".to_owned(), drive);
    });
    for part in ["state/records", "state/locks"] {
        std::fs::remove_dir_all(site.path(part)).unwrap();
    }
    let id = site.vm("prod-web-1", |vm| vm.vmid.to_string());
    site.write("inventory/host_vars/web-1.yml", "vms_protected: true\n");
    site.vmwright(&["adopt", "web-1", "--vmid", &id, "--confirm", "prod-web-1"])
        .await
        .assert_code(0);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("initialized"));
    // The override was given once; the run died behind the checkpoint.
    site.hold("PUT", "*/config");
    site.killed_there(&[&PROVISION[..], &["--override-protection", "prod-web-1"]].concat())
        .await;
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("finalizing"));
    assert_eq!(site.record("prod-web-1").unwrap()["made"], false);
    site.sim.handle().clear_requests();
    let pid = site.vm("prod-web-1", |vm| vm.process().map(|process| process.pid));
    let run = site.vmwright(&PROVISION).await;
    run.assert_code(4);
    run.assert_says("protection/declared");
    assert_eq!(site.changes(), []);
    assert_eq!(site.vm("prod-web-1", |vm| vm.process().map(|process| process.pid)), pid);
}
