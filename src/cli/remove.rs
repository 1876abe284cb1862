//! `remove`: take VMs away with everything that belongs to them; with `--plan`, only tell.

use super::again::Again;
use super::args::{self, Global};
use super::confirm::{Question, confirm};
use super::prepare::Loaded;
use super::run::{self, Plan, Work};
use super::{Problems, doors, prepare};
use crate::diagnose::{Diagnostic, Exit};
use crate::engine::host::Mode;
use crate::settings::Overrides;

/// The group whose hosts may be removed.
const REMOVABLE: &str = "removable";

/// Runs the verb.
pub async fn run(global: &Global, args: &args::Remove) -> Result<Exit, Problems> {
    let overrides = Overrides {
        forks: args.forks,
        known_hosts: args.known_hosts.clone(),
        output: args.output,
        wait_lock: args.wait_lock,
        ..global.overrides()
    };
    let mut loaded = prepare::load(global, &args.sources, overrides)?;
    let hosts = hosts(&loaded, args)?;
    let embedded = loaded.embedded(&hosts).await?;
    let exit = remove(&mut loaded, &hosts, Again::remove(global, args), args).await;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    exit
}

async fn remove(loaded: &mut Loaded, hosts: &[String], again: Again, args: &args::Remove) -> Result<Exit, Problems> {
    let machines = loaded.machines(hosts)?;
    loaded.compare_with_others(&machines)?;
    run::check_overrides(&args.override_protection, &machines)?;
    if !args.plan {
        let names: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        confirm(&Question {
            done: "removed",
            names: &names,
            given: &args.confirm,
            rule: "a removed VM does not come back: each is confirmed by its own name (vms_name); nothing was touched",
            command: match &args.limit {
                Some(limit) => again.clone().with("--limit", limit),
                None => again.clone().flag("--all"),
            },
        })?;
    }
    let redactor = loaded.secrets(&machines);
    loaded.settle_state_dir(hosts)?;
    loaded.warnings.extend(doors::insecure(&machines));
    loaded.tell_warnings(&redactor);
    let plan = Plan {
        work: Work::Remove {
            with_snapshots: args.with_snapshots,
        },
        mode: if args.plan { Mode::Plan } else { Mode::Apply },
        fail_fast: args.fail_fast,
        again,
        overrides: args.override_protection.clone(),
    };
    run::fleet(loaded, machines, hosts, redactor, plan).await
}

/// The hosts to remove. One that is not in group `removable` is refused, and with it the whole command.
fn hosts(loaded: &Loaded, args: &args::Remove) -> Result<Vec<String>, Problems> {
    let removable = |host: &String| loaded.inventory.in_group(host, REMOVABLE);
    let hosts = loaded.hosts(args.limit.as_deref())?;
    if args.limit.is_none() {
        let hosts: Vec<String> = hosts.into_iter().filter(removable).collect();
        if hosts.is_empty() {
            return Err(vec![
                Diagnostic::error(
                    "remove/not-removable",
                    format!("the inventory has no virtual machines in group {REMOVABLE}"),
                )
                .rule(format!("only hosts of group {REMOVABLE} are removed"))
                .exit(Exit::Refused),
            ]);
        }
        return Ok(hosts);
    }
    let others: Vec<&str> = hosts
        .iter()
        .filter(|host| !removable(host))
        .map(String::as_str)
        .collect();
    if others.is_empty() {
        return Ok(hosts);
    }
    Err(vec![
        Diagnostic::error(
            "remove/not-removable",
            format!("not in group {REMOVABLE}: {}", others.join(", ")),
        )
        .rule(format!(
            "only hosts of group {REMOVABLE} are removed; nothing was touched"
        ))
        .help(format!(
            "put the host into group {REMOVABLE} if it may go, or choose others with --limit"
        ))
        .exit(Exit::Refused),
    ])
}
