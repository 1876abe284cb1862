//! `inventory`: the inventory as JSON, YAML, TOML or a graph, in the shapes of `ansible-inventory`.

mod toml;

use std::collections::HashSet;

use super::args::{Global, Inventory};
use super::{Problems, prepare, say};
use serde::Serialize;
use serde_json::Value;

use crate::diagnose::{Diagnostic, Exit, nearest};
use crate::inventory::Inventory as Hosts;
use crate::inventory::export::{self, Shape, Shown};
use crate::inventory::value::{Data, Value as Raw};
use crate::machine::schema;
use crate::secret::{MASK, Secret};

/// Prints the inventory, secrets masked.
pub fn run(global: &Global, args: &Inventory) -> Result<Exit, Problems> {
    let mut loaded = prepare::load(global, &args.sources, global.overrides())?;
    let redactor = loaded.secrets(&[]).and(in_the_clear(&loaded.inventory));
    loaded.tell_warnings(&redactor);
    let one = |problem: Diagnostic| vec![problem];
    let text = if args.graph {
        let text = graph(&loaded.inventory, args).map_err(one)?;
        redactor.mask(&text).into_owned()
    } else {
        let masked = |json: &mut Value| {
            hide_named(json);
            // And what they come from: a variable that a template takes the secret from.
            redactor.mask_json(json);
        };
        if args.host.is_some() || args.yaml || args.toml {
            let mut json = data(&loaded.inventory, args).map_err(one)?;
            masked(&mut json);
            // Not before: their marks tell texts from templates.
            export::drop_unsafe(&mut json);
            print(&json, args).map_err(one)?
        } else {
            let shape = shape(&loaded.inventory, args).map_err(one)?;
            pretty(&loaded.inventory.list(&shape, &masked)).map_err(one)?
        }
    };
    say::data(&text);
    Ok(Exit::Done)
}

/// What is asked for, as data.
fn data(inventory: &Hosts, args: &Inventory) -> Result<Value, Diagnostic> {
    if let Some(host) = &args.host {
        if !inventory.has_host(host) {
            return Err(match inventory.select(host) {
                Err(problem) => problem,
                Ok(_) => Diagnostic::error("cli/no-such-host", format!("the inventory has no host {host}")),
            });
        }
        return Ok(if args.export {
            inventory.own_vars_json(host, true)
        } else {
            inventory.host_json(host, true)
        });
    }
    let shape = shape(inventory, args)?;
    Ok(if args.yaml {
        inventory.tree(&shape)
    } else {
        inventory.tables(&shape)
    })
}

fn shape(inventory: &Hosts, args: &Inventory) -> Result<Shape, Diagnostic> {
    Ok(Shape {
        masked: true,
        export: args.export,
        limit: args.limit.as_deref().map(|limit| inventory.select(limit)).transpose()?,
    })
}

fn print(json: &Value, args: &Inventory) -> Result<String, Diagnostic> {
    if args.yaml {
        return Ok(export::to_yaml(json));
    }
    if args.toml {
        return toml::document(json);
    }
    pretty(json)
}

fn pretty(json: &impl Serialize) -> Result<String, Diagnostic> {
    match serde_json::to_string_pretty(json) {
        Ok(text) => Ok(format!("{text}\n")),
        Err(error) => Err(Diagnostic::error(
            "cli/json",
            format!("the inventory cannot be printed: {error}"),
        )),
    }
}

fn graph(inventory: &Hosts, args: &Inventory) -> Result<String, Diagnostic> {
    let group = args.group.as_deref().unwrap_or("all");
    let shown: Shown<'_> = &|name, value| without_secrets(name, value);
    let text = inventory.graph(group, args.export, args.vars.then_some(shown));
    text.ok_or_else(|| {
        let problem = Diagnostic::error("cli/no-such-group", format!("the inventory has no group {group}"));
        match nearest(group, inventory.groups()) {
            Some(near) => problem.help(format!("did you mean {near}?")),
            None => problem.help("without a group the graph begins at all: vmwright inventory --graph"),
        }
    })
}

/// A value as it is written, with a mask in the place of each secret.
fn without_secrets(name: &str, value: &Raw) -> Raw {
    let mut shown = value.clone();
    let mask = match &mut shown.data {
        Data::Map(map) => {
            for (key, entry) in map {
                entry.value = without_secrets(key, &entry.value);
            }
            false
        }
        Data::List(list) => {
            for item in list {
                *item = without_secrets("", item);
            }
            false
        }
        Data::Str(text) => value.secret || is_secret(name) && !text.is_empty() && !is_template(text),
        Data::Unsafe(_) => value.secret || is_secret(name),
        Data::Vault(_) => true,
        Data::Int(_) | Data::Float(_) => value.secret || is_secret(name),
        Data::Bool(_) | Data::Null => value.secret,
    };
    if mask {
        shown.data = Data::Str(MASK.to_owned());
    }
    shown
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

/// What the inventory holds in the clear: the values of secret variables. A template is no secret: it tells where the
/// value comes from.
fn in_the_clear(inventory: &Hosts) -> Vec<Secret> {
    let mut secrets = HashSet::new();
    for host in inventory.hosts() {
        let scope = inventory.scope(host);
        for name in scope.names().into_iter().filter(|name| is_secret(name)) {
            match scope.raw(name).map(|raw| &raw.data) {
                Some(Data::Str(text)) if is_template(text) => {}
                Some(Data::Str(text) | Data::Unsafe(text)) if !secrets.contains(text) => {
                    secrets.insert(text.clone());
                }
                _ => {}
            }
        }
    }
    secrets.into_iter().map(Secret::new).collect()
}

/// Masks values by their names, also those that are too short to be looked for in other texts.
fn hide_named(json: &mut Value) {
    match json {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::Object(tagged) if is_secret(name) && tagged.contains_key("__ansible_unsafe") => {
                        *value = Value::from(MASK);
                    }
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

/// Whether a text is a template.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
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
            "ansible_password": {"__ansible_unsafe": "a{{b"},
        }}}});
        hide_named(&mut json);
        assert_eq!(
            json["_meta"]["hostvars"]["web-0"],
            json!({
                "pihole_password": MASK, "ansible_become_pass": MASK, "global_timezone": "UTC",
                "global_proxmox_api_token": "{{ vault_token }}", "list": [{"pihole_password": MASK}],
                "ansible_password": MASK,
            })
        );
    }
}
