//! The software inside a simulated VM: a state machine over epoch milliseconds that a world keeps in its file.
//!
//! ```text
//!   off --power_on--> booting --agent--> --init stage (users, keys, network)--> sshd answers --> cloud-init over
//!    ^                   ^                                                          |
//!    |                   +---- reboot from inside, reset (same QEMU process) -------+
//!    +---- power_off, shutdown ----------------------------------------------------+
//! ```
//!
//! The happy path: the first boot with a seed applies the documents (they are really read, see [`documents`]), makes SSH
//! host keys and runs to `done`. A later boot with the same instance id applies nothing again. The boot after the drive
//! is gone is `disabled` and changes nothing. What differs from that:
//!
//! * an image whose datasource list ends in None takes the fallback there: new host keys, DHCP instead of the static
//!   address, the default user with sudo. `/etc/cloud/cloud-init.disabled` or `manual_cache_clean` prevent it;
//! * user-data that is not applied leaves no user that could log in, with 22.4 still saying `done`;
//! * [`GuestBehaviour`] holds what a scripted fault may change.
//!
//! Sources: cloud-init 22.4.2 and 25.1.4 on booted Debian guests. This module does no I/O, but for two looks at the
//! guest's root directory where it has one (see [`Guest::attach`]).

pub mod documents;
mod files;
pub mod keys;
mod lifecycle;
#[cfg(test)]
mod recordings;
pub mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use russh::keys::PrivateKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::documents::{Interface, User, WrittenFile};
pub use self::files::TruthFile;
pub use self::status::CloudInitVersion;
use self::status::{Disabled, Printed, Report, Source, Stage, View};
use super::clock::Durations;
use super::shell::{self, Login, Machine, Shell};

/// What stands on the cloud-init drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// user-data
    pub user_data: String,
    /// network-config (empty: none)
    pub network_data: String,
    /// meta-data
    pub meta_data: String,
}

/// How cloud-init ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudInitEnd {
    /// As the documents deserve.
    #[default]
    Done,
    /// With recoverable errors (22.4 does not know such).
    Degraded,
    /// With an error in the final stage.
    Error,
    /// It reports `disabled`, while something else (an image's own agent) applied the documents.
    Disabled,
    /// It stays in its final stage.
    NeverEnds,
}

/// How a guest behaves. A rule of the world may replace it per VM name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuestBehaviour {
    /// sshd and agent never answer.
    pub never_boots: bool,
    /// The boot takes this many times as long.
    pub slow_boot_factor: f64,
    /// ACPI and agent shutdown requests do nothing.
    pub ignores_shutdown: bool,
    /// No login succeeds.
    pub login_fails: bool,
    /// How cloud-init ends.
    pub cloud_init: CloudInitEnd,
    /// The guest restarts itself once during its first boot.
    pub reboots_itself: bool,
    /// cloud-init's version.
    pub cloud_init_version: CloudInitVersion,
    /// The datasource list ends in None: without the drive and the switch the next boot loses address and host keys.
    pub datasource_none_fallback: bool,
    /// `cloud-init` is not installed as a command (exit code 127); the documents are applied nevertheless.
    pub no_cloud_init_command: bool,
    /// `python3` is not there.
    pub no_python: bool,
    /// `sudo` asks for a password, whatever the user-data says.
    pub no_sudo: bool,
    /// The renderer is networkd: `to: default` in network-config stops cloud-init-local, and there is no network.
    pub networkd_renderer: bool,
}

impl Default for GuestBehaviour {
    fn default() -> Self {
        Self {
            never_boots: false,
            slow_boot_factor: 1.0,
            ignores_shutdown: false,
            login_fails: false,
            cloud_init: CloudInitEnd::Done,
            reboots_itself: false,
            cloud_init_version: CloudInitVersion::V25,
            datasource_none_fallback: false,
            no_cloud_init_command: false,
            no_python: false,
            no_sudo: false,
            networkd_renderer: false,
        }
    }
}

/// The software of a template's disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuestImage {
    /// `debian` or `ubuntu`.
    pub os: String,
    /// `12`, `24.04`.
    pub os_version: String,
    /// Whether the guest agent is installed.
    pub agent: bool,
    /// The image's default user.
    pub default_user: String,
}

impl Default for GuestImage {
    fn default() -> Self {
        Self {
            os: "debian".to_owned(),
            os_version: "12".to_owned(),
            agent: true,
            default_user: "debian".to_owned(),
        }
    }
}

/// A network device as QEMU gives it to the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// The N of netN.
    pub index: u8,
    /// `BC:24:11:..`
    pub mac: String,
    /// The bridge.
    pub bridge: String,
    /// Whether the cable is out.
    pub link_down: bool,
    /// The address (with prefix) that the network's DHCP gives to this MAC.
    pub dhcp_address: String,
}

/// A cold start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerOn {
    /// When.
    pub now_ms: u64,
    /// The cloud-init drive's content; none without such a drive.
    pub seed: Option<Seed>,
    /// Network devices.
    pub nics: Vec<Nic>,
    /// Whether the agent's device is there.
    pub agent_device: bool,
    /// How the guest behaves in this run of QEMU.
    pub behaviour: GuestBehaviour,
}

/// What a command gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What survives on the disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Disk {
    host_name: String,
    fqdn: String,
    users: Vec<User>,
    root_keys: Vec<String>,
    key_generation: u32,
    given_host_keys: Vec<String>,
    instance_id: Option<String>,
    source: Option<Source>,
    interfaces: Vec<Interface>,
    files: Vec<WrittenFile>,
    packages: Vec<String>,
    timezone: Option<String>,
    runcmd_runs: u32,
    restarted_itself: bool,
    cloud_init_disabled: bool,
    manual_cache_clean: bool,
}

/// One boot of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Boot {
    number: u32,
    id: String,
    started_ms: u64,
    agent_ms: u64,
    ssh_ms: u64,
    /// init, config, final, over.
    times_ms: [u64; 4],
    disabled: Option<Disabled>,
    source: Source,
    /// Whether this boot's instance id is new.
    first: bool,
    applied: bool,
    stage: Stage,
    report: Report,
    agent_up: bool,
    ssh_up: bool,
    restarts_ms: Option<u64>,
    power_state: Option<documents::PowerState>,
}

/// What comes after the services have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Then {
    Off,
    Boot,
}

/// One run of the QEMU process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    on: PowerOn,
    durations: Durations,
    boot: Boot,
    ending: Option<(u64, Then)>,
}

/// The software inside a VM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    image: GuestImage,
    seed: u64,
    boots: u32,
    revision: u64,
    disk: Disk,
    run: Option<Run>,
    #[serde(skip)]
    root: Option<PathBuf>,
    #[serde(skip)]
    shell: Option<Shell>,
    #[serde(skip)]
    host_key_cache: OnceLock<Vec<PrivateKey>>,
    /// What was last written to the root directory: path and hash of the content.
    #[serde(skip)]
    pub(super) written: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(super) written_revision: Option<u64>,
}

impl Guest {
    /// A disk fresh from a template. `seed` makes its random parts (host keys, machine id) its own.
    pub fn new_from_template(image: &GuestImage, seed: u64) -> Self {
        Self {
            disk: Disk {
                host_name: image.os.clone(),
                ..Disk::default()
            },
            image: image.clone(),
            seed,
            boots: 0,
            revision: 0,
            run: None,
            root: None,
            shell: None,
            host_key_cache: OnceLock::new(),
            written: BTreeMap::new(),
            written_revision: None,
        }
    }

    /// The number that its random parts follow from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Grows with each change that can be seen in the guest's files, addresses or doors.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Says where the guest's root directory is and how commands run there; the files are written by the doors.
    pub fn attach(&mut self, root: &Path, shell: &Shell) {
        self.root = Some(root.to_owned());
        self.shell = Some(shell.clone());
    }

    /// The guest's root directory, once attached.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Whether the guest is powered: false once it has powered itself off.
    pub fn is_powered(&self) -> bool {
        self.run.is_some()
    }

    /// The random id of the present boot; none when off.
    pub fn boot_id(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.boot.id.as_str())
    }

    /// The number of the present boot, from 1; none when off or going down.
    pub fn boot_number(&self) -> Option<u32> {
        self.run
            .as_ref()
            .filter(|run| run.ending.is_none())
            .map(|run| run.boot.number)
    }

    /// Whether sshd answers.
    pub fn ssh_answers(&self, now_ms: u64) -> bool {
        self.run.as_ref().is_some_and(|run| {
            run.ending.is_none() && run.boot.ssh_up && run.boot.ssh_ms <= now_ms && self.disk.key_generation > 0
        })
    }

    /// Whether the guest agent answers.
    pub fn agent_answers(&self, now_ms: u64) -> bool {
        self.image.agent
            && self.run.as_ref().is_some_and(|run| {
                run.on.agent_device && run.ending.is_none() && run.boot.agent_up && run.boot.agent_ms <= now_ms
            })
    }

    /// Whether a login would be accepted: the user exists, has the key (`type base64`), and logins work.
    pub fn accepts(&self, user: &str, public_key: &str) -> bool {
        let Some(run) = &self.run else { return false };
        if run.on.behaviour.login_fails {
            return false;
        }
        let mut keys = self
            .disk
            .users
            .iter()
            .filter(|u| u.name == user)
            .flat_map(|u| &u.keys)
            .chain(self.disk.root_keys.iter().filter(|_| user == "root"));
        keys.any(|line| keys::line_has_key(line, public_key))
    }

    /// Whether `sudo` works for a user without a password.
    pub fn has_sudo(&self, user: &str) -> bool {
        let rules = self.disk.users.iter().find(|u| u.name == user).map(|u| &u.sudo);
        let written = |f: &WrittenFile| f.path.starts_with("/etc/sudoers.d/") && f.content.contains("NOPASSWD");
        let no_sudo = self.run.as_ref().is_some_and(|run| run.on.behaviour.no_sudo);
        let allowed = rules.is_some_and(|rules| rules.iter().any(|rule| rule.contains("NOPASSWD")));
        let by_file = rules.is_some() && self.disk.files.iter().any(written);
        user == "root" || (!no_sudo && (allowed || by_file))
    }

    /// The behaviour of this run of QEMU.
    pub fn behaviour(&self) -> Option<&GuestBehaviour> {
        self.run.as_ref().map(|run| &run.on.behaviour)
    }

    /// The host keys that sshd has now.
    pub fn host_keys(&self) -> Vec<PrivateKey> {
        self.host_key_cache.get_or_init(|| self.make_host_keys()).clone()
    }

    fn make_host_keys(&self) -> Vec<PrivateKey> {
        let given: Vec<_> = self
            .disk
            .given_host_keys
            .iter()
            .filter_map(|text| PrivateKey::from_openssh(text).ok())
            .collect();
        if given.is_empty() {
            let comment = format!("root@{}", self.disk.host_name);
            keys::host_keys(&format!("guest {}", self.seed), self.disk.key_generation, &comment)
        } else {
            given
        }
    }

    /// Counts the sets of host keys that there have been; 0 before the first.
    pub fn key_generation(&self) -> u32 {
        self.disk.key_generation
    }

    /// The addresses (without prefix) at which the guest answers.
    pub fn addresses(&self, now_ms: u64) -> Vec<String> {
        let bare = |cidr: &String| cidr.split('/').next().unwrap_or_default().to_owned();
        self.live_interfaces(now_ms)
            .iter()
            .flat_map(|i| i.addresses.iter().map(bare))
            .collect()
    }

    /// The configured interfaces whose cable is in, with the addresses that DHCP gave; none while off or before the
    /// network is up.
    pub fn live_interfaces(&self, _now_ms: u64) -> Vec<Interface> {
        let Some(run) = self.run.as_ref().filter(|run| run.ending.is_none()) else {
            return Vec::new();
        };
        if run.boot.stage == Stage::Waiting && run.boot.disabled.is_none() && !run.boot.applied {
            return Vec::new();
        }
        if run.on.behaviour.never_boots {
            return Vec::new();
        }
        let mut live = Vec::new();
        for interface in &self.disk.interfaces {
            let mut interface = interface.clone();
            let nic = run
                .on
                .nics
                .iter()
                .find(|nic| nic.mac.eq_ignore_ascii_case(&interface.mac));
            if nic.is_some_and(|nic| nic.link_down) || (nic.is_none() && !run.on.nics.is_empty()) {
                continue;
            }
            if let Some(nic) = nic.filter(|nic| interface.dhcp && !nic.dhcp_address.is_empty()) {
                interface.addresses.push(nic.dhcp_address.clone());
            }
            live.push(interface);
        }
        live
    }

    /// `network-get-interfaces`: the list under `result`.
    pub fn interfaces_json(&self, now_ms: u64) -> Value {
        let mut list = vec![json!({
            "name": "lo",
            "hardware-address": "00:00:00:00:00:00",
            "ip-addresses": [
                {"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8},
                {"ip-address": "::1", "ip-address-type": "ipv6", "prefix": 128}
            ],
            "statistics": statistics(),
        })];
        for interface in self.live_interfaces(now_ms) {
            let addresses: Vec<Value> = interface
                .addresses
                .iter()
                .map(|cidr| {
                    let (address, prefix) = split_cidr(cidr);
                    let kind = if address.contains(':') { "ipv6" } else { "ipv4" };
                    json!({"ip-address": address, "ip-address-type": kind, "prefix": prefix})
                })
                .collect();
            let mut entry = json!({
                "name": interface.name,
                "hardware-address": interface.mac.to_lowercase(),
                "statistics": statistics(),
            });
            if !addresses.is_empty() {
                entry["ip-addresses"] = Value::Array(addresses);
            }
            list.push(entry);
        }
        Value::Array(list)
    }

    /// `get-host-name`.
    pub fn host_name(&self) -> String {
        self.disk.host_name.clone()
    }

    /// The full name, or the short one where there is none.
    pub fn fqdn(&self) -> String {
        if self.disk.fqdn.is_empty() {
            self.disk.host_name.clone()
        } else {
            self.disk.fqdn.clone()
        }
    }

    /// `get-osinfo`: the object under `result`.
    pub fn osinfo_json(&self) -> Value {
        let (name, pretty) = self.os_names();
        json!({
            "id": self.image.os, "name": name, "pretty-name": pretty, "version-id": self.image.os_version,
            "version": self.image.os_version, "machine": "x86_64", "kernel-release": "6.1.0-50-cloud-amd64",
        })
    }

    fn os_names(&self) -> (&'static str, String) {
        let name = match self.image.os.as_str() {
            "ubuntu" => "Ubuntu",
            "debian" => "Debian GNU/Linux",
            _ => "Linux",
        };
        (name, format!("{name} {}", self.image.os_version))
    }

    /// What `cloud-init status` prints; none when off or when the command is not installed.
    pub fn cloud_init(&self) -> Option<Printed> {
        let run = self.run.as_ref()?;
        (!run.on.behaviour.no_cloud_init_command).then(|| view(run).printed())
    }

    /// Whether an address is configured and answers now.
    pub fn has_address(&self, now_ms: u64, address: &str) -> bool {
        self.addresses(now_ms).iter().any(|own| own == address)
    }
}

fn view(run: &Run) -> View<'_> {
    View {
        version: run.on.behaviour.cloud_init_version,
        disabled: run.boot.disabled,
        stage: run.boot.stage,
        source: run.boot.source,
        report: &run.boot.report,
        started_ms: run.boot.started_ms,
        times_ms: run.boot.times_ms,
    }
}

fn split_cidr(cidr: &str) -> (&str, u32) {
    let (address, prefix) = cidr.split_once('/').unwrap_or((cidr, ""));
    let whole = if address.contains(':') { 128 } else { 32 };
    (address, prefix.parse().unwrap_or(whole))
}

fn statistics() -> Value {
    json!({"rx-bytes": 0, "rx-dropped": 0, "rx-errs": 0, "rx-packets": 0, "tx-bytes": 0, "tx-dropped": 0, "tx-errs": 0, "tx-packets": 0})
}

impl Guest {
    /// Runs a command as root through the agent, really, in the guest's root directory (without one nothing can run). It
    /// blocks the caller for at most five seconds.
    pub fn agent_exec(&mut self, now_ms: u64, _d: &Durations, command: &[String], input: &[u8]) -> ExecResult {
        let failed = |text: String| ExecResult {
            code: 127,
            stdout: String::new(),
            stderr: text,
        };
        let (Some(root), Some(shell)) = (self.root.clone(), self.shell.clone()) else {
            return failed("the guest has no root directory".to_owned());
        };
        if let Err(error) = shell::sync(self, &root, &shell, now_ms) {
            return failed(error.to_string());
        }
        let login = Login {
            // The number only matters to requests such as reboot, and those name it by the root's.
            machine: Machine::Guest(root.file_name().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(0)),
            root,
            user: "root".to_owned(),
            sudo: true,
            no_python: self.behaviour().is_some_and(|b| b.no_python),
            no_cloud_init: self.behaviour().is_some_and(|b| b.no_cloud_init_command),
        };
        let result = shell::run_blocking(&shell, &login, command, input);
        self.read_switches();
        result.unwrap_or_else(|error| failed(error.to_string()))
    }

    /// Reads a file as root through the agent; the error is QGA's text.
    ///
    /// # Errors
    /// The file is not there.
    pub fn agent_read_file(&self, now_ms: u64, path: &str) -> Result<Vec<u8>, String> {
        let below = path.trim_start_matches('/');
        let from_disk = || self.root.as_ref().and_then(|root| std::fs::read(root.join(below)).ok());
        let from_model = || {
            let files = self.files(now_ms);
            files
                .into_iter()
                .find(|f| f.path == below)
                .and_then(|f| f.content)
                .map(String::into_bytes)
        };
        from_model()
            .or_else(from_disk)
            .ok_or_else(|| format!("failed to open file '{path}' (mode: 'r'): No such file or directory"))
    }
}
