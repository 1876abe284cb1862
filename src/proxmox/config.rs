//! The configuration of one VM, as `GET /nodes/{node}/qemu/{vmid}/config` answers it, and what its keys mean.
//!
//! [`VmConfig`] holds every key as text, whatever JSON type the release at hand gives it, and reads it on demand. It knows
//! nothing of pending changes: whether a value is in force yet is `GET .../pending`'s to say. A key that this grammar
//! cannot read is left out of the lists of drives and cards, as Proxmox leaves it out; [`VmConfig::unreadable`] names them.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::Value;

use super::boot::BootOrder;
use super::drive::{Drive, Slot, index_of, unused_volume};
use super::nic::NicConfig;
use super::property::{Properties, boolean, words};

/// A VM's configuration: keys and their texts, in the order of the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VmConfig {
    /// Every key but `digest`.
    pub values: IndexMap<String, String>,
    /// SHA-1 of the whole configuration file, to send back with a change so that it fails if somebody else was faster.
    pub digest: Option<String>,
}

impl VmConfig {
    /// Takes the answer's `data`. Numbers and booleans become text (`1` and `0`), `null` is no key at all.
    pub fn from_json(data: Value) -> Result<Self, String> {
        let Value::Object(object) = data else {
            return Err("a VM configuration must be a JSON object".to_owned());
        };
        let mut values = IndexMap::with_capacity(object.len());
        for (key, value) in object {
            let text = match value {
                Value::Null => continue,
                Value::Bool(yes) => u8::from(yes).to_string(),
                Value::Number(number) => number.to_string(),
                Value::String(text) => text,
                nested @ (Value::Array(_) | Value::Object(_)) => nested.to_string(),
            };
            values.insert(key, text);
        }
        let digest = values.shift_remove("digest");
        Ok(Self { values, digest })
    }

    /// A key's text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The VM's name.
    pub fn name(&self) -> Option<&str> {
        self.get("name")
    }

    /// The description.
    pub fn description(&self) -> Option<&str> {
        self.get("description")
    }

    /// What the VM is locked by: `clone`, `migrate`, `backup`, ...
    pub fn lock(&self) -> Option<&str> {
        self.get("lock").filter(|lock| !lock.is_empty())
    }

    /// The UUID that the firmware shows the guest, in lower case: the VM's identity, new with every clone.
    pub fn smbios_uuid(&self) -> Option<String> {
        Some(self.properties("smbios1", None)?.get("uuid")?.to_ascii_lowercase())
    }

    /// Whether it is a template.
    pub fn template(&self) -> bool {
        self.flag("template")
    }

    /// Whether Proxmox refuses to remove the VM and its disks.
    pub fn protection(&self) -> bool {
        self.flag("protection")
    }

    /// Whether the VM starts with its node.
    pub fn onboot(&self) -> bool {
        self.flag("onboot")
    }

    /// The tags, in lower case.
    pub fn tags(&self) -> BTreeSet<String> {
        let list = self.get("tags").unwrap_or_default();
        words(list).map(str::to_lowercase).collect()
    }

    /// Memory in MiB: 512 if nothing is set, `None` if it cannot be read.
    pub fn memory_mib(&self) -> Option<u64> {
        if self.get("memory").is_none() {
            return Some(512);
        }
        self.properties("memory", Some("current"))?.get("current")?.parse().ok()
    }

    /// Cores of each socket: 1 if nothing is set, `None` if it cannot be read.
    pub fn cores(&self) -> Option<u32> {
        self.get("cores").unwrap_or("1").parse().ok()
    }

    /// Sockets: 1 if nothing is set, `None` if it cannot be read.
    pub fn sockets(&self) -> Option<u32> {
        self.get("sockets").unwrap_or("1").parse().ok()
    }

    /// The CPU type, `host`; `None` if nothing is set, which leaves it to Proxmox.
    pub fn cpu_type(&self) -> Option<String> {
        self.properties("cpu", Some("cputype"))?
            .get("cputype")
            .map(str::to_owned)
    }

    /// Whether the guest agent is to be talked to.
    pub fn agent_enabled(&self) -> bool {
        let agent = self.properties("agent", Some("enabled"));
        agent.and_then(|agent| agent.flag("enabled")).unwrap_or(false)
    }

    /// What can be changed while the VM runs: `network`, `disk`, `usb` unless set otherwise (qemu-server:
    /// `parse_hotplug_features`).
    pub fn hotplug(&self) -> BTreeSet<String> {
        let list = match self.get("hotplug") {
            Some("0") => "",
            None | Some("1") => "network,disk,usb",
            Some(list) => list,
        };
        words(list).map(str::to_owned).collect()
    }

    /// Every drive, `efidisk0` and `tpmstate0` among them, in the order of slots.
    pub fn drives(&self) -> Vec<Drive> {
        let mut drives: Vec<Drive> = self
            .values
            .iter()
            .filter_map(|(key, text)| Drive::parse(key.parse().ok()?, text).ok())
            .collect();
        drives.sort_by_key(|drive| drive.slot);
        drives
    }

    /// The drive in a slot.
    pub fn drive(&self, slot: Slot) -> Option<Drive> {
        Drive::parse(slot, self.get(&slot.to_string())?).ok()
    }

    /// The cloud-init drives: only keys of drives that the guest sees count, whatever a name or description says.
    pub fn cloudinit_drives(&self) -> Vec<Drive> {
        self.drives_where(Drive::is_cloudinit)
    }

    /// The disks that the guest sees: no CD drives, cloud-init drives, firmware or TPM state.
    pub fn disks(&self) -> Vec<Drive> {
        self.drives_where(|drive| drive.slot.is_device() && !drive.is_cdrom() && !drive.is_cloudinit())
    }

    /// Detached volumes that the VM still owns: key and volume.
    pub fn unused(&self) -> Vec<(String, String)> {
        let volume = |(key, text): (&String, &String)| Some((key.clone(), unused_volume(key, text)?));
        self.values.iter().filter_map(volume).collect()
    }

    /// The network cards, by number.
    pub fn nics(&self) -> Vec<NicConfig> {
        let card = |(key, text): (&String, &String)| NicConfig::parse(key, text).ok();
        let mut nics: Vec<NicConfig> = self.values.iter().filter_map(card).collect();
        nics.sort_by_key(|nic| nic.index);
        nics
    }

    /// The card `netN`.
    pub fn nic(&self, index: u8) -> Option<NicConfig> {
        let key = format!("net{index}");
        NicConfig::parse(&key, self.get(&key)?).ok()
    }

    /// The boot order; `None` if the key is absent.
    pub fn boot_order(&self) -> Option<BootOrder> {
        self.get("boot").map(BootOrder::parse)
    }

    /// The disk that the VM boots from: the first disk in the boot order, else the one that `bootdisk` names, else the
    /// only disk.
    pub fn boot_disk(&self) -> Option<Drive> {
        let disks = self.disks();
        let find = |key: &str| disks.iter().find(|disk| disk.slot.to_string() == key).cloned();
        let ordered = self
            .boot_order()
            .and_then(|order| order.devices().iter().find_map(|key| find(key)));
        let only = || match &disks[..] {
            [only] => Some(only.clone()),
            _ => None,
        };
        ordered.or_else(|| self.get("bootdisk").and_then(find)).or_else(only)
    }

    /// The keys of all devices that a boot order may name: drives that the guest sees, `netN`, `usbN`, `hostpciN`.
    pub fn devices(&self) -> BTreeSet<String> {
        self.values
            .keys()
            .filter(|key| {
                let slot = key.parse::<Slot>().is_ok_and(Slot::is_device);
                slot || ["net", "usb", "hostpci"]
                    .iter()
                    .any(|prefix| index_of(key, prefix).is_some())
            })
            .cloned()
            .collect()
    }

    /// Keys of drives and cards whose text this grammar cannot read, and why.
    pub fn unreadable(&self) -> Vec<(String, String)> {
        let reason = |key: &String, text: &str| match key.parse::<Slot>() {
            Ok(slot) => Drive::parse(slot, text).err().map(|error| error.to_string()),
            Err(_) if index_of(key, "net").is_some() => {
                NicConfig::parse(key, text).err().map(|error| error.to_string())
            }
            Err(_) => None,
        };
        self.values
            .iter()
            .filter_map(|(key, text)| Some((key.clone(), reason(key, text)?)))
            .collect()
    }

    fn drives_where(&self, wanted: impl Fn(&Drive) -> bool) -> Vec<Drive> {
        let mut drives = self.drives();
        drives.retain(wanted);
        drives
    }

    fn properties(&self, key: &str, default_key: Option<&str>) -> Option<Properties> {
        Properties::parse(self.get(key)?, default_key).ok()
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(boolean).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn config(data: Value) -> VmConfig {
        VmConfig::from_json(data).unwrap()
    }

    /// A clone as Proxmox answers it, with traps: texts that look like drives under keys that are none.
    fn clone() -> VmConfig {
        config(json!({
            "net1": "e1000=BC:24:11:00:00:02,bridge=vmbr1",
            "net0": "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20",
            "virtio0": "local:100/vm-100-disk-0.qcow2,discard=on,iothread=1,size=20G",
            "scsi10": "local-lvm:vm-100-disk-2,size=1G",
            "scsi2": "local-lvm:vm-100-disk-1,size=3584M",
            "ide2": "local-lvm:vm-100-cloudinit,media=cdrom,size=4M",
            "ide0": "none,media=cdrom",
            "efidisk0": "local-lvm:vm-100-disk-3,efitype=4m,size=528K",
            "unused0": "local-lvm:vm-100-disk-4",
            "name": "vm-100-cloudinit",
            "description": "local-lvm:vm-100-cloudinit,media=cdrom",
            "cicustom": "user=local:snippets/vm-100-cloudinit",
            "scsihw": "virtio-scsi-single",
            "smbios1": "uuid=3A940E9F-7149-44b9-8fde-c9584aefc10c,serial=Zm9v,base64=1",
            "boot": "order=net0;virtio0",
            "hostpci0": "0000:01:00.0",
            "usb1": "spice",
            "tags": "Web;prod, db",
            "memory": "current=4096",
            "cores": 4,
            "cpu": "host,flags=+aes",
            "agent": "enabled=1,fstrim_cloned_disks=1",
            "template": false,
            "protection": "1",
            "lock": null,
            "digest": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        }))
    }

    fn slots(drives: &[Drive]) -> Vec<String> {
        drives.iter().map(|drive| drive.slot.to_string()).collect()
    }

    fn set(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_getter_reads_a_real_configuration() {
        let vm = clone();
        assert_eq!(vm.digest.as_deref(), Some("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
        assert_eq!(vm.get("digest"), None);
        assert_eq!(vm.name(), Some("vm-100-cloudinit"));
        assert_eq!(vm.lock(), None);
        assert_eq!(
            vm.smbios_uuid().as_deref(),
            Some("3a940e9f-7149-44b9-8fde-c9584aefc10c")
        );
        assert!(!vm.template() && vm.protection() && !vm.onboot() && vm.agent_enabled());
        assert_eq!(vm.tags(), set(&["db", "prod", "web"]));
        assert_eq!(
            (vm.memory_mib(), vm.cores(), vm.sockets()),
            (Some(4096), Some(4), Some(1))
        );
        assert_eq!(vm.cpu_type().as_deref(), Some("host"));
        assert_eq!(vm.hotplug(), set(&["disk", "network", "usb"]));
        assert_eq!(vm.unreadable(), vec![]);
    }

    #[test]
    fn drives_come_in_the_order_of_slots_and_by_kind() {
        let vm = clone();
        assert_eq!(
            slots(&vm.drives()),
            ["ide0", "ide2", "scsi2", "scsi10", "virtio0", "efidisk0"]
        );
        assert_eq!(slots(&vm.disks()), ["scsi2", "scsi10", "virtio0"]);
        assert_eq!(slots(&vm.cloudinit_drives()), ["ide2"]);
        assert_eq!(
            vm.drive("ide2".parse().unwrap()).unwrap().size().unwrap().to_string(),
            "4M"
        );
        assert_eq!(vm.drive("ide1".parse().unwrap()), None);
        assert_eq!(
            vm.unused(),
            [("unused0".to_owned(), "local-lvm:vm-100-disk-4".to_owned())]
        );
    }

    #[test]
    fn two_cloud_init_drives_are_both_seen() {
        let vm = config(json!({
            "scsi1": "ceph:vm-101-cloudinit,media=cdrom",
            "ide2": "local:101/vm-101-cloudinit.qcow2,media=cdrom",
            "virtio0": "local:101/vm-101-disk-0.qcow2",
        }));
        assert_eq!(slots(&vm.cloudinit_drives()), ["ide2", "scsi1"]);
        assert_eq!(slots(&vm.disks()), ["virtio0"]);
    }

    #[test]
    fn cards_come_by_number() {
        let vm = clone();
        let models: Vec<String> = vm.nics().into_iter().map(|nic| nic.model).collect();
        assert_eq!(models, ["virtio", "e1000"]);
        assert_eq!(vm.nic(1).unwrap().bridge.as_deref(), Some("vmbr1"));
        assert_eq!(vm.nic(2), None);
    }

    #[test]
    fn devices_are_what_a_boot_order_may_name() {
        let want = [
            "hostpci0", "ide0", "ide2", "net0", "net1", "scsi10", "scsi2", "usb1", "virtio0",
        ];
        assert_eq!(clone().devices(), set(&want));
    }

    #[test]
    fn the_boot_disk_is_found_in_every_form() {
        let (a, b) = ("a1:vm-100-disk-0", "a1:vm-100-disk-1");
        let cases = [
            (
                json!({"boot": "order=net0;scsi1;scsi0", "scsi0": a, "scsi1": b}),
                Some("scsi1"),
            ),
            (
                json!({"boot": "order=ide2;scsi0", "scsi0": a, "scsi1": b, "ide2": "none,media=cdrom"}),
                Some("scsi0"),
            ),
            (
                json!({"boot": "order=scsi7;scsi0", "scsi0": a, "scsi1": b}),
                Some("scsi0"),
            ),
            (
                json!({"boot": "cdn", "bootdisk": "virtio0", "virtio0": a, "virtio1": b}),
                Some("virtio0"),
            ),
            (json!({"bootdisk": "scsi0", "virtio0": a}), Some("virtio0")),
            (json!({"boot": "order=net0", "scsi0": a, "efidisk0": b}), Some("scsi0")),
            (json!({"boot": "", "scsi0": a, "scsi1": b}), None),
            (json!({"scsi0": a, "scsi1": b}), None),
            (json!({"ide2": "a1:vm-100-cloudinit,media=cdrom"}), None),
            (json!({}), None),
        ];
        for (data, want) in cases {
            let found = config(data.clone()).boot_disk().map(|disk| disk.slot.to_string());
            assert_eq!(found.as_deref(), want, "{data}");
        }
    }

    #[test]
    fn numbers_strings_and_booleans_read_alike() {
        for on in [json!(1), json!("1"), json!(true), json!("yes")] {
            assert!(config(json!({ "template": on })).template());
        }
        for off in [json!(0), json!(""), json!(false), json!(null)] {
            assert!(!config(json!({ "template": off })).template());
        }
        for memory in [json!(2048), json!("2048"), json!("current=2048")] {
            assert_eq!(config(json!({ "memory": memory })).memory_mib(), Some(2048));
        }
        assert_eq!(config(json!({})).memory_mib(), Some(512));
        assert_eq!(config(json!({"memory": "much"})).memory_mib(), None);
        assert!(VmConfig::from_json(json!([])).is_err());
        assert!(VmConfig::from_json(json!(null)).is_err());
    }

    #[test]
    fn the_agent_and_hotplug_have_their_short_forms() {
        let enabled = |text: &str| config(json!({ "agent": text })).agent_enabled();
        assert!(enabled("1") && enabled("1,type=virtio") && enabled("enabled=1"));
        assert!(!enabled("0") && !enabled("enabled=0") && !enabled("type=isa"));
        assert!(!config(json!({})).agent_enabled());
        assert_eq!(config(json!({"hotplug": "0"})).hotplug(), set(&[]));
        assert_eq!(
            config(json!({"hotplug": 1})).hotplug(),
            set(&["disk", "network", "usb"])
        );
        assert_eq!(
            config(json!({"hotplug": "disk;cloudinit"})).hotplug(),
            set(&["cloudinit", "disk"])
        );
    }

    #[test]
    fn unreadable_devices_are_named() {
        let vm = config(json!({"scsi0": "size=1G", "net0": "bridge=vmbr0", "net1": "virtio", "name": "a=b"}));
        let want = [
            ("scsi0".to_owned(), "no volume is named".to_owned()),
            ("net0".to_owned(), "no model is named".to_owned()),
        ];
        assert_eq!(vm.unreadable(), want);
        assert!(vm.drives().is_empty());
    }

    /// The recorded answers of a real API: every configuration is read, and every drive and card prints as it stood.
    #[test]
    fn recorded_configurations_read_and_print_back() {
        let root = std::env::var_os("VMWRIGHT_REFERENCE").map_or_else(
            || concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").into(),
            std::path::PathBuf::from,
        );
        let folder = root.join("reference/pve-recordings");
        let Ok(files) = std::fs::read_dir(&folder) else {
            return eprintln!("SKIPPED: the API recordings in {} are missing", folder.display());
        };
        let mut found = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let recording = serde_json::from_str(&text).unwrap_or_default();
            collect_configs(&recording, &mut found);
        }
        assert!(found.len() > 10, "only {} configurations were found", found.len());
        for vm in found {
            let drives = vm
                .drives()
                .into_iter()
                .map(|drive| (drive.slot.to_string(), drive.to_string()));
            let nics = vm.nics().into_iter().map(|nic| (nic.key(), nic.to_string()));
            let boot = vm.boot_order().map(|order| ("boot".to_owned(), order.to_string()));
            for (key, printed) in drives.chain(nics).chain(boot) {
                assert_eq!(vm.get(&key).map(str::trim), Some(printed.as_str()));
            }
            assert_eq!(vm.unreadable(), vec![]);
            assert!(vm.digest.is_some() && vm.smbios_uuid().is_some());
        }
    }

    /// Every object below `value` that is a VM configuration.
    fn collect_configs(value: &Value, found: &mut Vec<VmConfig>) {
        if value.get("digest").is_some() && value.get("smbios1").is_some() {
            found.push(config(value.clone()));
        }
        match value {
            Value::Object(object) => object.values().for_each(|inner| collect_configs(inner, found)),
            Value::Array(list) => list.iter().for_each(|inner| collect_configs(inner, found)),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn no_configuration_panics(
            pairs in proptest::collection::btree_map("(ide|scsi|net|unused|boot|smbios1|cpu|agent)[0-9]{0,3}", "\\PC{0,30}", 0..6),
        ) {
            let vm = VmConfig { values: pairs.into_iter().collect(), digest: None };
            let _ = (vm.drives(), vm.nics(), vm.unused(), vm.boot_disk(), vm.devices(), vm.unreadable(), vm.hotplug());
            let _ = (vm.smbios_uuid(), vm.cpu_type(), vm.agent_enabled(), vm.memory_mib(), vm.tags());
        }
    }
}
