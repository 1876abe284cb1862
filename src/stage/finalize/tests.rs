//! Finalize against a fake VM: the order of its steps, each way in which it fails, and where a rerun goes on.

mod site;

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::engine::testing::Reply;
use site::*;

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
    assert_eq!(fixture.heard.warnings(), ["finalize/ignores-shutdown"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_whose_outcome_is_unknown_is_looked_at_and_not_forced() {
    let (fixture, world) = site();
    fixture.api.once(
        "POST /nodes/pve1/qemu/105/status/reboot",
        Reply::status(596, "Connection timed out"),
    );
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["cloud-init off", "PUT config", "POST reboot"]);

    // It was executed, and only the answer was lost.
    let (fixture, world) = site();
    let (state, mut lost) = (Arc::clone(&world), false);
    fixture.api.on(move |request| {
        if request.path.ends_with("/reboot") && !lost {
            lost = true;
            let mut world = state.lock().unwrap();
            world.stop();
            world.start();
            world.silent_until = Some(tokio::time::Instant::now() + Duration::from_secs(30));
            return Some(Reply::Lost);
        }
        None
    });
    finalize(&fixture).await.unwrap();
    assert_eq!(
        effects(&world),
        ["cloud-init off", "PUT config"],
        "a booting guest is not cut off"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_task_without_a_result_is_no_guest_that_ignores_it() {
    let (fixture, world) = site();
    world.lock().unwrap().exit = "unexpected status";
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["cloud-init off", "PUT config", "POST reboot"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_removal_is_settled_by_a_look() {
    let (fixture, world) = site();
    let (state, mut lost) = (Arc::clone(&world), false);
    fixture.api.on(move |request| {
        if request.method.as_str() == "PUT" && !lost {
            lost = true;
            let mut world = state.lock().unwrap();
            (world.drive_pending, world.cicustom) = (true, false);
            return Some(Reply::Lost);
        }
        None
    });
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["cloud-init off", "POST reboot"]);
}

#[tokio::test(start_paused = true)]
async fn a_rerun_goes_on_from_each_step_and_repeats_none_that_is_done() {
    for (from, expected) in [
        (FinalizeStep::Begun, vec!["cloud-init off", "PUT config", "POST reboot"]),
        (FinalizeStep::CloudInitOff, vec!["PUT config", "POST reboot"]),
        (FinalizeStep::DriveRemoved, vec!["POST reboot"]),
        (FinalizeStep::Restarted, vec![]),
    ] {
        let (fixture, world) = site();
        {
            let mut world = world.lock().unwrap();
            world.off = from >= FinalizeStep::CloudInitOff;
            if from >= FinalizeStep::DriveRemoved {
                (world.drive_pending, world.cicustom) = (true, false);
            }
            if from == FinalizeStep::Restarted {
                world.stop();
                world.start();
            }
        }
        fixture.run.record_phase(checkpoint(from)).unwrap();
        finalize(&fixture).await.unwrap();
        assert_eq!(effects(&world), expected, "{from:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rerun_after_the_restart_was_sent_does_not_send_it_again() {
    // Stopped: the crash came between stop and start.
    let (fixture, world) = site();
    world.lock().unwrap().drive_pending = true;
    world.lock().unwrap().cicustom = false;
    world.lock().unwrap().stop();
    fixture
        .run
        .record_phase(checkpoint(FinalizeStep::DriveRemoved))
        .unwrap();
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["POST start"]);

    // Booting, or booted: nothing pending and another boot id are proof enough.
    for silence in [0, 45] {
        let (fixture, world) = site();
        {
            let mut world = world.lock().unwrap();
            (world.drive_pending, world.cicustom) = (true, false);
            world.stop();
            world.start();
            world.silent_until = Some(tokio::time::Instant::now() + Duration::from_secs(silence));
        }
        fixture
            .run
            .record_phase(checkpoint(FinalizeStep::DriveRemoved))
            .unwrap();
        finalize(&fixture).await.unwrap();
        assert_eq!(effects(&world), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_stays_silent_is_cycled_once_and_then_told() {
    let (fixture, world) = site();
    {
        let mut world = world.lock().unwrap();
        (world.drive, world.cicustom) = (false, false);
        world.silent_until = Some(tokio::time::Instant::now() + Duration::from_secs(36_000));
    }
    fixture
        .run
        .record_phase(checkpoint(FinalizeStep::DriveRemoved))
        .unwrap();
    assert_eq!(
        finalize(&fixture).await.unwrap_err(),
        ("finalize/not-back", Exit::HostFailed)
    );
    assert_eq!(effects(&world), ["POST reboot"]);
    assert_eq!(step(&fixture), Some(FinalizeStep::Restarted));
}

#[tokio::test(start_paused = true)]
async fn another_vm_under_the_number_is_not_touched() {
    for from in [None, Some(FinalizeStep::CloudInitOff), Some(FinalizeStep::DriveRemoved)] {
        let (fixture, world) = site();
        world.lock().unwrap().name = "db-0";
        if let Some(from) = from {
            fixture.run.record_phase(checkpoint(from)).unwrap();
        }
        assert_eq!(
            finalize(&fixture).await.unwrap_err(),
            ("ownership/changed", Exit::Refused)
        );
        assert!(fixture.api.writes().is_empty(), "{from:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_drive_of_the_checkpoint_is_removed_and_only_if_it_is_one() {
    let (fixture, world) = site();
    fixture
        .run
        .record_phase(checkpoint(FinalizeStep::CloudInitOff))
        .unwrap();
    fixture.api.always(
        "GET /nodes/pve1/qemu/105/config",
        Reply::Data(
            json!({"name": "web-0", "smbios1": format!("uuid={UUID}"), "ide2": "local:105/vm-105-disk-1.raw,size=9G"}),
        ),
    );
    assert_eq!(
        finalize(&fixture).await.unwrap_err(),
        ("finalize/other-drive", Exit::Refused)
    );
    assert!(effects(&world).is_empty());

    let (fixture, world) = site();
    fixture.api.always(
        "GET /nodes/pve1/qemu/105/config",
        Reply::Data(json!({
            "name": "web-0", "smbios1": format!("uuid={UUID}"),
            "ide2": "local:105/vm-105-cloudinit.qcow2,media=cdrom", "scsi1": "nas:vm-105-cloudinit,media=cdrom",
        })),
    );
    assert_eq!(
        finalize(&fixture).await.unwrap_err(),
        ("finalize/ambiguous-drive", Exit::Refused)
    );
    assert!(effects(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interruption_between_the_steps_leaves_a_checkpoint_to_go_on_from() {
    let (fixture, world) = site();
    let cancel = fixture.cancel.clone();
    fixture.api.on(move |request| {
        if request.method.as_str() == "PUT" {
            cancel.cancel();
        }
        None
    });
    assert_eq!(finalize(&fixture).await.unwrap_err().0, "interrupted");
    assert_eq!(step(&fixture), Some(FinalizeStep::DriveRemoved));
    assert_eq!(effects(&world), ["cloud-init off", "PUT config"]);
}
