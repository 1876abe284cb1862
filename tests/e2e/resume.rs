//! The real binary is killed with SIGKILL at chosen moments, as by a power cut; the same command again finishes the work.
//!
//! Whatever the moment: one VM, complete, made by one clone; the dead run's lock is taken over by itself; nothing was
//! destroyed on the way.

use std::path::PathBuf;

use crate::support::{Run, Site, param};

const ARGS: [&str; 3] = ["provision", "--limit", "web-1"];

/// Runs the same command again and checks that it finished the work.
async fn assert_the_rerun_finishes(site: &Site) -> Run {
    assert_eq!(site.locks().len(), 1, "a killed run leaves its lock");
    let run = site
        .vmwright(&["provision", "--limit", "web-1", "--output", "json"])
        .await;
    run.assert_code(0);
    let names: Vec<String> = site.vms().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["prod-web-1"], "{}", run.all());
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
    site.vm("prod-web-1", |vm| {
        assert!(vm.is_running());
        assert_eq!(vm.config.cloudinit_slot(), None);
        assert!(vm.config.removals.is_empty() && vm.config.pending.is_empty());
        assert_eq!(vm.node, "pve-1");
    });
    assert!(
        site.changes().iter().all(|request| request.method != "DELETE"),
        "{:#?}",
        site.changes()
    );
    assert_eq!(site.sim.pihole().unwrap().records().hosts.len(), 1);
    // And once more: nothing left to do.
    site.sim.handle().clear_requests();
    site.vmwright(&ARGS).await.assert_code(0);
    assert_eq!(site.changes(), []);
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_clone_request_was_sent() {
    let site = Site::start().await;
    site.hold("POST", "*/clone");
    site.killed_there(&ARGS).await;
    assert_eq!(
        site.phase("prod-web-1").as_deref(),
        Some("cloning"),
        "the intent is written first"
    );
    assert_eq!(site.vms(), []);
    let intended = site.record("prod-web-1").unwrap()["phase"]["vmid"].clone();
    let run = assert_the_rerun_finishes(&site).await;
    assert_eq!(run.end("web-1")["vmid"], intended);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_clone_was_accepted_and_before_its_answer_came() {
    let site = Site::start().await;
    site.hold_answer("POST", "*/clone");
    site.killed_there(&ARGS).await;
    let record = site.record("prod-web-1").unwrap();
    assert_eq!(record["phase"]["is"], "cloning");
    assert!(record["phase"]["upid"].is_null(), "{record}");
    // No second clone, whatever is known of the first.
    let clones = |site: &Site| {
        site.sim
            .handle()
            .look(|world| world.tasks.iter().filter(|t| t.kind == "qmclone").count())
    };
    assert_eq!(clones(&site), 1);
    let run = assert_the_rerun_finishes(&site).await;
    assert_eq!(clones(&site), 1);
    assert_eq!(run.end("web-1")["vmid"], record["phase"]["vmid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_clone_task_runs() {
    let site = Site::with(|plan| plan.durations.clone = 1500).await;
    let started = site.begin(&ARGS);
    site.until("the clone's task on record", |site| {
        site.record("prod-web-1")
            .is_some_and(|record| record["phase"]["upid"].is_string())
    })
    .await;
    started.signal("KILL");
    started.end().await;
    let running = |site: &Site| {
        site.sim
            .handle()
            .look(|world| world.tasks.iter().filter(|task| task.is_running()).count())
    };
    assert_eq!(running(&site), 1, "the rerun finds it half-made");
    let upid = site.record("prod-web-1").unwrap()["phase"]["upid"].clone();
    assert_the_rerun_finishes(&site).await;
    let ended = site
        .sim
        .handle()
        .look(|world| world.task(upid.as_str().unwrap()).unwrap().exit.clone());
    assert_eq!(ended.as_deref(), Some("OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_the_migration_and_after_the_hardware_was_set() {
    let site = Site::start().await;
    site.hold_answer("POST", "*/migrate");
    site.killed_there(&ARGS).await;
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("created"));
    // Again, up to the answer to the first change of hardware: the MAC stays the one that it got then.
    site.hold_answer("PUT", "*/config");
    site.killed_there(&ARGS).await;
    assert_eq!(site.key("prod-web-1", "cores").as_deref(), Some("2"));
    let card = site.key("prod-web-1", "net0");
    assert_the_rerun_finishes(&site).await;
    assert_eq!(site.key("prod-web-1", "net0"), card);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_guest_boots() {
    let site = Site::start().await;
    site.behave("prod-web-1", |guest| guest.slow_boot_factor = 10.0);
    let started = site.begin(&ARGS);
    site.until("the VM's power", |site| {
        site.vms().len() == 1
            && site
                .sim
                .handle()
                .look(|world| world.vms.values().any(|vm| !vm.is_template() && vm.is_running()))
    })
    .await;
    started.signal("KILL");
    started.end().await;
    let run = assert_the_rerun_finishes(&site).await;
    assert!(run.stages("web-1").contains(&"cloud-init".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_drive_was_removed_and_before_the_restart() {
    let site = Site::start().await;
    site.hold("POST", "*/status/reboot");
    site.killed_there(&ARGS).await;
    let record = site.record("prod-web-1").unwrap();
    assert_eq!(record["phase"]["is"], "finalizing");
    assert_eq!(record["phase"]["step"], "drive-removed");
    let status = site.vmwright(&["status", "--limit", "web-1"]).await;
    status.assert_says("finalize: the restart is not proven yet");
    site.sim.handle().clear_requests();
    let run = site
        .vmwright(&["provision", "--limit", "web-1", "--plan", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_eq!(site.changes(), []);
    let run = assert_the_rerun_finishes(&site).await;
    assert_eq!(
        run.stages("web-1"),
        ["lock", "discover", "ownership", "start", "trust", "finalize"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_the_restart() {
    let site = Site::start().await;
    site.hold_answer("POST", "*/status/reboot");
    site.killed_there(&ARGS).await;
    assert_the_rerun_finishes(&site).await;
    // The restart under way was followed, not repeated.
    assert_eq!(site.vm("prod-web-1", |vm| vm.guest.boot_number()), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_the_restart_while_the_vm_is_down() {
    let site = Site::with(|plan| plan.durations.reboot_gap = 1500).await;
    let started = site.begin(&ARGS);
    site.until("the VM to be down for its restart", |site| {
        site.record("prod-web-1")
            .is_some_and(|record| record["phase"]["step"] == "drive-removed")
            && !site.vm("prod-web-1", |vm| vm.is_running())
    })
    .await;
    started.signal("KILL");
    started.end().await;
    assert_the_rerun_finishes(&site).await;
    assert_eq!(site.vm("prod-web-1", |vm| vm.guest.boot_number()), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_a_run_stops_at_a_safe_point_and_says_how_to_go_on() {
    let site = Site::start().await;
    site.behave("prod-web-1", |guest| guest.slow_boot_factor = 1000.0);
    let started = site.begin(&ARGS);
    site.until("the VM's power", |site| {
        site.sim
            .handle()
            .look(|world| world.vms.values().any(|vm| !vm.is_template() && vm.is_running()))
    })
    .await;
    started.signal("INT");
    let run = started.end().await;
    run.assert_code(130);
    assert_eq!(site.locks(), Vec::<PathBuf>::new(), "the lock is free");
    run.assert_says("stopping at the next safe point");
    let inventory = site.path("inventory");
    run.assert_says(&format!("vmwright provision -i {} --limit web-1", inventory.display()));
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("created"));

    // The guest is never seen again at this speed: an operator resets it, and the same command finishes.
    site.behave("prod-web-1", |_| {});
    site.sim.with(|world| {
        let vmid = world.vm_named("prod-web-1").unwrap().vmid;
        let now = world.now_ms();
        world.guest_mut(vmid).unwrap().power_off(now);
        world.vms.get_mut(&vmid).unwrap().power = vmwright::simulator::vm::Power::Stopped;
    });
    let again = site.vmwright(&ARGS).await;
    again.assert_code(0);
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_in_a_call_the_call_is_finished_and_recorded_first() {
    let site = Site::with(|plan| plan.durations.clone = 800).await;
    let started = site.begin(&ARGS);
    site.until("the clone request", |site| !site.changes_to("/clone").is_empty())
        .await;
    started.signal("INT");
    let run = started.end().await;
    run.assert_code(130);
    // The clone is not cut off, and its number and task are on record.
    let record = site.record("prod-web-1").unwrap();
    assert!(
        record["phase"]["is"] == "created" || record["phase"]["upid"].is_string(),
        "{record}\n{}",
        run.all()
    );
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
    site.vmwright(&ARGS).await.assert_code(0);
    let clones = site.changes_to("/clone");
    assert_eq!(clones.len(), 1);
    assert_eq!(param(&clones[0], "name"), Some("prod-web-1"));
}
