//! What the cluster does: clones, pending changes, power, migration, rights, faults, persistence.

use std::time::Duration;

use serde_json::Value;
use vmwright::simulator::clock::Durations;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::{Options, Simulator};

use crate::support::{Sim, instant};

const CLONE: &str = "/nodes/pve-0/qemu/9000/clone";

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
