//! The one table of variables: what each is called, what it is when nobody sets it, what it means and which rule it obeys.
//!
//! Three things are derived from it: the defaults that [`super::build`] takes, the detection of unknown keys with the
//! suggestion of the nearest known one, and the reference in `docs/inventory-reference.md`.
//!
//! A name is a path: `vms_config.disk_os.size`. `diskN`, `nicN`, `netN` and `serialN` stand for every index.

mod hardware;
mod table;

use crate::diagnose::nearest;

pub use table::SECTIONS;

/// What a variable is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It has to be set.
    Required,
    /// Nothing: what it would say is left to the template, the image or Proxmox.
    Nothing,
    /// This text, read as if it stood in the inventory.
    Text(&'static str),
    /// Something worked out from other variables; the text tells how.
    Derived(&'static str),
}

/// Whether a variable has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has.
    Used,
    /// It has none any more; setting it is warned about.
    Deprecated,
    /// It has none here, and that is as it should be: it belongs to something that vmwright replaces.
    Ignored,
}

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its path.
    pub name: &'static str,
    /// Its type, in words.
    pub kind: &'static str,
    /// What it is when nobody sets it.
    pub fallback: Fallback,
    /// What it means.
    pub meaning: &'static str,
    /// The rule that it obeys; empty where the type says it all.
    pub rule: &'static str,
    /// The Proxmox parameter that it becomes; empty where there is none.
    pub proxmox: &'static str,
    /// Whether its value may never be shown.
    pub secret: bool,
    /// Whether it has an effect.
    pub status: Status,
}

impl Variable {
    const fn new(name: &'static str, kind: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            kind,
            fallback: Fallback::Nothing,
            meaning,
            rule: "",
            proxmox: "",
            secret: false,
            status: Status::Used,
        }
    }

    const fn required(mut self) -> Self {
        self.fallback = Fallback::Required;
        self
    }

    const fn default(mut self, text: &'static str) -> Self {
        self.fallback = Fallback::Text(text);
        self
    }

    const fn derived(mut self, how: &'static str) -> Self {
        self.fallback = Fallback::Derived(how);
        self
    }

    const fn rule(mut self, rule: &'static str) -> Self {
        self.rule = rule;
        self
    }

    const fn proxmox(mut self, key: &'static str) -> Self {
        self.proxmox = key;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn deprecated(mut self) -> Self {
        self.status = Status::Deprecated;
        self
    }

    const fn ignored(mut self) -> Self {
        self.status = Status::Ignored;
        self
    }
}

/// The templates that `global_os` names when it is not defined.
pub const TEMPLATES: &[(&str, &str)] = &[("ubuntu_24_server", "ubuntu-server-24.04-cloudinit")];

/// Every variable.
pub fn variables() -> impl Iterator<Item = &'static Variable> {
    SECTIONS.iter().flat_map(|(_, variables)| *variables)
}

/// The variable of a path, with or without indices.
pub fn variable(path: &str) -> Option<&'static Variable> {
    let general: Vec<String> = path.split('.').map(general).collect();
    let general = general.join(".");
    variables().find(|v| v.name == general)
}

/// The text that stands for a variable when nobody sets it.
pub fn default_text(path: &str) -> Option<&'static str> {
    match variable(path)?.fallback {
        Fallback::Text(text) => Some(text),
        Fallback::Required | Fallback::Nothing | Fallback::Derived(_) => None,
    }
}

/// The keys right under a mapping, each with the lowest index where it has one.
pub fn keys_under(path: &str) -> Vec<String> {
    let general: Vec<String> = path.split('.').map(general).collect();
    let prefix = format!("{}.", general.join("."));
    let mut keys: Vec<String> = Vec::new();
    for key in variables().filter_map(|v| v.name.strip_prefix(&prefix)) {
        let key = key.split('.').next().unwrap_or(key);
        let key = match key.strip_suffix('N') {
            Some(family) => format!("{family}{}", first_index(family)),
            None => key.to_owned(),
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The known key under a mapping that was probably meant.
pub fn suggest_under(path: &str, given: &str) -> Option<String> {
    let keys = keys_under(path);
    nearest(given, keys.iter().map(String::as_str)).map(str::to_owned)
}

/// The index of a member of an indexed family: `2` of `disk2` for the family `disk`. Leading zeros are no index.
pub fn index_of(key: &str, family: &str) -> Option<u8> {
    let digits = key.strip_prefix(family)?;
    let plain = digits == "0" || (digits.starts_with(|c: char| ('1'..='9').contains(&c)));
    if !plain || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let index: u8 = digits.parse().ok()?;
    (first_index(family)..=last_index(family))
        .contains(&index)
        .then_some(index)
}

/// The families of indexed keys.
const FAMILIES: [&str; 4] = ["disk", "nic", "net", "serial"];

fn first_index(family: &str) -> u8 {
    if family == "disk" { 2 } else { 0 }
}

/// qemu-server: `net0` to `net31`, `serial0` to `serial3`; disks are bounded by the slots (16 virtio, 31 scsi, ...).
fn last_index(family: &str) -> u8 {
    match family {
        "serial" => 3,
        "disk" => 57,
        _ => 31,
    }
}

/// A segment with its index replaced by `N`.
fn general(segment: &str) -> String {
    FAMILIES
        .iter()
        .find(|family| index_of(segment, family).is_some())
        .map_or_else(|| segment.to_owned(), |family| format!("{family}N"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_explicit_and_bounded() {
        let table = [
            ("disk2", "disk", Some(2)),
            ("disk1", "disk", None),
            ("disk02", "disk", None),
            ("nic0", "nic", Some(0)),
            ("nic31", "nic", Some(31)),
            ("nic32", "nic", None),
            ("nic", "nic", None),
            ("net-1", "net", None),
            ("serial3", "serial", Some(3)),
            ("serial4", "serial", None),
        ];
        for (key, family, want) in table {
            assert_eq!(index_of(key, family), want, "{key}");
        }
    }

    #[test]
    fn a_path_with_indices_finds_its_row() {
        assert_eq!(variable("vms_config.disk3.size").unwrap().name, "vms_config.diskN.size");
        assert_eq!(
            variable("vms_config.network.nic1.tag").unwrap().name,
            "vms_config.network.nicN.tag"
        );
        assert!(variable("vms_config.disk1.size").is_none());
        assert_eq!(default_text("vms_proxmox_node"), Some("pve-0"));
        assert_eq!(default_text("vms_os"), None);
    }

    #[test]
    fn suggestions_come_from_the_table() {
        assert_eq!(suggest_under("vms_config", "coers").as_deref(), Some("cores"));
        assert_eq!(suggest_under("vms_config.disk2", "sise").as_deref(), Some("size"));
        assert_eq!(suggest_under("vms_config", "frobnicate"), None);
    }

    #[test]
    fn names_are_unique_and_parents_are_rows_too() {
        let names: Vec<&str> = variables().map(|v| v.name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} twice");
            if let Some((parent, _)) = name.rsplit_once('.') {
                assert!(names.contains(&parent), "{name} has no parent row");
            }
        }
    }
}
