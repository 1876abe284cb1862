//! The MACs that a machine's cards are known to have before they exist.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{InterfaceMatch, Machine};
use crate::proxmox::ids::Mac;

impl Machine {
    /// The MACs that are known before the cards exist, by number of the card: those of declared cards, and of cards that
    /// come with the template and are found by their MAC.
    pub fn macs(&self) -> BTreeMap<u8, Mac> {
        let declared = self.hardware.nics.iter().map(|card| card.index);
        let configured = self.network.interfaces.iter().map(|interface| interface.nic);
        declared
            .chain(configured)
            .filter_map(|nic| Some((nic, self.mac_of(nic)?)))
            .collect()
    }

    /// The MAC of card `netN`: the declared one; else, where cloud-init is to find an interface by the card's MAC, one that
    /// follows from the VM's identity, so that the network document can be written before the card exists, and a rerun
    /// finds the same. `None` leaves the clone's own.
    ///
    /// It is locally administered and unicast (IEEE 802: `x2` in the first byte), with 40 bits of a hash.
    pub fn mac_of(&self, nic: u8) -> Option<Mac> {
        let card = self.hardware.nics.iter().find(|card| card.index == nic);
        if let Some(mac) = card.and_then(|card| card.mac.clone()) {
            return Some(mac);
        }
        let by_mac = |matching: &InterfaceMatch| match matching {
            InterfaceMatch::Mac { .. } => true,
            InterfaceMatch::Name(_) => false,
        };
        if !self
            .network
            .interfaces
            .iter()
            .any(|interface| interface.nic == nic && by_mac(&interface.matching))
        {
            return None;
        }
        let identity = format!(
            "{}:{}/{}/net{nic}",
            self.cluster.host.to_lowercase(),
            self.cluster.port,
            self.name
        );
        let hash = Sha256::digest(identity.as_bytes());
        let text = format!(
            "02:{:02X}:{:02X}:{:02X}:{:02X}:{:02X}",
            hash[0], hash[1], hash[2], hash[3], hash[4]
        );
        text.parse().ok()
    }
}
