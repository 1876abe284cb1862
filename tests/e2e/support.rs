//! A site for one test: a simulated cluster on its own loopback network, an inventory, and the real binary.
//!
//! ```no_run
//! let site = Site::start().await;
//! let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
//! run.assert_code(0);
//! ```

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use vmwright::simulator::clock::Durations;
use vmwright::simulator::spec::WorldSpec;
use vmwright::simulator::{Options, RequestRecord, Simulator, free_loopback_net};

mod look;
mod run;

pub use self::look::param;
pub use self::run::{Run, Started};

/// The port of every sshd of a site.
pub const SSH_PORT: u16 = 2222;
/// The Pi-hole's password. It is a secret: it must never be seen in any output.
pub const PIHOLE_PASSWORD: &str = "pihole-password-marked-secret";

/// The hosts of `global_ip_addresses`, in the order of their addresses.
pub const NAMES: [&str; 7] = ["web-0", "web-1", "web-2", "web-3", "db-0", "web-4", "web-5"];
/// How long anything is waited for before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a site is made of.
pub struct Plan {
    /// The cluster.
    pub spec: WorldSpec,
    /// How long things take.
    pub durations: Durations,
    /// Lines below `vms_config:`, each indented by two.
    pub vms_config: String,
    /// Further lines of group_vars/all.yml.
    pub all: String,
    /// Further lines of group_vars/vms.yml.
    pub vms: String,
    /// Host lines of group `vms`: name and inline variables.
    pub hosts: Vec<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            spec: WorldSpec::default(),
            durations: Durations::default().scaled(0.02),
            vms_config: "  agent: '1'\n  cores: '2'\n  sockets: 1\n  cpu: host\n  memory: 2048\n  ostype: l26\n  \
                         scsihw: virtio-scsi-single\n  storage: local-lvm\n  disk_os: {disk: scsi0, size: 20, backup: true}\n  \
                         nic0: {model: virtio, bridge: vmbr0}\n"
                .to_owned(),
            all: String::new(),
            vms: String::new(),
            hosts: vec!["web-0 vms_proxmox_node=pve-0".to_owned(), "web-1 vms_proxmox_node=pve-1 vms_name=prod-web-1".to_owned()],
        }
    }
}

/// A site.
pub struct Site {
    /// The cluster.
    pub sim: Simulator,
    /// The first three bytes of the site's network.
    pub net: [u8; 3],
    dir: TempDir,
}

impl Site {
    /// The usual site: three nodes, two hosts.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A site with changes to the usual plan.
    pub async fn with(change: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = Plan::default();
        change(&mut plan);
        let dir = tempfile::tempdir().unwrap();
        for own in ["home", "tmp"] {
            std::fs::create_dir(dir.path().join(own)).unwrap();
        }
        let net = free_loopback_net(SSH_PORT);
        let key = dir.path().join("id_ed25519");
        let made = std::process::Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
            .arg(&key)
            .status()
            .unwrap();
        assert!(made.success(), "ssh-keygen");
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let options = Options {
            spec: plan.spec,
            durations: plan.durations,
            ssh_port: SSH_PORT,
            node_keys: vec![public],
            net,
            pihole_password: PIHOLE_PASSWORD.to_owned(),
            ..Options::new(dir.path().join("world"))
        };
        let sim = Simulator::start(options).await.unwrap();
        let site = Self { sim, net, dir };
        site.write_inventory(&plan.hosts, &plan.all, &plan.vms, &plan.vms_config);
        site
    }

    fn write_inventory(&self, hosts: &[String], all: &str, vms: &str, vms_config: &str) {
        let [a, b, c] = self.net;
        let hosts = hosts.join("\n");
        let nodes: String = self.sim.handle().look(|world| {
            world
                .nodes
                .iter()
                .map(|(name, node)| format!("{name} ansible_host={}\n", node.ip))
                .collect()
        });
        self.write(
            "inventory/hosts.ini",
            &format!("[vms]\n{hosts}\n\n[proxmox_nodes]\n{nodes}"),
        );
        let api = self.sim.api_address();
        let ca = self.sim.ca_file();
        let addresses: String = NAMES
            .iter()
            .enumerate()
            .map(|(index, name)| format!("  {name}: {a}.{b}.{c}.{}\n", index + 100))
            .collect();
        let pihole = self
            .sim
            .pihole()
            .map(|door| door.address().to_string())
            .unwrap_or_default();
        self.write(
            "inventory/group_vars/all.yml",
            &format!(
                "global_proxmox_api_host: {host}\nglobal_proxmox_api_port: {port}\n\
                 global_proxmox_api_ca_file: {ca}\nglobal_proxmox_api_user: automation@pve\n\
                 global_proxmox_api_token_id: vmwright\nglobal_proxmox_api_token: {token}\n\
                 pihole_api_host: {pihole}\npihole_password: {PIHOLE_PASSWORD}\n\
                 global_os:\n  debian_12: {{template: debian-12-cloudinit}}\n  ubuntu_24_server: {{template: ubuntu-server-24.04-cloudinit}}\n\
                 global_ip_addresses:\n{addresses}\
                 global_domain_name: test.example\nglobal_dns_servers: [{a}.{b}.{c}.3]\nglobal_timezone: Etc/UTC\n\
                 global_packages_list: [qemu-guest-agent]\nglobal_vm_template_user: ansible\n\
                 ansible_port: {SSH_PORT}\nansible_ssh_private_key_file: {key}\n{all}",
                host = api.ip(),
                port = api.port(),
                ca = ca.display(),
                token = vmwright::simulator::spec::DEMO_SECRET,
                key = self.path("id_ed25519").display(),
            ),
        );
        self.write(
            "inventory/group_vars/vms.yml",
            &format!("vms_os: debian_12\n{vms}vms_config:\n{vms_config}"),
        );
        self.write(
            "inventory/group_vars/proxmox_nodes.yml",
            "ansible_user: root\nansible_ssh_common_args: -o StrictHostKeyChecking=accept-new\n",
        );
        self.write(
            "inventory/vmwright.yaml",
            "state_dir: ../state\nknown_hosts: ../known_hosts\n",
        );
    }

    /// A path in the site's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the site.
    pub fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Reads a file of the site.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The address of the n-th host of `global_ip_addresses`.
    pub fn address(&self, index: u8) -> String {
        let [a, b, c] = self.net;
        format!("{a}.{b}.{c}.{}", 100 + index)
    }

    /// The command, not yet started: the real binary with a clean environment and this inventory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmwright"));
        command.args(args);
        // Every verb but these takes an inventory.
        if !matches!(args.first(), Some(&("completions" | "demo" | "simulator")) | None) {
            command.arg("-i").arg(self.path("inventory"));
        }
        command
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs the real binary with this inventory.
    pub async fn vmwright(&self, args: &[&str]) -> Run {
        Run::of(&self.command(args).output().await.unwrap())
    }

    /// The changes that were asked of the API so far: everything but GET.
    pub fn changes(&self) -> Vec<RequestRecord> {
        self.sim
            .requests()
            .into_iter()
            .filter(|request| request.method != "GET")
            .collect()
    }

    /// The names of VMs (templates left out) with their numbers.
    pub fn vms(&self) -> Vec<(u32, String)> {
        self.sim.handle().look(|world| {
            world
                .vms
                .values()
                .filter(|vm| !vm.is_template())
                .map(|vm| (vm.vmid, vm.name().to_owned()))
                .collect()
        })
    }

    /// A VM's configuration as it runs (current) as `key: value` lines.
    pub fn config(&self, name: &str) -> Vec<(String, String)> {
        self.sim.handle().look(|world| {
            let vm = world.vms.values().find(|vm| vm.name() == name).unwrap();
            vm.config
                .current
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}
