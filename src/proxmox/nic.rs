//! Network cards: `net0: virtio=BC:24:11:0A:0B:0C,bridge=vmbr0,firewall=1,tag=20`.
//!
//! Proxmox draws a new random MAC whenever `netN` is written without one, so a value that is written must carry the MAC
//! that the card has: [`NicConfig::merged`] sees to that (qemu-server: `PVE::QemuServer::Network`).

use std::collections::BTreeMap;
use std::fmt;

use super::drive::index_of;
use super::ids::{InvalidId, Mac};
use super::property::{Properties, PropertyError, canonical};
use crate::machine::Nic;

/// The models whose name can stand as key of the MAC, `virtio=BC:24:..` (qemu-server: the schema of `netN`).
const MODELS: [&str; 14] = [
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

/// The largest N of `netN`.
pub const MAX_INDEX: u8 = 31;

/// A text that is no network card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// The key is not `net0` to `net31`.
    #[error("{0:?} is no key of a network card: net0 to net31")]
    Key(String),
    /// It is no property string.
    #[error(transparent)]
    Properties(#[from] PropertyError),
    /// It names no model.
    #[error("no model is named")]
    NoModel,
    /// Its MAC is none.
    #[error(transparent)]
    Mac(#[from] InvalidId),
    /// Its VLAN tag is none.
    #[error("{0:?} is no VLAN tag: a number from 1 to 4094")]
    Tag(String),
}

/// One network card of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// N of `netN`.
    pub index: u8,
    /// `virtio`, `e1000`, ...
    pub model: String,
    /// The MAC; a configuration that was read has one.
    pub mac: Option<Mac>,
    /// The bridge; without one the card is on QEMU's own NAT.
    pub bridge: Option<String>,
    /// The VLAN tag.
    pub tag: Option<u16>,
    /// Everything else: `firewall`, `mtu`, `rate`, `queues`, `link_down`, `trunks`.
    pub options: Properties,
}

impl NicConfig {
    /// Reads the value of the key `netN`. Model and MAC stand as `virtio=MAC`, as a bare `virtio`, or as `model=` and
    /// `macaddr=`.
    pub fn parse(key: &str, text: &str) -> Result<Self, NicError> {
        let index = index_of(key, "net")
            .filter(|index| *index <= MAX_INDEX)
            .ok_or_else(|| NicError::Key(key.to_owned()))?;
        let mut options = Properties::parse(text, Some("model"))?;
        let mut model = options.remove("model");
        let mut mac = options.remove("macaddr");
        for name in MODELS {
            let Some(address) = options.remove(name) else {
                continue;
            };
            let twice = |key: &str| PropertyError::Duplicate { key: key.to_owned() };
            if model.replace(name.to_owned()).is_some() {
                return Err(twice("model").into());
            }
            if mac.replace(address).is_some() {
                return Err(twice("macaddr").into());
            }
        }
        let tag = options.remove("tag").map(|text| {
            let tag = text.parse::<u16>().ok().filter(|tag| (1..=4094).contains(tag));
            tag.ok_or(NicError::Tag(text))
        });
        Ok(Self {
            index,
            model: model.ok_or(NicError::NoModel)?,
            mac: mac.map(|mac| mac.parse()).transpose()?,
            bridge: options.remove("bridge"),
            tag: tag.transpose()?,
            options,
        })
    }

    /// The card that the inventory declares, on a VM that has none of this number. Without a declared MAC Proxmox draws one.
    pub fn declared(wanted: &Nic) -> Self {
        Self {
            index: wanted.index,
            model: wanted.model.clone(),
            mac: wanted.mac.clone(),
            bridge: Some(wanted.bridge.clone()),
            tag: wanted.tag,
            options: wanted.options.iter().cloned().collect(),
        }
    }

    /// This card, the current one, as the inventory wants it.
    ///
    /// Model, bridge and tag become the declared ones, and no declared tag means untagged. The MAC stays unless one is
    /// declared. Declared options replace the current ones; options that the inventory does not speak of stay, as
    /// inherited hardware does.
    #[must_use]
    pub fn merged(&self, wanted: &Nic) -> Self {
        let mut options = self.options.clone();
        for (name, value) in &wanted.options {
            options.set(name, value);
        }
        Self {
            index: self.index,
            mac: wanted.mac.clone().or_else(|| self.mac.clone()),
            options,
            ..Self::declared(wanted)
        }
    }

    /// The key, `net0`.
    pub fn key(&self) -> String {
        format!("net{}", self.index)
    }

    /// Whether both mean the same card: any order of options, any spelling of yes, no and numbers, and an option that
    /// says its default is as good as absent. A card without MAC is never the same as one with.
    pub fn same_as(&self, other: &Self) -> bool {
        (self.index, &self.model, &self.mac, &self.bridge, self.tag)
            == (other.index, &other.model, &other.mac, &other.bridge, other.tag)
            && self.meaning() == other.meaning()
    }

    /// The options that say something, in one spelling.
    fn meaning(&self) -> BTreeMap<&str, String> {
        self.options
            .iter()
            .map(|(name, value)| match name {
                "firewall" | "link_down" => (name, canonical(value).to_owned()),
                "rate" | "mtu" | "queues" => (name, number(value)),
                _ => (name, value.to_owned()),
            })
            .filter(|(name, value)| !(matches!(*name, "firewall" | "link_down" | "rate" | "queues") && value == "0"))
            .collect()
    }
}

/// A number without needless zeros, `10` for `010` and `10.0`; any other text as it is.
fn number(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(number) if plain => number.to_string(),
        Ok(_) | Err(_) => text.to_owned(),
    }
}

impl fmt::Display for NicConfig {
    /// As Proxmox writes it: model and MAC, then the rest by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag.map(|tag| tag.to_string());
        let mut rest: BTreeMap<&str, &str> = self.options.iter().collect();
        match &self.mac {
            Some(mac) if MODELS.contains(&self.model.as_str()) => write!(f, "{}={mac}", self.model)?,
            mac => {
                // Only a named model may hold a `=`.
                let name = if self.model.contains('=') { "model=" } else { "" };
                write!(f, "{name}{}", self.model)?;
                rest.extend(mac.as_ref().map(|mac| ("macaddr", mac.as_str())));
            }
        }
        rest.extend(self.bridge.as_deref().map(|bridge| ("bridge", bridge)));
        rest.extend(tag.as_deref().map(|tag| ("tag", tag)));
        rest.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20";

    fn nic(text: &str) -> NicConfig {
        NicConfig::parse("net0", text).unwrap()
    }

    fn wanted() -> Nic {
        Nic {
            index: 0,
            model: "virtio".into(),
            bridge: "vmbr1".into(),
            tag: Some(10),
            mac: None,
            options: vec![],
        }
    }

    #[test]
    fn a_real_card_is_read_and_printed_back() {
        let card = nic(REAL);
        assert_eq!((card.index, card.model.as_str(), card.tag), (0, "virtio", Some(20)));
        assert_eq!(card.mac.as_ref().unwrap().as_str(), "BC:24:11:AA:BB:CC");
        assert_eq!(card.bridge.as_deref(), Some("vmbr0"));
        assert_eq!(card.options.to_string(), "firewall=1");
        assert_eq!(card.to_string(), REAL);
    }

    #[test]
    fn every_spelling_prints_as_proxmox_writes() {
        let cases = [
            ("virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,tag=20,firewall=1", REAL),
            (
                "model=virtio,macaddr=bc:24:11:aa:bb:cc,tag=20,firewall=1,bridge=vmbr0",
                REAL,
            ),
            ("bridge=vmbr0,firewall=1,tag=20,virtio=BC:24:11:AA:BB:CC", REAL),
            ("virtio,macaddr=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20", REAL),
            ("virtio,bridge=vmbr0", "virtio,bridge=vmbr0"),
            ("e1000", "e1000"),
            (
                "model=brandnew,macaddr=BC:24:11:AA:BB:CC,tag=2",
                "brandnew,macaddr=BC:24:11:AA:BB:CC,tag=2",
            ),
            (
                "virtio=BC:24:11:AA:BB:CC,trunks=2;4-7",
                "virtio=BC:24:11:AA:BB:CC,trunks=2;4-7",
            ),
        ];
        for (text, printed) in cases {
            assert_eq!(nic(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn wrong_cards_are_refused() {
        let err = |text: &str| NicConfig::parse("net0", text).unwrap_err();
        assert_eq!(err("bridge=vmbr0"), NicError::NoModel);
        assert_eq!(err("virtio,tag=0"), NicError::Tag("0".into()));
        assert_eq!(err("virtio,tag=4095"), NicError::Tag("4095".into()));
        assert!(matches!(err("virtio=00:11:22:33:44"), NicError::Mac(_)));
        assert!(matches!(err("virtio=01:00:5E:00:00:01"), NicError::Mac(_)));
        let twice = |key: &str| NicError::Properties(PropertyError::Duplicate { key: key.to_owned() });
        assert_eq!(err("virtio=BC:24:11:AA:BB:CC,e1000=BC:24:11:AA:BB:CC"), twice("model"));
        assert_eq!(
            err("virtio=BC:24:11:AA:BB:CC,macaddr=BC:24:11:AA:BB:CD"),
            twice("macaddr")
        );
        for key in ["net", "net32", "net00", "virtio0", "network"] {
            assert_eq!(NicConfig::parse(key, "virtio"), Err(NicError::Key(key.to_owned())));
        }
        assert_eq!(NicConfig::parse("net31", "virtio").unwrap().key(), "net31");
    }

    #[test]
    fn merging_keeps_the_mac_and_what_the_inventory_does_not_speak_of() {
        let current = nic("virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,mtu=9000,tag=20");
        assert_eq!(
            current.merged(&wanted()).to_string(),
            "virtio=BC:24:11:AA:BB:CC,bridge=vmbr1,firewall=1,mtu=9000,tag=10"
        );
        let other = Nic {
            model: "e1000".into(),
            tag: None,
            mac: Some("BC:24:11:00:00:01".parse().unwrap()),
            options: vec![("firewall".into(), "0".into()), ("rate".into(), "10".into())],
            ..wanted()
        };
        assert_eq!(
            current.merged(&other).to_string(),
            "e1000=BC:24:11:00:00:01,bridge=vmbr1,firewall=0,mtu=9000,rate=10"
        );
    }

    #[test]
    fn a_declared_card_stands_alone() {
        assert_eq!(NicConfig::declared(&wanted()).to_string(), "virtio,bridge=vmbr1,tag=10");
    }

    #[test]
    fn cards_compare_by_meaning() {
        let same = [
            "virtio=bc:24:11:aa:bb:cc,tag=20,firewall=on,bridge=vmbr0",
            "model=virtio,macaddr=BC:24:11:AA:BB:CC,bridge=vmbr0,tag=20,firewall=1,link_down=0,queues=0,rate=0.0",
        ];
        for text in same {
            assert!(nic(text).same_as(&nic(REAL)), "{text}");
        }
        assert!(nic("virtio,rate=10").same_as(&nic("virtio,rate=10.0")));
        let other = [
            "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=0,tag=20",
            "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,tag=20",
            "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1",
            "virtio=BC:24:11:AA:BB:CD,bridge=vmbr0,firewall=1,tag=20",
            "virtio,bridge=vmbr0,firewall=1,tag=20",
            "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,mtu=1,tag=20",
            "e1000=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=20",
        ];
        for text in other {
            assert!(!nic(text).same_as(&nic(REAL)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_printing_round_trips(
            text in "(virtio|e1000=0A:00:00:00:00:01|model=x)(,(tag=[1-9]{1,4}|bridge=[a-z]{1,4}|mtu=[0-9]|macaddr=0[02]:1A:00:00:00:01)){0,4}|\\PC*",
        ) {
            if let Ok(card) = NicConfig::parse("net3", &text) {
                let again = NicConfig::parse("net3", &card.to_string()).unwrap();
                prop_assert!(again.same_as(&card));
                prop_assert_eq!(again, card);
            }
        }
    }
}
