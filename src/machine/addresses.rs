//! The guest's network: which interface gets which address, gateway and name servers.
//!
//! The first card's interface comes from the variables of old (`global_ip_address`, `global_gateway`, `vms_interface`);
//! further ones, DHCP and MTU come from `vms_network.nicN`. Addresses are checked against their subnets here: a guest with
//! a wrong address is reached by nobody, and that shows only after minutes.

use std::net::{IpAddr, Ipv4Addr};

use super::reader::{Field, Reader};
use super::schema;
use super::subnet::{self, Family};
use super::variables::Data;
use super::{Cidr, Interface, InterfaceMatch, Network, Nic, name_servers, nics};
use crate::diagnose::Diagnostic;

/// The whole network of the guest.
pub(super) fn build(reader: &mut Reader<'_>, cards: &[Nic], domain: Option<&str>) -> Option<Network> {
    let config = reader.get("vms_network").and_then(|field| reader.known_map(&field));
    let mut interfaces = vec![primary(reader, config.as_ref())];
    for key in config.iter().filter_map(Field::map).flat_map(|map| map.keys()) {
        match schema::index_of(key, "nic") {
            None | Some(0) => {}
            Some(index) => interfaces.push(secondary(reader, config.as_ref(), key, index, cards)),
        }
    }
    let (dns_servers, search) = name_servers::build(reader, interfaces.first().and_then(Option::as_ref), domain);
    let mut interfaces: Vec<Interface> = interfaces.into_iter().collect::<Option<_>>()?;
    if let [_, rest @ ..] = &mut interfaces[..] {
        rest.sort_by_key(|interface| interface.nic);
    }
    check_together(reader, &interfaces);
    octet(reader, &interfaces, cards);
    Some(Network {
        interfaces,
        dns_servers: dns_servers?,
        search: search?,
    })
}

/// The interface of the first card.
fn primary(reader: &mut Reader<'_>, config: Option<&Field>) -> Option<Interface> {
    let own = config
        .and_then(|config| reader.child(config, "nic0"))
        .and_then(|field| reader.known_map(&field));
    let matching = matching(reader, own.as_ref(), 0);
    let (dhcp4, dhcp6, mtu) = protocols(reader, own.as_ref());
    let subnet = reader
        .get("vms_subnet")
        .and_then(|field| subnet::parse_subnet(reader, &field));

    let mut addresses: Vec<Cidr> = Vec::new();
    let mut ok = true;
    let address_fields = address_fields(reader, own.as_ref());
    for (field, prefix) in &address_fields {
        let prefix_field = match *prefix {
            "" => own.as_ref().and_then(|own| reader.child(own, "prefix_length")),
            name => reader.get(name),
        };
        match subnet::parse_address(reader, field, prefix_field.as_ref(), subnet.as_ref()) {
            Some(cidr) => addresses.push(cidr),
            None => ok = false,
        }
    }
    if address_fields.is_empty() && !dhcp4 && !dhcp6 {
        ok = false;
        no_address(reader);
    }
    if !ok {
        return None;
    }
    let mut gateways = Vec::new();
    let inner = own.as_ref().and_then(|own| reader.raw_child(own, "gateway"));
    for (name, family) in [("global_gateway", Family::V4), ("global_ipv6_gateway", Family::V6)] {
        let Some(field) = reader.raw(name) else { continue };
        gateways.extend(subnet::parse_gateways(reader, &field, &addresses)?);
        if let (Some(inner), Family::V4) = (&inner, family) {
            reader.push(
                inner
                    .error("machine/said-twice", format!("{} and {name} are both set", inner.path))
                    .note(field.value.place.clone(), format!("{name} is here"))
                    .help("remove one"),
            );
        }
    }
    if let Some(inner) = &inner {
        gateways.extend(subnet::parse_gateways(reader, inner, &addresses)?);
    }
    if reader.raw("global_gateway").is_none() && inner.is_none() && !reader.is_broken("global_gateway") {
        gateways.extend(derived_gateway(reader, &address_fields, &addresses, dhcp4)?);
    }
    one_a_family(reader, "global_gateway", &gateways)?;
    gateways.sort_by_key(IpAddr::is_ipv6);
    Some(Interface {
        matching: matching?,
        nic: 0,
        addresses,
        gateways,
        dhcp4,
        dhcp6,
        mtu: mtu?,
    })
}

/// Where the first card's addresses stand, each with the variable of its prefix length (empty: the card's own key).
fn address_fields(reader: &mut Reader<'_>, own: Option<&Field>) -> Vec<(Field, &'static str)> {
    let mut fields = Vec::new();
    let global = reader.get("global_ip_address");
    let inner = own.and_then(|own| reader.child(own, "address"));
    match (global, inner) {
        (Some(global), inner) => {
            if let Some(inner) = inner.filter(|inner| inner.text() != global.text()) {
                reader.push(
                    inner
                        .error(
                            "machine/said-twice",
                            format!("{} and global_ip_address are both set", inner.path),
                        )
                        .note(global.value.place.clone(), "global_ip_address is here")
                        .help("remove one"),
                );
            }
            fields.push((global, "vms_prefix_length"));
        }
        (None, Some(inner)) => {
            let items = list(&inner);
            fields.extend(items.into_iter().map(|item| (item, "")));
        }
        (None, None) => fields.extend(listed_address(reader).map(|field| (field, "vms_prefix_length"))),
    }
    fields.extend(
        reader
            .get("global_ipv6_address")
            .map(|field| (field, "vms_ipv6_prefix_length")),
    );
    fields
}

/// The host's entry in `global_ip_addresses`.
fn listed_address(reader: &mut Reader<'_>) -> Option<Field> {
    if reader.is_broken("global_ip_address") {
        return None;
    }
    let all = reader.get("global_ip_addresses")?;
    let Some(map) = all.map() else {
        reader.push(all.wrong("a mapping of host name to address"));
        return None;
    };
    let host = reader.vars.host();
    let entry = map.get(host)?;
    Some(Field {
        path: format!("global_ip_addresses.{host}"),
        value: entry.value.clone(),
    })
    .filter(|field| !field.is_null())
}

fn no_address(reader: &mut Reader<'_>) {
    if ["global_ip_address", "global_ip_addresses"]
        .iter()
        .any(|name| reader.is_broken(name))
    {
        return;
    }
    let host = reader.vars.host().to_owned();
    let all = reader.get("global_ip_addresses");
    let near = all
        .as_ref()
        .and_then(Field::map)
        .and_then(|map| crate::diagnose::nearest(&host, map.keys().map(String::as_str)).map(str::to_owned));
    let mut problem = Diagnostic::error("machine/no-address", format!("{host} has no address"))
        .key("global_ip_address")
        .at(all.map(|field| field.value.place))
        .rule(format!(
            "global_ip_address, or an entry {host:?} in global_ip_addresses, or DHCP in vms_network.nic0"
        ));
    problem = match near {
        Some(near) => problem.help(format!("global_ip_addresses has {near:?}: is that this host?")),
        None => problem.help(format!("global_ip_address: 10.0.20.31, for {host}")),
    };
    reader.push(problem);
}

/// The gateway of old: first three octets and `.1`, for a /24.
fn derived_gateway(
    reader: &mut Reader<'_>,
    fields: &[(Field, &str)],
    addresses: &[Cidr],
    dhcp4: bool,
) -> Option<Vec<IpAddr>> {
    let first = addresses
        .iter()
        .zip(fields)
        .find_map(|(cidr, (field, _))| match cidr.address {
            IpAddr::V4(address) => Some((address, cidr.prefix, field)),
            IpAddr::V6(_) => None,
        });
    let Some((address, prefix, field)) = first else {
        return Some(Vec::new());
    };
    if prefix != 24 {
        if dhcp4 {
            return Some(Vec::new());
        }
        reader.push(
            Diagnostic::error("machine/no-gateway", "global_gateway is not defined")
                .key("global_gateway")
                .at(field.value.place.clone())
                .rule(format!(
                    "it is worked out only where the prefix length is 24; here it is {prefix}"
                ))
                .help("global_gateway: the router's address, or none for a network without one"),
        );
        return None;
    }
    let [a, b, c, _] = address.octets();
    let gateway = Ipv4Addr::new(a, b, c, 1);
    if gateway == address {
        reader.push(
            field
                .error(
                    "machine/gateway",
                    format!("the gateway worked out for {address} is that address itself"),
                )
                .rule("where global_gateway is not defined it is the first three octets and .1")
                .help("global_gateway: the router's address, or none"),
        );
        return None;
    }
    Some(vec![gateway.into()])
}

/// An interface of a further card.
fn secondary(
    reader: &mut Reader<'_>,
    config: Option<&Field>,
    key: &str,
    index: u8,
    cards: &[Nic],
) -> Option<Interface> {
    let own = reader.child(config?, key).and_then(|field| reader.known_map(&field))?;
    if !cards.is_empty() && !cards.iter().any(|nic| nic.index == index) {
        reader.push(
            own.error(
                "machine/no-card",
                format!("{} has no card: vms_config declares no nic{index}", own.path),
            )
            .rule("an interface belongs to the card of the same index")
            .help(format!("declare vms_config.network.nic{index}")),
        );
    }
    let matching = matching(reader, Some(&own), index);
    let (dhcp4, dhcp6, mtu) = protocols(reader, Some(&own));
    let prefix = reader.child(&own, "prefix_length");
    let mut addresses = Vec::new();
    let mut ok = true;
    for field in reader.child(&own, "address").iter().flat_map(list) {
        match subnet::parse_address(reader, &field, prefix.as_ref(), None) {
            Some(cidr) => addresses.push(cidr),
            None => ok = false,
        }
    }
    if !ok {
        return None;
    }
    if addresses.is_empty() && !dhcp4 && !dhcp6 {
        reader.push(
            own.error("machine/no-address", format!("{} has no address", own.path))
                .rule("address, dhcp4 or dhcp6"),
        );
        return None;
    }
    let gateways = match reader.raw_child(&own, "gateway") {
        Some(field) => subnet::parse_gateways(reader, &field, &addresses)?,
        None => Vec::new(),
    };
    one_a_family(reader, &format!("{}.gateway", own.path), &gateways)?;
    Some(Interface {
        matching: matching?,
        nic: index,
        addresses,
        gateways,
        dhcp4,
        dhcp6,
        mtu: mtu?,
    })
}

/// How cloud-init finds the interface.
fn matching(reader: &mut Reader<'_>, own: Option<&Field>, index: u8) -> Option<InterfaceMatch> {
    let by = own
        .and_then(|own| reader.child(own, "match"))
        .or_else(|| reader.get_or_default("vms_interface_match"))?;
    let by = reader.word(&by, &["name", "mac"])?;
    let given = own.and_then(|own| reader.child(own, "interface"));
    let name = match (given, index) {
        (Some(field), _) => interface_name(reader, &field)?,
        (None, 0) => {
            let field = reader.get_or_default("vms_interface")?;
            interface_name(reader, &field)?
        }
        // qemu-server puts net0 to net5 into the PCI slots 18 to 23 (PVE::QemuServer::PCI).
        (None, 1..=5) => format!("ens{}", 18 + index),
        (None, _) => {
            let path = own.map_or_else(String::new, |own| own.path.clone());
            reader.push(
                Diagnostic::error("machine/missing-key", format!("{path}.interface is not set"))
                    .key(format!("{path}.interface"))
                    .at(own.map(|own| own.value.place.clone()))
                    .rule("cards from net6 on sit on another bus, so their names cannot be told beforehand")
                    .help("set interface, and match: mac"),
            );
            return None;
        }
    };
    Some(match by.as_str() {
        "mac" => InterfaceMatch::Mac { set_name: name },
        _ => InterfaceMatch::Name(name),
    })
}

/// An interface's name (Linux: `dev_valid_name`, at most 15 bytes).
fn interface_name(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let name = reader.text(field)?;
    let ok = name.len() <= 15
        && !matches!(name.as_str(), "." | ".." | "lo")
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'*' | b'?' | b'[' | b'%'));
    if ok {
        return Some(name);
    }
    reader.push(
        field
            .error(
                "machine/invalid-name",
                format!("{} is {}: no valid interface name", field.path, field.show()),
            )
            .rule("at most 15 characters, no blanks, no `/` and no `:`"),
    );
    None
}

/// DHCP and MTU. The MTU is `Some(None)` where nobody sets it, `None` where it is wrong.
fn protocols(reader: &mut Reader<'_>, own: Option<&Field>) -> (bool, bool, Option<Option<u32>>) {
    let Some(own) = own else {
        return (false, false, Some(None));
    };
    let mut flag = |key: &str| {
        let field = reader.child(own, key);
        field.and_then(|field| reader.bool(&field)).unwrap_or(false)
    };
    let (dhcp4, dhcp6) = (flag("dhcp4"), flag("dhcp6"));
    let mtu = match reader.child(own, "mtu") {
        None => Some(None),
        Some(field) => reader.int(&field, 576..=65520).map(|mtu| u32::try_from(mtu).ok()),
    };
    (dhcp4, dhcp6, mtu)
}

/// The items of a list, or the one value.
fn list(field: &Field) -> Vec<Field> {
    match &field.value.data {
        Data::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, value)| Field {
                path: format!("{}[{i}]", field.path),
                value: value.clone(),
            })
            .collect(),
        _ => vec![field.clone()],
    }
}

fn one_a_family(reader: &mut Reader<'_>, path: &str, gateways: &[IpAddr]) -> Option<()> {
    let v4 = gateways.iter().filter(|g| g.is_ipv4()).count();
    if v4 > 1 || gateways.len() - v4 > 1 {
        reader.push(
            Diagnostic::error(
                "machine/two-gateways",
                "two default gateways of one family on one interface",
            )
            .key(path)
            .at(reader.origins().place(path))
            .rule("one for IPv4 and one for IPv6 at most"),
        );
        return None;
    }
    Some(())
}

/// What only shows when the interfaces are seen together.
fn check_together(reader: &mut Reader<'_>, interfaces: &[Interface]) {
    for (i, interface) in interfaces.iter().enumerate() {
        let path = format!("vms_network.nic{}", interface.nic);
        let place = reader.origins().place(&path);
        for other in &interfaces[..i] {
            if name_of(&interface.matching) == name_of(&other.matching) {
                reader.push(
                    Diagnostic::error(
                        "machine/interface-twice",
                        format!(
                            "nic{} and nic{} are both {}",
                            other.nic,
                            interface.nic,
                            name_of(&interface.matching)
                        ),
                    )
                    .key(format!("{path}.interface"))
                    .at(place.clone())
                    .rule("each card has an interface of its own"),
                );
            }
            if let Some(cidr) = interface
                .addresses
                .iter()
                .find(|a| other.addresses.iter().any(|b| a.address == b.address))
            {
                reader.push(
                    Diagnostic::error(
                        "machine/address-twice",
                        format!("nic{} and nic{} both have {}", other.nic, interface.nic, cidr.address),
                    )
                    .key(format!("{path}.address"))
                    .at(place.clone())
                    .rule("an address is one interface's"),
                );
            }
            if interface
                .gateways
                .iter()
                .any(|a| other.gateways.iter().any(|b| a.is_ipv4() == b.is_ipv4()))
            {
                reader.push(
                    Diagnostic::warning(
                        "machine/two-gateways",
                        format!("nic{} and nic{} both have a default gateway", other.nic, interface.nic),
                    )
                    .key(format!("{path}.gateway"))
                    .at(place.clone())
                    .rule("with two default routes of one family it is chance which one is used"),
                );
            }
        }
    }
}

fn name_of(matching: &InterfaceMatch) -> &str {
    match matching {
        InterfaceMatch::Name(name) | InterfaceMatch::Mac { set_name: name } => name,
    }
}

/// The convention "VLAN = third octet", on the first card.
fn octet(reader: &mut Reader<'_>, interfaces: &[Interface], cards: &[Nic]) {
    let (Some(interface), Some(nic)) = (interfaces.first(), cards.iter().find(|nic| nic.index == 0)) else {
        return;
    };
    for cidr in &interface.addresses {
        match cidr.address {
            IpAddr::V4(address) if address.is_private() => {
                let field = reader.get("global_ip_address");
                nics::check_octet(reader, nic, address, "vms_config.network.nic0.tag", field.as_ref());
            }
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
