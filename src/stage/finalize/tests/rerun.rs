//! Lost answers, reruns from each step, and VMs that are not the one of the checkpoint.

use super::*;

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

#[tokio::test(start_paused = true)]
async fn a_restart_task_without_a_result_is_no_guest_that_ignores_it() {
    let (fixture, world) = site();
    world.lock().unwrap().exit = "unexpected status";
    finalize(&fixture).await.unwrap();
    assert_eq!(effects(&world), ["cloud-init off", "PUT config", "POST reboot"]);
}

#[tokio::test(start_paused = true)]
async fn a_drive_whose_removal_was_taken_back_is_removed_again() {
    let (fixture, world) = site();
    // The removal is taken back while the VM restarts, once.
    let (state, mut back) = (Arc::clone(&world), false);
    fixture.api.on(move |request| {
        if request.path.ends_with("/reboot") && !back {
            back = true;
            state.lock().unwrap().drive_pending = false;
        }
        None
    });
    finalize(&fixture).await.unwrap();
    assert_eq!(
        effects(&world),
        [
            "cloud-init off",
            "PUT config",
            "POST reboot",
            "PUT config",
            "POST reboot"
        ]
    );
    assert!(!world.lock().unwrap().drive);
}
