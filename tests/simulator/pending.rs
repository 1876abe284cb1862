//! Changes of running VMs, and the power calls that apply them or do not.

use std::time::Duration;

use serde_json::Value;
use vmwright::simulator::clock::Durations;

use crate::behaviour::cloned;
use crate::support::{Sim, instant};

fn pending_of<'a>(rows: &'a Value, key: &str) -> &'a Value {
    rows.as_array()
        .unwrap()
        .iter()
        .find(|row| row["key"] == key)
        .unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn a_removed_drive_stays_pending_until_the_api_reboots() {
    let sim = Sim::start(Durations::default()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    let old_pid = sim.ok("GET", &format!("{vm}/status/current"), &[]).await["pid"].clone();
    sim.ok("PUT", &format!("{vm}/config"), &[("delete", "ide2"), ("cores", "4")])
        .await;
    let read = |extra: &'static [(&'static str, &'static str)]| sim.ok("GET", "/nodes/pve-0/qemu/101/config", extra);
    assert_eq!(read(&[]).await["ide2"], Value::Null);
    assert!(read(&[("current", "1")]).await["ide2"].is_string());
    let rows = sim.ok("GET", &format!("{vm}/pending"), &[]).await;
    assert_eq!(pending_of(&rows, "ide2")["delete"], 1);
    assert_eq!(
        (
            &pending_of(&rows, "cores")["value"],
            &pending_of(&rows, "cores")["pending"]
        ),
        (&1.into(), &4.into())
    );

    tokio::time::sleep(Duration::from_secs(20)).await;
    sim.handle.with(|world| {
        let (now, durations) = (world.now_ms(), world.durations.clone());
        world.guest_mut(101).unwrap().reboot_inside(now, &durations).unwrap();
    });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        sim.ok("GET", &format!("{vm}/status/current"), &[]).await["pid"],
        old_pid
    );
    assert!(
        read(&[("current", "1")]).await["ide2"].is_string(),
        "a reboot from inside applies nothing"
    );
    assert_eq!(sim.task("POST", &format!("{vm}/status/reset"), &[]).await, "OK");
    assert!(read(&[("current", "1")]).await["ide2"].is_string(), "nor does a reset");
    tokio::time::sleep(Duration::from_secs(20)).await;

    assert_eq!(sim.task("POST", &format!("{vm}/status/reboot"), &[]).await, "OK");
    let stopped = sim.ok("GET", &format!("{vm}/status/current"), &[]).await;
    assert_eq!(stopped["status"], "stopped", "the reboot task ends with the VM stopped");
    assert_eq!(read(&[("current", "1")]).await["ide2"], Value::Null);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let running = sim.ok("GET", &format!("{vm}/status/current"), &[]).await;
    assert_eq!(running["status"], "running");
    assert_ne!(running["pid"], old_pid);
    let tasks = sim
        .ok(
            "GET",
            "/nodes/pve-0/tasks",
            &[("typefilter", "qmstart"), ("limit", "1")],
        )
        .await;
    assert_eq!(tasks[0]["user"], "root@pam");
    let rows = sim.ok("GET", &format!("{vm}/pending"), &[]).await;
    assert!(
        rows.as_array()
            .unwrap()
            .iter()
            .all(|r| r["pending"].is_null() && r["delete"].is_null())
    );
    assert!(
        sim.handle
            .look(|w| w.volumes_of(101).iter().all(|v| !v.volid.contains("cloudinit")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_power_off_from_inside_keeps_changes_pending_and_a_cold_start_applies_them() {
    let sim = Sim::start(Durations::default()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    tokio::time::sleep(Duration::from_secs(20)).await;
    sim.ok("PUT", &format!("{vm}/config"), &[("delete", "ide2")]).await;
    sim.handle.with(|world| {
        let (now, durations) = (world.now_ms(), world.durations.clone());
        world.guest_mut(101).unwrap().shutdown_inside(now, &durations).unwrap();
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        sim.ok("GET", &format!("{vm}/status/current"), &[]).await["status"],
        "stopped"
    );
    let rows = sim.ok("GET", &format!("{vm}/pending"), &[]).await;
    assert_eq!(pending_of(&rows, "ide2")["delete"], 1);
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    let rows = sim.ok("GET", &format!("{vm}/pending"), &[]).await;
    assert!(pending_of(&rows, "ide2").is_null());
}

#[tokio::test(start_paused = true)]
async fn ejecting_frees_the_drive_at_once_and_touches_the_boot_order() {
    let sim = Sim::start(instant()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    sim.ok("PUT", &format!("{vm}/config"), &[("ide2", "none,media=cdrom")])
        .await;
    let current = sim.ok("GET", &format!("{vm}/config"), &[("current", "1")]).await;
    assert_eq!(current["ide2"], "none,media=cdrom");
    let rows = sim.ok("GET", &format!("{vm}/pending"), &[]).await;
    assert_eq!(pending_of(&rows, "boot")["pending"], "order=scsi0;ide2");
    assert!(
        sim.handle
            .look(|w| w.volumes_of(101).iter().all(|v| !v.volid.contains("cloudinit")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_ignores_the_power_button_fails_the_reboot_and_keeps_running() {
    let sim = Sim::start(Durations::default()).await;
    cloned(&sim).await;
    sim.handle.with(|world| {
        let behaviour = vmwright::simulator::guest::GuestBehaviour {
            ignores_shutdown: true,
            ..Default::default()
        };
        world.set_behaviour("web-*", behaviour);
    });
    let vm = "/nodes/pve-0/qemu/101";
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    let before = sim.handle.now_ms();
    let end = sim
        .task("POST", &format!("{vm}/status/reboot"), &[("timeout", "3")])
        .await;
    assert_eq!(end, "VM quit/powerdown failed - got timeout");
    assert!((3000..3200).contains(&(sim.handle.now_ms() - before)));
    assert_eq!(
        sim.ok("GET", &format!("{vm}/status/current"), &[]).await["status"],
        "running"
    );
    let forced = [("timeout", "3"), ("forceStop", "1")];
    assert_eq!(sim.task("POST", &format!("{vm}/status/shutdown"), &forced).await, "OK");
    assert_eq!(
        sim.ok("GET", &format!("{vm}/status/current"), &[]).await["status"],
        "stopped"
    );
}

#[tokio::test(start_paused = true)]
async fn a_config_change_waits_for_the_task_that_holds_the_lock() {
    let sim = Sim::start(Durations::default()).await;
    cloned(&sim).await;
    let vm = "/nodes/pve-0/qemu/101";
    sim.ok("POST", &format!("{vm}/config"), &[("scsi1", "local-lvm:5")])
        .await;
    let before = sim.handle.now_ms();
    sim.ok("PUT", &format!("{vm}/config"), &[("cores", "2")]).await;
    assert!(
        (20..40).contains(&(sim.handle.now_ms() - before)),
        "it waited for the config task"
    );
    let done = sim.ok("GET", &format!("{vm}/config"), &[]).await;
    assert_eq!(
        (&done["cores"], &done["scsi1"]),
        (&2.into(), &"local-lvm:vm-101-disk-1,size=5G".into())
    );
    let null = sim
        .ok(
            "POST",
            &format!("{vm}/config"),
            &[("scsi2", "local-lvm:1"), ("background_delay", "5")],
        )
        .await;
    assert_eq!(null, Value::Null);
    let failed = sim
        .call(
            "POST",
            &format!("{vm}/config"),
            &[("scsi3", "local:iso/x.iso,media=cdrom"), ("background_delay", "5")],
        )
        .await;
    assert_eq!(
        failed.reason,
        "failed to update VM 101: volume 'local:iso/x.iso' does not exist"
    );
}
