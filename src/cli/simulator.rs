//! `simulator`: the embedded cluster on its own, as a process, for tests and benchmarks.
//!
//! One line of JSON on standard output tells where everything is; the cluster runs until SIGINT or SIGTERM, and then a
//! second line tells how many requests the API got.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;

use super::args;
use super::{Problems, say};
use crate::diagnose::{Diagnostic, Exit, Place, chain};
use crate::simulator::clock::Durations;
use crate::simulator::spec::WorldSpec;
use crate::simulator::{Options, Simulator, free_loopback_net};

/// Runs until a signal.
pub async fn run(args: &args::Simulator) -> Result<Exit, Problems> {
    let spec = match &args.cluster {
        None => WorldSpec::default(),
        Some(path) => {
            let wrong = |message: String| vec![Diagnostic::error("cli/simulator", message).at(Place::path(path))];
            let text = std::fs::read_to_string(path)
                .map_err(|error| wrong(format!("the cluster's description cannot be read: {error}")))?;
            serde_yaml::from_str(&text)
                .map_err(|error| wrong(format!("the cluster's description is wrong: {error}")))?
        }
    };
    let mut node_keys = Vec::new();
    for path in &args.node_key {
        let text = std::fs::read_to_string(path).map_err(|error| {
            vec![
                Diagnostic::error("cli/simulator", format!("the public key cannot be read: {error}"))
                    .at(Place::path(path)),
            ]
        })?;
        node_keys.extend(text.lines().map(str::to_owned));
    }
    let net = free_loopback_net(args.ssh_port);
    let options = Options {
        spec,
        durations: Durations::default().scaled(args.speed),
        api_bind: args.listen,
        ssh_port: args.ssh_port,
        node_keys,
        net,
        pihole_bind: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        ..Options::new(&args.world)
    };
    let password = options.pihole_password.clone();
    let failed = |error: String| vec![Diagnostic::error("cli/simulator", error).exit(Exit::HostFailed)];
    let simulator = Simulator::start(options).await.map_err(|error| failed(chain(&error)))?;
    let nodes: serde_json::Map<String, serde_json::Value> = simulator.handle().look(|world| {
        world
            .nodes
            .iter()
            .map(|(name, node)| (name.clone(), json!(node.ip)))
            .collect()
    });
    let (token, secret) = simulator.token().unwrap_or_default();
    let where_it_is = json!({
        "api": simulator.api_address().to_string(),
        "ca_file": simulator.ca_file(),
        "fingerprint": simulator.fingerprint(),
        "token_id": token,
        "token_secret": secret,
        "pihole": simulator.pihole_url(),
        "pihole_password": password,
        "nodes": nodes,
        "net": format!("{}.{}.{}", net[0], net[1], net[2]),
        "ssh_port": args.ssh_port,
    });
    say::data(&format!("{where_it_is}\n"));
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(error.to_string()))?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    let end = json!({ "requests": simulator.requests().len() });
    say::data(&format!("{end}\n"));
    simulator.stop().await.map_err(|error| failed(chain(&error)))?;
    Ok(Exit::Done)
}
