//! The table of a removal's beginning, row by row.

use serde_json::json;

use super::*;
use crate::engine::cluster::Listing;
use crate::engine::testing::config;
use crate::proxmox::cluster::GuestKind;
use crate::stage::discover::Candidate;

fn listed(vmid: u32, name: &str) -> Listed {
    Listed {
        vmid: vmid.try_into().unwrap(),
        node: "pve2".parse().unwrap(),
        kind: GuestKind::Qemu,
        name: Some(name.to_owned()),
        template: false,
        running: true,
    }
}

fn seen(vmid: u32, name: &str, uuid: &str) -> Candidate {
    Candidate {
        listed: listed(vmid, name),
        config: config(json!({"name": name, "smbios1": format!("uuid={uuid}")})),
    }
}

fn found(named: Vec<Candidate>, recorded: Option<Candidate>, gaps: &[&str]) -> Discovered {
    let listing = Listing {
        guests: Vec::new(),
        status: ClusterStatus {
            quorate: None,
            nodes: Vec::new(),
        },
        gaps: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
    };
    Discovered::of(listing, named, Vec::new(), Vec::new(), recorded)
}

fn complete() -> Phase {
    Phase::Complete {
        vmid: 105.try_into().unwrap(),
        uuid: "aa".to_owned(),
        node: "pve1".parse().unwrap(),
        host_keys: vec!["key".to_owned()],
        addresses: vec!["10.0.0.5/24".to_owned()],
        finished: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn begun(step: RemoveStep) -> Phase {
    let vm = Vm {
        vmid: 105.try_into().unwrap(),
        uuid: "aa".to_owned(),
        node: "pve1".parse().unwrap(),
    };
    removing(Some(&complete()), &vm, step).unwrap()
}

fn verdict(phase: Option<Phase>, found: &Discovered, destroyed: bool) -> Result<String, &'static str> {
    match decide("web-0", phase.as_ref(), found, destroyed) {
        Ok(Standing::Nothing) => Ok("nothing".to_owned()),
        Ok(Standing::Here(here)) => Ok(format!("here on {}", here.vm.node)),
        Ok(Standing::Gone(gone)) => {
            assert!(gone.phase.is_none_or(|next| phase.unwrap().may_become(&next)));
            Ok("gone".to_owned())
        }
        Err(diagnostic) => {
            assert_eq!(diagnostic.exit, Exit::Refused);
            Err(diagnostic.code)
        }
    }
}

#[test]
fn without_a_record_nothing_is_removed() {
    assert_eq!(
        verdict(None, &found(vec![], None, &[]), false),
        Ok("nothing".to_owned())
    );
    assert_eq!(
        verdict(None, &found(vec![], None, &["away"]), false),
        Err("ownership/unknown")
    );
    let foreign = found(vec![seen(105, "web-0", "aa")], None, &[]);
    assert_eq!(verdict(None, &foreign, false), Err("ownership/foreign"));
}

#[test]
fn a_vm_on_record_is_here_or_surely_gone_or_refused() {
    let ours = || seen(105, "web-0", "aa");
    for phase in [complete(), begun(RemoveStep::Begun), begun(RemoveStep::Stopped)] {
        let is = |found: Discovered, destroyed| verdict(Some(phase.clone()), &found, destroyed);
        // The node is an observation.
        assert_eq!(
            is(found(vec![ours()], Some(ours()), &[]), false),
            Ok("here on pve2".to_owned())
        );
        assert_eq!(is(found(vec![], None, &[]), false), Ok("gone".to_owned()));
        assert_eq!(is(found(vec![], None, &["away"]), false), Err("ownership/unknown"));
        let renamed = seen(105, "else", "aa");
        assert_eq!(is(found(vec![], Some(renamed), &[]), false), Err("ownership/renamed"));
        let changed = seen(105, "web-0", "bb");
        assert_eq!(
            is(found(vec![changed.clone()], Some(changed), &[]), false),
            Err("ownership/other-uuid")
        );
        let other = seen(106, "web-0", "cc");
        assert_eq!(is(found(vec![other], None, &[]), false), Err("ownership/other-vm"));
    }
}

#[test]
fn a_number_that_was_given_away_again_is_left_alone() {
    let is = |phase, candidate: Candidate, destroyed| {
        let named = match candidate.config.name() {
            Some("web-0") => vec![candidate.clone()],
            Some(_) | None => Vec::new(),
        };
        verdict(Some(phase), &found(named, Some(candidate), &[]), destroyed)
    };
    let stopped = || begun(RemoveStep::Stopped);
    assert_eq!(is(stopped(), seen(105, "else", "bb"), false), Ok("gone".to_owned()));
    assert_eq!(
        is(stopped(), seen(105, "web-0", "bb"), true),
        Ok("gone".to_owned()),
        "our task did it"
    );
    assert_eq!(
        is(stopped(), seen(105, "web-0", "bb"), false),
        Err("ownership/other-uuid")
    );
    assert_eq!(is(complete(), seen(105, "else", "bb"), false), Err("ownership/renamed"));
    let mut stub = seen(105, "else", "bb");
    stub.config = config(json!({"lock": "destroyed"}));
    assert_eq!(is(stopped(), stub, false), Err("remove/stub"));
    // Our task ended well, so an incomplete listing hides nothing of ours.
    assert_eq!(
        verdict(Some(stopped()), &found(vec![], None, &["away"]), true),
        Ok("gone".to_owned())
    );
}

#[test]
fn a_removal_never_goes_back_a_step() {
    let vm = Vm {
        vmid: 105.try_into().unwrap(),
        uuid: "aa".to_owned(),
        node: "pve1".parse().unwrap(),
    };
    assert_eq!(removing(Some(&begun(RemoveStep::Gone)), &vm, RemoveStep::Begun), None);
    assert_eq!(
        removing(Some(&begun(RemoveStep::Stopped)), &vm, RemoveStep::Stopped),
        None
    );
    let next = removing(Some(&begun(RemoveStep::Begun)), &vm, RemoveStep::Gone).unwrap();
    assert!(
        matches!(&next, Phase::Removing { host_keys, addresses, step: RemoveStep::Gone, .. }
        if host_keys == &["key"] && addresses == &["10.0.0.5/24"])
    );
    assert_eq!(
        removing(None, &vm, RemoveStep::Begun),
        None,
        "nothing is removed without a record"
    );
}
