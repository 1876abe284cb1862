//! Network cards: three ways to write one, and the first that is there wins whole: `netN`, `network.nicN`, `nicN`.
//! Facts: qemu-server, `PVE::QemuServer::Network` (the `netN` property string), pve-common (`pve-bridge-id`).

use std::collections::BTreeMap;

use super::Nic;
use super::reader::{Field, Reader};
use super::schema;
use super::variables::Data;
use crate::diagnose::Diagnostic;
use crate::proxmox::ids::Mac;

const MODELS: [&str; 14] = [
    "virtio",
    "e1000",
    "e1000e",
    "vmxnet3",
    "rtl8139",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
];

/// The cards of `vms_config`, by index. A card that nobody declares is the template's, and kept.
pub(super) fn build(reader: &mut Reader<'_>, config: &Field) -> Vec<Nic> {
    let network = reader
        .child(config, "network")
        .and_then(|field| reader.known_map(&field));
    let mut forms: BTreeMap<u8, Vec<Field>> = BTreeMap::new();
    for (parent, family) in [(Some(config), "net"), (network.as_ref(), "nic"), (Some(config), "nic")] {
        let Some(parent) = parent else { continue };
        for key in parent.map().into_iter().flat_map(|map| map.keys()) {
            let Some(index) = schema::index_of(key, family) else {
                continue;
            };
            if let Some(field) = reader.child(parent, key) {
                forms.entry(index).or_default().push(field);
            }
        }
    }
    let mut nics: Vec<Nic> = Vec::new();
    for (index, forms) in forms {
        let [winner, losers @ ..] = &forms[..] else { continue };
        for loser in losers {
            reader.push(
                loser
                    .warning("machine/nic-shadowed", format!("{} is not looked at", loser.path))
                    .rule("netN wins over network.nicN, and that over nicN; nothing is merged")
                    .note(winner.value.place.clone(), format!("{} wins", winner.path))
                    .help(format!("remove {}", loser.path)),
            );
        }
        let nic = match winner.value.data {
            Data::Str(_) => raw(reader, winner, index),
            _ => structured(reader, winner, index),
        };
        let Some(nic) = nic else { continue };
        if let Some(other) = nics.iter().find(|other| other.mac.is_some() && other.mac == nic.mac) {
            reader.push(
                winner
                    .error(
                        "machine/duplicate-mac",
                        format!("net{} and net{index} have the same MAC", other.index),
                    )
                    .rule("a MAC is one card's"),
            );
        }
        nics.push(nic);
    }
    nics
}

/// A card written as a mapping.
fn structured(reader: &mut Reader<'_>, field: &Field, index: u8) -> Option<Nic> {
    let nic = reader.known_map(field)?;
    let model = reader
        .child_or_default(&nic, "model")
        .and_then(|field| reader.word(&field, &MODELS));
    let bridge = reader
        .child_or_default(&nic, "bridge")
        .and_then(|field| bridge(reader, &field));
    let tag = reader.raw_child(&nic, "tag").and_then(|field| tag(reader, &field));
    let mac = reader.child(&nic, "mac").and_then(|field| reader.id::<Mac>(&field));
    let mut options = Vec::new();
    for key in ["firewall", "mtu", "rate", "queues", "link_down", "trunks"] {
        let Some(field) = reader.child(&nic, key) else { continue };
        let value = option(reader, &field, key, model.as_deref());
        options.extend(value.map(|value| (key.to_owned(), value)));
    }
    Some(Nic {
        index,
        model: model?,
        bridge: bridge?,
        tag,
        mac,
        options,
    })
}

/// A card written as Proxmox writes it: `virtio=MAC,bridge=vmbr0,tag=20`.
fn raw(reader: &mut Reader<'_>, field: &Field, index: u8) -> Option<Nic> {
    let text = reader.text(field)?;
    let part = |key: &str, value: &str| Field {
        path: field.path.clone() + "." + key,
        value: super::variables::Value {
            data: Data::Str(value.to_owned()),
            ..field.value.clone()
        },
    };
    let (mut model, mut bridge_name, mut tag_number, mut mac) = (None, None, None, None);
    let mut options = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for item in text.split(',') {
        let (key, value) = match item.trim().split_once('=') {
            // `virtio=MAC` names model and MAC at once.
            Some((key, value)) if MODELS.contains(&key) => {
                mac = reader.id::<Mac>(&part("macaddr", value));
                ("model", key)
            }
            Some((key, value)) => (key, value),
            None => ("model", item.trim()),
        };
        if seen.iter().any(|k| k == key) {
            reader.push(
                field
                    .error("machine/net-string", format!("{} has {key} twice", field.path))
                    .rule("each key once"),
            );
            return None;
        }
        seen.push(key.to_owned());
        let part = part(key, value);
        match key {
            "model" => model = reader.word(&part, &MODELS),
            "macaddr" => mac = reader.id::<Mac>(&part),
            "bridge" => bridge_name = bridge(reader, &part),
            "tag" => tag_number = tag(reader, &part),
            "firewall" | "mtu" | "rate" | "queues" | "link_down" | "trunks" => {
                let value = option(reader, &part, key, model.as_deref());
                options.extend(value.map(|value| (key.to_owned(), value)));
            }
            _ => {
                reader.push(
                    field
                        .error("machine/net-string", format!("{} has no key {key:?}", field.path))
                        .rule("model, macaddr, bridge, tag, firewall, mtu, rate, queues, link_down, trunks"),
                );
                return None;
            }
        }
    }
    for (what, missing) in [
        ("a model", !seen.iter().any(|k| k == "model")),
        ("a bridge", !seen.iter().any(|k| k == "bridge")),
    ] {
        if missing {
            reader.push(
                field
                    .error(
                        "machine/net-string",
                        format!("{} is {} and names no {}", field.path, field.show(), &what[2..]),
                    )
                    .rule(format!("{what} is needed: virtio,bridge=vmbr0")),
            );
        }
    }
    Some(Nic {
        index,
        model: model?,
        bridge: bridge_name?,
        tag: tag_number,
        mac,
        options,
    })
}

/// A bridge's or vnet's name.
fn bridge(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let name = reader.text(field)?;
    if name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    {
        return Some(name);
    }
    reader.push(
        field
            .error(
                "machine/invalid-name",
                format!("{} is {}: no valid bridge", field.path, field.show()),
            )
            .rule("letters, digits, `-`, `_` and `.`"),
    );
    None
}

/// A VLAN: 1 to 4094; null, 0 and -1 mean untagged.
fn tag(reader: &mut Reader<'_>, field: &Field) -> Option<u16> {
    let number = match &field.value.data {
        Data::Null => return None,
        Data::Int(i) => Some(*i),
        Data::Str(s) => s.trim().parse::<i128>().ok(),
        _ => None,
    };
    match number {
        Some(0) => None,
        Some(-1) => {
            reader.push(
                field
                    .warning(
                        "machine/vlan-minus-one",
                        format!("{} is -1: taken as untagged", field.path),
                    )
                    .rule("Proxmox itself knows tags from 1 to 4094 only")
                    .help("write 0, or remove the tag"),
            );
            None
        }
        Some(number @ 1..=4094) => u16::try_from(number).ok(),
        Some(_) => {
            reader.push(
                field
                    .error(
                        "machine/vlan-range",
                        format!("{} is {}: no VLAN", field.path, field.show()),
                    )
                    .rule("1 to 4094; 0 or nothing for untagged"),
            );
            None
        }
        None => {
            reader.push(
                field
                    .wrong("a VLAN number")
                    .rule("1 to 4094; 0 or nothing for untagged"),
            );
            None
        }
    }
}

/// A further option, in Proxmox's spelling.
fn option(reader: &mut Reader<'_>, field: &Field, key: &str, model: Option<&str>) -> Option<String> {
    match key {
        "firewall" | "link_down" => reader.bool(field).map(|on| u8::from(on).to_string()),
        "queues" => reader.int(field, 0..=64).map(|n| n.to_string()),
        "mtu" => {
            let mtu = reader.int(field, 1..=65520)?;
            let fault = if (2..576).contains(&mtu) {
                "1 takes the bridge's, else 576 to 65520"
            } else if model.is_some_and(|m| m != "virtio") {
                "only virtio cards have an MTU"
            } else {
                return Some(mtu.to_string());
            };
            reader.push(
                field
                    .error("machine/mtu", format!("{} is {mtu}", field.path))
                    .rule(fault),
            );
            None
        }
        "rate" => {
            let rate = match &field.value.data {
                Data::Int(i) => Some(*i as f64),
                Data::Float(f) => Some(*f),
                Data::Str(s) => s.trim().parse().ok(),
                _ => None,
            };
            match rate {
                Some(rate) if rate.is_finite() && rate >= 0.0 => Some(rate.to_string()),
                Some(_) | None => {
                    reader.push(field.wrong("a rate in MB/s").rule("0 or more"));
                    None
                }
            }
        }
        _ => trunks(reader, field),
    }
}

/// VLANs passed through: `10;20-30`.
fn trunks(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    let vlan = |s: &str| s.parse::<u16>().is_ok_and(|n| (1..=4094).contains(&n));
    let ok = text.split(';').all(|item| match item.split_once('-') {
        None => vlan(item),
        Some((from, to)) => vlan(from) && vlan(to) && from.parse::<u16>().ok() <= to.parse().ok(),
    });
    if ok {
        return Some(text);
    }
    reader.push(
        field
            .error("machine/trunks", format!("{} is {}", field.path, field.show()))
            .rule("VLAN numbers and ranges with `;` between them: 10;20-30"),
    );
    None
}

/// Warns where a tag does not follow the convention "VLAN = third octet", which most sites use.
pub(super) fn check_octet(
    reader: &mut Reader<'_>,
    nic: &Nic,
    address: std::net::Ipv4Addr,
    path: &str,
    field: Option<&Field>,
) {
    let octet = u16::from(address.octets()[2]);
    let Some(tag) = nic.tag.filter(|tag| *tag != octet) else {
        return;
    };
    reader.push(
        Diagnostic::warning(
            "machine/vlan-octet",
            format!(
                "net{} is on VLAN {tag}, and the address {address} has {octet} as its third octet",
                nic.index
            ),
        )
        .key(path)
        .at(field.map(|f| f.value.place.clone()))
        .rule("where VLAN and third octet agree everywhere else, one of the two was forgotten in a move"),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::testing::{TestVars, codes, good, problems, warnings};

    fn nics(vars: &TestVars) -> Vec<Nic> {
        vars.build().unwrap().machine.hardware.nics
    }

    fn plain(index: u8, bridge: &str, tag: Option<u16>) -> Nic {
        Nic {
            index,
            model: "virtio".to_owned(),
            bridge: bridge.to_owned(),
            tag,
            mac: None,
            options: Vec::new(),
        }
    }

    #[test]
    fn no_card_is_the_templates() {
        assert_eq!(nics(&good()), []);
    }

    #[test]
    fn the_three_forms_and_who_wins() {
        let flat = good().config(
            "nic0",
            json!({"model": "e1000", "bridge": "vmbr9", "tag": 20, "firewall": true}),
        );
        assert_eq!(nics(&flat)[0].model, "e1000");
        let nested = flat.config("network", json!({"nic0": {"tag": 20}}));
        assert_eq!(
            nics(&nested),
            [plain(0, "vmbr0", Some(20))],
            "nothing of the flat form is left"
        );
        assert_eq!(warnings(&nested), ["machine/nic-shadowed"]);
        let raw = nested.config("net0", "virtio,bridge=vmbr7");
        assert_eq!(nics(&raw), [plain(0, "vmbr7", None)]);
        assert_eq!(warnings(&raw), ["machine/nic-shadowed", "machine/nic-shadowed"]);
    }

    #[test]
    fn indices_are_explicit() {
        let vars = good().config("network", json!({"nic0": {}, "nic2": {"bridge": "vmbr2"}}));
        assert_eq!(nics(&vars), [plain(0, "vmbr0", None), plain(2, "vmbr2", None)]);
    }

    #[test]
    fn untagged_is_none_zero_or_minus_one() {
        for (tag, want) in [
            (json!(null), None),
            (json!(0), None),
            (json!("20"), Some(20)),
            (json!(20), Some(20)),
        ] {
            let vars = good().config("nic0", json!({ "tag": tag }));
            assert_eq!(nics(&vars)[0].tag, want);
            assert_eq!(warnings(&vars), [""; 0]);
        }
        let minus = good().config("nic0", json!({"tag": -1}));
        assert_eq!(nics(&minus)[0].tag, None);
        assert_eq!(warnings(&minus), ["machine/vlan-minus-one"]);
    }

    #[test]
    fn a_raw_string_is_parsed() {
        let vars = good().config(
            "net0",
            "virtio=bc:24:11:00:00:01,bridge=vmbr0,tag=20,firewall=1,mtu=1400,rate=12.5,trunks=10;20-30",
        );
        let nic = nics(&vars).remove(0);
        assert_eq!(nic.mac.unwrap().as_str(), "BC:24:11:00:00:01");
        assert_eq!((nic.model.as_str(), nic.tag), ("virtio", Some(20)));
        let options: Vec<String> = nic.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(options, ["firewall=1", "mtu=1400", "rate=12.5", "trunks=10;20-30"]);
        assert_eq!(
            nics(&good().config("net0", "model=virtio,bridge=vmbr0")),
            [plain(0, "vmbr0", None)]
        );
    }

    #[test]
    fn broken_cards_are_told() {
        let nic = |json| good().config("nic0", json);
        let table = [
            (nic(json!({"tag": 4095})), "machine/vlan-range"),
            (nic(json!({"tag": -2})), "machine/vlan-range"),
            (nic(json!({"tag": "twenty"})), "machine/wrong-type"),
            (nic(json!({"mac": "00:11:22:33:44"})), "machine/invalid-name"),
            (nic(json!({"mac": "01:00:5e:00:00:01"})), "machine/invalid-name"),
            (nic(json!({"mtu": 60})), "machine/mtu"),
            (nic(json!({"mtu": 1500, "model": "e1000"})), "machine/mtu"),
            (nic(json!({"model": "virtoi"})), "machine/unknown-value"),
            (nic(json!({"bridge": "vm br"})), "machine/invalid-name"),
            (nic(json!({"brige": "vmbr0"})), "machine/unknown-key"),
            (nic(json!({"trunks": "30-20"})), "machine/trunks"),
            (nic(json!({"queues": 65})), "machine/out-of-range"),
            (nic(json!({"rate": "fast"})), "machine/wrong-type"),
            (nic(json!(["virtio"])), "machine/wrong-type"),
            (good().config("net0", "virtio"), "machine/net-string"),
            (good().config("net0", "bridge=vmbr0"), "machine/net-string"),
            (
                good().config("net0", "virtio,bridge=vmbr0,bridge=vmbr1"),
                "machine/net-string",
            ),
            (
                good().config("net0", "virtio,bridge=vmbr0,colour=red"),
                "machine/net-string",
            ),
            (good().config("nic32", json!({})), "machine/unknown-key"),
            (
                good().config(
                    "network",
                    json!({"nic0": {"mac": "BC:24:11:00:00:01"}, "nic1": {"mac": "bc:24:11:00:00:01"}}),
                ),
                "machine/duplicate-mac",
            ),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
        }
    }

    #[test]
    fn a_tag_that_is_not_the_third_octet_is_warned_about() {
        assert_eq!(
            warnings(&good().config("nic0", json!({"tag": 30}))),
            ["machine/vlan-octet"]
        );
        assert_eq!(warnings(&good().config("nic0", json!({"tag": 20}))), [""; 0]);
    }
}
