//! From a machine to the two documents, through templates.
//!
//! A template prints values with `{{ value }}`; each is written as one line of YAML by [`super::emit`], so no template
//! can mis-quote. `{{ value | safe }}` prints a text as it is; `{{ value | yaml }}` is the same as `{{ value }}`. A
//! directory of the user's may hold a `user-data.j2` or a `network-data.j2`, which then takes the place of the built-in
//! one; it can include that as `builtin/user-data.j2` and add to it. What comes out is checked just the same.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use serde::Serialize;

use super::{Documents, emit, file_names, network_data, user_data};
use crate::diagnose::{Diagnostic, Place};
use crate::machine::{Interface, InterfaceMatch, Machine};
use crate::proxmox::ids::Mac;
use crate::secret::MASK;

const USER_DATA: &str = include_str!("../../templates/user-data.j2");
const NETWORK_DATA: &str = include_str!("../../templates/network-data.j2");

/// How many steps a template may take: enough for thousands of packages, not for an endless loop.
const FUEL: u64 = 1_000_000;

/// What stands for a MAC that is not known yet, where the documents are only shown.
const UNKNOWN_MAC: &str = "known-after-the-clone";

/// What templates may use. These names are an interface: docs/inventory-reference.md lists them.
#[derive(Serialize)]
struct Context<'m> {
    host: &'m str,
    name: &'m str,
    node: &'m str,
    groups: &'m [String],
    hostname: &'m str,
    fqdn: &'m str,
    domain: &'m str,
    user: &'m str,
    password_hash: Option<&'m str>,
    authorized_keys: &'m [String],
    timezone: Option<&'m str>,
    packages: &'m [String],
    package_update: bool,
    package_upgrade: bool,
    interfaces: Vec<InterfaceContext>,
    dns_servers: Vec<String>,
    search: &'m [String],
}

#[derive(Serialize)]
struct InterfaceContext {
    name: String,
    nic: u8,
    mac: Option<String>,
    addresses: Vec<String>,
    routes: Vec<Route>,
    dhcp4: bool,
    dhcp6: bool,
    mtu: Option<u32>,
}

#[derive(Serialize)]
struct Route {
    to: &'static str,
    via: String,
}

/// Whether the documents are sent, or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Send,
    Show,
}

/// Renders and checks the documents. `macs` are the MACs of the VM's cards, by index; only interfaces that are matched by
/// MAC need theirs.
///
/// # Errors
///
/// A template that cannot be read or evaluated, a MAC or an authorized key that is missing, or a document that breaks
/// cloud-init's rules; the first problem, with the others as notes.
pub fn render(
    machine: &Machine,
    macs: &BTreeMap<u8, Mac>,
    templates_dir: Option<&Path>,
) -> Result<Documents, Diagnostic> {
    documents(machine, macs, templates_dir, Purpose::Send).map_err(|problem| problem.host(&machine.host))
}

/// As [`render`], for people: secrets are masked, and what is not known before the clone is said so.
///
/// # Errors
///
/// As [`render`], but for MACs and keys that are missing.
pub fn render_masked(
    machine: &Machine,
    macs: &BTreeMap<u8, Mac>,
    templates_dir: Option<&Path>,
) -> Result<Documents, Diagnostic> {
    documents(machine, macs, templates_dir, Purpose::Show).map_err(|problem| problem.host(&machine.host))
}

fn documents(
    machine: &Machine,
    macs: &BTreeMap<u8, Mac>,
    templates_dir: Option<&Path>,
    purpose: Purpose,
) -> Result<Documents, Diagnostic> {
    if purpose == Purpose::Send && machine.guest.authorized_keys.is_empty() {
        return Err(Diagnostic::error(
            "cloud-init/no-key",
            format!("{} would have no authorized key", machine.guest.user),
        )
        .key("vms_authorized_keys")
        .rule("vmwright logs in with a key; a guest without one is reached by nobody")
        .help("set vms_authorized_keys, or let vmwright read the control node's key pair"));
    }
    let context = Value::from(Serde(context(machine, macs, purpose)?));
    let mut env = environment().map_err(|err| template_problem(&err, "a built-in template"))?;
    let (user_name, network_name) = file_names(machine);
    let user_data = document(&mut env, "user-data.j2", templates_dir, &context)?;
    let network_data = document(&mut env, "network-data.j2", templates_dir, &context)?;
    let shown = |name: &str| format!("{name} (as rendered)");
    let mut problems = user_data::check(&user_data, &shown(&user_name));
    problems.extend(
        network_data::check(&network_data, &shown(&network_name))
            .into_iter()
            .filter(|problem| {
                // A MAC that is not known yet is no fault of what is only shown.
                purpose == Purpose::Send || problem.code != "cloud-init/mac"
            }),
    );
    let mut problems = problems.into_iter();
    match problems.next() {
        None => Ok(Documents {
            user_data,
            network_data,
        }),
        Some(first) => Err(problems.fold(first, |first, other| first.note(other.place.clone(), other.message))),
    }
}

fn context<'m>(machine: &'m Machine, macs: &BTreeMap<u8, Mac>, purpose: Purpose) -> Result<Context<'m>, Diagnostic> {
    let guest = &machine.guest;
    let interfaces = machine.network.interfaces.iter();
    Ok(Context {
        host: &machine.host,
        name: &machine.name,
        node: machine.node.as_str(),
        groups: &machine.groups,
        hostname: &guest.hostname,
        fqdn: &guest.fqdn,
        domain: &guest.domain,
        user: &guest.user,
        password_hash: guest.password_hash.as_ref().map(|hash| match purpose {
            Purpose::Send => hash.expose(),
            Purpose::Show => MASK,
        }),
        authorized_keys: &guest.authorized_keys,
        timezone: guest.timezone.as_deref(),
        packages: &guest.packages,
        package_update: guest.package_update,
        package_upgrade: guest.package_upgrade,
        interfaces: interfaces
            .map(|interface| interface_context(machine, interface, macs, purpose))
            .collect::<Result<_, _>>()?,
        dns_servers: machine.network.dns_servers.iter().map(ToString::to_string).collect(),
        search: &machine.network.search,
    })
}

fn interface_context(
    machine: &Machine,
    interface: &Interface,
    macs: &BTreeMap<u8, Mac>,
    purpose: Purpose,
) -> Result<InterfaceContext, Diagnostic> {
    let (name, mac) = match &interface.matching {
        InterfaceMatch::Name(name) => (name.clone(), None),
        InterfaceMatch::Mac { set_name } => {
            let fixed = machine
                .hardware
                .nics
                .iter()
                .find(|nic| nic.index == interface.nic)
                .and_then(|nic| nic.mac.as_ref());
            let mac = match (macs.get(&interface.nic).or(fixed), purpose) {
                // The kernel, and so cloud-init, writes them in lower case.
                (Some(mac), _) => mac.as_str().to_ascii_lowercase(),
                (None, Purpose::Show) => UNKNOWN_MAC.to_owned(),
                (None, Purpose::Send) => {
                    return Err(Diagnostic::error(
                        "cloud-init/no-mac",
                        format!(
                            "the MAC of net{} is not known, and {set_name} is matched by it",
                            interface.nic
                        ),
                    )
                    .key(format!("vms_network.nic{}", interface.nic))
                    .at(machine.origins.place(&format!("vms_network.nic{}", interface.nic)))
                    .rule("the VM must have the card before its network can be described")
                    .help(format!(
                        "declare vms_config.network.nic{0}, or match nic{0} by name",
                        interface.nic
                    )));
                }
            };
            (set_name.clone(), Some(mac))
        }
    };
    let routes = interface.gateways.iter().map(|gateway| Route {
        // Not `default`: cloud-init's other renderers than netplan stumble over it (measured on 22.4 and 25.1).
        to: match gateway {
            IpAddr::V4(_) => "0.0.0.0/0",
            IpAddr::V6(_) => "::/0",
        },
        via: gateway.to_string(),
    });
    Ok(InterfaceContext {
        name,
        nic: interface.nic,
        mac,
        addresses: interface.addresses.iter().map(ToString::to_string).collect(),
        routes: routes.collect(),
        dhcp4: interface.dhcp4,
        dhcp6: interface.dhcp6,
        mtu: interface.mtu,
    })
}

/// Templates print YAML; an undefined value is an error.
fn environment() -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    // Not "none": what a macro or a block prints is a finished text then, and is not written as YAML a second time.
    env.set_auto_escape_callback(|_| AutoEscape::Custom("yaml".into()));
    env.set_formatter(|out, _, value| {
        if value.is_undefined() {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        if value.is_safe() {
            return write!(out, "{value}").map_err(Error::from);
        }
        out.write_str(&to_yaml(value)?).map_err(Error::from)
    });
    env.add_filter("yaml", |value: Value| to_yaml(&value).map(Value::from_safe_string));
    env.add_template("builtin/user-data.j2", USER_DATA)?;
    env.add_template("builtin/network-data.j2", NETWORK_DATA)?;
    Ok(env)
}

fn to_yaml(value: &Value) -> Result<String, Error> {
    emit::yaml(value).map_err(|err| Error::new(ErrorKind::InvalidOperation, err.to_string()))
}

/// Renders the user's template of that name, or the built-in one.
fn document(
    env: &mut Environment<'static>,
    name: &str,
    dir: Option<&Path>,
    context: &Value,
) -> Result<String, Diagnostic> {
    let own = match dir {
        None => None,
        Some(dir) => {
            let path = dir.join(name);
            match std::fs::read_to_string(&path) {
                Ok(source) => Some((path.display().to_string(), source)),
                Err(err) if err.kind() == std::io::ErrorKind::NotFound && dir.is_dir() => None,
                Err(err) => {
                    return Err(Diagnostic::error(
                        "cloud-init/template-unreadable",
                        format!("{} cannot be read: {err}", path.display()),
                    )
                    .at(Place::path(&path))
                    .rule("the templates directory holds user-data.j2, network-data.j2 or both")
                    .help("check the path and its permissions"));
                }
            }
        }
    };
    let key = match own {
        None => format!("builtin/{name}"),
        Some((path, source)) => {
            env.add_template_owned(path.clone(), source)
                .map_err(|err| template_problem(&err, &path))?;
            path
        }
    };
    let rendered = env.get_template(&key).and_then(|template| template.render(context));
    let mut text = rendered.map_err(|err| template_problem(&err, &key))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn template_problem(err: &Error, name: &str) -> Diagnostic {
    let line = err.line().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    let what = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
    Diagnostic::error(
        "cloud-init/template",
        format!("the template cannot be rendered: {what}"),
    )
    .at(Place::new(err.name().unwrap_or(name), line, 0))
    .rule("a value that does not exist is an error")
    .help("docs/inventory-reference.md lists what templates may use")
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
