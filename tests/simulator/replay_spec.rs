//! The installation that the exchanges were recorded on: node, storages, users, and the VMs that each file starts with.

use indexmap::IndexMap;
use vmwright::simulator::spec::{
    AclSpec, BridgeSpec, DiskSpec, NodeSpec, Size, StorageSpec, TokenSpec, UserSpec, VmSpec, WorldSpec,
};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub fn spec() -> WorldSpec {
    let storage = |content: &str, path: &str, gib: u64| StorageSpec {
        content: words(content),
        path: Some(path.to_owned()),
        capacity: Size::gib(gib),
        ..StorageSpec::default()
    };
    let all = "images iso backup snippets vztmpl import rootdir";
    let token = |n: u8, privsep| TokenSpec {
        secret: format!("00000000-0000-0000-0000-00000000000{n}"),
        privsep,
        expire: 0,
    };
    let rule = |path: &str, id: &str, role: &str| AclSpec {
        path: path.to_owned(),
        id: id.to_owned(),
        role: role.to_owned(),
        propagate: true,
    };
    let node = NodeSpec {
        cpus: 2,
        memory: Size(25_276_510_208),
        ip: Some("10.99.0.1".to_owned()),
        online: true,
    };
    let bridge = |address: Option<&str>| BridgeSpec {
        address: address.map(str::to_owned),
        nodes: Vec::new(),
    };
    let ci_role = "Datastore.AllocateSpace Datastore.Audit Pool.Audit SDN.Use VM.Allocate VM.Audit VM.Clone VM.Config.CPU \
                   VM.Config.Cloudinit VM.Config.Disk VM.Config.Memory VM.Config.Network VM.Config.Options VM.PowerMgmt";
    WorldSpec {
        version: "9.2.11".to_owned(),
        cluster: String::new(),
        nodes: IndexMap::from([("pve1".to_owned(), node)]),
        storages: IndexMap::from([
            ("local".to_owned(), storage(all, "/var/lib/vz", 250)),
            ("vmdata".to_owned(), storage("images rootdir", "/var/lib/vmdata", 250)),
            ("isoonly".to_owned(), storage("iso vztmpl", "/var/lib/isoonly", 250)),
            (
                "tiny".to_owned(),
                StorageSpec {
                    capacity: Size(64 << 20),
                    used: Size(0),
                    ..storage("images", "/run/tiny", 0)
                },
            ),
            (
                "off".to_owned(),
                StorageSpec {
                    disabled: true,
                    ..storage("images", "/var/lib/off", 250)
                },
            ),
        ]),
        bridges: IndexMap::from([
            ("vmbr0".to_owned(), bridge(Some("10.99.0.1/24"))),
            ("vmbr1".to_owned(), bridge(None)),
        ]),
        vms: Vec::new(),
        pools: [("ci".to_owned(), Vec::new()), ("other".to_owned(), Vec::new())].into(),
        users: ["ci@pve", "aud@pve", "nobody@pve"]
            .map(|u| (u.to_owned(), UserSpec::default()))
            .into(),
        tokens: [
            ("root@pam!oracle".to_owned(), token(1, false)),
            ("ci@pve!full".to_owned(), token(2, false)),
            ("ci@pve!sep".to_owned(), token(3, true)),
            ("nobody@pve!none".to_owned(), token(4, false)),
            ("aud@pve!aud".to_owned(), token(5, false)),
        ]
        .into(),
        roles: [("CIRole".to_owned(), words(ci_role))].into(),
        acl: vec![
            rule("/", "aud@pve", "PVEAuditor"),
            rule("/pool/ci", "ci@pve", "CIRole"),
            rule("/storage/vmdata", "ci@pve", "CIRole"),
            rule("/sdn/zones/localnetwork", "ci@pve", "PVESDNUser"),
            rule("/vms/9000", "ci@pve", "PVETemplateUser"),
        ],
        ..WorldSpec::default()
    }
}

pub fn vm(vmid: u32, more: &[(&str, &str)], disks: &[(&str, &str)]) -> VmSpec {
    let mut config: IndexMap<String, String> = [
        ("boot", "order=scsi0"),
        ("cores", "1"),
        ("memory", "128"),
        ("net0", "virtio,bridge=vmbr0"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-single"),
    ]
    .iter()
    .chain(more)
    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
    .collect();
    config.retain(|_, value| !value.is_empty());
    let disk = |format: &str| DiskSpec {
        size: Size::gib(1),
        data: Some(Size(331_776)),
        format: Some(format.to_owned()),
    };
    VmSpec {
        vmid,
        name: format!("vm{vmid}"),
        storage: "vmdata".to_owned(),
        config,
        disks: disks
            .iter()
            .map(|(slot, format)| ((*slot).to_owned(), disk(format)))
            .collect(),
        behaviour: vmwright::simulator::guest::GuestBehaviour {
            never_boots: true,
            ..Default::default()
        },
        ..VmSpec::default()
    }
}

pub fn template() -> VmSpec {
    let more = [
        ("agent", "enabled=1"),
        ("ciuser", "ci"),
        ("ipconfig0", "ip=dhcp"),
        ("serial0", "socket"),
        ("tags", "ci;template"),
        ("vga", "serial0"),
    ];
    VmSpec {
        name: "ci-template".to_owned(),
        template: true,
        cloudinit: Some("ide2".to_owned()),
        ..vm(9000, &more, &[("scsi0", "qcow2")])
    }
}

pub const SCSI0: &[(&str, &str)] = &[("scsi0", "qcow2")];

pub fn vms_of(file: &str) -> Vec<VmSpec> {
    let running = |vm: VmSpec| VmSpec { running: true, ..vm };
    match file {
        "a02_http_routing.json" => vec![VmSpec {
            name: String::new(),
            ..vm(100, &[("memory", "512"), ("net0", "")], &[])
        }],
        "a05_config.json" => vec![VmSpec {
            cloudinit: Some("ide2".to_owned()),
            ..vm(100, &[("cores", "2")], &[("scsi0", "qcow2"), ("scsi1", "raw")])
        }],
        "a06_clone.json" => vec![vm(100, &[], SCSI0), vm(103, &[("boot", "")], &[]), template()],
        "a07_resize_disk.json" => vec![vm(
            100,
            &[("ide2", "none,media=cdrom")],
            &[("scsi0", "qcow2"), ("scsi1", "raw")],
        )],
        "a08_power.json" => vec![vm(100, &[("agent", "enabled=1")], SCSI0)],
        "a09_delete.json" => vec![
            running(vm(100, &[], SCSI0)),
            vm(101, &[("protection", "1")], SCSI0),
            vm(102, &[], SCSI0),
            vm(103, &[], SCSI0),
            vm(104, &[], &[("scsi0", "qcow2"), ("scsi1", "raw")]),
            vm(105, &[], SCSI0),
            vm(106, &[], SCSI0),
            vm(107, &[], SCSI0),
        ],
        "a10_tasks.json" => vec![vm(100, &[], SCSI0)],
        "a11_permissions.json" => vec![vm(100, &[], SCSI0), template()],
        "a12_snapshots.json" => vec![vm(100, &[], SCSI0)],
        "a13_extra.json" => vec![
            {
                let mut big = vm(100, &[], SCSI0);
                big.disks[0].data = Some(Size(200 << 20));
                big
            },
            vm(104, &[], SCSI0),
        ],
        "a01_version_auth.json" => vec![template()],
        _ => Vec::new(),
    }
}
