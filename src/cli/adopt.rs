//! `adopt`: takes an existing VM in. It shows the VM and how it differs from the inventory, wants its name, reads Proxmox
//! only, and writes the record.

use std::collections::BTreeSet;

use super::again::Again;
use super::args::{self, Global};
use super::confirm::{Question, confirm};
use super::one::{self, One};
use super::{Problems, say};
use crate::diagnose::{Diagnostic, Exit};
use crate::engine::failure::Failure;
use crate::proxmox::error::ApiError;
use crate::proxmox::vm::View;
use crate::stage::adopt::{Adoption, adoption, candidate, next, renamed, unclaimed};
use crate::state::Record;

/// Runs the verb.
pub async fn run(global: &Global, args: &args::Adopt) -> Result<Exit, Problems> {
    let one = one::open(global, &args.sources, &args.host).await?;
    let done = adopt(&one, global, args).await;
    one.close().await;
    done
}

async fn adopt(one: &One, global: &Global, args: &args::Adopt) -> Result<Exit, Problems> {
    let guard = one.lock("adopt")?;
    let machine = &one.machine;
    let host = |diagnostic: Box<Diagnostic>| vec![diagnostic.host(&machine.host)];
    if !one.duplicates.is_empty() {
        return Err(one.duplicates.clone());
    }
    let records = records(one)?;
    // The record of a host that was renamed can only be told from another's once the VM was looked at.
    let may_be_renamed = records
        .iter()
        .any(|record| record.key == one.key && record.phase.vmid() == args.vmid && !record.is_of(&machine.host));
    if !may_be_renamed {
        unclaimed(&machine.name, args.vmid, &cluster_of(one), &records).map_err(host)?;
    }
    let listing = one
        .cluster
        .listing(tokio::time::Instant::now())
        .await
        .map_err(explain)?;
    let listed = candidate(&machine.name, args.vmid, &listing).map_err(host)?;
    let client = &one.cluster.client;
    let config = client
        .vm_config(&listed.node, listed.vmid, View::Current)
        .await
        .map_err(explain)?;
    let status = client.vm_status(&listed.node, listed.vmid).await.map_err(explain)?;
    let mut addresses = BTreeSet::new();
    if status.running
        && config.agent_enabled()
        && let Ok(interfaces) = client.agent_interfaces(&listed.node, listed.vmid).await
    {
        // What the agent tells of the guest; it is noted, not needed.
        addresses = interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
            .filter(|address| !address.address.is_loopback() && !is_link_local(address.address))
            .map(|address| format!("{}/{}", address.address, address.prefix))
            .collect();
    }
    let before = renamed(machine, args.vmid, config.smbios_uuid().as_deref(), &records);
    if before.is_none() {
        unclaimed(&machine.name, args.vmid, &cluster_of(one), &records).map_err(host)?;
    }
    let mut found = adoption(machine, listed, &config, status.running, &addresses).map_err(host)?;
    if let Some(record) = before {
        found.phase = record.phase.clone();
    }
    say::data(&shown(one, &found, status.running, before));
    confirm(&Question {
        done: "adopted",
        names: std::slice::from_ref(&machine.name),
        given: args.confirm.as_slice(),
        rule: "adopting makes this VM vmwright's: provision and remove will work on it; nothing was written",
        command: Again::one("adopt", &args.host, global, &args.sources).with("--vmid", &args.vmid.to_string()),
    })?;
    let record = match before {
        Some(record) => record.of_host(machine.host.clone()),
        None => Record::new(
            &machine.cluster.host,
            machine.cluster.port,
            machine.host.clone(),
            machine.name.clone(),
            found.phase,
        ),
    };
    one.state
        .write_record(&guard, &record)
        .map_err(|error| vec![error.diagnostic()])?;
    say::talk(&format!(
        "{} is adopted; the record is {}",
        machine.name,
        one.state.record_path(&one.key).display()
    ));
    if let Some(record) = before {
        say::talk(&format!(
            "DNS and known_hosts entries of {} stay as they are: remove them by hand if nobody needs them",
            record.host
        ));
    }
    guard.release().map_err(|error| vec![error.diagnostic()])?;
    Ok(Exit::Done)
}

fn is_link_local(address: std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(v4) => v4.is_link_local(),
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn explain(error: ApiError) -> Problems {
    vec![*Failure::from(error).diagnostic]
}

/// `host:port`, as records name the cluster.
fn cluster_of(one: &One) -> String {
    let cluster = &one.machine.cluster;
    format!("{}:{}", cluster.host.to_lowercase(), cluster.port)
}

/// All records that can be read; one that cannot may be anybody's, so only that of this very VM stops the adoption.
fn records(one: &One) -> Result<Vec<Record>, Problems> {
    let state = &one.state;
    let problem = |error: crate::state::StateError| vec![error.diagnostic().host(&one.machine.host)];
    let mut found: Vec<Record> = state.read_record(&one.key).map_err(problem)?.into_iter().collect();
    for key in state.records().map_err(problem)? {
        if let Ok(Some(record)) = state.read_record(&key) {
            found.push(record);
        }
    }
    Ok(found)
}

/// The VM as it is, and how it differs.
fn shown(one: &One, found: &Adoption, running: bool, before: Option<&Record>) -> String {
    let machine = &one.machine;
    let mut out = format!("VM {} on {}\n", found.vm.vmid, found.vm.node);
    let mut line = |label: &str, text: &str| out.push_str(&format!("  {label:<12}  {text}\n"));
    line("name", &machine.name);
    line("host", &machine.host);
    if let Some(record) = before {
        line(
            "on record as",
            &format!("host {}, {}", record.host, record.phase.name()),
        );
    }
    line("SMBIOS UUID", &found.vm.uuid);
    line("power", if running { "running" } else { "stopped" });
    let drives = if found.drives.is_empty() {
        "no drive".to_owned()
    } else {
        format!("drive {}", found.drives.join(", "))
    };
    line("cloud-init", &drives);
    line("taken in as", next(&found.phase));
    if found.differences.is_empty() {
        line("differs in", "nothing that the inventory declares");
    }
    for change in &found.differences {
        line("differs in", &change.to_string());
    }
    out
}
