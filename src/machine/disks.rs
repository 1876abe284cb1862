//! Disks: slots, sizes, options. Facts: qemu-server, `PVE::QemuServer::Drive` (slots per bus, drive options).

use std::collections::BTreeMap;

use super::reader::{Field, Reader};
use super::schema;
use super::size::Unit;
use super::{BootDisk, ExtraDisk};
use crate::diagnose::{Diagnostic, Place};
use crate::proxmox::ids::StorageName;

/// What the disks of a machine are.
#[derive(Default)]
pub(super) struct Disks {
    /// Where the clone goes.
    pub storage: Option<StorageName>,
    /// Its format.
    pub format: Option<String>,
    /// The boot disk.
    pub boot: Option<BootDisk>,
    /// Further disks, by slot.
    pub extra: Vec<ExtraDisk>,
}

const FORMATS: [&str; 3] = ["raw", "qcow2", "vmdk"];
const CACHES: [&str; 5] = ["none", "writethrough", "writeback", "unsafe", "directsync"];

/// The buses and how many slots each has.
const BUSES: [(&str, u8); 4] = [("virtio", 16), ("scsi", 31), ("sata", 6), ("ide", 4)];

/// Whether a text is a disk slot.
pub(super) fn is_slot(text: &str) -> bool {
    bus_of(text).is_some()
}

/// The bus of a slot.
fn bus_of(text: &str) -> Option<&'static str> {
    BUSES.iter().find_map(|(bus, count)| {
        let digits = text.strip_prefix(bus)?;
        let index: u8 = digits.parse().ok()?;
        (index < *count && digits == index.to_string()).then_some(*bus)
    })
}

/// The disks of `vms_config`.
pub(super) fn build(reader: &mut Reader<'_>, config: &Field, scsihw: Option<&str>) -> Disks {
    let mut slots: BTreeMap<String, (String, Place)> = BTreeMap::new();
    let storage_field = reader.child(config, "storage");
    let mut disks = Disks {
        storage: storage_field.as_ref().and_then(|field| reader.id(field)),
        ..Disks::default()
    };
    if let Some(disk) = reader
        .child(config, "disk_os")
        .and_then(|field| reader.known_map(&field))
    {
        let slot = required_child(reader, &disk, "disk", "virtio0 in most templates");
        if let Some(slot) = slot.and_then(|field| self::slot(reader, &field, &mut slots)) {
            let size = reader.child(&disk, "size");
            disks.boot = Some(BootDisk {
                size_gib: size.and_then(|field| reader.size(&field, Unit::Gib, 1)),
                options: options(reader, &disk, &slot, scsihw),
                slot,
            });
        }
        disks.format = reader
            .child(&disk, "format")
            .and_then(|field| reader.word(&field, &FORMATS));
        boot_storage(reader, &disk, storage_field.as_ref(), &mut disks);
    }
    for key in config.map().into_iter().flat_map(|map| map.keys()) {
        let Some(index) = schema::index_of(key, "disk") else {
            continue;
        };
        let Some(disk) = reader.child(config, key).and_then(|field| reader.known_map(&field)) else {
            continue;
        };
        disks.extra.extend(extra(reader, &disk, key, index, scsihw, &mut slots));
    }
    disks.extra.sort_by(|a, b| a.slot.cmp(&b.slot));
    disks
}

/// One clone has one storage: `disk_os.storage` and `storage` may not say different things.
fn boot_storage(reader: &mut Reader<'_>, disk: &Field, whole: Option<&Field>, disks: &mut Disks) {
    let Some(field) = reader.child(disk, "storage") else {
        return;
    };
    let Some(storage) = reader.id::<StorageName>(&field) else {
        return;
    };
    match (&disks.storage, whole) {
        (Some(clone), Some(whole)) if *clone != storage => reader.push(
            field
                .error(
                    "machine/storage-conflict",
                    format!("{} is {storage}, vms_config.storage is {clone}", field.path),
                )
                .rule("a clone puts all disks of the template on one storage")
                .note(whole.value.place.clone(), "vms_config.storage is here")
                .help("make them equal, or remove one"),
        ),
        (Some(_), _) => {}
        (None, _) => disks.storage = Some(storage),
    }
}

/// A further disk.
fn extra(
    reader: &mut Reader<'_>,
    disk: &Field,
    key: &str,
    index: u8,
    scsihw: Option<&str>,
    slots: &mut BTreeMap<String, (String, Place)>,
) -> Option<ExtraDisk> {
    let slot_field = reader.child(disk, "disk").unwrap_or_else(|| {
        let mut field = disk.clone();
        field.path = format!("{}.disk", disk.path);
        field.value.data = super::variables::Data::Str(format!("virtio{}", index - 1));
        field
    });
    let slot = slot(reader, &slot_field, slots);
    let size =
        required_child(reader, disk, "size", "20, for 20 GiB").and_then(|field| reader.size(&field, Unit::Gib, 1));
    let storage =
        required_child(reader, disk, "storage", "a storage for disk images").and_then(|field| reader.id(&field));
    let format = reader
        .child(disk, "format")
        .and_then(|field| reader.word(&field, &FORMATS));
    let options = options(reader, disk, slot.as_deref().unwrap_or(""), scsihw);
    Some(ExtraDisk {
        key: key.to_owned(),
        slot: slot?,
        storage: storage?,
        size_gib: size?,
        format,
        options,
    })
}

/// A key that a mapping has to have.
fn required_child(reader: &mut Reader<'_>, parent: &Field, key: &str, example: &str) -> Option<Field> {
    if parent.map().is_some_and(|map| map.contains_key(key)) {
        let found = reader.raw_child(parent, key)?;
        if !found.is_null() {
            return Some(found);
        }
    }
    let path = format!("{}.{key}", parent.path);
    let rule = schema::variable(&path).map_or("", |v| v.meaning);
    reader.push(
        Diagnostic::error("machine/missing-key", format!("{path} is not set"))
            .key(path)
            .at(parent.value.place.clone())
            .rule(rule)
            .help(format!("{key}: {example}")),
    );
    None
}

/// A slot, used once.
fn slot(reader: &mut Reader<'_>, field: &Field, taken: &mut BTreeMap<String, (String, Place)>) -> Option<String> {
    let text = reader.text(field)?;
    if !is_slot(&text) {
        reader.push(
            field
                .error(
                    "machine/disk-slot",
                    format!("{} is {}: no slot for a disk", field.path, field.show()),
                )
                .rule("virtio0 to virtio15, scsi0 to scsi30, sata0 to sata5, ide0 to ide3"),
        );
        return None;
    }
    if let Some((path, place)) = taken.get(&text) {
        reader.push(
            field
                .error(
                    "machine/disk-slot-twice",
                    format!("{} is {text}, and so is {path}", field.path),
                )
                .rule("a slot holds one disk: the second would change the first one's options and add nothing")
                .note(place.clone(), format!("{path} is here"))
                .help("give the second disk a slot of its own"),
        );
        return None;
    }
    taken.insert(text.clone(), (field.path.clone(), field.value.place.clone()));
    Some(text)
}

/// The drive options that are declared, in Proxmox's spelling.
fn options(reader: &mut Reader<'_>, disk: &Field, slot: &str, scsihw: Option<&str>) -> Vec<(String, String)> {
    let mut options = Vec::new();
    let mut push = |key: &str, value: String| options.push((key.to_owned(), value));
    for key in ["backup", "iothread", "replicate", "ssd"] {
        let Some(field) = reader.child(disk, key) else { continue };
        let Some(on) = reader.bool(&field) else { continue };
        if key == "iothread" && on {
            iothread(reader, &field, slot, scsihw);
        }
        if key == "ssd" && on && bus_of(slot) == Some("virtio") {
            reader.push(
                field
                    .error(
                        "machine/disk-option",
                        format!("{} is set, and {slot} is a virtio disk", field.path),
                    )
                    .rule("virtio disks have no `ssd` option")
                    .help("use a scsi slot, or remove ssd"),
            );
        }
        push(key, u8::from(on).to_string());
    }
    if let Some(field) = reader.child(disk, "discard") {
        let word = field.text().filter(|text| matches!(text.as_str(), "on" | "ignore"));
        match word {
            Some(word) => push("discard", word),
            None => {
                if let Some(on) = reader.bool(&field) {
                    push("discard", if on { "on" } else { "ignore" }.to_owned());
                }
            }
        }
    }
    if let Some(cache) = reader
        .child(disk, "cache")
        .and_then(|field| reader.word(&field, &CACHES))
    {
        push("cache", cache);
    }
    let aio = reader.child(disk, "aio");
    if let Some(aio) = aio.and_then(|field| reader.word(&field, &["native", "threads", "io_uring"])) {
        push("aio", aio);
    }
    options
}

/// A thread of its own needs virtio, or one controller a disk.
fn iothread(reader: &mut Reader<'_>, field: &Field, slot: &str, scsihw: Option<&str>) {
    match (bus_of(slot), scsihw) {
        (Some("virtio"), _) | (Some("scsi"), Some("virtio-scsi-single")) | (None, _) => {}
        (Some("scsi"), None) => reader.push(
            field
                .warning(
                    "machine/iothread",
                    format!("{} is set, and vms_config.scsihw is not", field.path),
                )
                .rule("an I/O thread on a scsi disk works only with scsihw virtio-scsi-single")
                .help("scsihw: virtio-scsi-single"),
        ),
        (Some("scsi"), Some(other)) => reader.push(
            field
                .error(
                    "machine/iothread",
                    format!("{} is set, and vms_config.scsihw is {other}", field.path),
                )
                .rule("an I/O thread on a scsi disk works only with scsihw virtio-scsi-single")
                .help("scsihw: virtio-scsi-single"),
        ),
        (Some(bus), _) => reader.push(
            field
                .error(
                    "machine/iothread",
                    format!("{} is set, and {slot} is a {bus} disk", field.path),
                )
                .rule("only virtio disks, and scsi disks on virtio-scsi-single, have I/O threads"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::testing::{codes, good, problems, warnings};

    #[test]
    fn slots_are_those_of_proxmox() {
        for (slot, ok) in [
            ("virtio0", true),
            ("virtio15", true),
            ("virtio16", false),
            ("scsi30", true),
            ("scsi31", false),
            ("sata5", true),
            ("sata6", false),
            ("ide3", true),
            ("ide4", false),
            ("virtio01", false),
            ("virtio", false),
            ("nvme0", false),
            ("efidisk0", false),
        ] {
            assert_eq!(is_slot(slot), ok, "{slot}");
        }
    }

    #[test]
    fn the_declared_disks_come_out() {
        let vars = good()
            .config("disk_os.discard", true)
            .config("disk_os.format", "raw")
            .config(
                "disk2",
                json!({"size": "50G", "storage": "ceph", "backup": true, "cache": "none"}),
            )
            .config(
                "disk3",
                json!({"disk": "scsi1", "size": 10, "storage": "ceph", "iothread": 1, "ssd": true}),
            );
        let hardware = vars.build().unwrap().machine.hardware;
        let boot = hardware.boot_disk.unwrap();
        assert_eq!((boot.slot.as_str(), boot.size_gib), ("virtio0", Some(20)));
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(boot.options, [pair("backup", "1"), pair("discard", "on")]);
        assert_eq!(hardware.storage.unwrap().as_str(), "local");
        assert_eq!(hardware.format.as_deref(), Some("raw"));
        let [disk3, disk2] = &hardware.extra_disks[..] else {
            panic!()
        };
        assert_eq!(
            (disk2.key.as_str(), disk2.slot.as_str(), disk2.size_gib),
            ("disk2", "virtio1", 50)
        );
        assert_eq!(disk2.options, [pair("backup", "1"), pair("cache", "none")]);
        assert_eq!((disk3.slot.as_str(), disk3.storage.as_str()), ("scsi1", "ceph"));
        assert_eq!(disk3.options, [pair("iothread", "1"), pair("ssd", "1")]);
    }

    #[test]
    fn broken_disks_are_told() {
        let disk2 = json!({"size": 10, "storage": "local"});
        let table = [
            (
                good().config("disk2", disk2.clone()).config("disk2.disk", "virtio0"),
                "machine/disk-slot-twice",
            ),
            (
                good().config("disk2", disk2.clone()).config("disk2.disk", "virtio99"),
                "machine/disk-slot",
            ),
            (good().config("disk2", json!({"size": 10})), "machine/missing-key"),
            (
                good().config("disk2", json!({"storage": "local"})),
                "machine/missing-key",
            ),
            (
                good().config("disk2", disk2.clone()).config("disk2.sise", 3),
                "machine/unknown-key",
            ),
            (good().config("disk1", disk2), "machine/unknown-key"),
            (good().config("disk_os", json!({"size": 20})), "machine/missing-key"),
            (good().config("disk_os.disk", json!(null)), "machine/missing-key"),
            (good().config("disk_os.size", 0), "machine/out-of-range"),
            (good().config("disk_os.size", 3.5), "machine/wrong-type"),
            (good().config("disk_os.size", "20 apples"), "machine/wrong-type"),
            (good().config("disk_os.storage", "ceph"), "machine/storage-conflict"),
            (good().config("disk_os.format", "vhd"), "machine/unknown-value"),
            (good().config("disk_os.cache", "writebak"), "machine/unknown-value"),
            (good().config("disk_os.ssd", true), "machine/disk-option"),
            (
                good().config("disk_os", json!({"disk": "sata0", "iothread": true})),
                "machine/iothread",
            ),
            (
                good()
                    .config("scsihw", "virtio-scsi-pci")
                    .config("disk_os", json!({"disk": "scsi0", "iothread": true})),
                "machine/iothread",
            ),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code]);
        }
    }

    #[test]
    fn an_iothread_with_an_unknown_controller_is_a_warning() {
        let vars = good()
            .unset_config("scsihw")
            .config("disk_os", json!({"disk": "scsi0", "iothread": true}));
        assert_eq!(warnings(&vars), ["machine/iothread"]);
    }

    #[test]
    fn a_null_storage_is_the_templates_and_told() {
        let vars = good()
            .config("storage", json!(null))
            .config("disk_os", json!({"disk": "virtio0"}));
        let built = vars.build().unwrap();
        assert_eq!(built.machine.hardware.storage, None);
        assert_eq!(codes(&built.warnings), ["machine/null-value"]);
    }

    #[test]
    fn the_boot_disks_storage_is_the_clones_where_nothing_else_is_said() {
        let vars = good().unset_config("storage").config("disk_os.storage", "ceph");
        assert_eq!(vars.build().unwrap().machine.hardware.storage.unwrap().as_str(), "ceph");
    }
}
