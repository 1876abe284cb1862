//! `provision`: create and finalize the VMs, or go on where an earlier run stopped; with `--plan`, only tell.

use super::again::Again;
use super::args::{self, Global};
use super::run::{self, Plan, Work};
use super::{Problems, doors, prepare};
use crate::diagnose::Exit;
use crate::engine::host::Mode;
use crate::settings::Overrides;

/// Runs the verb.
pub async fn run(global: &Global, args: &args::Provision) -> Result<Exit, Problems> {
    let overrides = Overrides {
        forks: args.forks,
        clone_limit_per_storage: args.clone_limit_per_storage,
        migrate_limit_per_node: args.migrate_limit_per_node,
        known_hosts: args.known_hosts.clone(),
        templates_dir: args.templates_dir.clone(),
        output: args.output,
        wait_lock: args.wait_lock,
        ..global.overrides()
    };
    let mut loaded = prepare::load_for(global, &args.sources, overrides, !args.plan)?;
    let hosts = loaded.hosts(args.limit.as_deref())?;
    let embedded = loaded.embedded(&hosts).await?;
    let mut machines = loaded.machines(&hosts)?;
    loaded.compare_with_others(&machines)?;
    run::check_overrides(&args.override_protection, &machines)?;
    loaded.authorize(&mut machines, !args.plan)?;
    let redactor = loaded.secrets(&machines);
    loaded.settle_state_dir(&hosts)?;
    loaded.warnings.extend(doors::insecure(&machines));
    loaded.tell_warnings(&redactor);
    let plan = Plan {
        work: Work::Provision,
        mode: if args.plan { Mode::Plan } else { Mode::Apply },
        fail_fast: args.fail_fast,
        again: Again::provision(global, args),
        overrides: args.override_protection.clone(),
    };
    let exit = run::fleet(&loaded, machines, &hosts, redactor, plan).await;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    exit
}
