//! `status`: how far each host has come, who holds its lock, and what is unfinished. It only reads.
//!
//! What cannot be read of one host (its record, its lock, its cluster) hides no other: the row tells what is known, the
//! problem stands below the table, and the exit code is 1.

use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;

use super::args::{Global, Status};
use super::doors::Doors;
use super::{Problems, prepare, say};
use crate::diagnose::Exit;
use crate::engine::cluster::Cluster;
use crate::engine::failure::Failure;
use crate::engine::whereabouts::Whereabouts;
use crate::machine::Machine;
use crate::proxmox::cluster::VmResource;
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::Kind;
use crate::proxmox::ids::NodeName;
use crate::proxmox::vm::View;
use crate::settings::{OutputFormat, Overrides, duration};
use crate::state::{Phase, StateDir, StateError, VmKey};
use crate::ui::table::table;

/// What is known of one host.
#[derive(Debug, Serialize)]
struct Row {
    host: String,
    name: String,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vmid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    power: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_by: Option<String>,
    unfinished: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_as: Option<String>,
    record: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Prints the table.
pub async fn run(global: &Global, args: &Status) -> Result<Exit, Problems> {
    let overrides = Overrides {
        output: args.output,
        ..global.overrides()
    };
    let mut loaded = prepare::load(global, &args.sources, overrides)?;
    let hosts = loaded.hosts(args.limit.as_deref())?;
    let embedded = loaded.embedded(&hosts).await?;
    let machines = loaded.machines(&hosts)?;
    let redactor = loaded.secrets(&machines);
    loaded.settle_state_dir(&hosts)?;
    loaded.tell_warnings(&redactor);
    let state = StateDir::peek(&loaded.settings.state_dir.value).map_err(|error| vec![error.diagnostic()])?;
    let mut clusters = Clusters::default();
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for machine in &machines {
        let (mut row, phase, found) = recorded(&state, machine);
        problems.extend(found);
        if !args.offline
            && let Some(phase) = phase
        {
            match clusters.power(machine, &phase).await {
                Ok(Power::On(node, power)) => {
                    row.node = Some(node.to_string());
                    power.clone_into(&mut row.power);
                }
                Ok(Power::Another(node, power, why)) => {
                    row.node = Some(node.to_string());
                    power.clone_into(&mut row.power);
                    row.unfinished = why;
                }
                Ok(Power::Gone) => {
                    "gone".clone_into(&mut row.power);
                    "the VM on record is not in the cluster".clone_into(&mut row.unfinished);
                }
                Ok(Power::Unseen(why)) => {
                    "unseen".clone_into(&mut row.power);
                    row.unfinished = format!("the VM on record is not to be seen: {why}");
                }
                Err(found) => {
                    "unknown".clone_into(&mut row.power);
                    for problem in found {
                        if !problems.contains(&problem) {
                            problems.push(problem);
                        }
                    }
                }
            }
        }
        rows.push(row);
    }
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    match loaded.settings.output.value {
        OutputFormat::Human => say::data(&human(&rows)),
        OutputFormat::Json => {
            for row in &rows {
                let line = serde_json::to_string(row).unwrap_or_default();
                say::data(&format!("{line}\n"));
            }
        }
    }
    say::diagnostics(&problems, &redactor);
    Ok(if problems.is_empty() {
        Exit::Done
    } else {
        Exit::HostFailed
    })
}

/// What record and lock say. One that cannot be read is a fact about its host, told in its row and below the table; it hides
/// no other host.
fn recorded(state: &StateDir, machine: &Machine) -> (Row, Option<Phase>, Problems) {
    let key = VmKey::of(&machine.cluster.host, machine.cluster.port, &machine.name);
    let mut problems = Problems::new();
    let mut read_or = |error: StateError| problems.push(error.diagnostic().host(&machine.host));
    let record = state.read_record(&key).map_err(&mut read_or);
    let holder = state.lock_holder(&key).map_err(&mut read_or);
    let trusted = record.is_ok();
    let record = record.ok().flatten();
    let recorded_as = record
        .as_ref()
        .filter(|record| !record.is_of(&machine.host))
        .map(|record| record.host.clone());
    let phase = record.map(|record| record.phase);
    let row = Row {
        host: machine.host.clone(),
        name: machine.name.clone(),
        phase: match &phase {
            Some(phase) => phase.name(),
            None if trusted => "none",
            None => "untrusted",
        },
        vmid: phase.as_ref().map(|phase| phase.vmid().get()),
        node: phase.as_ref().and_then(Phase::node).map(ToString::to_string),
        power: "-".to_owned(),
        locked_by: holder.unwrap_or_default().map(|state| {
            let who = state
                .owner
                .as_ref()
                .map_or_else(|| "somebody unknown".to_owned(), ToString::to_string);
            let age = state
                .age
                .map_or_else(String::new, |age| format!(", for {}", duration::show_seconds(age)));
            format!("{who}{age}; {}", state.verdict.reason())
        }),
        unfinished: match &recorded_as {
            Some(other) => format!("the record is host {other}'s (ownership/other-host)"),
            None if trusted => unfinished(phase.as_ref()).to_owned(),
            None => "unknown: the record cannot be trusted".to_owned(),
        },
        recorded_as,
        record: state.record_path(&key).display().to_string(),
        problem: problems.first().map(|problem| problem.message.clone()),
    };
    (row, phase, problems)
}

/// What is left to do, in words.
fn unfinished(phase: Option<&Phase>) -> &'static str {
    match phase {
        None => "not provisioned by this state directory",
        Some(Phase::Cloning { .. }) => "the clone was asked for; provision looks whether it is there",
        Some(Phase::Created { .. }) => "hardware, start or cloud-init",
        Some(Phase::Initialized { .. }) => "trust and finalize",
        Some(Phase::Finalizing { .. }) => "finalize: the restart is not proven yet",
        Some(Phase::Complete { .. }) => "nothing",
        Some(Phase::Removing { .. }) => "the removal has begun; remove goes on with it",
    }
}

/// The clusters of the hosts, each listed once.
#[derive(Default)]
struct Clusters {
    doors: Doors,
    listed: Vec<(Arc<Cluster>, Vec<VmResource>)>,
}

impl Clusters {
    /// The VM's node and power. Only a VM that is not in the overview costs a closer look.
    async fn power(&mut self, machine: &Machine, phase: &Phase) -> Result<Power, Problems> {
        let explain = |error| vec![*Failure::from(error).diagnostic];
        let cluster = self.doors.cluster(machine)?;
        let known = self.listed.iter().position(|(known, _)| Arc::ptr_eq(known, &cluster));
        let index = match known {
            Some(index) => index,
            None => {
                let listed = cluster.client.resources_vm().await.map_err(explain)?;
                self.listed.push((Arc::clone(&cluster), listed));
                self.listed.len() - 1
            }
        };
        let listed = &self.listed[index].1;
        if let Some(found) = listed.iter().find(|resource| resource.vmid == phase.vmid()) {
            let seen = tokio::try_join!(
                cluster.client.vm_status(&found.node, found.vmid),
                cluster.client.vm_config(&found.node, found.vmid, View::Current)
            );
            return match seen {
                Ok((status, config)) => {
                    let power = if status.running { "running" } else { "stopped" };
                    Ok(match another(machine, phase, &config) {
                        Some(why) => Power::Another(found.node.clone(), power, why),
                        None => Power::On(found.node.clone(), power),
                    })
                }
                // It is listed, so it is not gone.
                Err(error) if error.kind() == Kind::Missing => Ok(Power::On(found.node.clone(), "moving")),
                Err(error) => Err(explain(error)),
            };
        }
        let listing = cluster.listing(Instant::now()).await.map_err(explain)?;
        let seen = cluster
            .whereabouts(&listing, phase.vmid(), View::Current)
            .await
            .map_err(explain)?;
        Ok(match seen {
            Whereabouts::Gone | Whereabouts::Container(_) => Power::Gone,
            Whereabouts::Vm(listed, _) => Power::On(listed.node, if listed.running { "running" } else { "stopped" }),
            Whereabouts::Moving(listed) => Power::On(listed.node, "moving"),
            Whereabouts::Away(listed) => Power::Unseen(format!("node {} is offline", listed.node)),
            Whereabouts::Unknown(gaps) => Power::Unseen(gaps.join("; ")),
        })
    }
}

/// Where a VM is and how it stands.
enum Power {
    /// On this node; running, stopped or moving.
    On(NodeName, &'static str),
    /// The number on record is another machine's, or the VM has another name; how that is seen.
    Another(NodeName, &'static str, String),
    /// It is surely not there.
    Gone,
    /// It is not to be seen, which is not the same; why.
    Unseen(String),
}

/// Why the VM of the number on record is not the one on record.
fn another(machine: &Machine, phase: &Phase, config: &VmConfig) -> Option<String> {
    let uuid = phase.uuid()?;
    let name = config.name().unwrap_or_default();
    if config.smbios_uuid().as_deref() != Some(uuid) {
        return Some(format!(
            "VM {} is another machine, called {name} (ownership/other-uuid)",
            phase.vmid()
        ));
    }
    (name != machine.name).then(|| format!("the VM is called {name} now (ownership/renamed)"))
}

fn human(rows: &[Row]) -> String {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.host.clone(),
                row.phase.to_owned(),
                dash(row.vmid.map(|vmid| vmid.to_string())),
                dash(row.node.clone()),
                row.power.clone(),
                row.unfinished.clone(),
            ]
        })
        .collect();
    let mut out = table(&["HOST", "PHASE", "VMID", "NODE", "POWER", "UNFINISHED"], &cells);
    for row in rows {
        if let Some(holder) = &row.locked_by {
            out.push_str(&format!("{} is locked by {holder}\n", row.host));
        }
    }
    out
}
