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

mod agent;
pub mod documents;
mod files;
pub mod keys;
mod lifecycle;
pub mod network;
#[cfg(test)]
mod recordings;
pub mod status;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use russh::keys::PrivateKey;
use serde::{Deserialize, Serialize};

use self::documents::{User, WrittenFile};

pub use self::files::TruthFile;
use self::network::Interface;
pub use self::status::CloudInitVersion;
use self::status::{Disabled, Printed, Report, Source, Stage, View};
pub use self::types::{CloudInitEnd, ExecResult, GuestBehaviour, GuestImage, Nic, PowerOn, Seed};
use super::clock::Durations;
use super::shell::Shell;

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

    /// Whether it was ever powered on: a template's was not.
    pub fn has_run(&self) -> bool {
        self.boots > 0
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
            let fits =
                |nic: &&Nic| nic.mac.eq_ignore_ascii_case(&interface.mac) || device_name(nic.index) == interface.name;
            let nic = run.on.nics.iter().find(fits);
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

/// The name of netN without any renaming: its PCI slot is 18 + N (qemu-server, i440fx).
fn device_name(index: u8) -> String {
    format!("ens{}", 18 + u32::from(index))
}

fn split_cidr(cidr: &str) -> (&str, u32) {
    let (address, prefix) = cidr.split_once('/').unwrap_or((cidr, ""));
    let whole = if address.contains(':') { 128 } else { 32 };
    (address, prefix.parse().unwrap_or(whole))
}
