//! Who we are among the machines: what tells this machine from a VM that is to be stopped, restarted or removed.
//!
//! A VM is ours to sit in when its SMBIOS UUID is this machine's, when one of its cards has one of our MAC addresses, or
//! when it is declared with one of our addresses. One match is enough: whoever is wrong in doubt refuses.
//!
//! Sources: `/sys/class/dmi/id/product_uuid` (readable by root only; QEMU hands the `uuid` of `smbios1` through),
//! `/sys/class/net/*/address` (with `device` beside it, unless the card is made up, as in a container), `/proc/net/fib_trie` and `/proc/net/if_inet6` (inside a container those of its own network),
//! uname(2).

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::guest::addresses;
use crate::machine::Machine;
use crate::proxmox::cluster::ClusterStatus;
use crate::proxmox::config::VmConfig;
use crate::proxmox::ids::{Mac, NodeName};

/// This machine, as far as it can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ourselves {
    /// The SMBIOS UUID, in lower case.
    pub uuid: Option<String>,
    /// The MAC addresses of all cards.
    pub macs: BTreeSet<Mac>,
    /// Whether one of them is the machine's own: a card with a device behind it. Those of a container are made up for it.
    pub own_card: bool,
    /// All addresses but loopback and link-local ones.
    pub addresses: BTreeSet<IpAddr>,
    /// The host's name.
    pub hostname: String,
}

/// What keeps VMs from harm by us: who we are, and which VMs may be harmed all the same.
#[derive(Clone, Debug, Default)]
pub struct SelfProtection {
    /// This machine.
    pub ourselves: Ourselves,
    /// `--override-protection`: names of VMs (`vms_name`).
    pub overrides: BTreeSet<String>,
}

impl Ourselves {
    /// Looks at this machine. What cannot be read is left out; [`Ourselves::is_known`] tells whether enough was read.
    pub fn look() -> Self {
        Self::look_in(Path::new("/sys"))
    }

    fn look_in(sys: &Path) -> Self {
        let (mut macs, mut own_card) = (BTreeSet::new(), false);
        for card in fs::read_dir(sys.join("class/net")).into_iter().flatten().flatten() {
            if let Ok(text) = fs::read_to_string(card.path().join("address"))
                && let Some(mac) = mac(&text)
            {
                own_card |= card.path().join("device").exists();
                macs.insert(mac);
            }
        }
        Self {
            uuid: fs::read_to_string(sys.join("class/dmi/id/product_uuid"))
                .ok()
                .and_then(|text| uuid(&text)),
            macs,
            own_card,
            addresses: addresses::of_this_machine(),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// Whether something was read that no other machine has: the UUID, or the address of a card of our own. Without, a VM that
    /// we sit in is told by its declared addresses only.
    pub fn is_known(&self) -> bool {
        self.uuid.is_some() || self.own_card
    }

    /// What of the VM is ours, in words; empty if nothing is.
    pub fn matches(&self, machine: &Machine, config: &VmConfig) -> Vec<String> {
        let mut found = Vec::new();
        if let (Some(ours), Some(its)) = (&self.uuid, config.smbios_uuid())
            && (*ours == its || swapped(ours).as_deref() == Some(its.as_str()))
        {
            found.push(format!("its SMBIOS UUID is this machine's: {its}"));
        }
        for nic in config.nics() {
            if let Some(mac) = nic.mac.filter(|mac| self.macs.contains(mac)) {
                found.push(format!(
                    "its card net{} has this machine's MAC address {mac}",
                    nic.index
                ));
            }
        }
        let declared: BTreeSet<IpAddr> = machine
            .network
            .interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
            .map(|cidr| cidr.address)
            .chain(machine.ssh.host.parse())
            .collect();
        for address in declared.intersection(&self.addresses) {
            found.push(format!("its address {address} is this machine's"));
        }
        found
    }

    /// The node of this cluster that we run on: it has our name, and its address is one of ours.
    pub fn node<'s>(&self, status: &'s ClusterStatus) -> Option<&'s NodeName> {
        let short = self.hostname.split('.').next().unwrap_or_default();
        let here = |ip: &Option<String>| {
            ip.as_ref()
                .and_then(|ip| ip.parse().ok())
                .is_some_and(|ip| self.addresses.contains(&ip))
        };
        status
            .nodes
            .iter()
            .find(|node| node.name.as_str().eq_ignore_ascii_case(short) && here(&node.ip))
            .map(|node| &node.name)
    }
}

/// A card's address; none for those that are all zero (loopback, tunnels).
fn mac(text: &str) -> Option<Mac> {
    text.trim()
        .parse()
        .ok()
        .filter(|mac: &Mac| mac.as_str() != "00:00:00:00:00:00")
}

/// A firmware's UUID; none for the ones that mean "not set".
fn uuid(text: &str) -> Option<String> {
    let uuid = uuid::Uuid::parse_str(text.trim()).ok()?;
    (!uuid.is_nil() && !uuid.is_max()).then(|| uuid.to_string())
}

/// The UUID as firmware of before SMBIOS 2.6 is read: the first three groups in the other byte order.
fn swapped(text: &str) -> Option<String> {
    let uuid = uuid::Uuid::parse_str(text).ok()?;
    Some(uuid::Uuid::from_bytes(uuid.to_bytes_le()).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::testing::{config, machine};
    use crate::proxmox::cluster::ClusterNode;

    fn us() -> Ourselves {
        Ourselves {
            uuid: uuid("00112233-4455-6677-8899-AABBCCDDEEFF\n"),
            macs: mac("bc:24:11:00:00:01\n").into_iter().collect(),
            own_card: true,
            addresses: ["10.0.0.9".parse().unwrap()].into(),
            hostname: "pve1.example.org".to_owned(),
        }
    }

    #[test]
    fn one_trait_in_common_is_enough() {
        let cases = [
            (
                json!({"smbios1": "uuid=00112233-4455-6677-8899-aabbccddeeff"}),
                "SMBIOS UUID",
            ),
            (
                json!({"smbios1": "uuid=33221100-5544-7766-8899-aabbccddeeff"}),
                "SMBIOS UUID",
            ),
            (json!({"net1": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}), "net1"),
        ];
        for (data, word) in cases {
            let found = us().matches(&machine(), &config(data.clone()));
            assert!(found.len() == 1 && found[0].contains(word), "{data}: {found:?}");
        }
        let other = json!({"smbios1": "uuid=10112233-4455-6677-8899-aabbccddeeff", "net0": "virtio=BC:24:11:00:00:02"});
        assert_eq!(us().matches(&machine(), &config(other.clone())), Vec::<String>::new());
        let address = machine().address().unwrap();
        let mut ours = us();
        ours.addresses.insert(address);
        let found = ours.matches(&machine(), &config(other));
        assert_eq!(found, [format!("its address {address} is this machine's")]);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_nobody() {
        assert_eq!(uuid("00000000-0000-0000-0000-000000000000"), None);
        assert_eq!(uuid("Not Settable"), None);
        assert_eq!(mac("00:00:00:00:00:00"), None);
        let config = config(json!({"net0": "virtio,bridge=vmbr0"}));
        assert!(Ourselves::default().matches(&machine(), &config).is_empty());
    }

    #[test]
    fn a_machine_is_known_by_its_uuid_or_a_card_of_its_own() {
        let uuid = "00112233-4455-6677-8899-AABBCCDDEEFF\n";
        let card = "bc:24:11:00:00:01\n";
        // The UUID's file, the card's address, whether the card has a device; known.
        let cases = [
            (Some(uuid), None, true),
            (Some("Not Settable\n"), None, false),
            (None, Some((card, true)), true),
            (None, Some((card, false)), false),
            (Some(uuid), Some((card, false)), true),
            (None, Some(("00:00:00:00:00:00\n", true)), false),
            (None, None, false),
        ];
        for (uuid, card, known) in cases {
            let sys = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = sys.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            if let Some(text) = uuid {
                write("class/dmi/id/product_uuid", text);
            }
            if let Some((address, own)) = card {
                write("class/net/eth0/address", address);
                if own {
                    write("class/net/eth0/device/vendor", "0x1af4");
                }
            }
            let here = Ourselves::look_in(sys.path());
            assert_eq!(here.is_known(), known, "{uuid:?} {card:?}: {here:?}");
        }
    }

    #[test]
    fn the_node_is_known_by_name_and_address() {
        let status = |ip: Option<&str>| ClusterStatus {
            quorate: Some(true),
            nodes: vec![ClusterNode {
                name: "pve1".parse().unwrap(),
                online: true,
                ip: ip.map(str::to_owned),
                local: true,
            }],
        };
        let node = |status: &ClusterStatus| us().node(status).map(ToString::to_string);
        assert_eq!(node(&status(Some("10.0.0.9"))).as_deref(), Some("pve1"));
        assert_eq!(node(&status(Some("10.0.0.8"))), None, "a namesake elsewhere");
        assert_eq!(node(&status(None)), None);
    }

    #[test]
    fn this_machine_is_looked_at() {
        let here = Ourselves::look();
        assert!(!here.hostname.is_empty());
        assert!(here.addresses.iter().all(|address| !address.is_loopback()));
    }
}
