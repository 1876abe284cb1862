//! `forget`: drops the record of a VM that is gone. It only reads Proxmox.

use tokio::time::Instant;

use super::again::Again;
use super::args::{self, Global};
use super::confirm::{Question, confirm};
use super::one::{self, One};
use super::{Problems, say};
use crate::diagnose::Exit;
use crate::engine::failure::Failure;
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::error::ApiError;
use crate::proxmox::vm::View;
use crate::stage::forget::judge;
use crate::stage::remove::standing;
use crate::state::Phase;

/// Runs the verb.
pub async fn run(global: &Global, args: &args::Forget) -> Result<Exit, Problems> {
    let one = one::open(global, &args.sources, &args.host).await?;
    let done = forget(&one, global, args).await;
    one.close().await;
    done
}

async fn forget(one: &One, global: &Global, args: &args::Forget) -> Result<Exit, Problems> {
    let guard = one.lock("forget")?;
    let machine = &one.machine;
    let record = one
        .state
        .read_record(&one.key)
        .map_err(|error| vec![error.diagnostic().host(&machine.host)])?;
    let Some(record) = record else {
        say::talk(&format!("there is no record of {}", machine.name));
        return Ok(Exit::Done);
    };
    let clone_runs = clone_runs(one, &record.phase).await.map_err(explain)?;
    let may_come = clone_runs || standing::on_its_way(&record).is_some();
    let vmid = record.phase.vmid();
    let listing = one.cluster.listing(Instant::now()).await.map_err(explain)?;
    let seen = one
        .cluster
        .whereabouts(&listing, vmid, View::Current)
        .await
        .map_err(explain)?;
    let (config, gaps) = match seen {
        Whereabouts::Vm(_, config) => (Some(config), listing.gaps),
        Whereabouts::Container(_) | Whereabouts::Gone => (None, listing.gaps),
        Whereabouts::Away(listed) => (None, vec![format!("node {} is offline", listed.node)]),
        Whereabouts::Moving(listed) => (None, vec![format!("VM {vmid} is being moved ({})", listed.node)]),
        Whereabouts::Unknown(gaps) => (None, gaps),
    };
    judge(&record, &gaps, config.as_ref(), may_come).map_err(|problem| vec![problem.host(&machine.host)])?;
    let node = record
        .phase
        .node()
        .map_or_else(|| "a node that is not known".to_owned(), ToString::to_string);
    say::data(&format!(
        "{} was VM {vmid} on {node} ({}); there is no such VM any more\n",
        machine.name,
        record.phase.name()
    ));
    confirm(&Question {
        done: "forgotten",
        names: std::slice::from_ref(&machine.name),
        given: args.confirm.as_slice(),
        rule: "only the record goes: DNS, snippets and known_hosts entries stay (`vmwright remove` takes them away too)",
        command: Again::one("forget", &args.host, global, &args.sources),
    })?;
    one.state
        .delete_record(&guard)
        .map_err(|error| vec![error.diagnostic()])?;
    say::talk(&format!("the record of {} is dropped", machine.name));
    guard.release().map_err(|error| vec![error.diagnostic()])?;
    Ok(Exit::Done)
}

/// Whether the clone that was intended may still be made.
async fn clone_runs(one: &One, phase: &Phase) -> Result<bool, ApiError> {
    let Phase::Cloning {
        template,
        template_node,
        upid,
        ..
    } = phase
    else {
        return Ok(false);
    };
    standing::clone_runs(&one.cluster.client, *template, template_node, upid.as_ref()).await
}

fn explain(error: ApiError) -> Problems {
    vec![*Failure::from(error).diagnostic]
}
