//! The clone against a fake cluster: lost answers, races for a number, what is left behind, and never a second VM.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::engine::host::Halt;
use crate::engine::testing::{Fixture, Reply, config, upid};

const UUID: &str = "3a940e9f-7149-44b9-8fde-c9584aefc10c";

#[test]
fn the_mark_is_a_line_of_its_own_and_goes_without_trace() {
    let operation = Uuid::nil();
    assert_eq!(
        unmarked(&format!("notes\nof the template\n\n{}", mark(operation))).as_deref(),
        Some("notes\nof the template")
    );
    assert_eq!(unmarked(&mark(operation)), None);
    assert_eq!(unmarked("plain").as_deref(), Some("plain"));
}

#[test]
fn the_mark_tells_whose_a_vm_is() {
    let operation = Uuid::new_v4();
    let (ours, other) = (mark(operation), mark(Uuid::new_v4()));
    let text = format!("notes\n\n{ours}\n");
    for (data, expected) in [
        (json!({"name": "web-0", "description": text}), Mark::Ours),
        (
            json!({"name": "web-0", "description": ours, "lock": "clone"}),
            Mark::Making,
        ),
        (
            json!({"name": "web-0", "description": ours, "lock": "backup"}),
            Mark::Ours,
        ),
        (
            json!({"description": "qmclone temporary file\n", "lock": "clone"}),
            Mark::Making,
        ),
        (json!({"lock": "clone"}), Mark::Making),
        (json!({"name": "db-0", "lock": "clone"}), Mark::Foreign),
        (json!({"name": "web-0", "description": other}), Mark::Foreign),
        (
            json!({"name": "web-0", "description": other, "lock": "clone"}),
            Mark::Foreign,
        ),
        (json!({"name": "web-0"}), Mark::Foreign),
        (
            json!({"name": "web-0", "description": format!("see {ours}")}),
            Mark::Foreign,
        ),
    ] {
        assert_eq!(read_mark(&config(data.clone()), operation), expected, "{data}");
    }
}

/// A cluster with a template 9000 on pve1 and the VMs that are cloned from it.
#[derive(Default)]
struct World {
    vms: std::collections::BTreeMap<u32, Value>,
    /// What the next clone requests get; empty is success.
    script: Vec<Fate>,
    posts: Vec<u32>,
    /// Ids that `nextid` gives first.
    proposals: Vec<u32>,
    task_runs: bool,
    exit: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Executed, and the answer is lost.
    LostAfter,
    /// Not executed, and the answer is lost.
    LostBefore,
    /// Somebody else takes the number first.
    Stolen(&'static str),
    /// A lock was not free.
    Busy,
    /// Executed; the task goes on while the answer is lost.
    LostWhileMaking,
}

fn world(fixture: &Fixture) -> Arc<Mutex<World>> {
    let world = Arc::new(Mutex::new(World {
        proposals: vec![105],
        exit: "OK",
        ..World::default()
    }));
    let state = Arc::clone(&world);
    fixture.api.on(move |request| {
        let mut world = state.lock().unwrap();
        let param = |key: &str| {
            let found = request.params.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        let parts: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        Some(match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["cluster", "nextid"]) => match param("vmid") {
                Some(id) if world.vms.contains_key(&id.parse().unwrap()) => {
                    Reply::status(400, &format!("VM {id} already exists"))
                }
                Some(id) => Reply::Data(json!(id)),
                None => {
                    let free = world.proposals.iter().chain(&[106, 107]).find(|id| !world.vms.contains_key(id));
                    Reply::Data(json!(free.unwrap().to_string()))
                }
            },
            ("GET", ["cluster", "resources"]) => Reply::Data(json!(
                world
                    .vms
                    .iter()
                    .map(|(id, vm)| json!({"vmid": id, "node": "pve1", "type": vm["kind"].as_str().unwrap_or("qemu"), "name": vm["name"]}))
                    .collect::<Vec<_>>()
            )),
            ("GET", ["cluster", "status"]) => Reply::Data(json!([{"type": "node", "name": "pve1", "online": 1}])),
            ("GET", ["access", "permissions"]) => Reply::Data(json!({})),
            ("GET", ["nodes", "pve1", "qemu"]) => Reply::Data(json!([])),
            ("GET", ["nodes", "pve1", "qemu", id, "config"]) => match world.vms.get(&id.parse().unwrap()) {
                Some(vm) if vm["kind"] != "lxc" => Reply::Data(vm.clone()),
                _ => Reply::status(500, &format!("Configuration file 'nodes/pve1/qemu-server/{id}.conf' does not exist")),
            },
            ("GET", ["nodes", "pve1", "tasks"]) if world.task_runs => Reply::Data(json!([
                {"upid": upid("qmclone", 9000), "type": "qmclone", "id": "9000", "starttime": 1}
            ])),
            ("GET", ["nodes", "pve1", "tasks"]) => Reply::Data(json!([])),
            ("GET", ["nodes", "pve1", "tasks", _, "status"]) if world.task_runs => {
                Reply::Data(json!({"status": "running"}))
            }
            ("GET", ["nodes", "pve1", "tasks", _, "status"]) => {
                Reply::Data(json!({"status": "stopped", "exitstatus": world.exit}))
            }
            ("POST", ["nodes", "pve1", "qemu", "9000", "clone"]) => {
                let id: u32 = param("newid").unwrap().parse().unwrap();
                world.posts.push(id);
                if world.vms.contains_key(&id) {
                    return Some(Reply::status(500, &format!("unable to create VM {id}: config file already exists")));
                }
                let fate = if world.script.is_empty() { None } else { Some(world.script.remove(0)) };
                let made = json!({
                    "name": param("name"), "description": param("description"), "smbios1": format!("uuid={UUID}"),
                });
                match fate {
                    None => {
                        world.vms.insert(id, made);
                        Reply::Data(json!(upid("qmclone", 9000)))
                    }
                    Some(Fate::LostAfter) => {
                        world.vms.insert(id, made);
                        Reply::Lost
                    }
                    Some(Fate::LostWhileMaking) => {
                        world.vms.insert(id, json!({"description": "qmclone temporary file\n", "lock": "clone"}));
                        world.task_runs = true;
                        Reply::Lost
                    }
                    Some(Fate::LostBefore) => Reply::Lost,
                    Some(Fate::Busy) => {
                        Reply::status(500, "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout")
                    }
                    Some(Fate::Stolen(name)) => {
                        world.vms.insert(id, json!({"name": name, "smbios1": "uuid=99999999-0000-0000-0000-000000000000"}));
                        Reply::status(500, &format!("unable to create VM {id}: config file already exists"))
                    }
                }
            }
            _ => return None,
        })
    });
    world
}

fn template() -> Template {
    Template {
        vmid: "9000".parse().unwrap(),
        node: "pve1".parse().unwrap(),
        config: config(json!({"name": "debian-12-cloudinit", "description": "made by the platform team"})),
    }
}

async fn clone(fixture: &Fixture) -> Result<Cloned, (&'static str, Exit)> {
    let template = template();
    let ready = Ready::of(template.clone());
    let stage = Clone {
        ready: &ready,
        template: &template,
    };
    fixture.run.stage(stage).await.map_err(|halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } => ("planned", Exit::Done),
        Halt::Interrupted { .. } => ("interrupted", Exit::Interrupted),
    })
}

fn vmid(id: u32) -> VmId {
    id.to_string().parse().unwrap()
}

/// The VMs that carry a mark of ours.
fn ours(world: &Mutex<World>) -> Vec<u32> {
    let world = world.lock().unwrap();
    let marked = |vm: &Value| {
        vm["description"]
            .as_str()
            .unwrap_or_default()
            .contains("vmwright operation")
    };
    world
        .vms
        .iter()
        .filter(|(_, vm)| marked(vm))
        .map(|(id, _)| *id)
        .collect()
}

fn intent(operation: Uuid, task: Option<&str>) -> Phase {
    Phase::Cloning {
        vmid: vmid(105),
        operation,
        template: vmid(9000),
        template_node: "pve1".parse().unwrap(),
        upid: task.map(|task| task.parse().unwrap()),
        since: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[tokio::test(start_paused = true)]
async fn the_intent_is_on_disk_before_the_request_and_the_result_after_it() {
    let fixture = Fixture::new().locked();
    let world = world(&fixture);
    let seen = Arc::new(Mutex::new(None));
    let (state, key, told) = (
        Arc::clone(&fixture.run.shared.state),
        fixture.run.key.clone(),
        Arc::clone(&seen),
    );
    fixture.api.on(move |request| {
        if request.path.ends_with("/clone") {
            *told.lock().unwrap() = state.read_record(&key).unwrap().map(|record| record.phase);
        }
        None
    });
    let cloned = clone(&fixture).await.unwrap();
    assert_eq!((cloned.vm.vmid, cloned.vm.uuid.as_str()), (vmid(105), UUID));
    let Some(Phase::Cloning {
        vmid: intended,
        operation,
        upid: None,
        ..
    }) = seen.lock().unwrap().take()
    else {
        panic!("no intent on disk when the request was sent")
    };
    assert_eq!(intended, vmid(105));
    assert_eq!(
        fixture.on_disk(),
        Some(Phase::Created {
            vmid: vmid(105),
            uuid: UUID.to_owned(),
            node: "pve1".parse().unwrap(),
        })
    );
    let description = world.lock().unwrap().vms[&105]["description"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(description, format!("made by the platform team\n\n{}", mark(operation)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_never_makes_a_second_vm() {
    for (script, posts) in [
        (vec![Fate::LostAfter], vec![105]),
        (vec![Fate::LostBefore], vec![105, 105]),
        (vec![Fate::LostBefore, Fate::LostAfter], vec![105, 105]),
        (vec![Fate::Busy, Fate::Busy], vec![105, 105, 105]),
        (vec![Fate::Busy, Fate::LostAfter], vec![105, 105]),
    ] {
        let fixture = Fixture::new().locked();
        let world = world(&fixture);
        world.lock().unwrap().script = script.clone();
        let cloned = clone(&fixture).await.unwrap();
        assert_eq!(cloned.vm.vmid, vmid(105), "{script:?}");
        assert_eq!(ours(&world), [105], "{script:?}");
        assert_eq!(world.lock().unwrap().posts, posts, "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_that_takes_its_time_is_waited_for() {
    let fixture = Fixture::new().locked();
    let world = world(&fixture);
    world.lock().unwrap().script = vec![Fate::LostWhileMaking];
    let finish = async {
        tokio::time::sleep(std::time::Duration::from_secs(300)).await;
        let Some(Phase::Cloning { operation, .. }) = fixture.on_disk() else {
            panic!("no intent")
        };
        let mut world = world.lock().unwrap();
        world.task_runs = false;
        let made = json!({"name": "web-0", "description": mark(operation), "smbios1": format!("uuid={UUID}")});
        world.vms.insert(105, made);
    };
    let (cloned, ()) = tokio::join!(clone(&fixture), finish);
    assert_eq!(cloned.unwrap().vm.vmid, vmid(105));
    assert_eq!(world.lock().unwrap().posts, [105]);
}

/// The request is executed between our look and our question for the number: "taken" proves nothing.
#[tokio::test(start_paused = true)]
async fn a_number_that_becomes_ours_at_the_last_moment_is_not_replaced() {
    let operation = Uuid::new_v4();
    let fixture = Fixture::new().locked().recorded(intent(operation, None));
    let world = world(&fixture);
    let state = Arc::clone(&world);
    fixture.api.on(move |request| {
        if request.path == "/cluster/nextid" {
            let made = json!({"name": "web-0", "description": mark(operation), "smbios1": format!("uuid={UUID}")});
            state.lock().unwrap().vms.insert(105, made);
        }
        None
    });
    assert_eq!(clone(&fixture).await.unwrap().vm.vmid, vmid(105));
    assert_eq!(ours(&world), [105]);
    assert!(world.lock().unwrap().posts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_taken_but_not_seen_is_no_reason_for_another() {
    let fixture = Fixture::new().locked().recorded(intent(Uuid::new_v4(), None));
    let world = world(&fixture);
    fixture
        .api
        .always("GET /cluster/nextid", Reply::status(400, "VM 105 already exists"));
    assert_eq!(clone(&fixture).await.unwrap_err(), ("clone/unseen", Exit::HostFailed));
    assert!(world.lock().unwrap().posts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_number_that_somebody_else_took_is_replaced() {
    let fixture = Fixture::new().locked();
    let world = world(&fixture);
    world.lock().unwrap().script = vec![Fate::Stolen("db-0")];
    let stolen = clone(&fixture).await.unwrap();
    assert_eq!(stolen.vm.vmid, vmid(106));
    assert_eq!(ours(&world), [106]);
    assert_eq!(
        world.lock().unwrap().vms[&105]["name"],
        "db-0",
        "the other VM is as it was"
    );

    // A container took it while the run was dead.
    let fixture = Fixture::new().locked().recorded(intent(Uuid::new_v4(), None));
    let world = self::world(&fixture);
    world
        .lock()
        .unwrap()
        .vms
        .insert(105, json!({"kind": "lxc", "name": "ct"}));
    assert_eq!(clone(&fixture).await.unwrap().vm.vmid, vmid(106));
}

#[tokio::test(start_paused = true)]
async fn a_number_that_somebody_took_for_the_same_name_is_refused() {
    let fixture = Fixture::new().locked();
    let world = world(&fixture);
    world.lock().unwrap().script = vec![Fate::Stolen("web-0")];
    assert_eq!(clone(&fixture).await.unwrap_err(), ("ownership/foreign", Exit::Refused));
    assert_eq!(ours(&world), [0_u32; 0]);
    assert_eq!(world.lock().unwrap().posts, [105]);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_number_is_never_replaced() {
    let mut machine = crate::engine::testing::machine();
    machine.vmid = Some(vmid(105));
    let fixture = Fixture::of(machine, crate::engine::host::Mode::Apply).locked();
    let world = world(&fixture);
    world.lock().unwrap().script = vec![Fate::Stolen("db-0")];
    assert_eq!(clone(&fixture).await.unwrap_err().0, "clone/vmid-taken");
    assert_eq!(world.lock().unwrap().posts, [105]);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_takes_its_own_clone_and_asks_for_none() {
    let operation = Uuid::new_v4();
    let fixture = Fixture::new()
        .locked()
        .recorded(intent(operation, Some(&upid("qmclone", 9000))));
    let world = world(&fixture);
    let made = json!({"name": "web-0", "description": mark(operation), "smbios1": format!("uuid={UUID}")});
    world.lock().unwrap().vms.insert(105, made);
    assert_eq!(clone(&fixture).await.unwrap().vm.vmid, vmid(105));
    assert!(fixture.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_half_made_clone_without_a_task_is_told_after_a_moment() {
    let fixture = Fixture::new()
        .locked()
        .recorded(intent(Uuid::new_v4(), Some(&upid("qmclone", 9000))));
    let world = world(&fixture);
    let temporary = json!({"description": "qmclone temporary file\n", "lock": "clone"});
    world.lock().unwrap().vms.insert(105, temporary);
    world.lock().unwrap().task_runs = true;
    let began = tokio::time::Instant::now();
    let end = async {
        tokio::time::sleep(std::time::Duration::from_secs(100)).await;
        world.lock().unwrap().task_runs = false;
    };
    let (cloned, ()) = tokio::join!(clone(&fixture), end);
    assert_eq!(cloned.unwrap_err().0, "clone/left-over");
    assert!(
        began.elapsed().as_secs() >= 110,
        "the left-over has its own ten seconds"
    );
    assert!(world.lock().unwrap().posts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_ends_the_host_and_keeps_the_intent() {
    let fixture = Fixture::new().locked();
    let world = world(&fixture);
    world.lock().unwrap().exit = "clone failed: no space left on device";
    let state = Arc::clone(&world);
    fixture.api.on(move |request| {
        // The failed clone is cleaned up by Proxmox.
        if request.path.ends_with("/log") {
            state.lock().unwrap().vms.clear();
        }
        None
    });
    assert_eq!(clone(&fixture).await.unwrap_err(), ("task/failed", Exit::HostFailed));
    assert!(matches!(fixture.on_disk(), Some(Phase::Cloning { upid: Some(_), .. })));
}

#[tokio::test(start_paused = true)]
async fn two_hosts_of_a_run_never_ask_for_the_same_number() {
    let fixture = Fixture::new();
    let world = world(&fixture);
    let cluster = &fixture.run.cluster;
    cluster.hold_id(vmid(105));
    assert_eq!(cluster.promise_id(None).await.unwrap(), vmid(106));
    world.lock().unwrap().vms.insert(107, json!({"name": "x"}));
    assert_eq!(cluster.promise_id(None).await.unwrap(), vmid(108));
}
