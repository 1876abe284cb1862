//! The embedded cluster, for inventories that ask for one with `vms_simulator`.
//!
//! ```yaml
//! vms_simulator:
//!   world: "{{ inventory_dir }}/.vmwright-demo"   # keeps the cluster between commands; required
//!   speed: 1.0                                    # scales the durations: 0 is at once
//!   ssh_port: 2222                                # of every guest's and node's sshd
//!   cluster: {...}                                # nodes, storages, templates, ...; the demo cluster by default
//! ```
//!
//! The API listens at `global_proxmox_api_host` and `global_proxmox_api_port`, the Pi-hole at `pihole_api_host`; both must
//! be addresses of this machine. The cluster lives as long as the command; its world goes on with the next one.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use super::Problems;
use super::prepare::home;
use crate::diagnose::{Diagnostic, Exit, chain};
use crate::guest::keys;
use crate::inventory::{Data, Inventory, Scope, Value};
use crate::simulator::clock::Durations;
use crate::simulator::spec::WorldSpec;
use crate::simulator::{Options, Simulator};

/// A running embedded cluster.
pub struct Embedded(Simulator);

impl Embedded {
    /// Stops it and keeps its world.
    pub async fn stop(self) {
        if let Err(error) = self.0.stop().await {
            tracing::warn!(error = chain(&error), "the embedded cluster's world could not be kept");
        }
    }
}

/// What the inventory asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    world: PathBuf,
    #[serde(default = "real")]
    speed: f64,
    #[serde(default = "ssh_port")]
    ssh_port: u16,
    #[serde(default)]
    cluster: WorldSpec,
}

fn real() -> f64 {
    1.0
}

fn ssh_port() -> u16 {
    2222
}

/// Starts the embedded cluster if the hosts' inventory asks for one.
pub async fn start(inventory: &Inventory, hosts: &[String]) -> Result<Option<Embedded>, Problems> {
    for host in hosts {
        let scope = inventory.scope(host);
        if let Some(value) = get(&scope, "vms_simulator")?
            && !matches!(value.data, Data::Null)
        {
            return Ok(Some(Embedded(begin(&scope, host, &value).await?)));
        }
    }
    Ok(None)
}

async fn begin(scope: &Scope<'_>, host: &str, value: &Value) -> Result<Simulator, Problems> {
    let wrong = |message: String| {
        vec![
            Diagnostic::error("cli/simulator", message)
                .host(host)
                .key("vms_simulator")
                .at(value.place.clone()),
        ]
    };
    let wanted: Wanted = serde_json::from_value(value.to_json())
        .map_err(|error| wrong(format!("vms_simulator cannot be read: {error}")))?;
    let address = address(scope, host, "global_proxmox_api_host", "global_proxmox_api_port", 8006)?;
    let pihole = match get(scope, "pihole_api_host")? {
        Some(_) => Some(self::address(scope, host, "pihole_api_host", "", 80)?),
        None => None,
    };
    let key = get(scope, "ansible_ssh_private_key_file")?.and_then(|value| value.as_str().map(PathBuf::from));
    let pair = keys::ensure(key.as_deref(), &home()).map_err(|error| wrong(chain(&error)))?;
    let password = get(scope, "pihole_password")?.and_then(|value| value.as_str().map(str::to_owned));
    let options = Options {
        spec: wanted.cluster,
        durations: Durations::default().scaled(wanted.speed),
        api_bind: address,
        ssh_port: wanted.ssh_port,
        node_keys: vec![pair.public],
        pihole_bind: pihole,
        pihole_password: password.unwrap_or_default(),
        keep_at_once: true,
        ..Options::new(wanted.world)
    };
    Simulator::start(options).await.map_err(|error| {
        vec![
            Diagnostic::error(
                "cli/simulator",
                format!("the embedded cluster cannot start: {}", chain(&error)),
            )
            .host(host)
            .key("vms_simulator")
            .at(value.place.clone())
            .help("does another command use the same world, or something else its addresses?")
            .exit(Exit::HostFailed),
        ]
    })
}

fn get(scope: &Scope<'_>, name: &str) -> Result<Option<Value>, Problems> {
    scope.get(name).map_err(|problem| vec![problem])
}

/// An address of this machine from two variables: a host, which may hold a port, and a port.
fn address(scope: &Scope<'_>, host: &str, name: &str, port: &str, default: u16) -> Result<SocketAddr, Problems> {
    let value = get(scope, name)?;
    let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let port = if port.is_empty() { None } else { get(scope, port)? };
    let port = port
        .and_then(|value| value.to_json().as_u64())
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(default);
    match text.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() => Ok(SocketAddr::new(ip, port)),
        Ok(_) | Err(_) => Err(vec![
            Diagnostic::error("cli/simulator", format!("{name} is {text:?}"))
                .host(host)
                .key(name)
                .at(value.map(|value| value.place))
                .rule("with vms_simulator it is a loopback address, where the embedded cluster listens"),
        ]),
    }
}
