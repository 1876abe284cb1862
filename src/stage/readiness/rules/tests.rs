//! Each rule of readiness with facts that break it, and only it.

mod devices;
mod places;

use serde_json::json;

use super::*;
use crate::engine::cluster::{Listing, Permissions};
use crate::engine::testing::{config, machine};
use crate::machine::{BootDisk, ExtraDisk, Nic};
use crate::proxmox::cluster::{ClusterNode, ClusterStatus};
use crate::proxmox::config::VmConfig;
use crate::proxmox::network::Bridge;
use crate::proxmox::storage::StorageInfo;

fn node(name: &str, online: bool) -> ClusterNode {
    ClusterNode {
        name: name.parse().unwrap(),
        online,
        ip: None,
        local: name == "pve1",
    }
}

fn storage(name: &str, content: &[&str]) -> StorageInfo {
    StorageInfo {
        storage: name.parse().unwrap(),
        kind: "dir".to_owned(),
        content: content.iter().map(|text| (*text).to_owned()).collect(),
        shared: false,
        enabled: true,
        active: true,
        total: 500 << 30,
        used: 0,
        avail: 500 << 30,
    }
}

fn template_config() -> VmConfig {
    config(json!({
        "name": "debian-12-cloudinit",
        "template": 1,
        "virtio0": "local:9000/base-9000-disk-0.qcow2,size=3G",
        "ide2": "local:9000/vm-9000-cloudinit.qcow2,media=cdrom",
        "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
        "boot": "order=virtio0",
        "serial0": "socket",
    }))
}

fn wanted() -> Machine {
    let mut machine = machine();
    machine.hardware.storage = Some("local".parse().unwrap());
    machine.hardware.boot_disk = Some(BootDisk {
        slot: "virtio0".into(),
        size_gib: Some(20),
        options: Vec::new(),
    });
    machine.hardware.nics = vec![Nic {
        index: 0,
        model: "virtio".into(),
        bridge: "vmbr0".into(),
        tag: None,
        mac: None,
        options: Vec::new(),
    }];
    machine.hardware.boot_order = None;
    machine.hardware.extra_disks = Vec::new();
    machine
}

fn everything() -> Permissions {
    let privileges = [
        "VM.Audit",
        "VM.Allocate",
        "VM.Clone",
        "VM.Migrate",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.PowerMgmt",
        "Datastore.AllocateSpace",
        "SDN.Use",
    ];
    let all = privileges.iter().map(|name| ((*name).to_owned(), true)).collect();
    [("/".to_owned(), all)].into()
}

/// Facts with nothing to complain about.
fn good() -> Facts {
    let storages = vec![
        storage("local", &["images", "snippets", "iso"]),
        storage("local-lvm", &["images"]),
    ];
    Facts {
        listing: Listing {
            guests: Vec::new(),
            status: ClusterStatus {
                quorate: Some(true),
                nodes: vec![node("pve1", true), node("pve2", true)],
            },
            gaps: Vec::new(),
        },
        template_names: vec!["debian-12-cloudinit".to_owned(), "ubuntu-24".to_owned()],
        template: Some(Template {
            vmid: "9000".parse().unwrap(),
            node: "pve1".parse().unwrap(),
            config: template_config(),
        }),
        template_offline: None,
        template_needed: true,
        template_is_shared: false,
        source_storages: Some(storages.clone()),
        storages: Some(storages),
        bridges: Some(vec![Bridge {
            iface: "vmbr0".to_owned(),
            kind: "bridge".to_owned(),
            active: true,
        }]),
        permissions: Some(everything()),
        major: 9,
        node_ssh: None,
        snippet_dir: Some("/var/lib/vz/snippets".to_owned()),
        stranger: None,
        recorded: Vec::new(),
        vmid_taken: None,
    }
}

fn codes(machine: &Machine, facts: &Facts) -> Vec<&'static str> {
    check(machine, facts).iter().map(|problem| problem.code).collect()
}

/// The only problem, whose message and help hold these words.
#[track_caller]
fn only(machine: &Machine, facts: &Facts, code: &str, words: &[&str]) {
    let problems = check(machine, facts);
    let found: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(found, [code], "{problems:#?}");
    let text = format!("{:?}", problems[0]);
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

fn extra(slot: &str, storage: &str, gib: u64) -> ExtraDisk {
    ExtraDisk {
        key: "disk2".into(),
        slot: slot.into(),
        storage: storage.parse().unwrap(),
        size_gib: gib,
        format: None,
        options: Vec::new(),
    }
}

fn change(facts: &mut Facts, key: &str, value: Option<&str>) {
    let values = &mut facts.template.as_mut().unwrap().config.values;
    match value {
        Some(value) => values.insert(key.to_owned(), value.to_owned()),
        None => values.shift_remove(key),
    };
}

#[test]
fn good_facts_have_no_problem() {
    assert_eq!(codes(&wanted(), &good()), [""; 0]);
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio1", "local-lvm", 10)];
    machine.hardware.boot_order = Some(vec!["virtio0".into(), "virtio1".into(), "net0".into()]);
    assert_eq!(codes(&machine, &good()), [""; 0]);
}

#[test]
fn the_cluster_and_its_nodes() {
    let mut facts = good();
    facts.listing.status.quorate = Some(false);
    only(&wanted(), &facts, "readiness/no-quorum", &[]);
    let mut facts = good();
    facts.listing.status.nodes[0].online = false;
    (facts.storages, facts.bridges) = (None, None);
    only(&wanted(), &facts, "readiness/node-offline", &["pve1"]);
    let mut machine = wanted();
    machine.node = "pve11".parse().unwrap();
    let mut facts = good();
    facts.template_is_shared = true;
    only(
        &machine,
        &facts,
        "readiness/unknown-node",
        &["did you mean pve1?", "pve1, pve2"],
    );
}

#[test]
fn the_template() {
    let mut facts = good();
    facts.template = None;
    only(
        &wanted(),
        &facts,
        "readiness/no-template",
        &["did you mean debian-12-cloudinit?"],
    );
    facts.template_names = vec!["windows".to_owned()];
    only(
        &wanted(),
        &facts,
        "readiness/no-template",
        &["templates that are seen: windows"],
    );
    facts.template_offline = Some("pve2".parse().unwrap());
    only(&wanted(), &facts, "readiness/template-offline", &["pve2"]);
    facts.template_needed = false;
    assert_eq!(
        codes(&wanted(), &facts),
        [""; 0],
        "a VM that is there needs no template"
    );
}

#[test]
fn the_templates_cloud_init_drive() {
    let mut facts = good();
    change(&mut facts, "ide2", None);
    only(
        &wanted(),
        &facts,
        "readiness/no-cloud-init-drive",
        &["qm set 9000 --ide2 STORAGE:cloudinit"],
    );
    let mut facts = good();
    change(
        &mut facts,
        "scsi5",
        Some("local:9000/vm-9000-cloudinit.raw,media=cdrom"),
    );
    only(&wanted(), &facts, "readiness/two-cloud-init-drives", &["ide2, scsi5"]);
}

#[test]
fn the_boot_disk() {
    let mut facts = good();
    change(
        &mut facts,
        "virtio0",
        Some("local:9000/base-9000-disk-0.qcow2,size=32G"),
    );
    only(&wanted(), &facts, "readiness/disk-too-small", &["20 GiB", "32G"]);
    let mut facts = good();
    change(&mut facts, "virtio0", None);
    change(&mut facts, "scsi0", Some("local:9000/base-9000-disk-0.qcow2,size=3G"));
    only(&wanted(), &facts, "readiness/boot-disk", &["no disk virtio0", "scsi0"]);
    let mut machine = wanted();
    machine.hardware.boot_disk = None;
    change(&mut facts, "scsi1", Some("local:9000/base-9000-disk-1.qcow2,size=3G"));
    change(&mut facts, "boot", None);
    only(&machine, &facts, "readiness/boot-disk", &["not clear"]);
}

#[test]
fn slots_and_the_boot_order() {
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio0", "local", 1)];
    only(&machine, &good(), "readiness/slot-taken", &["virtio0"]);
    machine.hardware.extra_disks = vec![extra("ide2", "local", 1)];
    only(&machine, &good(), "readiness/slot-taken", &["ide2"]);
    let mut machine = wanted();
    machine.hardware.boot_order = Some(vec!["virtio0".into(), "scsi7".into(), "net3".into()]);
    only(
        &machine,
        &good(),
        "readiness/boot-order",
        &["scsi7, net3", "ide2, net0, virtio0"],
    );
}

#[test]
fn storages_and_what_they_take() {
    let mut machine = wanted();
    machine.hardware.storage = Some("locl".parse().unwrap());
    only(&machine, &good(), "readiness/no-storage", &["did you mean local?"]);
    for (name, content) in [("local", "images"), ("local", "snippets")] {
        let mut facts = good();
        let storages = facts.storages.as_mut().unwrap();
        let storage = storages
            .iter_mut()
            .find(|storage| storage.storage.as_str() == name)
            .unwrap();
        storage.content.retain(|known| known != content);
        only(
            &wanted(),
            &facts,
            "readiness/content-type",
            &["pvesm set local --content", content],
        );
    }
    for (enabled, active, word) in [(false, true, "disabled"), (true, false, "not active")] {
        let mut facts = good();
        let storage = &mut facts.storages.as_mut().unwrap()[0];
        (storage.enabled, storage.active) = (enabled, active);
        only(&wanted(), &facts, "readiness/storage-inactive", &[word]);
    }
    let mut facts = good();
    facts.storages.as_mut().unwrap()[0].avail = 10 << 30;
    only(&wanted(), &facts, "readiness/room", &["10 GiB free", "20 GiB"]);
    assert_eq!(check(&wanted(), &facts)[0].severity, crate::diagnose::Severity::Warning);
}

#[test]
fn the_room_is_for_all_disks_together() {
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio1", "local", 30), extra("virtio2", "local", 30)];
    let mut facts = good();
    facts.storages.as_mut().unwrap()[0].avail = 79 << 30;
    only(&machine, &facts, "readiness/room", &["80 GiB"]);
    facts.storages.as_mut().unwrap()[0].avail = 80 << 30;
    assert_eq!(codes(&machine, &facts), [""; 0]);
}

#[test]
fn a_clone_that_is_moved_needs_its_storage_on_the_way() {
    let mut machine = wanted();
    machine.hardware.storage = Some("local-lvm".parse().unwrap());
    let mut facts = good();
    facts.template.as_mut().unwrap().node = "pve2".parse().unwrap();
    facts.source_storages = Some(vec![storage("local", &["images"])]);
    only(
        &machine,
        &facts,
        "readiness/no-storage-on-the-way",
        &["pve2", "local-lvm"],
    );
    facts.template_is_shared = true;
    assert_eq!(codes(&machine, &facts), [""; 0]);
}

#[test]
fn bridges() {
    let mut machine = wanted();
    machine.hardware.nics[0].bridge = "vmbr9".into();
    only(&machine, &good(), "readiness/no-bridge", &["vmbr9", "vmbr0"]);
    let mut facts = good();
    facts.bridges = None;
    only(&wanted(), &facts, "readiness/bridges-unknown", &[]);
    machine.hardware.nics.clear();
    assert_eq!(codes(&machine, &facts), [""; 0]);
}

#[test]
fn an_address_that_answers_is_somebody_elses() {
    let mut facts = good();
    facts.stranger = Some("10.0.20.31".parse().unwrap());
    only(&wanted(), &facts, "readiness/address-in-use", &["10.0.20.31"]);
}

#[test]
fn privileges_are_looked_for_where_they_are_used() {
    for (privilege, path) in [
        ("VM.Audit", "/vms"),
        ("VM.Allocate", "/vms"),
        ("VM.Clone", "/vms/9000"),
        ("VM.Config.Cloudinit", "/vms"),
        ("VM.PowerMgmt", "/vms"),
        ("Datastore.AllocateSpace", "/storage/local"),
        ("SDN.Use", "/sdn/zones/localnetwork/vmbr0"),
    ] {
        let mut facts = good();
        facts
            .permissions
            .as_mut()
            .unwrap()
            .get_mut("/")
            .unwrap()
            .remove(privilege);
        only(
            &wanted(),
            &facts,
            "readiness/privileges",
            &[privilege, &format!("{path} "), "pveum"],
        );
    }
    let mut facts = good();
    facts
        .permissions
        .as_mut()
        .unwrap()
        .get_mut("/")
        .unwrap()
        .remove("VM.Migrate");
    assert_eq!(codes(&wanted(), &facts), [""; 0], "nothing moves");
    facts.template.as_mut().unwrap().node = "pve2".parse().unwrap();
    only(&wanted(), &facts, "readiness/privileges", &["VM.Migrate"]);
    let mut facts = good();
    facts
        .permissions
        .as_mut()
        .unwrap()
        .get_mut("/")
        .unwrap()
        .remove("SDN.Use");
    facts.major = 7;
    assert_eq!(codes(&wanted(), &facts), [""; 0], "7.4 has no SDN.Use");
    facts.major = 8;
    facts.bridges.as_mut().unwrap()[0].kind = "vnet".to_owned();
    assert_eq!(codes(&wanted(), &facts), [""; 0], "a vnet's zone is not known here");
    facts.permissions = None;
    assert_eq!(
        codes(&wanted(), &facts),
        [""; 0],
        "an API that cannot tell is believed until it refuses"
    );
}

#[test]
fn a_deeper_acl_replaces_what_is_inherited() {
    let mut facts = good();
    let permissions = facts.permissions.as_mut().unwrap();
    permissions.insert(
        "/storage/local".to_owned(),
        [("Datastore.Audit".to_owned(), true)].into(),
    );
    only(
        &wanted(),
        &facts,
        "readiness/privileges",
        &["/storage/local", "pveum role modify"],
    );
    let mut facts = good();
    let permissions = facts.permissions.as_mut().unwrap();
    permissions.insert("/vms/9000".to_owned(), [("VM.Clone".to_owned(), false)].into());
    assert_eq!(codes(&wanted(), &facts), [""; 0]);
    // What does not propagate does not reach the new VM.
    let mut bare = good();
    let mut below = everything().remove("/").unwrap();
    below.insert("VM.PowerMgmt".to_owned(), false);
    bare.permissions.as_mut().unwrap().insert("/vms".to_owned(), below);
    only(
        &wanted(),
        &bare,
        "readiness/privileges",
        &["lacks VM.PowerMgmt on /vms"],
    );
    let mut machine = wanted();
    machine.hardware.pool = Some("web".into());
    let permissions = facts.permissions.as_mut().unwrap();
    permissions.insert("/pool/web".to_owned(), [("VM.Audit".to_owned(), true)].into());
    only(&machine, &facts, "readiness/privileges", &["VM.Allocate", "/pool/web"]);
}

#[test]
fn a_vm_that_is_there_is_not_measured_by_the_template() {
    let mut facts = good();
    (facts.template, facts.template_needed, facts.source_storages) = (None, false, None);
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio0", "local", 1)];
    assert_eq!(codes(&machine, &facts), [""; 0]);
    facts
        .permissions
        .as_mut()
        .unwrap()
        .get_mut("/")
        .unwrap()
        .remove("VM.Clone");
    assert_eq!(codes(&machine, &facts), [""; 0]);
}

#[test]
fn all_problems_come_at_once() {
    let mut machine = wanted();
    machine.hardware.nics[0].bridge = "vmbr9".into();
    machine.hardware.storage = Some("nas".parse().unwrap());
    let mut facts = good();
    facts.template = None;
    facts.stranger = Some("10.0.20.31".parse().unwrap());
    let found = codes(&machine, &facts);
    assert_eq!(
        found,
        [
            "readiness/no-template",
            "readiness/no-storage",
            "readiness/no-bridge",
            "readiness/address-in-use"
        ]
    );
}
