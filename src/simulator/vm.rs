//! A VM as the cluster sees it: its configuration with pending changes, its power, its guest.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::guest::{Guest, GuestBehaviour, GuestImage};
use super::props::{Drive, agent_enabled, boot_order, is_bus_drive, parse_size, prop};

/// A configuration file: the current values, and what waits for the next cold start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Current values in their order.
    pub current: IndexMap<String, String>,
    /// Pending values.
    pub pending: IndexMap<String, String>,
    /// Pending removals; true: with the volume (`force`).
    pub removals: IndexMap<String, bool>,
    /// Snapshots by name.
    pub snapshots: IndexMap<String, Snapshot>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The values then.
    pub values: IndexMap<String, String>,
    /// Its description.
    pub description: Option<String>,
    /// Epoch seconds.
    pub time: u64,
}

impl Config {
    /// A current value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.current.get(key).map(String::as_str)
    }

    /// The value once pending changes are applied.
    pub fn next(&self, key: &str) -> Option<&str> {
        match self.pending.get(key) {
            Some(value) => Some(value),
            None if self.removals.contains_key(key) => None,
            None => self.get(key),
        }
    }

    /// All values once pending changes are applied.
    pub fn applied(&self) -> IndexMap<String, String> {
        let mut all = self.current.clone();
        all.retain(|key, _| !self.removals.contains_key(key));
        for (key, value) in &self.pending {
            all.insert(key.clone(), value.clone());
        }
        all
    }

    /// The text of the file, which the digest is of.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let mut sorted: Vec<_> = self.current.iter().collect();
        sorted.sort();
        for (key, value) in sorted {
            lines.push(format!("{key}: {value}"));
        }
        if !self.pending.is_empty() || !self.removals.is_empty() {
            lines.push("[PENDING]".to_owned());
            for (key, value) in &self.pending {
                lines.push(format!("{key}: {value}"));
            }
            for (key, force) in &self.removals {
                lines.push(format!("delete: {}{key}", if *force { "!" } else { "" }));
            }
        }
        for (name, snapshot) in &self.snapshots {
            lines.push(format!("[{name}]"));
            for (key, value) in &snapshot.values {
                lines.push(format!("{key}: {value}"));
            }
            lines.push(format!("description: {:?}", snapshot.description));
        }
        lines.join("\n")
    }

    /// Forty hexadecimal digits that change with the file.
    pub fn digest(&self) -> String {
        super::world::hex_digest(&self.text())
    }

    /// The drives of a set of values, in the order of the slots.
    pub(crate) fn drives(values: &IndexMap<String, String>) -> Vec<(String, Drive)> {
        let mut drives: Vec<(String, Drive)> = values
            .iter()
            .filter(|(key, _)| super::props::is_drive(key))
            .map(|(key, value)| (key.clone(), Drive::parse(value)))
            .collect();
        let slots = super::schema::values::DISK_SLOTS;
        drives.sort_by_key(|(key, _)| slots.iter().position(|slot| slot == key));
        drives
    }

    /// The slot of the cloud-init drive.
    pub fn cloudinit_slot(&self) -> Option<String> {
        Self::drives(&self.current)
            .into_iter()
            .find(|(_, drive)| drive.is_cloudinit())
            .map(|(key, _)| key)
    }

    /// Every volume id that the file names, in current, pending, unused entries and snapshots.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let mut all = Vec::new();
        let sections = [&self.current, &self.pending]
            .into_iter()
            .chain(self.snapshots.values().map(|s| &s.values));
        for values in sections {
            for (key, value) in values {
                if super::props::is_drive(key) || super::props::is_unused(key) {
                    let drive = Drive::parse(value);
                    if drive.has_volume() && !all.contains(&drive.file) {
                        all.push(drive.file);
                    }
                }
            }
        }
        all
    }
}

/// Whether QEMU runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    /// No process.
    #[default]
    Stopped,
    /// A process.
    Running(Process),
}

/// A QEMU process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in milliseconds.
    pub since_ms: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it has the agent's device: what the config said at the start.
    pub agent: bool,
}

/// A VM or template.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vm {
    /// Its number.
    pub vmid: u32,
    /// The node that owns its file.
    pub node: String,
    /// Its file.
    pub config: Config,
    /// Its power.
    pub power: Power,
    /// The software on its disks.
    pub guest: Guest,
    /// What a clone starts from.
    pub image: GuestImage,
    /// How the guest behaves.
    pub behaviour: GuestBehaviour,
    /// Whether the guest has been started since it was made.
    pub booted: bool,
    /// Whether a reboot through the API waits for the process's end.
    pub reboot_requested: bool,
    /// What the agent's commands gave, by their pid.
    pub agent_results: IndexMap<u32, super::guest::ExecResult>,
}

impl Vm {
    /// Its name, as lists show it.
    pub fn name(&self) -> String {
        self.config
            .get("name")
            .map_or_else(|| format!("VM {}", self.vmid), str::to_owned)
    }

    /// Whether it is a template.
    pub fn is_template(&self) -> bool {
        self.config.get("template") == Some("1")
    }

    /// The lock word.
    pub fn lock(&self) -> Option<&str> {
        self.config.get("lock")
    }

    /// Whether QEMU runs.
    pub fn is_running(&self) -> bool {
        matches!(self.power, Power::Running(_))
    }

    /// The process.
    pub fn process(&self) -> Option<&Process> {
        match &self.power {
            Power::Running(process) => Some(process),
            Power::Stopped => None,
        }
    }

    /// `running`, `paused` or `stopped`, as QEMU says.
    pub(crate) fn qmp_status(&self) -> &'static str {
        match self.process() {
            Some(process) if process.paused => "paused",
            Some(_) => "running",
            None => "stopped",
        }
    }

    /// The uuid in `smbios1`.
    pub fn uuid(&self) -> Option<&str> {
        prop(self.config.get("smbios1")?, "uuid", "")
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.config
            .get("memory")
            .and_then(|text| prop(text, "current", "current"))
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(512)
            << 20
    }

    /// Processors.
    pub(crate) fn cpus(&self) -> u64 {
        let number = |key| self.config.get(key).and_then(|n| n.parse::<u64>().ok());
        number("vcpus").unwrap_or_else(|| number("sockets").unwrap_or(1) * number("cores").unwrap_or(1))
    }

    /// The boot disk's slot: the first disk of the boot order, else the first disk.
    pub(crate) fn boot_disk(&self) -> Option<String> {
        let drives = Config::drives(&self.config.current);
        let is_disk = |slot: &str| {
            drives
                .iter()
                .any(|(key, drive)| key == slot && is_bus_drive(key) && !drive.is_cdrom())
        };
        if let Some(order) = self.config.get("boot").and_then(boot_order) {
            return order.into_iter().find(|slot| is_disk(slot));
        }
        drives.iter().map(|(key, _)| key.clone()).find(|slot| is_disk(slot))
    }

    /// The boot disk's size, as its drive text says.
    pub(crate) fn max_disk(&self) -> u64 {
        self.boot_disk()
            .and_then(|slot| {
                let drive = Drive::parse(self.config.get(&slot)?);
                parse_size(drive.option("size")?)
            })
            .unwrap_or(0)
    }

    /// Whether the agent is configured.
    pub(crate) fn agent(&self) -> bool {
        self.config.get("agent").is_some_and(agent_enabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_changes_show_in_applied_and_in_the_digest() {
        let mut config = Config::default();
        config.current.insert("cores".to_owned(), "1".to_owned());
        config
            .current
            .insert("ide2".to_owned(), "local-lvm:vm-100-cloudinit,media=cdrom".to_owned());
        let before = config.digest();
        assert_eq!(before.len(), 40);
        config.removals.insert("ide2".to_owned(), false);
        config.pending.insert("cores".to_owned(), "2".to_owned());
        assert_ne!(config.digest(), before);
        assert_eq!(config.next("ide2"), None);
        assert_eq!(config.applied().get("cores").map(String::as_str), Some("2"));
        assert_eq!(config.get("cores"), Some("1"));
        assert_eq!(config.cloudinit_slot().as_deref(), Some("ide2"));
    }
}
