//! STAND-IN until the real guest state machine is merged (its author replaces this file whole): the data types and the
//! signatures are the interface that the cluster model uses.

use serde::{Deserialize, Serialize};

use super::clock::Durations;

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
    /// Well.
    #[default]
    Done,
    /// With recoverable errors.
    Degraded,
    /// With errors.
    Error,
    /// It does not run.
    Disabled,
    /// It never ends.
    NeverEnds,
}

/// The cloud-init of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudInitVersion {
    /// 22.4 (Debian 12).
    V22,
    /// 25.1 (Debian 13).
    #[default]
    V25,
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

/// What a command that the agent ran gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The software inside a VM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    image: GuestImage,
    on: Option<PowerOn>,
    up_at: u64,
    off_at: Option<u64>,
}

impl Guest {
    /// A disk fresh from a template. `seed` makes its random parts (host keys, machine id) its own.
    pub fn new_from_template(image: &GuestImage, _seed: u64) -> Self {
        Self {
            image: image.clone(),
            on: None,
            up_at: 0,
            off_at: None,
        }
    }

    /// QEMU starts.
    pub fn power_on(&mut self, on: PowerOn, d: &Durations) {
        self.up_at = on.now_ms + d.boot;
        self.off_at = None;
        self.on = Some(on);
    }

    /// QEMU is killed.
    pub fn power_off(&mut self, _now_ms: u64) {
        self.on = None;
        self.off_at = None;
    }

    /// The power button, or the agent's shutdown. When the guest will have powered itself off; none: it ignores it.
    pub fn acpi_shutdown(&mut self, now_ms: u64, d: &Durations) -> Option<u64> {
        if self
            .on
            .as_ref()
            .is_some_and(|on| on.behaviour.ignores_shutdown || on.behaviour.never_boots)
        {
            return None;
        }
        self.off_at = Some(now_ms + d.shutdown);
        self.off_at
    }

    /// The reset button: the same QEMU process, a new boot.
    pub fn reset(&mut self, now_ms: u64, d: &Durations) {
        self.up_at = now_ms + d.boot;
    }

    /// Lets time pass up to `now_ms`.
    pub fn advance(&mut self, now_ms: u64) {
        if self.off_at.is_some_and(|at| at <= now_ms) {
            self.on = None;
            self.off_at = None;
        }
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<u64> {
        self.off_at
    }

    /// Whether the guest is powered: false once it has powered itself off.
    pub fn is_powered(&self) -> bool {
        self.on.is_some()
    }

    /// Whether the guest agent answers.
    pub fn agent_answers(&self, now_ms: u64) -> bool {
        self.image.agent && self.on.as_ref().is_some_and(|on| on.agent_device) && now_ms >= self.up_at
    }

    /// The addresses (without prefix) at which the guest answers.
    pub fn addresses(&self, _now_ms: u64) -> Vec<String> {
        Vec::new()
    }

    /// `network-get-interfaces`: the list under `result`.
    pub fn interfaces_json(&self, _now_ms: u64) -> serde_json::Value {
        serde_json::json!([])
    }

    /// `get-host-name`.
    pub fn host_name(&self) -> String {
        "localhost".to_owned()
    }

    /// `get-osinfo`: the object under `result`.
    pub fn osinfo_json(&self) -> serde_json::Value {
        serde_json::json!({"id": self.image.os, "version-id": self.image.os_version})
    }

    /// Runs a command as root through the agent.
    pub fn agent_exec(&mut self, _now_ms: u64, _d: &Durations, _command: &[String], _input: &[u8]) -> ExecResult {
        ExecResult {
            code: 127,
            ..ExecResult::default()
        }
    }

    /// Reads a file as root through the agent; the error is QGA's text.
    pub fn agent_read_file(&self, _now_ms: u64, path: &str) -> Result<Vec<u8>, String> {
        Err(format!(
            "failed to open file '{path}' (mode: 'r'): No such file or directory"
        ))
    }
}
