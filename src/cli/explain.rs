//! `explain`: where the variables of a host come from, and how their templates became values.
//!
//! ```text
//! HOST      groups in their order, then every variable: value, type, place, how many definitions it overrides
//! HOST KEY  value, every definition in order of precedence, the steps of its templates, vmwright's own default
//! ```
//!
//! What is told is one JSON document ([`report`]); the text for people is made of the same ([`human`]). So both are
//! masked by the same rules, `masks`, before either is printed.

mod human;
mod masks;
mod report;

use super::args::{Explain, Global};
use super::{Problems, prepare, say};
use crate::diagnose::{Diagnostic, Exit, nearest};
use crate::inventory::Inventory;
use crate::inventory::explain::KeyPath;
use crate::machine::schema;
use crate::settings::OutputFormat;

/// Explains a host or one of its variables.
pub fn run(global: &Global, args: &Explain) -> Result<Exit, Problems> {
    let mut loaded = prepare::load(global, &args.sources, global.overrides())?;
    let host = known_host(&loaded.inventory, &args.host).map_err(|problem| vec![problem])?;
    let masks = masks::Masks::of(&loaded.inventory, host, loaded.secrets(&[]));
    loaded.tell_warnings(masks.redactor());
    let json = args.output == Some(OutputFormat::Json);
    let (mut told, problems) = match &args.key {
        None => report::host(&loaded.inventory, host, &masks),
        Some(key) => {
            let path = path(&loaded.inventory, host, key).map_err(|problem| vec![problem])?;
            report::key(&loaded.inventory, host, &path, &masks).map_err(|problem| vec![*problem])?
        }
    };
    masks.redactor().mask_json(&mut told);
    let text = if json {
        let text = serde_json::to_string_pretty(&told).map_err(|error| {
            let message = format!("what is to be told cannot be printed: {error}");
            vec![Diagnostic::error("cli/json", message)]
        })?;
        format!("{text}\n")
    } else if args.key.is_none() {
        human::host(&told)
    } else {
        human::key(&told)
    };
    say::data(&text);
    say::diagnostics(&problems, masks.redactor());
    // Of all variables one that is broken harms only its users; of one that was asked for it is the answer.
    Ok(if args.key.is_some() && !problems.is_empty() {
        Exit::Usage
    } else {
        Exit::Done
    })
}

fn known_host<'a>(inventory: &Inventory, host: &'a str) -> Result<&'a str, Diagnostic> {
    if inventory.has_host(host) {
        return Ok(host);
    }
    let problem = Diagnostic::error("cli/no-such-host", format!("the inventory has no host {host}"));
    Err(match nearest(host, inventory.hosts()) {
        Some(near) => problem.help(format!("did you mean {near}?")),
        None => problem.help("explain takes one host: vmwright inventory --graph shows all"),
    })
}

/// The path that is meant: a variable whose name has dots in it is one, too.
fn path(inventory: &Inventory, host: &str, key: &str) -> Result<KeyPath, Diagnostic> {
    if inventory.scope(host).raw(key).is_some() {
        return Ok(KeyPath {
            name: key.to_owned(),
            inside: Vec::new(),
        });
    }
    let path = KeyPath::parse(key).map_err(|why| {
        Diagnostic::error(
            "cli/explain-key",
            format!("`{key}` is not the path of a variable: {why}"),
        )
        .rule("a variable, or a place inside one: vms_config.nic0.bridge, global_dns_servers[1]")
        .help("quote it for the shell")
    })?;
    Ok(path)
}

/// The default of vmwright for a path, where it has such a variable.
fn own(path: &KeyPath) -> Option<&'static schema::Variable> {
    schema::variable(&path.to_string())
}
