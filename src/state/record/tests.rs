//! Tests of the record's machine and of its file.

use super::*;

/// One phase of each kind, in the order of the drawing.
pub(in crate::state) fn phases() -> Vec<Phase> {
    let vmid: VmId = "110".parse().unwrap();
    let node: NodeName = "pve1".parse().unwrap();
    let uuid = || "0b5e1a4e-0000-4000-8000-000000000001".to_owned();
    let since: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    vec![
        Phase::Cloning {
            vmid,
            operation: Uuid::from_u128(7),
            template: "9000".parse().unwrap(),
            template_node: node.clone(),
            upid: None,
            since,
        },
        Phase::Created {
            vmid,
            uuid: uuid(),
            node: node.clone(),
        },
        Phase::Initialized {
            vmid,
            uuid: uuid(),
            node: node.clone(),
            verdict: "done".to_owned(),
        },
        Phase::Finalizing {
            vmid,
            uuid: uuid(),
            node: node.clone(),
            drive: "ide2".to_owned(),
            boot_id_before: Some("b1".to_owned()),
            host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
            addresses: vec!["192.0.2.10".to_owned()],
            step: FinalizeStep::Begun,
        },
        Phase::Complete {
            vmid,
            uuid: uuid(),
            node: node.clone(),
            host_keys: Vec::new(),
            addresses: Vec::new(),
            finished: since,
        },
        Phase::Removing {
            vmid,
            uuid: uuid(),
            node,
            host_keys: Vec::new(),
            addresses: Vec::new(),
            step: RemoveStep::Begun,
            upid: None,
            since,
        },
    ]
}

#[test]
fn the_machine_is_the_one_that_is_drawn() {
    // Row: from; column: to; order: cloning created initialized finalizing complete removing.
    let drawn = [
        [true, true, false, false, false, false],
        [false, true, true, false, false, true],
        [false, false, true, true, false, true],
        [false, false, false, true, true, true],
        [false, false, false, false, true, true],
        [false, false, false, false, false, true],
    ];
    for (from, row) in phases().iter().zip(drawn) {
        for (to, allowed) in phases().iter().zip(row) {
            assert_eq!(from.may_become(to), allowed, "{} -> {}", from.name(), to.name());
        }
    }
    let begins: Vec<bool> = phases().iter().map(Phase::may_begin).collect();
    assert_eq!(begins, [true, true, true, false, true, false]);
}

#[test]
fn a_vm_never_becomes_another_one() {
    let all = phases();
    let mut other = all[1].clone();
    if let Phase::Created { uuid, .. } = &mut other {
        uuid.replace_range(..1, "f");
    }
    assert!(!all[1].may_become(&other), "another UUID");
    assert!(all[0].may_become(&other), "the first UUID is learned");
    if let Phase::Created { vmid, .. } = &mut other {
        *vmid = "111".parse().unwrap();
    }
    assert!(!all[0].may_become(&other), "another vmid");
    let mut moved = all[4].clone();
    if let Phase::Complete { node, .. } = &mut moved {
        *node = "pve2".parse().unwrap();
    }
    assert!(all[4].may_become(&moved), "another node is only an observation");
}

#[test]
fn a_clone_that_did_not_happen_is_tried_under_another_id() {
    let first = phases().remove(0);
    let mut second = first.clone();
    if let Phase::Cloning { vmid, operation, .. } = &mut second {
        *vmid = "111".parse().unwrap();
        *operation = Uuid::from_u128(8);
    }
    assert!(first.may_become(&second));
}

#[test]
fn the_boot_id_before_stays_and_steps_go_forward() {
    let with = |boot: Option<&str>, at: FinalizeStep| {
        let mut phase = phases().remove(3);
        if let Phase::Finalizing {
            boot_id_before, step, ..
        } = &mut phase
        {
            *boot_id_before = boot.map(str::to_owned);
            *step = at;
        }
        phase
    };
    use FinalizeStep::{Begun, CloudInitOff};
    assert!(with(None, Begun).may_become(&with(Some("b1"), Begun)));
    assert!(with(Some("b1"), Begun).may_become(&with(Some("b1"), CloudInitOff)));
    assert!(!with(Some("b1"), Begun).may_become(&with(Some("b2"), Begun)));
    assert!(!with(Some("b1"), Begun).may_become(&with(None, Begun)));
    assert!(!with(Some("b1"), CloudInitOff).may_become(&with(Some("b1"), Begun)));
}

#[test]
fn the_key_is_the_digest_of_address_and_name() {
    // printf 'pve.example.org:8006/web-0' | sha256sum
    let key = VmKey::of("PVE.example.org", 8006, "web-0");
    assert_eq!(key, VmKey::of("pve.example.org", 8006, "web-0"));
    assert_eq!(
        key.as_str(),
        "16b30f2647ccd1c64b918a9cf082a3e9cbb5fb80b03313ee28275788362503b2"
    );
    assert_ne!(key, VmKey::of("pve.example.org", 8007, "web-0"));
    assert_ne!(key, VmKey::of("pve.example.org", 8006, "web-1"));
    assert!(VmKey::try_from("ABC".to_owned()).is_err());
}

#[test]
fn every_phase_survives_the_file() {
    for phase in phases() {
        let record = Record::new("pve1", 8006, "web-0.example.org", "web-0", phase);
        let bytes = record.to_bytes().unwrap();
        assert_eq!(Record::from_bytes(&bytes, &record.key), Ok(record));
    }
}

#[test]
fn a_record_of_before_deliveries_reads_and_later_ones_survive_the_file() {
    let mut record = Record::new("pve1", 8006, "web-0", "web-0", phases().remove(1));
    let before = String::from_utf8(record.to_bytes().unwrap()).unwrap();
    assert!(!before.contains("deliveries"), "as older versions wrote it");
    assert_eq!(
        Record::from_bytes(before.as_bytes(), &record.key).unwrap().deliveries,
        []
    );
    for local in [false, true] {
        record.deliveries.push(Delivery {
            node: "pve1".parse().unwrap(),
            path: "/srv/snippets".to_owned(),
            local,
        });
    }
    let bytes = record.to_bytes().unwrap();
    assert_eq!(Record::from_bytes(&bytes, &record.key), Ok(record.clone()));
    assert_eq!(
        record.with(phases().remove(2)).deliveries,
        record.deliveries,
        "phases come and go"
    );
}

#[test]
fn what_is_not_exactly_a_record_is_refused() {
    let record = Record::new("pve1", 8006, "web-0", "web-0", phases().remove(1));
    let text = String::from_utf8(record.to_bytes().unwrap()).unwrap();
    let read = |text: &str| Record::from_bytes(text.as_bytes(), &record.key);
    let corrupt = |text: &str| matches!(read(text), Err(StateErrorKind::Corrupt(_)));
    assert!(corrupt(""));
    assert!(corrupt("{}"));
    assert!(corrupt(&text[..text.len() / 2]));
    assert!(corrupt(&text.replace("\"host\"", "\"hosd\"")), "unknown field");
    assert!(
        corrupt(&text.replace("\"uuid\"", "\"uuuu\"")),
        "unknown field in the phase"
    );
    assert!(corrupt(&text.replace("\"created\",", "\"cremated\",")), "unknown phase");
    assert!(corrupt(&format!("{text}{text}")), "something behind it");
    let future = text.replace("\"schema\": 1", "\"schema\": 2, \"shiny\": true");
    assert_eq!(read(&future), Err(StateErrorKind::FutureVersion(2)));
}

#[test]
fn the_record_of_another_vm_is_refused() {
    let record = Record::new("pve1", 8006, "web-0", "web-0", phases().remove(1));
    let other = Record::new("pve2", 8006, "web-0", "web-0", phases().remove(1));
    let bytes = record.to_bytes().unwrap();
    assert!(matches!(
        Record::from_bytes(&bytes, &other.key),
        Err(StateErrorKind::WrongKey { .. })
    ));
    // The key was edited to fit the file, the name was not.
    let edited = String::from_utf8(bytes)
        .unwrap()
        .replace(record.key.as_str(), other.key.as_str());
    assert!(matches!(
        Record::from_bytes(edited.as_bytes(), &other.key),
        Err(StateErrorKind::WrongKey { .. })
    ));
}
