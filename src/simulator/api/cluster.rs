//! `/version`, `/cluster`, `/pools`.

use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::simulator::fail::ApiError;

pub(super) fn index(_call: &mut Call) -> Result<Reply, ApiError> {
    let names = ["version", "cluster", "nodes", "storage", "access", "pools"];
    Ok(Reply::Data(names.iter().map(|n| json!({ "subdir": n })).collect()))
}

pub(super) fn version(call: &mut Call) -> Result<Reply, ApiError> {
    let version = call.world.version.clone();
    let release: Vec<&str> = version.split(['.', '-']).take(2).collect();
    Ok(Reply::Data(json!({
        "version": version, "release": release.join("."), "repoid": "5a1c0de5a1c0de00",
    })))
}

/// A VM or container in lists of the whole cluster: what pmxcfs knows is fresh, what pvestatd told is old.
pub(super) fn resource(call: &Call, vmid: u32) -> Option<Value> {
    let world = &call.world;
    let pool = world
        .pools
        .iter()
        .find(|(_, members)| members.contains(&vmid))
        .map(|(name, _)| name);
    let mut row = Map::new();
    if let Some(container) = world.containers.get(&vmid) {
        row.insert("id".to_owned(), Value::from(format!("lxc/{vmid}")));
        row.insert("type".to_owned(), Value::from("lxc"));
        row.insert("node".to_owned(), Value::from(container.node.as_str()));
        row.insert("name".to_owned(), Value::from(container.name.as_str()));
        row.insert("status".to_owned(), Value::from("stopped"));
        row.insert("template".to_owned(), Value::from(u8::from(container.template)));
    } else {
        let vm = world.vms.get(&vmid)?;
        row.insert("id".to_owned(), Value::from(format!("qemu/{vmid}")));
        row.insert("type".to_owned(), Value::from("qemu"));
        row.insert("node".to_owned(), Value::from(vm.node.as_str()));
        let stat = if world.durations.stale == 0 {
            Some(world.stat_of(vm))
        } else {
            world.stats.get(&vmid).cloned()
        };
        match stat.filter(|_| world.node_online(&vm.node)) {
            Some(stat) => {
                let numbers = [
                    ("template", u64::from(stat.template)),
                    ("maxmem", stat.memory),
                    ("maxdisk", stat.disk),
                    ("maxcpu", stat.cpus),
                    ("uptime", stat.uptime),
                    ("mem", 0),
                    ("memhost", 0),
                    ("cpu", 0),
                    ("disk", 0),
                    ("diskread", 0),
                    ("diskwrite", 0),
                    ("netin", 0),
                    ("netout", 0),
                ];
                row.insert("name".to_owned(), Value::from(stat.name));
                row.insert("status".to_owned(), Value::from(stat.status));
                for (key, number) in numbers {
                    row.insert(key.to_owned(), Value::from(number));
                }
            }
            None => {
                row.insert("status".to_owned(), Value::from("unknown"));
            }
        }
        for key in ["lock", "tags"] {
            if let Some(value) = vm.config.get(key).filter(|v| !v.is_empty()) {
                row.insert(key.to_owned(), Value::from(value));
            }
        }
        if world.ha.contains(&vmid) {
            row.insert("hastate".to_owned(), Value::from("started"));
        }
    }
    row.insert("vmid".to_owned(), Value::from(vmid));
    if let Some(pool) = pool.filter(|pool| world.may(&call.who, &format!("/pool/{pool}"), &["Pool.Audit"])) {
        row.insert("pool".to_owned(), Value::from(pool.as_str()));
    }
    Some(Value::Object(row))
}

pub(super) fn resources(call: &mut Call) -> Result<Reply, ApiError> {
    let kind = call.get("type");
    let wants = |name: &str| kind.is_none_or(|k| k == name);
    let world = &call.world;
    let mut rows = Vec::new();
    if kind.is_none() {
        for pool in world.pools.keys() {
            if world.may(&call.who, &format!("/pool/{pool}"), &["Pool.Audit"]) {
                rows.push(json!({"type": "pool", "id": format!("/pool/{pool}"), "pool": pool}));
            }
        }
    }
    if wants("vm") {
        let ids = world.vms.keys().chain(world.containers.keys());
        for vmid in ids.copied() {
            if world.may(&call.who, &format!("/vms/{vmid}"), &["VM.Audit"]) {
                rows.extend(resource(call, vmid));
            }
        }
    }
    if wants("node") {
        for name in world.nodes.keys() {
            rows.push(super::nodes::row(call, name));
        }
    }
    if wants("storage") {
        for node in world.nodes.keys() {
            for (id, storage) in world.storages.iter().filter(|(_, s)| s.on_node(node) && !s.disabled) {
                if !world.may(&call.who, &format!("/storage/{id}"), super::storage::LOOK) {
                    continue;
                }
                let (used, total) = world.storage_usage(id, node);
                rows.push(json!({
                    "type": "storage", "id": format!("storage/{node}/{id}"), "node": node, "storage": id,
                    "status": if world.node_online(node) && storage.active { "available" } else { "unknown" },
                    "shared": u8::from(storage.shared), "content": storage.content.join(","),
                    "plugintype": storage.kind, "disk": used, "maxdisk": total,
                }));
            }
        }
    }
    if kind.is_none_or(|k| k == "sdn")
        && world.major() >= 9
        && world.may(&call.who, "/sdn/zones/localnetwork", &["SDN.Audit", "SDN.Use"])
    {
        for node in world.nodes.keys() {
            rows.push(json!({
                "type": "network", "network-type": "zone", "network": "localnetwork", "status": "ok", "node": node,
                "id": format!("network/{node}/zone/localnetwork"),
            }));
        }
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn status(call: &mut Call) -> Result<Reply, ApiError> {
    let world = &call.world;
    let mut rows = Vec::new();
    let clustered = !world.cluster.is_empty();
    if clustered {
        rows.push(json!({
            "type": "cluster", "id": "cluster", "name": world.cluster, "version": world.nodes.len(),
            "nodes": world.nodes.len(), "quorate": u8::from(world.quorate),
        }));
    }
    for (number, (name, node)) in world.nodes.iter().enumerate() {
        rows.push(json!({
            "type": "node", "id": format!("node/{name}"), "name": name, "ip": node.ip, "level": "",
            "online": u8::from(node.online), "local": u8::from(number == 0),
            "nodeid": if clustered { number + 1 } else { 0 },
        }));
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn next_id(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(wanted) = call.number("vmid") {
        let vmid = u32::try_from(wanted).unwrap_or(0);
        if call.world.vmid_taken(vmid).is_some() {
            return Err(ApiError::invalid("vmid", format!("VM {vmid} already exists")));
        }
        return Ok(Reply::Data(Value::from(vmid.to_string())));
    }
    let (lower, upper) = call.world.next_id;
    let free = (lower..upper).find(|id| call.world.vmid_taken(*id).is_none());
    let free = free.ok_or_else(|| ApiError::failed("unable to get any free VMID in range"))?;
    Ok(Reply::Data(Value::from(free.to_string())))
}

pub(super) fn ha_resources(call: &mut Call) -> Result<Reply, ApiError> {
    let rows = call.world.ha.iter().map(|vmid| {
        json!({"sid": format!("vm:{vmid}"), "type": "vm", "state": "started", "max_restart": 1, "max_relocate": 1})
    });
    Ok(Reply::Data(rows.collect()))
}

pub(super) fn ha_resource(call: &mut Call) -> Result<Reply, ApiError> {
    let sid = call.part("sid");
    let id = sid.strip_prefix("vm:").unwrap_or(sid).parse::<u32>().ok();
    match id.filter(|id| call.world.ha.contains(id)) {
        Some(vmid) => Ok(Reply::Data(json!({
            "sid": format!("vm:{vmid}"), "type": "vm", "state": "started", "digest": "0",
        }))),
        None => Err(ApiError::failed(format!("no such resource '{sid}'"))),
    }
}

pub(super) fn replication(call: &mut Call) -> Result<Reply, ApiError> {
    let rows = call.world.replicated.iter().map(
        |vmid| json!({"id": format!("{vmid}-0"), "guest": vmid, "jobnum": 0, "type": "local", "schedule": "*/15"}),
    );
    Ok(Reply::Data(rows.collect()))
}

fn members(call: &Call, pool: &str) -> Vec<Value> {
    let ids = call.world.pools.get(pool).cloned().unwrap_or_default();
    ids.into_iter().filter_map(|vmid| resource(call, vmid)).collect()
}

pub(super) fn pools(call: &mut Call) -> Result<Reply, ApiError> {
    if let Some(pool) = call.get("poolid") {
        call.check(&format!("/pool/{pool}"), &["Pool.Audit"])?;
        if !call.world.pools.contains_key(pool) {
            return Err(ApiError::failed(format!("pool '{pool}' does not exist")));
        }
        return Ok(Reply::Data(json!([{"poolid": pool, "members": members(call, pool)}])));
    }
    let rows = call
        .world
        .pools
        .keys()
        .filter(|pool| call.world.may(&call.who, &format!("/pool/{pool}"), &["Pool.Audit"]))
        .map(|pool| json!({ "poolid": pool }));
    Ok(Reply::Data(rows.collect()))
}

pub(super) fn pool(call: &mut Call) -> Result<Reply, ApiError> {
    let pool = call.part("poolid").to_owned();
    if !call.world.pools.contains_key(&pool) {
        return Err(ApiError::failed(format!("pool '{pool}' does not exist")));
    }
    Ok(Reply::Data(json!({"poolid": pool, "members": members(call, &pool)})))
}
