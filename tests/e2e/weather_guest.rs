//! Guests that do not do what they should: exit code 1, the VM stays as it is, and the same command goes on once it is
//! mended.

use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::guest::{CloudInitEnd, CloudInitVersion, GuestBehaviour};
use vmwright::simulator::shell::Machine;
use vmwright::simulator::spec::BehaviourSpec;
use vmwright::simulator::ssh::{SshEffect, SshFault};

use crate::support::{Plan, Site};
use crate::weather::{answer, assert_tidy, assert_told, calls, fault, phase, ssh_fault};

const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];

fn quick(plan: &mut Plan, behaviour: GuestBehaviour) {
    plan.durations = vmwright::simulator::clock::Durations::zero();
    plan.vms = "vms_startup_timeout: 1\nvms_restart_timeout: 1\nvms_cloud_init_poll_retries: 1\nvms_cloud_init_poll_delay: 1\n".to_owned();
    plan.spec.behaviours = vec![BehaviourSpec {
        name: "web-0".to_owned(),
        behaviour,
    }];
}

/// A guest's first run ends badly at a stage, with words; the VM is there, untouched since its start, the record tells how
/// far it came. Once the guest is well, the same command finishes it without a second clone.
async fn ends_badly(what: &str, behaviour: GuestBehaviour, stage: &str, at: &str, words: &[&str]) {
    let site = Site::with(|plan| quick(plan, behaviour)).await;
    let run = site.vmwright(&WEB_0).await;
    if std::env::var_os("SHOW").is_some() {
        eprintln!("##### {what}\n{}", run.all());
    } else {
        assert_told(
            what,
            &run,
            1,
            &[&format!("FAILED at {stage}"), "go on with: vmwright provision"],
        );
        assert_told(what, &run, 1, words);
    }
    assert_eq!(phase(&site), at, "{what}");
    let changes = calls(&site.changes());
    assert!(
        !changes
            .iter()
            .any(|call| call.contains("reboot") || call.contains("stop") || call.starts_with("DELETE")),
        "{what}: {changes:?}"
    );
    assert!(
        site.config("web-0")
            .iter()
            .any(|(key, value)| key == "ide2" && value.contains("cloudinit")),
        "{what}: the drive stays"
    );
    assert!(
        !site.read("known_hosts").contains("web-0"),
        "{what}: nothing is trusted yet"
    );
    assert_tidy(&site, what, &run);
    // Again, and it is the same; then it is mended.
    site.sim.handle().clear_requests();
    let again = site.vmwright(&WEB_0).await;
    assert_told(what, &again, 1, &[&format!("FAILED at {stage}")]);
    assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{what}: {}", again.all());
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_never_boots_or_never_lets_anybody_in() {
    let never = GuestBehaviour {
        never_boots: true,
        ..GuestBehaviour::default()
    };
    let locked = GuestBehaviour {
        login_fails: true,
        ..GuestBehaviour::default()
    };
    tokio::join!(
        ends_badly(
            "never boots",
            never,
            "start",
            "created",
            &["[start/unreachable]", "within 1 s", "console"],
        ),
        ends_badly(
            "login fails",
            locked,
            "start",
            "created",
            &[
                "[start/login-refused]",
                "Permission denied",
                "was its user-data applied?",
                "/var/log/cloud-init.log"
            ],
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cloud_init_that_does_not_end_well() {
    const TABLE: [(&str, CloudInitEnd, &[&str]); 3] = [
        (
            "error",
            CloudInitEnd::Error,
            &[
                "[cloud-init/error]",
                "cloud-init status --long",
                "/var/log/cloud-init-output.log",
            ],
        ),
        (
            "disabled",
            CloudInitEnd::Disabled,
            &["[cloud-init/disabled]", "no data source", "cloud-init status --long"],
        ),
        (
            "never ends",
            CloudInitEnd::NeverEnds,
            &[
                "[cloud-init/timeout]",
                "within 1 s",
                "last seen:",
                "vms_cloud_init_poll_retries",
                "go on waiting",
            ],
        ),
    ];
    let mut cases = Vec::new();
    for version in [CloudInitVersion::V22, CloudInitVersion::V25] {
        for (what, cloud_init, words) in TABLE {
            let behaviour = GuestBehaviour {
                cloud_init,
                cloud_init_version: version,
                ..GuestBehaviour::default()
            };
            cases.push((what, behaviour, words));
        }
    }
    // 22.4 does not know recoverable errors.
    let degraded = GuestBehaviour {
        cloud_init: CloudInitEnd::Degraded,
        ..GuestBehaviour::default()
    };
    let none = GuestBehaviour {
        no_cloud_init_command: true,
        ..GuestBehaviour::default()
    };
    cases.push((
        "degraded",
        degraded,
        &["[cloud-init/degraded]", "seen:", "cloud-init status --long"],
    ));
    cases.push(("not installed", none, &["[cloud-init/not-installed]"]));
    let all = cases
        .into_iter()
        .map(|(what, behaviour, words)| ends_badly(what, behaviour, "cloud-init", "created", words));
    futures_util::future::join_all(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_cannot_be_finalized_keeps_its_checkpoint() {
    // sudo wants a password: cloud-init cannot be switched off, so nothing is taken away.
    let site = Site::with(|plan| quick(plan, GuestBehaviour::default())).await;
    let doors = site.sim.ssh().unwrap();
    doors.set_faults(vec![SshFault {
        containing: Some("cloud-init.disabled".to_owned()),
        ..ssh_fault(
            Some(Machine::Guest(100)),
            SshEffect::Answer {
                code: 1,
                stderr: "sudo: a password is required\n".to_owned(),
            },
        )
    }]);
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "no sudo",
        &run,
        1,
        &[
            "FAILED at finalize",
            "[finalize/cloud-init-off]",
            "a password is required",
            "the user ansible needs sudo without a password",
        ],
    );
    assert_eq!(phase(&site), "finalizing");
    assert!(!calls(&site.changes()).iter().any(|call| call.contains("reboot")));
    assert!(site.config("web-0").iter().any(|(key, _)| key == "ide2"));
    assert_tidy(&site, "no sudo", &run);
    doors.set_faults(Vec::new());
    site.sim.handle().clear_requests();
    let run = site.vmwright(&WEB_0).await;
    assert_told("mended", &run, 0, &["ready, changed", "finalize"]);
    let changes = calls(&site.changes());
    assert_eq!(changes.len(), 2, "the drive and the restart, nothing else: {changes:?}");
    // A guest that ignores the shutdown is restarted with force, and that is told.
    let deaf = GuestBehaviour {
        ignores_shutdown: true,
        ..GuestBehaviour::default()
    };
    let site = Site::with(|plan| {
        quick(plan, deaf);
        plan.vms = "vms_startup_timeout: 60\nvms_restart_timeout: 60\n".to_owned();
    })
    .await;
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "deaf",
        &run,
        0,
        &[
            "finalize/ignores-shutdown",
            "did not follow the reboot",
            "ready, changed",
        ],
    );
    assert_eq!(phase(&site), "complete");
    assert!(!site.config("web-0").iter().any(|(key, _)| key == "ide2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_without_a_switch_would_lose_its_address_and_keeps_it() {
    let fragile = GuestBehaviour {
        datasource_none_fallback: true,
        reboots_itself: true,
        ..GuestBehaviour::default()
    };
    let site = Site::with(|plan| {
        quick(plan, fragile);
        plan.vms.clear();
    })
    .await;
    let run = site.vmwright(&WEB_0).await;
    assert_told("fragile", &run, 0, &["ready, changed"]);
    assert_eq!(phase(&site), "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_at_the_guests_address_is_found_out() {
    // Ours was made, and did not start; meanwhile a guest of another cluster took its address, user and key.
    let site = Site::with(|plan| quick(plan, GuestBehaviour::default())).await;
    let failed = Action::FailTask("start failed: no such luck".to_owned());
    fault(&site, "POST", "/nodes/*/qemu/*/status/start", failed);
    let run = site.vmwright(&WEB_0).await;
    assert_told("no start", &run, 1, &["FAILED at start", "no such luck"]);
    let other = Site::with(|plan| {
        let behaviour = GuestBehaviour {
            no_sudo: true,
            ..GuestBehaviour::default()
        };
        quick(plan, behaviour);
    })
    .await;
    let vars = format!(
        "global_ip_address: {}\nansible_ssh_private_key_file: {}\n",
        site.address(0),
        site.path("id_ed25519").display()
    );
    other.write("inventory/host_vars/web-0.yml", &vars);
    let run = other.vmwright(&WEB_0).await;
    assert_told("other", &run, 1, &["FAILED at finalize"]);
    // Ours runs now, and the other one answers. The agent, which the API vouches for, has other host keys.
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "stranger",
        &run,
        4,
        &[
            "REFUSED at trust",
            "[trust/other-key]",
            "shown at the address: ssh-ed25519",
            "the guest's: ssh-ed25519",
            "another machine has this address",
        ],
    );
    assert!(!site.read("known_hosts").contains("web-0"));
    assert_eq!(phase(&site), "initialized");
    assert!(!calls(&site.changes()).iter().any(|call| call.contains("reboot")));
    assert_tidy(&site, "stranger", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_agent_the_session_vouches() {
    let site = Site::with(|plan| quick(plan, GuestBehaviour::default())).await;
    site.sim.faults().add(
        Fault::on(
            "GET",
            "*/agent/file-read",
            answer(500, "QEMU guest agent is not running"),
        )
        .always(),
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told("no agent", &run, 0, &["over the key of the first contact"]);
}
