//! cloud-init's rules for network-data version 2, and what is known to go wrong with it.
//!
//! Sources: canonical/cloud-init, `schema-network-config-v2.json` (26.2); measured on 22.4.2 and 25.1.4: a route to
//! `default` leaves the guest without any network on every renderer but netplan.

use std::net::IpAddr;

use indexmap::IndexMap;

use super::rules::{Checker, Kind, join};
use crate::diagnose::Diagnostic;
use crate::inventory::value::{Entry, Value};

const NETWORK: &[(&str, Kind)] = &[
    ("version", Kind::Int),
    ("renderer", Kind::Text),
    ("ethernets", Kind::Map),
    ("bonds", Kind::Map),
    ("bridges", Kind::Map),
    ("vlans", Kind::Map),
];

const DEVICE: &[(&str, Kind)] = &[
    ("match", Kind::Map),
    ("set-name", Kind::Text),
    ("renderer", Kind::Text),
    ("dhcp4", Kind::Bool),
    ("dhcp6", Kind::Bool),
    ("dhcp4-overrides", Kind::Map),
    ("dhcp6-overrides", Kind::Map),
    ("addresses", Kind::List),
    ("routes", Kind::List),
    ("nameservers", Kind::Map),
    ("mtu", Kind::Int),
    ("optional", Kind::Bool),
    ("critical", Kind::Bool),
    ("wakeonlan", Kind::Bool),
    ("accept-ra", Kind::Bool),
    ("link-local", Kind::Any),
    ("routing-policy", Kind::List),
    ("macaddress", Kind::Text),
    ("interfaces", Kind::List),
    ("parameters", Kind::Map),
    ("id", Kind::Int),
    ("link", Kind::Text),
];

const ROUTE: &[(&str, Kind)] = &[
    ("to", Kind::Text),
    ("via", Kind::Text),
    ("metric", Kind::Int),
    ("on-link", Kind::Bool),
    ("table", Kind::Int),
    ("type", Kind::Text),
    ("scope", Kind::Text),
    ("mtu", Kind::Int),
];

/// The problems of a network-data document; `name` is what it is called in places.
pub fn check(text: &str, name: &str) -> Vec<Diagnostic> {
    let mut checker = Checker::new();
    let Some(map) = checker.document(text, name) else {
        return checker.problems;
    };
    let c = &mut checker;
    c.keys("", &map, &[("network", Kind::Map)]);
    let Some(network) = map.get("network").and_then(|entry| entry.value.as_map()) else {
        if !map.contains_key("network") {
            let place = crate::diagnose::Place::new(name, 1, 1);
            c.push(
                "cloud-init/missing-key",
                "network",
                &place,
                format!("{name} has no `network`"),
                "everything stands under that key",
            );
        }
        return checker.problems;
    };
    c.keys("network", network, NETWORK);
    let version = network.get("version").map(|entry| &entry.value);
    if !version.is_some_and(|value| matches!(value.data, crate::inventory::value::Data::Int(2))) {
        let place = map.get("network").map(|entry| entry.value.place.clone());
        let place = version.map(|value| value.place.clone()).or(place);
        c.problems.push(
            Diagnostic::error("cloud-init/wrong-value", "network.version is not 2")
                .key("network.version")
                .at(place)
                .rule("the document is written in version 2"),
        );
    }
    for family in ["ethernets", "bonds", "bridges", "vlans"] {
        for (device, entry) in network
            .get(family)
            .and_then(|entry| entry.value.as_map())
            .into_iter()
            .flatten()
        {
            let path = format!("network.{family}.{device}");
            match entry.value.as_map() {
                Some(map) => self::device(c, &path, map),
                None => {
                    c.expect(&path, &entry.value, Kind::Map);
                }
            }
        }
    }
    checker.problems
}

fn device(c: &mut Checker, path: &str, map: &IndexMap<String, Entry>) {
    let known: Vec<(&str, Kind)> = DEVICE
        .iter()
        .copied()
        .chain([("gateway4", Kind::Any), ("gateway6", Kind::Any)])
        .collect();
    c.keys(path, map, &known);
    for key in ["gateway4", "gateway6"] {
        if let Some(entry) = map.get(key) {
            c.push(
                "cloud-init/deprecated",
                &join(path, key),
                &entry.key_place,
                format!("{path}.{key} is deprecated"),
                "write a route to 0.0.0.0/0 or ::/0",
            );
        }
    }
    if let Some(entry) = map.get("addresses") {
        c.texts(&join(path, "addresses"), &entry.value);
        for (i, item) in entry.value.as_list().unwrap_or_default().iter().enumerate() {
            if item.as_str().is_some_and(|text| !is_cidr(text, 1)) {
                bad_address(
                    c,
                    &format!("{path}.addresses[{i}]"),
                    item,
                    "an address with its prefix length, as 10.0.20.31/24",
                );
            }
        }
    }
    for (i, route) in map
        .get("routes")
        .and_then(|entry| entry.value.as_list())
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        self::route(c, &format!("{path}.routes[{i}]"), route);
    }
    if let Some(servers) = map.get("nameservers").and_then(|entry| entry.value.as_map()) {
        let path = join(path, "nameservers");
        c.keys(&path, servers, &[("search", Kind::Any), ("addresses", Kind::Any)]);
        for (key, entry) in servers {
            c.texts(&join(&path, key), &entry.value);
        }
        for (i, item) in servers
            .get("addresses")
            .and_then(|entry| entry.value.as_list())
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            if item.as_str().is_some_and(|text| text.parse::<IpAddr>().is_err()) {
                bad_address(c, &format!("{path}.addresses[{i}]"), item, "an address, not a name");
            }
        }
    }
    matching(c, path, map);
}

fn matching(c: &mut Checker, path: &str, map: &IndexMap<String, Entry>) {
    let matching = map.get("match").and_then(|entry| entry.value.as_map());
    if let (Some(entry), None) = (map.get("set-name"), matching) {
        c.push(
            "cloud-init/missing-key",
            &join(path, "match"),
            &entry.key_place,
            format!("{path} has set-name and no match"),
            "a name is given to what is matched",
        );
    }
    let Some(matching) = matching else { return };
    let inner = join(path, "match");
    c.keys(
        &inner,
        matching,
        &[
            ("name", Kind::TextOrList),
            ("macaddress", Kind::Text),
            ("driver", Kind::TextOrList),
        ],
    );
    if let Some(value) = matching.get("macaddress").map(|entry| &entry.value)
        && let Some(mac) = value.as_str()
    {
        let parts: Vec<&str> = mac.split(':').collect();
        let hex =
            |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if parts.len() != 6 || !parts.iter().all(hex) {
            c.push(
                "cloud-init/mac",
                &join(&inner, "macaddress"),
                &value.place,
                format!("{inner}.macaddress is {mac:?}"),
                "six pairs of hexadecimal digits in lower case, with colons",
            );
        }
    }
}

fn route(c: &mut Checker, path: &str, route: &Value) {
    let Some(map) = route.as_map() else {
        c.expect(path, route, Kind::Map);
        return;
    };
    c.keys(path, map, ROUTE);
    let text = |key: &str| {
        map.get(key)
            .map(|entry| &entry.value)
            .and_then(|value| Some((value, value.as_str()?)))
    };
    match text("to") {
        Some((value, "default")) => c.push(
            "cloud-init/default-route",
            &join(path, "to"),
            &value.place,
            format!("{path}.to is `default`"),
            "cloud-init's other renderers than netplan fail over it and leave the guest without network: write 0.0.0.0/0 or ::/0",
        ),
        Some((value, to)) if !is_cidr(to, 0) && to.parse::<IpAddr>().is_err() => {
            bad_address(c, &join(path, "to"), value, "a subnet with its prefix length");
        }
        Some(_) => {}
        None if map.contains_key("to") => {}
        None => c.push("cloud-init/missing-key", path, &route.place, format!("{path} has no `to`"), "a route goes somewhere"),
    }
    if let Some((value, via)) = text("via") {
        let to = text("to").map(|(_, to)| to.contains(':'));
        match via.parse::<IpAddr>() {
            Err(_) => bad_address(c, &join(path, "via"), value, "a router's address"),
            Ok(via) if to.is_some_and(|v6| v6 != via.is_ipv6()) => {
                bad_address(c, &join(path, "via"), value, "an address of the same family as `to`");
            }
            Ok(_) => {}
        }
    }
}

fn bad_address(c: &mut Checker, path: &str, value: &Value, rule: &str) {
    let shown = value.as_str().unwrap_or_default();
    c.push(
        "cloud-init/wrong-value",
        path,
        &value.place,
        format!("{path} is {shown:?}"),
        rule,
    );
}

fn is_cidr(text: &str, least: u8) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    prefix
        .parse::<u8>()
        .is_ok_and(|prefix| (least..=most).contains(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(device: &str) -> Vec<(&'static str, u32)> {
        let text = format!("#cloud-config\nnetwork:\n  version: 2\n  ethernets:\n    ens18: {device}\n");
        check(&text, "n.yml")
            .iter()
            .map(|p| (p.code, p.place.as_ref().map_or(0, |place| place.line)))
            .collect()
    }

    #[test]
    fn good_documents_pass() {
        for device in [
            "{dhcp4: true}",
            "{addresses: [10.0.20.31/24, '2001:db8::1/64'], routes: [{to: 0.0.0.0/0, via: 10.0.20.1}], mtu: 1400}",
            "{match: {macaddress: 'bc:24:11:00:00:01'}, set-name: ens18, nameservers: {search: [], addresses: [10.0.20.2]}}",
        ] {
            assert_eq!(codes(device), [], "{device}");
        }
    }

    #[test]
    fn broken_documents_are_told() {
        let table = [
            ("{dhcp4: 'maybe'}", "cloud-init/wrong-type"),
            ("{adresses: [10.0.20.31/24]}", "cloud-init/unknown-key"),
            ("{addresses: [10.0.20.31]}", "cloud-init/wrong-value"),
            ("{addresses: [10.0.20.31/33]}", "cloud-init/wrong-value"),
            ("{routes: [{to: default, via: 10.0.20.1}]}", "cloud-init/default-route"),
            ("{routes: [{to: 0.0.0.0/0, via: 'fe80::1'}]}", "cloud-init/wrong-value"),
            ("{routes: [{via: 10.0.20.1}]}", "cloud-init/missing-key"),
            ("{gateway4: 10.0.20.1}", "cloud-init/deprecated"),
            ("{nameservers: {addresses: [dns.lab.test]}}", "cloud-init/wrong-value"),
            ("{match: {macaddress: 'BC:24:11:00:00:01'}}", "cloud-init/mac"),
            ("{set-name: lan0}", "cloud-init/missing-key"),
            ("[]", "cloud-init/wrong-type"),
        ];
        for (device, code) in table {
            assert_eq!(codes(device), [(code, 5)], "{device}");
        }
    }

    #[test]
    fn the_frame_is_checked() {
        let code = |text: &str| check(text, "n.yml").iter().map(|p| p.code).collect::<Vec<_>>();
        assert_eq!(
            code("#cloud-config\nnetwork: {version: 1}\n"),
            ["cloud-init/wrong-value"]
        );
        assert_eq!(
            code("#cloud-config\nversion: 2\n"),
            ["cloud-init/unknown-key", "cloud-init/missing-key"]
        );
        assert_eq!(code("network: {version: 2}\n"), ["cloud-init/header"]);
    }
}
