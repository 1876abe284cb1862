//! Finalize against a fake VM: the order of its steps, each way in which it fails, and where a rerun goes on.

mod rerun;

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::engine::host::{Halt, Mode};
use crate::engine::testing::{Fixture, Reply, answer, machine, upid};
use crate::guest::remote::HostKeys;

const UUID: &str = "3a940e9f-7149-44b9-8fde-c9584aefc10c";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA";
const CICUSTOM: &str = "user=local:snippets/web-0-user-data-ci.yml,network=local:snippets/web-0-network-data-ci.yml";

/// A guest and its VM 105.
struct World {
    running: bool,
    boot: u32,
    drive: bool,
    drive_pending: bool,
    cicustom: bool,
    key: &'static str,
    addresses: Vec<&'static str>,
    off: bool,
    name: &'static str,
    /// How the guest takes a shutdown.
    obeys: bool,
    /// A reboot applies what is pending.
    applies: bool,
    /// A reboot gives a new boot id.
    boots_anew: bool,
    /// The guest answers from this moment on.
    silent_until: Option<tokio::time::Instant>,
    exit: &'static str,
    effects: Vec<String>,
}

impl World {
    fn stop(&mut self) {
        self.running = false;
        self.apply();
    }

    fn apply(&mut self) {
        if self.drive_pending && self.applies {
            (self.drive, self.drive_pending) = (false, false);
        }
    }

    fn start(&mut self) {
        self.apply();
        self.running = true;
        if self.boots_anew {
            self.boot += 1;
        }
    }

    fn boot_id(&self) -> String {
        format!("00000000-0000-0000-0000-{:012}", self.boot)
    }
}

type Shared = Arc<Mutex<World>>;

fn task(kind: &str) -> Reply {
    Reply::Data(json!(upid(kind, 105)))
}

/// The API of that VM.
fn api(fixture: &Fixture, world: &Shared) {
    let state = Arc::clone(world);
    fixture.api.on(move |request| {
        let mut world = state.lock().unwrap();
        let param = |key: &str| {
            let found = request.params.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        if request.method.as_str() != "GET" {
            let effect = format!("{} {}", request.method, request.path.rsplit('/').next().unwrap());
            world.effects.push(effect);
        }
        let path = request
            .path
            .strip_prefix("/nodes/pve1/")
            .unwrap_or(&request.path)
            .to_owned();
        Some(match (request.method.as_str(), path.as_str()) {
            ("GET", "qemu/105/config") => {
                let current = param("current").is_some();
                let mut config = json!({"name": world.name, "smbios1": format!("uuid={UUID}"), "digest": "d"});
                if world.drive && (current || !world.drive_pending) {
                    config["ide2"] = json!("local:105/vm-105-cloudinit.qcow2,media=cdrom");
                }
                if world.cicustom {
                    config["cicustom"] = json!(CICUSTOM);
                }
                Reply::Data(config)
            }
            ("GET", "qemu/105/pending") if world.drive => {
                let value = "local:105/vm-105-cloudinit.qcow2,media=cdrom";
                let mut entry = json!({"key": "ide2", "value": value});
                if world.drive_pending {
                    entry["delete"] = json!(1);
                }
                Reply::Data(json!([entry]))
            }
            ("GET", "qemu/105/pending") => Reply::Data(json!([])),
            ("GET", "qemu/105/status/current") => {
                let status = if world.running { "running" } else { "stopped" };
                Reply::Data(json!({"status": status, "name": world.name}))
            }
            ("GET", "tasks") => Reply::Data(json!([])),
            ("GET", path) if path.ends_with("/status") => {
                let exit = if path.contains("qmreboot") { world.exit } else { "OK" };
                Reply::Data(json!({"status": "stopped", "exitstatus": exit}))
            }
            ("GET", path) if path.ends_with("/log") => Reply::Data(json!([])),
            ("PUT", "qemu/105/config") => {
                for key in param("delete").unwrap_or_default().split(',') {
                    match key {
                        "ide2" if world.running => world.drive_pending = true,
                        "ide2" => world.drive = false,
                        "cicustom" => world.cicustom = false,
                        other => panic!("nobody may delete {other}"),
                    }
                }
                Reply::Data(json!(null))
            }
            ("POST", "qemu/105/status/reboot") => {
                if world.obeys {
                    world.stop();
                    world.start();
                } else {
                    world.exit = "VM quit/powerdown failed - got timeout";
                }
                task("qmreboot")
            }
            ("POST", "qemu/105/status/shutdown") => {
                assert_eq!(param("forceStop").as_deref(), Some("1"));
                world.stop();
                task("qmshutdown")
            }
            ("POST", "qemu/105/status/start") => {
                world.start();
                task("qmstart")
            }
            _ => return None,
        })
    });
}

/// The guest behind SSH.
fn far(fixture: &Fixture, world: &Shared) {
    let state = Arc::clone(world);
    fixture.far.on(move |keys, command| {
        let mut world = state.lock().unwrap();
        let silent = world
            .silent_until
            .is_some_and(|until| tokio::time::Instant::now() < until);
        if !world.running || silent {
            return Err(SshError::NotReachable("connection refused".into()));
        }
        if let HostKeys::Known(known) = keys
            && !known.iter().any(|key| key == world.key)
        {
            return Err(SshError::HostKey {
                text: "other key".into(),
                changed: true,
            });
        }
        if command.script.contains("boot_id") {
            answer(&world.boot_id())
        } else if command.script.contains("cloud-init.disabled") {
            world.effects.push("cloud-init off".to_owned());
            let word = if world.off { "before" } else { "now" };
            world.off = true;
            answer(word)
        } else if command.script.contains("ip -j addr") {
            let infos: Vec<_> = world
                .addresses
                .iter()
                .map(|address| json!({"local": address, "prefixlen": 24}))
                .collect();
            answer(&format!("ip\n{}", json!([{"ifname": "eth0", "addr_info": infos}])))
        } else {
            panic!("an unexpected script: {}", command.script)
        }
    });
}

fn vm() -> Vm {
    Vm {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: "pve1".parse().unwrap(),
    }
}

fn site() -> (Fixture, Shared) {
    site_of(|machine| machine)
}

fn site_of(tweak: impl Fn(crate::machine::Machine) -> crate::machine::Machine) -> (Fixture, Shared) {
    let mut fixture = Fixture::of(tweak(machine()), Mode::Apply).locked();
    let snippets = fixture.path().join("snippets");
    std::fs::create_dir(&snippets).unwrap();
    for name in ["web-0-user-data-ci.yml", "web-0-network-data-ci.yml"] {
        std::fs::write(snippets.join(name), "x").unwrap();
    }
    let mut machine = fixture.run.machine.as_ref().clone();
    machine.snippets.local_path = Some(snippets);
    fixture.run.machine = Arc::new(machine);
    let world = Arc::new(Mutex::new(World {
        running: true,
        boot: 1,
        drive: true,
        drive_pending: false,
        cicustom: true,
        key: KEY,
        addresses: vec!["10.0.20.31"],
        off: false,
        name: "web-0",
        obeys: true,
        applies: true,
        boots_anew: true,
        silent_until: None,
        exit: "OK",
        effects: Vec::new(),
    }));
    api(&fixture, &world);
    far(&fixture, &world);
    fixture
        .run
        .record_phase(Phase::Initialized {
            vmid: vm().vmid,
            uuid: UUID.to_owned(),
            node: vm().node,
            verdict: "done".to_owned(),
        })
        .unwrap();
    (fixture, world)
}

fn checkpoint(step: FinalizeStep) -> Phase {
    Phase::Finalizing {
        vmid: vm().vmid,
        uuid: UUID.to_owned(),
        node: vm().node,
        drive: "ide2".to_owned(),
        boot_id_before: Some("00000000-0000-0000-0000-000000000001".to_owned()),
        host_keys: vec![KEY.to_owned()],
        addresses: vec!["10.0.20.31/24".to_owned()],
        step,
    }
}

async fn finalize(fixture: &Fixture) -> Result<Complete, (&'static str, Exit)> {
    let stage = Finalize::new(Trusted::of(vm(), vec![KEY.to_owned()]));
    fixture.run.stage(stage).await.map_err(|halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } => ("planned", Exit::Done),
        Halt::Interrupted { .. } => ("interrupted", Exit::Interrupted),
    })
}

fn effects(world: &Shared) -> Vec<String> {
    world.lock().unwrap().effects.clone()
}

fn step(fixture: &Fixture) -> Option<FinalizeStep> {
    match fixture.on_disk() {
        Some(Phase::Finalizing { step, .. }) => Some(step),
        _ => None,
    }
}

fn snippets(fixture: &Fixture) -> usize {
    let path = fixture.run.machine.snippets.local_path.as_ref().unwrap();
    std::fs::read_dir(path).unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn the_steps_come_in_their_order_and_each_is_on_disk_before_the_next() {
    let (fixture, world) = site();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (state, key, told) = (
        Arc::clone(&fixture.run.shared.state),
        fixture.run.key.clone(),
        Arc::clone(&seen),
    );
    fixture.api.on(move |request| {
        if request.method.as_str() != "GET"
            && let Some(Phase::Finalizing { step, drive, .. }) =
                state.read_record(&key).unwrap().map(|record| record.phase)
        {
            told.lock().unwrap().push((request.method.as_str(), step, drive));
        }
        None
    });
    let complete = finalize(&fixture).await.unwrap();
    assert_eq!(complete.host_keys, [KEY]);
    assert_eq!(complete.addresses, ["10.0.20.31/24"]);
    assert_eq!(effects(&world), ["cloud-init off", "PUT config", "POST reboot"]);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            ("PUT", FinalizeStep::CloudInitOff, "ide2".to_owned()),
            ("POST", FinalizeStep::DriveRemoved, "ide2".to_owned())
        ]
    );
    assert!(matches!(fixture.on_disk(), Some(Phase::Complete { .. })));
    let world = world.lock().unwrap();
    assert!(!world.drive && !world.cicustom && world.running && world.off);
    assert_eq!(snippets(&fixture), 0, "they hold a password hash");
}

#[tokio::test(start_paused = true)]
async fn kept_snippets_stay_and_so_does_what_refers_to_them() {
    let (fixture, world) = site_of(|mut machine| {
        machine.snippets.keep = true;
        machine
    });
    finalize(&fixture).await.unwrap();
    assert!(world.lock().unwrap().cicustom);
    assert_eq!(snippets(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn a_vm_without_a_drive_is_restarted_and_proven_too() {
    let (fixture, world) = site();
    world.lock().unwrap().drive = false;
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["cloud-init off", "PUT config", "POST reboot"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_boot_is_no_restart_and_the_checkpoint_stays() {
    let (fixture, world) = site();
    world.lock().unwrap().boots_anew = false;
    assert_eq!(
        finalize(&fixture).await.unwrap_err(),
        ("finalize/same-boot", Exit::HostFailed)
    );
    assert_eq!(step(&fixture), Some(FinalizeStep::Restarted));
    let reboots = effects(&world).iter().filter(|effect| *effect == "POST reboot").count();
    assert_eq!(reboots, 2);
    assert_eq!(snippets(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn what_changed_at_the_restart_stops_and_keeps_the_checkpoint() {
    for (code, change) in [
        (
            "finalize/host-keys-changed",
            (|world: &mut World| world.key = "ssh-ed25519 AAAAother") as fn(&mut World),
        ),
        ("finalize/addresses-changed", |world| {
            world.addresses = vec!["10.0.20.99"]
        }),
        ("finalize/addresses-changed", |world| world.addresses.clear()),
    ] {
        let (fixture, world) = site();
        let state = Arc::clone(&world);
        fixture.api.on(move |request| {
            if request.path.ends_with("/reboot") {
                change(&mut state.lock().unwrap());
            }
            None
        });
        assert_eq!(finalize(&fixture).await.unwrap_err(), (code, Exit::HostFailed));
        assert_eq!(step(&fixture), Some(FinalizeStep::Restarted), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_may_come_a_moment_later() {
    let (fixture, world) = site();
    let state = Arc::clone(&world);
    fixture.api.on(move |request| {
        if request.path.ends_with("/reboot") {
            state.lock().unwrap().addresses.clear();
        }
        None
    });
    let later = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.lock().unwrap().addresses = vec!["10.0.20.31"];
    };
    let (complete, ()) = tokio::join!(finalize(&fixture), later);
    complete.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drive_that_is_still_pending_after_the_restart_is_wrong() {
    let (fixture, world) = site();
    world.lock().unwrap().applies = false;
    assert_eq!(
        finalize(&fixture).await.unwrap_err(),
        ("finalize/drive-still-there", Exit::HostFailed)
    );
    assert_eq!(step(&fixture), Some(FinalizeStep::Restarted));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_ignores_the_shutdown_is_shut_down_with_force() {
    let (fixture, world) = site();
    world.lock().unwrap().obeys = false;
    finalize(&fixture).await.unwrap();
    assert_eq!(
        effects(&world),
        [
            "cloud-init off",
            "PUT config",
            "POST reboot",
            "POST shutdown",
            "POST start"
        ]
    );
    // A record without its making counts as that of an adopted VM.
    assert_eq!(
        fixture.heard.warnings(),
        ["protection/unknown-self", "finalize/ignores-shutdown"]
    );
}
