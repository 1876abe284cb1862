//! The facts about calls: which parameters each one takes, apart from those in its path.

use super::values::*;
use super::{HIGH, Kind, LOW, Param, may, must};

pub(crate) const CONFIG: &[Param] = &[
    may("acpi", Kind::Bool),
    may("affinity", Kind::Format("pve-cpuset", 0)),
    may("agent", Kind::Props(AGENT)),
    may("allow-ksm", Kind::Bool).since(9),
    may("amd-sev", Kind::Format("pve-qemu-sev-fmt", 0)),
    may("arch", Kind::Enum(&["x86_64", "aarch64"])),
    may("args", Kind::Text(0)),
    may("audio0", Kind::Text(0)),
    may("autostart", Kind::Bool),
    may("balloon", Kind::Int(0, HIGH)),
    may("bios", Kind::Enum(&["seabios", "ovmf"])),
    may("boot", Kind::Props(BOOT)),
    may("bootdisk", Kind::Format("pve-qm-bootdisk", 0)),
    may("cdrom", Kind::Format("pve-qm-ide", 0)),
    may("cicustom", Kind::Props(CICUSTOM)),
    may("cipassword", Kind::Text(0)),
    may("citype", Kind::Enum(&["configdrive2", "nocloud", "opennebula"])),
    may("ciupgrade", Kind::Bool),
    may("ciuser", Kind::Text(0)),
    may("cores", Kind::Int(1, HIGH)),
    may("cpu", Kind::Format("pve-vm-cpu-conf", 0)),
    may("cpulimit", Kind::Number(0.0, 128.0)),
    may("cpuunits", Kind::Int(1, 262144)),
    may("description", Kind::Text(8192)),
    may("efidisk0", Kind::Props(EFI)),
    may("freeze", Kind::Bool),
    may("hookscript", Kind::Format("pve-volume-id", 0)),
    may("hostpci[n]", Kind::Format("pve-qm-hostpci", 0)),
    may("hotplug", Kind::Format("pve-hotplug-features", 0)),
    may("hugepages", Kind::Enum(&["any", "2", "1024"])),
    may("ide[n]", Kind::Props(IDE)),
    may("intel-tdx", Kind::Format("pve-qemu-tdx-fmt", 0)).since(9),
    may("ipconfig[n]", Kind::Props(IPCONFIG)),
    may("ivshmem", Kind::Text(0)),
    may("keephugepages", Kind::Bool),
    may(
        "keyboard",
        Kind::Enum(&[
            "de", "de-ch", "da", "en-gb", "en-us", "es", "fi", "fr", "fr-be", "fr-ca", "fr-ch", "hu", "is", "it", "ja",
            "lt", "mk", "nl", "no", "pl", "pt", "pt-br", "sv", "sl", "tr",
        ]),
    ),
    may("kvm", Kind::Bool),
    may("localtime", Kind::Bool),
    may(
        "lock",
        Kind::Enum(&[
            "backup",
            "clone",
            "create",
            "migrate",
            "rollback",
            "snapshot",
            "snapshot-delete",
            "suspending",
            "suspended",
        ]),
    ),
    may("machine", Kind::Props(MACHINE)),
    may("memory", Kind::Props(MEMORY)),
    may("migrate_downtime", Kind::Number(0.0, f64::MAX)),
    may("migrate_speed", Kind::Int(0, HIGH)),
    may("name", Kind::Format("dns-name", 0)),
    may("nameserver", Kind::Format("address-list", 0)),
    may("net[n]", Kind::Props(NET)),
    may("numa", Kind::Bool),
    may("numa[n]", Kind::Text(0)),
    may("onboot", Kind::Bool),
    may(
        "ostype",
        Kind::Enum(&[
            "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24", "l26", "solaris",
        ]),
    ),
    may("parallel[n]", Kind::Pattern(r"/dev/parport\d+|/dev/usb/lp\d+")),
    may("protection", Kind::Bool),
    may("reboot", Kind::Bool),
    may("rng0", Kind::Format("pve-qm-rng", 0)),
    may("sata[n]", Kind::Props(SATA)),
    may("scsi[n]", Kind::Props(SCSI)),
    may(
        "scsihw",
        Kind::Enum(&[
            "lsi",
            "lsi53c810",
            "virtio-scsi-pci",
            "virtio-scsi-single",
            "megasas",
            "pvscsi",
        ]),
    ),
    may("searchdomain", Kind::Text(0)),
    may("serial[n]", Kind::Pattern(r"(/dev/[^,]+|socket)")),
    may("shares", Kind::Int(0, 50000)),
    may("smbios1", Kind::Props(SMBIOS)),
    may("smp", Kind::Int(1, HIGH)),
    may("sockets", Kind::Int(1, HIGH)),
    may("spice_enhancements", Kind::Text(0)),
    may("sshkeys", Kind::Format("urlencoded", 0)),
    may(
        "startdate",
        Kind::Pattern(r"(now|\d{4}-\d{1,2}-\d{1,2}(T\d{1,2}:\d{1,2}:\d{1,2})?)"),
    ),
    may("startup", Kind::Format("pve-startup-order", 0)),
    may("tablet", Kind::Bool),
    may("tags", Kind::Format("pve-tag-list", 0)),
    may("tdf", Kind::Bool),
    may("template", Kind::Bool),
    may("tpmstate0", Kind::Props(TPM)),
    may("unused[n]", Kind::Props(UNUSED)),
    may("usb[n]", Kind::Text(0)),
    may("vcpus", Kind::Int(1, HIGH)),
    may("vga", Kind::Props(VGA)),
    may("virtio[n]", Kind::Props(VIRTIO)),
    may("virtiofs[n]", Kind::Text(0)),
    may(
        "vmgenid",
        Kind::Pattern(r"(?:[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01])"),
    ),
    may("vmstatestorage", Kind::Format("pve-storage-id", 0)),
    may("watchdog", Kind::Format("pve-qm-watchdog", 0)),
];

pub(crate) const CHANGE: &[Param] = &[
    may("delete", Kind::Format("pve-configid-list", 0)),
    may("digest", Kind::Text(40)),
    may("force", Kind::Bool).with("delete"),
    may("revert", Kind::Format("pve-configid-list", 0)),
    may("skiplock", Kind::Bool),
];

pub(crate) const CHANGE_TASK: &[Param] = &[
    may("background_delay", Kind::Int(1, 30)),
    may("import-working-storage", Kind::Format("pve-storage-id", 0)),
];

pub(crate) const CREATE: &[Param] = &[
    must("vmid", VMID),
    may("archive", Kind::Text(255)),
    may("bwlimit", Kind::Int(0, HIGH)),
    may("force", Kind::Bool).with("archive"),
    may("ha-managed", Kind::Bool).since(9),
    may("import-working-storage", Kind::Format("pve-storage-id", 0)),
    may("live-restore", Kind::Bool),
    may("pool", Kind::Format("pve-poolid", 0)),
    may("start", Kind::Bool),
    may("storage", Kind::Format("pve-storage-id", 0)),
    may("unique", Kind::Bool).with("archive"),
];

pub(crate) const CLONE: &[Param] = &[
    may("bwlimit", Kind::Int(0, HIGH)),
    may("description", Kind::Text(0)),
    may("format", Kind::Enum(&["raw", "qcow2", "vmdk"])),
    may("full", Kind::Bool),
    may("name", Kind::Format("dns-name", 0)),
    must("newid", VMID),
    may("pool", Kind::Format("pve-poolid", 0)),
    may("snapname", Kind::Format("pve-configid", 40)),
    may("storage", Kind::Format("pve-storage-id", 0)),
    may("target", Kind::Format("pve-node", 0)),
];

pub(crate) const RESIZE: &[Param] = &[
    may("digest", Kind::Text(40)),
    must("disk", Kind::Enum(DISK_SLOTS)),
    must("size", Kind::Pattern(r"\+?\d+(\.\d+)?[KMGT]?")),
    may("skiplock", Kind::Bool),
];

pub(crate) const UNLINK: &[Param] = &[
    may("force", Kind::Bool),
    must("idlist", Kind::Format("pve-configid-list", 0)),
];

pub(crate) const MIGRATE_CHECK: &[Param] = &[may("target", Kind::Format("pve-node", 0))];

pub(crate) const MIGRATE: &[Param] = &[
    may("bwlimit", Kind::Int(0, HIGH)),
    may("force", Kind::Bool),
    may("migration_network", Kind::Format("CIDR", 0)),
    may("migration_type", Kind::Enum(&["secure", "insecure"])),
    may("online", Kind::Bool),
    must("target", Kind::Format("pve-node", 0)),
    may("targetstorage", Kind::Format("storage-pair-list", 0)),
    may("with-conntrack-state", Kind::Bool).since(9),
    may("with-local-disks", Kind::Bool),
];

pub(crate) const DESTROY: &[Param] = &[
    may("destroy-unreferenced-disks", Kind::Bool),
    may("purge", Kind::Bool),
    may("skiplock", Kind::Bool),
];

pub(crate) const READ_CONFIG: &[Param] = &[
    may("current", Kind::Bool),
    may("snapshot", Kind::Format("pve-configid", 40)),
];

pub(crate) const START: &[Param] = &[
    may("force-cpu", Kind::Text(0)),
    may("machine", Kind::Props(MACHINE)),
    may("migratedfrom", Kind::Format("pve-node", 0)),
    may("migration_network", Kind::Format("CIDR", 0)),
    may("migration_type", Kind::Enum(&["secure", "insecure"])),
    may("nets-host-mtu", Kind::Pattern(r"net\d+=\d+(,net\d+=\d+)*")).since(9),
    may("skiplock", Kind::Bool),
    may("stateuri", Kind::Text(128)),
    may("targetstorage", Kind::Format("storage-pair-list", 0)),
    may("timeout", Kind::Int(0, HIGH)),
    may("with-conntrack-state", Kind::Bool).since(9),
];

pub(crate) const STOP: &[Param] = &[
    may("keepActive", Kind::Bool),
    may("migratedfrom", Kind::Format("pve-node", 0)),
    may("overrule-shutdown", Kind::Bool),
    may("skiplock", Kind::Bool),
    may("timeout", Kind::Int(0, HIGH)),
];

pub(crate) const SHUTDOWN: &[Param] = &[
    may("forceStop", Kind::Bool),
    may("keepActive", Kind::Bool),
    may("skiplock", Kind::Bool),
    may("timeout", Kind::Int(0, HIGH)),
];

pub(crate) const REBOOT: &[Param] = &[may("timeout", Kind::Int(0, HIGH))];

pub(crate) const RESET: &[Param] = &[may("skiplock", Kind::Bool)];

pub(crate) const SUSPEND: &[Param] = &[
    may("skiplock", Kind::Bool),
    may("statestorage", Kind::Format("pve-storage-id", 0)).with("todisk"),
    may("todisk", Kind::Bool),
];

pub(crate) const RESUME: &[Param] = &[may("nocheck", Kind::Bool), may("skiplock", Kind::Bool)];

pub(crate) const FEATURE: &[Param] = &[
    must("feature", Kind::Enum(&["snapshot", "clone", "copy"])),
    may("snapname", Kind::Format("pve-configid", 40)),
];

pub(crate) const TEMPLATE: &[Param] = &[may("disk", Kind::Enum(DISK_SLOTS))];

pub(crate) const DUMP: &[Param] = &[must("type", Kind::Enum(&["user", "network", "meta"]))];

pub(crate) const SNAPSHOT: &[Param] = &[
    may("description", Kind::Text(0)),
    must("snapname", Kind::Format("pve-configid", 40)),
    may("vmstate", Kind::Bool),
];

pub(crate) const DELETE_SNAPSHOT: &[Param] = &[may("force", Kind::Bool)];

pub(crate) const ROLLBACK: &[Param] = &[may("start", Kind::Bool)];

pub(crate) const AGENT_ANY: &[Param] = &[must(
    "command",
    Kind::Enum(&[
        "fsfreeze-freeze",
        "fsfreeze-status",
        "fsfreeze-thaw",
        "fstrim",
        "get-fsinfo",
        "get-host-name",
        "get-memory-block-info",
        "get-memory-blocks",
        "get-osinfo",
        "get-time",
        "get-timezone",
        "get-users",
        "get-vcpus",
        "info",
        "network-get-interfaces",
        "ping",
        "shutdown",
        "suspend-disk",
        "suspend-hybrid",
        "suspend-ram",
    ]),
)];

pub(crate) const AGENT_EXEC: &[Param] = &[must("command", Kind::List), may("input-data", Kind::Text(65536))];

pub(crate) const AGENT_STATUS: &[Param] = &[must("pid", Kind::Int(LOW, HIGH))];

pub(crate) const AGENT_READ: &[Param] = &[
    may("count", Kind::Int(1, 16777216)).since(9),
    may("decode", Kind::Bool).since(9),
    must("file", Kind::Text(0)),
    may("offset", Kind::Int(0, HIGH)).since(9),
];

pub(crate) const TASKS: &[Param] = &[
    may("errors", Kind::Bool),
    may("limit", Kind::Int(0, HIGH)),
    may("since", Kind::Int(LOW, HIGH)),
    may("source", Kind::Enum(&["archive", "active", "all"])),
    may("start", Kind::Int(0, HIGH)),
    may("statusfilter", Kind::Format("pve-task-status-type-list", 0)),
    may("typefilter", Kind::Text(0)),
    may("until", Kind::Int(LOW, HIGH)),
    may("userfilter", Kind::Text(0)),
    may("vmid", VMID),
];

pub(crate) const TASK_LOG: &[Param] = &[
    may("download", Kind::Bool),
    may("limit", Kind::Int(0, HIGH)),
    may("start", Kind::Int(0, HIGH)),
];

pub(crate) const NODE_STORAGE: &[Param] = &[
    may("content", Kind::Format("pve-storage-content-list", 0)),
    may("enabled", Kind::Bool),
    may("format", Kind::Bool),
    may("storage", Kind::Format("pve-storage-id", 0)),
    may("target", Kind::Format("pve-node", 0)),
];

pub(crate) const CONTENT: &[Param] = &[
    may("content", Kind::Format("pve-storage-content", 0)),
    may("vmid", VMID),
];

pub(crate) const DELETE_CONTENT: &[Param] = &[may("delay", Kind::Int(1, 30))];

pub(crate) const STORAGE: &[Param] = &[may(
    "type",
    Kind::Enum(&[
        "btrfs",
        "cephfs",
        "cifs",
        "dir",
        "esxi",
        "iscsi",
        "iscsidirect",
        "lvm",
        "lvmthin",
        "nfs",
        "pbs",
        "rbd",
        "zfs",
        "zfspool",
    ]),
)];

pub(crate) const NETWORK: &[Param] = &[may(
    "type",
    Kind::Enum(&[
        "bridge",
        "bond",
        "eth",
        "alias",
        "vlan",
        "fabric",
        "OVSBridge",
        "OVSBond",
        "OVSPort",
        "OVSIntPort",
        "vnet",
        "any_bridge",
        "any_local_bridge",
        "include_sdn",
    ]),
)];

pub(crate) const POOLS: &[Param] = &[
    may("poolid", Kind::Format("pve-poolid", 0)),
    may("type", Kind::Enum(&["qemu", "lxc", "storage"])).with("poolid"),
];

pub(crate) const POOL: &[Param] = &[may("type", Kind::Enum(&["qemu", "lxc", "storage"]))];

pub(crate) const RESOURCES: &[Param] = &[may("type", Kind::Enum(&["vm", "storage", "node", "sdn"]))];

pub(crate) const NEXT_ID: &[Param] = &[may("vmid", VMID)];

pub(crate) const TICKET: &[Param] = &[
    may("new-format", Kind::Bool),
    may("otp", Kind::Text(0)),
    must("password", Kind::Text(0)),
    may("path", Kind::Text(64)).with("privs"),
    may("privs", Kind::Format("pve-priv-list", 64)).with("path"),
    may("realm", Kind::Format("pve-realm", 32)),
    may("tfa-challenge", Kind::Text(0)),
    must("username", Kind::Text(64)),
];

pub(crate) const PERMISSIONS: &[Param] = &[may("path", Kind::Text(0)), may("userid", Kind::Text(0))];

pub(crate) const QEMU: &[Param] = &[may("full", Kind::Bool)];

pub(crate) const HA_LIST: &[Param] = &[may("type", Kind::Enum(&["ct", "vm"]))];

pub(crate) const REPLICATION: &[Param] = &[may("guest", VMID)];
