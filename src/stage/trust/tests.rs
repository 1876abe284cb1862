//! Whose word counts for the guest's host keys.

use serde_json::json;

use super::*;
use crate::engine::host::Halt;
use crate::engine::testing::{Fixture, Reply, answer};
use crate::guest::remote::{HostKeys, SshError};
use crate::state::record::FinalizeStep;

const ED: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA";
const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAA";
const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5BBBB";

fn initialized() -> Initialized {
    Initialized::before(crate::stage::start::Running::of(Vm {
        vmid: "105".parse().unwrap(),
        uuid: "u".to_owned(),
        node: "pve1".parse().unwrap(),
    }))
}

/// A guest that shows this key at first contact, and has these in its files.
fn site(shown: &'static str, files: &'static [&'static str]) -> Fixture {
    let fixture = Fixture::new().locked();
    let alias = fixture.run.machine.ssh.alias.clone();
    fixture.far.on(move |keys, command| {
        if let HostKeys::LearnInto(file) = keys {
            std::fs::write(file, format!("{alias} {shown}\n")).unwrap();
        }
        if command.script.contains("ssh_host_") {
            return answer(&files.join("\n"));
        }
        answer("00000000-0000-0000-0000-000000000001")
    });
    fixture
}

fn agent(fixture: &Fixture, has: &'static [(&'static str, &'static str)]) {
    fixture.api.on(move |request| {
        let file = &request.params.iter().find(|(key, _)| key == "file")?.1;
        let found = has.iter().find(|(kind, _)| file.contains(kind));
        Some(match found {
            Some((_, key)) => Reply::Data(json!({"content": format!("{key} root@web-0\n")})),
            None => Reply::status(500, "Agent error: Failed to open file: No such file or directory"),
        })
    });
}

async fn trust(fixture: &Fixture) -> Result<(Vec<String>, Source), (&'static str, Exit)> {
    let stage = Trust::new(initialized());
    let end = fixture.run.stage(stage).await;
    end.map(|trusted| (trusted.host_keys, trusted.source))
        .map_err(|halt| match halt {
            Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
            Halt::Planned { .. } | Halt::Interrupted { .. } => ("other", Exit::Done),
        })
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_agents_word_counts_first_and_every_name_is_entered() {
    let fixture = site(ED, &[OTHER]);
    agent(&fixture, &[("ed25519", ED), ("rsa", RSA)]);
    assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED, RSA]), Source::Agent));
    for name in names(&fixture.run.machine) {
        assert_eq!(
            known_hosts::read(fixture.known_hosts(), &name).unwrap(),
            [ED, RSA],
            "{name}"
        );
    }
    assert!(names(&fixture.run.machine).iter().any(|name| name == "10.0.20.31"));
    let before = std::fs::read(fixture.known_hosts()).unwrap();
    trust(&fixture).await.unwrap();
    assert_eq!(std::fs::read(fixture.known_hosts()).unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_the_guest_is_refused_and_nothing_is_written() {
    let fixture = site(OTHER, &[OTHER]);
    agent(&fixture, &[("ed25519", ED)]);
    assert_eq!(trust(&fixture).await.unwrap_err(), ("trust/other-key", Exit::Refused));
    assert!(!fixture.known_hosts().exists());
}

#[tokio::test(start_paused = true)]
async fn without_an_agent_the_guests_own_files_count() {
    for silent in ["QEMU guest agent is not running", "No QEMU guest agent configured"] {
        let fixture = site(ED, &[ED, RSA]);
        fixture
            .api
            .always("GET /nodes/pve1/qemu/105/agent/file-read", Reply::status(500, silent));
        assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED, RSA]), Source::Session));
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_scanned_and_must_hold_the_first_contacts_key() {
    let fixture = site(ED, &[OTHER]);
    fixture.far.shows(&[ED, RSA]);
    assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED, RSA]), Source::Scan));
    let fixture = site(ED, &[OTHER]);
    fixture.far.shows(&[OTHER]);
    assert_eq!(trust(&fixture).await.unwrap_err(), ("trust/other-key", Exit::Refused));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_in_the_middle_is_asked_again() {
    let fixture = site(RSA, &[]);
    agent(&fixture, &[("ed25519", ED), ("rsa", RSA)]);
    let mut asked = 0;
    fixture.api.on(move |request| {
        let rsa = request
            .params
            .iter()
            .any(|(key, value)| key == "file" && value.contains("_rsa_"));
        asked += u32::from(rsa);
        (rsa && asked == 1).then(|| Reply::status(500, "VM 105 qga command 'guest-file-open' failed - got timeout"))
    });
    assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED, RSA]), Source::Agent));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_is_away_for_a_moment_is_asked_again() {
    let fixture = site(ED, &[ED]);
    let alias = fixture.run.machine.ssh.alias.clone();
    let mut tries = 0;
    fixture.far.on(move |keys, command| {
        tries += 1;
        if tries < 5 {
            return Err(SshError::NotReachable("connection refused".into()));
        }
        if let HostKeys::LearnInto(file) = keys {
            std::fs::write(file, format!("{alias} {ED}\n")).unwrap();
        }
        answer(if command.script.contains("ssh_host_") {
            ED
        } else {
            "00000000-0000-0000-0000-000000000001"
        })
    });
    assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED]), Source::Session));
}

#[tokio::test(start_paused = true)]
async fn keys_on_record_are_not_asked_for_again() {
    let fixture = site(OTHER, &[OTHER]).recorded(Phase::Finalizing {
        vmid: "105".parse().unwrap(),
        uuid: "u".to_owned(),
        node: "pve1".parse().unwrap(),
        drive: "ide2".to_owned(),
        boot_id_before: None,
        host_keys: keys(&[ED]),
        addresses: Vec::new(),
        step: FinalizeStep::Begun,
    });
    assert_eq!(trust(&fixture).await.unwrap(), (keys(&[ED]), Source::Record));
    assert!(fixture.far.ran().is_empty() && fixture.api.calls().is_empty());
}
