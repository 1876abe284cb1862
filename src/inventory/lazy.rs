//! What templates see: the variables of a host, and lists and mappings whose values are evaluated when touched.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value as Jinja};

use super::lookup;
use super::scope::HostScope;
use super::template::{Failure, Run};
use super::value::{Data, Value};
use crate::diagnose::Place;

/// The variables that no source sets.
pub(crate) const MAGIC: [&str; 9] = [
    "inventory_hostname",
    "inventory_hostname_short",
    "group_names",
    "groups",
    "hostvars",
    "inventory_dir",
    "inventory_file",
    "playbook_dir",
    "omit",
];

/// All variables of a host, by name.
pub(crate) struct Context {
    run: Arc<Run>,
    scope: Arc<HostScope>,
    /// A prefix for what is said about its variables: `hostvars['web']`.
    path: String,
}

impl Context {
    pub fn new(run: &Arc<Run>, scope: &Arc<HostScope>) -> Self {
        Self {
            run: Arc::clone(run),
            scope: Arc::clone(scope),
            path: String::new(),
        }
    }

    fn label(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn find(&self, name: &str) -> Option<Jinja> {
        // The magic variables win, but where a source comes from can be overridden (ansible-core sets it as a host variable).
        let weak = matches!(name, "inventory_dir" | "inventory_file" | "omit");
        if !weak && let Some(value) = self.magic(name) {
            return Some(value);
        }
        match self.scope.vars.get(name) {
            Some(raw) => {
                let label = self.label(name);
                let value = self.run.engine_value(&self.scope, raw, &label);
                self.run.trace.used(self.scope.host, &label, raw);
                Some(value)
            }
            None => self.magic(name),
        }
    }

    /// The value of a magic variable.
    pub fn magic(&self, name: &str) -> Option<Jinja> {
        let core = &self.run.session.core;
        let graph = &core.graph;
        let host = graph.hosts.get(self.scope.host);
        match name {
            "inventory_hostname" => host.map(|host| Jinja::from(&*host.name)),
            "inventory_hostname_short" => host.map(|host| {
                let address = host.name.parse::<std::net::IpAddr>().is_ok();
                let short = if address {
                    Some(&*host.name)
                } else {
                    host.name.split('.').next()
                };
                Jinja::from(short.unwrap_or(&host.name))
            }),
            "group_names" => host.map(|_| Jinja::from(core.group_names(self.scope.host))),
            "groups" => Some(container(&self.run, &self.scope, &core.groups_value(), "groups", true)),
            "hostvars" => Some(Jinja::from_object(HostVars {
                run: Arc::clone(&self.run),
            })),
            "vars" => Some(Jinja::from_object(Self::new(&self.run, &self.scope))),
            "inventory_file" => host.map(|host| match &host.source {
                Some(source) if !source.contains(',') => Jinja::from(&**source),
                _ => Jinja::from(()),
            }),
            "inventory_dir" => host.map(|host| match &host.source {
                Some(source) if !source.contains(',') => {
                    let dir = std::path::Path::new(&**source).parent();
                    Jinja::from(dir.map_or_else(String::new, |dir| dir.display().to_string()))
                }
                _ => Jinja::from(()),
            }),
            "playbook_dir" => Some(Jinja::from(core.working_dir.display().to_string())),
            "omit" => Some(lookup::omit()),
            _ => None,
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("variables")
    }
}

impl Object for Context {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        let found = self.find(name);
        if found.as_ref().is_none_or(Jinja::is_undefined) && !(self.path.is_empty() && lookup::is_global(name)) {
            self.run.miss(self.label(name));
        }
        match &found {
            Some(value) if !self.scope.vars.contains_key(name) => self.run.trace.magic(&self.label(name), value),
            Some(_) => {}
            None => self.run.trace.missed(&self.label(name)),
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.scope.vars.keys().map(|name| Jinja::from(&**name)).collect())
    }
}

/// `hostvars`: the variables of every host.
struct HostVars {
    run: Arc<Run>,
}

impl fmt::Debug for HostVars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hostvars")
    }
}

impl Object for HostVars {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        let Some(host) = self.run.session.core.graph.host_index.get(name) else {
            self.run.miss(format!("hostvars['{name}']"));
            return None;
        };
        Some(Jinja::from_object(Context {
            run: Arc::clone(&self.run),
            scope: self.run.session.host(*host),
            path: format!("hostvars['{name}']"),
        }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let hosts = &self.run.session.core.graph.hosts;
        Enumerator::Values(hosts.iter().map(|host| Jinja::from(&*host.name)).collect())
    }
}

/// A list or mapping.
pub(crate) struct Lazy {
    run: Arc<Run>,
    scope: Arc<HostScope>,
    value: Arc<Value>,
    label: String,
    /// The values inside are results already, not templates.
    resolved: bool,
}

/// A list or mapping for templates.
pub(crate) fn container(
    run: &Arc<Run>,
    scope: &Arc<HostScope>,
    value: &Arc<Value>,
    label: &str,
    resolved: bool,
) -> Jinja {
    Jinja::from_object(Lazy {
        run: Arc::clone(run),
        scope: Arc::clone(scope),
        value: Arc::clone(value),
        label: label.to_owned(),
        resolved,
    })
}

/// A value without templates in it, for templates. Touching a secret leaf marks the running template.
pub(crate) fn plain(run: &Arc<Run>, scope: &Arc<HostScope>, value: &Arc<Value>, label: &str) -> Jinja {
    if value.secret && !matches!(value.data, Data::List(_) | Data::Map(_)) {
        run.touch_secret();
    }
    match &value.data {
        Data::Null => Jinja::from(()),
        Data::Bool(value) => Jinja::from(*value),
        Data::Int(value) => match i64::try_from(*value) {
            Ok(value) => Jinja::from(value),
            Err(_) => Jinja::from(*value),
        },
        Data::Float(value) => Jinja::from(*value),
        Data::Str(text) | Data::Unsafe(text) => Jinja::from(text.as_str()),
        // Encrypted text is decrypted before it comes here.
        Data::Vault(_) => Jinja::UNDEFINED,
        Data::List(_) | Data::Map(_) => container(run, scope, value, label, true),
    }
}

impl Lazy {
    /// The value, resolved all the way down, each leaf with its own place and secrecy. `None` stands for `omit`.
    pub fn resolve(&self) -> Result<Option<Value>, Failure> {
        if self.resolved {
            return Ok(Some((*self.value).clone()));
        }
        self.run.resolve(&self.scope, &self.value, &self.label)
    }

    fn item(&self, value: &Value, label: String) -> Jinja {
        let value = Arc::new(value.clone());
        let item = if self.resolved {
            plain(&self.run, &self.scope, &value, &label)
        } else {
            self.run.engine_value(&self.scope, &value, &label)
        };
        self.run.trace.used(self.scope.host, &label, &value);
        item
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Object for Lazy {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.value.data {
            Data::Map(_) => ObjectRepr::Map,
            _ => ObjectRepr::Seq,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let found = match &self.value.data {
            Data::Map(map) => {
                let name = match key.as_str() {
                    Some(name) => name.to_owned(),
                    // Keys are text here; Ansible has `d[1]` for the key 1.
                    None => super::text::key(key)?,
                };
                map.get(&name)
                    .map(|entry| self.item(&entry.value, format!("{}.{name}", self.label)))
            }
            Data::List(list) => {
                let index = key.as_usize()?;
                list.get(index)
                    .map(|value| self.item(value, format!("{}[{index}]", self.label)))
            }
            _ => None,
        };
        if found.as_ref().is_none_or(Jinja::is_undefined) {
            self.run.miss(format!("{}.{key}", self.label));
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.value.data {
            Data::Map(map) => Enumerator::Values(map.keys().map(|key| Jinja::from(key.as_str())).collect()),
            Data::List(list) => Enumerator::Seq(list.len()),
            _ => Enumerator::Empty,
        }
    }
}

/// A list of texts.
pub(crate) fn texts<'t>(texts: impl Iterator<Item = &'t str>, place: &Place) -> Value {
    Value::new(
        Data::List(texts.map(|text| Value::text(text, place.clone())).collect()),
        place.clone(),
    )
}
