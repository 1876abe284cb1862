//! The demo cluster: what an empty description stands for.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{AclSpec, BridgeSpec, DiskSpec, NodeSpec, Size, StorageSpec, TokenSpec, UserSpec, VmSpec, WorldSpec};
use crate::simulator::guest::GuestImage;

/// The privileges of a role that provisions VMs with everything that this tool does, and nothing else.
pub const AUTOMATION_PRIVILEGES: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.Audit",
    "Pool.Audit",
    "SDN.Use",
    "Sys.Audit",
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.Migrate",
    "VM.PowerMgmt",
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Default for WorldSpec {
    fn default() -> Self {
        let nodes = (0..3).map(|n| (format!("pve-{n}"), NodeSpec::default())).collect();
        let storage = |kind: &str, content: &str, shared: bool, path: Option<&str>| StorageSpec {
            kind: kind.to_owned(),
            content: words(content),
            shared,
            path: path.map(str::to_owned),
            capacity: Size::gib(2000),
            ..StorageSpec::default()
        };
        let storages = IndexMap::from([
            (
                "local".to_owned(),
                storage(
                    "dir",
                    "backup images import iso rootdir snippets vztmpl",
                    false,
                    Some("/var/lib/vz"),
                ),
            ),
            (
                "local-lvm".to_owned(),
                storage("lvmthin", "images rootdir", false, None),
            ),
            ("ceph-vm".to_owned(), storage("rbd", "images rootdir", true, None)),
            (
                "cephfs".to_owned(),
                storage("cephfs", "backup iso snippets vztmpl", true, Some("/mnt/pve/cephfs")),
            ),
        ]);
        let bridges = IndexMap::from([
            ("vmbr0".to_owned(), BridgeSpec::default()),
            ("vmbr1".to_owned(), BridgeSpec::default()),
        ]);
        Self {
            version: "9.2.11".to_owned(),
            cluster: "sim".to_owned(),
            quorate: true,
            seed: None,
            nodes,
            storages,
            bridges,
            vms: vec![
                template(
                    9000,
                    "debian-12-cloudinit",
                    "pve-0",
                    "local-lvm",
                    "scsi0",
                    Size::gib(2),
                    "debian",
                    "12",
                ),
                template(
                    9001,
                    "ubuntu-server-24.04-cloudinit",
                    "pve-1",
                    "ceph-vm",
                    "virtio0",
                    Size(7 << 29),
                    "ubuntu",
                    "24.04",
                ),
            ],
            containers: Vec::new(),
            pools: BTreeMap::new(),
            users: BTreeMap::from([("automation@pve".to_owned(), UserSpec::default())]),
            tokens: BTreeMap::from([
                ("automation@pve!vmwright".to_owned(), TokenSpec::default()),
                ("root@pam!vmwright".to_owned(), TokenSpec::default()),
            ]),
            roles: BTreeMap::from([(
                "Automation".to_owned(),
                AUTOMATION_PRIVILEGES.iter().map(|p| (*p).to_owned()).collect(),
            )]),
            acl: vec![AclSpec {
                path: "/".to_owned(),
                id: "automation@pve".to_owned(),
                role: "Automation".to_owned(),
                propagate: true,
            }],
            ha: Vec::new(),
            replicated: Vec::new(),
            behaviours: Vec::new(),
            clone_lock_limit: None,
            next_id_lower: 100,
            next_id_upper: 1_000_000,
        }
    }
}

/// A cloud-init template as people make them.
#[expect(clippy::too_many_arguments, reason = "a row of a table")]
fn template(
    vmid: u32,
    name: &str,
    node: &str,
    storage: &str,
    disk: &str,
    size: Size,
    os: &str,
    os_version: &str,
) -> VmSpec {
    let config = [
        ("agent", "enabled=1"),
        ("boot", &format!("order={disk}")),
        ("cores", "1"),
        ("memory", "1024"),
        ("net0", "virtio,bridge=vmbr0"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-single"),
        ("serial0", "socket"),
        ("vga", "serial0"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()));
    VmSpec {
        vmid,
        name: name.to_owned(),
        node: node.to_owned(),
        template: true,
        storage: storage.to_owned(),
        disks: IndexMap::from([(
            disk.to_owned(),
            DiskSpec {
                size,
                data: None,
                format: None,
            },
        )]),
        cloudinit: Some("ide2".to_owned()),
        config: config.into(),
        image: GuestImage {
            os: os.to_owned(),
            os_version: os_version.to_owned(),
            default_user: os.to_owned(),
            ..GuestImage::default()
        },
        ..VmSpec::default()
    }
}
