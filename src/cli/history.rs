//! `history`: the runs so far, or what one of them did, as far as it came. It reads the journals and nothing else.

use std::path::PathBuf;

use super::args::{self, Global, Sources};
use super::{Problems, prepare, say};
use crate::diagnose::{Diagnostic, Exit};
use crate::settings::{self, OutputFormat, Overrides, Settings};
use crate::state::{RunFile, StateDir};
use crate::ui::history::{lines, summary};
use crate::ui::table::table;

/// Runs the verb.
pub fn run(global: &Global, args: &args::History) -> Result<Exit, Problems> {
    let settings = settings(global, args)?;
    let state = StateDir::peek(&settings.state_dir.value).map_err(|error| vec![error.diagnostic()])?;
    let runs = state.runs().map_err(|error| vec![error.diagnostic()])?;
    let json = settings.output.value == OutputFormat::Json;
    match &args.run {
        Some(wanted) => tell(&state, find(&runs, wanted)?, json),
        None => list(&state, &runs, json),
    }
}

/// The settings; with an inventory also its `vms_state_dir`.
fn settings(global: &Global, args: &args::History) -> Result<Settings, Problems> {
    let overrides = Overrides {
        output: args.output,
        ..global.overrides()
    };
    if args.inventory.is_empty() {
        let working_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        return Settings::load(&settings::Sources {
            overrides,
            env: &prepare::environment(),
            inventories: &[],
            working_dir: &working_dir,
        });
    }
    let sources = Sources {
        inventory: args.inventory.clone(),
        extra_vars: Vec::new(),
        vault_password_file: Vec::new(),
        vault_id: Vec::new(),
        ask_vault_pass: false,
        allow_pipe_lookup: false,
        hash_behaviour: None,
    };
    let mut loaded = prepare::load(global, &sources, overrides)?;
    let hosts = loaded.hosts(None)?;
    loaded.settle_state_dir(&hosts)?;
    Ok(loaded.settings)
}

/// The run of this id, or of the only id that begins or ends like this.
fn find<'r>(runs: &'r [RunFile], wanted: &str) -> Result<&'r RunFile, Problems> {
    let fits = |run: &&RunFile| {
        let id = run.run.to_string();
        id.starts_with(wanted) || id.ends_with(wanted)
    };
    let mut found = runs.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(run), None) => Ok(run),
        (None, _) => Err(vec![
            Diagnostic::error("history/no-such-run", format!("there is no run {wanted}"))
                .help("`vmwright history` lists all runs"),
        ]),
        (Some(_), Some(_)) => Err(vec![
            Diagnostic::error("history/ambiguous", format!("{wanted} fits more than one run"))
                .help("give more of the id: `vmwright history` lists all runs"),
        ]),
    }
}

fn list(state: &StateDir, runs: &[RunFile], json: bool) -> Result<Exit, Problems> {
    let mut rows = Vec::new();
    for run in runs {
        let log = state.read_run(run.run).map_err(|error| vec![error.diagnostic()])?;
        let found = summary(&log.events);
        let begun = run.begun.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        if json {
            let row = serde_json::json!({
                "run": run.run, "begun": run.begun, "command": found.command, "hosts": found.hosts, "exit": found.exit,
                "outcomes": found.outcomes, "torn": log.torn,
            });
            say::data(&format!("{row}\n"));
        }
        let end = match found.exit {
            Some(code) => format!("exit code {code}"),
            None => "no end written: cut off, or still running".to_owned(),
        };
        rows.push(vec![
            run.run.to_string(),
            begun,
            found.command,
            found.hosts.join(","),
            end,
        ]);
    }
    if !json {
        say::data(&table(&["RUN", "BEGUN", "COMMAND", "HOSTS", "END"], &rows));
    }
    Ok(Exit::Done)
}

fn tell(state: &StateDir, run: &RunFile, json: bool) -> Result<Exit, Problems> {
    let log = state.read_run(run.run).map_err(|error| vec![error.diagnostic()])?;
    if json {
        for event in &log.events {
            say::data(&format!("{event}\n"));
        }
    } else {
        let mut out = format!(
            "run {}, begun {}\n",
            run.run,
            run.begun.strftime("%Y-%m-%d %H:%M:%S UTC")
        );
        for line in log.events.iter().flat_map(lines) {
            out.push_str(&line);
            out.push('\n');
        }
        say::data(&out);
    }
    if log.torn {
        say::talk("the last line was torn by the run's death and is left out");
    }
    if !log.damaged.is_empty() {
        let numbers: Vec<String> = log.damaged.iter().map(ToString::to_string).collect();
        say::talk(&format!(
            "lines that cannot be read were left out: {}",
            numbers.join(", ")
        ));
    }
    if summary(&log.events).exit.is_none() {
        say::talk("no end was written: the run was cut off, or still runs");
    }
    Ok(Exit::Done)
}
