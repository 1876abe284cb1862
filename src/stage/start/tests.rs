//! Start against a fake VM: power, a guest that takes its time, and one that is not to be believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;

use super::*;
use crate::diagnose::Exit;
use crate::engine::host::Halt;
use crate::engine::testing::{Fixture, Reply, answer, upid};
use crate::stage::ownership::Owned;
use crate::state::record::{FinalizeStep, Phase};

const BOOT: &str = "00000000-0000-0000-0000-000000000001";

fn vm() -> Vm {
    Vm {
        vmid: "105".parse().unwrap(),
        uuid: "u".to_owned(),
        node: "pve1".parse().unwrap(),
    }
}

fn site(running: bool, name: &'static str) -> Fixture {
    let fixture = Fixture::new().locked();
    let power = Arc::new(AtomicBool::new(running));
    fixture.api.on(move |request| {
        Some(match (request.method.as_str(), request.path.rsplit('/').next()?) {
            ("GET", "current") => {
                let status = if power.load(Ordering::Relaxed) {
                    "running"
                } else {
                    "stopped"
                };
                Reply::Data(json!({"status": status, "name": name}))
            }
            ("POST", "start") => {
                power.store(true, Ordering::Relaxed);
                Reply::Data(json!(upid("qmstart", 105)))
            }
            ("GET", "status") => Reply::Data(json!({"status": "stopped", "exitstatus": "OK"})),
            _ => return None,
        })
    });
    fixture
}

async fn start(fixture: &Fixture) -> Result<Running, (&'static str, Exit)> {
    let stage = Start::new(Shaped::before(Owned::of(vm())));
    fixture.run.stage(stage).await.map_err(|halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } | Halt::Interrupted { .. } => ("other", Exit::Done),
    })
}

#[tokio::test(start_paused = true)]
async fn a_stopped_vm_is_started_and_waited_for() {
    let fixture = site(false, "web-0");
    let began = Instant::now();
    fixture.far.on(move |_, _| match began.elapsed().as_secs() {
        0..20 => Err(SshError::NotReachable("connection refused".into())),
        20..40 => Err(SshError::Lost("reset".into())),
        _ => answer(BOOT),
    });
    assert_eq!(start(&fixture).await.unwrap().boot_id, BOOT);
    assert_eq!(fixture.api.writes(), ["POST /nodes/pve1/qemu/105/status/start"]);
    // 40 s of waiting are not 40 questions to the API.
    assert!(fixture.api.calls().len() < 20, "{}", fixture.api.calls().len());
}

#[tokio::test(start_paused = true)]
async fn a_running_vm_is_not_started() {
    let fixture = site(true, "web-0");
    fixture.far.on(|_, _| answer(BOOT));
    start(&fixture).await.unwrap();
    assert!(fixture.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_vm_of_another_name_is_not_started() {
    let fixture = site(false, "db-0");
    assert_eq!(start(&fixture).await.unwrap_err(), ("ownership/changed", Exit::Refused));
    assert!(fixture.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_is_tried_slowly_and_told_in_the_end() {
    let fixture = site(true, "web-0");
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    fixture.far.on(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(SshError::Denied("publickey".into()))
    });
    assert_eq!(
        start(&fixture).await.unwrap_err(),
        ("start/login-refused", Exit::HostFailed)
    );
    let budget = fixture.run.machine.waits.startup.as_secs();
    assert!(u64::from(tries.load(Ordering::Relaxed)) <= budget / 8, "{tries:?}");
}

#[tokio::test(start_paused = true)]
async fn new_host_keys_are_learned_again_on_the_first_boot_only() {
    let change = |fixture: &Fixture| {
        let mut first = true;
        fixture.far.on(move |_, _| {
            if std::mem::take(&mut first) {
                return Err(SshError::HostKey {
                    text: "changed".into(),
                    changed: true,
                });
            }
            answer(BOOT)
        });
    };
    let fixture = site(true, "web-0");
    std::fs::write(fixture.run.first_contact_file(), "old").unwrap();
    change(&fixture);
    start(&fixture).await.unwrap();
    assert!(!fixture.run.first_contact_file().exists(), "the old key is forgotten");

    let fixture = site(true, "web-0").recorded(Phase::Finalizing {
        vmid: vm().vmid,
        uuid: "u".to_owned(),
        node: vm().node,
        drive: "ide2".to_owned(),
        boot_id_before: Some(BOOT.to_owned()),
        host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
        addresses: Vec::new(),
        step: FinalizeStep::Restarted,
    });
    change(&fixture);
    let began = Instant::now();
    assert_eq!(start(&fixture).await.unwrap_err(), ("ssh/host-key", Exit::HostFailed));
    assert!(began.elapsed() < Duration::from_secs(5), "it is told at once");
}
