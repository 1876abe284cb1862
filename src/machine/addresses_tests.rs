//! What the guest's network becomes, and what is told about it.

use serde_json::json;

use super::*;
use crate::machine::testing::{TestVars, codes, good, problems, warnings};

fn network(vars: &TestVars) -> Network {
    vars.build().unwrap().machine.network
}

fn shown(vars: &TestVars) -> (Vec<String>, Vec<String>) {
    let interface = network(vars).interfaces.remove(0);
    (
        interface.addresses.iter().map(ToString::to_string).collect(),
        interface.gateways.iter().map(ToString::to_string).collect(),
    )
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

#[test]
fn the_defaults_are_those_of_old() {
    let network = network(&good());
    assert_eq!(network.interfaces[0].matching, InterfaceMatch::Name("ens18".to_owned()));
    assert_eq!(shown(&good()), (texts(&["10.0.20.31/24"]), texts(&["10.0.20.1"])));
    assert_eq!(network.dns_servers.len(), 2);
    assert_eq!(network.search, ["lab.test"]);
    let listed = good()
        .unset("global_ip_address")
        .set("global_ip_addresses", json!({"web-0": "10.0.30.7"}));
    assert_eq!(shown(&listed), (texts(&["10.0.30.7/24"]), texts(&["10.0.30.1"])));
}

#[test]
fn addresses_prefixes_and_gateways() {
    let table: [(TestVars, &[&str], &[&str]); 11] = [
        (
            good().set("global_gateway", "10.0.20.254"),
            &["10.0.20.31/24"],
            &["10.0.20.254"],
        ),
        (good().set("global_gateway", "none"), &["10.0.20.31/24"], &[]),
        (good().set("global_gateway", json!(null)), &["10.0.20.31/24"], &[]),
        (
            good().set("vms_prefix_length", "16").set("global_gateway", "10.0.0.1"),
            &["10.0.20.31/16"],
            &["10.0.0.1"],
        ),
        (
            good()
                .set("global_ip_address", "10.0.20.31/23")
                .set("global_gateway", "10.0.21.1"),
            &["10.0.20.31/23"],
            &["10.0.21.1"],
        ),
        (
            good()
                .set("vms_subnet", "10.0.16.0/20")
                .set("global_gateway", "10.0.16.1"),
            &["10.0.20.31/20"],
            &["10.0.16.1"],
        ),
        (
            good().set("global_ip_address", "2001:db8::10"),
            &["2001:db8::10/64"],
            &[],
        ),
        (
            good()
                .set("global_ip_address", "2001:db8::10/48")
                .set("global_gateway", "fe80::1"),
            &["2001:db8::10/48"],
            &["fe80::1"],
        ),
        (
            good()
                .set("global_ipv6_address", "2001:db8::10")
                .set("global_ipv6_gateway", "2001:db8::1"),
            &["10.0.20.31/24", "2001:db8::10/64"],
            &["10.0.20.1", "2001:db8::1"],
        ),
        (
            good().unset("global_ip_address").set(
                "vms_network",
                json!({"nic0": {"address": ["10.0.20.40/24", "10.0.20.41/24"]}}),
            ),
            &["10.0.20.40/24", "10.0.20.41/24"],
            &["10.0.20.1"],
        ),
        (
            good().set("vms_network", json!({"nic0": {"gateway": ["10.0.20.254"]}})),
            &["10.0.20.31/24"],
            &["10.0.20.254"],
        ),
    ];
    for (vars, addresses, gateways) in table {
        assert_eq!(shown(&vars), (texts(addresses), texts(gateways)), "{vars:?}");
    }
}

#[test]
fn broken_addresses_are_told() {
    let ip = |text: &str| good().set("global_ip_address", text);
    let table = [
        (good().unset("global_ip_address"), "machine/no-address"),
        (
            good()
                .unset("global_ip_address")
                .set("global_ip_addresses", json!({"web-1": "10.0.20.3"})),
            "machine/no-address",
        ),
        (ip("10.0.20.300"), "machine/address"),
        (ip("10.0.20.31/33"), "machine/address"),
        (ip("dhcp"), "machine/address"),
        (ip("10.0.20.0"), "machine/no-host-address"),
        (ip("10.0.20.255"), "machine/no-host-address"),
        (ip("0.0.0.0"), "machine/no-host-address"),
        (ip("224.0.0.1"), "machine/no-host-address"),
        (ip("2001:db8::/64"), "machine/no-host-address"),
        (ip("10.0.20.1"), "machine/gateway"),
        (
            ip("10.0.20.31/24").set("vms_prefix_length", 16),
            "machine/prefix-conflict",
        ),
        (good().set("vms_prefix_length", 16), "machine/no-gateway"),
        (good().set("vms_prefix_length", 33), "machine/out-of-range"),
        (good().set("vms_subnet", "10.0.30.0/24"), "machine/outside-subnet"),
        (good().set("vms_subnet", "10.0.20.5/24"), "machine/subnet"),
        (good().set("global_gateway", "10.0.21.1"), "machine/gateway-outside"),
        (good().set("global_gateway", "10.0.20.31"), "machine/gateway"),
        (good().set("global_gateway", "10.0.20.255"), "machine/gateway"),
        (good().set("global_gateway", "2001:db8::1"), "machine/gateway"),
        (good().set("global_gateway", "router"), "machine/gateway"),
        (good().unset("global_dns_servers"), "machine/missing-variable"),
        (
            good().set("global_dns_servers", json!(["dns-0.lab.test"])),
            "machine/address",
        ),
        (
            good().set("vms_dns_search", json!(["lab_test"])),
            "machine/invalid-name",
        ),
        (good().set("vms_interface", "a/b"), "machine/invalid-name"),
        (
            good().set("vms_interface", "an-interface-name-too-long"),
            "machine/invalid-name",
        ),
        (good().set("vms_interface_match", "serial"), "machine/unknown-value"),
        (
            good().set("vms_network", json!({"nic0": {"adress": "x"}})),
            "machine/unknown-key",
        ),
        (good().set("vms_network", json!({"eth0": {}})), "machine/unknown-key"),
        (
            good().set("vms_network", json!({"nic0": {"address": "10.0.20.99"}})),
            "machine/said-twice",
        ),
        (
            good().set("vms_network", json!({"nic0": {"gateway": ["10.0.20.2", "10.0.20.3"]}})),
            "machine/two-gateways",
        ),
        (good().set("vms_network", json!({"nic1": {}})), "machine/no-address"),
        (
            good().set("vms_network", json!({"nic6": {"address": "10.1.0.5/24"}})),
            "machine/missing-key",
        ),
        (
            good().set("vms_network", json!({"nic1": {"address": "10.0.20.31/24"}})),
            "machine/address-twice",
        ),
        (
            good().set(
                "vms_network",
                json!({"nic1": {"address": "10.1.0.5/24", "interface": "ens18"}}),
            ),
            "machine/interface-twice",
        ),
        (
            good()
                .config("nic0", json!({}))
                .set("vms_network", json!({"nic1": {"address": "10.1.0.5/24"}})),
            "machine/no-card",
        ),
    ];
    for (vars, code) in table {
        assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
    }
}

#[test]
fn several_cards_have_an_interface_each() {
    let vars = good().set("vms_interface_match", "mac").set(
        "vms_network",
        json!({
            "nic10": {"dhcp4": true, "interface": "storage0", "match": "name"},
            "nic1": {"address": ["10.1.0.5/16", "2001:db8:1::5/64"], "mtu": 9000},
            "nic0": {"mtu": 1400},
        }),
    );
    let interfaces = network(&vars).interfaces;
    let mac = |name: &str| InterfaceMatch::Mac {
        set_name: name.to_owned(),
    };
    assert_eq!(interfaces.iter().map(|i| i.nic).collect::<Vec<_>>(), [0, 1, 10]);
    assert_eq!(
        (&interfaces[0].matching, interfaces[0].mtu),
        (&mac("ens18"), Some(1400))
    );
    assert_eq!(
        (&interfaces[1].matching, interfaces[1].mtu),
        (&mac("ens19"), Some(9000))
    );
    assert_eq!(interfaces[1].addresses.len(), 2);
    assert!(
        interfaces[1].gateways.is_empty(),
        "only the first card's gateway is worked out"
    );
    assert_eq!(interfaces[2].matching, InterfaceMatch::Name("storage0".to_owned()));
    assert!(interfaces[2].dhcp4 && !interfaces[2].dhcp6);
}

#[test]
fn dhcp_needs_a_name_to_connect_to() {
    let dhcp = good()
        .unset("global_ip_address")
        .unset("global_dns_servers")
        .set("vms_network", json!({"nic0": {"dhcp4": true}}));
    assert_eq!(codes(&problems(&dhcp)), ["machine/no-ssh-host"]);
    let named = dhcp.set("ansible_host", "web-0.lab.test");
    let machine = named.build().unwrap().machine;
    assert_eq!((machine.ssh.host.as_str(), machine.address()), ("web-0.lab.test", None));
    let published = named.set("pihole_api_host", "10.0.20.9").set("pihole_password", "pw");
    assert_eq!(codes(&problems(&published)), ["machine/dns-address"]);
}

#[test]
fn two_default_routes_are_warned_about() {
    let vars = good().set(
        "vms_network",
        json!({"nic1": {"address": "10.1.0.5/24", "gateway": "10.1.0.1"}}),
    );
    assert_eq!(warnings(&vars), ["machine/two-gateways"]);
}

#[test]
fn an_empty_list_of_name_servers_is_none() {
    assert!(
        network(&good().set("global_dns_servers", json!([])))
            .dns_servers
            .is_empty()
    );
    assert_eq!(
        network(&good().set("global_dns_servers", "10.0.20.2, 10.0.20.3"))
            .dns_servers
            .len(),
        2
    );
}
