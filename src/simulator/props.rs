//! Values of a VM's config: property strings, drives, network devices, sizes (qemu-server: `Drive.pm`, `Network.pm`).

/// A property string, split: pairs in their order; a piece without `=` has no key.
pub(crate) fn split_props(text: &str) -> Vec<(Option<&str>, &str)> {
    text.split(',')
        .filter(|piece| !piece.is_empty())
        .map(|piece| match piece.split_once('=') {
            Some((key, value)) => (Some(key), value),
            None => (None, piece),
        })
        .collect()
}

/// The value of `key` in a property string; `default_key` is the one that may be written without its name.
pub(crate) fn prop<'a>(text: &'a str, key: &str, default_key: &str) -> Option<&'a str> {
    split_props(text)
        .into_iter()
        .find(|(k, _)| k.map_or(key == default_key, |k| k == key))
        .map(|(_, v)| v)
}

/// A boolean of a property string (pve-common: `parse_boolean`).
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Whether the agent's device is configured: `1`, `enabled=1,...`.
pub(crate) fn agent_enabled(value: &str) -> bool {
    prop(value, "enabled", "enabled").and_then(parse_bool).unwrap_or(false)
}

/// A list as Proxmox splits it: at commas, semicolons and white space (pve-common: `split_list`).
pub(crate) fn split_list(text: &str) -> Vec<String> {
    text.split(|c: char| matches!(c, ',' | ';' | '\0') || c.is_whitespace())
        .filter(|piece| !piece.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `scsi12` becomes (`scsi`, 12).
pub(crate) fn split_index(key: &str) -> Option<(&str, u32)> {
    let at = key.find(|c: char| c.is_ascii_digit())?;
    let (name, digits) = key.split_at(at);
    if digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((name, digits.parse().ok()?))
}

/// Whether a config key is a drive, with the efi and tpm disks.
pub(crate) fn is_drive(key: &str) -> bool {
    matches!(key, "efidisk0" | "tpmstate0") || is_bus_drive(key)
}

/// Whether a config key is a drive on a bus.
pub(crate) fn is_bus_drive(key: &str) -> bool {
    match split_index(key) {
        Some(("ide", n)) => n <= 3,
        Some(("sata", n)) => n <= 5,
        Some(("scsi", n)) => n <= 30,
        Some(("virtio", n)) => n <= 15,
        _ => false,
    }
}

/// The number of a `netN` key.
pub(crate) fn net_index(key: &str) -> Option<u32> {
    match split_index(key) {
        Some(("net", n)) if n <= 31 => Some(n),
        _ => None,
    }
}

/// Whether a config key is `unusedN`.
pub(crate) fn is_unused(key: &str) -> bool {
    matches!(split_index(key), Some(("unused", n)) if n <= 255)
}

/// A drive: the volume and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drive {
    /// The volume id, `none`, `cdrom` or a request such as `store:20`.
    pub(crate) file: String,
    /// Options without the volume.
    pub(crate) options: Vec<(String, String)>,
}

impl Drive {
    /// Reads a drive's text.
    pub(crate) fn parse(text: &str) -> Self {
        let mut file = String::new();
        let mut options = Vec::new();
        for (key, value) in split_props(text) {
            match key {
                None | Some("file" | "volume") => file = value.to_owned(),
                Some(key) => options.push((key.to_owned(), value.to_owned())),
            }
        }
        Self { file, options }
    }

    /// An option's value.
    pub(crate) fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Sets an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.options.retain(|(k, _)| k != key);
        self.options.push((key.to_owned(), value.to_owned()));
    }

    /// Removes an option.
    pub(crate) fn unset(&mut self, key: &str) {
        self.options.retain(|(k, _)| k != key);
    }

    /// Whether it is a CD drive, the cloud-init drive too.
    pub(crate) fn is_cdrom(&self) -> bool {
        self.option("media") == Some("cdrom") || self.file == "cdrom"
    }

    /// Whether it is the cloud-init drive: attached, or asked for.
    pub(crate) fn is_cloudinit(&self) -> bool {
        self.file.ends_with(":cloudinit") || {
            let name = self.file.rsplit([':', '/']).next().unwrap_or_default();
            let stem = name.split('.').next().unwrap_or_default();
            stem.starts_with("vm-") && stem.ends_with("-cloudinit")
        }
    }

    /// Whether there is a volume (not `none`, not the host's drive).
    pub(crate) fn has_volume(&self) -> bool {
        self.file.contains(':')
    }

    /// The storage of the volume.
    pub(crate) fn storage(&self) -> Option<&str> {
        self.file.split_once(':').map(|(storage, _)| storage)
    }

    /// The size in GiB of a request for a new volume, `store:20` (qemu-server: `$NEW_DISK_RE`).
    pub(crate) fn new_size(&self) -> Option<f64> {
        let (_, size) = self.file.split_once(':')?;
        let digits = size.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if !digits || !size.starts_with(|c: char| c.is_ascii_digit()) || !size.ends_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        size.parse().ok()
    }

    /// The text as Proxmox writes it: the volume, then the options by name.
    pub(crate) fn print(&self) -> String {
        let mut options = self.options.clone();
        options.sort();
        let mut text = self.file.clone();
        for (key, value) in options {
            text.push(',');
            text.push_str(&key);
            text.push('=');
            text.push_str(&value);
        }
        text
    }
}

/// The models of network devices (qemu-server: `$nic_model_list`).
pub(crate) const NIC_MODELS: &[&str] = &[
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Net {
    /// `virtio`
    pub(crate) model: String,
    /// Upper case, with colons.
    pub(crate) mac: Option<String>,
    /// The rest, `bridge` and so on.
    pub(crate) options: Vec<(String, String)>,
}

impl Net {
    /// Reads a device's text.
    pub(crate) fn parse(text: &str) -> Self {
        let mut net = Self {
            model: String::new(),
            mac: None,
            options: Vec::new(),
        };
        for (key, value) in split_props(text) {
            match key {
                None | Some("model") => net.model = value.to_owned(),
                Some("macaddr") => net.mac = Some(value.to_ascii_uppercase()),
                Some(model) if NIC_MODELS.contains(&model) => {
                    net.model = model.to_owned();
                    net.mac = Some(value.to_ascii_uppercase());
                }
                Some(key) => net.options.push((key.to_owned(), value.to_owned())),
            }
        }
        net
    }

    /// An option's value.
    pub(crate) fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The text as Proxmox writes it.
    pub(crate) fn print(&self) -> String {
        let mut options = self.options.clone();
        options.sort();
        let mut text = self.model.clone();
        if let Some(mac) = &self.mac {
            text.push('=');
            text.push_str(mac);
        }
        for (key, value) in options {
            text.push(',');
            text.push_str(&key);
            text.push('=');
            text.push_str(&value);
        }
        text
    }
}

/// The devices of `boot: order=a;b`; none for another form.
pub(crate) fn boot_order(value: &str) -> Option<Vec<String>> {
    split_props(value)
        .into_iter()
        .find(|(k, _)| *k == Some("order"))
        .map(|(_, v)| v.split(';').filter(|d| !d.is_empty()).map(str::to_owned).collect())
}

/// `boot`'s text for devices; a blank stands for an empty order.
pub(crate) fn print_boot_order(devices: &[String]) -> String {
    if devices.is_empty() {
        " ".to_owned()
    } else {
        format!("order={}", devices.join(";"))
    }
}

/// Bytes of a size, `20G`, `512M`, `1.5T`, `4096`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, factor) = match text.bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1u64 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        b'T' => (&text[..text.len() - 1], 1 << 40),
        _ => (text, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let number: f64 = number.parse().ok()?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "disk sizes are far below 2^52"
    )]
    (number >= 0.0).then_some((number * factor as f64) as u64)
}

/// A size as Proxmox writes it: the largest unit up to G that divides it (qemu-server: `format_size`).
pub(crate) fn print_size(bytes: u64) -> String {
    if !bytes.is_multiple_of(1 << 10) {
        bytes.to_string()
    } else if !bytes.is_multiple_of(1 << 20) {
        format!("{}K", bytes >> 10)
    } else if !bytes.is_multiple_of(1 << 30) {
        format!("{}M", bytes >> 20)
    } else {
        format!("{}G", bytes >> 30)
    }
}

/// A size for people, `1.0 GiB`, as task logs write it.
pub(crate) fn human_size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mut number = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if number < 1024.0 {
            return format!("{number:.1} {unit}");
        }
        number /= 1024.0;
    }
    format!("{number:.1} TiB")
}

/// Whether a text is one or more DNS labels (pve-common: format `dns-name`; no limit of length).
pub(crate) fn is_dns_name(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

/// Percent-decodes; with `plus`, `+` is a blank.
pub(crate) fn percent_decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).and_then(|p| std::str::from_utf8(p).ok());
        match (bytes[at], pair.and_then(|p| u8::from_str_radix(p, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (b'+', _) if plus => {
                out.push(b' ');
                at += 1;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_and_nets_are_written_as_proxmox_does() {
        let mut drive = Drive::parse("vmdata:100/vm-100-disk-1.raw,ssd=1,discard=on,size=1G");
        drive.set("iothread", "1");
        assert_eq!(
            drive.print(),
            "vmdata:100/vm-100-disk-1.raw,discard=on,iothread=1,size=1G,ssd=1"
        );
        assert!(Drive::parse("local-lvm:vm-100-cloudinit,media=cdrom").is_cloudinit());
        assert!(Drive::parse("vmdata:100/vm-100-cloudinit.qcow2,media=cdrom").is_cloudinit());
        assert!(!Drive::parse("local:iso/cloudinit.iso,media=cdrom").is_cloudinit());
        assert_eq!(Drive::parse("local-lvm:0.5").new_size(), Some(0.5));
        assert_eq!(Drive::parse("local-lvm:1G").new_size(), None);
        let net = Net::parse("virtio=bc:24:11:00:00:01,link_down=1,bridge=vmbr0");
        assert_eq!(net.print(), "virtio=BC:24:11:00:00:01,bridge=vmbr0,link_down=1");
        assert_eq!(
            Net::parse("model=e1000,macaddr=BC:24:11:00:00:01").print(),
            "e1000=BC:24:11:00:00:01"
        );
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4.5G"), Some(4_831_838_208));
        assert_eq!(print_size(5_368_710_144), "5242881K");
        assert_eq!(print_size(536_870_912), "512M");
        assert_eq!(print_size(1 << 41), "2048G");
        assert_eq!(human_size(1 << 30), "1.0 GiB");
    }

    #[test]
    fn keys_and_lists() {
        assert!(is_drive("scsi30") && !is_drive("scsi31") && !is_drive("scsi01") && !is_drive("scsihw"));
        assert_eq!(split_list("a, b;c"), ["a", "b", "c"]);
        assert_eq!(boot_order("order=scsi0;ide2").unwrap_or_default(), ["scsi0", "ide2"]);
        assert_eq!(percent_decode("a%2Bb+c%zz", true), "a+b c%zz");
    }
}
