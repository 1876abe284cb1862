//! Changes of a VM's config: checked early, registered as pending, applied hot or cold (qemu-server: `update_vm_api`,
//! `vmconfig_hotplug_pending`, `vmconfig_apply_pending`).
//!
//! ```text
//!   set/delete -> [PENDING] -- VM stopped --> current                      (at once)
//!                           -- VM running --> current, where hot-plug can  (at once)
//!                                         `-> stays until stop, cold start or API reboot
//! ```

mod drives;
mod hot;
mod rights;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub(crate) use self::rights::ANY_CONFIG;
use super::access::Identity;
use super::fail::ApiError;
use super::props::{
    Drive, Net, boot_order, is_bus_drive, is_drive, is_unused, net_index, print_boot_order, split_list,
};
use super::vm::Config;
use super::world::World;

/// A change that passed the early checks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) set: IndexMap<String, String>,
    pub(crate) delete: Vec<String>,
    pub(crate) revert: Vec<String>,
    pub(crate) force: bool,
    pub(crate) digest: Option<String>,
}

impl World {
    /// The early checks of a change: everything that is an HTTP error for PUT and POST alike.
    pub(crate) fn plan_update(
        &mut self,
        who: &Identity,
        node: &str,
        vmid: u32,
        params: &[(String, String)],
    ) -> Result<Update, ApiError> {
        let mut update = Update::default();
        for (key, value) in params {
            match key.as_str() {
                "node" | "vmid" | "background_delay" | "import-working-storage" => {}
                "skiplock" => {
                    if value == "1" && !who.is_root() {
                        return Err(ApiError::invalid("skiplock", "Only root may use this option."));
                    }
                }
                "digest" => update.digest = Some(value.clone()),
                "force" => update.force = value == "1",
                "delete" => update.delete = split_list(value),
                "revert" => update.revert = split_list(value),
                _ => {
                    update.set.insert(key.clone(), value.clone());
                }
            }
        }
        if update.set.is_empty() && update.delete.is_empty() && update.revert.is_empty() {
            return Err(ApiError::failed("no options specified"));
        }
        for key in &update.delete {
            if update.set.contains_key(key) {
                return Err(ApiError::invalid(
                    "delete",
                    format!("you can't use '-{key}' and -delete {key}' at the same time"),
                ));
            }
            if !super::schema::is_config_key(key) {
                return Err(ApiError::invalid("delete", format!("unknown option '{key}'")));
            }
        }
        for key in &update.revert {
            if !super::schema::is_config_key(key) {
                return Err(ApiError::invalid("revert", format!("unknown option '{key}'")));
            }
            if update.set.contains_key(key) {
                return Err(ApiError::invalid(
                    "revert",
                    format!("you can't use '-{key}' and -revert {key}' at the same time"),
                ));
            }
        }
        self.normalise(&mut update.set)?;
        let path = format!("/vms/{vmid}");
        for key in &update.delete {
            self.check_key(who, node, vmid, key, None, &path)?;
            if update.force && is_drive(key) {
                self.check(who, &path, &["VM.Config.Disk"])?;
            }
        }
        for (key, value) in &update.set {
            self.check_key(who, node, vmid, key, Some(value), &path)?;
            self.check_drive_storage(who, key, value)?;
        }
        let vm = self.vm_on(node, vmid)?;
        check_digest(&vm.config, update.digest.as_deref(), self.major())?;
        if let Some(lock) = vm.lock() {
            return Err(ApiError::failed(format!("VM is locked ({lock})")));
        }
        if vm.config.get("protection") == Some("1") {
            for key in update.delete.iter().filter(|key| is_drive(key)) {
                if vm.config.get(key).is_some_and(|text| Drive::parse(text).has_volume()) {
                    return Err(ApiError::failed(format!(
                        "can't remove drive '{key}' - protection mode enabled"
                    )));
                }
            }
        }
        Ok(update)
    }

    /// Values as they are stored.
    pub(crate) fn normalise(&mut self, set: &mut IndexMap<String, String>) -> Result<(), ApiError> {
        for (key, value) in set.iter_mut() {
            if net_index(key).is_some() {
                let mut net = Net::parse(value);
                if net.mac.is_none() {
                    net.mac = Some(self.new_mac());
                }
                *value = net.print();
            } else if key == "cipassword" {
                let salt = self.next_random();
                *value = format!("$5${salt:08x}${}", super::world::hex_digest(&format!("{salt}{value}")));
            } else if key == "tags" {
                let mut tags: Vec<String> = split_list(value).iter().map(|t| t.to_lowercase()).collect();
                tags.sort();
                tags.dedup();
                *value = tags.join(";");
            } else if is_drive(key) {
                let drive = Drive::parse(value);
                if drive.file.contains(":iso/") && !drive.is_cdrom() {
                    return Err(ApiError::invalid(
                        key,
                        "explicit 'media=cdrom' is required for iso images",
                    ));
                }
                if drive.option("import-from").is_some() && drive.new_size() != Some(0.0) {
                    return Err(ApiError::invalid(
                        key,
                        "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Does a change: registers it as pending, then applies what can be applied.
    pub(crate) fn run_update(
        &mut self,
        node: &str,
        vmid: u32,
        update: &Update,
        log: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let major = self.major();
        let vm = self.vm_on_mut(node, vmid)?;
        check_digest(&vm.config, update.digest.as_deref(), major)?;
        if let Some(lock) = vm.lock() {
            return Err(ApiError::failed(format!("VM is locked ({lock})")));
        }
        for key in &update.revert {
            vm.config.pending.shift_remove(key);
            vm.config.removals.shift_remove(key);
        }
        for key in &update.delete {
            self.register_removal(node, vmid, key, update.force)?;
        }
        for (key, value) in &update.set {
            let value = self.prepare_value(node, vmid, key, value, update, log)?;
            let vm = self.vm_on_mut(node, vmid)?;
            vm.config.removals.shift_remove(key);
            if vm.config.get(key) == Some(value.as_str()) {
                vm.config.pending.shift_remove(key);
            } else {
                vm.config.pending.insert(key.clone(), value);
            }
            self.extend_boot_order(node, vmid, key)?;
        }
        let errors = if self.vm_on(node, vmid)?.is_running() {
            self.hotplug_pending(node, vmid)
        } else {
            self.apply_pending(node, vmid);
            Vec::new()
        };
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid_all(errors))
        }
    }

    fn register_removal(&mut self, node: &str, vmid: u32, key: &str, force: bool) -> Result<(), ApiError> {
        let vm = self.vm_on_mut(node, vmid)?;
        if is_unused(key) {
            if let Some(volume) = vm.config.current.shift_remove(key) {
                self.free_volume(node, &Drive::parse(&volume).file);
            }
            return Ok(());
        }
        let pending = vm.config.pending.shift_remove(key);
        if vm.config.get(key).is_some() {
            vm.config.removals.insert(key.to_owned(), force);
        }
        let order = vm.config.next("boot").and_then(boot_order);
        if let Some(mut order) = order.filter(|order| order.iter().any(|d| d == key)) {
            order.retain(|device| device != key);
            vm.config.pending.insert("boot".to_owned(), print_boot_order(&order));
        }
        if let Some(volume) = pending
            .map(|text| Drive::parse(&text))
            .filter(|d| is_drive(key) && d.has_volume())
        {
            self.release(node, vmid, &volume, force);
        }
        Ok(())
    }

    /// A value as it is registered: volumes made, MACs filled in.
    fn prepare_value(
        &mut self,
        node: &str,
        vmid: u32,
        key: &str,
        value: &str,
        update: &Update,
        log: &mut Vec<String>,
    ) -> Result<String, ApiError> {
        if is_drive(key) {
            let attached = Config::drives(&self.vm_on(node, vmid)?.config.applied());
            return self.prepare_drive(node, vmid, key, value, &attached, log);
        }
        if key == "boot" {
            let after = self.vm_on(node, vmid)?.config.applied();
            for device in boot_order(value).unwrap_or_default() {
                let there = after.contains_key(&device) || update.set.contains_key(&device);
                if !there || update.delete.contains(&device) {
                    return Err(ApiError::failed(format!(
                        "invalid bootorder: device '{device}' does not exist'"
                    )));
                }
            }
        }
        Ok(value.to_owned())
    }

    /// A new CD drive is appended to an explicit boot order.
    fn extend_boot_order(&mut self, node: &str, vmid: u32, key: &str) -> Result<(), ApiError> {
        let vm = self.vm_on_mut(node, vmid)?;
        if !is_bus_drive(key) {
            return Ok(());
        }
        let is_cd = vm
            .config
            .next(key)
            .map(Drive::parse)
            .is_some_and(|d| d.is_cdrom() && !d.is_cloudinit());
        if let Some(mut order) = vm.config.next("boot").and_then(boot_order)
            && is_cd
            && !order.iter().any(|device| device == key)
        {
            order.push(key.to_owned());
            vm.config.pending.insert("boot".to_owned(), print_boot_order(&order));
        }
        Ok(())
    }

    /// A volume that a drive gave up: freed when it is a cloud-init drive or the change said so, else kept as unusedN.
    fn release(&mut self, node: &str, vmid: u32, drive: &Drive, force: bool) {
        if !drive.has_volume() {
            return;
        }
        if drive.is_cloudinit() || (force && !drive.is_cdrom()) {
            self.free_volume(node, &drive.file);
            return;
        }
        let owned = self.volume(node, &drive.file).is_some_and(|v| v.vmid == vmid);
        let Some(vm) = self.vms.get_mut(&vmid) else {
            return;
        };
        if !owned || vm.config.volumes().contains(&drive.file) {
            return;
        }
        if let Some(slot) = (0..256)
            .map(|n| format!("unused{n}"))
            .find(|key| vm.config.get(key).is_none())
        {
            vm.config.current.insert(slot, drive.file.clone());
        }
    }

    /// Makes a pending removal or value current.
    fn apply_key(&mut self, node: &str, vmid: u32, key: &str) {
        let Some(vm) = self.vms.get_mut(&vmid) else {
            return;
        };
        let old = vm.config.get(key).map(str::to_owned);
        let force = vm.config.removals.shift_remove(key);
        match vm.config.pending.shift_remove(key) {
            Some(value) => {
                vm.config.current.insert(key.to_owned(), value);
            }
            None if force.is_some() => {
                vm.config.current.shift_remove(key);
            }
            None => {}
        }
        if let Some(old) = old.filter(|_| is_drive(key)).map(|text| Drive::parse(&text)) {
            let kept = self.vms.get(&vmid).is_some_and(|vm| {
                vm.config
                    .get(key)
                    .map(Drive::parse)
                    .is_some_and(|now| now.file == old.file)
            });
            if !kept {
                self.release(node, vmid, &old, force.unwrap_or(false));
            }
        }
    }

    /// Applies everything that is pending, as a cold start, a stop and a change of a stopped VM do.
    pub(crate) fn apply_pending(&mut self, node: &str, vmid: u32) {
        let Some(vm) = self.vms.get(&vmid) else {
            return;
        };
        let keys: Vec<String> = vm
            .config
            .removals
            .keys()
            .chain(vm.config.pending.keys())
            .cloned()
            .collect();
        for key in keys {
            self.apply_key(node, vmid, &key);
        }
    }
}

/// Refuses a digest that is not the file's.
pub(crate) fn check_digest(config: &Config, digest: Option<&str>, major: u32) -> Result<(), ApiError> {
    match digest {
        Some(digest) if digest != config.digest() => Err(ApiError::failed(if major < 8 {
            "checksum missmatch (file change by other user?)"
        } else {
            "checksum mismatch (file change by other user?)"
        })),
        _ => Ok(()),
    }
}
