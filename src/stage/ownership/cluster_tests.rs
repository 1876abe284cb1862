//! Discover and ownership over a fake cluster.

use serde_json::{Value, json};

use super::tests::{UUID, complete, created};
use super::*;
use crate::engine::host::Halt;
use crate::engine::testing::{Fixture, Reply};
use crate::stage::discover::Discover;

/// A cluster of pve1 and pve2 (or pve2 offline) with these guests.
fn cluster(fixture: &Fixture, guests: Value, two_online: bool) {
    let api = &fixture.api;
    api.always("GET /cluster/resources", Reply::Data(guests.clone()));
    api.always(
        "GET /cluster/status",
        Reply::Data(json!([
            {"type": "cluster", "quorate": 1},
            {"type": "node", "name": "pve1", "online": 1},
            {"type": "node", "name": "pve2", "online": u8::from(two_online)},
        ])),
    );
    api.always("GET /access/permissions", Reply::Data(json!({"/vms": {"VM.Audit": 1}})));
    for name in ["pve1", "pve2"] {
        let here: Vec<Value> = guests
            .as_array()
            .unwrap()
            .iter()
            .filter(|guest| guest["node"] == *name && guest["type"] == "qemu")
            .cloned()
            .collect();
        api.always(&format!("GET /nodes/{name}/qemu"), Reply::Data(json!(here)));
    }
    for guest in guests.as_array().unwrap() {
        let path = format!(
            "GET /nodes/{}/qemu/{}/config",
            guest["node"].as_str().unwrap(),
            guest["vmid"]
        );
        api.always(
            &path,
            Reply::Data(
                json!({"name": guest["name"], "smbios1": format!("uuid={UUID}"), "description": guest["description"]}),
            ),
        );
    }
}

async fn owned(fixture: &Fixture) -> Result<&'static str, (&'static str, Exit)> {
    let halt = |halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } | Halt::Interrupted { .. } => ("other", Exit::Done),
    };
    let found = fixture.run.stage(Discover).await.map_err(halt)?;
    match fixture.run.stage(Ownership { found }).await.map_err(halt)? {
        Decision::New(_) => Ok("new"),
        Decision::Resume(_) => Ok("resume"),
        Decision::Finalize(_) => Ok("finalize"),
        Decision::Done(_) => Ok("done"),
    }
}

fn guest(vmid: u32, on: &str, name: &str) -> Value {
    json!({"vmid": vmid, "node": on, "name": name, "type": "qemu", "status": "stopped"})
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_discovered_without_a_write() {
    let container = json!({"vmid": 107, "node": "pve1", "name": "web-0", "type": "lxc", "status": "running"});
    let template =
        json!({"vmid": 108, "node": "pve1", "name": "web-0", "type": "qemu", "status": "stopped", "template": 1});
    for (phase, guests, online, expected) in [
        (None, json!([]), true, Ok("new")),
        (None, json!([]), false, Err(("ownership/unknown", Exit::Refused))),
        (None, json!([guest(109, "pve1", "db-0")]), true, Ok("new")),
        (
            None,
            json!([guest(109, "pve1", "web-0")]),
            true,
            Err(("ownership/foreign", Exit::Refused)),
        ),
        (
            None,
            json!([container]),
            true,
            Err(("ownership/wrong-kind", Exit::Refused)),
        ),
        (
            None,
            json!([template]),
            true,
            Err(("ownership/wrong-kind", Exit::Refused)),
        ),
        (
            None,
            json!([guest(109, "pve1", "web-0"), guest(110, "pve2", "web-0")]),
            true,
            Err(("ownership/ambiguous", Exit::Refused)),
        ),
        (
            Some(created()),
            json!([guest(105, "pve2", "web-0")]),
            true,
            Ok("resume"),
        ),
        (Some(complete()), json!([guest(105, "pve1", "web-0")]), true, Ok("done")),
        (
            Some(complete()),
            json!([guest(105, "pve2", "web-0")]),
            false,
            Err(("ownership/unknown", Exit::Refused)),
        ),
        (
            Some(complete()),
            json!([guest(105, "pve1", "db-0")]),
            true,
            Err(("ownership/renamed", Exit::Refused)),
        ),
        (
            Some(complete()),
            json!([guest(105, "pve1", "db-0"), guest(106, "pve1", "web-0")]),
            true,
            Err(("ownership/other-vm", Exit::Refused)),
        ),
    ] {
        let mut fixture = Fixture::new().locked();
        if let Some(phase) = phase {
            fixture = fixture.recorded(phase);
        }
        cluster(&fixture, guests.clone(), online);
        assert_eq!(owned(&fixture).await, expected, "{guests} {online}");
        assert!(fixture.api.writes().is_empty());
        assert_eq!(fixture.on_disk(), None, "nothing was written");
        assert!(fixture.far.ran().is_empty());
    }
}

/// The cluster lists these at first, and those later; the numbers `taken` are not free.
fn moves(fixture: &Fixture, first: Value, later: Value, taken: &'static [u32]) {
    cluster(fixture, later, true);
    fixture.api.once("GET /cluster/resources", Reply::Data(first));
    fixture.api.on(move |request| {
        let vmid = request.params.iter().find(|(key, _)| key == "vmid");
        let vmid: u32 = vmid.and_then(|(_, value)| value.parse().ok())?;
        (request.path == "/cluster/nextid").then(|| match taken.contains(&vmid) {
            true => Reply::status(
                400,
                &format!("Parameter verification failed. (vmid: VM {vmid} already exists)"),
            ),
            false => Reply::Data(json!(vmid.to_string())),
        })
    });
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_moves_or_is_hidden_is_not_gone() {
    let there = |node: &str| json!([guest(105, node, "web-0")]);
    for (first, later, taken, expected) in [
        // Its configuration is on another node by now.
        (there("pve1"), there("pve2"), &[105][..], Ok("resume")),
        // It is listed, and no node has it yet, for as long as patience lasts.
        (
            json!([guest(105, "pve1", "web-0")]),
            json!([{"vmid": 105, "node": "pve1", "name": "web-0", "type": "qemu", "status": "stopped", "lost": true}]),
            &[105],
            Err(("discover/moving", Exit::HostFailed)),
        ),
        // It was destroyed in between.
        (there("pve1"), json!([]), &[], Err(("ownership/gone", Exit::Refused))),
        // It is not listed, but its number is not free: it is hidden from the identity.
        (json!([]), json!([]), &[105], Err(("ownership/unknown", Exit::Refused))),
    ] {
        let fixture = Fixture::new().locked().recorded(created());
        moves(&fixture, first.clone(), later.clone(), taken);
        if later[0]["node"] != first[0]["node"] || later[0]["lost"] == true {
            fixture.api.always(
                "GET /nodes/pve1/qemu/105/config",
                Reply::status(
                    500,
                    "Configuration file 'nodes/pve1/qemu-server/105.conf' does not exist",
                ),
            );
        }
        assert_eq!(owned(&fixture).await, expected, "{first} {later}");
        assert!(fixture.api.writes().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_live_name_counts_and_not_the_overviews() {
    let fixture = Fixture::new();
    cluster(&fixture, json!([guest(109, "pve1", "db-0")]), true);
    fixture.api.always(
        "GET /cluster/resources",
        Reply::Data(json!([guest(109, "pve1", "web-0")])),
    );
    assert_eq!(owned(&fixture).await, Ok("new"));
}

#[tokio::test(start_paused = true)]
async fn a_vm_without_a_name_in_between_is_a_gap() {
    let fixture = Fixture::new();
    cluster(&fixture, json!([]), true);
    let nameless = json!({"vmid": 109, "node": "pve1", "type": "qemu", "status": "stopped"});
    fixture
        .api
        .always("GET /cluster/resources", Reply::Data(json!([nameless])));
    assert_eq!(owned(&fixture).await, Err(("ownership/unknown", Exit::Refused)));
}

#[tokio::test(start_paused = true)]
async fn a_finished_vm_with_a_drive_again_is_told_and_left_alone() {
    let fixture = Fixture::new().locked().recorded(complete());
    cluster(&fixture, json!([guest(105, "pve1", "web-0")]), true);
    fixture.api.always(
        "GET /nodes/pve1/qemu/105/config",
        Reply::Data(json!({
            "name": "web-0", "smbios1": format!("uuid={UUID}"), "ide2": "local:105/vm-105-cloudinit.qcow2,media=cdrom",
        })),
    );
    assert_eq!(owned(&fixture).await, Ok("done"));
    assert_eq!(fixture.heard.warnings(), ["ownership/drive-again"]);
    assert!(fixture.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_listing_from_before_the_lock_does_not_count() {
    let fixture = Fixture::new();
    cluster(&fixture, json!([]), true);
    fixture.run.listing().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let fixture = fixture.locked();
    cluster(&fixture, json!([guest(109, "pve1", "web-0")]), true);
    assert_eq!(owned(&fixture).await, Err(("ownership/foreign", Exit::Refused)));
}
