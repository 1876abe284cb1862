//! The hardware of `vms_config`. Facts: qemu-server, the schema of `PUT /nodes/{node}/qemu/{vmid}/config`.

use super::reader::{Field, Reader};
use super::size::Unit;
use super::{Hardware, boot_order, disks, nics};
use crate::diagnose::Diagnostic;

const CONTROLLERS: [&str; 6] = [
    "virtio-scsi-single",
    "virtio-scsi-pci",
    "lsi",
    "lsi53c810",
    "megasas",
    "pvscsi",
];
const WINDOWS: [&str; 8] = ["wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10"];
const OTHERS: [&str; 4] = ["l26", "l24", "other", "solaris"];
const DISPLAYS: [&str; 14] = [
    "std",
    "serial0",
    "serial1",
    "serial2",
    "serial3",
    "virtio",
    "virtio-gl",
    "qxl",
    "qxl2",
    "qxl3",
    "qxl4",
    "cirrus",
    "vmware",
    "none",
];

/// Everything that Proxmox gives the VM.
pub(super) fn build(reader: &mut Reader<'_>) -> Hardware {
    let mut hardware = Hardware::default();
    let config = reader.get("vms_config").and_then(|field| reader.known_map(&field));
    if let Some(config) = &config {
        processor(reader, config, &mut hardware);
        let scsihw = hardware.scsihw.clone();
        let disks = disks::build(reader, config, scsihw.as_deref());
        hardware.storage = disks.storage;
        hardware.format = disks.format;
        hardware.boot_disk = disks.boot;
        hardware.extra_disks = disks.extra;
        hardware.nics = nics::build(reader, config);
        let cloudinit = reader.child(config, "cloudinit_storage");
        hardware.cloudinit_storage = cloudinit.and_then(|field| reader.id(&field));
        if let Some(field) = reader.child(config, "boot_order") {
            hardware.boot_order = boot_order::build(reader, &field, hardware.boot_disk.as_ref(), &hardware.nics);
        }
        left_to_template(reader, config);
    } else if !reader.is_broken("vms_config") && reader.raw("vms_config").is_none_or(|field| field.is_null()) {
        reader.push(
            Diagnostic::warning(
                "machine/left-to-template",
                "vms_config is not defined: all hardware is the template's",
            )
            .key("vms_config"),
        );
    }
    console(reader, config.as_ref(), &mut hardware);
    labels(reader, config.as_ref(), &mut hardware);
    hardware
}

/// Cores, memory, and what kind of machine it is.
fn processor(reader: &mut Reader<'_>, config: &Field, hardware: &mut Hardware) {
    let small = |reader: &mut Reader<'_>, key: &str| {
        let field = reader.child(config, key)?;
        reader
            .int(&field, 1..=u64::from(u32::MAX))
            .and_then(|n| u32::try_from(n).ok())
    };
    hardware.cores = small(reader, "cores");
    hardware.sockets = small(reader, "sockets");
    hardware.memory_mib = reader
        .child(config, "memory")
        .and_then(|field| reader.size(&field, Unit::Mib, 16));
    hardware.cpu = reader.child(config, "cpu").and_then(|field| {
        let cpu = reader.text(&field)?;
        if cpu.contains(|c: char| c.is_whitespace() || c.is_control()) {
            reader.push(
                field
                    .error("machine/invalid-name", format!("{} is {}", field.path, field.show()))
                    .rule("no blanks"),
            );
            return None;
        }
        Some(cpu)
    });
    hardware.agent = reader.child(config, "agent").and_then(|field| agent(reader, &field));
    hardware.onboot = reader.child(config, "onboot").and_then(|field| reader.bool(&field));
    hardware.ostype = reader.child(config, "ostype").and_then(|field| ostype(reader, &field));
    hardware.scsihw = reader.child(config, "scsihw").and_then(|field| scsihw(reader, &field));
}

/// `agent` is a truth value, or Proxmox's `enabled=1`.
fn agent(reader: &mut Reader<'_>, field: &Field) -> Option<bool> {
    let mut plain = field.clone();
    if let Some(bare) = field
        .text()
        .and_then(|text| text.strip_prefix("enabled=").map(str::to_owned))
    {
        plain.value.data = super::variables::Data::Str(bare);
    }
    reader.bool(&plain)
}

fn ostype(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    if WINDOWS.contains(&text.as_str()) || text == "win11" {
        reader.push(
            field
                .error("machine/windows", format!("{} is {text}: a Windows guest", field.path))
                .rule("this workflow finishes over cloud-init and SSH, which Windows images do not have")
                .help("take the host out of the group that is provisioned"),
        );
        return None;
    }
    reader.word(field, &OTHERS)
}

/// The controller; a storage's name stands here in many an old inventory, where nothing ever read it.
fn scsihw(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    if CONTROLLERS.contains(&text.as_str()) {
        return Some(text);
    }
    let near = crate::diagnose::nearest(&text, CONTROLLERS);
    let mut problem = field
        .error(
            "machine/scsihw",
            format!("{} is {}: no SCSI controller", field.path, field.show()),
        )
        .rule(format!("one of {}", CONTROLLERS.join(", ")));
    problem = match near {
        Some(near) => problem.help(format!("did you mean {near:?}?")),
        None => problem
            .note(
                None,
                "it looks like the name of a storage; those go to storage and disk_os.storage",
            )
            .help("scsihw: virtio-scsi-single"),
    };
    reader.push(problem);
    None
}

/// The serial port and the display on it.
fn console(reader: &mut Reader<'_>, config: Option<&Field>, hardware: &mut Hardware) {
    let wanted = reader.flag("vms_enable_serial_terminal");
    let mut ports: Vec<(String, Field)> = Vec::new();
    let mut display = None;
    if let Some(config) = config {
        for index in 0..=3 {
            let key = format!("serial{index}");
            ports.extend(reader.child(config, &key).map(|field| (key, field)));
        }
        if let Some(field) = reader.child(config, "serial") {
            match ports.iter().find(|(key, _)| key == "serial0") {
                Some(_) => reader.push(
                    field
                        .error(
                            "machine/serial",
                            "vms_config.serial and vms_config.serial0 are both set",
                        )
                        .rule("serial is the older spelling of serial0"),
                ),
                None => ports.insert(0, ("serial0".to_owned(), field)),
            }
        }
        display = reader.child(config, "vga");
    }
    for (key, field) in ports {
        let Some(text) = reader.text(&field) else { continue };
        if text == "socket" || (text.starts_with("/dev/") && !text.contains(',')) {
            hardware.serial.push((key, text));
        } else {
            reader.push(
                field
                    .error("machine/serial", format!("{} is {}", field.path, field.show()))
                    .rule("`socket`, or a device of the node (/dev/...)"),
            );
        }
    }
    if wanted && hardware.serial.is_empty() {
        hardware.serial.push(("serial0".to_owned(), "socket".to_owned()));
    }
    match display {
        Some(field) => hardware.vga = vga(reader, &field, &hardware.serial),
        None if wanted => hardware.vga = hardware.serial.first().map(|(key, _)| key.clone()),
        None => {}
    }
}

fn vga(reader: &mut Reader<'_>, field: &Field, serial: &[(String, String)]) -> Option<String> {
    let text = reader.text(field)?;
    let kind = text.split(',').next().unwrap_or("");
    let kind = kind.strip_prefix("type=").unwrap_or(kind);
    if !DISPLAYS.contains(&kind) {
        let mut kind_field = field.clone();
        kind_field.value.data = super::variables::Data::Str(kind.to_owned());
        reader.word(&kind_field, &DISPLAYS)?;
    }
    if kind.starts_with("serial") && !serial.is_empty() && !serial.iter().any(|(key, _)| key == kind) {
        reader.push(
            field
                .error(
                    "machine/serial",
                    format!("{} is {kind}, and there is no {kind}", field.path),
                )
                .rule("a display on a serial port needs that port")
                .help(format!("{kind}: socket")),
        );
        return None;
    }
    Some(text)
}

/// Tags, notes and pool.
fn labels(reader: &mut Reader<'_>, config: Option<&Field>, hardware: &mut Hardware) {
    let mut either = |key: &str, variable: &str| {
        let inner = config.and_then(|config| reader.child(config, key));
        let outer = reader.get(variable);
        inner.or(outer)
    };
    let (tags, description, pool) = (
        either("tags", "vms_tags"),
        either("description", "vms_description"),
        either("pool", "vms_pool"),
    );
    hardware.tags = tags.and_then(|field| self::tags(reader, &field));
    hardware.description = description.and_then(|field| {
        let text = reader.text(&field)?;
        let length = text.chars().count();
        if length > 8192 {
            reader.push(
                field
                    .error(
                        "machine/description-length",
                        format!("{} has {length} characters", field.path),
                    )
                    .rule("at most 8192"),
            );
            return None;
        }
        Some(text)
    });
    hardware.pool = pool.and_then(|field| {
        let text = reader.text(&field)?;
        let part = |p: &str| {
            !p.is_empty()
                && p.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        if text.split('/').all(part) {
            return Some(text);
        }
        reader.push(
            field
                .error(
                    "machine/invalid-name",
                    format!("{} is {}: no valid pool", field.path, field.show()),
                )
                .rule("letters, digits, `.`, `-`, `_`; `/` nests"),
        );
        None
    });
}

/// Tags as Proxmox keeps them (pve-common: `pve-tag`): lower case, sorted, none twice.
fn tags(reader: &mut Reader<'_>, field: &Field) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    for item in reader.texts(field)? {
        let Some(text) = reader.text(&item) else { continue };
        for tag in text.split(';').filter(|tag| !tag.is_empty()) {
            let tag = tag.to_ascii_lowercase();
            let first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            let ok = tag.bytes().next().is_some_and(first)
                && tag.bytes().all(|b| first(b) || matches!(b, b'-' | b'+' | b'.'));
            if ok {
                tags.push(tag);
            } else {
                reader.push(
                    item.error(
                        "machine/invalid-name",
                        format!("{} is {}: no valid tag", item.path, item.show()),
                    )
                    .rule("letters, digits and `_`, then also `-`, `+` and `.`"),
                );
            }
        }
    }
    tags.sort();
    tags.dedup();
    Some(tags)
}

/// Tells what is left to the template where one would look for it.
fn left_to_template(reader: &mut Reader<'_>, config: &Field) {
    let missing: Vec<&str> = ["disk_os", "ostype"]
        .into_iter()
        .filter(|key| config.map().is_some_and(|map| !map.contains_key(*key)))
        .collect();
    if !missing.is_empty() {
        reader.push(
            config
                .warning(
                    "machine/left-to-template",
                    format!("vms_config has no {}", missing.join(" and no ")),
                )
                .rule("what is not declared stays as the template has it"),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::machine::testing::{codes, good, problems, warnings};

    #[test]
    fn numbers_may_be_texts() {
        let vars = good()
            .config("cores", "4")
            .config("sockets", "2")
            .config("memory", "4G")
            .config("agent", "enabled=1");
        let built = vars.build().unwrap();
        let hardware = built.machine.hardware;
        assert_eq!(
            (hardware.cores, hardware.sockets, hardware.memory_mib),
            (Some(4), Some(2), Some(4096))
        );
        assert_eq!(hardware.agent, Some(true));
        assert_eq!(codes(&built.warnings), [""; 0]);
    }

    #[test]
    fn broken_hardware_is_told() {
        let table = [
            (good().config("scsihw", "local"), "machine/scsihw"),
            (good().config("scsihw", "cephfs_storage"), "machine/scsihw"),
            (good().config("coers", 2), "machine/unknown-key"),
            (good().config("cores", "two"), "machine/wrong-type"),
            (good().config("cores", 2.5), "machine/wrong-type"),
            (good().config("cores", 0), "machine/out-of-range"),
            (good().config("memory", 8), "machine/out-of-range"),
            (good().config("agent", "maybe"), "machine/wrong-type"),
            (good().config("ostype", "win11"), "machine/windows"),
            (good().config("ostype", "l27"), "machine/unknown-value"),
            (good().config("storage", "/mnt"), "machine/invalid-name"),
            (good().config("cpu", "host model"), "machine/invalid-name"),
            (good().config("tags", "bad tag!"), "machine/invalid-name"),
            (good().config("pool", "a b"), "machine/invalid-name"),
            (
                good().config("description", "x".repeat(8193)),
                "machine/description-length",
            ),
            (good().config("serial", "com1"), "machine/serial"),
            (
                good().config("serial", "socket").config("serial0", "socket"),
                "machine/serial",
            ),
            (good().config("vga", "serial1"), "machine/serial"),
            (good().config("vga", "vesa"), "machine/unknown-value"),
            (good().set("vms_config", "none"), "machine/wrong-type"),
            (good().set("vms_tags", json!({"a": 1})), "machine/wrong-type"),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
        }
        assert_eq!(
            problems(&good().config("coers", 2))[0].help,
            ["did you mean \"cores\"?"]
        );
    }

    #[test]
    fn the_serial_console_is_there_unless_it_is_switched_off() {
        let console = |vars: &crate::machine::testing::TestVars| {
            let hardware = vars.build().unwrap().machine.hardware;
            (hardware.serial, hardware.vga)
        };
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(
            console(&good()),
            (vec![pair("serial0", "socket")], Some("serial0".to_owned()))
        );
        let off = good().set("vms_enable_serial_terminal", false);
        assert_eq!(console(&off), (vec![], None));
        let own = off.config("serial", "socket").config("vga", "std");
        assert_eq!(console(&own), (vec![pair("serial0", "socket")], Some("std".to_owned())));
    }

    #[test]
    fn tags_are_lower_case_sorted_and_unique() {
        for tags in [
            json!(["managed", "General", "managed"]),
            json!("managed;general"),
            json!("managed, general"),
        ] {
            let vars = good().set("vms_tags", tags);
            assert_eq!(
                vars.build().unwrap().machine.hardware.tags.unwrap(),
                ["general", "managed"]
            );
        }
        let both = good().set("vms_tags", "outer").config("tags", json!(["inner"]));
        assert_eq!(both.build().unwrap().machine.hardware.tags.unwrap(), ["inner"]);
    }

    #[test]
    fn what_is_left_to_the_template_is_told() {
        assert_eq!(warnings(&good().unset_config("ostype")), ["machine/left-to-template"]);
        let none = good().unset("vms_config");
        assert_eq!(warnings(&none), ["machine/left-to-template"]);
        assert_eq!(none.build().unwrap().machine.hardware.boot_disk, None);
    }
}
