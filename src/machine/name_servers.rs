//! The guest's name servers and search domains.

use std::net::IpAddr;

use super::reader::{Field, Reader};
use super::{Interface, names};

/// Name servers and search domains; `None` where they are wrong.
pub(super) fn build(
    reader: &mut Reader<'_>,
    first: Option<&Interface>,
    domain: Option<&str>,
) -> (Option<Vec<IpAddr>>, Option<Vec<String>>) {
    let dhcp = first.is_some_and(|interface| interface.dhcp4 || interface.dhcp6);
    let field = if dhcp || first.is_none() {
        reader.get("global_dns_servers")
    } else {
        reader.required(
            "global_dns_servers",
            "global_dns_servers: [10.0.20.2], or [] for a guest without name servers",
        )
    };
    let servers = match field {
        None if dhcp => Some(Vec::new()),
        None => None,
        Some(field) => reader.texts(&field).and_then(|items| {
            let addresses: Vec<Option<IpAddr>> = items.iter().map(|item| server(reader, item)).collect();
            addresses.into_iter().collect()
        }),
    };
    let search = match reader.get("vms_dns_search") {
        None => Some(domain.into_iter().map(str::to_owned).collect()),
        Some(field) => reader.texts(&field).and_then(|items| {
            let domains: Vec<Option<String>> = items.iter().map(|item| names::domain(reader, item)).collect();
            domains.into_iter().collect()
        }),
    };
    (servers, search)
}

fn server(reader: &mut Reader<'_>, item: &Field) -> Option<IpAddr> {
    let text = reader.text(item)?;
    match text.trim().parse() {
        Ok(address) => Some(address),
        Err(_) => {
            reader.push(
                item.error(
                    "machine/address",
                    format!("{} is {}: no address", item.path, item.show()),
                )
                .rule("a name server is given by address: its name could not be looked up"),
            );
            None
        }
    }
}
