//! What differs between the declared hardware and a configuration, as the calls that mend it. Pure.

use std::collections::BTreeSet;

use crate::engine::event::Change;
use crate::machine::{ExtraDisk, Machine};
use crate::proxmox::boot::BootOrder;
use crate::proxmox::config::VmConfig;
use crate::proxmox::drive::{self, Slot};
use crate::proxmox::nic::NicConfig;
use crate::proxmox::size::Size;
use crate::stage::clone::unmarked;

/// What is to be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Keys to set in one call.
    pub set: Vec<(String, String)>,
    /// Keys to delete in the same call.
    pub delete: Vec<String>,
    /// The boot disk's new, absolute size.
    pub resize: Option<(String, Size)>,
    /// Disks to allocate, one call each.
    pub allocate: Vec<(String, String)>,
    /// All of it in words.
    pub changes: Vec<Change>,
}

impl Difference {
    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty() && self.resize.is_none() && self.allocate.is_empty()
    }

    fn set(&mut self, key: &str, from: Option<&str>, to: String) {
        self.changes
            .push(Change::set(key, from.map(str::to_owned), Some(to.clone())));
        self.set.push((key.to_owned(), to));
    }

    fn delete(&mut self, key: &str, from: Option<&str>) {
        self.changes.push(Change::set(key, from.map(str::to_owned), None));
        self.delete.push(key.to_owned());
    }
}

/// What differs.
pub fn difference(machine: &Machine, config: &VmConfig, cicustom: &str) -> Difference {
    let mut out = Difference::default();
    plain(machine, config, cicustom, &mut out);
    description(machine, config, &mut out);
    nics(machine, config, &mut out);
    cloudinit_drive(machine, config, &mut out);
    boot_disk(machine, config, &mut out);
    extra_disks(machine, config, &mut out);
    boot_order(machine, config, &mut out);
    out
}

fn plain(machine: &Machine, config: &VmConfig, cicustom: &str, out: &mut Difference) {
    let hardware = &machine.hardware;
    let mut number = |key: &str, wanted: Option<u64>, current: Option<u64>| {
        if let Some(wanted) = wanted
            && current != Some(wanted)
        {
            out.set(key, config.get(key), wanted.to_string());
        }
    };
    number(
        "cores",
        hardware.cores.map(u64::from),
        Some(u64::from(config.cores().unwrap_or(1))),
    );
    number(
        "sockets",
        hardware.sockets.map(u64::from),
        Some(u64::from(config.sockets().unwrap_or(1))),
    );
    number("memory", hardware.memory_mib, config.memory_mib());
    if let Some(wanted) = &hardware.cpu
        && config.cpu_type().as_ref() != Some(wanted)
        && config.get("cpu") != Some(wanted)
    {
        out.set("cpu", config.get("cpu"), wanted.clone());
    }
    let mut text = |key: &str, wanted: Option<&str>| {
        if let Some(wanted) = wanted
            && config.get(key) != Some(wanted)
        {
            out.set(key, config.get(key), wanted.to_owned());
        }
    };
    text("ostype", hardware.ostype.as_deref());
    text("scsihw", hardware.scsihw.as_deref());
    text("vga", hardware.vga.as_deref());
    for (slot, value) in &hardware.serial {
        text(slot, Some(value));
    }
    text("cicustom", Some(cicustom));
    text("citype", Some("nocloud"));
    if let Some(wanted) = hardware.agent
        && config.agent_enabled() != wanted
    {
        out.set("agent", config.get("agent"), u8::from(wanted).to_string());
    }
    if let Some(wanted) = hardware.onboot
        && (config.get("onboot") == Some("1")) != wanted
    {
        out.set("onboot", config.get("onboot"), u8::from(wanted).to_string());
    }
    if let Some(tags) = &hardware.tags {
        let wanted: BTreeSet<String> = tags.iter().cloned().collect();
        if wanted != config.tags() {
            let tags: Vec<String> = wanted.into_iter().collect();
            match tags.is_empty() {
                true => out.delete("tags", config.get("tags")),
                false => out.set("tags", config.get("tags"), tags.join(";")),
            }
        }
    }
}

/// The declared description, else the template's own, without the clone's mark.
fn description(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    let current = config.description().map(str::trim).filter(|text| !text.is_empty());
    let kept = current.and_then(unmarked);
    let wanted = machine
        .hardware
        .description
        .as_ref()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .or(kept);
    match (current, wanted) {
        (Some(current), Some(wanted)) if current == wanted => {}
        (None, None) => {}
        (current, Some(wanted)) => out.set("description", current, wanted),
        (current @ Some(_), None) => out.delete("description", current),
    }
}

fn nics(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    for nic in &machine.hardware.nics {
        let key = format!("net{}", nic.index);
        let mut wanted = nic.clone();
        if wanted.mac.is_none() {
            wanted.mac = machine.mac_of(nic.index);
        }
        match config.nic(nic.index) {
            Some(current) => {
                let merged = current.merged(&wanted);
                if !current.same_as(&merged) {
                    out.set(&key, config.get(&key), merged.to_string());
                }
            }
            None => out.set(&key, None, NicConfig::declared(&wanted).to_string()),
        }
    }
    // A card that came with the template, whose interface cloud-init finds by a MAC that was settled before.
    for (index, mac) in machine.macs() {
        if machine.hardware.nics.iter().any(|nic| nic.index == index) {
            continue;
        }
        if let Some(current) = config.nic(index)
            && current.mac.as_ref() != Some(&mac)
        {
            let key = current.key();
            let wanted = NicConfig {
                mac: Some(mac),
                ..current
            };
            out.set(&key, config.get(&key), wanted.to_string());
        }
    }
}

/// Moves the cloud-init drive to its declared storage: it is deleted first (its volume goes with it) and made anew after.
fn cloudinit_drive(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    let Some(wanted) = &machine.hardware.cloudinit_storage else {
        return;
    };
    match config.cloudinit_drives().as_slice() {
        [] => {
            // Proxmox's own choice first; a slot that holds something else, or is to, stays.
            let declared = |slot: &str| machine.hardware.extra_disks.iter().any(|disk| disk.slot == slot);
            let free = ["ide2", "ide0", "ide1", "ide3", "sata5"]
                .into_iter()
                .find(|slot| config.get(slot).is_none() && !declared(slot));
            if let Some(slot) = free {
                out.allocate_cloudinit(slot, wanted.as_str());
            }
        }
        [drive] if drive.storage().as_ref() != Some(wanted) => {
            let slot = drive.slot.to_string();
            out.delete(&slot, config.get(&slot));
        }
        [_, ..] => {}
    }
}

impl Difference {
    fn allocate_cloudinit(&mut self, slot: &str, storage: &str) {
        let value = format!("{storage}:cloudinit");
        self.changes.push(Change::new(slot, value.clone()));
        self.allocate.push((slot.to_owned(), value));
    }
}

fn boot_disk(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    let Some(wanted) = &machine.hardware.boot_disk else {
        return;
    };
    let Some(current) = slot(&wanted.slot).and_then(|slot| config.drive(slot)) else {
        return;
    };
    let missing = current.missing_options(&wanted.options);
    if !missing.is_empty() {
        let changed = missing
            .iter()
            .fold(current.clone(), |drive, (name, value)| drive.with_option(name, value));
        out.set(&wanted.slot, config.get(&wanted.slot), changed.to_string());
    }
    if let (Some(gib), Some(size)) = (wanted.size_gib, current.size())
        && size < Size::gib(gib)
    {
        let to = Size::gib(gib);
        out.changes.push(Change::set(
            format!("size of {}", wanted.slot),
            Some(size.to_string()),
            Some(to.to_string()),
        ));
        out.resize = Some((wanted.slot.clone(), to));
    }
}

fn extra_disks(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    for ExtraDisk {
        slot,
        storage,
        size_gib,
        format,
        options,
        ..
    } in &machine.hardware.extra_disks
    {
        if config.get(slot).is_none() {
            let value = drive::new_disk(storage, *size_gib, format.as_deref(), options);
            out.changes.push(Change::new(slot.clone(), value.clone()));
            out.allocate.push((slot.clone(), value));
        }
    }
}

/// The declared order, else the boot disk first and the rest as it stands. Devices that come only with a later call are
/// ordered after they came: Proxmox refuses an order that names an absent device.
fn boot_order(machine: &Machine, config: &VmConfig, out: &mut Difference) {
    let coming: BTreeSet<String> = out.set.iter().map(|(key, _)| key.clone()).collect();
    let devices = config.devices();
    let present =
        |device: &String| (devices.contains(device) && !out.delete.contains(device)) || coming.contains(device);
    let current = config
        .boot_order()
        .map(|order| order.devices().to_vec())
        .unwrap_or_default();
    let wanted: Vec<String> = match &machine.hardware.boot_order {
        Some(order) => order.clone(),
        None => {
            let Some(boot) = boot_slot(machine, config) else { return };
            let rest = current.iter().filter(|device| **device != boot).cloned();
            std::iter::once(boot.clone()).chain(rest).collect()
        }
    };
    let wanted: Vec<String> = wanted.into_iter().filter(present).collect();
    // What goes leaves the order by itself; an empty order would boot nothing.
    let current: Vec<String> = current
        .into_iter()
        .filter(|device| !out.delete.contains(device))
        .collect();
    if wanted != current && !wanted.is_empty() {
        out.set(
            "boot",
            config.get("boot"),
            BootOrder::of(wanted.iter().cloned()).to_string(),
        );
    }
}

/// The slot of this name.
fn slot(name: &str) -> Option<Slot> {
    name.parse().ok()
}

/// The slot of the disk that the guest boots from.
fn boot_slot(machine: &Machine, config: &VmConfig) -> Option<String> {
    match &machine.hardware.boot_disk {
        Some(disk) => Some(disk.slot.clone()),
        None => config.boot_disk().map(|disk| disk.slot.to_string()),
    }
}

/// What the VM lacks to boot as declared, in words; empty if it lacks nothing.
pub fn shortfalls(machine: &Machine, config: &VmConfig) -> Vec<String> {
    let mut missing = Vec::new();
    match boot_slot(machine, config) {
        None => missing.push("no boot disk".to_owned()),
        Some(slot) => match self::slot(&slot).and_then(|slot| config.drive(slot)) {
            None => missing.push(format!("boot disk {slot} is missing")),
            Some(drive) if drive.is_cdrom() => missing.push(format!("boot disk {slot} is a CD drive")),
            Some(_) => {
                let order = config
                    .boot_order()
                    .map(|order| order.devices().to_vec())
                    .unwrap_or_default();
                let declared = machine.hardware.boot_order.is_some();
                if !declared && order.first() != Some(&slot) {
                    missing.push(format!(
                        "boot disk {slot} is not first in the boot order ({})",
                        order.join(";")
                    ));
                }
            }
        },
    }
    if config.cloudinit_drives().is_empty() {
        missing.push("no cloud-init drive".to_owned());
    }
    for nic in &machine.hardware.nics {
        if config.nic(nic.index).is_none() {
            missing.push(format!("net{} is missing", nic.index));
        }
    }
    missing
}

#[cfg(test)]
mod tests;
