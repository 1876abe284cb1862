//! `inventory`: the inventory as JSON, in the shape of `ansible-inventory`.

use super::args::{Global, Inventory};
use super::{Problems, prepare, say};
use crate::diagnose::{Diagnostic, Exit};

/// Prints the inventory, secrets masked.
pub fn run(global: &Global, args: &Inventory) -> Result<Exit, Problems> {
    let mut loaded = prepare::load(global, &args.sources, global.overrides())?;
    let redactor = loaded.secrets(&[]);
    loaded.tell_warnings(&redactor);
    let mut json = match &args.host {
        Some(host) if !loaded.inventory.has_host(host) => {
            let problem = match loaded.inventory.select(host) {
                Err(problem) => problem,
                Ok(_) => Diagnostic::error("cli/no-such-host", format!("the inventory has no host {host}")),
            };
            return Err(vec![problem]);
        }
        Some(host) => loaded.inventory.host_json(host, true),
        None => loaded.inventory.list_json(true),
    };
    // Vaults are masked there; here what is a secret by its name.
    redactor.mask_json(&mut json);
    let text = serde_json::to_string_pretty(&json).map_err(|error| {
        vec![Diagnostic::error(
            "cli/json",
            format!("the inventory cannot be printed: {error}"),
        )]
    })?;
    say::data(&format!("{text}\n"));
    Ok(Exit::Done)
}
