//! What checkers look at: a world, and what belongs to the control node. It is shared by the crash tests in process and
//! those with the real binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use vmwright::simulator::Handle;
use vmwright::simulator::guest::keys;
use vmwright::simulator::spec::{ContainerSpec, DiskSpec, Size, VmSpec, WorldSpec};

/// The guest.
pub const HOST: &str = "web-0";
/// The VM: another name than the guest's, and a foreign VM has the guest's.
pub const NAME: &str = "prod-web-0";
/// The numbers of other people's VMs and templates.
pub const FOREIGN: [u32; 5] = [100, 101, 104, 9000, 9001];
/// The nodes.
pub const NODES: [&str; 3] = ["pve-0", "pve-1", "pve-2"];
/// What stood in known_hosts before.
pub const KNOWN_BEFORE: &str = "# kept by hand\nother.example,10.9.0.9 ssh-ed25519 \
    AAAAC3NzaC1lZDI1NTE5AAAAIFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\n|1|c2FsdHNhbHRzYWx0c2FsdA==|\
    aGFzaGhhc2hoYXNoaGFzaGhhc2g= ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7\n";

/// A scene.
pub struct Scene {
    /// The cluster.
    pub cluster: Handle,
    /// The state directory.
    pub state: PathBuf,
    /// The user's known_hosts.
    pub known_hosts: PathBuf,
    /// The guest's address.
    pub address: String,
    /// The control node's public key, `type base64`.
    pub key: String,
    /// The DNS server's records, `name -> address`.
    pub records: Vec<String>,
    /// Those that were there before.
    pub records_before: Vec<String>,
    /// Other people's machines as they were, see [`foreign`].
    pub foreign: Vec<String>,
    /// What was seen of our VM so far.
    pub seen: Seen,
}

/// Puts other people's machines into the demo cluster: names like ours, the guest's own name, a container.
pub fn add_foreign(spec: &mut WorldSpec) {
    let foreign = |vmid: u32, name: &str, node: &str, running: bool| VmSpec {
        vmid,
        name: name.to_owned(),
        node: node.to_owned(),
        running,
        storage: "local-lvm".to_owned(),
        disks: IndexMap::from([(
            "scsi0".to_owned(),
            DiskSpec {
                size: Size::gib(8),
                data: None,
                format: None,
            },
        )]),
        config: [
            ("net0", "virtio,bridge=vmbr0"),
            ("cores", "4"),
            ("description", "not ours"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..VmSpec::default()
    };
    spec.vms.push(foreign(100, "prod-web-00", "pve-0", true));
    spec.vms.push(foreign(101, HOST, "pve-1", false));
    spec.vms.push(foreign(104, "prod-web-1", "pve-2", true));
    spec.containers.push(ContainerSpec {
        vmid: 102,
        name: "prod-web".to_owned(),
        node: "pve-1".to_owned(),
        template: false,
    });
}

/// The folder of a node's snippets.
pub fn snippets(cluster: &Handle, node: &str) -> PathBuf {
    cluster.node_root(node).join("var/lib/vz/snippets")
}

/// Puts somebody else's snippet on every node.
pub fn prepare_snippets(cluster: &Handle) {
    for node in NODES {
        let folder = snippets(cluster, node);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("somebody-elses.yml"), "#cloud-config\n").unwrap();
    }
}

/// What was seen of our VM between lives: each may have one value only.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Numbers.
    pub vmids: BTreeSet<u32>,
    /// SMBIOS UUIDs.
    pub uuids: BTreeSet<String>,
    /// `net0` without its further options.
    pub macs: BTreeSet<String>,
    /// Host keys of the guest, once it has such.
    pub host_keys: BTreeSet<String>,
}

impl Seen {
    /// Notes what our VM looks like now.
    pub fn note(&mut self, cluster: &Handle) {
        cluster.look(|world| {
            for vm in world.vms.values().filter(|vm| vm.name() == NAME && vm.lock().is_none()) {
                self.vmids.insert(vm.vmid);
                self.uuids.extend(vm.uuid().map(str::to_owned));
                self.macs.extend(mac(vm.config.get("net0").unwrap_or_default()));
                if vm.guest.key_generation() > 0 {
                    self.host_keys
                        .extend(vm.guest.host_keys().first().map(keys::public_line));
                }
            }
        });
    }
}

/// The MAC address in a NIC's text.
pub fn mac(text: &str) -> Option<String> {
    Some(text.split(',').next()?.split_once('=')?.1.to_owned())
}

/// Everything that is not ours, as text.
pub fn foreign(cluster: &Handle) -> Vec<String> {
    cluster.look(|world| {
        let ours = |name: &str| name == NAME;
        let mut all: Vec<String> = world
            .vms
            .values()
            .filter(|vm| !ours(&vm.name()) && !vm.name().starts_with("VM "))
            .map(|vm| {
                let boots = serde_json::to_value(&vm.guest).unwrap()["boots"].clone();
                format!("{} {} {:?} {boots}\n{}", vm.vmid, vm.node, vm.power, vm.config.text())
            })
            .collect();
        all.extend(world.containers.values().map(|container| format!("{container:?}")));
        let volumes = world.volumes.iter().filter(|volume| FOREIGN.contains(&volume.vmid));
        all.extend(volumes.map(|volume| format!("{} {} {}", volume.node, volume.volid, volume.size)));
        all
    })
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
