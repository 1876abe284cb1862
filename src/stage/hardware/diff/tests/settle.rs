//! The difference against its own result: applied until there is none, it breaks nothing and sends nothing more.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What Proxmox makes of a difference, on a stopped VM, with as much of qemu-server's own doing as matters here: MACs are
/// drawn, volumes are named, a new CD drive is put at the end of the boot order, what goes leaves it.
fn apply(config: &VmConfig, difference: &Difference) -> VmConfig {
    let mut out = config.clone();
    for key in &difference.delete {
        assert!(
            !difference.set.iter().any(|(set, _)| set == key),
            "{key} is set and deleted"
        );
        out.values.shift_remove(key);
        if let Some(order) = out.boot_order() {
            out.values.insert("boot".into(), order.without(key).to_string());
        }
    }
    for (key, value) in &difference.set {
        let mut value = value.clone();
        if key.starts_with("net") && value.starts_with("virtio,") {
            value = value.replacen("virtio", "virtio=BC:24:11:99:99:99", 1);
        }
        out.values.insert(key.clone(), value);
    }
    if let Some((_, order)) = difference.set.iter().find(|(key, _)| key == "boot") {
        for device in BootOrder::parse(order).devices() {
            assert!(
                out.devices().contains(device),
                "invalid bootorder: device {device} does not exist"
            );
        }
    }
    if !difference.set.is_empty() || !difference.delete.is_empty() {
        return out;
    }
    if let Some((slot, size)) = &difference.resize {
        let drive = out.drive(slot.parse().unwrap()).unwrap();
        assert!(drive.size().unwrap() < *size, "shrinking disks is not supported");
        let grown = drive.with_option("size", &size.to_string());
        out.values.insert(slot.clone(), grown.to_string());
        return out;
    }
    if let Some((slot, value)) = difference.allocate.first() {
        assert!(out.get(slot).is_none(), "{slot} is taken");
        let (storage, rest) = value.split_once(':').unwrap();
        let made = if rest == "cloudinit" {
            format!("{storage}:vm-105-cloudinit,media=cdrom")
        } else {
            let (gib, options) = rest.split_once(',').unwrap_or((rest, ""));
            format!("{storage}:vm-105-disk-{slot},{options},size={gib}G").replace(",,", ",")
        };
        out.values.insert(slot.clone(), made);
        if rest == "cloudinit"
            && let Some(order) = out.boot_order()
        {
            let order = BootOrder::of(order.devices().iter().cloned().chain([slot.clone()]));
            out.values.insert("boot".into(), order.to_string());
        }
    }
    out
}

/// Applies differences, as the stage does, until there is none.
fn settle(machine: &Machine, mut config: VmConfig) -> (VmConfig, u32) {
    for rounds in 0..30 {
        let difference = differs(machine, &config);
        if difference.is_empty() {
            return (config, rounds);
        }
        config = apply(&config, &difference);
    }
    panic!("it does not settle: {:?}", differs(machine, &config));
}

/// A template's configuration, with some of its keys changed or missing.
fn templates() -> impl Strategy<Value = VmConfig> {
    let maybe = |values: &'static [&'static str]| proptest::option::of(proptest::sample::select(values));
    (
        maybe(&["1", "2", "4"]),
        maybe(&["host", "kvm64", "host,flags=+aes"]),
        maybe(&["web;prod", "PROD", "a,b"]),
        maybe(&[
            "virtio=BC:24:11:00:00:01,bridge=vmbr0",
            "e1000=BC:24:11:00:00:02,bridge=vmbr3,tag=9,firewall=1",
        ]),
        maybe(&["order=ide2;virtio0", "order=net0", "cdn", "order=virtio0;ide2;net0", ""]),
        maybe(&[
            "notes",
            "notes\n\nvmwright operation 00000000-0000-0000-0000-000000000000",
        ]),
        proptest::sample::select(&["2G", "3584M", "20G", "64G"][..]),
        maybe(&["local:iso/tools.iso,media=cdrom", "none,media=cdrom"]),
        maybe(&["0", "1", "enabled=1,type=virtio"]),
    )
        .prop_map(|(cores, cpu, tags, net0, boot, description, size, ide0, agent)| {
            let mut config = config(json!({
                "name": "web-0",
                "ide2": "local:105/vm-105-cloudinit.qcow2,media=cdrom",
                "smbios1": "uuid=11111111-2222-3333-4444-555555555555",
            }));
            config
                .values
                .insert("virtio0".into(), format!("local:105/vm-105-disk-0.qcow2,size={size}"));
            for (key, value) in [
                ("cores", cores),
                ("cpu", cpu),
                ("tags", tags),
                ("net0", net0),
                ("boot", boot),
                ("description", description),
                ("ide0", ide0),
                ("agent", agent),
            ] {
                if let Some(value) = value {
                    config.values.insert(key.into(), value.into());
                }
            }
            config
        })
}

/// Machines that declare more or less.
fn machines() -> impl Strategy<Value = Machine> {
    (
        proptest::option::of(proptest::sample::select(&["local", "local-lvm"][..])),
        0..3usize,
        proptest::option::of(proptest::sample::select(vec![
            "virtio0",
            "virtio1 virtio0",
            "net0 virtio0 ide2",
            "virtio1",
        ])),
        proptest::bool::ANY,
        proptest::option::of(1..65u64),
    )
        .prop_map(|(cloudinit, disks, order, second, size)| {
            let mut machine = wanted();
            machine.hardware.cloudinit_storage = cloudinit.map(|storage| storage.parse().unwrap());
            machine.hardware.extra_disks = (1..=disks).map(|n| extra(&format!("virtio{n}"))).collect();
            machine.hardware.boot_order = order.map(|order| order.split(' ').map(str::to_owned).collect());
            if second {
                machine.hardware.nics.push(Nic { tag: Some(7), ..nic(1) });
            }
            machine.hardware.boot_disk.as_mut().unwrap().size_gib = size;
            machine
        })
}

proptest! {
    #[test]
    fn a_second_run_sends_nothing_and_the_first_breaks_nothing(machine in machines(), before in templates()) {
        let (after, rounds) = settle(&machine, before.clone());
        prop_assert!(rounds <= 8, "{rounds} rounds");
        prop_assert!(differs(&machine, &after).is_empty());
        // MACs, volumes and devices that nobody spoke of survive.
        prop_assert_eq!(before.nic(0).and_then(|n| n.mac).is_some(), before.get("net0").is_some());
        if let Some(mac) = before.nic(0).and_then(|n| n.mac) {
            prop_assert_eq!(after.nic(0).unwrap().mac, Some(mac));
        }
        let slot: Slot = "virtio0".parse().unwrap();
        prop_assert_eq!(&after.drive(slot).unwrap().volume, &before.drive(slot).unwrap().volume);
        prop_assert!(after.drive(slot).unwrap().size() >= before.drive(slot).unwrap().size());
        prop_assert!(before.devices().is_subset(&after.devices()));
        prop_assert_eq!(after.cloudinit_drives().len(), 1);
        if machine.hardware.boot_order.is_none() {
            prop_assert_eq!(shortfalls(&machine, &after), Vec::<String>::new());
        }
    }
}
