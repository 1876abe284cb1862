//! Test inventories of one host: variables as JSON, with places that tell which variable they belong to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::{Value as Json, json};

use super::variables::{Data, Entry, Value, Variables};
use super::{Built, build};
use crate::diagnose::{Diagnostic, Place, Severity};

/// A host's variables.
#[derive(Clone, Debug)]
pub(crate) struct TestVars {
    host: String,
    vars: BTreeMap<String, Json>,
    broken: Vec<String>,
    others: BTreeMap<String, BTreeMap<String, Json>>,
}

/// A host with everything that it needs, and nothing to complain about.
pub(crate) fn good() -> TestVars {
    let vars = json!({
        "vms_proxmox_node": "pve1",
        "vms_os": "debian_12",
        "global_os": {"debian_12": {"distro": "debian", "template": "debian-12-cloudinit"}, "win": {"template": null}},
        "vms_config": {
            "agent": "1", "cores": "2", "sockets": 1, "cpu": "host", "memory": 2048, "ostype": "l26",
            "scsihw": "virtio-scsi-single", "storage": "local",
            "disk_os": {"disk": "virtio0", "size": 20, "storage": "local", "backup": true},
        },
        "global_ip_address": "10.0.20.31",
        "global_dns_servers": ["10.0.20.2", "10.0.20.3"],
        "global_domain_name": "lab.test",
        "global_timezone": "Etc/UTC",
        "global_packages_list": ["vim", "qemu-guest-agent"],
        "global_vm_template_user": "ops",
        "global_vm_template_user_crypted_password": "$6$salt$hash",
        "global_proxmox_api_host": "pve1.lab.test",
        "global_proxmox_api_user": "vmwright@pve",
        "global_proxmox_api_token_id": "cli",
        "global_proxmox_api_token": "11111111-2222-3333-4444-555555555555",
    });
    let Json::Object(vars) = vars else { unreachable!() };
    TestVars {
        host: "web-0".to_owned(),
        vars: vars.into_iter().collect(),
        broken: Vec::new(),
        others: BTreeMap::new(),
    }
}

impl TestVars {
    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    pub(crate) fn set(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.vars.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.vars.remove(name);
        self
    }

    /// Sets a key of `vms_config`; the path may go deeper: `disk_os.size`.
    pub(crate) fn config(mut self, path: &str, value: impl Into<Json>) -> Self {
        let mut at = self.vars.entry("vms_config".to_owned()).or_insert_with(|| json!({}));
        for key in path.split('.') {
            if !at.is_object() {
                *at = json!({});
            }
            at = at.as_object_mut().unwrap().entry(key).or_insert(Json::Null);
        }
        *at = value.into();
        self
    }

    pub(crate) fn unset_config(mut self, key: &str) -> Self {
        self.vars
            .get_mut("vms_config")
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(key);
        self
    }

    /// A variable whose template fails.
    pub(crate) fn broken(mut self, name: &str) -> Self {
        self.broken.push(name.to_owned());
        self
    }

    /// Another host of the inventory.
    pub(crate) fn other(mut self, host: &str, vars: Json) -> Self {
        let Json::Object(vars) = vars else { unreachable!() };
        self.others.insert(host.to_owned(), vars.into_iter().collect());
        self
    }

    pub(crate) fn build(&self) -> Result<Built, Vec<Diagnostic>> {
        build(self)
    }

    fn line_of(&self, name: &str) -> u32 {
        self.vars.keys().position(|key| key == name).map_or(0, |i| i as u32 + 1)
    }
}

fn value(json: &Json, place: &Place) -> Value {
    let data = match json {
        Json::Null => Data::Null,
        Json::Bool(b) => Data::Bool(*b),
        Json::Number(n) => n
            .as_i64()
            .map_or_else(|| Data::Float(n.as_f64().unwrap()), |i| Data::Int(i.into())),
        Json::String(s) => Data::Str(s.clone()),
        Json::Array(items) => Data::List(items.iter().map(|item| value(item, place)).collect()),
        Json::Object(map) => Data::Map(
            map.iter()
                .map(|(key, json)| {
                    let entry = Entry {
                        key_place: place.clone(),
                        value: value(json, place),
                    };
                    (key.clone(), entry)
                })
                .collect::<IndexMap<_, _>>(),
        ),
    };
    Value {
        data,
        place: place.clone(),
        secret: false,
    }
}

impl Variables for TestVars {
    fn host(&self) -> &str {
        &self.host
    }

    fn groups(&self) -> Vec<String> {
        vec!["vms".to_owned()]
    }

    fn get(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        if self.broken.iter().any(|b| b == name) {
            return Err(Diagnostic::error(
                "inventory/undefined",
                format!("{name} uses an undefined variable"),
            ));
        }
        let place = Place::new("group_vars/all.yml", self.line_of(name), 1);
        Ok(self.vars.get(name).map(|json| value(json, &place)))
    }

    fn names(&self) -> Vec<String> {
        self.vars.keys().cloned().collect()
    }

    fn of_host(&self, host: &str) -> Option<Box<dyn Variables + '_>> {
        let vars = self.others.get(host)?;
        Some(Box::new(Self {
            host: host.to_owned(),
            vars: vars.clone(),
            broken: Vec::new(),
            others: BTreeMap::new(),
        }))
    }

    fn home(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/home/ops"))
    }
}

/// The problems of a host that cannot be built.
pub(crate) fn problems(vars: &TestVars) -> Vec<Diagnostic> {
    let problems = vars.build().map(|built| built.machine).expect_err("it was built");
    assert!(
        problems.iter().all(|p| p.host.as_deref() == Some(vars.host.as_str())),
        "every problem names its host"
    );
    problems.into_iter().filter(|p| p.severity == Severity::Error).collect()
}

/// The codes of problems.
pub(crate) fn codes(problems: &[Diagnostic]) -> Vec<&'static str> {
    problems.iter().map(|p| p.code).collect()
}

/// The codes of the warnings of a host that can be built.
pub(crate) fn warnings(vars: &TestVars) -> Vec<&'static str> {
    match vars.build() {
        Ok(built) => codes(&built.warnings),
        Err(problems) => panic!("not built: {problems:#?}"),
    }
}
