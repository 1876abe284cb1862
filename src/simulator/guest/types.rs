//! What the cluster gives a guest and asks about it: images, behaviours, drives, devices.

use serde::{Deserialize, Serialize};

use super::status::CloudInitVersion;

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
