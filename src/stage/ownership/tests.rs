//! The table of ownership, row by row.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::engine::cluster::{Listed, Listing};
use crate::engine::testing::config;
use crate::proxmox::cluster::{ClusterStatus, GuestKind};
use crate::proxmox::ids::NodeName;
use crate::stage::clone::mark;
use crate::state::record::{FinalizeStep, RemoveStep};

pub(super) const UUID: &str = "3a940e9f-7149-44b9-8fde-c9584aefc10c";

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn listed(vmid: u32, on: &str, name: &str) -> Listed {
    Listed {
        vmid: vmid.to_string().parse().unwrap(),
        node: node(on),
        kind: GuestKind::Qemu,
        name: Some(name.to_owned()),
        template: false,
        running: true,
    }
}

fn candidate(vmid: u32, name: &str, uuid: &str) -> Candidate {
    Candidate {
        listed: listed(vmid, "pve2", name),
        config: config(json!({"name": name, "smbios1": format!("uuid={}", uuid.to_uppercase())})),
    }
}

fn ours() -> Candidate {
    candidate(105, "web-0", UUID)
}

fn marked(operation: Uuid) -> Candidate {
    let mut candidate = ours();
    candidate.config.values.insert("description".into(), mark(operation));
    candidate
}

/// What was discovered: VMs of the name, and the one with the number on record.
fn found(named: Vec<Candidate>, recorded: Option<Candidate>, complete: bool) -> Discovered {
    let listing = Listing {
        guests: Vec::new(),
        status: ClusterStatus {
            quorate: Some(true),
            nodes: Vec::new(),
        },
        gaps: if complete {
            Vec::new()
        } else {
            vec!["node pve3 is offline".to_owned()]
        },
    };
    Discovered::of(listing, named, Vec::new(), Vec::new(), recorded)
}

fn cloning() -> Phase {
    Phase::Cloning {
        vmid: "105".parse().unwrap(),
        operation: Uuid::nil(),
        template: "9000".parse().unwrap(),
        template_node: node("pve1"),
        upid: None,
        since: jiff::Timestamp::UNIX_EPOCH,
    }
}

pub(super) fn created() -> Phase {
    Phase::Created {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: node("pve1"),
    }
}

fn initialized() -> Phase {
    Phase::Initialized {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: node("pve1"),
        verdict: "done".to_owned(),
    }
}

fn finalizing() -> Phase {
    Phase::Finalizing {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: node("pve1"),
        drive: "ide2".to_owned(),
        boot_id_before: Some("b".to_owned()),
        host_keys: Vec::new(),
        addresses: Vec::new(),
        step: FinalizeStep::Begun,
    }
}

pub(super) fn complete() -> Phase {
    Phase::Complete {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: node("pve1"),
        host_keys: Vec::new(),
        addresses: Vec::new(),
        finished: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn removing() -> Phase {
    Phase::Removing {
        vmid: "105".parse().unwrap(),
        uuid: UUID.to_owned(),
        node: node("pve1"),
        host_keys: Vec::new(),
        addresses: Vec::new(),
        step: RemoveStep::Begun,
        upid: None,
        since: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// The decision in a word; a refusal by its code.
fn decided(phase: Option<Phase>, found: &Discovered) -> &'static str {
    match decide("web-0", phase.as_ref(), found) {
        Ok(Decision::New(_)) => "new",
        Ok(Decision::Resume(_)) => "resume",
        Ok(Decision::Finalize(_)) => "finalize",
        Ok(Decision::Done(_)) => "done",
        Err(refusal) => {
            assert_eq!(refusal.exit, Exit::Refused, "{refusal:?}");
            refusal.code
        }
    }
}

#[test]
fn without_a_record_only_a_name_that_is_surely_free_is_taken() {
    assert_eq!(decided(None, &found(vec![], None, true)), "new");
    assert_eq!(decided(None, &found(vec![], None, false)), "ownership/unknown");
    assert_eq!(decided(None, &found(vec![ours()], None, true)), "ownership/foreign");
    assert_eq!(
        decided(None, &found(vec![marked(Uuid::nil())], None, true)),
        "ownership/foreign"
    );
    let mut away = found(vec![], None, false);
    away.away = vec![listed(105, "pve3", "web-0")];
    assert_eq!(decided(None, &away), "ownership/foreign");
}

#[test]
fn a_record_that_agrees_goes_on_by_its_phase() {
    let seen = found(vec![ours()], Some(ours()), true);
    for (phase, expected) in [
        (created(), "resume"),
        (initialized(), "finalize"),
        (finalizing(), "finalize"),
        (complete(), "done"),
        (removing(), "ownership/removing"),
    ] {
        assert_eq!(decided(Some(phase), &seen), expected);
    }
    // An incomplete listing does not matter once the VM is seen.
    assert_eq!(
        decided(Some(complete()), &found(vec![ours()], Some(ours()), false)),
        "done"
    );
}

#[test]
fn a_vm_that_moved_is_the_same_vm() {
    let mut moved = ours();
    moved.listed.node = node("pve3");
    let seen = found(vec![moved.clone()], Some(moved), true);
    let Ok(Decision::Done(owned)) = decide("web-0", Some(&complete()), &seen) else {
        panic!("not done")
    };
    assert_eq!(owned.vm.node, node("pve3"));
    assert_eq!(owned.vm.uuid, UUID);
}

#[test]
fn a_record_that_disagrees_is_refused() {
    for phase in [created(), initialized(), finalizing(), complete()] {
        let other = candidate(106, "web-0", UUID);
        assert_eq!(
            decided(Some(phase.clone()), &found(vec![other], Some(ours()), true)),
            "ownership/other-vm"
        );
        let renamed = candidate(105, "db-0", UUID);
        assert_eq!(
            decided(Some(phase.clone()), &found(vec![], Some(renamed), true)),
            "ownership/renamed"
        );
        let rebuilt = candidate(105, "web-0", "00000000-7149-44b9-8fde-c9584aefc10c");
        assert_eq!(
            decided(Some(phase.clone()), &found(vec![rebuilt.clone()], Some(rebuilt), true)),
            "ownership/other-uuid"
        );
        let mut bare = ours();
        bare.config.values.shift_remove("smbios1");
        assert_eq!(
            decided(Some(phase.clone()), &found(vec![bare.clone()], Some(bare), true)),
            "ownership/other-uuid"
        );
        assert_eq!(
            decided(Some(phase.clone()), &found(vec![], None, true)),
            "ownership/gone"
        );
        assert_eq!(decided(Some(phase), &found(vec![], None, false)), "ownership/unknown");
    }
}

#[test]
fn an_intent_is_believed_only_with_its_own_mark() {
    let ours_now = found(vec![marked(Uuid::nil())], Some(marked(Uuid::nil())), true);
    assert_eq!(decided(Some(cloning()), &ours_now), "new");
    let strangers = found(vec![marked(Uuid::max())], Some(marked(Uuid::max())), true);
    assert_eq!(decided(Some(cloning()), &strangers), "ownership/foreign");
    let plain = found(vec![ours()], Some(ours()), true);
    assert_eq!(decided(Some(cloning()), &plain), "ownership/foreign");
    let elsewhere = found(vec![candidate(106, "web-0", UUID)], None, true);
    assert_eq!(decided(Some(cloning()), &elsewhere), "ownership/foreign");
    assert_eq!(decided(Some(cloning()), &found(vec![], None, true)), "new");
    assert_eq!(
        decided(Some(cloning()), &found(vec![], None, false)),
        "ownership/unknown"
    );
    // A number that was taken by another VM: the clone stage sees that and takes another one, if the name is surely free.
    let taken = || Some(candidate(105, "db-0", UUID));
    assert_eq!(decided(Some(cloning()), &found(vec![], taken(), true)), "new");
    assert_eq!(
        decided(Some(cloning()), &found(vec![], taken(), false)),
        "ownership/unknown"
    );
    // The name stands on a node that is offline: somebody else's under another number, perhaps ours under ours.
    let mut away = found(vec![], None, false);
    away.away = vec![listed(106, "pve3", "web-0")];
    assert_eq!(decided(Some(cloning()), &away), "ownership/foreign");
    away.away = vec![listed(105, "pve3", "web-0")];
    assert_eq!(decided(Some(cloning()), &away), "ownership/unknown");
}

#[test]
fn names_must_be_the_vms_alone() {
    for phase in [
        None,
        Some(cloning()),
        Some(created()),
        Some(complete()),
        Some(removing()),
    ] {
        let two = found(vec![ours(), candidate(106, "web-0", UUID)], Some(ours()), true);
        assert_eq!(decided(phase.clone(), &two), "ownership/ambiguous");
        let mut one_away = found(vec![ours()], Some(ours()), false);
        one_away.away = vec![listed(106, "pve3", "web-0")];
        assert_eq!(decided(phase.clone(), &one_away), "ownership/ambiguous");
        for (kind, template) in [(GuestKind::Lxc, false), (GuestKind::Qemu, true)] {
            let mut wrong = found(vec![], None, true);
            wrong.wrong_kind = vec![Listed {
                kind,
                template,
                ..listed(200, "pve1", "web-0")
            }];
            assert_eq!(decided(phase.clone(), &wrong), "ownership/wrong-kind");
        }
    }
}

#[test]
fn every_refusal_names_a_way_out_or_the_rule() {
    for (phase, seen) in [
        (None, found(vec![ours()], None, true)),
        (None, found(vec![], None, false)),
        (Some(created()), found(vec![], None, true)),
        (Some(created()), found(vec![candidate(106, "web-0", UUID)], None, true)),
        (Some(removing()), found(vec![], None, true)),
    ] {
        let refusal = decide("web-0", phase.as_ref(), &seen).unwrap_err();
        assert!(refusal.rule.is_some(), "{refusal:?}");
    }
}
