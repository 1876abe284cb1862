//! What a host claims for itself alone: its VM's name, a number, addresses. Read of the hosts that are not in the run, so
//! that a run of one host finds out that another one wants the same.
//!
//! Only these few variables are looked at: a machine is not built, and nothing else of the other host is checked.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::reader::{Field, Reader};
use super::variables::{Data, Value, Variables};
use super::{Machine, Origins, build, names};
use crate::diagnose::{Diagnostic, Place, Severity};
use crate::proxmox::ids::VmId;

/// What one host claims.
#[derive(Clone, Debug)]
pub struct Claims {
    host: String,
    cluster: String,
    name: String,
    vmid: Option<VmId>,
    addresses: Vec<(IpAddr, Place)>,
    origins: Origins,
}

/// Reads the claims of a host.
///
/// # Errors
///
/// What is wrong with these variables, or cannot be evaluated.
pub fn claims(vars: &dyn Variables) -> Result<Claims, Vec<Diagnostic>> {
    let mut reader = Reader::new(vars);
    let name = names::vm_name(&mut reader);
    let host = reader
        .required("global_proxmox_api_host", "")
        .and_then(|field| names::endpoint(&mut reader, &field));
    let port = reader
        .get_or_default("global_proxmox_api_port")
        .and_then(|field| reader.int(&field, 1..=65535));
    let vmid = build::vmid(&mut reader);
    let addresses = addresses(&mut reader);
    let origins = reader.origins();
    let mut problems = reader.into_problems();
    problems.retain(|problem| problem.severity == Severity::Error);
    match (name, host, port, vmid) {
        (Some(name), Some(host), Some(port), Some(vmid)) if problems.is_empty() => Ok(Claims {
            host: vars.host().to_owned(),
            cluster: cluster(&host, port),
            name,
            vmid,
            addresses,
            origins,
        }),
        _ => Err(problems),
    }
}

fn cluster(host: &str, port: u64) -> String {
    format!("{}:{port}", host.to_ascii_lowercase())
}

/// The static addresses; what is no address is told when that host is provisioned.
fn addresses(reader: &mut Reader<'_>) -> Vec<(IpAddr, Place)> {
    let mut values: Vec<Value> = Vec::new();
    let cards = reader.get("vms_network");
    let mut cards: BTreeMap<String, Value> = cards
        .as_ref()
        .and_then(Field::map)
        .into_iter()
        .flatten()
        .filter_map(|(card, entry)| match &entry.value.data {
            Data::Map(map) => Some((card.clone(), map.get("address")?.value.clone())),
            _ => None,
        })
        .collect();
    let first = cards.remove("nic0");
    match (reader.get("global_ip_address"), first) {
        (Some(field), _) => values.push(field.value),
        (None, Some(own)) => values.push(own),
        (None, None) if !reader.is_broken("global_ip_address") => {
            let host = reader.vars.host();
            match reader.vars.entry("global_ip_addresses", host) {
                Ok(entry) => values.extend(entry),
                Err(problem) => reader.push(problem),
            }
        }
        (None, None) => {}
    }
    values.extend(reader.get("global_ipv6_address").map(|field| field.value));
    values.extend(cards.into_values());
    let one = |value: &Value| {
        let Data::Str(text) = &value.data else { return None };
        let address = text.trim().split('/').next()?.parse().ok()?;
        Some((address, value.place.clone()))
    };
    values
        .iter()
        .flat_map(|value| match &value.data {
            Data::List(items) => items.iter().filter_map(one).collect(),
            _ => one(value).into_iter().collect::<Vec<_>>(),
        })
        .collect()
}

/// Errors for the machines of a run that claim what another host of the inventory claims.
pub fn check_claims(machines: &[Machine], others: &[Claims]) -> Vec<Diagnostic> {
    let mut names: BTreeMap<(&str, String), &Claims> = BTreeMap::new();
    let mut ids: BTreeMap<(&str, VmId), &Claims> = BTreeMap::new();
    let mut addresses: BTreeMap<IpAddr, (&Claims, &Place)> = BTreeMap::new();
    for other in others {
        names
            .entry((&other.cluster, other.name.to_ascii_lowercase()))
            .or_insert(other);
        if let Some(vmid) = other.vmid {
            ids.entry((&other.cluster, vmid)).or_insert(other);
        }
        for (address, place) in &other.addresses {
            addresses.entry(*address).or_insert((other, place));
        }
    }
    let mut problems = Vec::new();
    for machine in machines {
        let mut tell = |code, variable: &str, what: String, rule: &str, other: &Claims, place: Option<Place>| {
            problems.push(
                Diagnostic::error(code, format!("{} and {} both have {what}", other.host, machine.host))
                    .host(&machine.host)
                    .key(variable)
                    .at(machine.origins.place(variable))
                    .rule(rule)
                    .note(place, format!("{} has it too; it is not in this run", other.host)),
            );
        };
        let cluster = cluster(&machine.cluster.host, machine.cluster.port.into());
        if let Some(other) = names.get(&(cluster.as_str(), machine.name.to_ascii_lowercase())) {
            let place = other.origins.place("vms_name");
            let rule = "a VM's name is its identity on a cluster";
            tell(
                "machine/duplicate-name",
                "vms_name",
                format!("the VM name {}", machine.name),
                rule,
                other,
                place,
            );
        }
        if let Some(vmid) = machine.vmid
            && let Some(other) = ids.get(&(cluster.as_str(), vmid))
        {
            let place = other.origins.place("vms_vmid");
            tell(
                "machine/duplicate-vmid",
                "vms_vmid",
                format!("the VM id {vmid}"),
                "an id is one VM's",
                other,
                place,
            );
        }
        for cidr in machine
            .network
            .interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
        {
            if let Some((other, place)) = addresses.get(&cidr.address) {
                let variable = match machine.origins.place("global_ip_address") {
                    Some(_) => "global_ip_address",
                    None => "global_ip_addresses",
                };
                let what = format!("the address {}", cidr.address);
                let place = Some((*place).clone());
                tell(
                    "machine/duplicate-address",
                    variable,
                    what,
                    "an address is one guest's",
                    other,
                    place,
                );
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::testing::{TestVars, codes, good};

    fn other() -> TestVars {
        good().host("web-1").set("global_ip_address", "10.0.20.32")
    }

    #[test]
    fn what_a_host_outside_the_run_has_is_refused() {
        let numbered = good().set("vms_vmid", 100);
        let listed = |address: &str| {
            other()
                .unset("global_ip_address")
                .set("global_ip_addresses", json!({"web-1": address, "web-9": "10.0.20.31"}))
        };
        let table: Vec<(TestVars, TestVars, &[&str])> = vec![
            (good(), other(), &[]),
            (good(), other().set("vms_name", "WEB-0"), &["machine/duplicate-name"]),
            (
                good(),
                other()
                    .set("vms_name", "web-0")
                    .set("global_proxmox_api_host", "pve9.lab.test"),
                &[],
            ),
            (
                numbered.clone(),
                other().set("vms_vmid", "100"),
                &["machine/duplicate-vmid"],
            ),
            (numbered, other().set("vms_vmid", 101), &[]),
            (
                good(),
                other().set("global_ip_address", "10.0.20.31"),
                &["machine/duplicate-address"],
            ),
            (
                good(),
                other().set("global_ip_address", "10.0.20.31/24"),
                &["machine/duplicate-address"],
            ),
            (good(), listed("10.0.20.31"), &["machine/duplicate-address"]),
            (good(), listed("10.0.20.32"), &[]),
            (
                good(),
                other().set(
                    "vms_network",
                    json!({"nic1": {"address": ["10.0.30.1/24", "10.0.20.31/24"]}}),
                ),
                &["machine/duplicate-address"],
            ),
        ];
        for (ours, theirs, want) in table {
            let machine = ours.build().unwrap().machine;
            let problems = check_claims(&[machine], &[claims(&theirs).unwrap()]);
            assert_eq!(codes(&problems), want, "{theirs:?}");
            for problem in problems {
                assert_eq!(problem.host.as_deref(), Some("web-0"));
                assert!(
                    problem.message.starts_with("web-1 and web-0 both have "),
                    "{}",
                    problem.message
                );
                assert!(problem.notes[0].0.is_some(), "the other's place");
            }
        }
    }

    #[test]
    fn only_these_variables_are_looked_at() {
        assert!(claims(&other().broken("vms_config").unset("vms_os")).is_ok());
        for name in ["vms_name", "global_ip_address", "vms_vmid", "global_proxmox_api_host"] {
            assert_eq!(
                codes(&claims(&other().broken(name)).unwrap_err()),
                ["inventory/undefined"],
                "{name}"
            );
        }
    }
}
