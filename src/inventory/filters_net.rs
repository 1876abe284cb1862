//! The filters of `ansible.utils` for addresses: the queries that inventories use.

use std::net::IpAddr;

use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, engine, native, wrong};
use super::text;
use super::value::{Data, Value};
use crate::diagnose::Place;

/// An address with a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Net {
    bits: u128,
    width: u32,
    prefix: u32,
    /// The prefix was written.
    written: bool,
}

impl Net {
    fn parse(source: &str) -> Option<Self> {
        let (address, prefix) = match source.trim().split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (source.trim(), None),
        };
        let (bits, width) = match (address.parse::<IpAddr>(), address.parse::<u128>()) {
            (Ok(IpAddr::V4(address)), _) => (u128::from(u32::from(address)), 32),
            (Ok(IpAddr::V6(address)), _) => (u128::from(address), 128),
            // An address as a number.
            (Err(_), Ok(bits)) => (bits, if bits > u128::from(u32::MAX) { 128 } else { 32 }),
            (Err(_), Err(_)) => return None,
        };
        let length = match prefix {
            None => width,
            Some(prefix) => match prefix.parse::<u32>() {
                Ok(length) => length,
                Err(_) => mask_length(prefix)?,
            },
        };
        (length <= width).then_some(Self {
            bits,
            width,
            prefix: length,
            written: prefix.is_some(),
        })
    }

    fn mask(&self) -> u128 {
        let ones = |count: u32| if count == 0 { 0 } else { u128::MAX >> (128 - count) };
        ones(self.width) ^ ones(self.width - self.prefix)
    }

    fn network(&self) -> u128 {
        self.bits & self.mask()
    }

    fn last(&self) -> u128 {
        self.network()
            | (!self.mask()
                & if self.width == 32 {
                    u128::from(u32::MAX)
                } else {
                    u128::MAX
                })
    }

    fn size(&self) -> u128 {
        (self.last() - self.network()).saturating_add(1)
    }

    fn show(&self, bits: u128) -> String {
        match u32::try_from(bits) {
            Ok(bits) if self.width == 32 => IpAddr::from(bits.to_be_bytes()).to_string(),
            _ => IpAddr::from(bits.to_be_bytes()).to_string(),
        }
    }

    fn with_prefix(&self, bits: u128) -> String {
        format!("{}/{}", self.show(bits), self.prefix)
    }

    fn nth(&self, index: i64) -> Option<u128> {
        let at = u128::from(index.unsigned_abs());
        let bits = if index >= 0 {
            self.network().checked_add(at)?
        } else {
            self.last().checked_add(1)?.checked_sub(at)?
        };
        (self.network()..=self.last()).contains(&bits).then_some(bits)
    }

    /// The address as it was written; a number as the address that it is.
    fn shown(&self, source: &str) -> String {
        let source = source.trim();
        match source.split_once('/') {
            Some((address, _)) if address.bytes().all(|c| c.is_ascii_digit()) => self.with_prefix(self.bits),
            None if source.bytes().all(|c| c.is_ascii_digit()) => self.show(self.bits),
            _ => source.to_owned(),
        }
    }

    fn private(&self) -> bool {
        match self.show(self.bits).parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.is_private() || address.is_link_local(),
            Ok(IpAddr::V6(address)) => address.is_unique_local() || address.is_unicast_link_local(),
            Err(_) => false,
        }
    }
}

fn mask_length(mask: &str) -> Option<u32> {
    let bits = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
    (bits.leading_ones() + bits.trailing_zeros() == 32).then(|| bits.leading_ones())
}

/// What a query says of one address; `None` is the filter's `false`.
fn query(net: Net, source: &str, query: &str) -> Result<Option<Data>, String> {
    let text = |text: String| Ok(Some(Data::Str(text)));
    let number = |number: u128| Ok(i128::try_from(number).ok().map(Data::Int));
    let source = &*net.shown(source);
    let itself = |holds: bool| Ok(holds.then(|| Data::Str(source.to_owned())));
    let two = |a: u128, b: u128| Ok(Some(Data::Str(format!("{} {}", net.show(a), net.show(b)))));
    let (low, high) = (u32::try_from(net.bits).unwrap_or(0), (net.bits >> 120) as u8);
    let v4 = net.width == 32;
    let multicast = if v4 { low >> 28 == 0xe } else { high == 0xff };
    match query {
        "" => text(source.to_owned()),
        "loopback" => itself(if v4 { low >> 24 == 127 } else { net.bits == 1 }),
        "multicast" => itself(multicast),
        "unicast" => itself(!multicast),
        "link-local" => itself(if v4 {
            low >> 16 == 0xa9fe
        } else {
            net.bits >> 118 == 0x3fa
        }),
        "range_usable" if net.size() > 2 => {
            text(format!("{}-{}", net.show(net.network() + 1), net.show(net.last() - 1)))
        }
        "size_usable" => number(match net.size() {
            size @ (1 | 2) => size,
            size => size - 2,
        }),
        "network_netmask" => two(net.network(), net.mask()),
        "ip_netmask" | "address_netmask" => two(net.bits, net.mask()),
        "network_wildcard" => two(net.network(), net.last() - net.network()),
        "ip_wildcard" | "address_wildcard" => two(net.bits, net.last() - net.network()),
        "next_usable" if net.size() > 2 => Ok((net.bits < net.last() - 1).then(|| Data::Str(net.show(net.bits + 1)))),
        "previous_usable" if net.size() > 2 => {
            Ok((net.bits > net.network() + 1).then(|| Data::Str(net.show(net.bits - 1))))
        }
        "peer" => match net.size() {
            2 => text(net.show(net.bits ^ 1)),
            4 if net.bits != net.network() && net.bits != net.last() => text(net.show(net.bits ^ 3)),
            _ => Err("peer needs an address in a subnet of two hosts".to_owned()),
        },
        "range_usable" | "next_usable" | "previous_usable" => Ok(None),
        "address" | "ip" => {
            // The address of a network is no address of a host.
            let network = net.written && net.prefix < net.width - 1 && net.bits == net.network();
            if network { Ok(None) } else { text(net.show(net.bits)) }
        }
        // The network's own address is no host's.
        "host" | "address/prefix" | "ip/prefix" => {
            Ok((net.size() <= 2 || net.bits != net.network()).then(|| Data::Str(net.with_prefix(net.bits))))
        }
        "prefix" => number(net.prefix.into()),
        "netmask" => Ok((net.size() > 1).then(|| Data::Str(net.show(net.mask())))),
        "hostmask" | "wildcard" if net.width == 32 => text(net.show(!net.mask() & u128::from(u32::MAX))),
        "network" | "network_id" => Ok((net.size() > 1).then(|| Data::Str(net.show(net.network())))),
        "subnet" | "network/prefix" => text(net.with_prefix(net.network())),
        "net" => {
            if net.bits == net.network() && net.written {
                text(net.with_prefix(net.network()))
            } else {
                Ok(None)
            }
        }
        "broadcast" if net.width == 32 && net.prefix < 31 => text(net.show(net.last())),
        "first_usable" if net.size() > 2 => text(net.show(net.network() + 1)),
        "last_usable" if net.size() > 2 => text(net.show(net.last() - 1)),
        "first_usable" | "last_usable" | "broadcast" => Ok(None),
        "size" => number(net.size()),
        "int" if net.written => text(format!("{}/{}", net.bits, net.prefix)),
        "int" => number(net.bits),
        "version" => number(if net.width == 32 { 4 } else { 6 }),
        "ipv4" => {
            if net.width == 32 {
                text(source.trim().to_owned())
            } else {
                Ok(None)
            }
        }
        "ipv6" => {
            if net.width == 128 {
                text(source.trim().to_owned())
            } else {
                Ok(None)
            }
        }
        "private" => {
            if net.private() {
                text(source.trim().to_owned())
            } else {
                Ok(None)
            }
        }
        "public" => {
            if net.private() {
                Ok(None)
            } else {
                text(source.trim().to_owned())
            }
        }
        "revdns" if net.width == 32 => {
            let bytes = u32::try_from(net.bits).unwrap_or(0).to_be_bytes();
            text(format!(
                "{}.{}.{}.{}.in-addr.arpa.",
                bytes[3], bytes[2], bytes[1], bytes[0]
            ))
        }
        "revdns" => {
            let nibbles = (0..32).map(|i| format!("{:x}.", net.bits >> (4 * i) & 0xf));
            text(format!("{}ip6.arpa.", nibbles.collect::<String>()))
        }
        other => {
            if let Ok(index) = other.parse::<i64>() {
                return match net.nth(index) {
                    Some(bits) => text(net.with_prefix(bits)),
                    None => Ok(None),
                };
            }
            match Net::parse(other) {
                Some(outer) => {
                    let inside = outer.width == net.width && (outer.network()..=outer.last()).contains(&net.bits);
                    if inside {
                        text(source.trim().to_owned())
                    } else {
                        Ok(None)
                    }
                }
                None => Err(format!("the query `{other}` is unknown")),
            }
        }
    }
}

fn filter(call: &Call<'_>, asked: &str, version: Option<u32>) -> Outcome {
    let one = |value: &Value| -> Result<Option<Value>, minijinja::Error> {
        if matches!(value.data, Data::Bool(_) | Data::Null) {
            return Ok(None);
        }
        let source = text::display(value);
        let Some(net) = Net::parse(&source).filter(|net| version.is_none_or(|width| net.width == width)) else {
            return Ok(None);
        };
        let data = query(net, &source, asked).map_err(|why| wrong(format!("{}: {why}", call.name)))?;
        Ok(data.map(|data| Value::new(data, Place::whole(""))))
    };
    let value = call.native()?;
    let result = match &value.data {
        // Of a list, those that answer.
        Data::List(list) => {
            let mut out = Vec::new();
            for item in list {
                out.extend(one(item)?);
            }
            Value::new(Data::List(out), Place::whole(""))
        }
        _ => match one(&value)? {
            Some(value) => value,
            None => Value::new(Data::Bool(false), Place::whole("")),
        },
    };
    Ok(engine(&result))
}

pub(crate) fn ipaddr(call: &Call<'_>) -> Outcome {
    let asked = call.arg_text(0, "query")?.unwrap_or_default();
    filter(call, &asked, None)
}

pub(crate) fn ipv4(call: &Call<'_>) -> Outcome {
    let asked = call.arg_text(0, "query")?.unwrap_or_default();
    filter(call, &asked, Some(32))
}

pub(crate) fn ipv6(call: &Call<'_>) -> Outcome {
    let asked = call.arg_text(0, "query")?.unwrap_or_default();
    filter(call, &asked, Some(128))
}

fn net(call: &Call<'_>) -> Result<Net, minijinja::Error> {
    let source = text::display(&native(&call.value)?);
    Net::parse(&source).ok_or_else(|| wrong(format!("{}: this is no address", call.name)))
}

pub(crate) fn ipmath(call: &Call<'_>) -> Outcome {
    let net = net(call)?;
    let amount = call
        .arg_int(0, "amount")?
        .ok_or_else(|| wrong("ipmath needs an amount"))?;
    let moved = net
        .bits
        .checked_add_signed(amount.into())
        .filter(|bits| net.width == 128 || *bits <= u128::from(u32::MAX));
    moved
        .map(|bits| Jinja::from(net.show(bits)))
        .ok_or_else(|| wrong("ipmath: there is no such address"))
}

pub(crate) fn nthhost(call: &Call<'_>) -> Outcome {
    let net = net(call)?;
    let index = call
        .arg_int(0, "query")?
        .ok_or_else(|| wrong("nthhost needs a number"))?;
    Ok(net
        .nth(index)
        .map_or_else(|| Jinja::from(false), |bits| Jinja::from(net.show(bits))))
}

/// `ipsubnet(prefix)`: how many there are or, of an address, its network; `ipsubnet(prefix, index)`: one of them.
pub(crate) fn ipsubnet(call: &Call<'_>) -> Outcome {
    let net = net(call)?;
    let Some(prefix) = call.arg_text(0, "query")?.filter(|prefix| !prefix.is_empty()) else {
        return Ok(Jinja::from(net.with_prefix(net.network())));
    };
    if let Some(outer) = Net::parse(&prefix).filter(|_| prefix.contains('/')) {
        // The how manieth of its size it is.
        let inside = outer.width == net.width && (outer.network()..=outer.last()).contains(&net.bits);
        if !inside || net.prefix < outer.prefix {
            return Err(wrong(format!("ipsubnet: it is not in {prefix}")));
        }
        let at = (net.network() - outer.network()) / net.size() + 1;
        return Ok(Jinja::from(at.to_string()));
    }
    let prefix: u32 = prefix
        .parse()
        .map_err(|_| wrong("ipsubnet: the prefix is not a number"))?;
    if prefix > net.width {
        return Err(wrong("ipsubnet: the prefix is too long"));
    }
    let inner = Net { prefix, ..net };
    if prefix < net.prefix {
        if let Some(index) = call.arg_int(1, "index")? {
            // Of all networks that it is in, from that prefix on.
            let count = i64::from(net.prefix - prefix);
            let at = if index < 0 { count + index } else { index };
            let Some(at) = u32::try_from(at).ok().filter(|at| i64::from(*at) < count) else {
                return Ok(Jinja::from(false));
            };
            let outer = Net {
                prefix: prefix + at,
                ..net
            };
            return Ok(Jinja::from(outer.with_prefix(outer.network())));
        }
        return Ok(Jinja::from(inner.with_prefix(inner.network())));
    }
    let Some(index) = call.arg_int(1, "index")? else {
        let count = 1u128.checked_shl(prefix - net.prefix).unwrap_or(u128::MAX);
        return Ok(Jinja::from(count.to_string()));
    };
    let count = 1u128.checked_shl(prefix - net.prefix).unwrap_or(u128::MAX);
    let at = if index >= 0 {
        Some(u128::from(index.unsigned_abs()))
    } else {
        count.checked_sub(index.unsigned_abs().into())
    };
    match at.filter(|at| *at < count) {
        Some(at) => Ok(Jinja::from(inner.with_prefix(net.network() + at * inner.size()))),
        None => Ok(Jinja::from(false)),
    }
}

/// `ipwrap`: brackets around IPv6 addresses; anything else stays.
pub(crate) fn ipwrap(call: &Call<'_>) -> Outcome {
    let one = |value: Value| match value.as_str().and_then(Net::parse) {
        Some(net) if net.width == 128 => {
            let prefix = if net.written {
                format!("/{}", net.prefix)
            } else {
                String::new()
            };
            Value::text(format!("[{}]{prefix}", net.show(net.bits)), value.place)
        }
        _ => value,
    };
    let value = call.native()?;
    Ok(engine(&match value.data {
        Data::List(list) => Value::new(Data::List(list.into_iter().map(one).collect()), value.place),
        _ => one(value),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(source: &str, asked: &str) -> Option<Data> {
        query(Net::parse(source).unwrap(), source, asked).unwrap()
    }

    #[test]
    fn queries_answer_as_in_ansible_utils() {
        let text = |text: &str| Some(Data::Str(text.to_owned()));
        assert_eq!(ask("10.0.0.5/24", "address"), text("10.0.0.5"));
        assert_eq!(ask("10.0.0.0/24", "address"), None);
        assert_eq!(ask("10.0.0.5/24", "prefix"), Some(Data::Int(24)));
        assert_eq!(ask("10.0.0.5/24", "netmask"), text("255.255.255.0"));
        assert_eq!(ask("10.0.0.5/255.255.0.0", "network"), text("10.0.0.0"));
        assert_eq!(ask("10.0.0.5/24", "subnet"), text("10.0.0.0/24"));
        assert_eq!(ask("10.0.0.5/24", "broadcast"), text("10.0.0.255"));
        assert_eq!(ask("10.0.0.0/24", "-2"), text("10.0.0.254/24"));
        assert_eq!(ask("10.0.0.5", "10.0.0.0/8"), text("10.0.0.5"));
        assert_eq!(ask("11.0.0.5", "10.0.0.0/8"), None);
        assert_eq!(ask("fe80::1/64", "network"), text("fe80::"));
        assert_eq!(ask("0.0.0.0/0", "size"), Some(Data::Int(1 << 32)));
        assert!(query(Net::parse("10.0.0.1").unwrap(), "", "frob").is_err());
    }
}
