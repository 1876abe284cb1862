//! What a running VM takes at once (qemu-server: `vmconfig_hotplug_pending`).

use super::rights::is_cloudinit_key;
use crate::simulator::props::{Drive, Net, is_bus_drive, net_index, split_index};
use crate::simulator::world::World;

impl World {
    /// Applies what a running VM takes at once. What it refuses, with why; that stays pending.
    pub(super) fn hotplug_pending(&mut self, node: &str, vmid: u32) -> Vec<(String, String)> {
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
