//! `inventory`: the inventory as JSON, in the shape of `ansible-inventory`.

use super::args::{Global, Inventory};
use super::{Problems, prepare, say};
use serde_json::Value;

use crate::diagnose::{Diagnostic, Exit};
use crate::inventory::Inventory as Hosts;
use crate::machine::schema;
use crate::secret::{MASK, Redactor, Secret};

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
    hide(&loaded.inventory, &mut json);
    // And what they come from: a variable that a template takes the secret from.
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

/// Ansible's own variables with a password.
const PASSWORDS: [&str; 5] = [
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_become_pass",
    "ansible_become_password",
];

/// Whether the value of a variable may not be shown, wherever it came from.
pub(super) fn is_secret(name: &str) -> bool {
    PASSWORDS.contains(&name) || schema::variable(name).is_some_and(|variable| variable.secret)
}

/// Masks what the inventory holds in the clear: the values of secret variables, and the same texts anywhere else. A
/// template is no secret: it tells where the value comes from.
fn hide(inventory: &Hosts, json: &mut Value) {
    let mut secrets = Vec::new();
    for host in inventory.hosts() {
        if let Value::Object(variables) = inventory.host_json(host, false) {
            let clear = variables.into_iter().filter(|(name, _)| is_secret(name));
            secrets.extend(clear.filter_map(|(_, value)| match value {
                Value::String(text) if !is_template(&text) => Some(Secret::new(text)),
                _ => None,
            }));
        }
    }
    Redactor::new(secrets).mask_json(json);
    hide_named(json);
}

/// Masks values by their names, also those that are too short to be looked for in other texts.
fn hide_named(json: &mut Value) {
    match json {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::Object(_) | Value::Array(_) => hide_named(value),
                    Value::String(text) if is_template(text) || text.is_empty() => {}
                    Value::String(_) | Value::Number(_) if is_secret(name) => *value = Value::from(MASK),
                    Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hide_named),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_variables_are_masked_by_name_and_templates_are_not() {
        let mut json = json!({"_meta": {"hostvars": {"web-0": {
            "pihole_password": "abc", "ansible_become_pass": 4711, "global_timezone": "UTC",
            "global_proxmox_api_token": "{{ vault_token }}", "list": [{"pihole_password": "def"}],
        }}}});
        hide_named(&mut json);
        assert_eq!(
            json["_meta"]["hostvars"]["web-0"],
            json!({
                "pihole_password": MASK, "ansible_become_pass": MASK, "global_timezone": "UTC",
                "global_proxmox_api_token": "{{ vault_token }}", "list": [{"pihole_password": MASK}],
            })
        );
    }
}
