//! Tasks that fail and answers that are lost, at every changing request of a provisioning: in the end there is exactly one
//! right VM.

use std::collections::BTreeMap;

use vmwright::simulator::fault::{Action, Fault};

use crate::support::{Plan, Run, Site};
use crate::weather::{answer, assert_tidy, assert_told, calls, dns, fault, phase, snippets};

const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];

/// Every changing request of the provisioning of [`all_stages`]: method, path, which of its kind, and the stage it is from.
const CHANGES: [(&str, &str, u64, &str); 8] = [
    ("POST", "/nodes/*/qemu/9000/clone", 1, "clone"),
    ("POST", "/nodes/*/qemu/*/migrate", 1, "migrate"),
    ("PUT", "/nodes/*/qemu/*/config", 1, "hardware"),
    ("PUT", "/nodes/*/qemu/*/resize", 1, "hardware"),
    ("POST", "/nodes/*/qemu/*/config", 1, "hardware"),
    ("POST", "/nodes/*/qemu/*/status/start", 1, "start"),
    ("PUT", "/nodes/*/qemu/*/config", 2, "finalize"),
    ("POST", "/nodes/*/qemu/*/status/reboot", 1, "finalize"),
];

/// A host whose creation has every stage: it moves, grows and gets a second disk.
fn all_stages(plan: &mut Plan) {
    plan.durations = vmwright::simulator::clock::Durations::zero();
    plan.hosts = vec!["web-0 vms_proxmox_node=pve-1".to_owned()];
    plan.vms_config
        .push_str("  disk2: {disk: scsi1, size: 10, storage: local-lvm}\n");
}

/// What is the same however the VM came to be: its configuration without what is drawn by lot, its volumes, its node.
fn shape(site: &Site) -> BTreeMap<String, String> {
    assert_eq!(site.vms(), [(100, "web-0".to_owned())], "exactly one VM");
    site.sim.handle().look(|world| {
        let vm = &world.vms[&100];
        let mut shape: BTreeMap<String, String> = vm
            .config
            .applied()
            .into_iter()
            .filter(|(key, _)| !matches!(key.as_str(), "smbios1" | "vmgenid" | "meta"))
            .map(|(key, value)| match value.split_once(',') {
                Some((_, rest)) if key.starts_with("net") => (key, rest.to_owned()),
                _ => (key, value),
            })
            .collect();
        let mut volumes: Vec<String> = world
            .volumes
            .iter()
            .filter(|volume| volume.volid.contains("vm-100-"))
            .map(|volume| format!("{} {} {}", volume.volid, volume.node, volume.size))
            .collect();
        volumes.sort();
        shape.insert("volumes".to_owned(), volumes.join("\n"));
        shape.insert("node".to_owned(), vm.node.clone());
        shape.insert("running".to_owned(), vm.is_running().to_string());
        shape
    })
}

#[track_caller]
fn assert_right(site: &Site, what: &str, run: &Run, reference: &BTreeMap<String, String>) {
    assert_eq!(&shape(site), reference, "{what}: {}", run.all());
    assert_eq!(phase(site), "complete", "{what}");
    assert_eq!(dns(site), [format!("{} web-0.test.example", site.address(0))], "{what}");
    assert!(snippets(site).is_empty(), "{what}");
    assert_tidy(site, what, run);
}

async fn reference() -> BTreeMap<String, String> {
    let site = Site::with(all_stages).await;
    site.vmwright(&WEB_0).await.assert_code(0);
    let changes = calls(&site.changes());
    assert_eq!(changes.len(), CHANGES.len(), "the table has every change: {changes:#?}");
    let shape = shape(&site);
    assert!(
        shape["scsi0"].contains("size=20G") && shape["scsi1"].contains("size=10G"),
        "{shape:#?}"
    );
    assert!(
        !shape.contains_key("ide2") && !shape.keys().any(|key| key.starts_with("unused")),
        "{shape:#?}"
    );
    shape
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_stops_its_stage_with_the_end_of_its_log_and_the_next_run_goes_on() {
    let reference = reference().await;
    let site = Site::with(all_stages).await;
    let tasks = [
        ("POST", "/nodes/*/qemu/9000/clone", "clone"),
        ("POST", "/nodes/*/qemu/*/migrate", "migrate"),
        ("PUT", "/nodes/*/qemu/*/resize", "hardware"),
        ("POST", "/nodes/*/qemu/*/config", "hardware"),
        ("POST", "/nodes/*/qemu/*/status/start", "start"),
    ];
    for (method, path, stage) in tasks {
        let text = format!("{stage} broke: mirror on fire");
        fault(&site, method, path, Action::FailTask(text.clone()));
        let run = site.vmwright(&WEB_0).await;
        assert_told(
            path,
            &run,
            1,
            &[
                &format!("FAILED at {stage}"),
                "[task/failed]",
                &text,
                &format!("TASK ERROR: {text}"),
                "UPID:pve-",
                "go on with: vmwright provision",
                "--limit web-0",
            ],
        );
        assert_tidy(&site, path, &run);
        assert_eq!(site.sim.faults().hits(), 1, "{path}");
        site.sim.faults().clear();
    }
    // A reboot that fails is answered with a forced shutdown and a start.
    fault(
        &site,
        "POST",
        "/nodes/*/qemu/*/status/reboot",
        Action::FailTask("VM quit/powerdown failed".to_owned()),
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "reboot",
        &run,
        0,
        &[
            "ready, changed",
            "finalize/ignores-shutdown",
            "VM quit/powerdown failed",
        ],
    );
    assert_right(&site, "in the end", &run, &reference);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_unknown_end_is_looked_at_and_never_repeated_blindly() {
    let reference = reference().await;
    let site = Site::with(all_stages).await;
    // A killed clone leaves half a VM with its lock: it is left to a person, who is told what to do.
    let killed = || Action::FailTask("unexpected status".to_owned());
    fault(&site, "POST", "/nodes/*/qemu/9000/clone", killed());
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "killed clone",
        &run,
        1,
        &[
            "FAILED at clone",
            "[clone/left-over]",
            "locked (clone)",
            "qm unlock 100 && qm destroy 100",
        ],
    );
    assert_eq!(calls(&site.changes()).len(), 1, "one clone was asked for");
    assert_eq!(phase(&site), "cloning");
    assert_tidy(&site, "killed clone", &run);
    // The person does so. Every other task is killed too: the world is looked at, and what is missing is done.
    site.sim.with(|world| {
        world.vms.remove(&100);
        world.volumes.retain(|volume| !volume.volid.contains("vm-100-"));
    });
    // So does a killed migration.
    fault(&site, "POST", "/nodes/*/qemu/*/migrate", killed());
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "killed migration",
        &run,
        1,
        &[
            "FAILED at migrate",
            "[migrate/left-over]",
            "locked (migrate)",
            "on pve-0 with `qm unlock 100`",
        ],
    );
    assert_eq!(phase(&site), "created");
    assert_tidy(&site, "killed migration", &run);
    site.sim.with(|world| {
        let vm = world.vms.get_mut(&100).unwrap();
        assert_eq!(vm.config.current.shift_remove("lock").as_deref(), Some("migrate"));
    });
    for (method, path, nth, stage) in CHANGES {
        if method == "POST" && !matches!(stage, "clone" | "migrate") {
            site.sim.faults().add(Fault::on(method, path, killed()).nth(nth));
        }
    }
    let run = until_done(&site, "killed tasks", 8).await;
    assert_right(&site, "killed tasks", &run, &reference);
}

/// Runs until it is done; every run before ends with exit code 1 and says how to go on.
async fn until_done(site: &Site, what: &str, most: usize) -> Run {
    let mut runs = Vec::new();
    for _ in 0..most {
        let run = site.vmwright(&WEB_0).await;
        if run.code == 0 {
            return run;
        }
        assert_told(what, &run, 1, &["FAILED at", "go on with: vmwright provision"]);
        assert_tidy(site, what, &run);
        runs.push(run.all());
    }
    panic!("{what}: not done after {most} runs\n{}", runs.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_at_any_change_ends_with_exactly_one_right_vm() {
    let reference = reference().await;
    let cases: [(&str, Action, usize); 6] = [
        ("dropped before", Action::DropBefore, 1),
        ("dropped after", Action::DropAfter, 1),
        ("595", answer(595, "Connection refused"), 1),
        ("596", answer(596, "Connection timed out"), 1),
        ("599", answer(599, "Too many redirections"), 1),
        (
            "500",
            answer(500, "internal error: try me once more"),
            CHANGES.len() + 1,
        ),
    ];
    let all = cases.into_iter().map(|(what, action, most)| {
        let reference = &reference;
        async move {
            let site = Site::with(all_stages).await;
            for (method, path, nth, _) in CHANGES {
                site.sim.faults().add(Fault::on(method, path, action.clone()).nth(nth));
            }
            let run = until_done(&site, what, most).await;
            assert!(
                site.sim.faults().hits() >= CHANGES.len() as u64,
                "{what}: {}",
                site.sim.faults().hits()
            );
            assert_right(&site, what, &run, reference);
            // And it is done once and for all.
            site.sim.handle().clear_requests();
            let again = site.vmwright(&WEB_0).await;
            assert_told(what, &again, 0, &["ready, unchanged"]);
            assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{what}");
        }
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_at_any_look_is_asked_for_again() {
    // Every tenth look is lost, in turn before and after; nothing is told but the retries.
    let reference = reference().await;
    let site = Site::with(all_stages).await;
    for number in 0..40 {
        let action = if number % 2 == 0 {
            Action::DropBefore
        } else {
            answer(596, "Connection timed out")
        };
        site.sim.faults().add(Fault::on("GET", "*", action).nth(3 + 7 * number));
    }
    let run = site.vmwright(&WEB_0).await;
    assert_told("looks", &run, 0, &["ready, changed"]);
    assert!(site.sim.faults().hits() > 5);
    assert_right(&site, "looks", &run, &reference);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_holds_the_new_vm_is_waited_for_and_a_lock_that_was_left_behind_is_not() {
    const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];
    for (hold, exit) in [
        ("*/status/start", "OK"),
        ("*/config", "OK"),
        ("*/status/start", "unexpected status"),
    ] {
        let site = crate::support::Site::start().await;
        site.hold(if hold == "*/config" { "PUT" } else { "POST" }, hold);
        site.killed_there(&PROVISION).await;
        let id = site.vm("prod-web-1", |vm| vm.vmid);
        site.sim.with(|world| world.begin_backup(id));
        site.sim.handle().clear_requests();
        let tries = |site: &crate::support::Site| site.changes_to(hold.trim_start_matches('*')).len();
        let run = site.begin(&[&PROVISION[..], &["--output", "json"]].concat());
        site.until("a second try", |site| tries(site) >= 2).await;
        site.sim.with(|world| world.end_backup(id, exit));
        let run = run.end().await;
        run.assert_says("the lock of VM");
        run.assert_says("vzdump");
        if exit == "OK" {
            run.assert_code(0);
            assert_eq!(site.phase("prod-web-1").as_deref(), Some("complete"));
        } else {
            run.assert_code(1);
            run.assert_says("VM is locked (backup)");
            assert_eq!(site.phase("prod-web-1").as_deref(), Some("created"));
        }
    }
}
