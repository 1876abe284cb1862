//! The boot order: `order=virtio0;net0`, a list, or the legacy letters.
//!
//! Which devices a VM has is known for certain only when the template has been looked at: that check is readiness's. Here
//! is checked what can be told offline: the grammar, that nothing is named twice, and that the boot disk is first.

use super::reader::{Field, Reader};
use super::{BootDisk, Nic, disks};

/// The devices in order; `None` keeps the template's order, with the boot disk first.
pub(super) fn build(
    reader: &mut Reader<'_>,
    field: &Field,
    boot: Option<&BootDisk>,
    nics: &[Nic],
) -> Option<Vec<String>> {
    if let Some(letters) = field.text().filter(|text| is_legacy(text)) {
        return legacy(reader, field, &letters, boot, nics);
    }
    let items: Vec<String> = match field.text() {
        Some(text) => {
            let order = text.trim().strip_prefix("order=").unwrap_or(text.trim());
            order.split([';', ',']).map(|item| item.trim().to_owned()).collect()
        }
        None => {
            let items = reader.texts(field)?;
            items.iter().filter_map(|item| reader.text(item)).collect()
        }
    };
    let mut order: Vec<String> = Vec::new();
    let mut ok = true;
    for item in items {
        let fault = if item.is_empty() {
            Some("there is an empty entry")
        } else if !is_device(&item) {
            Some("it names something that nothing can boot from")
        } else if order.contains(&item) {
            Some("it names a device twice")
        } else {
            None
        };
        match fault {
            None => order.push(item),
            Some(fault) => {
                ok = false;
                reader.push(
                    field
                        .error(
                            "machine/boot-order",
                            format!("{} is {}: {fault}: {item:?}", field.path, field.show()),
                        )
                        .rule("device names with `;` between them: order=virtio0;net0"),
                );
            }
        }
    }
    if !ok {
        return None;
    }
    let slot = boot.map(|disk| disk.slot.as_str());
    if let Some(slot) = slot.filter(|slot| order.first().map(String::as_str) != Some(slot)) {
        let problem = if order.iter().any(|item| item == slot) {
            field.error(
                "machine/boot-order",
                format!("{} does not begin with the boot disk, {slot}", field.path),
            )
        } else {
            field.error(
                "machine/boot-order",
                format!("{} does not name the boot disk, {slot}", field.path),
            )
        };
        reader.push(
            problem
                .rule("the VM has to boot from vms_config.disk_os.disk")
                .help(format!("boot_order: order={slot}")),
        );
        return None;
    }
    Some(order)
}

/// Whether a text is in the grammar of old: letters of `a` floppy, `c` disk, `d` CD, `n` network.
fn is_legacy(text: &str) -> bool {
    let letters = text.strip_prefix("legacy=").unwrap_or(text);
    (1..=4).contains(&letters.len()) && letters.chars().all(|c| matches!(c, 'a' | 'c' | 'd' | 'n'))
}

fn legacy(
    reader: &mut Reader<'_>,
    field: &Field,
    letters: &str,
    boot: Option<&BootDisk>,
    nics: &[Nic],
) -> Option<Vec<String>> {
    let letters = letters.strip_prefix("legacy=").unwrap_or(letters);
    let mut order: Vec<String> = Vec::new();
    if let Some(disk) = boot.filter(|_| letters.contains('c')) {
        order.push(disk.slot.clone());
        if letters.contains('n') {
            order.extend(nics.iter().map(|nic| format!("net{}", nic.index)));
        }
    }
    let taken = match &order[..] {
        [] => "the template's order is kept".to_owned(),
        order => format!("taken as order={}", order.join(";")),
    };
    reader.push(
        field
            .warning(
                "machine/boot-order-legacy",
                format!("{} is {}: {taken}", field.path, field.show()),
            )
            .rule("the letters are Proxmox's grammar of old, replaced by a list of devices")
            .help(if order.is_empty() {
                "boot_order: order=virtio0".to_owned()
            } else {
                format!("boot_order: order={}", order.join(";"))
            }),
    );
    (!order.is_empty()).then_some(order)
}

/// Whether a text names something that Proxmox can boot from (qemu-server: `pve-qm-boot`).
fn is_device(text: &str) -> bool {
    let numbered = |prefix: &str, last: u8| {
        text.strip_prefix(prefix)
            .and_then(|digits| digits.parse::<u8>().ok().filter(|n| digits == n.to_string()))
            .is_some_and(|n| n <= last)
    };
    disks::is_slot(text) || numbered("net", 31) || numbered("usb", 13) || numbered("hostpci", 15)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::machine::testing::{codes, good, problems, warnings};

    #[test]
    fn the_forms_of_an_order() {
        let net = json!({"nic0": {}, "nic1": {}});
        let table = [
            (json!("order=virtio0"), vec!["virtio0"]),
            (json!("order=virtio0;net0"), vec!["virtio0", "net0"]),
            (json!("virtio0;net0"), vec!["virtio0", "net0"]),
            (json!(["virtio0", "scsi1"]), vec!["virtio0", "scsi1"]),
            (json!("cdn"), vec!["virtio0", "net0", "net1"]),
            (json!("c"), vec!["virtio0"]),
        ];
        for (order, want) in table {
            let vars = good().config("network", net.clone()).config("boot_order", order);
            assert_eq!(vars.build().unwrap().machine.hardware.boot_order.unwrap(), want);
        }
        assert_eq!(
            warnings(&good().config("boot_order", "cdn")),
            ["machine/boot-order-legacy"]
        );
        assert_eq!(good().build().unwrap().machine.hardware.boot_order, None);
    }

    #[test]
    fn broken_orders_are_told() {
        for order in [
            json!("order=scsi0"),
            json!("order=net0;virtio0"),
            json!("order=virtio0;virtio0"),
            json!("order=virtio0;;net0"),
            json!("order=virtio0;efidisk0"),
            json!("order="),
            json!("order=virtio0;net99"),
        ] {
            let problems = problems(&good().config("boot_order", order.clone()));
            assert_eq!(codes(&problems), ["machine/boot-order"], "{order}");
        }
    }

    #[test]
    fn without_a_declared_boot_disk_the_order_is_left_to_readiness() {
        let vars = good().unset_config("disk_os").config("boot_order", "order=scsi0;net0");
        assert_eq!(
            vars.build().unwrap().machine.hardware.boot_order.unwrap(),
            ["scsi0", "net0"]
        );
    }
}
