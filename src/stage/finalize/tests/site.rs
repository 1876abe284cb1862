//! A fake VM with its guest, for the tests of finalize.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::super::*;
use crate::engine::host::{Halt, Mode};
use crate::engine::testing::{Fixture, Reply, answer, machine, upid};
use crate::guest::remote::HostKeys;

pub(super) const UUID: &str = "3a940e9f-7149-44b9-8fde-c9584aefc10c";
pub(super) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA";
pub(super) const CICUSTOM: &str =
    "user=local:snippets/web-0-user-data-ci.yml,network=local:snippets/web-0-network-data-ci.yml";

/// A guest and its VM 105.
pub(super) struct World {
    pub(super) running: bool,
    pub(super) boot: u32,
    pub(super) drive: bool,
    pub(super) drive_pending: bool,
    pub(super) cicustom: bool,
    pub(super) key: &'static str,
    pub(super) addresses: Vec<&'static str>,
    pub(super) off: bool,
    pub(super) name: &'static str,
    /// How the guest takes a shutdown.
    pub(super) obeys: bool,
    /// A reboot applies what is pending.
    pub(super) applies: bool,
    /// A reboot gives a new boot id.
    pub(super) boots_anew: bool,
    /// The guest answers from this moment on.
    pub(super) silent_until: Option<tokio::time::Instant>,
    pub(super) exit: &'static str,
    pub(super) effects: Vec<String>,
}

impl World {
    pub(super) fn stop(&mut self) {
        self.running = false;
        self.apply();
    }

    fn apply(&mut self) {
        if self.drive_pending && self.applies {
            (self.drive, self.drive_pending) = (false, false);
        }
    }

    pub(super) fn start(&mut self) {
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

pub(super) type Shared = Arc<Mutex<World>>;

pub(super) fn task(kind: &str) -> Reply {
    Reply::Data(json!(upid(kind, 105)))
}

/// The API of that VM.
pub(super) fn api(fixture: &Fixture, world: &Shared) {
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
pub(super) fn far(fixture: &Fixture, world: &Shared) {
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

pub(super) fn vm() -> Vm {
    Vm {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: "pve1".parse().unwrap(),
    }
}

pub(super) fn site() -> (Fixture, Shared) {
    site_of(|machine| machine)
}

pub(super) fn site_of(tweak: impl Fn(crate::machine::Machine) -> crate::machine::Machine) -> (Fixture, Shared) {
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

pub(super) fn checkpoint(step: FinalizeStep) -> Phase {
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

pub(super) async fn finalize(fixture: &Fixture) -> Result<Complete, (&'static str, Exit)> {
    let stage = Finalize::new(Trusted::of(vm(), vec![KEY.to_owned()]));
    fixture.run.stage(stage).await.map_err(|halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } => ("planned", Exit::Done),
        Halt::Interrupted { .. } => ("interrupted", Exit::Interrupted),
    })
}

pub(super) fn effects(world: &Shared) -> Vec<String> {
    world.lock().unwrap().effects.clone()
}

pub(super) fn step(fixture: &Fixture) -> Option<FinalizeStep> {
    match fixture.on_disk() {
        Some(Phase::Finalizing { step, .. }) => Some(step),
        _ => None,
    }
}

pub(super) fn snippets(fixture: &Fixture) -> usize {
    let path = fixture.run.machine.snippets.local_path.as_ref().unwrap();
    std::fs::read_dir(path).unwrap().count()
}
