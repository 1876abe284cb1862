//! Guests that are not ours and records that cannot be trusted: exit code 4 or a plain refusal, and not one write.

use indexmap::IndexMap;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::spec::{AclSpec, ContainerSpec, DiskSpec, Size, VmSpec};

use crate::support::{Plan, Site};
use crate::weather::{
    assert_tidy, assert_told, assert_wrote_nothing, calls, configs, dns, fault, locks, phase, record, records, snippets,
};

const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];

fn quick(plan: &mut Plan) {
    plan.durations = vmwright::simulator::clock::Durations::zero();
}

/// Somebody's VM, with a cloud-init drive, as ours would have.
fn stranger(vmid: u32, name: &str, node: &str) -> VmSpec {
    VmSpec {
        vmid,
        name: name.to_owned(),
        node: node.to_owned(),
        storage: "local-lvm".to_owned(),
        disks: IndexMap::from([(
            "scsi0".to_owned(),
            DiskSpec {
                size: Size::gib(20),
                data: None,
                format: None,
            },
        )]),
        cloudinit: Some("ide2".to_owned()),
        config: IndexMap::from([("net0".to_owned(), "virtio,bridge=vmbr0".to_owned())]),
        ..VmSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_of_the_name_that_is_not_ours_is_never_touched() {
    type Case<'t> = (&'t str, fn(&mut Plan), &'t [&'t str]);
    let cases: [Case<'_>; 5] = [
        (
            "a foreign VM",
            |plan| plan.spec.vms.push(stranger(150, "web-0", "pve-2")),
            &[
                "[ownership/foreign]",
                "VM 150 on pve-2 is called web-0",
                "no record",
                "--state-dir",
            ],
        ),
        (
            "two VMs",
            |plan| {
                plan.spec.vms.push(stranger(150, "web-0", "pve-0"));
                plan.spec.vms.push(stranger(151, "web-0", "pve-2"));
            },
            &["[ownership/ambiguous]", "VM 150 on pve-0", "VM 151 on pve-2"],
        ),
        (
            "a container",
            |plan| {
                plan.spec.containers.push(ContainerSpec {
                    vmid: 152,
                    name: "web-0".to_owned(),
                    node: "pve-1".to_owned(),
                    template: false,
                });
            },
            &["[ownership/wrong-kind]", "container 152 on pve-1"],
        ),
        (
            "a template",
            |plan| {
                plan.spec.vms.push(VmSpec {
                    template: true,
                    ..stranger(153, "web-0", "pve-0")
                });
            },
            &["[ownership/wrong-kind]", "template 153 on pve-0"],
        ),
        (
            "a foreign VM and a container",
            |plan| {
                plan.spec.vms.push(stranger(150, "web-0", "pve-2"));
                plan.spec.containers.push(ContainerSpec {
                    vmid: 152,
                    name: "web-0".to_owned(),
                    node: "pve-1".to_owned(),
                    template: false,
                });
            },
            &["[ownership/", "web-0"],
        ),
    ];
    for (what, change, words) in cases {
        let site = Site::with(|plan| {
            quick(plan);
            change(plan);
        })
        .await;
        let before = configs(&site);
        let run = site.vmwright(&WEB_0).await;
        assert_told(what, &run, 4, words);
        assert_told(what, &run, 4, &["REFUSED at ownership", "changed so far: nothing"]);
        assert_wrote_nothing(&site, what, &run);
        assert_eq!(configs(&site), before, "{what}");
        // A plan says the same and is refused too.
        let plan = site.vmwright(&["provision", "--plan", "--limit", "web-0"]).await;
        assert_told(what, &plan, 4, words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_does_not_agree_with_the_cluster_stops_everything() {
    let site = Site::with(quick).await;
    site.vmwright(&WEB_0).await.assert_code(0);
    let good = std::fs::read(&records(&site)[0]).unwrap();
    site.sim
        .with(|world| world.add_vm(&stranger(150, "other", "pve-2")).unwrap());
    type Alter = fn(&Site);
    let cases: [(&str, Alter, Alter, &[&str]); 4] = [
        (
            "another number",
            |site| change_record(site, |record| record["phase"]["vmid"] = 150.into()),
            |_| {},
            &["[ownership/other-vm]", "VM 150", "VM 100"],
        ),
        (
            "another UUID",
            |site| {
                change_record(site, |record| {
                    record["phase"]["uuid"] = "00000000-0000-4000-8000-000000000000".into();
                });
            },
            |_| {},
            &[
                "[ownership/other-uuid]",
                "VM 100",
                "00000000-0000-4000-8000-000000000000",
            ],
        ),
        (
            "another name",
            |site| rename(site, 100, "renamed"),
            |site| rename(site, 100, "web-0"),
            &["[ownership/renamed]", "VM 100", "now called renamed"],
        ),
        (
            "a foreign VM took the name of ours, which was renamed",
            |site| {
                rename(site, 100, "renamed");
                rename(site, 150, "web-0");
            },
            |site| {
                rename(site, 150, "other");
                rename(site, 100, "web-0");
            },
            &["[ownership/other-vm]", "VM 100", "VM 150 on pve-2"],
        ),
    ];
    for (what, alter, mend, words) in cases {
        alter(&site);
        let (before, record) = (configs(&site), std::fs::read(&records(&site)[0]).unwrap());
        let published = dns(&site);
        site.sim.handle().clear_requests();
        let run = site.vmwright(&WEB_0).await;
        assert_told(what, &run, 4, words);
        assert_told(what, &run, 4, &["REFUSED at ownership", "nothing was touched"]);
        assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{what}");
        assert_eq!(configs(&site), before, "{what}");
        assert_eq!(std::fs::read(&records(&site)[0]).unwrap(), record, "{what}");
        assert_eq!((dns(&site), snippets(&site)), (published, vec![]), "{what}");
        assert_tidy(&site, what, &run);
        mend(&site);
        std::fs::write(&records(&site)[0], &good).unwrap();
    }
    let run = site.vmwright(&WEB_0).await;
    assert_told("mended", &run, 0, &["ready, unchanged"]);
    // The VM is gone: a record without its VM is no leave to make another one.
    site.sim.with(|world| world.vms.remove(&100));
    site.sim.handle().clear_requests();
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "gone",
        &run,
        4,
        &["[ownership/gone]", "VM 100", "there is no such VM", "vmwright forget"],
    );
    assert_eq!(calls(&site.changes()), Vec::<String>::new());
    assert_eq!(std::fs::read(&records(&site)[0]).unwrap(), good);
    // Not even where it may only be hidden.
    site.sim.with(|world| world.set_node_online("pve-2", false));
    let run = site.vmwright(&WEB_0).await;
    assert_told("hidden", &run, 4, &["[ownership/unknown]", "node pve-2 is offline"]);
    assert_tidy(&site, "hidden", &run);
}

/// Rewrites the single record.
fn change_record(site: &Site, change: impl FnOnce(&mut serde_json::Value)) {
    let mut value = record(site);
    change(&mut value);
    std::fs::write(&records(site)[0], serde_json::to_vec_pretty(&value).unwrap()).unwrap();
}

fn rename(site: &Site, vmid: u32, name: &str) {
    site.sim.with(|world| {
        let vm = world.vms.get_mut(&vmid).unwrap();
        vm.config.current.insert("name".to_owned(), name.to_owned());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_no_record_and_no_leave() {
    let site = Site::with(quick).await;
    site.vmwright(&WEB_0).await.assert_code(0);
    let path = records(&site)[0].clone();
    let good = std::fs::read_to_string(&path).unwrap();
    let wrong = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let vms = configs(&site);
    let cases = [
        ("cut off", good[..good.len() / 2].to_owned(), "[state/corrupt-record]"),
        ("empty", String::new(), "[state/corrupt-record]"),
        ("no JSON", "hello\n".to_owned(), "[state/corrupt-record]"),
        (
            "a field that nobody knows",
            wrong("\"schema\": 1,", "\"schema\": 1, \"extra\": 1,"),
            "[state/",
        ),
        (
            "a future version",
            wrong("\"schema\": 1,", "\"schema\": 2,"),
            "[state/future-version]",
        ),
        (
            "another name",
            wrong("\"name\": \"web-0\"", "\"name\": \"web-9\""),
            "[state/wrong-key]",
        ),
        (
            "another cluster",
            wrong("\"cluster\": \"127.0.0.1:", "\"cluster\": \"192.0.2.1:"),
            "[state/wrong-key]",
        ),
    ];
    for (what, text, code) in cases {
        std::fs::write(&path, &text).unwrap();
        site.sim.handle().clear_requests();
        let run = site.vmwright(&WEB_0).await;
        assert_told(
            what,
            &run,
            4,
            &[
                code,
                "REFUSED at lock",
                "cannot trust the record",
                &path.file_name().unwrap().to_string_lossy(),
            ],
        );
        assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{what}");
        assert_eq!(configs(&site), vms, "{what}");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            text,
            "{what}: nothing is repaired"
        );
        assert_tidy(&site, what, &run);
        // Status tells it too, and does not fall over.
        let status = site.vmwright(&["status"]).await;
        assert!(
            status.all().contains(code.trim_matches(['[', ']'])),
            "{what}: {}",
            status.all()
        );
    }
    std::fs::write(&path, &good).unwrap();
    let run = site.vmwright(&WEB_0).await;
    assert_told("mended", &run, 0, &["ready, unchanged"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_taken_is_told_before_anything_is_written() {
    let site = Site::with(|plan| {
        quick(plan);
        plan.hosts = vec!["web-0 vms_proxmox_node=pve-0 vms_vmid=150".to_owned()];
        plan.spec.vms.push(stranger(150, "other", "pve-2"));
    })
    .await;
    let before = configs(&site);
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "taken",
        &run,
        1,
        &[
            "FAILED at readiness",
            "[readiness/vmid-taken]",
            "150",
            "other",
            "pve-2",
            "hosts.ini:2",
            "vms_vmid",
        ],
    );
    assert_wrote_nothing(&site, "taken", &run);
    assert_eq!(configs(&site), before);
    // A template's number, too.
    let site = Site::with(|plan| {
        quick(plan);
        plan.hosts = vec!["web-0 vms_proxmox_node=pve-0 vms_vmid=9000".to_owned()];
    })
    .await;
    let run = site.vmwright(&WEB_0).await;
    assert_told("template", &run, 1, &["[readiness/vmid-taken]", "9000"]);
    assert_wrote_nothing(&site, "template", &run);
    // Our own half-made clone has it: that is no reason to stop.
    let site = Site::with(|plan| {
        quick(plan);
        plan.hosts = vec!["web-0 vms_proxmox_node=pve-0 vms_vmid=150".to_owned()];
    })
    .await;
    fault(
        &site,
        "GET",
        "/nodes/*/tasks/*/status",
        crate::weather::answer(403, "Permission check failed (/, Sys.Audit)"),
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told("half-made", &run, 1, &["FAILED at clone"]);
    assert_eq!(phase(&site), "cloning");
    let run = site.vmwright(&WEB_0).await;
    assert_told("goes on", &run, 0, &["ready, changed"]);
    assert_eq!(site.vms(), [(150, "web-0".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_taken_in_the_last_moment_is_left_to_its_owner() {
    let site = Site::with(quick).await;
    fault(&site, "POST", "/nodes/*/qemu/9000/clone", Action::Delay(400));
    let watch = async {
        // Between the question for a free number and the clone somebody takes it.
        while !site
            .sim
            .requests()
            .iter()
            .any(|request| request.path == "/cluster/nextid")
        {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        site.sim
            .with(|world| world.add_vm(&stranger(100, "other", "pve-2")).unwrap());
        configs(&site)
    };
    let (run, before) = tokio::join!(site.vmwright(&WEB_0), watch);
    assert_told("race", &run, 0, &["ready, changed", "VM 101"]);
    assert_eq!(site.vms(), [(100, "other".to_owned()), (101, "web-0".to_owned())]);
    assert_eq!(configs(&site)[&100], before[&100]);
    assert_tidy(&site, "race", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_of_the_name_that_appears_during_the_run_is_not_overwritten() {
    // Somebody makes a VM of our name while ours waits for its clone; it takes our number, too.
    let site = Site::with(quick).await;
    fault(&site, "POST", "/nodes/*/qemu/9000/clone", Action::Delay(400));
    let watch = async {
        while !site
            .sim
            .requests()
            .iter()
            .any(|request| request.path == "/cluster/nextid")
        {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        site.sim
            .with(|world| world.add_vm(&stranger(100, "web-0", "pve-0")).unwrap());
        configs(&site)
    };
    let (run, before) = tokio::join!(site.vmwright(&WEB_0), watch);
    assert_told(
        "race",
        &run,
        4,
        &[
            "REFUSED at clone",
            "[ownership/foreign]",
            "VM 100 on pve-0 is called web-0",
        ],
    );
    assert_eq!(configs(&site), before);
    assert_eq!(locks(&site), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_somebody_takes_meanwhile_is_not_made_a_second_time() {
    let with_a_stranger = |plan: &mut Plan| plan.spec.vms.push(stranger(150, "db-0", "pve-2"));
    // Between the look at the cluster and the clone, in which others of the run may be waited for.
    let site = Site::with(with_a_stranger).await;
    site.sim
        .faults()
        .add(Fault::on("GET", "/cluster/nextid", Action::Delay(1500)));
    let run = site.begin(&WEB_0);
    site.held().await;
    rename(&site, 150, "web-0");
    let run = run.end().await;
    run.assert_code(4);
    run.assert_says("[ownership/foreign]");
    run.assert_says("VM 150 on pve-2 is called web-0");
    assert_eq!(site.changes_to("/clone").len(), 0);
    assert_eq!(site.vms(), [(150, "web-0".to_owned())]);

    // While the clone is made: ours is not started beside it.
    let site = Site::with(with_a_stranger).await;
    site.sim
        .faults()
        .add(Fault::on("POST", "*/clone", Action::DelayAnswer(1500)));
    let run = site.begin(&WEB_0);
    site.held().await;
    rename(&site, 150, "web-0");
    let run = run.end().await;
    run.assert_code(4);
    run.assert_says("[ownership/ambiguous]");
    run.assert_says("is the one that was made for this host; it was not started");
    assert_eq!(site.changes_to("/status/start").len(), 0);
    // Once the other one has its own name back, the same command goes on with ours.
    rename(&site, 150, "db-0");
    site.vmwright(&WEB_0).await.assert_code(0);
    assert_eq!(site.changes_to("/clone").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_hidden_from_the_identity_is_not_gone() {
    let site = crate::remove::with("web-0", quick).await;
    let vmid = site.vms()[0].0;
    site.sim.handle().with(|world| {
        world.access.acl.push(AclSpec {
            path: format!("/vms/{vmid}"),
            id: "automation@pve".to_owned(),
            role: "NoAccess".to_owned(),
            propagate: true,
        });
    });
    let (state, changes) = (site.tree("state/records"), site.changes());
    for args in [
        &["provision", "--limit", "web-0"][..],
        &["remove", "--limit", "web-0", "--confirm", "web-0"],
        &["forget", "web-0", "--confirm", "web-0"],
    ] {
        let run = site.vmwright(args).await;
        run.assert_code(4);
        run.assert_says("[ownership/unknown]");
        run.assert_says(&format!("the number {vmid} is not free"));
    }
    let status = site.vmwright(&["status", "--limit", "web-0"]).await;
    status.assert_code(0);
    status.assert_says("unseen");
    assert_eq!(site.tree("state/records"), state);
    assert_eq!(site.changes(), changes);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_whose_request_may_be_on_its_way_is_not_forgotten() {
    let site = Site::with(quick).await;
    site.hold("POST", "*/clone");
    site.killed_there(&WEB_0).await;
    let run = site.vmwright(&["forget", "web-0", "--confirm", "web-0"]).await;
    run.assert_code(4);
    run.assert_says("[forget/cloning]");
    assert_eq!(site.phase("web-0").as_deref(), Some("cloning"));
}
