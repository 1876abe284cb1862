//! The named formats (pve-common, qemu-server, pve-storage: `register_format`).

use crate::simulator::props::{is_bus_drive, is_dns_name, is_drive, net_index, split_index, split_list};

/// Checks a text; what is wrong with it.
pub(super) fn check_format(name: &str, text: &str) -> Result<(), String> {
    let fine = |ok: bool, why: &str| if ok { Ok(()) } else { Err(why.to_owned()) };
    if let Some(one) = name.strip_suffix("-list") {
        if one == "pve-task-status-type" {
            return Ok(());
        }
        if one == "pve-tag" {
            let ok = split_list(text).iter().all(|tag| is_tag(tag));
            return fine(ok, "invalid characters in tag");
        }
        if one == "address" {
            return Ok(());
        }
        return split_list(text).iter().try_for_each(|item| check_format(one, item));
    }
    match name {
        "dns-name" => fine(is_dns_name(text), "value does not look like a valid DNS name"),
        "pve-vmid" => fine(is_vmid(text), "value does not look like a valid VM ID"),
        "pve-storage-id" => {
            let ok = text.len() >= 2
                && text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.ends_with(|c: char| c.is_ascii_alphanumeric())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
            fine(ok, &format!("storage ID '{text}' contains illegal characters"))
        }
        "pve-node" => fine(
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "value does not look like a valid node name",
        ),
        "pve-configid" => {
            let ok = text.len() >= 2
                && text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            fine(ok, &format!("invalid configuration ID '{text}'"))
        }
        "mac-addr" => fine(
            is_unicast_mac(text),
            "value does not look like a valid unicast MAC address",
        ),
        "urlencoded" => fine(
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-%_.!~*'()".contains(&b)),
            &format!("invalid urlencoded string: {text}"),
        ),
        "pve-volume-id" => fine(is_volume_id(text), &format!("unable to parse volume ID '{text}'")),
        "pve-volume-id-or-qm-path" => fine(
            matches!(text, "none" | "cdrom") || text.starts_with('/') || is_volume_id(text),
            &format!("unable to parse volume ID '{text}'"),
        ),
        "pve-volume-id-or-absolute-path" => fine(
            text.starts_with('/') || is_volume_id(text),
            &format!("unable to parse volume ID '{text}'"),
        ),
        "pve-qm-bootdev" => fine(is_boot_device(text), &format!("invalid boot device '{text}'")),
        "pve-ipv4-config" => fine(
            text == "dhcp" || is_cidr(text, false),
            "value does not look like a valid ipv4 network configuration",
        ),
        "pve-ipv6-config" => fine(
            matches!(text, "dhcp" | "auto") || is_cidr(text, true),
            "value does not look like a valid ipv6 network configuration",
        ),
        "ipv4" => fine(
            text.parse::<std::net::Ipv4Addr>().is_ok(),
            "value does not look like a valid ipv4 address",
        ),
        "ipv6" => fine(
            text.parse::<std::net::Ipv6Addr>().is_ok(),
            "value does not look like a valid ipv6 address",
        ),
        "disk-size" => fine(
            crate::simulator::props::parse_size(text).is_some(),
            "value does not look like a valid disk size",
        ),
        "pve-startup-order" => fine(is_startup(text), "unable to parse startup options"),
        "pve-vm-cpu-conf" => {
            let model = crate::simulator::props::prop(text, "cputype", "cputype").unwrap_or_default();
            fine(
                model.is_empty() || model.starts_with("custom-") || is_cpu(model),
                &format!("Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)"),
            )
        }
        _ => Ok(()),
    }
}

fn is_vmid(text: &str) -> bool {
    (3..=9).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'.'))
}

fn is_unicast_mac(text: &str) -> bool {
    let bytes: Vec<_> = text.split(':').collect();
    bytes.len() == 6
        && bytes.iter().all(|b| b.len() == 2 && u8::from_str_radix(b, 16).is_ok())
        && u8::from_str_radix(bytes[0], 16).is_ok_and(|first| first & 1 == 0)
}

fn is_volume_id(text: &str) -> bool {
    text.split_once(':').is_some_and(|(storage, name)| {
        !storage.is_empty() && !storage.contains('/') && !name.is_empty() && !name.contains(char::is_whitespace)
    })
}

fn is_boot_device(text: &str) -> bool {
    (is_bus_drive(text) && is_drive(text))
        || net_index(text).is_some()
        || matches!(split_index(text), Some(("usb", n)) if n <= 13)
        || matches!(split_index(text), Some(("hostpci", n)) if n <= 15)
}

fn is_cidr(text: &str, six: bool) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let Ok(prefix) = prefix.parse::<u8>() else {
        return false;
    };
    if six {
        address.parse::<std::net::Ipv6Addr>().is_ok() && (8..=128).contains(&prefix)
    } else {
        address.parse::<std::net::Ipv4Addr>().is_ok() && (8..=32).contains(&prefix)
    }
}

fn is_startup(text: &str) -> bool {
    !text.is_empty()
        && text.split(',').all(|part| {
            let number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
            match part.split_once('=') {
                Some(("order" | "up" | "down", n)) => number(n),
                Some(_) => false,
                None => number(part),
            }
        })
}

fn is_cpu(model: &str) -> bool {
    const MODELS: &[&str] = &[
        "486",
        "athlon",
        "core2duo",
        "coreduo",
        "host",
        "kvm32",
        "kvm64",
        "max",
        "phenom",
        "qemu32",
        "qemu64",
        "x86-64-v2",
        "x86-64-v2-AES",
        "x86-64-v3",
        "x86-64-v4",
    ];
    const FAMILIES: &[&str] = &[
        "Broadwell",
        "Cascadelake",
        "Conroe",
        "Cooperlake",
        "EPYC",
        "GraniteRapids",
        "Haswell",
        "Icelake",
        "IvyBridge",
        "KnightsMill",
        "Nehalem",
        "Opteron",
        "Penryn",
        "SandyBridge",
        "SapphireRapids",
        "SierraForest",
        "Skylake",
        "Westmere",
        "pentium",
    ];
    MODELS.contains(&model) || FAMILIES.iter().any(|family| model.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let ok = |name, text| check_format(name, text).is_ok();
        assert!(ok("pve-vmid", "100") && !ok("pve-vmid", "0100") && !ok("pve-vmid", "99"));
        assert!(ok("mac-addr", "BC:24:11:00:00:01") && !ok("mac-addr", "01:00:00:00:00:00"));
        assert!(ok("pve-tag-list", "B,a c") && !ok("pve-tag-list", "a b;-c"));
        assert!(ok("pve-ipv4-config", "10.0.0.5/24") && !ok("pve-ipv4-config", "10.0.0.1"));
        assert!(ok("pve-vm-cpu-conf", "cputype=host,flags=+aes") && !ok("pve-vm-cpu-conf", "no-such-cpu"));
        assert!(ok("pve-startup-order", "order=1,up=5") && !ok("pve-startup-order", "order=x"));
        assert!(ok("pve-qm-bootdev-list", "scsi0;net0") && !ok("pve-qm-bootdev-list", "scsi0;efidisk0"));
    }
}
