//! The facts about values: the keys of property strings.

use super::{HIGH, Kind, LOW, Sub, sub};
use crate::simulator::props::NIC_MODELS;

/// A VM's number.
pub(crate) const VMID: Kind = Kind::Format("pve-vmid", 0);

/// The slots that a disk may be in.
#[rustfmt::skip]
pub(crate) const DISK_SLOTS: &[&str] = &[
    "ide0", "ide1", "ide2", "ide3", "scsi0", "scsi1", "scsi2", "scsi3", "scsi4", "scsi5", "scsi6", "scsi7",
    "scsi8", "scsi9", "scsi10", "scsi11", "scsi12", "scsi13", "scsi14", "scsi15", "scsi16", "scsi17", "scsi18",
    "scsi19", "scsi20", "scsi21", "scsi22", "scsi23", "scsi24", "scsi25", "scsi26", "scsi27", "scsi28", "scsi29",
    "scsi30", "virtio0", "virtio1", "virtio2", "virtio3", "virtio4", "virtio5", "virtio6", "virtio7", "virtio8",
    "virtio9", "virtio10", "virtio11", "virtio12", "virtio13", "virtio14", "virtio15", "sata0", "sata1", "sata2",
    "sata3", "sata4", "sata5", "efidisk0", "tpmstate0",
];

pub(crate) const AGENT: &[Sub] = &[
    sub("enabled", Kind::Bool).required().default(),
    sub("freeze-fs", Kind::Bool),
    sub("fstrim_cloned_disks", Kind::Bool),
    sub("type", Kind::Enum(&["virtio", "isa"])),
];

pub(crate) const NET: &[Sub] = &[
    sub("bridge", Kind::Format("pve-bridge-id", 0)),
    sub("firewall", Kind::Bool),
    sub("link_down", Kind::Bool),
    sub("macaddr", Kind::Format("mac-addr", 0)),
    sub("model", Kind::Enum(NIC_MODELS)).required().default(),
    sub("mtu", Kind::Int(1, 65520)),
    sub("queues", Kind::Int(0, 64)),
    sub("rate", Kind::Number(0.0, f64::MAX)),
    sub("tag", Kind::Int(1, 4094)),
    sub("trunks", Kind::Text(0)),
];

pub(crate) const MEMORY: &[Sub] = &[sub("current", Kind::Int(16, HIGH)).required().default()];

pub(crate) const VGA: &[Sub] = &[
    sub("clipboard", Kind::Enum(&["vnc"])),
    sub("memory", Kind::Int(4, 512)),
    sub(
        "type",
        Kind::Enum(&[
            "cirrus",
            "qxl",
            "qxl2",
            "qxl3",
            "qxl4",
            "none",
            "serial0",
            "serial1",
            "serial2",
            "serial3",
            "std",
            "virtio",
            "virtio-gl",
            "vmware",
        ]),
    )
    .default(),
];

pub(crate) const MACHINE: &[Sub] = &[
    sub("aw-bits", Kind::Number(32.0, 64.0)),
    sub("enable-s3", Kind::Bool),
    sub("enable-s4", Kind::Bool),
    sub("type", Kind::Pattern(r"(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35|pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|virt(?:-\d+(\.\d+)+)?(\+pve\d+)?)")).default(),
    sub("viommu", Kind::Enum(&["intel", "virtio"])),
];

pub(crate) const UNUSED: &[Sub] = &[sub("file", Kind::Format("pve-volume-id", 0)).required().default()];

pub(crate) const EFI: &[Sub] = &[
    sub("efitype", Kind::Enum(&["2m", "4m"])),
    sub("file", Kind::Format("pve-volume-id-or-qm-path", 0))
        .required()
        .default(),
    sub("format", Kind::Enum(&["raw", "qcow", "qed", "qcow2", "vmdk", "cloop"])),
    sub("import-from", Kind::Format("pve-volume-id-or-absolute-path", 0)),
    sub("ms-cert", Kind::Enum(&["2011", "2023", "2023w", "2023k"])),
    sub("pre-enrolled-keys", Kind::Bool),
    sub("size", Kind::Format("disk-size", 0)),
];

pub(crate) const TPM: &[Sub] = &[
    sub("file", Kind::Format("pve-volume-id-or-qm-path", 0))
        .required()
        .default(),
    sub("format", Kind::Enum(&["raw", "qcow2", "vmdk"])),
    sub("import-from", Kind::Format("pve-volume-id-or-absolute-path", 0)),
    sub("size", Kind::Format("disk-size", 0)),
    sub("version", Kind::Enum(&["v1.2", "v2.0"])),
];

/// The options of a drive on every bus.
const DRIVE: [Sub; 37] = [
    sub("aio", Kind::Enum(&["native", "threads", "io_uring"])),
    sub("backup", Kind::Bool),
    sub("bps", Kind::Int(LOW, HIGH)),
    sub("bps_max_length", Kind::Int(1, HIGH)),
    sub("bps_rd", Kind::Int(LOW, HIGH)),
    sub("bps_rd_max_length", Kind::Int(1, HIGH)),
    sub("bps_wr", Kind::Int(LOW, HIGH)),
    sub("bps_wr_max_length", Kind::Int(1, HIGH)),
    sub(
        "cache",
        Kind::Enum(&["none", "writethrough", "writeback", "unsafe", "directsync"]),
    ),
    sub("detect_zeroes", Kind::Bool),
    sub("discard", Kind::Enum(&["ignore", "on"])),
    sub("file", Kind::Format("pve-volume-id-or-qm-path", 0))
        .required()
        .default(),
    sub("format", Kind::Enum(&["raw", "qcow", "qed", "qcow2", "vmdk", "cloop"])),
    sub("import-from", Kind::Format("pve-volume-id-or-absolute-path", 0)),
    sub("iops", Kind::Int(LOW, HIGH)),
    sub("iops_max", Kind::Int(LOW, HIGH)),
    sub("iops_max_length", Kind::Int(1, HIGH)),
    sub("iops_rd", Kind::Int(LOW, HIGH)),
    sub("iops_rd_max", Kind::Int(LOW, HIGH)),
    sub("iops_rd_max_length", Kind::Int(1, HIGH)),
    sub("iops_wr", Kind::Int(LOW, HIGH)),
    sub("iops_wr_max", Kind::Int(LOW, HIGH)),
    sub("iops_wr_max_length", Kind::Int(1, HIGH)),
    sub("mbps", Kind::Number(f64::MIN, f64::MAX)),
    sub("mbps_max", Kind::Number(f64::MIN, f64::MAX)),
    sub("mbps_rd", Kind::Number(f64::MIN, f64::MAX)),
    sub("mbps_rd_max", Kind::Number(f64::MIN, f64::MAX)),
    sub("mbps_wr", Kind::Number(f64::MIN, f64::MAX)),
    sub("mbps_wr_max", Kind::Number(f64::MIN, f64::MAX)),
    sub("media", Kind::Enum(&["cdrom", "disk"])),
    sub("replicate", Kind::Bool),
    sub("rerror", Kind::Enum(&["ignore", "report", "stop"])),
    sub("serial", Kind::Format("urlencoded", 60)),
    sub("shared", Kind::Bool),
    sub("size", Kind::Format("disk-size", 0)),
    sub("snapshot", Kind::Bool),
    sub("werror", Kind::Enum(&["enospc", "ignore", "report", "stop"])),
];

/// The options of a drive on one bus: those of every bus and these.
const fn drive<const N: usize>(own: &[Sub]) -> [Sub; N] {
    assert!(N == DRIVE.len() + own.len());
    let mut all = [DRIVE[0]; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < DRIVE.len() {
            DRIVE[index]
        } else {
            own[index - DRIVE.len()]
        };
        index += 1;
    }
    all
}

pub(crate) const SCSI: &[Sub] = &drive::<45>(&[
    sub("iothread", Kind::Bool),
    sub("product", Kind::Pattern(r"[A-Za-z0-9\-_\s]{,16}")),
    sub("queues", Kind::Int(2, HIGH)),
    sub("ro", Kind::Bool),
    sub("scsiblock", Kind::Bool),
    sub("ssd", Kind::Bool),
    sub("vendor", Kind::Pattern(r"[A-Za-z0-9\-_\s]{,8}")),
    sub("wwn", Kind::Text(0)),
]);

pub(crate) const IDE: &[Sub] = &drive::<40>(&[
    sub("model", Kind::Format("urlencoded", 120)),
    sub("ssd", Kind::Bool),
    sub("wwn", Kind::Text(0)),
]);

pub(crate) const SATA: &[Sub] = &drive::<39>(&[sub("ssd", Kind::Bool), sub("wwn", Kind::Text(0))]);

pub(crate) const VIRTIO: &[Sub] = &drive::<39>(&[sub("iothread", Kind::Bool), sub("ro", Kind::Bool)]);

pub(crate) const BOOT: &[Sub] = &[
    sub("legacy", Kind::Pattern("[acdn]{1,4}")).default(),
    sub("order", Kind::Format("pve-qm-bootdev-list", 0)),
];

pub(crate) const IPCONFIG: &[Sub] = &[
    sub("gw", Kind::Format("ipv4", 0)).with("ip"),
    sub("gw6", Kind::Format("ipv6", 0)).with("ip6"),
    sub("ip", Kind::Format("pve-ipv4-config", 0)),
    sub("ip6", Kind::Format("pve-ipv6-config", 0)),
];

pub(crate) const CICUSTOM: &[Sub] = &[
    sub("meta", Kind::Format("pve-volume-id", 0)),
    sub("network", Kind::Format("pve-volume-id", 0)),
    sub("user", Kind::Format("pve-volume-id", 0)),
    sub("vendor", Kind::Format("pve-volume-id", 0)),
];

pub(crate) const SMBIOS: &[Sub] = &[
    sub("base64", Kind::Bool),
    sub("family", Kind::Text(0)),
    sub("manufacturer", Kind::Text(0)),
    sub("product", Kind::Text(0)),
    sub("serial", Kind::Text(0)),
    sub("sku", Kind::Text(0)),
    sub(
        "uuid",
        Kind::Pattern("[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}"),
    ),
    sub("version", Kind::Text(0)),
];
