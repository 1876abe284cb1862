//! The boot order: `boot: order=scsi0;net0`, or one of its older forms (qemu-server: format `pve-qm-boot`).

use std::fmt;

use super::property::{Properties, words};

/// What the key `boot` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootOrder {
    /// `order=scsi0;net0`: exactly these devices, in this order. Empty, or an empty `boot`: nothing to boot from.
    Devices(Vec<String>),
    /// The older `cdn` or `legacy=cdn`: kinds of devices, with the disk in the key `bootdisk`.
    Legacy(String),
    /// Something else.
    Unreadable(String),
}

impl BootOrder {
    /// Reads the value of `boot`. `legacy` wins over `order` where both stand (qemu-server:
    /// `device_bootorder`).
    pub fn parse(text: &str) -> Self {
        let unreadable = || Self::Unreadable(text.to_owned());
        if matches!(text.trim(), "" | "order=") {
            return Self::Devices(Vec::new());
        }
        let Ok(properties) = Properties::parse(text, Some("legacy")) else {
            return unreadable();
        };
        if properties.iter().any(|(key, _)| !matches!(key, "legacy" | "order")) {
            return unreadable();
        }
        if let Some(kinds) = properties.get("legacy") {
            let known = kinds.len() <= 4 && kinds.bytes().all(|b| b"acdn".contains(&b));
            return if known {
                Self::Legacy(kinds.to_owned())
            } else {
                unreadable()
            };
        }
        let order = properties.get("order").unwrap_or_default();
        let devices: Vec<String> = words(order).map(str::to_owned).collect();
        if devices.iter().all(|device| is_device(device)) {
            Self::Devices(devices)
        } else {
            unreadable()
        }
    }

    /// The order over `devices`.
    pub fn of<T: Into<String>>(devices: impl IntoIterator<Item = T>) -> Self {
        Self::Devices(devices.into_iter().map(Into::into).collect())
    }

    /// The named devices, in order; the older forms name none.
    pub fn devices(&self) -> &[String] {
        match self {
            Self::Devices(devices) => devices,
            Self::Legacy(_) | Self::Unreadable(_) => &[],
        }
    }

    /// The device that is tried first.
    pub fn first(&self) -> Option<&str> {
        self.devices().first().map(String::as_str)
    }

    /// This order with `device` in front: added, or moved there. An older form becomes `order=<device>`.
    pub fn with_first(&self, device: &str) -> Self {
        let rest = self.devices().iter().filter(|other| *other != device);
        Self::of(std::iter::once(device.to_owned()).chain(rest.cloned()))
    }

    /// This order without `device`; an older form stays as it is.
    pub fn without(&self, device: &str) -> Self {
        match self {
            Self::Devices(devices) => Self::of(devices.iter().filter(|other| *other != device).cloned()),
            Self::Legacy(_) | Self::Unreadable(_) => self.clone(),
        }
    }
}

/// Whether `text` has the shape of a device key, `scsi0`.
fn is_device(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_lowercase());
    digits.len() < text.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

impl fmt::Display for BootOrder {
    /// As the API takes it. No devices print as the empty text, which Proxmox shows as a blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices(devices) if devices.is_empty() => Ok(()),
            Self::Devices(devices) => write!(f, "order={}", devices.join(";")),
            Self::Legacy(text) | Self::Unreadable(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_is_told_from_the_others() {
        let unreadable = |text: &str| BootOrder::Unreadable(text.to_owned());
        let legacy = |text: &str| BootOrder::Legacy(text.to_owned());
        let cases = [
            ("order=scsi0;net0", BootOrder::of(["scsi0", "net0"])),
            ("order=virtio0", BootOrder::of(["virtio0"])),
            ("order=scsi0 ide2;;net0", BootOrder::of(["scsi0", "ide2", "net0"])),
            ("legacy=cdn,order=hostpci0", legacy("cdn")),
            ("", BootOrder::Devices(vec![])),
            (" ", BootOrder::Devices(vec![])),
            ("order=", BootOrder::Devices(vec![])),
            ("cdn", legacy("cdn")),
            ("c", legacy("c")),
            ("legacy=dc", legacy("dc")),
            ("xyz", unreadable("xyz")),
            ("cdnca", unreadable("cdnca")),
            ("scsi0;net0", unreadable("scsi0;net0")),
            ("order=scsi", unreadable("order=scsi")),
            ("order=0", unreadable("order=0")),
            ("menu=1,order=scsi0", unreadable("menu=1,order=scsi0")),
            ("order=a0,order=b0", unreadable("order=a0,order=b0")),
        ];
        for (text, want) in cases {
            assert_eq!(BootOrder::parse(text), want, "{text:?}");
        }
    }

    #[test]
    fn the_first_device_moves_to_the_front() {
        let order = BootOrder::parse("order=ide2;scsi0;net0");
        assert_eq!(order.first(), Some("ide2"));
        assert_eq!(order.with_first("scsi0").to_string(), "order=scsi0;ide2;net0");
        assert_eq!(order.with_first("virtio0").to_string(), "order=virtio0;ide2;scsi0;net0");
        assert_eq!(BootOrder::parse("cdn").with_first("scsi0").to_string(), "order=scsi0");
        assert_eq!(BootOrder::parse("cdn").first(), None);
        assert_eq!(order.without("ide2").to_string(), "order=scsi0;net0");
        assert_eq!(BootOrder::of(["ide2"]).without("ide2").to_string(), "");
    }

    proptest! {
        #[test]
        fn printing_round_trips(text in "(order=|legacy=)?[a-z0-9; ,]{0,20}|\\PC*") {
            let order = BootOrder::parse(&text);
            prop_assert_eq!(BootOrder::parse(&order.to_string()), order);
        }
    }
}
