//! Which privileges a key of a VM's config needs (qemu-server: `$check_vm_modify_config_perm`).

use crate::simulator::access::Identity;
use crate::simulator::fail::ApiError;
use crate::simulator::props::{Drive, Net, is_drive, is_unused, net_index, split_index};
use crate::simulator::world::World;

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
}
