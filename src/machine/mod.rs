//! The typed desired state of one VM: what the inventory means, checked.
//!
//! [`Machine`] is the only thing that stages know of the inventory. Every default and every rule lives in this module and
//! is checked offline, before anything is touched; a rule that is broken becomes a diagnostic with file, line, key and
//! rule. Nothing here talks to the world; the one thing that is looked at is whether a CA file can be read.
//!
//! ```text
//! Variables --build()--> Machine + warnings        all problems of a host at once
//!                   \--> [Diagnostic]               file:line:column, key, rule, help
//! [Machine] --check_run()--> [Diagnostic]           what only shows when hosts are seen together: duplicates
//! ```
//!
//! * [`schema`] is the one table of variables: names, defaults, rules. Unknown keys, suggestions and the reference in
//!   `docs/inventory-reference.md` come from it.
//! * [`variables`] is the narrow view of an inventory that this module needs.
//! * `reader` turns values into typed values, and remembers what went wrong and where each value stood.
//! * The other files hold the rules, one subject a file.

mod addresses;
mod boot_order;
mod build;
mod claims;
mod cluster;
mod connection;
mod disks;
mod guest;
mod hardware;
mod host_variables;
mod mac;
mod name_servers;
mod names;
mod nics;
mod reader;
mod reference;
mod run;
pub mod schema;
mod shell_words;
mod size;
mod subnet;
mod trust;
mod variable_names;
pub mod variables;

#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::diagnose::Place;
use crate::proxmox::ids::{Mac, NodeName, StorageName, VmId};
use crate::secret::Secret;

pub use build::{Built, build};
pub use claims::{Claims, check_claims, claims};
pub use connection::node_target;
pub use host_variables::{HostVariables, SecretsSeen};
pub use reference::reference_markdown;
pub use run::check_run;
pub use variables::Variables;

/// One VM as the inventory wants it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `inventory_hostname`: the guest. Its host name, DNS name and SSH name come from it.
    pub host: String,
    /// `vms_name`: the VM in Proxmox. Discovery, VM name, snippet names, lock and record use it.
    pub name: String,
    /// The groups that the host is in, as Ansible's `group_names`.
    pub groups: Vec<String>,
    /// Where the cluster is and how to log in.
    pub cluster: Cluster,
    /// `vms_proxmox_node`: the node that the VM is to live on.
    pub node: NodeName,
    /// The name of the template that `vms_os` selects in `global_os`.
    pub template: String,
    /// `vms_vmid`: a fixed id, or none for the next free one.
    pub vmid: Option<VmId>,
    /// What Proxmox gives the VM.
    pub hardware: Hardware,
    /// The guest's network, and its name servers.
    pub network: Network,
    /// The guest's identity, user and packages.
    pub guest: Guest,
    /// How vmwright logs in to the guest.
    pub ssh: SshTarget,
    /// How the cloud-init documents get to the node.
    pub snippets: Snippets,
    /// Where the guest's name is published.
    pub dns: Dns,
    /// Budgets of the waits.
    pub waits: Waits,
    /// `vms_protected`: the VM may not be stopped, restarted or removed.
    pub protected: bool,
    /// Where each value of the inventory stood that this came from: for the errors of later stages.
    pub origins: Origins,
}

impl Machine {
    /// Every secret in it, for the redactor.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut secrets = vec![match &self.cluster.auth {
            Auth::Token { secret, .. } => secret.clone(),
            Auth::Password { password, .. } => password.clone(),
        }];
        secrets.extend(self.guest.password_hash.clone());
        match &self.dns {
            Dns::None => {}
            Dns::Pihole { password, .. } => secrets.push(password.clone()),
        }
        secrets
    }

    /// The primary address: the first static address of the first interface, if it has one.
    pub fn address(&self) -> Option<IpAddr> {
        Some(self.network.interfaces.first()?.addresses.first()?.address)
    }
}

/// Where the values of a machine stand: key path (`vms_config.disk_os.size`) to place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Place>);

impl Origins {
    /// The place of a value; of the mapping around it where the value itself was not declared.
    pub fn place(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.0.get(path) {
                return Some(place.clone());
            }
            path = path.rsplit_once('.')?.0;
        }
    }
}

impl FromIterator<(String, Place)> for Origins {
    fn from_iter<I: IntoIterator<Item = (String, Place)>>(places: I) -> Self {
        Self(places.into_iter().collect())
    }
}

/// A Proxmox cluster and an identity in it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `global_proxmox_api_host`: a name or address, as configured.
    pub host: String,
    /// `global_proxmox_api_port`, 8006 by default.
    pub port: u16,
    /// How the API's certificate is verified.
    pub trust: Trust,
    /// The identity.
    pub auth: Auth,
    /// `vms_assume_full_visibility`: the operator vouches that the identity sees every VM of the cluster, where the API
    /// cannot tell.
    pub assume_full_visibility: bool,
}

/// How a server certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Against the system's roots.
    System,
    /// Against the certificates of this PEM file only (`global_proxmox_api_ca_file`).
    Ca(PathBuf),
    /// The SHA-256 of the leaf certificate (`global_proxmox_api_fingerprint`).
    Fingerprint([u8; 32]),
    /// Not at all (`vms_pve_tls_insecure: true`): warned about at every run.
    Insecure,
}

/// An identity at the Proxmox API.
#[derive(Clone, Debug)]
pub enum Auth {
    /// An API token: `user@realm`, token id, secret.
    Token {
        /// `global_proxmox_api_user`, with realm.
        user: String,
        /// `global_proxmox_api_token_id`.
        id: String,
        /// `global_proxmox_api_token`.
        secret: Secret,
    },
    /// A password, exchanged for a ticket.
    Password {
        /// `global_proxmox_api_user`, with realm.
        user: String,
        /// `global_proxmox_api_password`.
        password: Secret,
    },
}

/// The hardware that the inventory declares. `None` means: as the template has it.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// `vms_config.cores`.
    pub cores: Option<u32>,
    /// `vms_config.sockets`.
    pub sockets: Option<u32>,
    /// `vms_config.cpu`: the CPU type, `host` or a model.
    pub cpu: Option<String>,
    /// `vms_config.memory`, in MiB.
    pub memory_mib: Option<u64>,
    /// `vms_config.ostype`.
    pub ostype: Option<String>,
    /// `vms_config.scsihw`.
    pub scsihw: Option<String>,
    /// `vms_config.agent`.
    pub agent: Option<bool>,
    /// `vms_config.vga`.
    pub vga: Option<String>,
    /// Serial ports: slot and value, `("serial0", "socket")`.
    pub serial: Vec<(String, String)>,
    /// `vms_config.onboot`.
    pub onboot: Option<bool>,
    /// `vms_config.tags`, lower case, sorted, without duplicates.
    pub tags: Option<Vec<String>>,
    /// `vms_config.description`.
    pub description: Option<String>,
    /// `vms_config.pool`.
    pub pool: Option<String>,
    /// `vms_config.storage`: where the clone's disks go; `None` is the template's storage.
    pub storage: Option<StorageName>,
    /// `vms_config.cloudinit_storage`: where the cloud-init drive goes; `None` is where the clone puts it.
    pub cloudinit_storage: Option<StorageName>,
    /// The format of cloned disks (`vms_config.disk_os.format`); `None` leaves it to Proxmox.
    pub format: Option<String>,
    /// `vms_config.boot_order`: device keys in order; `None` keeps the template's, with the boot disk first.
    pub boot_order: Option<Vec<String>>,
    /// `vms_config.disk_os`.
    pub boot_disk: Option<BootDisk>,
    /// `vms_config.disk2` and further `diskN`, by slot.
    pub extra_disks: Vec<ExtraDisk>,
    /// The NICs, by index; empty keeps the template's.
    pub nics: Vec<Nic>,
}

/// The disk that the guest boots from. It comes with the clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootDisk {
    /// The slot, `virtio0` or `scsi0`.
    pub slot: String,
    /// The exact size that it is grown to; `None` keeps the template's.
    pub size_gib: Option<u64>,
    /// Options that differ from the template's: `backup`, `discard`, `iothread`, `ssd`, `cache`.
    pub options: Vec<(String, String)>,
}

/// A disk that is allocated once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraDisk {
    /// The inventory's key, `disk2`.
    pub key: String,
    /// The slot, `virtio1`.
    pub slot: String,
    /// Its storage.
    pub storage: StorageName,
    /// Its size.
    pub size_gib: u64,
    /// `qcow2`, `raw` or the storage's default.
    pub format: Option<String>,
    /// `backup`, `discard`, `iothread`, `ssd`, `cache`.
    pub options: Vec<(String, String)>,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// N of `netN`.
    pub index: u8,
    /// `virtio`, `e1000`, ...
    pub model: String,
    /// The bridge.
    pub bridge: String,
    /// VLAN tag 1 to 4094; `None` is untagged.
    pub tag: Option<u16>,
    /// A fixed MAC; `None` keeps the clone's.
    pub mac: Option<Mac>,
    /// Further options: `firewall`, `mtu`, `rate`, `queues`, `link_down`, `trunks`.
    pub options: Vec<(String, String)>,
}

/// The guest's network as cloud-init is to set it up.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The interfaces; the first is the primary one.
    pub interfaces: Vec<Interface>,
    /// `global_dns_servers`.
    pub dns_servers: Vec<IpAddr>,
    /// Search domains, `[global_domain_name]` by default.
    pub search: Vec<String>,
}

/// One interface of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// How cloud-init finds it.
    pub matching: InterfaceMatch,
    /// The NIC that it belongs to (N of `netN`).
    pub nic: u8,
    /// Static addresses with prefix length; empty with `dhcp4`/`dhcp6`.
    pub addresses: Vec<Cidr>,
    /// Default gateways, at most one a family.
    pub gateways: Vec<IpAddr>,
    /// DHCP for IPv4.
    pub dhcp4: bool,
    /// DHCP or router advertisement for IPv6.
    pub dhcp6: bool,
    /// MTU.
    pub mtu: Option<u32>,
}

/// How cloud-init finds an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceMatch {
    /// By its name, `ens18`.
    Name(String),
    /// By the MAC that Proxmox gives the NIC, and then renamed to this name. The MAC is known after the clone.
    Mac {
        /// The name that the interface gets.
        set_name: String,
    },
}

/// An address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The host's address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

impl Cidr {
    /// Whether `other` lies in this address's subnet.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                a.to_bits() & mask == b.to_bits() & mask
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                a.to_bits() & mask == b.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The guest's identity and first user.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The short host name: `inventory_hostname` up to its first dot.
    pub hostname: String,
    /// Host name and domain.
    pub fqdn: String,
    /// `global_domain_name`.
    pub domain: String,
    /// `global_vm_template_user`.
    pub user: String,
    /// `global_vm_template_user_crypted_password`: a crypt(3) hash.
    pub password_hash: Option<Secret>,
    /// Public keys that may log in, one line each. `None` until the control node's key pair is read or made.
    pub authorized_keys: Vec<String>,
    /// `vms_global_timezone`, else `global_timezone`.
    pub timezone: Option<String>,
    /// `global_packages_list` and `vms_additional_packages`, order kept, no duplicates.
    pub packages: Vec<String>,
    /// `package_update` (default true) and `package_upgrade` (default true).
    pub package_update: bool,
    /// See `package_update`.
    pub package_upgrade: bool,
}

/// How to log in to a machine with the system's `ssh`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshTarget {
    /// The name that the host key is looked up under (`HostKeyAlias`): the inventory's name, never an address that
    /// another VM had before.
    pub alias: String,
    /// `ansible_host`, else the guest's primary address.
    pub host: String,
    /// `ansible_port`, 22 by default.
    pub port: u16,
    /// `ansible_user`, else the template user.
    pub user: String,
    /// `ansible_ssh_private_key_file`.
    pub key: Option<PathBuf>,
    /// `ansible_ssh_common_args` and `ansible_ssh_extra_args`, split as a shell would: `-J`, `-o` and the like.
    pub extra_args: Vec<String>,
}

/// How the cloud-init documents get to the node.
#[derive(Clone, Debug)]
pub struct Snippets {
    /// `vms_snippets_storage`, `local` by default.
    pub storage: StorageName,
    /// `vms_keep_snippets`: the documents and `cicustom` stay after finalize.
    pub keep: bool,
    /// `vms_snippets_path`: the storage's snippet folder as mounted on this control node; `None` goes over SSH.
    pub local_path: Option<PathBuf>,
    /// `vms_snippets_mode`: the mode of the documents in `vms_snippets_path`; `None` is 0600.
    pub mode: Option<u32>,
    /// How to log in to the destination node: the inventory's host of the node's name; `None` asks the cluster for the
    /// node's address and logs in as root on port 22.
    pub node_ssh: Option<SshTarget>,
}

/// Where the guest's name is published.
#[derive(Clone, Debug)]
pub enum Dns {
    /// Nowhere.
    None,
    /// A Pi-hole v6.
    Pihole {
        /// Base URL, `http://10.0.20.253` from `pihole_api_host`.
        url: String,
        /// `pihole_password`.
        password: Secret,
    },
}

/// Budgets. The rhythm inside a budget is the engine's.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Until a command runs on the guest after a start or restart; 600 s.
    pub startup: Duration,
    /// Until cloud-init ended: `vms_cloud_init_poll_retries` x `vms_cloud_init_poll_delay`, 120 x 15 s.
    pub cloud_init: Duration,
    /// One `cloud-init status` call: `vms_cloud_init_command_timeout`, 30 s.
    pub cloud_init_command: Duration,
    /// The verified restart of finalize; 600 s.
    pub restart: Duration,
    /// A task without progress; 300 s.
    pub task_idle: Duration,
    /// How long a guest may take to shut down before its power is cut; 120 s.
    pub shutdown: Duration,
}
