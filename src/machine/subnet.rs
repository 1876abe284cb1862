//! Addresses, subnets and gateways, parsed and checked against each other.

use std::net::IpAddr;

use super::Cidr;
use super::reader::{Field, Reader};
use super::variables::Data;

/// The two families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    fn default_prefix(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }
}

/// First and last address of a subnet.
fn ends(cidr: Cidr) -> (IpAddr, IpAddr) {
    match cidr.address {
        IpAddr::V4(a) => {
            let host = u32::MAX.checked_shr(u32::from(cidr.prefix)).unwrap_or(0);
            let net = a.to_bits() & !host;
            (IpAddr::V4(net.into()), IpAddr::V4((net | host).into()))
        }
        IpAddr::V6(a) => {
            let host = u128::MAX.checked_shr(u32::from(cidr.prefix)).unwrap_or(0);
            let net = a.to_bits() & !host;
            (IpAddr::V6(net.into()), IpAddr::V6((net | host).into()))
        }
    }
}

/// `network/prefix` of a subnet.
fn network(cidr: Cidr) -> Cidr {
    Cidr {
        address: ends(cidr).0,
        prefix: cidr.prefix,
    }
}

/// An address and perhaps a prefix length.
fn split(text: &str) -> Option<(IpAddr, Option<u8>)> {
    match text.trim().split_once('/') {
        None => Some((text.trim().parse().ok()?, None)),
        Some((address, prefix)) => {
            let address: IpAddr = address.parse().ok()?;
            let prefix: u8 = prefix.parse().ok()?;
            ((1..=Family::of(address).bits()).contains(&prefix)).then_some((address, Some(prefix)))
        }
    }
}

/// A subnet, `10.0.20.0/24`.
pub(super) fn parse_subnet(reader: &mut Reader<'_>, field: &Field) -> Option<(Cidr, Field)> {
    let text = reader.text(field)?;
    let fault = match split(&text) {
        Some((address, Some(prefix))) => {
            let cidr = Cidr { address, prefix };
            if network(cidr).address == address {
                return Some((cidr, field.clone()));
            }
            format!("its network address is {}", network(cidr))
        }
        Some((_, None)) => "it has no prefix length".to_owned(),
        None => "it is no address with a prefix length".to_owned(),
    };
    reader.push(
        field
            .error(
                "machine/subnet",
                format!("{} is {}: no subnet", field.path, field.show()),
            )
            .rule(format!("network address and prefix length, as 10.0.20.0/24; {fault}")),
    );
    None
}

/// A host's address with its prefix length.
pub(super) fn parse_address(
    reader: &mut Reader<'_>,
    field: &Field,
    prefix: Option<&Field>,
    subnet: Option<&(Cidr, Field)>,
) -> Option<Cidr> {
    let text = reader.text(field)?;
    let Some((address, own)) = split(&text) else {
        let mut problem = field
            .error(
                "machine/address",
                format!("{} is {}: no address", field.path, field.show()),
            )
            .rule("an IPv4 or IPv6 address, with or without /prefix");
        if text.trim() == "dhcp" {
            problem = problem.help("vms_network: {nic0: {dhcp4: true}}");
        }
        reader.push(problem);
        return None;
    };
    let family = Family::of(address);
    let subnet = subnet.filter(|(subnet, _)| Family::of(subnet.address) == family);
    let declared = match prefix {
        None => None,
        Some(prefix) => {
            let bits = reader.int(prefix, 1..=u64::from(family.bits()))?;
            u8::try_from(bits).ok()
        }
    };
    let said: Vec<(u8, &Field)> = [
        own.map(|bits| (bits, field)),
        declared.zip(prefix),
        subnet.map(|(subnet, field)| (subnet.prefix, field)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let [(first, first_field), rest @ ..] = &said[..]
        && let Some((other, other_field)) = rest.iter().find(|(bits, _)| bits != first)
    {
        reader.push(
            first_field
                .error(
                    "machine/prefix-conflict",
                    format!("{} says /{first}, {} says /{other}", first_field.path, other_field.path),
                )
                .rule("the prefix length is the same wherever it is said")
                .note(other_field.value.place.clone(), format!("{} is here", other_field.path)),
        );
        return None;
    }
    let cidr = Cidr {
        address,
        prefix: said.first().map_or(family.default_prefix(), |(bits, _)| *bits),
    };
    if let Some((subnet, subnet_field)) = subnet
        && !subnet.contains(address)
    {
        reader.push(
            field
                .error(
                    "machine/outside-subnet",
                    format!("{} is {address}, outside {subnet}", field.path),
                )
                .rule("the address lies in vms_subnet")
                .note(subnet_field.value.place.clone(), "vms_subnet is here"),
        );
        return None;
    }
    match host_fault(cidr) {
        None => Some(cidr),
        Some(fault) => {
            reader.push(
                field
                    .error("machine/no-host-address", format!("{} is {cidr}: {fault}", field.path))
                    .rule("a guest has a host's address"),
            );
            None
        }
    }
}

/// Why an address cannot be a host's.
fn host_fault(cidr: Cidr) -> Option<&'static str> {
    let (first, last) = ends(cidr);
    let address = cidr.address;
    if address.is_unspecified() {
        return Some("the unspecified address");
    }
    if address.is_multicast() {
        return Some("a multicast address");
    }
    match address {
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address of all networks"),
        IpAddr::V4(_) if cidr.prefix <= 30 && address == first => Some("the network's own address"),
        IpAddr::V4(_) if cidr.prefix <= 30 && address == last => Some("the network's broadcast address"),
        IpAddr::V6(_) if cidr.prefix <= 126 && address == first => {
            Some("the network's own address (every router listens on it)")
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// Gateways: none, one or a list. `None` where one is wrong.
pub(super) fn parse_gateways(reader: &mut Reader<'_>, field: &Field, addresses: &[Cidr]) -> Option<Vec<IpAddr>> {
    let items: Vec<Field> = match &field.value.data {
        Data::Null => Vec::new(),
        Data::Str(text) if matches!(text.trim(), "" | "none") => Vec::new(),
        Data::List(_) => reader.texts(field)?,
        _ => vec![field.clone()],
    };
    let gateways: Vec<Option<IpAddr>> = items.iter().map(|item| gateway(reader, item, addresses)).collect();
    gateways.into_iter().collect()
}

fn gateway(reader: &mut Reader<'_>, field: &Field, addresses: &[Cidr]) -> Option<IpAddr> {
    let text = reader.text(field)?;
    let Ok(gateway) = text.trim().parse::<IpAddr>() else {
        reader.push(
            field
                .error(
                    "machine/gateway",
                    format!("{} is {}: no address", field.path, field.show()),
                )
                .rule("the router's address, without a prefix length; or none"),
        );
        return None;
    };
    let family = Family::of(gateway);
    let ours: Vec<&Cidr> = addresses
        .iter()
        .filter(|cidr| Family::of(cidr.address) == family)
        .collect();
    let link_local = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let fault = if let Some(cidr) = ours.iter().find(|cidr| cidr.address == gateway) {
        Some((
            "machine/gateway",
            format!("it is the guest's own address, {}", cidr.address),
        ))
    } else if ours.is_empty() {
        let name = if family == Family::V4 { "IPv4" } else { "IPv6" };
        Some(("machine/gateway", format!("the guest has no static {name} address")))
    } else if !link_local && !ours.iter().any(|cidr| cidr.contains(gateway)) {
        let subnets: Vec<String> = ours.iter().map(|cidr| network(**cidr).to_string()).collect();
        Some((
            "machine/gateway-outside",
            format!("it is outside {}", subnets.join(" and ")),
        ))
    } else if !link_local && !ours.iter().any(|cidr| is_host(cidr, gateway)) {
        Some((
            "machine/gateway",
            "it is the network's own or its broadcast address".to_owned(),
        ))
    } else {
        None
    };
    let Some((code, fault)) = fault else {
        return Some(gateway);
    };
    reader.push(
        field
            .error(code, format!("{} is {gateway}: {fault}", field.path))
            .rule("the gateway is another host in the guest's subnet"),
    );
    None
}

fn is_host(cidr: &Cidr, address: IpAddr) -> bool {
    let as_host = Cidr {
        address,
        prefix: cidr.prefix,
    };
    // A router may well have the subnet's first IPv6 address, the anycast one.
    cidr.contains(address) && (address.is_ipv6() || host_fault(as_host).is_none())
}
