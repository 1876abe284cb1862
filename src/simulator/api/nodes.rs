//! `/nodes` and what belongs to a node alone.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;

/// A node in lists; its figures only for those who may see them.
pub(super) fn row(call: &Call, name: &str) -> Value {
    let world = &call.world;
    let mut row = json!({
        "type": "node", "id": format!("node/{name}"), "node": name, "level": "",
        "status": if world.node_online(name) { "online" } else { "offline" },
    });
    if let Some(node) = world.nodes.get(name)
        && world.may(&call.who, &format!("/nodes/{name}"), &["Sys.Audit"])
        && node.online
    {
        let used: u64 = world
            .vms
            .values()
            .filter(|vm| vm.node == name && vm.is_running())
            .map(crate::simulator::vm::Vm::memory)
            .sum();
        row["maxcpu"] = Value::from(node.cpus);
        row["cpu"] = Value::from(0.02);
        row["maxmem"] = Value::from(node.memory);
        row["mem"] = Value::from(used + (2 << 30));
        row["maxdisk"] = Value::from(100u64 << 30);
        row["disk"] = Value::from(8u64 << 30);
        row["uptime"] = Value::from(world.now_ms.saturating_sub(node.booted_ms) / 1000);
    }
    row
}

pub(super) fn list(call: &mut Call) -> Result<Reply, ApiError> {
    let mut rows = Vec::new();
    for name in call.world.nodes.keys() {
        let mut row = row(call, name);
        row["ssl_fingerprint"] = Value::from(call.world.fingerprint.as_str());
        rows.push(row);
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn status(call: &mut Call) -> Result<Reply, ApiError> {
    let name = call.node();
    let Some(node) = call.world.nodes.get(&name) else {
        return Err(ApiError::failed("no such node"));
    };
    Ok(Reply::Data(json!({
        "pveversion": format!("pve-manager/{}/5a1c0de5a1c0de00", call.world.version),
        "uptime": call.world.now_ms.saturating_sub(node.booted_ms) / 1000,
        "cpu": 0.02, "wait": 0, "idle": 0, "loadavg": ["0.10", "0.12", "0.09"],
        "cpuinfo": {"cpus": node.cpus, "cores": node.cpus, "sockets": 1, "model": "Simulated CPU"},
        "memory": {"total": node.memory, "used": 2u64 << 30, "free": node.memory.saturating_sub(2 << 30),
                   "available": node.memory.saturating_sub(2 << 30)},
        "rootfs": {"total": 100u64 << 30, "used": 8u64 << 30, "free": 92u64 << 30, "avail": 92u64 << 30},
        "swap": {"total": 0, "used": 0, "free": 0}, "kversion": "Linux 6.14.0-pve",
    })))
}

pub(super) fn network(call: &mut Call) -> Result<Reply, ApiError> {
    let node = call.node();
    let wanted = call.get("type");
    let mut rows = Vec::new();
    if !wanted.is_none_or(|kind| matches!(kind, "bridge" | "any_bridge" | "any_local_bridge" | "include_sdn")) {
        return Ok(Reply::Data(Value::from(rows)));
    }
    for (number, (name, bridge)) in call.world.bridges.iter().enumerate() {
        let path = format!("/sdn/zones/localnetwork/{name}");
        if !call.world.has_bridge(&node, name) || !call.world.may(&call.who, &path, &["SDN.Audit", "SDN.Use"]) {
            continue;
        }
        let mut row = json!({
            "iface": name, "type": "bridge", "active": 1, "autostart": 1, "method": "manual", "method6": "manual",
            "families": ["inet"], "priority": number + 3, "bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0",
        });
        if let Some((address, prefix)) = bridge.address.as_deref().and_then(|a| a.split_once('/')) {
            row["method"] = Value::from("static");
            row["address"] = Value::from(address);
            row["netmask"] = Value::from(prefix);
            row["cidr"] = Value::from(format!("{address}/{prefix}"));
        }
        rows.push(row);
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn certificates(call: &mut Call) -> Result<Reply, ApiError> {
    let read = |name: &str| std::fs::read_to_string(call.world.dir.join(name)).unwrap_or_default();
    Ok(Reply::Data(json!([
        {"filename": "pve-root-ca.pem", "pem": read(crate::simulator::tls::CA_FILE), "subject": "/CN=Proxmox Virtual Environment"},
        {"filename": "pve-ssl.pem", "pem": read(crate::simulator::tls::LEAF_FILE),
         "fingerprint": call.world.fingerprint, "subject": format!("/CN={}", call.node())},
    ])))
}

pub(super) fn replication(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, guest) = (call.node(), call.number("guest"));
    let rows = call
        .world
        .replicated
        .iter()
        .filter(|vmid| call.world.vms.get(vmid).is_some_and(|vm| vm.node == node))
        .filter(|vmid| guest.is_none_or(|g| g == u64::from(**vmid)))
        .map(|vmid| json!({"id": format!("{vmid}-0"), "guest": vmid, "jobnum": 0, "type": "local"}));
    Ok(Reply::Data(rows.collect()))
}

pub(super) fn containers(call: &mut Call) -> Result<Reply, ApiError> {
    let node = call.node();
    let rows = call
        .world
        .containers
        .values()
        .filter(|c| c.node == node && call.world.may(&call.who, &format!("/vms/{}", c.vmid), &["VM.Audit"]))
        .map(|c| json!({"vmid": c.vmid.to_string(), "name": c.name, "status": "stopped", "type": "lxc"}));
    Ok(Reply::Data(rows.collect()))
}

fn the_container(call: &Call) -> Result<(u32, String), ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    match call.world.containers.get(&vmid).filter(|c| c.node == node) {
        Some(container) => Ok((vmid, container.name.clone())),
        None => Err(ApiError::failed(format!(
            "Configuration file 'nodes/{node}/lxc/{vmid}.conf' does not exist"
        ))),
    }
}

pub(super) fn container(call: &mut Call) -> Result<Reply, ApiError> {
    let (vmid, name) = the_container(call)?;
    Ok(Reply::Data(
        json!({"vmid": vmid, "name": name, "status": "stopped", "type": "lxc", "ha": {"managed": 0}}),
    ))
}

pub(super) fn container_config(call: &mut Call) -> Result<Reply, ApiError> {
    let (_, name) = the_container(call)?;
    Ok(Reply::Data(
        json!({"hostname": name, "arch": "amd64", "ostype": "debian", "digest": "0"}),
    ))
}
