//! What may not be shown: values from vaults, secret variables by their names, and what templates made of either.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::cli::inventory::{is_secret, is_template};
use crate::inventory::Inventory;
use crate::inventory::explain::KeyPath;
use crate::inventory::trace::{Step, What};
use crate::inventory::value::{Data, Value};
use crate::machine::schema;
use crate::secret::{MASK, Redactor, Secret};

/// The rules of one host.
pub(super) struct Masks {
    redactor: Redactor,
    /// The labels of templates that use a secret, directly or not.
    tainted: HashSet<String>,
}

impl Masks {
    /// Looks at all variables of a host: `known` are the secrets that are known already.
    pub fn of(inventory: &Inventory, host: &str, known: Redactor) -> Self {
        let mut masks = Self {
            redactor: Redactor::default(),
            tainted: HashSet::new(),
        };
        let scope = inventory.scope(host);
        let mut values = Vec::new();
        for (name, definitions) in inventory.definitions(host) {
            let name = KeyPath {
                name: name.to_string(),
                inside: Vec::new(),
            };
            let explained = scope.explain(&name);
            masks.learn(&explained.steps);
            values.extend(explained.value.ok().flatten().map(|value| (name.name.clone(), value)));
            let raw = definitions.iter().map(|definition| (*definition.value).clone());
            values.extend(raw.map(|value| (name.name.clone(), value)));
        }
        let mut secrets = Vec::new();
        for (name, value) in &values {
            masks.collect(name, value, &mut secrets);
        }
        masks.redactor = known.and(secrets);
        masks
    }

    /// Masks known secrets in any text.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Learns which templates use secrets.
    fn learn(&mut self, steps: &[Step]) {
        // A step's own steps stand behind it; one that is met again may stand before it. Until nothing changes.
        loop {
            let before = self.tainted.len();
            for step in steps.iter().rev() {
                let uses = || {
                    step.used
                        .iter()
                        .any(|used| self.is_secret_use(&used.label, &used.what, steps))
                };
                let made = matches!(&step.result, Ok(Some(value)) if has_secret(value));
                if made || step.secret_text || uses() {
                    self.tainted.insert(step.label.clone());
                }
            }
            if self.tainted.len() == before {
                return;
            }
        }
    }

    fn is_secret_use(&self, label: &str, what: &What, steps: &[Step]) -> bool {
        is_secret_path(label)
            || match what {
                What::Value(value) => has_secret(value) || self.has_secret_name(label, value),
                What::Step(step) => steps.get(*step).is_some_and(|step| self.tainted.contains(&step.label)),
                What::Magic(_) | What::Missing => false,
            }
    }

    /// Whether something below a path has the name of a secret, or is made of one.
    fn has_secret_name(&self, label: &str, value: &Value) -> bool {
        let below = |part: String, value: &Value| {
            let inner = format!("{label}{part}");
            is_secret_path(&inner) || self.tainted.contains(&inner) || self.has_secret_name(&inner, value)
        };
        match &value.data {
            Data::Map(map) => map.iter().any(|(key, entry)| below(format!(".{key}"), &entry.value)),
            Data::List(list) => list.iter().enumerate().any(|(i, item)| below(format!("[{i}]"), item)),
            _ => false,
        }
    }

    /// Whether the value at a path may not be shown at all.
    pub fn hides(&self, label: &str) -> bool {
        is_secret_path(label) || self.tainted.contains(label)
    }

    /// A value for printing. `raw` ones may hold templates, whose text tells where the secret comes from and is no secret.
    pub fn show(&self, label: &str, value: &Value, raw: bool) -> Json {
        self.shown(label, value, raw, false)
    }

    fn shown(&self, label: &str, value: &Value, raw: bool, hidden: bool) -> Json {
        let template = raw && matches!(&value.data, Data::Str(text) if is_template(text));
        let hidden = hidden || if raw { is_secret_path(label) } else { self.hides(label) };
        match &value.data {
            Data::Map(map) => {
                let entries = map.iter().map(|(key, entry)| {
                    let inner = format!("{label}.{key}");
                    (key.clone(), self.shown(&inner, &entry.value, raw, hidden))
                });
                Json::Object(entries.collect::<Map<_, _>>())
            }
            Data::List(list) => {
                let items = list.iter().enumerate();
                items
                    .map(|(i, item)| self.shown(&format!("{label}[{i}]"), item, raw, hidden))
                    .collect()
            }
            Data::Vault(_) => Json::from(MASK),
            _ if value.secret || hidden && !template && !is_empty(value) => Json::from(MASK),
            Data::Unsafe(text) => Json::from(text.as_str()),
            _ => value.to_json(),
        }
    }

    /// The secret texts of a value, for the redactor.
    fn collect(&self, label: &str, value: &Value, into: &mut Vec<Secret>) {
        match &value.data {
            Data::Map(map) => {
                for (key, entry) in map {
                    self.collect(&format!("{label}.{key}"), &entry.value, into);
                }
            }
            Data::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    self.collect(&format!("{label}[{i}]"), item, into);
                }
            }
            Data::Str(text) if !is_template(text) && (value.secret || self.hides(label)) => {
                into.push(Secret::new(text));
            }
            Data::Unsafe(text) if value.secret || self.hides(label) => into.push(Secret::new(text)),
            Data::Int(number) if value.secret || self.hides(label) => into.push(Secret::new(number.to_string())),
            _ => {}
        }
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(&value.data, Data::Null) || value.as_str().is_some_and(str::is_empty)
}

/// Whether there is a secret in a value by its mark.
fn has_secret(value: &Value) -> bool {
    value.secret
        || match &value.data {
            Data::List(list) => list.iter().any(has_secret),
            Data::Map(map) => map.values().any(|entry| has_secret(&entry.value)),
            Data::Vault(_) => true,
            _ => false,
        }
}

/// Whether a part of the path is the name of a secret: `x.pihole_password`, `hostvars['a'].ansible_password`.
pub(super) fn is_secret_path(label: &str) -> bool {
    if is_secret(label) {
        return true;
    }
    let parts = || label.split(['.', '[', ']', '\'']).filter(|part| !part.is_empty());
    if parts().any(is_secret) {
        return true;
    }
    let mut path = String::new();
    parts().any(|part| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(part);
        schema::variable(&path).is_some_and(|variable| variable.secret)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_secret_where_a_part_of_it_is() {
        for label in [
            "pihole_password",
            "x.pihole_password",
            "hostvars['web.0'].ansible_password",
            "ansible_become_pass[0]",
        ] {
            assert!(is_secret_path(label), "{label}");
        }
        for label in ["vms_config.cores", "pihole_passwords", "global_domain_name"] {
            assert!(!is_secret_path(label), "{label}");
        }
    }
}
