//! What the cluster does: clones, migration, rights, obstacles, faults, persistence.

use std::time::Duration;

use serde_json::Value;
use vmwright::simulator::clock::Durations;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::{Options, Simulator};

use crate::support::{Sim, instant};

const CLONE: &str = "/nodes/pve-0/qemu/9000/clone";

/// Clones the template to 101, with the name web-0.
pub async fn cloned(sim: &Sim) {
    let params = [("newid", "101"), ("name", "web-0"), ("full", "1")];
    assert_eq!(sim.task("POST", CLONE, &params).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_locked_until_it_is_done_and_tells_its_description_early() {
    let sim = Sim::start(Durations::default()).await;
    let template = sim.ok("GET", "/nodes/pve-0/qemu/9000/config", &[]).await;
    let params = [
        ("newid", "101"),
        ("name", "web-0"),
        ("full", "1"),
        ("description", "op 4711"),
    ];
    let upid = sim.ok("POST", CLONE, &params).await;
    let upid = upid.as_str().unwrap().to_owned();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let first = sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await;
    assert_eq!(first["lock"], "clone");
    assert_eq!(first["description"], " qmclone temporary file");
    assert_eq!(first["name"], Value::Null);
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let later = sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await;
    assert_eq!(
        (&later["lock"], &later["description"], &later["name"]),
        (&"clone".into(), &"op 4711".into(), &"web-0".into())
    );
    let locked = sim.call("PUT", "/nodes/pve-0/qemu/101/config", &[("cores", "2")]).await;
    assert_eq!((locked.status, locked.reason.as_str()), (500, "VM is locked (clone)"));
    let before = sim.handle.now_ms();
    assert_eq!(sim.end_of(&upid).await, "OK");
    assert!(sim.handle.now_ms() - before < 1100);
    let done = sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await;
    assert_eq!(done["lock"], Value::Null);
    assert_eq!(done["scsi0"], "local-lvm:vm-101-disk-0,size=2G");
    assert_eq!(done["ide2"], "local-lvm:vm-101-cloudinit,media=cdrom,size=4M");
    assert_ne!(done["net0"], template["net0"]);
    assert_ne!(done["smbios1"], template["smbios1"]);
    assert_eq!(done["template"], Value::Null);
    let again = sim.call("POST", CLONE, &params).await;
    assert_eq!(again.reason, "unable to create VM 101: config file already exists");
}

#[tokio::test(start_paused = true)]
async fn two_clones_onto_one_id_both_start_and_one_fails() {
    let sim = Sim::start(Durations::default()).await;
    let params = [("newid", "190"), ("full", "1")];
    let first = sim.ok("POST", CLONE, &params).await;
    // Asked in the same instant: nothing has moved yet.
    let second = sim.ok("POST", CLONE, &params).await;
    let second = sim.end_of(second.as_str().unwrap()).await;
    let late = sim.call("POST", CLONE, &params).await;
    assert_eq!(late.reason, "unable to create VM 190: config file already exists");
    assert_eq!(
        second,
        "can't lock file '/var/lock/qemu-server/lock-190.conf' - got timeout"
    );
    assert_eq!(sim.end_of(first.as_str().unwrap()).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn a_killed_clone_leaves_a_locked_stub_and_an_interrupted_one_leaves_nothing() {
    let sim = Sim::start(Durations::default()).await;
    sim.sim.faults().add(Fault::on(
        "POST",
        "*/clone",
        Action::FailTask("unexpected status".to_owned()),
    ));
    assert_eq!(
        sim.task("POST", CLONE, &[("newid", "101"), ("full", "1")]).await,
        "unexpected status"
    );
    assert_eq!(
        sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await["lock"],
        "clone"
    );
    assert_eq!(
        sim.task("DELETE", "/nodes/pve-0/qemu/101", &[]).await,
        "VM is locked (clone)"
    );

    let upid = sim.ok("POST", CLONE, &[("newid", "102"), ("full", "1")]).await;
    let upid = upid.as_str().unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    sim.ok("DELETE", &format!("/nodes/pve-0/tasks/{upid}"), &[]).await;
    assert!(sim.end_of(upid).await.ends_with("failed: interrupted by signal"));
    assert_eq!(sim.call("GET", "/nodes/pve-0/qemu/102/config", &[]).await.status, 500);
    assert!(sim.handle.look(|w| w.volumes_of(102).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn parallel_clones_on_one_storage_can_meet_the_storage_lock() {
    let sim = Sim::with(Durations::default(), |o| o.spec.clone_lock_limit = Some(2)).await;
    sim.handle.with(|world| world.durations.lock_wait = 1000);
    let mut upids = Vec::new();
    for id in ["101", "102", "103"] {
        upids.push(sim.ok("POST", CLONE, &[("newid", id), ("full", "1")]).await);
    }
    let mut ends = Vec::new();
    for upid in &upids {
        ends.push(sim.end_of(upid.as_str().unwrap()).await);
    }
    let timeout = "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout";
    assert_eq!(ends, ["OK", "OK", timeout]);
    assert!(
        sim.handle
            .look(|w| !w.vms.contains_key(&103) && w.volumes_of(103).is_empty())
    );
}

#[tokio::test(start_paused = true)]
async fn local_disks_migrate_offline_and_shared_templates_clone_to_any_node() {
    let sim = Sim::start(Durations::default()).await;
    cloned(&sim).await;
    let check = sim.ok("GET", "/nodes/pve-0/qemu/101/migrate", &[]).await;
    assert_eq!(check["allowed_nodes"], serde_json::json!(["pve-1", "pve-2"]));
    assert_eq!(check["local_disks"].as_array().unwrap().len(), 2);
    let own = sim
        .call("POST", "/nodes/pve-0/qemu/101/migrate", &[("target", "pve-0")])
        .await;
    assert_eq!(own.json()["errors"]["target"], "target is local node.");
    let upid = sim
        .ok("POST", "/nodes/pve-0/qemu/101/migrate", &[("target", "pve-2")])
        .await;
    assert_eq!(
        sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await["lock"],
        "migrate"
    );
    assert_eq!(sim.end_of(upid.as_str().unwrap()).await, "OK");
    assert_eq!(sim.call("GET", "/nodes/pve-0/qemu/101/config", &[]).await.status, 500);
    let there = sim.ok("GET", "/nodes/pve-2/qemu/101/config", &[]).await;
    assert_eq!(
        (&there["lock"], &there["scsi0"]),
        (&Value::Null, &"local-lvm:vm-101-disk-0,size=2G".into())
    );

    let ubuntu = "/nodes/pve-1/qemu/9001/clone";
    assert_eq!(
        sim.task("POST", ubuntu, &[("newid", "102"), ("full", "1"), ("target", "pve-2")])
            .await,
        "OK"
    );
    assert_eq!(
        sim.ok("GET", "/nodes/pve-2/qemu/102/config", &[]).await["virtio0"],
        "ceph-vm:vm-102-disk-0,size=3584M"
    );
    let local = sim
        .call("POST", CLONE, &[("newid", "103"), ("full", "1"), ("target", "pve-2")])
        .await;
    assert_eq!(local.reason, "can't clone VM to node 'pve-2' (VM uses local storage)");
}

#[tokio::test(start_paused = true)]
async fn a_start_reads_the_snippets_of_its_own_node() {
    let sim = Sim::start(instant()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    sim.ok(
        "PUT",
        &format!("{vm}/config"),
        &[("cicustom", "user=local:snippets/u.yml")],
    )
    .await;
    let missing = "volume 'local:snippets/u.yml' does not exist";
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, missing);
    assert_eq!(sim.call("PUT", &format!("{vm}/cloudinit"), &[]).await.reason, missing);
    let elsewhere = sim.handle.node_root("pve-1").join("var/lib/vz/snippets/u.yml");
    std::fs::write(elsewhere, "#cloud-config\n").unwrap();
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, missing);
    std::fs::write(
        sim.handle.node_root("pve-0").join("var/lib/vz/snippets/u.yml"),
        "#cloud-config\n",
    )
    .unwrap();
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    let listed = sim
        .ok("GET", "/nodes/pve-0/storage/local/content", &[("content", "snippets")])
        .await;
    assert_eq!(listed[0]["volid"], "local:snippets/u.yml");
    sim.ok(
        "DELETE",
        "/nodes/pve-0/storage/local/content/local%3Asnippets%2Fu.yml",
        &[],
    )
    .await;
    let listed = sim
        .ok("GET", "/nodes/pve-0/storage/local/content", &[("content", "snippets")])
        .await;
    assert_eq!(listed, serde_json::json!([]));
    // A shared storage is the same directory everywhere.
    std::fs::write(sim.handle.node_root("pve-2").join("mnt/pve/cephfs/snippets/s.yml"), "x").unwrap();
    let listed = sim
        .ok("GET", "/nodes/pve-0/storage/cephfs/content", &[("content", "snippets")])
        .await;
    assert_eq!(listed[0]["size"], 1);
}

#[tokio::test(start_paused = true)]
async fn obstacles_of_start_and_destroy_have_their_texts() {
    let sim = Sim::start(instant()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    sim.ok("PUT", &format!("{vm}/config"), &[("net0", "virtio,bridge=vmbr77")])
        .await;
    assert_eq!(
        sim.task("POST", &format!("{vm}/status/start"), &[]).await,
        "bridge 'vmbr77' does not exist"
    );
    sim.ok("PUT", &format!("{vm}/config"), &[("net0", "virtio,bridge=vmbr0")])
        .await;
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    assert_eq!(
        sim.task("POST", &format!("{vm}/status/start"), &[]).await,
        "VM 101 already running"
    );
    assert_eq!(
        sim.call("DELETE", vm, &[]).await.reason,
        "VM 101 is running - destroy failed"
    );
    assert_eq!(sim.task("POST", &format!("{vm}/status/stop"), &[]).await, "OK");
    sim.handle.with(|w| w.ha.insert(101));
    let ha = "unable to remove VM 101 - used in HA resources and purge parameter not set.";
    assert_eq!(sim.call("DELETE", vm, &[]).await.reason, ha);
    assert_eq!(sim.task("DELETE", vm, &[("purge", "1")]).await, "OK");
    assert!(sim.handle.look(|w| w.volumes_of(101).is_empty() && w.ha.is_empty()));
    let template = "you can't start a vm if it's a template";
    assert_eq!(
        sim.task("POST", "/nodes/pve-0/qemu/9000/status/start", &[]).await,
        template
    );
    let linked = [("newid", "102")];
    assert_eq!(sim.task("POST", CLONE, &linked).await, "OK");
    assert_eq!(
        sim.task("DELETE", "/nodes/pve-0/qemu/9000", &[]).await,
        "base volume 'local-lvm:base-9000-disk-0' is still in use by linked cloned"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_lag_and_nodes_can_be_away() {
    let sim = Sim::start(Durations::default()).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    sim.ok("GET", "/version", &[]).await;
    cloned(&sim).await;
    let row = |rows: Value| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|r| r["vmid"] == 101)
            .cloned()
            .unwrap()
    };
    let fresh = row(sim.ok("GET", "/cluster/resources", &[("type", "vm")]).await);
    assert_eq!((&fresh["status"], &fresh["name"]), (&"unknown".into(), &Value::Null));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let later = row(sim.ok("GET", "/cluster/resources", &[("type", "vm")]).await);
    assert_eq!((&later["status"], &later["name"]), (&"stopped".into(), &"web-0".into()));
    sim.handle.with(|w| w.set_node_online("pve-2", false));
    let status = sim.ok("GET", "/cluster/status", &[]).await;
    assert_eq!(status[3]["online"], 0);
    let away = sim.call("GET", "/nodes/pve-2/qemu", &[]).await;
    assert_eq!(
        (away.status, away.reason.as_str(), away.body.len()),
        (595, "No route to host", 0)
    );
    let unknown = sim.call("GET", "/nodes/nowhere/qemu", &[]).await;
    assert!(unknown.reason.starts_with("hostname lookup 'nowhere' failed"));
    sim.handle.with(|w| w.quorate = false);
    assert_eq!(
        sim.call("POST", CLONE, &[("newid", "102")]).await.reason,
        "cluster not ready - no quorum?"
    );
}

#[tokio::test(start_paused = true)]
async fn scripted_faults_drop_answer_and_delay() {
    let sim = Sim::start(instant()).await;
    let faults = sim.sim.faults();
    faults.add(Fault::on("POST", "*/clone", Action::DropAfter));
    let request = sim.request("POST", CLONE, &[("newid", "101"), ("full", "1")]);
    assert!(sim.handle.handle(request).await.is_err());
    assert_eq!(
        sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await["lock"],
        Value::Null
    );
    faults.add(Fault::on("PUT", "*/config", Action::DropBefore));
    let request = sim.request("PUT", "/nodes/pve-0/qemu/101/config", &[("cores", "8")]);
    assert!(sim.handle.handle(request).await.is_err());
    assert_eq!(sim.ok("GET", "/nodes/pve-0/qemu/101/config", &[]).await["cores"], 1);
    let answer = Action::Answer {
        status: 596,
        text: "Connection timed out".to_owned(),
    };
    faults.add(Fault::on("GET", "/version", answer).nth(2));
    assert_eq!(sim.call("GET", "/version", &[]).await.status, 200);
    let broken = sim.call("GET", "/version", &[]).await;
    assert_eq!((broken.status, broken.reason.as_str()), (596, "Connection timed out"));
    faults.add(Fault::on("GET", "/nodes", Action::Delay(700)));
    let before = sim.handle.now_ms();
    sim.ok("GET", "/nodes", &[]).await;
    assert_eq!(sim.handle.now_ms() - before, 700);
    faults.add(Fault::on(
        "POST",
        "*/status/start",
        Action::FailTask("start failed: QEMU exited with code 1".to_owned()),
    ));
    let end = sim.task("POST", "/nodes/pve-0/qemu/101/status/start", &[]).await;
    assert_eq!(end, "start failed: QEMU exited with code 1");
    let records = sim.sim.requests();
    let dropped = records.iter().filter(|r| r.status.is_none()).count();
    assert_eq!((dropped, faults.hits()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn a_token_without_rights_is_told_which_it_lacks() {
    let sim = Sim::with(instant(), |o| {
        o.spec.acl.clear();
    })
    .await;
    let mut request = sim.request("POST", CLONE, &[("newid", "101")]);
    request.authorization = Some(format!(
        "PVEAPIToken=automation@pve!vmwright={}",
        vmwright::simulator::spec::DEMO_SECRET
    ));
    let response = sim.handle.handle(request.clone()).await.unwrap();
    assert_eq!(
        (response.status, response.reason.as_str()),
        (403, "Permission check failed (/vms/9000, VM.Clone)")
    );
    request.authorization = Some("PVEAPIToken=root@pam!vmwright=wrong".to_owned());
    let response = sim.handle.handle(request).await.unwrap();
    assert_eq!(
        (response.status, response.reason.as_str(), response.body.len()),
        (401, "Authentication failed!", 0)
    );
}

#[tokio::test]
async fn the_next_process_sees_the_same_cluster_and_two_at_once_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        durations: instant(),
        ..Options::api_only(dir.path())
    };
    let sim = Sim::with(instant(), |o| o.dir = dir.path().to_owned()).await;
    cloned(&sim).await;
    assert_eq!(sim.task("POST", "/nodes/pve-0/qemu/101/status/start", &[]).await, "OK");
    let error = Simulator::start(options()).await.unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    let fingerprint = sim.sim.fingerprint().to_owned();
    sim.sim.stop().await.unwrap();
    let sim = Simulator::start(options()).await.unwrap();
    assert_eq!(sim.fingerprint(), fingerprint);
    assert!(sim.with(|w| w.vms[&101].is_running() && w.vm_named("web-0").is_some()));
    sim.stop().await.unwrap();
}
