//! Drives: `virtio0: local-lvm:vm-100-disk-0,discard=on,size=20G`.
//!
//! A drive sits in a [`Slot`] and is a volume with options. The volume is `STORAGE:NAME`, an absolute path of the node,
//! or `none` or `cdrom` for a drive without medium or with the node's own. `size=` only informs: the true size is the
//! storage's (qemu-server: `PVE::QemuServer::Drive`).

use std::fmt;
use std::str::FromStr;

use super::ids::{InvalidId, StorageName};
use super::property::{Properties, PropertyError, canonical};
use super::size::Size;

/// Where a drive can sit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bus {
    /// `ide0` to `ide3`.
    Ide,
    /// `sata0` to `sata5`.
    Sata,
    /// `scsi0` to `scsi30`.
    Scsi,
    /// `virtio0` to `virtio15`.
    Virtio,
    /// `efidisk0`: the firmware's variables, no drive of the guest's.
    Efi,
    /// `tpmstate0`: the TPM's state, no drive of the guest's.
    Tpm,
}

impl Bus {
    /// All buses, in the order of slots.
    const ALL: [Self; 6] = [Self::Ide, Self::Sata, Self::Scsi, Self::Virtio, Self::Efi, Self::Tpm];

    /// The key without its number.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ide => "ide",
            Self::Sata => "sata",
            Self::Scsi => "scsi",
            Self::Virtio => "virtio",
            Self::Efi => "efidisk",
            Self::Tpm => "tpmstate",
        }
    }

    /// The largest number.
    pub fn max_index(self) -> u8 {
        match self {
            Self::Ide => 3,
            Self::Sata => 5,
            Self::Scsi => 30,
            Self::Virtio => 15,
            Self::Efi | Self::Tpm => 0,
        }
    }
}

/// The key of a drive, `virtio0`. Slots order by bus, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    bus: Bus,
    index: u8,
}

impl Slot {
    /// The slot, unless the bus has no such number.
    pub fn new(bus: Bus, index: u8) -> Option<Self> {
        (index <= bus.max_index()).then_some(Self { bus, index })
    }

    /// The bus.
    pub fn bus(self) -> Bus {
        self.bus
    }

    /// The number on the bus.
    pub fn index(self) -> u8 {
        self.index
    }

    /// Whether the guest sees a drive here, and can boot from it: not for `efidisk0` and `tpmstate0`.
    pub fn is_device(self) -> bool {
        match self.bus {
            Bus::Ide | Bus::Sata | Bus::Scsi | Bus::Virtio => true,
            Bus::Efi | Bus::Tpm => false,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bus.name(), self.index)
    }
}

impl FromStr for Slot {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Bus::ALL
            .into_iter()
            .find_map(|bus| Self::new(bus, index_of(text, bus.name())?))
            .ok_or_else(|| InvalidId {
                kind: "drive slot",
                text: text.to_owned(),
                rule: "ide0-3, sata0-5, scsi0-30, virtio0-15, efidisk0 or tpmstate0",
            })
    }
}

/// The number of an indexed key: 12 for `scsi12` and the prefix `scsi`. Leading zeros make another key, so none.
pub(super) fn index_of(key: &str, prefix: &str) -> Option<u8> {
    let digits = key.strip_prefix(prefix)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    plain.then(|| digits.parse().ok())?
}

/// A text that is no drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// It is no property string.
    #[error(transparent)]
    Properties(#[from] PropertyError),
    /// It names no volume.
    #[error("no volume is named")]
    NoVolume,
}

/// One drive of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its key.
    pub slot: Slot,
    /// `local-lvm:vm-100-disk-0`, `/dev/sdb`, `none`, `cdrom`.
    pub volume: String,
    /// Everything else, in the order in which it was written.
    pub options: Properties,
}

impl Drive {
    /// Reads the value of the key `slot`. The volume stands bare, or as `file=` or `volume=`.
    pub fn parse(slot: Slot, text: &str) -> Result<Self, DriveError> {
        let mut options = Properties::parse(text, Some("file"))?;
        let volume = match (options.remove("file"), options.remove("volume")) {
            (Some(volume), None) | (None, Some(volume)) => volume,
            (Some(_), Some(_)) => {
                let key = "file".to_owned();
                return Err(PropertyError::Duplicate { key }.into());
            }
            (None, None) => return Err(DriveError::NoVolume),
        };
        Ok(Self { slot, volume, options })
    }

    /// The volume's storage; none for paths, `none` and `cdrom`.
    pub fn storage(&self) -> Option<StorageName> {
        let (storage, _) = self.volume.split_once(':')?;
        storage.parse().ok()
    }

    /// What `size=` says.
    pub fn size(&self) -> Option<Size> {
        self.option("size")?.parse().ok()
    }

    /// Whether it is a CD drive, full or empty. A cloud-init drive is one.
    pub fn is_cdrom(&self) -> bool {
        self.option("media") == Some("cdrom") || matches!(self.volume.as_str(), "none" | "cdrom")
    }

    /// Whether it holds cloud-init's data: `vm-100-cloudinit` with or without a format, or `STORAGE:cloudinit`, which is
    /// how one is asked for (qemu-server: `drive_is_cloudinit`).
    pub fn is_cloudinit(&self) -> bool {
        const FORMATS: [&str; 6] = [".raw", ".qcow2", ".qcow", ".qed", ".vmdk", ".cloop"];
        let Some(at) = self.volume.rfind([':', '/']) else {
            return false;
        };
        let name = &self.volume[at + 1..];
        let stem = FORMATS
            .iter()
            .find_map(|format| name.strip_suffix(format))
            .unwrap_or(name);
        let of_vm = |stem: &str| {
            let id = stem
                .strip_prefix("vm-")
                .and_then(|rest| rest.strip_suffix("-cloudinit"));
            id.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
        };
        self.slot.is_device() && (stem == "cloudinit" || of_vm(stem))
    }

    /// An option's value.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name)
    }

    /// This drive with an option set.
    #[must_use]
    pub fn with_option(mut self, name: &str, value: &str) -> Self {
        self.options.set(name, value);
        self
    }

    /// Those of `wanted` that this drive has not, counting spelling (`on`, `1`) and an absent option's default.
    pub fn missing_options<'a>(&self, wanted: &'a [(String, String)]) -> Vec<(&'a str, &'a str)> {
        wanted
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, value)| {
                let has = self.option(name).or(default_option(name));
                has.map(canonical) != Some(canonical(value))
            })
            .collect()
    }
}

/// What an absent option means (qemu-server: the schema of drives).
fn default_option(name: &str) -> Option<&'static str> {
    match name {
        "backup" | "replicate" => Some("1"),
        "iothread" | "ssd" | "ro" | "shared" | "snapshot" => Some("0"),
        "discard" => Some("ignore"),
        "cache" => Some("none"),
        "media" => Some("disk"),
        _ => None,
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a named volume may hold a `=`.
        let name = if self.volume.contains('=') { "file=" } else { "" };
        write!(f, "{name}{}", self.volume)?;
        if !self.options.is_empty() {
            write!(f, ",{}", self.options)?;
        }
        Ok(())
    }
}

/// The value that allocates a new disk: `local-lvm:20,format=raw,discard=on`. The number is GiB (qemu-server:
/// `$NEW_DISK_RE`). Sending it twice allocates two disks.
pub fn new_disk(storage: &StorageName, gib: u64, format: Option<&str>, options: &[(String, String)]) -> String {
    let format = format.map(|format| ("format".to_owned(), format.to_owned()));
    let options: Properties = format.into_iter().chain(options.iter().cloned()).collect();
    if options.is_empty() {
        format!("{storage}:{gib}")
    } else {
        format!("{storage}:{gib},{options}")
    }
}

/// The volume of an `unusedN` key: a disk that was detached and is kept.
pub fn unused_volume(key: &str, text: &str) -> Option<String> {
    index_of(key, "unused")?;
    let mut properties = Properties::parse(text, Some("file")).ok()?;
    properties.remove("file").or_else(|| properties.remove("volume"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drive(slot: &str, text: &str) -> Drive {
        Drive::parse(slot.parse().unwrap(), text).unwrap()
    }

    #[test]
    fn slots_have_bounds_and_one_spelling() {
        for text in [
            "ide0",
            "ide3",
            "sata5",
            "scsi0",
            "scsi30",
            "virtio15",
            "efidisk0",
            "tpmstate0",
        ] {
            assert_eq!(text.parse::<Slot>().unwrap().to_string(), text);
        }
        for text in [
            "", "ide", "ide4", "sata6", "scsi31", "scsi256", "virtio16", "virtio00", "virtio-1", "virtio+1", "SCSI0",
            "scsihw", "efidisk1", "unused0", "net0", "scsi0 ",
        ] {
            assert!(text.parse::<Slot>().is_err(), "{text:?} was taken");
        }
        let slot = |text: &str| text.parse::<Slot>().unwrap();
        assert!(slot("ide3") < slot("sata0") && slot("scsi2") < slot("scsi10") && slot("scsi30") < slot("virtio0"));
        assert!(slot("virtio0").is_device() && !slot("efidisk0").is_device());
    }

    #[test]
    fn a_disk_tells_volume_storage_size_and_options() {
        let text = "local:100/vm-100-disk-0.qcow2,discard=on,iothread=1,size=20G";
        let disk = drive("virtio0", text);
        assert_eq!(disk.volume, "local:100/vm-100-disk-0.qcow2");
        assert_eq!(disk.storage().unwrap().as_str(), "local");
        assert_eq!(disk.size(), Some(Size::gib(20)));
        assert_eq!(disk.option("discard"), Some("on"));
        assert!(!disk.is_cdrom() && !disk.is_cloudinit());
        assert_eq!(disk.to_string(), text);
        assert_eq!(
            disk.with_option("iothread", "0").with_option("ssd", "1").to_string(),
            "local:100/vm-100-disk-0.qcow2,discard=on,iothread=0,size=20G,ssd=1"
        );
    }

    #[test]
    fn the_volume_may_be_named_and_stand_anywhere() {
        for text in ["file=a1:b,size=1G", "volume=a1:b,size=1G", "size=1G,file=a1:b"] {
            assert_eq!(drive("scsi0", text).to_string(), "a1:b,size=1G");
        }
        let slot = "scsi0".parse().unwrap();
        assert_eq!(Drive::parse(slot, "size=1G"), Err(DriveError::NoVolume));
        assert_eq!(Drive::parse(slot, ""), Err(DriveError::NoVolume));
        assert!(Drive::parse(slot, "a1:b,volume=a1:c").is_err());
    }

    #[test]
    fn cd_drives_and_cloud_init_drives_are_told_apart() {
        // (key, value, CD, cloud-init)
        let cases = [
            ("ide2", "local-lvm:vm-100-cloudinit,media=cdrom,size=4M", true, true),
            ("ide2", "vmdata:100/vm-100-cloudinit.qcow2,media=cdrom", true, true),
            ("scsi1", "ceph:vm-9000-cloudinit,media=cdrom", true, true),
            ("ide0", "local-lvm:cloudinit", false, true),
            ("ide0", "local-lvm:cloudinit.raw", false, true),
            ("ide2", "none,media=cdrom", true, false),
            ("ide2", "none", true, false),
            ("ide2", "cdrom", true, false),
            ("ide2", "local:iso/debian-12.iso,media=cdrom", true, false),
            ("ide2", "local:iso/cloudinit.iso,media=cdrom", true, false),
            ("ide2", "local:iso/vm-100-cloudinit.iso,media=cdrom", true, false),
            ("scsi0", "local-lvm:vm-100-disk-0,size=3584M", false, false),
            ("scsi0", "local-lvm:vm-100-cloudinit-old", false, false),
            ("scsi0", "local-lvm:my-cloudinit", false, false),
            ("scsi0", "local-lvm:vm-x1-cloudinit", false, false),
            ("scsi0", "local-lvm:vm--cloudinit", false, false),
            ("scsi0", "/dev/disk/by-id/ata-1", false, false),
            ("efidisk0", "local-lvm:vm-100-cloudinit", false, false),
        ];
        for (slot, text, cdrom, cloudinit) in cases {
            let drive = drive(slot, text);
            assert_eq!(
                (drive.is_cdrom(), drive.is_cloudinit()),
                (cdrom, cloudinit),
                "{slot}: {text}"
            );
            assert_eq!(drive.to_string(), text);
        }
    }

    #[test]
    fn only_a_storage_volume_has_a_storage() {
        let storage = |text| drive("scsi0", text).storage().map(String::from);
        assert_eq!(storage("local-lvm:vm-100-disk-0"), Some("local-lvm".to_owned()));
        assert_eq!(storage("none,media=cdrom"), None);
        assert_eq!(storage("/dev/disk/by-path/pci-0000:00:1f.2"), None);
    }

    #[test]
    fn options_compare_by_meaning() {
        let disk = drive("virtio0", "a1:b,discard=on,iothread=1");
        let wanted = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let same = wanted(&[
            ("discard", "on"),
            ("iothread", "true"),
            ("backup", "1"),
            ("ssd", "0"),
            ("cache", "none"),
        ]);
        assert_eq!(disk.missing_options(&same), vec![]);
        let other = wanted(&[
            ("discard", "ignore"),
            ("backup", "0"),
            ("cache", "writeback"),
            ("aio", "native"),
        ]);
        assert_eq!(disk.missing_options(&other).len(), 4);
    }

    #[test]
    fn a_new_disk_is_asked_for_in_gib() {
        let storage: StorageName = "local-lvm".parse().unwrap();
        let options = [
            ("discard".to_owned(), "on".to_owned()),
            ("ssd".to_owned(), "1".to_owned()),
        ];
        assert_eq!(new_disk(&storage, 20, None, &[]), "local-lvm:20");
        assert_eq!(
            new_disk(&storage, 20, Some("qcow2"), &options),
            "local-lvm:20,format=qcow2,discard=on,ssd=1"
        );
    }

    #[test]
    fn an_unused_disk_tells_its_volume() {
        let volume = Some("local-lvm:vm-100-disk-1".to_owned());
        assert_eq!(unused_volume("unused0", "local-lvm:vm-100-disk-1"), volume);
        assert_eq!(unused_volume("unused12", "file=local-lvm:vm-100-disk-1"), volume);
        assert_eq!(unused_volume("scsi0", "local-lvm:vm-100-disk-1"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_printing_round_trips(text in "[a-z:/.-]{0,20}(,[a-c]=[a-z0-9]{1,3}){0,3}|\\PC*", key: String) {
            let _ = (key.parse::<Slot>(), unused_volume(&key, &text));
            let slot = Slot::new(Bus::Scsi, 0).unwrap();
            if let Ok(drive) = Drive::parse(slot, &text) {
                let _ = (drive.storage(), drive.size(), drive.is_cdrom(), drive.is_cloudinit());
                prop_assert_eq!(Drive::parse(slot, &drive.to_string()), Ok(drive));
            }
        }

        #[test]
        fn what_proxmox_prints_is_printed_back(
            text in "[a-z]{2,8}:[a-z0-9/.-]{1,20}(,aio=native)?(,cache=none)?(,discard=on)?(,size=[1-9][0-9]?G)?",
        ) {
            let slot = Slot::new(Bus::Virtio, 3).unwrap();
            prop_assert_eq!(Drive::parse(slot, &text).unwrap().to_string(), text);
        }
    }
}
