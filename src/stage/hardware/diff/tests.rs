//! The hardware difference against realistic configurations, and against its own result.

mod settle;

use serde_json::json;

use super::*;
use crate::engine::testing::{config, machine};
use crate::machine::{BootDisk, Nic};
use crate::stage::clone::mark;

const CICUSTOM: &str = "user=local:snippets/web-0-user-data-ci.yml,network=local:snippets/web-0-network-data-ci.yml";

fn nic(index: u8) -> Nic {
    Nic {
        index,
        model: "virtio".into(),
        bridge: "vmbr0".into(),
        tag: None,
        mac: None,
        options: Vec::new(),
    }
}

/// A machine that declares a bit of everything.
fn wanted() -> Machine {
    let mut machine = machine();
    machine.hardware = crate::machine::Hardware {
        cores: Some(2),
        sockets: Some(1),
        cpu: Some("host".into()),
        memory_mib: Some(2048),
        ostype: Some("l26".into()),
        scsihw: Some("virtio-scsi-single".into()),
        agent: Some(true),
        tags: Some(vec!["prod".into(), "web".into()]),
        boot_disk: Some(BootDisk {
            slot: "virtio0".into(),
            size_gib: Some(20),
            options: vec![("discard".into(), "on".into())],
        }),
        nics: vec![nic(0)],
        ..Default::default()
    };
    machine
}

/// The VM that this machine is, as Proxmox shows it.
fn right() -> VmConfig {
    config(json!({
        "name": "web-0",
        "cores": 2,
        "sockets": 1,
        "cpu": "host",
        "memory": "2048",
        "ostype": "l26",
        "scsihw": "virtio-scsi-single",
        "agent": "enabled=1,fstrim_cloned_disks=1",
        "tags": "web;prod",
        "cicustom": CICUSTOM,
        "citype": "nocloud",
        "virtio0": "local:105/vm-105-disk-0.qcow2,discard=on,size=20G",
        "ide2": "local:105/vm-105-cloudinit.qcow2,media=cdrom",
        "net0": "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1",
        "serial0": "socket",
        "boot": "order=virtio0;ide2;net0",
        "smbios1": "uuid=11111111-2222-3333-4444-555555555555",
        "digest": "d1",
    }))
}

fn with(mut config: VmConfig, key: &str, value: &str) -> VmConfig {
    config.values.insert(key.to_owned(), value.to_owned());
    config
}

fn without(mut config: VmConfig, key: &str) -> VmConfig {
    config.values.shift_remove(key);
    config
}

fn differs(machine: &Machine, config: &VmConfig) -> Difference {
    difference(machine, config, CICUSTOM)
}

/// The one key that is set, and its value.
fn only_set(difference: Difference) -> (String, String) {
    assert_eq!((&difference.delete, difference.resize.is_some()), (&Vec::new(), false));
    assert!(difference.allocate.is_empty(), "{difference:?}");
    let [only] = <[_; 1]>::try_from(difference.set).unwrap();
    only
}

#[test]
fn a_vm_that_is_as_declared_needs_nothing() {
    let difference = differs(&wanted(), &right());
    assert!(difference.is_empty() && difference.changes.is_empty(), "{difference:?}");
    assert_eq!(shortfalls(&wanted(), &right()), Vec::<String>::new());
}

#[test]
fn each_plain_key_that_differs_is_the_only_one_that_is_sent() {
    for (key, current, sent) in [
        ("cores", "4", "2"),
        ("sockets", "2", "1"),
        ("memory", "4096", "2048"),
        ("cpu", "kvm64", "host"),
        ("ostype", "other", "l26"),
        ("scsihw", "lsi", "virtio-scsi-single"),
        ("agent", "0", "1"),
        ("cicustom", "user=local:snippets/template.yml", CICUSTOM),
        ("citype", "configdrive2", "nocloud"),
        ("tags", "prod;test;web", "prod;web"),
    ] {
        let expected = (key.to_owned(), sent.to_owned());
        assert_eq!(only_set(differs(&wanted(), &with(right(), key, current))), expected);
        if key != "sockets" {
            // One socket is what an absent key means.
            assert_eq!(
                only_set(differs(&wanted(), &without(right(), key))),
                expected,
                "absent {key}"
            );
        }
    }
}

#[test]
fn spelling_and_defaults_are_no_difference() {
    for (key, current) in [
        ("tags", "WEB, prod"),
        ("cpu", "host,flags=+aes"),
        ("cpu", "cputype=host"),
        ("memory", "current=2048"),
        ("agent", "1"),
        ("net0", "model=virtio,macaddr=BC:24:11:AA:BB:CC,bridge=vmbr0"),
    ] {
        assert!(
            differs(&wanted(), &with(right(), key, current)).is_empty(),
            "{key}={current}"
        );
    }
    assert!(differs(&wanted(), &without(right(), "sockets")).is_empty());
}

#[test]
fn what_nobody_declares_stays() {
    let mut machine = wanted();
    machine.hardware = crate::machine::Hardware::default();
    let config = with(with(right(), "cores", "8"), "hostpci0", "0000:01:00.0");
    assert!(
        differs(&machine, &config).is_empty(),
        "{:?}",
        differs(&machine, &config)
    );
    machine.hardware.tags = Some(Vec::new());
    let difference = differs(&machine, &config);
    assert_eq!((difference.set.len(), difference.delete), (0, vec!["tags".to_owned()]));
}

#[test]
fn the_clones_mark_goes_and_the_templates_text_stays() {
    let marked = mark(uuid::Uuid::nil());
    let difference = differs(&wanted(), &with(right(), "description", &marked));
    assert_eq!(
        (difference.set.len(), difference.delete),
        (0, vec!["description".to_owned()])
    );
    let text = format!("made by the platform team\n\n{marked}\n");
    assert_eq!(
        only_set(differs(&wanted(), &with(right(), "description", &text))),
        ("description".to_owned(), "made by the platform team".to_owned())
    );
    let mut machine = wanted();
    machine.hardware.description = Some("web server\n".into());
    assert_eq!(
        only_set(differs(&machine, &with(right(), "description", &text))).1,
        "web server"
    );
    assert!(differs(&machine, &with(right(), "description", "web server")).is_empty());
    assert!(differs(&wanted(), &with(right(), "description", "the template's own")).is_empty());
}

#[test]
fn a_card_keeps_its_mac_and_the_options_that_nobody_declares() {
    let mut machine = wanted();
    machine.hardware.nics[0].tag = Some(20);
    assert_eq!(
        only_set(differs(&machine, &right())).1,
        "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20"
    );
    let tagged = with(
        right(),
        "net0",
        "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20",
    );
    assert_eq!(
        only_set(differs(&wanted(), &tagged)).1,
        "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1",
        "no declared tag is untagged"
    );
    machine.hardware.nics[0] = Nic {
        bridge: "vmbr1".into(),
        options: vec![("firewall".into(), "0".into()), ("mtu".into(), "1400".into())],
        ..nic(0)
    };
    assert_eq!(
        only_set(differs(&machine, &right())).1,
        "virtio=BC:24:11:AA:BB:CC,bridge=vmbr1,firewall=0,mtu=1400"
    );
    machine = wanted();
    machine.hardware.nics[0].mac = Some("02:00:00:00:00:01".parse().unwrap());
    assert!(
        only_set(differs(&machine, &right()))
            .1
            .starts_with("virtio=02:00:00:00:00:01,")
    );
}

#[test]
fn a_new_card_is_added_and_undeclared_ones_stay() {
    let mut machine = wanted();
    machine.hardware.nics.push(Nic {
        tag: Some(30),
        ..nic(1)
    });
    assert_eq!(
        only_set(differs(&machine, &right())),
        ("net1".to_owned(), "virtio,bridge=vmbr0,tag=30".to_owned())
    );
    let more = with(right(), "net5", "e1000=BC:24:11:00:00:05,bridge=vmbr9");
    assert!(differs(&wanted(), &more).is_empty());
}

#[test]
fn the_boot_disk_grows_to_the_exact_size_and_never_shrinks() {
    let small = with(
        right(),
        "virtio0",
        "local:105/vm-105-disk-0.qcow2,discard=on,size=3584M",
    );
    let difference = differs(&wanted(), &small);
    assert_eq!(difference.resize, Some(("virtio0".to_owned(), Size::gib(20))));
    assert!(difference.set.is_empty() && difference.allocate.is_empty());
    let large = with(right(), "virtio0", "local:105/vm-105-disk-0.qcow2,discard=on,size=32G");
    assert!(differs(&wanted(), &large).is_empty());
    let mut machine = wanted();
    machine.hardware.boot_disk.as_mut().unwrap().size_gib = None;
    assert!(differs(&machine, &small).is_empty());
}

#[test]
fn the_boot_disks_options_are_set_on_the_volume_that_it_has() {
    let plain = with(right(), "virtio0", "local:105/vm-105-disk-0.qcow2,backup=0,size=20G");
    assert_eq!(
        only_set(differs(&wanted(), &plain)),
        (
            "virtio0".to_owned(),
            "local:105/vm-105-disk-0.qcow2,backup=0,size=20G,discard=on".to_owned()
        )
    );
}

fn extra(slot: &str) -> ExtraDisk {
    ExtraDisk {
        key: "disk2".into(),
        slot: slot.into(),
        storage: "local-lvm".parse().unwrap(),
        size_gib: 50,
        format: Some("raw".into()),
        options: vec![("backup".into(), "0".into())],
    }
}

#[test]
fn an_extra_disk_is_allocated_once() {
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio1"), extra("virtio2")];
    let difference = differs(&machine, &right());
    assert!(difference.set.is_empty(), "{difference:?}");
    assert_eq!(difference.allocate[0].0, "virtio1");
    assert_eq!(difference.allocate[0].1, "local-lvm:50,format=raw,backup=0");
    let one = with(right(), "virtio1", "local-lvm:vm-105-disk-1,backup=0,size=50G");
    assert_eq!(differs(&machine, &one).allocate.len(), 1);
    // It is there, so it stays, whatever its size.
    let both = with(one, "virtio2", "local-lvm:vm-105-disk-2,size=8G");
    assert!(differs(&machine, &both).is_empty());
}

fn boot(difference: &Difference) -> Option<&str> {
    difference
        .set
        .iter()
        .find(|(key, _)| key == "boot")
        .map(|(_, value)| value.as_str())
}

#[test]
fn the_boot_disk_comes_first_and_the_rest_stays_as_it_is() {
    for (current, sent) in [
        (Some("order=net0;virtio0;ide2"), Some("order=virtio0;net0;ide2")),
        (Some("order=ide2;net0"), Some("order=virtio0;ide2;net0")),
        (Some("cdn"), Some("order=virtio0")),
        (None, Some("order=virtio0")),
        (Some("order=virtio0"), None),
        (Some("order=virtio0;net7"), Some("order=virtio0")),
    ] {
        let config = match current {
            Some(current) => with(right(), "boot", current),
            None => without(right(), "boot"),
        };
        assert_eq!(boot(&differs(&wanted(), &config)), sent, "{current:?}");
    }
}

#[test]
fn a_declared_order_names_no_device_before_it_is_there() {
    let mut machine = wanted();
    machine.hardware.extra_disks = vec![extra("virtio1")];
    machine.hardware.nics.push(nic(1));
    machine.hardware.boot_order = Some(vec!["virtio1".into(), "virtio0".into(), "net1".into()]);
    let first = differs(&machine, &right());
    assert_eq!(boot(&first), Some("order=virtio0;net1"), "net1 comes in the same call");
    let later = with(
        with(right(), "virtio1", "local-lvm:vm-105-disk-1,backup=0,size=50G"),
        "net1",
        "virtio=BC:24:11:00:00:01,bridge=vmbr0",
    );
    assert_eq!(boot(&differs(&machine, &later)), Some("order=virtio1;virtio0;net1"));
    machine.hardware.boot_order = Some(vec!["virtio1".into()]);
    assert_eq!(boot(&differs(&machine, &right())), None, "an empty order is never sent");
}

#[test]
fn a_cloud_init_drive_moves_to_its_storage_by_going_and_coming_back() {
    let mut machine = wanted();
    machine.hardware.cloudinit_storage = Some("local-lvm".parse().unwrap());
    let config = with(right(), "boot", "order=net0;virtio0;ide2");
    let difference = differs(&machine, &config);
    assert_eq!(difference.delete, ["ide2"]);
    assert_eq!(
        boot(&difference),
        Some("order=virtio0;net0"),
        "no order may name what goes"
    );
    assert!(difference.allocate.is_empty());
    let gone = with(without(right(), "ide2"), "boot", "order=virtio0;net0");
    let difference = differs(&machine, &gone);
    assert_eq!(
        difference.allocate,
        [("ide2".to_owned(), "local-lvm:cloudinit".to_owned())]
    );
    let iso = with(gone, "ide2", "local:iso/tools.iso,media=cdrom");
    assert_eq!(differs(&machine, &iso).allocate[0].0, "ide0", "an ISO keeps its slot");
    let there = with(right(), "ide2", "local-lvm:vm-105-cloudinit,media=cdrom");
    assert!(differs(&machine, &there).is_empty());
}

#[test]
fn what_is_missing_for_a_boot_is_named() {
    let mut machine = wanted();
    for (config, expected) in [
        (without(right(), "virtio0"), "boot disk virtio0 is missing"),
        (
            with(right(), "virtio0", "none,media=cdrom"),
            "boot disk virtio0 is a CD drive",
        ),
        (
            with(right(), "boot", "order=net0"),
            "boot disk virtio0 is not first in the boot order (net0)",
        ),
        (without(right(), "ide2"), "no cloud-init drive"),
        (without(right(), "net0"), "net0 is missing"),
    ] {
        assert_eq!(shortfalls(&machine, &config), [expected]);
    }
    machine.hardware.boot_disk = None;
    let two = with(without(right(), "boot"), "scsi0", "local:105/vm-105-disk-1.raw,size=1G");
    assert_eq!(shortfalls(&machine, &two), ["no boot disk"]);
}
