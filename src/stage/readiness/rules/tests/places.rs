//! Places that have to be certain: the snippet folder, the guest's addresses.

use super::*;

#[test]
fn a_snippet_folder_that_is_not_told_stops_the_run() {
    let mut facts = good();
    facts.snippet_dir = None;
    only(
        &wanted(),
        &facts,
        "readiness/snippet-path",
        &["Datastore.Audit on /storage/local", "vms_snippets_path"],
    );
    let mut machine = wanted();
    machine.snippets.local_path = Some("/mnt/snippets".into());
    assert_eq!(codes(&machine, &facts), [""; 0], "the path on the node does not matter");
    facts.storages.as_mut().unwrap().remove(0);
    let found = codes(&wanted(), &facts);
    assert!(
        !found.contains(&"readiness/snippet-path"),
        "told as a missing storage: {found:?}"
    );
}

#[test]
fn an_address_on_the_record_of_another_vm_is_taken() {
    let mut facts = good();
    facts.recorded = vec![crate::state::Recorded {
        address: "10.0.20.31".parse().unwrap(),
        key: crate::state::VmKey::of("pve1", 8006, "prod-db"),
        host: "db-0".to_owned(),
        name: "prod-db".to_owned(),
    }];
    only(
        &wanted(),
        &facts,
        "readiness/address-recorded",
        &["10.0.20.31", "prod-db", "db-0", "vmwright forget"],
    );
}
