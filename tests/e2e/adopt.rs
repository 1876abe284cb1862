//! Adopt, forget and history: the record in the operator's hands. Proxmox is only read.

use std::path::PathBuf;

use crate::support::Site;

const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];

/// Loses the record of web-1, as a legacy VM has none.
fn lose_record(site: &Site) {
    for (path, ..) in site.tree("state/records") {
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    site.sim.handle().clear_requests();
}

fn vmid(site: &Site) -> String {
    site.vm("prod-web-1", |vm| vm.vmid.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_vm_is_taken_in_as_complete_after_it_was_shown() {
    let site = Site::start().await;
    site.vmwright(&PROVISION).await.assert_code(0);
    lose_record(&site);
    let (id, configs) = (vmid(&site), site.configs());
    let refused = site.vmwright(&PROVISION).await;
    refused.assert_code(4);
    refused.assert_says(&format!("vmwright adopt HOST --vmid {id} --confirm prod-web-1"));

    // Shown, and not taken in without its name, or under another number.
    let uuid = site.vm("prod-web-1", |vm| vm.uuid().unwrap().to_owned());
    for confirm in [&[][..], &["--confirm", "yes"], &["--confirm", "web-1"]] {
        let run = site
            .vmwright(&[&["adopt", "web-1", "--vmid", &id], confirm].concat())
            .await;
        run.assert_code(4);
        for text in [
            &uuid,
            "running",
            "no drive",
            "complete",
            "nothing that the inventory declares",
        ] {
            run.assert_says(text);
        }
    }
    for (number, code) in [("9000", "adopt/wrong-kind"), ("4711", "adopt/no-such-vm")] {
        let run = site
            .vmwright(&["adopt", "web-1", "--vmid", number, "--confirm", "prod-web-1"])
            .await;
        run.assert_code(4);
        run.assert_says(code);
    }
    let other = site
        .vmwright(&["adopt", "web-0", "--vmid", &id, "--confirm", "web-0"])
        .await;
    other.assert_code(4);
    other.assert_says("adopt/other-name");
    assert_eq!(site.record("prod-web-1"), None);

    // A difference is shown, and not mended.
    site.sim.with(|world| {
        let vm = world.vms.values_mut().find(|vm| vm.name() == "prod-web-1").unwrap();
        vm.config.current.insert("cores".to_owned(), "1".to_owned());
    });
    let run = site
        .vmwright(&["adopt", "web-1", "--vmid", &id, "--confirm", "prod-web-1"])
        .await;
    run.assert_code(0);
    run.assert_says("cores: 1 -> 2");
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
    assert_eq!(site.changes(), []);
    assert_ne!(site.configs(), configs);
    let done = site.vmwright(&PROVISION).await;
    done.assert_code(0);
    done.assert_says("unchanged");
    assert_eq!(site.changes(), []);
    let twice = site
        .vmwright(&["adopt", "web-1", "--vmid", &id, "--confirm", "prod-web-1"])
        .await;
    twice.assert_code(4);
    twice.assert_says("adopt/recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_vm_is_taken_in_where_it_stands_and_goes_on() {
    let site = Site::start().await;
    // Made and never started: the record was lost in between.
    site.hold("POST", "*/status/start");
    site.killed_there(&PROVISION).await;
    lose_record(&site);
    std::fs::remove_dir_all(site.path("state/locks")).unwrap();
    let id = vmid(&site);
    let adopt = ["adopt", "web-1", "--vmid", &id, "--confirm", "prod-web-1"];
    let run = site.vmwright(&adopt).await;
    run.assert_code(0);
    run.assert_says("created");
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("created"));
    assert_eq!(site.changes(), []);
    // It runs, with its drive.
    site.hold("PUT", "*/config");
    site.killed_there(&PROVISION).await;
    site.until("the guest to run", |site| site.vm("prod-web-1", |vm| vm.is_running()))
        .await;
    lose_record(&site);
    std::fs::remove_dir_all(site.path("state/locks")).unwrap();
    let run = site.vmwright(&adopt).await;
    run.assert_code(0);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("initialized"));
    let done = site.vmwright(&PROVISION).await;
    done.assert_code(0);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    assert_eq!(site.vm("prod-web-1", |vm| vm.config.cloudinit_slot()), None);
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_forgotten_only_when_its_vm_is_surely_gone() {
    let site = Site::start().await;
    site.vmwright(&PROVISION).await.assert_code(0);
    site.sim.handle().clear_requests();
    const FORGET: [&str; 4] = ["forget", "web-1", "--confirm", "prod-web-1"];
    let exists = site.vmwright(&FORGET).await;
    exists.assert_code(4);
    exists.assert_says("forget/exists");
    site.sim.with(|world| {
        let id = world.vm_named("prod-web-1").unwrap().vmid;
        world.power_off(id);
        world.vms.remove(&id);
        world.volumes.retain(|volume| volume.vmid != id);
    });
    let provision = site.vmwright(&PROVISION).await;
    provision.assert_code(4);
    provision.assert_says("vmwright forget HOST --confirm prod-web-1");
    site.sim.with(|world| world.set_node_online("pve-2", false));
    let unknown = site.vmwright(&FORGET).await;
    unknown.assert_code(4);
    unknown.assert_says("pve-2 is offline");
    site.sim.with(|world| world.set_node_online("pve-2", true));
    for confirm in [&[][..], &["--confirm", "yes"], &["--confirm", "web-1"]] {
        site.vmwright(&[&["forget", "web-1"], confirm].concat())
            .await
            .assert_code(4);
        assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    }
    let run = site.vmwright(&FORGET).await;
    run.assert_code(0);
    assert_eq!(site.record("prod-web-1"), None);
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
    assert_eq!(site.changes(), []);
    assert_eq!(
        site.sim.pihole().unwrap().records().hosts.len(),
        1,
        "only the record goes"
    );
    site.vmwright(&FORGET).await.assert_code(0);
    // And the way is free for a new one.
    site.vmwright(&PROVISION).await.assert_code(0);
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_run_is_readable_after_any_death() {
    let site = Site::start().await;
    let none = site.vmwright(&["history"]).await;
    none.assert_code(0);
    site.hold("POST", "*/clone");
    site.killed_there(&PROVISION).await;
    site.vmwright(&PROVISION).await.assert_code(0);
    let list = site.vmwright(&["history"]).await;
    list.assert_code(0);
    let rows: Vec<Vec<&str>> = list
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 2, "{}", list.all());
    list.assert_says("no end written");
    list.assert_says("exit code 0");
    let (killed, done) = (rows[0][0], rows[1][0]);
    let cut = site.vmwright(&["history", killed]).await;
    cut.assert_code(0);
    cut.assert_says("web-1 clone: changes prod-web-1: full clone of");
    cut.assert_says("no end was written");
    let whole = site.vmwright(&["history", done]).await;
    whole.assert_says("web-1 finalize: done");
    whole.assert_says("ended with exit code 0");
    whole.assert_silent_about(crate::support::PIHOLE_PASSWORD);
    let json = site.vmwright(&["history", done, "--output", "json"]).await;
    assert_eq!(json.events().last().unwrap()["event"], "run-done");
    site.vmwright(&["history", "no-such-run"]).await.assert_code(2);
}
