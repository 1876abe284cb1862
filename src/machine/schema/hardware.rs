//! The rows of `vms_config`: hardware, disks, network cards.

use super::Variable;
use super::table::row;

pub(super) const HARDWARE: &[Variable] = &[
    row("vms_config.cores", "whole number", "Cores a socket.").rule("1 or more").proxmox("cores"),
    row("vms_config.sockets", "whole number", "Sockets.").rule("1 or more").proxmox("sockets"),
    row("vms_config.cpu", "text", "The CPU type: `host`, or a model.").rule("no blanks").proxmox("cpu"),
    row("vms_config.memory", "size in MiB", "Memory: a number of MiB, or with a unit (`4G`).").rule("16 MiB or more").proxmox("memory"),
    row("vms_config.ostype", "text", "What Proxmox optimises for.")
        .rule("`l26`, `l24`, `other` or `solaris`; a Windows type is refused: this workflow needs cloud-init and SSH")
        .proxmox("ostype"),
    row("vms_config.scsihw", "text", "The SCSI controller.")
        .rule("`lsi`, `lsi53c810`, `virtio-scsi-pci`, `virtio-scsi-single`, `megasas` or `pvscsi`")
        .proxmox("scsihw"),
    row("vms_config.agent", "yes or no", "The guest agent's channel.").rule("`1`, `0`, `true`, `false`").proxmox("agent"),
    row("vms_config.vga", "text", "The display.")
        .derived("`serial0` unless `vms_enable_serial_terminal` is false")
        .rule("a display type of Proxmox; `serialN` needs that port")
        .proxmox("vga"),
    row("vms_config.serial", "text", "Older spelling of `vms_config.serial0`.").rule("`socket` or a device").proxmox("serial0"),
    row("vms_config.serialN", "text", "Serial port N, 0 to 3.")
        .derived("`serial0: socket` unless `vms_enable_serial_terminal` is false")
        .rule("`socket` or `/dev/...`")
        .proxmox("serialN"),
    row(
        "vms_enable_serial_terminal",
        "yes or no",
        "Whether the VM gets `serial0: socket` and `vga: serial0`. False leaves both to the template. Cloud images that \
         write to a serial console hang without one.",
    )
    .default("true"),
    row("vms_config.onboot", "yes or no", "Start with the node.").proxmox("onboot"),
    row("vms_config.tags", "list of texts", "Tags; lower-cased and sorted.")
        .rule("letters, digits, `_`, then also `-`, `+`, `.`")
        .proxmox("tags"),
    row("vms_config.description", "text", "The VM's notes.").rule("at most 8192 characters").proxmox("description"),
    row("vms_config.pool", "text", "The resource pool.").rule("letters, digits, `.`, `-`, `_`; `/` nests").proxmox("pool"),
    row("vms_config.storage", "text", "Where the clone's disks go.")
        .derived("`vms_config.disk_os.storage`, else the template's storage")
        .rule("a storage name")
        .proxmox("storage"),
    row("vms_config.cloudinit_storage", "text", "Where the cloud-init drive goes.")
        .derived("where the clone puts it")
        .rule("a storage name"),
    row("vms_config.boot_order", "text or list", "Boot devices in order: `order=virtio0;net0`, or a list.")
        .derived("as the template has it, with the boot disk first")
        .rule("device names, each once, the boot disk first; the legacy letters (`c`, `cdn`) are translated")
        .proxmox("boot"),
];

pub(super) const DISKS: &[Variable] = &[
    row(
        "vms_config.disk_os",
        "mapping",
        "The boot disk, which comes with the clone.",
    )
    .derived("as the template has it"),
    row(
        "vms_config.disk_os.disk",
        "text",
        "Its slot; it must be the template's.",
    )
    .required()
    .rule("`virtio0` to `15`, `scsi0` to `30`, `sata0` to `5`, `ide0` to `3`"),
    row(
        "vms_config.disk_os.size",
        "size in GiB",
        "Its exact size: a number of GiB, or with a unit (`20G`).",
    )
    .rule("whole GiB, 1 or more; never less than the template's")
    .proxmox("size"),
    row(
        "vms_config.disk_os.storage",
        "text",
        "Its storage. One clone has one storage.",
    )
    .rule("the same as `vms_config.storage` where both are set")
    .proxmox("storage"),
    row("vms_config.disk_os.format", "text", "The format of the clone's disks.")
        .derived("left to Proxmox")
        .rule("`raw`, `qcow2` or `vmdk`")
        .proxmox("format"),
    row("vms_config.disk_os.backup", "yes or no", "Whether backups include it.").proxmox("backup"),
    row(
        "vms_config.disk_os.discard",
        "yes or no",
        "Whether freed blocks are given back.",
    )
    .rule("`true`, `false`, `on` or `ignore`")
    .proxmox("discard"),
    row("vms_config.disk_os.iothread", "yes or no", "A thread of its own.")
        .rule("only on virtio, or on scsi with `scsihw: virtio-scsi-single`")
        .proxmox("iothread"),
    row("vms_config.disk_os.ssd", "yes or no", "Shown to the guest as an SSD.")
        .rule("not on virtio")
        .proxmox("ssd"),
    row("vms_config.disk_os.cache", "text", "The cache mode.")
        .rule("`none`, `writethrough`, `writeback`, `unsafe` or `directsync`")
        .proxmox("cache"),
    row("vms_config.disk_os.aio", "text", "How blocks are read and written.")
        .rule("`native`, `threads` or `io_uring`")
        .proxmox("aio"),
    row(
        "vms_config.disk_os.replicate",
        "yes or no",
        "Whether storage replication includes it.",
    )
    .proxmox("replicate"),
    row(
        "vms_config.diskN",
        "mapping",
        "A further disk (`disk2`, `disk3`, ...), allocated once.",
    ),
    row("vms_config.diskN.disk", "text", "Its slot.")
        .derived("`virtio1` for `disk2`, `virtio2` for `disk3`, ...")
        .rule("as `disk_os.disk`; no slot twice"),
    row("vms_config.diskN.size", "size in GiB", "Its size.")
        .required()
        .rule("whole GiB, 1 or more"),
    row("vms_config.diskN.storage", "text", "Its storage.")
        .required()
        .rule("a storage name"),
    row("vms_config.diskN.format", "text", "Its format.")
        .derived("the storage's")
        .rule("`raw`, `qcow2` or `vmdk`")
        .proxmox("format"),
    row("vms_config.diskN.backup", "yes or no", "As `disk_os.backup`.").proxmox("backup"),
    row("vms_config.diskN.discard", "yes or no", "As `disk_os.discard`.").proxmox("discard"),
    row("vms_config.diskN.iothread", "yes or no", "As `disk_os.iothread`.").proxmox("iothread"),
    row("vms_config.diskN.ssd", "yes or no", "As `disk_os.ssd`.").proxmox("ssd"),
    row("vms_config.diskN.cache", "text", "As `disk_os.cache`.").proxmox("cache"),
    row("vms_config.diskN.aio", "text", "As `disk_os.aio`.").proxmox("aio"),
    row("vms_config.diskN.replicate", "yes or no", "As `disk_os.replicate`.").proxmox("replicate"),
];

pub(super) const NICS: &[Variable] = &[
    row(
        "vms_config.netN",
        "text",
        "A card as Proxmox writes it: `virtio,bridge=vmbr0,tag=20`. Wins over the two forms below, whole.",
    )
    .rule("a `netN` property string of Proxmox")
    .proxmox("netN"),
    row("vms_config.network", "mapping", "Cards by index: `nic0`, `nic1`, ..."),
    row(
        "vms_config.network.nicN",
        "mapping",
        "A card. Wins over the flat form, whole: nothing is merged.",
    )
    .derived("the template's card is kept"),
    row("vms_config.network.nicN.model", "text", "The model.")
        .default("virtio")
        .rule("a card model of Proxmox")
        .proxmox("model"),
    row("vms_config.network.nicN.bridge", "text", "The bridge.")
        .default("vmbr0")
        .rule("letters, digits, `-`, `_`, `.`")
        .proxmox("bridge"),
    row(
        "vms_config.network.nicN.tag",
        "whole number",
        "The VLAN. None, 0 and -1 mean untagged (-1 with advice).",
    )
    .rule("1 to 4094")
    .proxmox("tag"),
    row("vms_config.network.nicN.mac", "text", "A fixed MAC.")
        .derived("the clone's, kept")
        .rule("a unicast MAC")
        .proxmox("macaddr"),
    row(
        "vms_config.network.nicN.firewall",
        "yes or no",
        "Proxmox's firewall on the card.",
    )
    .proxmox("firewall"),
    row(
        "vms_config.network.nicN.mtu",
        "whole number",
        "The card's MTU; 1 takes the bridge's.",
    )
    .rule("1, or 576 to 65520; virtio only")
    .proxmox("mtu"),
    row("vms_config.network.nicN.rate", "number", "Limit in MB/s.")
        .rule("0 or more")
        .proxmox("rate"),
    row("vms_config.network.nicN.queues", "whole number", "Packet queues.")
        .rule("0 to 64")
        .proxmox("queues"),
    row("vms_config.network.nicN.link_down", "yes or no", "Unplugged.").proxmox("link_down"),
    row(
        "vms_config.network.nicN.trunks",
        "text",
        "VLANs passed through: `10;20-30`.",
    )
    .rule("numbers and ranges, `;` between them")
    .proxmox("trunks"),
    row(
        "vms_config.nicN",
        "mapping",
        "The flat form of `network.nicN`, with the same keys.",
    )
    .derived("the template's card is kept"),
    row("vms_config.nicN.model", "text", "As in `network.nicN`.")
        .default("virtio")
        .proxmox("model"),
    row("vms_config.nicN.bridge", "text", "As in `network.nicN`.")
        .default("vmbr0")
        .proxmox("bridge"),
    row("vms_config.nicN.tag", "whole number", "As in `network.nicN`.").proxmox("tag"),
    row("vms_config.nicN.mac", "text", "As in `network.nicN`.").proxmox("macaddr"),
    row("vms_config.nicN.firewall", "yes or no", "As in `network.nicN`.").proxmox("firewall"),
    row("vms_config.nicN.mtu", "whole number", "As in `network.nicN`.").proxmox("mtu"),
    row("vms_config.nicN.rate", "number", "As in `network.nicN`.").proxmox("rate"),
    row("vms_config.nicN.queues", "whole number", "As in `network.nicN`.").proxmox("queues"),
    row("vms_config.nicN.link_down", "yes or no", "As in `network.nicN`.").proxmox("link_down"),
    row("vms_config.nicN.trunks", "text", "As in `network.nicN`.").proxmox("trunks"),
];
