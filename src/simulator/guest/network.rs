//! What a guest makes of its network-config: pure.
//!
//! Only interfaces whose device exists are configured; a text that is absent or no YAML leaves the guest to DHCP on its
//! first device. Versions 1 (what Proxmox writes by itself) and 2.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::documents::{list_of, names_of, text_of, yaml};

/// An interface as the guest configures it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name in the guest.
    pub name: String,
    /// Its hardware address, upper case; empty where the cluster told none.
    pub mac: String,
    /// `address/prefix`.
    pub addresses: Vec<String>,
    /// Asks DHCP.
    pub dhcp: bool,
    /// Default gateways.
    pub gateways: Vec<String>,
    /// Name servers.
    pub nameservers: Vec<String>,
    /// MTU.
    pub mtu: Option<u64>,
}

/// A network device: name without any renaming (slot 18 is net0) and hardware address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// `ens18`.
    pub name: String,
    /// `BC:24:11:..`, upper case.
    pub mac: String,
}

/// The effect of a network-config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Configured interfaces: only those whose device exists.
    pub interfaces: Vec<Interface>,
    /// Recoverable warnings.
    pub warnings: Vec<String>,
}

/// Reads network-config (version 2, version 1, each also under a top key `network`). With no `devices` known, every entry
/// is taken to fit. A text that is absent or no YAML gives DHCP on the first device.
pub fn network_data(text: &str, devices: &[Device]) -> Network {
    let fallback = || {
        let first = devices.first();
        vec![Interface {
            name: first.map_or_else(|| "eth0".to_owned(), |d| d.name.clone()),
            mac: first.map(|d| d.mac.clone()).unwrap_or_default(),
            dhcp: true,
            ..Interface::default()
        }]
    };
    if text.trim().is_empty() {
        return Network {
            interfaces: fallback(),
            warnings: Vec::new(),
        };
    }
    let config = match yaml(text) {
        Ok(config) => config,
        Err(problem) => {
            return Network {
                interfaces: fallback(),
                warnings: vec![format!(
                    "Failed loading yaml blob. Invalid format at line {} column {}: \"{}\"",
                    problem.line, problem.column, problem.text
                )],
            };
        }
    };
    let config = config.get("network").unwrap_or(&config);
    let interfaces = match config.get("version").and_then(Value::as_u64) {
        Some(1) => version_1(config, devices),
        _ => version_2(config, devices),
    };
    Network {
        interfaces,
        warnings: Vec::new(),
    }
}

fn version_2(config: &Value, devices: &[Device]) -> Vec<Interface> {
    let Some(ethernets) = config.get("ethernets").and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (id, entry) in ethernets {
        let matched = entry.get("match");
        let wanted_mac = matched
            .and_then(|m| text_of(m.get("macaddress")))
            .map(|m| m.to_uppercase());
        let wanted_name = matched.and_then(|m| text_of(m.get("name")));
        let device = devices.iter().find(|d| match (&wanted_mac, &wanted_name) {
            (Some(mac), _) => d.mac == *mac,
            (None, Some(pattern)) => glob(pattern, &d.name),
            (None, None) => d.name == *id,
        });
        if device.is_none() && !devices.is_empty() {
            continue;
        }
        let own = device.map_or_else(|| id.clone(), |d| d.name.clone());
        let routes = list_of(entry.get("routes"));
        let mut gateways: Vec<String> = routes
            .iter()
            .filter(|r| matches!(text_of(r.get("to")).as_deref(), Some("default" | "0.0.0.0/0" | "::/0")))
            .filter_map(|r| text_of(r.get("via")))
            .collect();
        gateways.extend(
            ["gateway4", "gateway6"]
                .iter()
                .filter_map(|key| text_of(entry.get(*key))),
        );
        found.push(Interface {
            name: text_of(entry.get("set-name")).unwrap_or(own),
            mac: device.map(|d| d.mac.clone()).or(wanted_mac).unwrap_or_default(),
            addresses: list_of(entry.get("addresses")).iter().filter_map(address_of).collect(),
            dhcp: entry.get("dhcp4").and_then(Value::as_bool) == Some(true),
            gateways,
            nameservers: entry
                .get("nameservers")
                .map(|n| names_of(n.get("addresses")))
                .unwrap_or_default(),
            mtu: entry.get("mtu").and_then(Value::as_u64),
        });
    }
    found
}

/// An address of version 2 is a text, or a map with the text as its key.
fn address_of(value: &Value) -> Option<String> {
    value
        .as_object()
        .and_then(|map| map.keys().next().cloned())
        .or_else(|| text_of(Some(value)))
}

fn version_1(config: &Value, devices: &[Device]) -> Vec<Interface> {
    let entries = list_of(config.get("config"));
    let nameservers: Vec<String> = entries
        .iter()
        .filter(|e| e.get("type").and_then(Value::as_str) == Some("nameserver"))
        .flat_map(|e| names_of(e.get("address")))
        .collect();
    let mut found = Vec::new();
    for entry in entries
        .iter()
        .filter(|e| e.get("type").and_then(Value::as_str) == Some("physical"))
    {
        let mac = text_of(entry.get("mac_address")).unwrap_or_default().to_uppercase();
        let name = text_of(entry.get("name")).unwrap_or_else(|| "eth0".to_owned());
        let known = devices
            .iter()
            .any(|d| if mac.is_empty() { d.name == name } else { d.mac == mac });
        if !known && !devices.is_empty() {
            continue;
        }
        let mut interface = Interface {
            name,
            mac,
            nameservers: nameservers.clone(),
            mtu: entry.get("mtu").and_then(Value::as_u64),
            ..Interface::default()
        };
        for subnet in list_of(entry.get("subnets")) {
            match subnet.get("type").and_then(Value::as_str) {
                Some("dhcp" | "dhcp4") => interface.dhcp = true,
                _ => interface.addresses.extend(static_address(&subnet)),
            }
            interface.gateways.extend(text_of(subnet.get("gateway")));
        }
        found.push(interface);
    }
    found
}

fn static_address(subnet: &Value) -> Option<String> {
    let address = text_of(subnet.get("address"))?;
    if address.contains('/') {
        return Some(address);
    }
    let mask = text_of(subnet.get("netmask"))?;
    let bits = mask
        .parse::<std::net::Ipv4Addr>()
        .map_or_else(|_| mask.parse::<u32>().ok(), |mask| Some(u32::from(mask).count_ones()))?;
    Some(format!("{address}/{bits}"))
}

/// `*` at the end is all that netplan configurations use in practice.
fn glob(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices() -> Vec<Device> {
        vec![Device {
            name: "ens18".to_owned(),
            mac: "BC:24:11:00:00:01".to_owned(),
        }]
    }

    #[test]
    fn only_entries_whose_device_exists_are_configured() {
        let by_name = "#cloud-config\nnetwork:\n  version: 2\n  ethernets:\n    ens18:\n      addresses: [127.9.0.1/8]\n      routes: [{to: 0.0.0.0/0, via: 127.0.0.1}]\n    ens99: {addresses: [127.9.0.2/8]}\n";
        let network = network_data(by_name, &devices());
        assert_eq!(network.interfaces.len(), 1);
        assert_eq!(network.interfaces[0].addresses, ["127.9.0.1/8"]);
        assert_eq!(network.interfaces[0].gateways, ["127.0.0.1"]);
        let by_mac = "version: 2\nethernets: {net0: {match: {macaddress: 'bc:24:11:00:00:01'}, set-name: eth0, addresses: [127.9.0.3/8]}}\n";
        assert_eq!(network_data(by_mac, &devices()).interfaces[0].name, "eth0");
        let other_mac = by_mac.replace("00:01", "00:09");
        assert!(network_data(&other_mac, &devices()).interfaces.is_empty());
        assert_eq!(network_data(&other_mac, &[]).interfaces.len(), 1);
    }

    #[test]
    fn version_1_and_broken_text() {
        let v1 = "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: 'bc:24:11:00:00:01'\n  subnets: [{type: static, address: 127.9.0.4, netmask: 255.255.255.0, gateway: 127.9.0.1}]\n- type: nameserver\n  address: [127.0.0.53]\n";
        let interface = &network_data(v1, &devices()).interfaces[0];
        assert_eq!(interface.addresses, ["127.9.0.4/24"]);
        assert_eq!(interface.nameservers, ["127.0.0.53"]);
        let broken = network_data("version: 2\nethernets: [broken\n", &devices());
        assert!(broken.interfaces[0].dhcp && broken.warnings.len() == 1);
    }
}
