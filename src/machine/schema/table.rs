//! The rows, but for those of `vms_config`. One section a subject, in the order of the reference.

use super::Variable;
use super::hardware::{DISKS, HARDWARE, NICS};

/// The sections of the table.
pub const SECTIONS: &[(&str, &[Variable])] = &[
    ("Identity and placement", IDENTITY),
    ("The Proxmox API", CLUSTER),
    ("Hardware", HARDWARE),
    ("Disks", DISKS),
    ("Network cards", NICS),
    ("Addresses in the guest", NETWORK),
    ("The guest", GUEST),
    ("Logging in", CONNECTION),
    ("Snippets and DNS", PUBLISHING),
    ("Waits and safety", WAITS),
    ("Without effect", IGNORED),
];

pub(super) const fn row(name: &'static str, kind: &'static str, meaning: &'static str) -> Variable {
    Variable::new(name, kind, meaning)
}

const IDENTITY: &[Variable] = &[
    row(
        "vms_name",
        "text",
        "The VM's name in Proxmox: discovery, snippet names, lock and record use it.",
    )
    .derived("`name` if that is set, else the inventory's host name")
    .rule("DNS labels: letters, digits, inner dashes; at most 63 characters a label, 253 in all")
    .proxmox("name"),
    row("name", "text", "Older spelling of `vms_name`.").rule("as `vms_name`"),
    row("vms_proxmox_node", "text", "The node that the VM is to live on.")
        .default("pve-0")
        .rule("letters, digits and inner dashes; the cluster must have it"),
    row("vms_os", "text", "Which entry of `global_os` the VM is cloned from.")
        .required()
        .rule("a key of `global_os`"),
    row(
        "global_os",
        "mapping",
        "Operating systems: each key has at least `template`, the name of a template in Proxmox.",
    )
    .derived("`ubuntu_24_server: {template: ubuntu-server-24.04-cloudinit}`")
    .rule("the entry's `template` is a text; other keys of an entry are not read"),
    row(
        "vms_vmid",
        "whole number",
        "A fixed VM id. 0 and empty mean the next free one.",
    )
    .rule("100 to 999999999")
    .proxmox("newid"),
    row("vms_config", "mapping", "The hardware: see below.").rule("unknown keys are errors"),
    row("vms_pool", "text", "The resource pool. `vms_config.pool` wins.")
        .rule("as `vms_config.pool`")
        .proxmox("pool"),
    row("vms_tags", "list of texts", "Tags. `vms_config.tags` wins.")
        .rule("as `vms_config.tags`")
        .proxmox("tags"),
    row(
        "vms_description",
        "text",
        "The VM's notes. `vms_config.description` wins.",
    )
    .rule("as `vms_config.description`")
    .proxmox("description"),
];

const CLUSTER: &[Variable] = &[
    row(
        "global_proxmox_api_host",
        "text",
        "A name or address of the API, without scheme and port.",
    )
    .required()
    .rule("a host name or an address"),
    row("global_proxmox_api_port", "whole number", "The API's port.")
        .default("8006")
        .rule("1 to 65535"),
    row("global_proxmox_api_user", "text", "The identity, with realm.")
        .derived("the user in front of `!` where `global_proxmox_api_token_id` holds it")
        .rule("`user@realm`, as in `vmwright@pve`"),
    row(
        "global_proxmox_api_token_id",
        "text",
        "The API token's id: `name`, or `user@realm!name`.",
    )
    .rule("a letter, then letters, digits, dots, dashes and underscores"),
    row(
        "global_proxmox_api_token",
        "text",
        "The API token's secret, or the whole `user@realm!name=secret`.",
    )
    .secret()
    .rule("Proxmox makes UUIDs; anything else is warned about"),
    row(
        "global_proxmox_api_password",
        "text",
        "The password; a token is preferred where both are set.",
    )
    .secret(),
    row(
        "global_proxmox_api_ca_file",
        "path",
        "A PEM file: the API's certificate must be signed by one in it.",
    )
    .rule("a readable PEM file; `~/` is the home directory"),
    row(
        "global_proxmox_api_fingerprint",
        "text",
        "The SHA-256 fingerprint of the API's certificate.",
    )
    .rule("32 bytes in hexadecimal, with or without colons"),
    row(
        "vms_pve_tls_insecure",
        "yes or no",
        "No certificate check at all: warned about at every run.",
    )
    .default("false")
    .rule("does nothing where a CA file or a fingerprint is set: verification wins"),
    row(
        "vms_assume_full_visibility",
        "yes or no",
        "You vouch that the identity sees every VM of the cluster, where the API cannot tell.",
    )
    .default("false"),
];

const NETWORK: &[Variable] = &[
    row(
        "global_ip_address",
        "address",
        "The guest's address on its first card, IPv4 or IPv6, with or without `/prefix`.",
    )
    .derived("the host's entry in `global_ip_addresses`")
    .rule("a host's address: not the network's, not the broadcast address; inside `vms_subnet`; used once in the run"),
    row("global_ip_addresses", "mapping", "Host name to address."),
    row(
        "vms_prefix_length",
        "whole number",
        "The prefix length of `global_ip_address` where that has none.",
    )
    .derived("`vms_subnet`'s, else 24 for IPv4 and 64 for IPv6")
    .rule("1 to 32, or to 128; the same as in `global_ip_address` where both are set"),
    row(
        "vms_subnet",
        "subnet",
        "The subnet that `global_ip_address` has to be in, as `10.0.20.0/24`; gives the prefix length too.",
    )
    .rule("network address and prefix length"),
    row(
        "global_gateway",
        "address",
        "The default gateway; empty or `none` means none.",
    )
    .derived("first three octets and `.1`, for an IPv4 address with prefix length 24")
    .rule("inside the subnet, not the guest's own address (an IPv6 one may be link-local)"),
    row(
        "global_ipv6_address",
        "address",
        "A second, IPv6 address on the first card.",
    )
    .rule("as `global_ip_address`; prefix length 64 unless it says otherwise"),
    row(
        "vms_ipv6_prefix_length",
        "whole number",
        "The prefix length of `global_ipv6_address` where that has none.",
    )
    .default("64")
    .rule("1 to 128"),
    row(
        "global_ipv6_gateway",
        "address",
        "The IPv6 default gateway; empty or `none` means none.",
    )
    .rule("as `global_gateway`"),
    row("vms_interface", "text", "The first card's interface in the guest.")
        .default("ens18")
        .rule("at most 15 characters, no blanks, no `/`"),
    row(
        "vms_interface_match",
        "text",
        "How cloud-init finds it: by `name`, or by the card's `mac`, and then gives it that name.",
    )
    .default("name")
    .rule("`name` or `mac`"),
    row(
        "vms_network",
        "mapping",
        "Interfaces by card: `nic0`, `nic1`, ... For more than one card, for DHCP and for MTU.",
    ),
    row(
        "vms_network.nicN",
        "mapping",
        "The interface of card N. A card without one is not configured in the guest, but for the first.",
    ),
    row("vms_network.nicN.interface", "text", "Its name.")
        .derived("`vms_interface` for `nic0`; `ens19` for `nic1` and so on up to `ens23`")
        .rule("as `vms_interface`; required from `nic6` on"),
    row("vms_network.nicN.match", "text", "As `vms_interface_match`.")
        .derived("`vms_interface_match`")
        .rule("`name` or `mac`"),
    row(
        "vms_network.nicN.address",
        "address or list",
        "Its addresses. For `nic0` this is `global_ip_address` unless that is set.",
    )
    .rule("as `global_ip_address`"),
    row(
        "vms_network.nicN.prefix_length",
        "whole number",
        "The prefix length of addresses without one.",
    )
    .derived("24 for IPv4, 64 for IPv6")
    .rule("1 to 32, or to 128"),
    row(
        "vms_network.nicN.gateway",
        "address or list",
        "Default gateways, at most one a family. Only one card should have one.",
    )
    .rule("as `global_gateway`"),
    row("vms_network.nicN.dhcp4", "yes or no", "DHCP for IPv4.").default("false"),
    row("vms_network.nicN.dhcp6", "yes or no", "DHCP for IPv6.").default("false"),
    row("vms_network.nicN.mtu", "whole number", "The MTU in the guest.").rule("576 to 65520, from 1280 with IPv6"),
    row(
        "global_dns_servers",
        "list of addresses",
        "The guest's name servers; an empty list means none.",
    )
    .required()
    .rule("addresses, not names; may be left out where the first interface uses DHCP"),
    row("vms_dns_search", "list of texts", "Search domains.")
        .derived("`global_domain_name`")
        .rule("domain names"),
];

const GUEST: &[Variable] = &[
    row(
        "global_domain_name",
        "text",
        "The domain: the guest's FQDN is host name and domain.",
    )
    .default("example.org")
    .rule("a domain name; the default is warned about"),
    row("global_timezone", "text", "The guest's time zone.")
        .default("America/New_York")
        .rule("a name of the time zone database"),
    row(
        "vms_global_timezone",
        "text",
        "The same for one VM; wins over `global_timezone`.",
    )
    .rule("as `global_timezone`"),
    row(
        "global_vm_template_user",
        "text",
        "The user that cloud-init makes and vmwright logs in as.",
    )
    .required()
    .rule("a Linux user name: lower case, at most 32 characters"),
    row(
        "global_vm_template_user_crypted_password",
        "text",
        "Its password as a crypt(3) hash. Without one the password is locked.",
    )
    .secret()
    .rule("starts with `$`, or is `!` or `*`; never the clear text"),
    row("vms_authorized_keys", "list of texts", "Public keys that may log in.")
        .derived("the control node's key pair")
        .rule("one OpenSSH public key each"),
    row(
        "vms_sshkey",
        "text",
        "Older spelling of `vms_authorized_keys`, one key.",
    )
    .rule("an OpenSSH public key"),
    row("global_packages_list", "list of texts", "Packages for every guest.")
        .default(
            "vim net-tools realmd sssd sssd-tools sshpass libnss-sss libpam-sss adcli samba-common-bin oddjob \
             oddjob-mkhomedir packagekit qemu-guest-agent parted git unzip acl nfs-common",
        )
        .rule("package names"),
    row(
        "vms_additional_packages",
        "list of texts",
        "Packages for this guest; added to the others, none twice.",
    )
    .default("")
    .rule("package names"),
    row(
        "vms_package_update",
        "yes or no",
        "Refresh the package lists on first boot.",
    )
    .default("true"),
    row(
        "vms_package_upgrade",
        "yes or no",
        "Upgrade all packages on first boot.",
    )
    .default("true"),
];

const CONNECTION: &[Variable] = &[
    row("ansible_host", "text", "Where SSH connects to.")
        .derived("the guest's first address")
        .rule("a host name or an address"),
    row("ansible_port", "whole number", "The SSH port.")
        .default("22")
        .rule("1 to 65535"),
    row("ansible_user", "text", "The SSH user.")
        .derived("`global_vm_template_user`; `root` on a node")
        .rule("no blanks"),
    row("ansible_ssh_private_key_file", "path", "The private key.")
        .derived("what `ssh` takes by itself")
        .rule("`~/` is the home directory"),
    row(
        "ansible_ssh_common_args",
        "text",
        "Further arguments for `ssh`, as `-J jump.example.org`.",
    )
    .rule("quoted as in a shell"),
    row("ansible_ssh_extra_args", "text", "Still further arguments.").rule("quoted as in a shell"),
    row("ansible_ssh_host", "text", "Older spelling of `ansible_host`."),
    row("ansible_ssh_port", "whole number", "Older spelling of `ansible_port`."),
    row("ansible_ssh_user", "text", "Older spelling of `ansible_user`."),
    row(
        "ansible_private_key_file",
        "path",
        "Older spelling of `ansible_ssh_private_key_file`.",
    ),
];

const PUBLISHING: &[Variable] = &[
    row(
        "vms_snippets_storage",
        "text",
        "The storage whose snippets hold the cloud-init documents.",
    )
    .default("local")
    .rule("a storage name; its content types must include snippets")
    .proxmox("cicustom"),
    row(
        "vms_snippets_path",
        "path",
        "That storage's snippet folder as mounted on this control node.",
    )
    .derived("none: the documents go over SSH to the node, as the inventory's host of the node's name")
    .rule("an absolute path; `~/` is the home directory"),
    row(
        "vms_snippets_mode",
        "text",
        "The mode of the documents in `vms_snippets_path`.",
    )
    .default("0600")
    .rule("`0600`, `0640` or `0644`; over NFS with root_squash the node reads `0644` only, and so does everybody who sees the export: they hold a password hash"),
    row(
        "vms_keep_snippets",
        "yes or no",
        "Keep the documents on the node, and `cicustom` in the VM, when the drive is gone.",
    )
    .default("false")
    .rule("they hold a password hash; without the drive Proxmox does not read them any more"),
    row("vms_dns", "text", "Where the guest's name is published.")
        .derived("`pihole` where its host and password are set, else `none`")
        .rule("`none` or `pihole`"),
    row("pihole_api_host", "text", "The Pi-hole: a host, or host and port.").derived("`global_pihole_api_host`"),
    row("global_pihole_api_host", "text", "As `pihole_api_host`."),
    row(
        "pihole_api_url",
        "text",
        "The Pi-hole's base URL, where it is not `http://<pihole_api_host>`.",
    )
    .rule("`http://` or `https://`, host and perhaps port"),
    row(
        "pihole_password",
        "text",
        "The Pi-hole's password, or an application password.",
    )
    .secret(),
];

const WAITS: &[Variable] = &[
    row(
        "vms_startup_timeout",
        "seconds",
        "How long a started guest may take until a command runs on it.",
    )
    .default("600")
    .rule("1 to 86400"),
    row(
        "vms_restart_timeout",
        "seconds",
        "The same for the verified restart of finalize.",
    )
    .default("600")
    .rule("1 to 86400"),
    row(
        "vms_task_idle_timeout",
        "seconds",
        "How long a task of Proxmox may show no progress.",
    )
    .default("300")
    .rule("1 to 86400"),
    row(
        "vms_shutdown_timeout",
        "seconds",
        "How long a guest that is to be removed may take to shut down before its power is cut.",
    )
    .default("120")
    .rule("1 to 86400"),
    row(
        "vms_cloud_init_poll_retries",
        "whole number",
        "Retries x delay is the time that cloud-init may take.",
    )
    .default("120")
    .rule("1 or more"),
    row(
        "vms_cloud_init_poll_delay",
        "seconds",
        "See retries. It is the budget, not the rhythm.",
    )
    .default("15")
    .rule("1 or more"),
    row(
        "vms_cloud_init_command_timeout",
        "seconds",
        "How long one question to cloud-init may take.",
    )
    .default("30")
    .rule("1 to 86400"),
    row(
        "vms_protected",
        "yes or no",
        "The VM may not be stopped, restarted or removed.",
    )
    .default("false"),
    row(
        "vms_state_dir",
        "path",
        "The state directory. Read as a setting of the tool, not of a host.",
    ),
    row(
        "vms_simulator",
        "mapping",
        "The embedded cluster of the demo. Read by the tool, not of a host.",
    ),
];

const IGNORED: &[Variable] = &[
    row(
        "vms_use_terraform",
        "yes or no",
        "Chose the backend. vmwright owns by its own records, always.",
    )
    .deprecated(),
    row("vms_clone", "yes or no", "Nothing: every VM is a clone.").deprecated(),
    row("vms_static_vmid", "whole number", "Set `vms_vmid` instead.").deprecated(),
    row("vms_autoinstall", "yes or no", "Chose the installer image.").ignored(),
    row(
        "vms_terraform_allow_replacement",
        "yes or no",
        "A gate of the Terraform backend.",
    )
    .ignored(),
    row(
        "vms_terraform_destroy_confirm",
        "yes or no",
        "A gate of the Terraform backend.",
    )
    .ignored(),
    row("vms_terraform_lock_root", "path", "Locks are in the state directory.").ignored(),
    row(
        "vms_finalization_state_dir",
        "path",
        "Checkpoints are in the state directory.",
    )
    .ignored(),
    row("vms_clone_host", "text", "Nothing.").ignored(),
    row("vms_ip_address_configured", "yes or no", "Nothing.").ignored(),
    row("vms_set_to_template", "yes or no", "Nothing.").ignored(),
    row("global_terraform_root_dir", "path", "Nothing.").ignored(),
    row("global_ansible_root_dir", "path", "Nothing.").ignored(),
    row("global_inventory_dir_name", "text", "Nothing.").ignored(),
];
