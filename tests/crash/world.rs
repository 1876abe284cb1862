//! One simulated world with foreign VMs in it, an inventory's machine, and what belongs to the control node: state
//! directory, known_hosts. Processes live and die in it; the world goes on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use vmwright::dns::Record;
use vmwright::inventory::{Inventory, LoadOptions};
use vmwright::machine::{self, HostVariables, Machine, SecretsSeen};
use vmwright::simulator::clock::Durations;
use vmwright::simulator::spec::{DEMO_SECRET, NodeSpec, WorldSpec};
use vmwright::simulator::ssh::{NodeDoor, Options as SshOptions};
use vmwright::simulator::{Handle, Options, Simulator, ssh};

use crate::scene::{HOST, KNOWN_BEFORE, NAME, Scene, Seen, add_foreign, foreign, prepare_snippets};
use crate::ssh::{Far, PORT};

/// The guest's address.
pub const ADDRESS: &str = "127.77.9.100";
/// The control node's public key.
pub const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHeLzVJyaJ2oQpDqJt8pIbWJxWb4EBS4NnJ7VN1CzXyZ";
/// Somebody else's DNS record.
const OTHER_RECORD: &str = "other.test.example -> 127.77.9.9";

/// The inventory's machine.
pub fn machine() -> Arc<Machine> {
    static MACHINE: OnceLock<Arc<Machine>> = OnceLock::new();
    Arc::clone(MACHINE.get_or_init(|| Arc::new(build())))
}

fn build() -> Machine {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "hosts.ini",
        &format!(
            "[vms]\n{HOST} vms_name={NAME} vms_proxmox_node=pve-1\n[removable]\n{HOST}\n\
             [proxmox_nodes]\npve-0 ansible_host=127.77.9.1\npve-1 ansible_host=127.77.9.2\npve-2 ansible_host=127.77.9.3\n"
        ),
    );
    write(
        "group_vars/all.yml",
        &format!(
            "global_proxmox_api_host: pve.test\nglobal_proxmox_api_port: 8006\nvms_pve_tls_insecure: true\n\
             global_proxmox_api_user: automation@pve\nglobal_proxmox_api_token_id: vmwright\n\
             global_proxmox_api_token: {DEMO_SECRET}\npihole_api_host: hole.test\npihole_password: hole-secret\n\
             global_os:\n  debian_12: {{template: debian-12-cloudinit}}\nglobal_ip_addresses:\n  {HOST}: {ADDRESS}\n\
             global_domain_name: test.example\nglobal_dns_servers: [127.77.9.3]\nglobal_timezone: Etc/UTC\n\
             global_packages_list: [qemu-guest-agent]\nglobal_vm_template_user: ansible\nansible_port: {PORT}\n"
        ),
    );
    write(
        "group_vars/vms.yml",
        "vms_os: debian_12\nvms_config:\n  agent: '1'\n  cores: '2'\n  sockets: 1\n  cpu: host\n  memory: 2048\n  \
         ostype: l26\n  scsihw: virtio-scsi-single\n  storage: local-lvm\n  \
         disk_os: {disk: scsi0, size: 20, backup: true}\n  disk2: {disk: scsi1, size: 10, storage: local-lvm}\n  \
         nic0: {model: virtio, bridge: vmbr0}\n",
    );
    write(
        "group_vars/proxmox_nodes.yml",
        "ansible_user: root\nansible_ssh_common_args: -o StrictHostKeyChecking=accept-new\n",
    );
    let loaded = Inventory::load(&LoadOptions {
        sources: vec![dir.path().display().to_string()],
        extra_vars: Vec::new(),
        vault_password_files: Vec::new(),
        working_dir: dir.path().to_owned(),
        env: std::collections::BTreeMap::new(),
        ..LoadOptions::default()
    })
    .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let secrets = SecretsSeen::default();
    let built = machine::build(&HostVariables::new(&loaded.inventory, HOST, None, &secrets));
    let mut machine = built.unwrap_or_else(|problems| panic!("{problems:#?}")).machine;
    machine.guest.authorized_keys.push(KEY.to_owned());
    machine
}

/// The demo cluster with other people's machines in it.
fn spec() -> WorldSpec {
    let mut spec = WorldSpec {
        seed: Some(7),
        ..WorldSpec::default()
    };
    for (number, node) in spec.nodes.values_mut().enumerate() {
        *node = NodeSpec {
            ip: Some(format!("127.77.9.{}", number + 1)),
            ..NodeSpec::default()
        };
    }
    add_foreign(&mut spec);
    spec
}

/// A world.
pub struct Site {
    /// The cluster.
    pub sim: Simulator,
    /// The DNS server's records.
    pub records: Arc<Mutex<Vec<Record>>>,
    /// Who runs commands on the far side.
    pub far: Far,
    /// What was seen of our VM.
    pub seen: Mutex<Seen>,
    /// Other people's VMs and containers as they were.
    pub foreign: Vec<String>,
    /// Lives so far.
    pub lives: Mutex<u32>,
    dir: TempDir,
}

impl Site {
    /// A new world: nothing of ours in it.
    pub async fn new() -> Self {
        Self::with(Durations::default().scaled(0.1), false).await
    }

    /// A new world whose commands are run by a real shell.
    pub async fn with_shell() -> Self {
        Self::with(Durations::default().scaled(0.1), true).await
    }

    async fn with(durations: Durations, shell: bool) -> Self {
        // In memory where the machine has such a place: thousands of fsyncs add nothing here.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
        let options = Options {
            spec: spec(),
            durations,
            ssh_port: PORT,
            sockets: false,
            keep: false,
            ..Options::api_only(dir.path().join("world"))
        };
        let sim = Simulator::start(options).await.unwrap();
        prepare_snippets(sim.handle());
        let far = match shell {
            false => Far::Model,
            true => Far::Shell(Arc::new(doors(sim.handle()).await)),
        };
        let control = dir.path().join("control");
        std::fs::create_dir_all(control.join("ssh")).unwrap();
        std::fs::write(control.join("ssh/known_hosts"), KNOWN_BEFORE).unwrap();
        let other = Record::new("other.test.example", "127.77.9.9".parse().unwrap());
        let foreign = foreign(sim.handle());
        Self {
            sim,
            records: Arc::new(Mutex::new(vec![other])),
            far,
            seen: Mutex::default(),
            foreign,
            lives: Mutex::new(0),
            dir,
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Handle {
        self.sim.handle()
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("control/state")
    }

    /// The folder of known_hosts.
    pub fn ssh_folder(&self) -> PathBuf {
        self.dir.path().join("control/ssh")
    }

    /// The user's known_hosts.
    pub fn known_hosts(&self) -> PathBuf {
        self.ssh_folder().join("known_hosts")
    }

    /// A new scratch directory of a life.
    pub fn scratch(&self, life: u32) -> PathBuf {
        let path = self.dir.path().join(format!("scratch-{life}"));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Lets time pass in the world.
    pub async fn rest(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Notes what our VM looks like now.
    pub fn note(&self) {
        self.seen.lock().unwrap().note(self.cluster());
    }

    /// What checkers look at.
    pub fn scene(&self) -> Scene {
        Scene {
            cluster: self.cluster().clone(),
            state: self.state(),
            known_hosts: self.known_hosts(),
            address: ADDRESS.to_owned(),
            key: KEY.to_owned(),
            records: self.records.lock().unwrap().iter().map(ToString::to_string).collect(),
            records_before: vec![OTHER_RECORD.to_owned()],
            foreign: self.foreign.clone(),
            seen: self.seen.lock().unwrap().clone(),
        }
    }
}

/// SSH doors without sockets, with real shells behind them.
async fn doors(cluster: &Handle) -> ssh::Doors {
    let mut options = SshOptions::below(cluster.dir());
    options.tcp = false;
    options.guest_port = PORT;
    options.nodes = cluster.look(|world| {
        let door = |(name, node): (&String, &vmwright::simulator::world::Node)| NodeDoor {
            name: name.clone(),
            address: format!("{}:{PORT}", node.ip).parse().unwrap(),
            root: world.node_root(name),
            authorized_keys: vec![KEY.to_owned()],
        };
        world.nodes.iter().map(door).collect()
    });
    ssh::start(Arc::new(cluster.clone()), options).await.unwrap()
}
