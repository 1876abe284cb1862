//! What only shows when the hosts of a run are seen together: two of them want to be the same thing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Machine;
use crate::diagnose::Diagnostic;

/// Problems between the machines of one run. Errors stop the run before anything is touched.
pub fn check_run(machines: &[Machine]) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let cluster = |m: &Machine| format!("{}:{}", m.cluster.host.to_ascii_lowercase(), m.cluster.port);
    // DNS, and file names on some shares, do not tell upper from lower case.
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-host",
        "inventory_hostname",
        "host names are one in DNS, whatever their case",
        |m| vec![m.host.to_ascii_lowercase()],
        |key| format!("the host name {key}"),
    );
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-name",
        "vms_name",
        "a VM's name is its identity on a cluster",
        |m| vec![format!("{} {}", cluster(m), m.name.to_ascii_lowercase())],
        |key| format!("the VM name {}", key.rsplit(' ').next().unwrap_or(key)),
    );
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-vmid",
        "vms_vmid",
        "an id is one VM's",
        |m| m.vmid.iter().map(|id| format!("{} {id}", cluster(m))).collect(),
        |key| format!("the VM id {}", key.rsplit(' ').next().unwrap_or(key)),
    );
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-address",
        "global_ip_address",
        "an address is one guest's",
        addresses,
        |key| format!("the address {key}"),
    );
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-fqdn",
        "global_domain_name",
        "a name in DNS is one guest's",
        |m| vec![m.guest.fqdn.to_ascii_lowercase()],
        |key| format!("the name {key}"),
    );
    duplicates(
        machines,
        &mut problems,
        "machine/duplicate-mac",
        "vms_config",
        "a MAC is one card's",
        |m| {
            m.hardware
                .nics
                .iter()
                .filter_map(|nic| nic.mac.as_ref())
                .map(|mac| format!("{} {mac}", cluster(m)))
                .collect()
        },
        |key| format!("the MAC {}", key.rsplit(' ').next().unwrap_or(key)),
    );
    gateways(machines, &mut problems);
    untagged(machines, &mut problems);
    problems
}

fn addresses(machine: &Machine) -> Vec<String> {
    let all = machine
        .network
        .interfaces
        .iter()
        .flat_map(|interface| &interface.addresses);
    all.map(|cidr| cidr.address.to_string()).collect()
}

/// One error for each machine that has a key which an earlier one has.
fn duplicates(
    machines: &[Machine],
    problems: &mut Vec<Diagnostic>,
    code: &'static str,
    variable: &str,
    rule: &str,
    keys: impl Fn(&Machine) -> Vec<String>,
    name: impl Fn(&str) -> String,
) {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (index, machine) in machines.iter().enumerate() {
        for key in keys(machine) {
            let Some(&earlier) = first.get(&key) else {
                first.insert(key, index);
                continue;
            };
            if earlier == index {
                continue;
            }
            let other = &machines[earlier];
            problems.push(
                Diagnostic::error(
                    code,
                    format!("{} and {} both have {}", other.host, machine.host, name(&key)),
                )
                .host(&machine.host)
                .key(variable)
                .at(place(machine, variable))
                .rule(rule)
                .note(place(other, variable), format!("{} has it too", other.host)),
            );
        }
    }
}

fn place(machine: &Machine, variable: &str) -> Option<crate::diagnose::Place> {
    let listed = || {
        machine
            .origins
            .place("global_ip_addresses")
            .filter(|_| variable == "global_ip_address")
    };
    machine.origins.place(variable).or_else(listed)
}

/// A guest that has the address which another one takes for its gateway.
fn gateways(machines: &[Machine], problems: &mut Vec<Diagnostic>) {
    for machine in machines {
        let ours: Vec<IpAddr> = machine
            .network
            .interfaces
            .iter()
            .flat_map(|i| &i.addresses)
            .map(|c| c.address)
            .collect();
        let user = machines.iter().find(|other| {
            let mut gateways = other.network.interfaces.iter().flat_map(|i| &i.gateways);
            other.host != machine.host && gateways.any(|gateway| ours.contains(gateway))
        });
        if let Some(user) = user {
            problems.push(
                Diagnostic::warning(
                    "machine/is-gateway",
                    format!("{} has the address that is {}'s gateway", machine.host, user.host),
                )
                .host(&machine.host)
                .key("global_ip_address")
                .at(place(machine, "global_ip_address"))
                .rule("unless this guest is the router, one of the two addresses is wrong"),
            );
        }
    }
}

/// Untagged cards where the tagged ones of the run follow "VLAN = third octet".
fn untagged(machines: &[Machine], problems: &mut Vec<Diagnostic>) {
    let octet = |machine: &Machine| match machine.address() {
        Some(IpAddr::V4(address)) if address.is_private() => Some(u16::from(address.octets()[2])),
        Some(_) | None => None,
    };
    let tag = |machine: &Machine| {
        machine
            .hardware
            .nics
            .iter()
            .find(|nic| nic.index == 0)
            .and_then(|nic| nic.tag)
    };
    let tagged: Vec<(u16, u16)> = machines.iter().filter_map(|m| Some((tag(m)?, octet(m)?))).collect();
    if tagged.is_empty() || tagged.iter().any(|(tag, octet)| tag != octet) {
        return;
    }
    for machine in machines.iter().filter(|m| tag(m).is_none()) {
        // The first two subnets of a site are usually the untagged ones.
        let Some(octet) = octet(machine).filter(|octet| *octet > 1) else {
            continue;
        };
        let address = machine.address().map(|a| a.to_string()).unwrap_or_default();
        problems.push(
            Diagnostic::warning(
                "machine/vlan-untagged",
                format!(
                    "{} has {address} and no VLAN; the tagged hosts of this run have their third octet as VLAN",
                    machine.host
                ),
            )
            .host(&machine.host)
            .key("vms_config.network.nic0.tag")
            .at(machine
                .origins
                .place("vms_config.network.nic0")
                .or_else(|| machine.origins.place("vms_config.nic0")))
            .rule("in a subnet that is on a VLAN an untagged card reaches nobody")
            .help(format!("tag: {octet}, or tag: 0 everywhere if there are no VLANs")),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::testing::{TestVars, codes, good};

    fn check(vars: &[TestVars]) -> Vec<Diagnostic> {
        let machines: Vec<Machine> = vars.iter().map(|vars| vars.build().unwrap().machine).collect();
        check_run(&machines)
    }

    fn other() -> TestVars {
        good().host("web-1").set("global_ip_address", "10.0.20.32")
    }

    #[test]
    fn two_of_a_kind_are_told() {
        assert_eq!(check(&[good(), other()]), []);
        let table = [
            (
                other().set("global_ip_address", "10.0.20.31"),
                good(),
                vec!["machine/duplicate-address"],
            ),
            (other().set("vms_name", "WEB-0"), good(), vec!["machine/duplicate-name"]),
            (
                other().set("vms_vmid", 100),
                good().set("vms_vmid", "100"),
                vec!["machine/duplicate-vmid"],
            ),
            (
                other().host("Web-0").set("vms_name", "other"),
                good(),
                vec!["machine/duplicate-host", "machine/duplicate-fqdn"],
            ),
            (
                other().host("web-0.lab.test").set("vms_name", "other"),
                good(),
                vec!["machine/duplicate-fqdn"],
            ),
            (
                other().config("nic0", json!({"mac": "BC:24:11:00:00:01"})),
                good().config("nic0", json!({"mac": "bc-24-11-00-00-01"})),
                vec!["machine/duplicate-mac"],
            ),
        ];
        for (one, two, want) in table {
            let problems = check(&[two, one.clone()]);
            assert_eq!(codes(&problems), want);
            assert_eq!(problems[0].exit.code(), 2);
        }
    }

    #[test]
    fn the_second_is_named_with_the_place_of_both() {
        let problems = check(&[good(), other().set("global_ip_address", "10.0.20.31")]);
        assert_eq!(problems[0].message, "web-0 and web-1 both have the address 10.0.20.31");
        assert_eq!(problems[0].host.as_deref(), Some("web-1"));
        assert!(problems[0].place.is_some() && problems[0].notes[0].0.is_some());
    }

    #[test]
    fn the_same_name_on_another_cluster_is_no_duplicate() {
        let there = other()
            .set("vms_name", "web-0")
            .set("global_proxmox_api_host", "pve9.lab.test");
        assert_eq!(check(&[good(), there]), []);
    }

    #[test]
    fn a_guest_with_a_gateways_address_is_told() {
        let router = other()
            .set("global_ip_address", "10.0.20.1")
            .set("global_gateway", "10.0.20.254");
        assert_eq!(codes(&check(&[good(), router])), ["machine/is-gateway"]);
    }

    #[test]
    fn an_untagged_card_among_tagged_ones_is_told() {
        let tagged = other().config("nic0", json!({"tag": 20}));
        assert_eq!(codes(&check(&[good(), tagged.clone()])), ["machine/vlan-untagged"]);
        let no_convention = other().config("nic0", json!({"tag": 7}));
        assert_eq!(check(&[good(), no_convention]), []);
        assert_eq!(check(&[tagged]), []);
    }
}
