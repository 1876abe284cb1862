//! Changes of a VM's config: checked early, registered as pending, applied hot or cold (qemu-server: `update_vm_api`,
//! `vmconfig_hotplug_pending`, `vmconfig_apply_pending`).
//!
//! ```text
//!   set/delete -> [PENDING] -- VM stopped --> current                      (at once)
//!                           -- VM running --> current, where hot-plug can  (at once)
//!                                         `-> stays until stop, cold start or API reboot
//! ```

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::access::Identity;
use super::fail::ApiError;
use super::props::{
    Drive, Net, boot_order, is_bus_drive, is_drive, is_unused, net_index, print_boot_order, print_size, split_index,
    split_list,
};
use super::vm::Config;
use super::world::World;

/// The size of an EFI disk of type 4m.
const EFI_SIZE: u64 = 528 << 10;

/// A change that passed the early checks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) set: IndexMap<String, String>,
    pub(crate) delete: Vec<String>,
    pub(crate) revert: Vec<String>,
    pub(crate) force: bool,
    pub(crate) digest: Option<String>,
}

/// Privileges one of which lets somebody try a change at all.
pub(crate) const ANY_CONFIG: &[&str] = &[
    "VM.Config.Disk",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.HWType",
    "VM.Config.Options",
    "VM.Config.Cloudinit",
];

/// Whether a key belongs to cloud-init's settings.
pub(crate) fn is_cloudinit_key(key: &str) -> bool {
    matches!(
        key,
        "cicustom" | "cipassword" | "citype" | "ciupgrade" | "ciuser" | "nameserver" | "searchdomain" | "sshkeys"
    ) || matches!(split_index(key), Some(("ipconfig", _)))
}

/// What a key needs.
fn key_privileges(key: &str) -> &'static [&'static str] {
    match key {
        "cores" | "sockets" | "cpu" | "vcpus" | "cpulimit" | "cpuunits" | "numa" | "smp" => &["VM.Config.CPU"],
        "memory" | "balloon" | "shares" => &["VM.Config.Memory"],
        "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime" | "migrate_downtime"
        | "migrate_speed" | "name" | "onboot" | "ostype" | "protection" | "reboot" | "startdate" | "startup"
        | "tags" | "template" => &["VM.Config.Options"],
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios1" | "tablet" | "vga" | "watchdog" | "rng0"
        | "audio0" | "arch" | "allow-ksm" | "spice_enhancements" => &["VM.Config.HWType"],
        "boot" | "bootdisk" | "vmstatestorage" => &["VM.Config.Disk"],
        key if is_cloudinit_key(key) => &["VM.Config.Cloudinit", "VM.Config.Network"],
        key if net_index(key).is_some() => &["VM.Config.Network"],
        key => match split_index(key) {
            Some(("numa", _)) => &["VM.Config.CPU"],
            Some(("serial" | "usb", _)) => &["VM.Config.HWType"],
            _ => &[],
        },
    }
}

impl World {
    /// Whether somebody may set a key to a value, or remove it.
    pub(crate) fn check_key(
        &self,
        who: &Identity,
        node: &str,
        vmid: u32,
        key: &str,
        value: Option<&str>,
        path: &str,
    ) -> Result<(), ApiError> {
        let old = self.vms.get(&vmid).and_then(|vm| vm.config.get(key));
        if is_drive(key) || is_unused(key) {
            let drive = Drive::parse(value.or(old).unwrap_or_default());
            if drive.is_cloudinit() {
                self.check(who, path, &["VM.Config.Cloudinit"])?;
                return self.check(who, path, &["VM.Config.CDROM"]);
            }
            if drive.is_cdrom() {
                return self.check(who, path, &["VM.Config.CDROM"]);
            }
            return self.check(who, path, &["VM.Config.Disk"]);
        }
        if let Some(("hostpci", _)) = split_index(key) {
            return Err(ApiError::failed(format!(
                "only root can set '{key}' config for non-mapped devices"
            )));
        }
        let needed = key_privileges(key);
        if needed.is_empty() {
            return if who.is_root() {
                Ok(())
            } else {
                Err(ApiError::failed(format!("only root can set '{key}' config")))
            };
        }
        if is_cloudinit_key(key) {
            self.check(who, path, needed)?;
            return Ok(());
        }
        self.check(who, path, needed)?;
        if key == "startup" {
            self.check(who, "/", &["Sys.Modify"])?;
        }
        if net_index(key).is_some() && self.major() >= 8 {
            for text in value.into_iter().chain(old) {
                self.check_bridge_use(who, &Net::parse(text))?;
            }
        }
        let _ = node;
        Ok(())
    }

    /// SDN.Use on the bridge of a device, or on its VLAN.
    pub(crate) fn check_bridge_use(&self, who: &Identity, net: &Net) -> Result<(), ApiError> {
        let Some(bridge) = net.option("bridge") else {
            return Ok(());
        };
        let mut path = format!("/sdn/zones/localnetwork/{bridge}");
        if let Some(tag) = net.option("tag") {
            path.push('/');
            path.push_str(tag);
        }
        self.check(who, &path, &["SDN.Use"])
    }

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

    /// The storage of a drive: it exists, takes images, and somebody may use it.
    pub(crate) fn check_drive_storage(&self, who: &Identity, key: &str, value: &str) -> Result<(), ApiError> {
        if !is_drive(key) {
            return Ok(());
        }
        let drive = Drive::parse(value);
        let Some(id) = drive.storage() else {
            return Ok(());
        };
        let storage = self.storage(id)?;
        let new = drive.new_size().is_some();
        if drive.is_cloudinit() && !new {
            return Ok(());
        }
        if new {
            self.check(who, &format!("/storage/{id}"), &["Datastore.AllocateSpace"])?;
            if !storage.takes("images") {
                return Err(ApiError::invalid(
                    "storage",
                    format!("storage '{id}' does not support vm images"),
                ));
            }
        } else {
            self.check(
                who,
                &format!("/storage/{id}"),
                &["Datastore.AllocateSpace", "Datastore.Audit"],
            )?;
            let name = drive.file.split_once(':').map_or("", |(_, n)| n);
            if storage.is_files() && !name.contains('/') {
                return Err(ApiError::failed(format!(
                    "unable to parse directory volume name '{name}'"
                )));
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

    /// Makes, finds or checks the volume of a drive; the drive's text.
    pub(crate) fn prepare_drive(
        &mut self,
        node: &str,
        vmid: u32,
        key: &str,
        value: &str,
        attached: &[(String, Drive)],
        log: &mut Vec<String>,
    ) -> Result<String, ApiError> {
        let mut drive = Drive::parse(value);
        if drive.file == "none" || drive.file == "cdrom" {
            drive.set("media", "cdrom");
            return Ok(drive.print());
        }
        let storage = drive.storage().unwrap_or_default().to_owned();
        if drive.file.ends_with(":cloudinit") {
            if let Some((other, _)) = attached.iter().find(|(slot, d)| d.is_cloudinit() && slot != key) {
                return Err(ApiError::failed(format!(
                    "{key} - cloud-init drive is already attached at '{other}'"
                )));
            }
            let (volid, mut said) = self.allocate_cloudinit(node, &storage, vmid, drive.option("format"))?;
            drive.file = volid;
            drive.unset("format");
            drive.set("media", "cdrom");
            log.append(&mut said);
            log.push(format!("{key}: successfully created disk '{}'", drive.print()));
            return Ok(drive.print());
        }
        if let Some(gib) = drive.new_size() {
            let source = drive.option("import-from").map(str::to_owned);
            let format = drive.option("format").map(str::to_owned);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "disk sizes are far below 2^52 and not negative"
            )]
            let mut size = (gib * 1_073_741_824.0) as u64;
            let mut data = 0;
            let mut format = format;
            if key == "efidisk0" {
                size = EFI_SIZE;
            }
            if let Some(source) = &source {
                let found;
                (size, data, found) = self.import_source(node, source)?;
                format = format.or(Some(found));
                log.push(format!("create full clone of drive ({source})"));
            }
            let (volid, mut said) = self.allocate_disk(node, &storage, vmid, size, format.as_deref())?;
            if source.is_some() {
                said.push(format!("allocated target volume '{volid}'"));
            }
            if data > 0
                && let Some(volume) = self.volume_mut(node, &volid)
            {
                volume.used = data;
            }
            drive.file = volid;
            drive.unset("format");
            drive.unset("import-from");
            drive.set("size", &print_size(size));
            log.append(&mut said);
            log.push(format!("{key}: successfully created disk '{}'", drive.print()));
            return Ok(drive.print());
        }
        self.check_volume(node, &drive.file.clone())?;
        if let Some(volume) = self.volume(node, &drive.file)
            && !drive.is_cdrom()
        {
            if let Some(format) = drive.option("format").filter(|f| *f != volume.format) {
                return Err(ApiError::invalid(
                    key,
                    format!(
                        "'format={format}' option different from storage format '{}'",
                        volume.format
                    ),
                ));
            }
            let size = print_size(volume.size);
            drive.unset("format");
            drive.set("size", &size);
        }
        Ok(drive.print())
    }

    /// Size, data and format of what a disk is imported from. A file's size is made up.
    fn import_source(&self, node: &str, source: &str) -> Result<(u64, u64, String), ApiError> {
        if let Some(volume) = self.volume(node, source) {
            return Ok((volume.size, volume.used, volume.format.clone()));
        }
        let (storage, name) = source.split_once(':').unwrap_or((source, ""));
        if self.check_volume(node, source).is_err()
            && let Some(path) = self.storages.get(storage).and_then(|s| s.path.as_deref())
        {
            return Err(ApiError::failed(format!("failed to stat '{path}/{name}'")));
        }
        let format = name.rsplit('.').next().unwrap_or("raw");
        Ok((64 << 20, 32 << 20, format.to_owned()))
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

    /// Applies what a running VM takes at once. What it refuses, with why; that stays pending.
    fn hotplug_pending(&mut self, node: &str, vmid: u32) -> Vec<(String, String)> {
        let Some(vm) = self.vms.get(&vmid) else {
            return Vec::new();
        };
        let keys: Vec<String> = vm
            .config
            .removals
            .keys()
            .chain(vm.config.pending.keys())
            .cloned()
            .collect();
        let features = vm.config.get("hotplug").unwrap_or("network,disk,usb").to_owned();
        let has = |feature: &str| features == "1" || features.split(',').any(|f| f == feature);
        let boot_disk = vm.boot_disk();
        let answers = vm.guest.agent_answers(self.now_ms) || !vm.guest.addresses(self.now_ms).is_empty();
        let mut errors = Vec::new();
        for key in keys {
            let Some(vm) = self.vms.get(&vmid) else {
                break;
            };
            let old = vm.config.get(&key).map(str::to_owned);
            let new = vm.config.pending.get(&key).cloned();
            match hot_change(
                &key,
                old.as_deref(),
                new.as_deref(),
                &has,
                boot_disk.as_deref(),
                answers,
            ) {
                Hot::Now => self.apply_key(node, vmid, &key),
                Hot::Pending => {}
                Hot::Refused(why) => errors.push((key, format!("hotplug problem - {why}\n"))),
            }
        }
        errors
    }
}

/// What a running VM does with a change.
#[derive(Debug, PartialEq, Eq)]
enum Hot {
    Now,
    Pending,
    Refused(String),
}

/// Decides about one key of a running VM. `old` none: the key is new; `new` none: it goes.
fn hot_change(
    key: &str,
    old: Option<&str>,
    new: Option<&str>,
    has: &dyn Fn(&str) -> bool,
    boot_disk: Option<&str>,
    guest_answers: bool,
) -> Hot {
    const AT_ONCE: &[&str] = &[
        "name",
        "description",
        "tags",
        "onboot",
        "protection",
        "startup",
        "hookscript",
        "shares",
        "migrate_downtime",
        "migrate_speed",
        "vmstatestorage",
        "lock",
        "cpulimit",
        "cpuunits",
        "balloon",
    ];
    let busy = || Hot::Refused(format!("error on hot-unplugging device '{key}' - still busy in guest?"));
    if AT_ONCE.contains(&key) || is_cloudinit_key(key) {
        return Hot::Now;
    }
    if is_bus_drive(key) {
        let (old_drive, new_drive) = (old.map(Drive::parse), new.map(Drive::parse));
        if let (Some(old_drive), Some(new_drive)) = (&old_drive, &new_drive) {
            if old_drive.is_cdrom() && new_drive.is_cdrom() {
                return Hot::Now;
            }
            if old_drive.file == new_drive.file {
                let fixed = |drive: &Drive| -> Vec<Option<String>> {
                    ["aio", "discard", "iothread", "queues", "cache", "ssd", "ro"]
                        .iter()
                        .map(|o| drive.option(o).map(str::to_owned))
                        .collect()
                };
                return if fixed(old_drive) == fixed(new_drive) {
                    Hot::Now
                } else {
                    Hot::Pending
                };
            }
        }
        let hot_bus = matches!(split_index(key), Some(("scsi" | "virtio", _)));
        if !hot_bus || !has("disk") {
            return Hot::Pending;
        }
        if old.is_some() {
            if boot_disk == Some(key) {
                return Hot::Refused(format!("can't unplug bootdisk '{key}'"));
            }
            if !guest_answers {
                return busy();
            }
        }
        return Hot::Now;
    }
    if net_index(key).is_some() {
        if let (Some(old), Some(new)) = (old, new) {
            let (old, new) = (Net::parse(old), Net::parse(new));
            if (old.model, old.mac) == (new.model, new.mac) {
                return Hot::Now;
            }
        }
        if !has("network") {
            return Hot::Pending;
        }
        return if old.is_some() && !guest_answers {
            busy()
        } else {
            Hot::Now
        };
    }
    if key == "agent"
        && let (Some(old), Some(new)) = (old, new)
    {
        let rest = |text: &str| -> Vec<String> {
            text.split(',')
                .filter(|p| !p.starts_with("fstrim_cloned_disks"))
                .map(|p| p.trim_start_matches("enabled=").to_owned())
                .collect()
        };
        return if rest(old) == rest(new) { Hot::Now } else { Hot::Pending };
    }
    match (key, split_index(key)) {
        (_, Some(("usb", _))) if has("usb") => Hot::Now,
        ("cores" | "sockets" | "vcpus", _) if has("cpu") => Hot::Now,
        ("memory", _) if has("memory") => Hot::Now,
        _ => Hot::Pending,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(key: &str, old: Option<&str>, new: Option<&str>) -> Hot {
        let has = |feature: &str| ["network", "disk", "usb"].contains(&feature);
        hot_change(key, old, new, &has, Some("scsi0"), true)
    }

    #[test]
    fn a_running_vm_takes_scsi_and_names_but_no_ide_and_no_cores() {
        assert_eq!(hot("ide2", Some("a:vm-1-cloudinit,media=cdrom"), None), Hot::Pending);
        assert_eq!(
            hot("ide2", Some("a:vm-1-cloudinit,media=cdrom"), Some("none,media=cdrom")),
            Hot::Now
        );
        assert_eq!(hot("scsi1", None, Some("a:vm-1-disk-1,size=1G")), Hot::Now);
        assert_eq!(hot("scsi1", Some("a:vm-1-disk-1,size=1G"), None), Hot::Now);
        assert!(matches!(
            hot("scsi0", Some("a:vm-1-disk-0,size=1G"), None),
            Hot::Refused(_)
        ));
        assert_eq!(hot("cores", Some("1"), Some("2")), Hot::Pending);
        assert_eq!(hot("name", Some("a"), Some("b")), Hot::Now);
        assert_eq!(hot("serial1", None, Some("socket")), Hot::Pending);
        assert_eq!(
            hot("agent", Some("1"), Some("enabled=1,fstrim_cloned_disks=1")),
            Hot::Now
        );
        assert_eq!(hot("agent", Some("1"), Some("0")), Hot::Pending);
    }

    #[test]
    fn a_net_changes_hot_when_model_and_mac_stay() {
        let old = Some("virtio=BC:24:11:00:00:01,bridge=vmbr0");
        assert_eq!(
            hot("net0", old, Some("virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=5")),
            Hot::Now
        );
        let has = |_: &str| true;
        let other = Some("virtio=BC:24:11:00:00:02,bridge=vmbr0");
        assert!(matches!(
            hot_change("net0", old, other, &has, None, false),
            Hot::Refused(_)
        ));
    }
}
