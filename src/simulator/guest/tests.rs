//! The guest's life, moment by moment.

use super::*;
use serde_json::Value;

const T: u64 = 1_796_075_390_000;
const KEY: &str = "ssh-ed25519 AAAAkey";

fn seed(address: &str) -> Seed {
    Seed {
        user_data: format!(
            "#cloud-config\nhostname: web-0\nfqdn: web-0.example.net\nusers:\n- name: ops\n  sudo: ALL=(ALL) NOPASSWD:ALL\n  ssh_authorized_keys: ['{KEY} me']\n"
        ),
        network_data: format!("version: 2\nethernets:\n  ens18: {{addresses: [{address}/8]}}\n"),
        meta_data: String::new(),
    }
}

fn on(now_ms: u64, seed: Option<Seed>, behaviour: GuestBehaviour) -> PowerOn {
    PowerOn {
        now_ms,
        seed,
        nics: vec![Nic {
            index: 0,
            mac: "BC:24:11:00:00:01".to_owned(),
            bridge: "vmbr0".to_owned(),
            link_down: false,
            dhcp_address: "127.77.0.9/8".to_owned(),
        }],
        agent_device: true,
        behaviour,
    }
}

fn status(guest: &Guest) -> String {
    let printed = guest.cloud_init().unwrap();
    let json: Value = serde_json::from_str(&printed.json).unwrap();
    format!("{} {}", json["status"].as_str().unwrap(), printed.exit)
}

fn booted(behaviour: GuestBehaviour) -> Guest {
    let d = Durations::default();
    let mut guest = Guest::new_from_template(&GuestImage::default(), 7);
    guest.power_on(on(T, Some(seed("127.9.0.1")), behaviour), &d);
    guest.advance(T + 10_000);
    guest
}

#[test]
fn the_first_boot_goes_agent_sshd_done() {
    let d = Durations::default();
    let mut guest = Guest::new_from_template(&GuestImage::default(), 7);
    guest.power_on(on(T, Some(seed("127.9.0.1")), GuestBehaviour::default()), &d);
    assert!(!guest.ssh_answers(T) && !guest.agent_answers(T) && guest.addresses(T).is_empty());
    assert_eq!(status(&guest), "not started 0");
    guest.advance(T + 2200);
    assert!(guest.agent_answers(T + 2200) && !guest.ssh_answers(T + 2200));
    guest.advance(T + 3000);
    assert!(guest.ssh_answers(T + 3000) && guest.accepts("ops", KEY));
    assert!(!guest.accepts("ops", "ssh-ed25519 AAAAother") && !guest.accepts("root", KEY));
    assert_eq!(guest.addresses(T + 3000), ["127.9.0.1"]);
    assert_eq!(status(&guest), "running 0");
    guest.advance(T + 6999);
    assert_eq!(status(&guest), "running 0");
    guest.advance(T + 7000);
    assert_eq!(status(&guest), "done 0");
    assert_eq!(guest.next_event(), None);
    assert_eq!(
        (guest.host_name().as_str(), guest.fqdn().as_str()),
        ("web-0", "web-0.example.net")
    );
    assert!(guest.has_sudo("ops") && !guest.has_sudo("nobody"));
}

#[test]
fn a_restart_changes_the_boot_id_and_applies_nothing_again() {
    let d = Durations::default();
    let mut guest = booted(GuestBehaviour::default());
    let (boot, keys) = (guest.boot_id().unwrap().to_owned(), guest.key_generation());
    let at = guest.reboot_inside(T + 10_000, &d).unwrap();
    assert_eq!(at, T + 10_500);
    assert!(!guest.ssh_answers(T + 10_000) && guest.boot_number().is_none());
    guest.advance(T + 20_000);
    assert!(guest.ssh_answers(T + 20_000));
    assert_ne!(guest.boot_id().unwrap(), boot);
    assert_eq!((guest.key_generation(), status(&guest).as_str()), (keys, "done 0"));
    guest.power_off(T + 20_000);
    let mut changed = seed("127.9.0.1");
    changed.user_data += "timezone: UTC\n";
    guest.power_on(on(T + 20_000, Some(changed), GuestBehaviour::default()), &d);
    guest.advance(T + 40_000);
    assert_eq!(
        guest.key_generation(),
        keys + 1,
        "another instance id is another first boot"
    );
}

#[test]
fn without_the_drive_cloud_init_is_disabled_and_all_stays() {
    let d = Durations::default();
    let mut guest = booted(GuestBehaviour::default());
    let keys: Vec<String> = guest.host_keys().iter().map(keys::public_line).collect();
    assert_eq!(guest.acpi_shutdown(T + 10_000, &d), Some(T + 10_500));
    guest.advance(T + 10_500);
    assert!(!guest.is_powered());
    guest.power_on(on(T + 11_000, None, GuestBehaviour::default()), &d);
    guest.advance(T + 20_000);
    assert_eq!(status(&guest), "disabled 0");
    assert_eq!(guest.addresses(T + 20_000), ["127.9.0.1"]);
    assert_eq!(
        guest.host_keys().iter().map(keys::public_line).collect::<Vec<_>>(),
        keys
    );
    assert!(guest.ssh_answers(T + 20_000) && guest.accepts("ops", KEY));
}

#[test]
fn the_fallback_datasource_damages_unless_switched_off() {
    let d = Durations::default();
    for (disabled, manual) in [(false, false), (true, false), (false, true)] {
        let behaviour = GuestBehaviour {
            datasource_none_fallback: true,
            ..GuestBehaviour::default()
        };
        let mut guest = booted(behaviour.clone());
        let before = guest.key_generation();
        guest.set_switches(disabled, manual);
        guest.power_off(T + 10_000);
        guest.power_on(on(T + 10_000, None, behaviour), &d);
        guest.advance(T + 20_000);
        let damaged = !disabled && !manual;
        assert_eq!(guest.key_generation() > before, damaged);
        let address = if damaged { "127.77.0.9" } else { "127.9.0.1" };
        assert_eq!(guest.addresses(T + 20_000), [address]);
        assert!(guest.accepts("ops", KEY) && guest.has_sudo("debian") == damaged);
        let expected = match (disabled, manual) {
            (true, _) => "disabled 0",
            (false, true) => "done 0",
            (false, false) => "done 2",
        };
        assert_eq!(status(&guest), expected);
    }
}

#[test]
fn unread_user_data_makes_no_login_and_22_says_done() {
    let d = Durations::default();
    for (version, expected) in [(CloudInitVersion::V22, "done 0"), (CloudInitVersion::V25, "done 2")] {
        let mut guest = Guest::new_from_template(&GuestImage::default(), 7);
        let mut broken = seed("127.9.0.1");
        broken.user_data = broken.user_data.replace("#cloud-config\n", "");
        let behaviour = GuestBehaviour {
            cloud_init_version: version,
            ..GuestBehaviour::default()
        };
        guest.power_on(on(T, Some(broken), behaviour), &d);
        guest.advance(T + 10_000);
        assert_eq!(status(&guest), expected);
        assert!(guest.ssh_answers(T + 10_000) && !guest.accepts("ops", KEY));
    }
}

#[test]
fn scripted_behaviour_shows() {
    let d = Durations::default();
    let with = |change: fn(&mut GuestBehaviour)| {
        let mut behaviour = GuestBehaviour::default();
        change(&mut behaviour);
        booted(behaviour)
    };
    let mut dead = with(|b| b.never_boots = true);
    assert!(!dead.ssh_answers(T + 10_000) && !dead.agent_answers(T + 10_000) && dead.next_event().is_none());
    assert_eq!(dead.acpi_shutdown(T + 10_000, &d), None);
    assert!(!with(|b| b.slow_boot_factor = 5.0).ssh_answers(T + 10_000));
    assert_eq!(with(|b| b.ignores_shutdown = true).acpi_shutdown(T, &d), None);
    assert!(!with(|b| b.login_fails = true).accepts("ops", KEY));
    assert_eq!(status(&with(|b| b.cloud_init = CloudInitEnd::Error)), "error 1");
    assert_eq!(status(&with(|b| b.cloud_init = CloudInitEnd::Degraded)), "done 2");
    let disabled = with(|b| b.cloud_init = CloudInitEnd::Disabled);
    assert_eq!(
        (status(&disabled).as_str(), disabled.accepts("ops", KEY)),
        ("disabled 0", true)
    );
    assert_eq!(status(&with(|b| b.cloud_init = CloudInitEnd::NeverEnds)), "running 0");
    assert!(with(|b| b.no_cloud_init_command = true).cloud_init().is_none());
    assert!(!with(|b| b.no_sudo = true).has_sudo("ops"));
}

#[test]
fn a_guest_that_restarts_itself_does_so_once() {
    let d = Durations::default();
    let mut guest = Guest::new_from_template(&GuestImage::default(), 7);
    let behaviour = GuestBehaviour {
        reboots_itself: true,
        ..GuestBehaviour::default()
    };
    guest.power_on(on(T, Some(seed("127.9.0.1")), behaviour), &d);
    guest.advance(T + 4000);
    let first = guest.boot_id().unwrap().to_owned();
    guest.advance(T + 5200);
    assert!(!guest.ssh_answers(T + 5200));
    guest.advance(T + 60_000);
    assert_ne!(guest.boot_id().unwrap(), first);
    assert_eq!((status(&guest).as_str(), guest.boot_number()), ("done 0", Some(2)));
}

#[test]
fn zero_durations_and_the_saved_state_work() {
    let mut guest = Guest::new_from_template(&GuestImage::default(), 7);
    guest.power_on(
        on(T, Some(seed("127.9.0.1")), GuestBehaviour::default()),
        &Durations::zero(),
    );
    assert!(guest.ssh_answers(T) && guest.agent_answers(T));
    assert_eq!(status(&guest), "done 0");
    let text = serde_json::to_string(&guest).unwrap();
    let again: Guest = serde_json::from_str(&text).unwrap();
    assert_eq!(again.boot_id(), guest.boot_id());
    assert_eq!(again.addresses(T), ["127.9.0.1"]);
}

#[test]
fn files_tell_the_state() {
    let guest = booted(GuestBehaviour::default());
    let files = guest.files(T + 10_000);
    let content = |path: &str| files.iter().find(|f| f.path == path).and_then(|f| f.content.clone());
    assert_eq!(
        content("proc/sys/kernel/random/boot_id").unwrap().trim(),
        guest.boot_id().unwrap()
    );
    assert_eq!(guest.boot_id().unwrap().len(), 36);
    assert!(
        content("run/cloud-init/result.json")
            .unwrap()
            .contains("DataSourceNoCloud")
    );
    assert_eq!(content("etc/hostname").unwrap(), "web-0\n");
    assert!(content("etc/passwd").unwrap().contains("\nops:x:1000:"));
    assert!(
        content("etc/ssh/ssh_host_ed25519_key.pub")
            .unwrap()
            .ends_with(" root@web-0\n")
    );
    assert!(content(".sim/ip").unwrap().contains("127.9.0.1/8"));
    assert_eq!(guest.agent_read_file(T, "/etc/hostname").unwrap(), b"web-0\n");
    assert!(
        guest
            .agent_read_file(T, "/etc/nothing")
            .unwrap_err()
            .contains("No such file")
    );
    let addresses = guest.interfaces_json(T + 10_000);
    assert_eq!(addresses[1]["ip-addresses"][0]["ip-address"], "127.9.0.1");
}
