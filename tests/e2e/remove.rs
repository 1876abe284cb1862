//! Remove: a VM goes with everything that belongs to it, and nothing goes without the exact name.

use std::path::PathBuf;

use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::pihole::{PiholeEffect, PiholeFault};
use vmwright::simulator::vm::Snapshot;

use crate::support::{Plan, Run, SSH_PORT, Site, param};

const REMOVE: [&str; 5] = ["remove", "--limit", "web-1", "--confirm", "prod-web-1"];

/// A site whose hosts `web-*` may be removed, with these provisioned.
pub async fn with(hosts: &str, change: impl FnOnce(&mut Plan)) -> Site {
    let site = Site::with(change).await;
    site.write("inventory/removable.ini", "[removable]\nweb-[0:5]\n");
    if !hosts.is_empty() {
        site.vmwright(&["provision", "--limit", hosts]).await.assert_code(0);
    }
    site.sim.handle().clear_requests();
    site
}

/// The names under which web-1 is known to ssh.
fn known_names(site: &Site) -> [String; 4] {
    [
        "web-1".to_owned(),
        format!("[web-1]:{SSH_PORT}"),
        format!("[web-1.test.example]:{SSH_PORT}"),
        format!("[{}]:{SSH_PORT}", site.address(1)),
    ]
}

/// The names that known_hosts has entries of.
fn known(site: &Site) -> Vec<String> {
    let text = site.read("known_hosts");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.flat_map(|names| names.split(',')).map(str::to_owned).collect()
}

/// The records of the Pi-hole.
fn dns(site: &Site) -> Vec<String> {
    site.sim.pihole().unwrap().records().hosts
}

/// The tasks that destroyed something, by VM.
fn destroyed(site: &Site) -> Vec<String> {
    site.sim.handle().look(|world| {
        let tasks = world.tasks.iter().filter(|task| task.kind == "qmdestroy");
        tasks.map(|task| task.id.clone()).collect()
    })
}

/// Nothing of web-1 is left anywhere.
#[track_caller]
fn assert_nothing_left(site: &Site, vmid: u32, run: &Run) {
    let names: Vec<String> = site.vms().into_iter().map(|(_, name)| name).collect();
    assert!(!names.contains(&"prod-web-1".to_owned()), "{names:?}\n{}", run.all());
    let volumes = site
        .sim
        .handle()
        .look(|world| world.volumes.iter().filter(|volume| volume.vmid == vmid).count());
    assert_eq!(volumes, 0, "{}", run.all());
    assert!(
        !dns(site).iter().any(|entry| entry.contains("web-1")),
        "{:?}",
        dns(site)
    );
    for name in known_names(site) {
        assert!(!known(site).contains(&name), "{name}\n{}", site.read("known_hosts"));
    }
    for node in ["pve-0", "pve-1", "pve-2"] {
        let left = site.snippets(node, "local");
        assert!(!left.iter().any(|name| name.starts_with("prod-web-1")), "{left:?}");
    }
    assert_eq!(site.record("prod-web-1"), None);
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
}

/// The VM runs, and everything that belongs to it is as it was.
#[track_caller]
fn assert_untouched(site: &Site, before: &(String, String, Vec<String>), run: &Run) {
    assert_eq!(&state(site), before, "{}", run.all());
    assert!(site.vm("prod-web-1", |vm| vm.is_running()), "{}", run.all());
    assert_eq!(site.changes(), [], "{}", run.all());
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
}

fn state(site: &Site) -> (String, String, Vec<String>) {
    let records = format!("{:?} {}", site.tree("state/records"), site.read("known_hosts"));
    (site.configs(), records, dns(site))
}

fn vmid(site: &Site, name: &str) -> u32 {
    site.vm(name, |vm| vm.vmid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_goes_with_everything_that_belongs_to_it_and_nothing_else_does() {
    let site = with("web-0,web-1", |plan| plan.vms = "vms_keep_snippets: true\n".to_owned()).await;
    let id = vmid(&site, "prod-web-1");
    for name in known_names(&site) {
        assert!(known(&site).contains(&name), "{name}\n{}", site.read("known_hosts"));
    }
    let (other, before) = (site.config("web-0"), state(&site));

    // The plan tells it all and needs no confirmation, since nothing is written.
    let plan = site.vmwright(&["remove", "--limit", "web-1", "--plan"]).await;
    plan.assert_code(0);
    assert_untouched(&site, &before, &plan);
    for text in [
        "power: running -> stopped",
        "VM 10",
        "DNS record: web-1.test.example",
        "known_hosts entries: web-1,",
        "snippet: prod-web-1-user-data-ci.yml on pve-1",
        "record: ",
        "planned",
    ] {
        plan.assert_says(text);
    }

    let run = site.vmwright(&[&REMOVE[..], &["--output", "json"]].concat()).await;
    run.assert_code(0);
    assert_nothing_left(&site, id, &run);
    assert_eq!(
        run.stages("web-1"),
        [
            "lock",
            "discover",
            "ownership",
            "protection",
            "obstacles",
            "stop",
            "destroy",
            "cleanup"
        ]
    );
    let end = run.end("web-1");
    assert_eq!((&end["outcome"], &end["vmid"]), (&"removed".into(), &id.into()));
    let changes: Vec<String> = site
        .changes()
        .iter()
        .map(|r| format!("{} {}", r.method, r.path))
        .collect();
    let vm = format!("/nodes/pve-1/qemu/{id}");
    assert_eq!(changes, [format!("POST {vm}/status/shutdown"), format!("DELETE {vm}")]);
    assert_eq!(param(&site.changes()[1], "purge"), Some("1"));

    // Its neighbour is as it was.
    assert_eq!(site.config("web-0"), other);
    assert!(site.vm("web-0", |vm| vm.is_running()));
    assert_eq!(dns(&site), [format!("{} web-0.test.example", site.address(0))]);
    assert!(known(&site).contains(&"web-0".to_owned()));
    assert_eq!(site.snippets("pve-0", "local").len(), 2);
    assert_eq!(site.phase("web-0").as_deref(), Some("complete"));

    // Again: there is nothing to remove, and that is no failure.
    site.sim.handle().clear_requests();
    let again = site.vmwright(&REMOVE).await;
    again.assert_code(0);
    again.assert_says("nothing to remove");
    assert_eq!(site.changes(), []);

    // Several at once, each by its name.
    let all = site
        .vmwright(&["remove", "--all", "--confirm", "web-0", "--confirm", "prod-web-1"])
        .await;
    all.assert_code(0);
    assert_eq!(site.vms(), []);
    assert_eq!(dns(&site), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_without_the_exact_name_or_outside_the_group() {
    let site = with("web-1", |_| {}).await;
    let before = state(&site);
    let asked = site.sim.requests().len();
    let answers = [
        "",
        "y",
        "yes",
        "Y",
        "true",
        "web-1",
        "PROD-WEB-1",
        "prod-web-1 ",
        "prod-web",
        "prod-web-1,web-0",
        "*",
    ];
    for answer in answers {
        let run = site
            .vmwright(&["remove", "--limit", "web-1", "--confirm", answer])
            .await;
        run.assert_code(4);
        run.assert_says("cli/not-confirmed");
        assert_untouched(&site, &before, &run);
    }
    for args in [
        &["remove", "--limit", "web-1"][..],
        &["remove", "--all", "--confirm", "prod-web-1"],
        &["remove", "--limit", "web-0,web-1", "--confirm", "prod-web-1"],
        &[
            "remove",
            "--limit",
            "web-1",
            "--confirm",
            "prod-web-1",
            "--confirm",
            "web-0",
        ],
    ] {
        let run = site.vmwright(args).await;
        run.assert_code(4);
        assert_untouched(&site, &before, &run);
    }
    // Without --limit or --all, and with a flag that there is not, it is a wrong command.
    for args in [
        &["remove", "--confirm", "prod-web-1"][..],
        &["remove", "--limit", "web-1", "--yes"],
        &["remove", "--limit", "web-1", "--all", "--confirm", "prod-web-1"],
        &["remove", "--limit", "no-such-host", "--confirm", "no-such-host"],
    ] {
        let run = site.vmwright(args).await;
        run.assert_code(2);
        assert_untouched(&site, &before, &run);
    }
    // Not in the group, with the right name.
    site.write("inventory/removable.ini", "[removable]\nweb-0\n");
    for args in [
        &REMOVE[..],
        &[
            "remove",
            "--limit",
            "web-0,web-1",
            "--confirm",
            "web-0",
            "--confirm",
            "prod-web-1",
        ],
    ] {
        let run = site.vmwright(args).await;
        run.assert_code(4);
        run.assert_says("remove/not-removable");
        assert_untouched(&site, &before, &run);
    }
    assert_eq!(site.sim.requests().len(), asked, "not even a look at the cluster");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_obstacle_is_found_before_the_guest_is_stopped() {
    let site = with("web-1", |_| {}).await;
    let id = vmid(&site, "prod-web-1");
    let set = |key: &'static str, value: Option<&'static str>| {
        site.sim.with(|world| {
            let config = &mut world.vms.get_mut(&id).unwrap().config.current;
            match value {
                Some(value) => drop(config.insert(key.to_owned(), value.to_owned())),
                None => drop(config.shift_remove(key)),
            }
        });
    };
    let snapshot = |there: bool| {
        site.sim.with(|world| {
            let snapshots = &mut world.vms.get_mut(&id).unwrap().config.snapshots;
            if there {
                let values = [("cores".to_owned(), "1".to_owned())].into_iter().collect();
                let description = None;
                snapshots.insert(
                    "before".to_owned(),
                    Snapshot {
                        values,
                        description,
                        time: 1,
                    },
                );
            } else {
                snapshots.clear();
            }
        });
    };
    let linked = |there: bool| {
        site.sim.with(|world| {
            let base = world.volumes.iter().find(|volume| volume.vmid == id).unwrap().clone();
            if there {
                let mut clone = base.clone();
                clone.volid = "local-lvm:vm-999-disk-0".to_owned();
                clone.vmid = 999;
                clone.base = Some(base.volid);
                world.volumes.push(clone);
            } else {
                world.volumes.retain(|volume| volume.vmid != 999);
            }
        });
    };
    let ha = |there: bool| {
        site.sim.with(|world| {
            if there {
                world.ha.insert(id)
            } else {
                world.ha.remove(&id)
            }
        });
    };
    let replicated = |there: bool| {
        site.sim.with(|world| {
            if there {
                world.replicated.insert(id)
            } else {
                world.replicated.remove(&id)
            }
        });
    };
    let refused = async |texts: &[&str]| {
        let before = state(&site);
        let run = site.vmwright(&REMOVE).await;
        run.assert_code(4);
        run.assert_says("remove/obstacles");
        for text in texts {
            run.assert_says(text);
        }
        assert_untouched(&site, &before, &run);
        assert_eq!(
            site.phase("prod-web-1").as_deref(),
            Some("complete"),
            "no intent either"
        );
    };
    set("protection", Some("1"));
    refused(&["protection: 1"]).await;
    set("lock", Some("backup"));
    refused(&["protection: 1", "locked (backup)", "2 obstacles"]).await;
    ha(true);
    replicated(true);
    snapshot(true);
    linked(true);
    refused(&[
        "protection: 1",
        "locked (backup)",
        "HA manages it",
        "replication job",
        "has snapshots: before",
        "linked clone",
        "6 obstacles",
    ])
    .await;
    set("protection", None);
    set("lock", None);
    ha(false);
    replicated(false);
    linked(false);
    refused(&["has snapshots: before", "--with-snapshots"]).await;
    let run = site.vmwright(&[&REMOVE[..], &["--with-snapshots"]].concat()).await;
    run.assert_code(0);
    assert_nothing_left(&site, id, &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_cannot_be_looked_at_is_an_obstacle_unless_it_is_gone() {
    let site = with("web-1", |_| {}).await;
    let fails = |text: &str| {
        let action = Action::Answer {
            status: 500,
            text: text.to_owned(),
        };
        site.sim.faults().clear();
        let fault = Fault::on("GET", "/nodes/*/storage/local-lvm/content", action);
        site.sim.faults().add(fault.always());
    };
    for text in [
        "unable to activate storage 'local-lvm' - directory '/dev/pve' does not exist or is unreachable",
        "storage 'local-lvm' is disabled",
        "storage 'local-lvm' is not online",
    ] {
        fails(text);
        let before = state(&site);
        for more in [&["--plan"][..], &[]] {
            let run = site.vmwright(&[&REMOVE[..], more].concat()).await;
            run.assert_code(4);
            for said in ["remove/obstacles", text, "pvesm remove local-lvm"] {
                run.assert_says(said);
            }
            assert_untouched(&site, &before, &run);
        }
    }
    fails("storage 'local-lvm' does not exist");
    let plan = site.vmwright(&[&REMOVE[..], &["--plan"]].concat()).await;
    plan.assert_code(0);
    plan.assert_says("remove/storage-unseen");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_other_machines_stay_in_known_hosts() {
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF";
    // Adopted as complete: no keys are on record, and the addresses are all that the agent tells.
    let site = with("web-1", |_| {}).await;
    for (path, ..) in site.tree("state/records") {
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let id = vmid(&site, "prod-web-1").to_string();
    let adopt = ["adopt", "web-1", "--vmid", &id, "--confirm", "prod-web-1"];
    site.vmwright(&adopt).await.assert_code(0);
    let address = format!("[{}]:{SSH_PORT}", site.address(1));
    // What a guest with containers tells: the bridge that every such machine has.
    let path = site
        .tree("state/records")
        .into_iter()
        .map(|(path, ..)| path)
        .find(|path| path.is_file())
        .unwrap();
    let mut record = site.record("prod-web-1").unwrap();
    record["phase"]["addresses"] = vec!["172.17.0.1/16".to_owned(), format!("{}/24", site.address(1))].into();
    std::fs::write(path, record.to_string()).unwrap();
    let others = format!("{address} {OTHER}\n[172.17.0.1]:{SSH_PORT} {OTHER}\n");
    site.write("known_hosts", &format!("{others}web-1,gate {OTHER}\n"));
    let plan = site.vmwright(&[&REMOVE[..], &["--plan"]].concat()).await;
    plan.assert_says("known_hosts entries: web-1 ");
    site.vmwright(&REMOVE).await.assert_code(0);
    assert_eq!(site.read("known_hosts"), format!("{others}gate {OTHER}\n"));

    // With keys on record only their entries go: the second machine of that name and address stays.
    let site = with("web-1", |_| {}).await;
    let own = site.read("known_hosts");
    let other = format!("web-1,{address} {OTHER}\n");
    site.write("known_hosts", &format!("{own}{other}"));
    site.vmwright(&REMOVE).await.assert_code(0);
    let rest = site.read("known_hosts");
    assert!(rest.ends_with(&other), "{rest}");
    assert_eq!(rest.matches("web-1").count(), 1, "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_not_ours_is_not_touched() {
    let site = with("web-1", |_| {}).await;
    let id = vmid(&site, "prod-web-1");
    let refused = async |code: &str| {
        let before = state(&site);
        let run = site.vmwright(&REMOVE).await;
        run.assert_code(4);
        run.assert_says(code);
        assert_untouched(&site, &before, &run);
    };
    let smbios = site.key("prod-web-1", "smbios1").unwrap();
    let write = |key: &str, value: &str| {
        site.sim.with(|world| {
            let config = &mut world.vms.get_mut(&id).unwrap().config.current;
            config.insert(key.to_owned(), value.to_owned());
        });
    };
    write("smbios1", "uuid=00000000-0000-4000-8000-00000000beef");
    refused("ownership/other-uuid").await;
    write("smbios1", &smbios);
    // Not on record: made by somebody else, whatever its name is.
    let record = site
        .tree("state/records")
        .into_iter()
        .find(|(path, ..)| path.is_file())
        .unwrap();
    std::fs::remove_file(&record.0).unwrap();
    refused("ownership/foreign").await;
    // An unreadable record proves nothing.
    std::fs::write(&record.0, "{").unwrap();
    let run = site.vmwright(&REMOVE).await;
    assert_ne!(run.code, 0, "{}", run.all());
    assert_eq!(site.changes(), []);
    assert!(site.vm("prod-web-1", |vm| vm.is_running()));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_vm_cannot_be_destroyed_everything_else_is_kept() {
    let site = with("web-1", |_| {}).await;
    let (id, dns_before, known_before) = (vmid(&site, "prod-web-1"), dns(&site), site.read("known_hosts"));
    site.sim
        .faults()
        .add(Fault::on("DELETE", "*", Action::FailTask("lvremove failed".to_owned())));
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(1);
    run.assert_says("lvremove failed");
    run.assert_says("--confirm prod-web-1");
    assert_eq!((dns(&site), site.read("known_hosts")), (dns_before, known_before));
    let record = site.record("prod-web-1").unwrap();
    assert_eq!(
        (&record["phase"]["is"], &record["phase"]["step"]),
        (&"removing".into(), &"stopped".into())
    );
    // Provision leaves a VM alone whose removal has begun.
    site.sim.handle().clear_requests();
    let provision = site.vmwright(&["provision", "--limit", "web-1"]).await;
    provision.assert_code(4);
    provision.assert_says("vmwright remove");
    assert_eq!(site.changes(), []);
    site.vmwright(&["status"]).await.assert_says("removing");

    let again = site.vmwright(&REMOVE).await;
    again.assert_code(0);
    assert_nothing_left(&site, id, &again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_not_shut_down_loses_its_power_after_the_bound() {
    let site = with("", |plan| plan.vms = "vms_shutdown_timeout: 7\n".to_owned()).await;
    site.behave("prod-web-1", |guest| guest.ignores_shutdown = true);
    site.vmwright(&["provision", "--limit", "web-1"]).await.assert_code(0);
    site.sim.handle().clear_requests();
    let id = vmid(&site, "prod-web-1");
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    run.assert_says("remove/ignores-shutdown");
    let changes: Vec<String> = site.changes().iter().map(|r| r.path.clone()).collect();
    let vm = format!("/nodes/pve-1/qemu/{id}");
    assert_eq!(
        changes,
        [format!("{vm}/status/shutdown"), format!("{vm}/status/stop"), vm]
    );
    assert_eq!(param(&site.changes()[0], "timeout"), Some("7"));
    assert_nothing_left(&site, id, &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_anywhere_the_same_command_again_finishes() {
    // Before and after each request that changes something, and in the cleaning up.
    let moments: [(&str, &str, bool); 4] = [
        ("POST", "*/status/shutdown", false),
        ("POST", "*/status/shutdown", true),
        ("DELETE", "*/qemu/*", false),
        ("DELETE", "*/qemu/*", true),
    ];
    let site = with("", |_| {}).await;
    for (method, path, answered) in moments {
        site.vmwright(&["provision", "--limit", "web-1"]).await.assert_code(0);
        let id = vmid(&site, "prod-web-1");
        let before = destroyed(&site).len();
        if answered {
            site.hold_answer(method, path);
        } else {
            site.hold(method, path);
        }
        site.killed_there(&REMOVE).await;
        assert_eq!(site.phase("prod-web-1").as_deref(), Some("removing"), "{method} {path}");
        assert_eq!(dns(&site).len(), 1, "{method} {path}: DNS goes last");
        let run = site.vmwright(&REMOVE).await;
        run.assert_code(0);
        assert_nothing_left(&site, id, &run);
        assert_eq!(destroyed(&site).len(), before + 1, "{method} {path}: destroyed once");
    }
    for method in ["GET", "DELETE"] {
        site.vmwright(&["provision", "--limit", "web-1"]).await.assert_code(0);
        let id = vmid(&site, "prod-web-1");
        let fault = PiholeFault {
            method: Some(method.to_owned()),
            containing: Some("/api/config/dns".to_owned()),
            skip: 0,
            times: None,
            effect: PiholeEffect::Delay { ms: 60_000 },
        };
        site.sim.pihole().unwrap().set_faults(vec![fault]);
        let started = site.begin(&REMOVE);
        site.until("the VM to be gone", |site| {
            site.record("prod-web-1")
                .is_some_and(|record| record["phase"]["step"] == "gone")
        })
        .await;
        started.signal("KILL");
        started.end().await;
        site.sim.pihole().unwrap().set_faults(Vec::new());
        let run = site.vmwright(&REMOVE).await;
        run.assert_code(0);
        assert_nothing_left(&site, id, &run);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_gone_already_is_cleaned_up_after() {
    let site = with("web-0,web-1", |_| {}).await;
    let id = vmid(&site, "prod-web-1");
    let destroy = |id: u32| {
        site.sim.with(|world| {
            world.power_off(id);
            world.vms.remove(&id);
            world.volumes.retain(|volume| volume.vmid != id);
        });
    };
    // While a node is away, not seen is not gone.
    destroy(id);
    site.sim.with(|world| world.set_node_online("pve-2", false));
    let dns_before = dns(&site);
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(4);
    run.assert_says("ownership/unknown");
    assert_eq!(
        (dns(&site), site.phase("prod-web-1").as_deref()),
        (dns_before, Some("complete"))
    );
    site.sim.with(|world| world.set_node_online("pve-2", true));
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    assert_nothing_left(&site, id, &run);

    // Killed while it was being destroyed; then somebody else gets the number.
    let id = vmid(&site, "web-0");
    const WEB_0: [&str; 5] = ["remove", "--limit", "web-0", "--confirm", "web-0"];
    site.hold("DELETE", "*/qemu/*");
    site.killed_there(&WEB_0).await;
    site.sim.with(|world| {
        let vm = world.vms.get_mut(&id).unwrap();
        vm.config.current.insert("name".to_owned(), "somebody-elses".to_owned());
        let uuid = "uuid=00000000-0000-4000-8000-00000000beef".to_owned();
        vm.config.current.insert("smbios1".to_owned(), uuid);
    });
    let foreign = site.configs();
    site.sim.handle().clear_requests();
    let run = site.vmwright(&WEB_0).await;
    run.assert_code(0);
    assert_eq!(site.changes(), [], "{}", run.all());
    assert_eq!(site.configs(), foreign);
    assert_eq!(site.record("web-0"), None);
    assert_eq!(dns(&site), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cut_off_creation_left_is_removed() {
    const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];
    let site = with("", |_| {}).await;
    // No clone: what was published before it goes.
    site.hold("POST", "*/clone");
    site.killed_there(&PROVISION).await;
    assert_eq!(dns(&site).len(), 1);
    site.sim.handle().clear_requests();
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    assert_nothing_left(&site, 0, &run);
    assert_eq!(site.changes(), []);
    // A clone that nobody has seen yet is known by its mark.
    site.hold_answer("POST", "*/clone");
    site.killed_there(&PROVISION).await;
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    assert_nothing_left(&site, 0, &run);
    assert_eq!(destroyed(&site).len(), 1);
    assert_eq!(site.vms(), []);
    // A VM that never got to its end.
    site.hold("POST", "*/status/start");
    site.killed_there(&PROVISION).await;
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("created"));
    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    assert_nothing_left(&site, 0, &run);
    assert_eq!(site.changes_to("/status/shutdown"), [], "it was stopped already");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_it_stops_at_a_safe_point_and_twice_at_once() {
    let site = with("", |plan| plan.durations.second = 1000).await;
    site.behave("prod-web-1", |guest| guest.ignores_shutdown = false);
    site.vmwright(&["provision", "--limit", "web-1"]).await.assert_code(0);
    let id = vmid(&site, "prod-web-1");
    // The answer to the shutdown never comes: the second signal does not wait for it.
    site.sim.with(|world| world.durations.shutdown = 2_000);
    site.hold_answer("POST", "*/status/shutdown");
    let started = site.begin(&REMOVE);
    site.held().await;
    started.signal("INT");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    started.signal("INT");
    let twice = started.end().await;
    twice.assert_code(130);
    site.sim.faults().clear();
    assert_eq!(site.phase("prod-web-1").as_deref(), Some("removing"));

    let started = site.begin(&REMOVE);
    site.until("the lock", |site| {
        site.locks().len() == 1
            && site.tree("state/locks").iter().any(|(_, _, text)| {
                String::from_utf8_lossy(text).contains(&format!("\"pid\": {}", started.pid()))
                    || String::from_utf8_lossy(text).contains(&format!("\"pid\":{}", started.pid()))
            })
    })
    .await;
    started.signal("INT");
    let once = started.end().await;
    once.assert_code(130);
    once.assert_says("stopping at the next safe point");
    assert_eq!(site.locks(), Vec::<PathBuf>::new(), "{}", once.all());
    assert_eq!(dns(&site).len(), 1);

    let run = site.vmwright(&REMOVE).await;
    run.assert_code(0);
    assert_nothing_left(&site, id, &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_that_find_a_dead_holder_one_takes_over() {
    let site = with("web-1", |_| {}).await;
    let id = vmid(&site, "prod-web-1");
    site.hold("DELETE", "*/qemu/*");
    site.killed_there(&REMOVE).await;
    assert_eq!(site.locks().len(), 1);
    site.sim
        .faults()
        .add(Fault::on("DELETE", "*/qemu/*", Action::Delay(6_000)));
    let started: Vec<_> = (0..20).map(|_| site.begin(&REMOVE)).collect();
    let mut ends = Vec::new();
    for one in started {
        ends.push(one.end().await);
    }
    let worked = ends
        .iter()
        .filter(|run| run.code == 0 && run.stdout.contains("1 removed"))
        .count();
    let locked = ends.iter().filter(|run| run.code == 3).count();
    let late = ends
        .iter()
        .filter(|run| run.stdout.contains("nothing to remove"))
        .count();
    let all: String = ends.iter().map(Run::all).collect();
    assert_eq!((worked, worked + locked + late), (1, 20), "{all}");
    assert!(locked > 0, "{all}");
    assert_nothing_left(&site, id, &ends[0]);
    assert_eq!(destroyed(&site).len(), 1);
}
