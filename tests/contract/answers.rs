//! Every success on record of a call that the client has is read, and says what the raw answer says.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmwright::proxmox::client::Client;
use vmwright::proxmox::ids::{NodeName, StorageName, Upid, VmId};
use vmwright::proxmox::task::TaskFilter;
use vmwright::proxmox::vm::{CloneRequest, View};

use crate::reference::{self, Door, Exchange};
use crate::schema::Schema;

/// Asks the client the recorded question; `None` if it has no such call, else how many things it read.
async fn ask(
    client: &Client,
    call: &str,
    places: &BTreeMap<String, String>,
    exchange: &Exchange,
) -> Option<Result<usize, String>> {
    let node: NodeName = places.get("node").map_or("pve1", String::as_str).parse().unwrap();
    let vmid: VmId = places.get("vmid").map_or("100", String::as_str).parse().unwrap();
    let storage = || -> StorageName { places["storage"].parse().unwrap() };
    let upid = || -> Upid { places["upid"].parse().unwrap() };
    let query = |name: &str| exchange.params.get(name).filter(|value| !value.is_null());
    let (set, delete): (&[(String, String)], &[String]) = (&[], &[]);
    let minute = Duration::from_secs(60);
    let said = |error: vmwright::proxmox::error::ApiError| error.to_string();
    let result = match call {
        "GET /version" => client.version().await.map(|version| usize::from(version.major == 9)),
        "GET /cluster/status" => client.cluster_status().await.map(|status| status.nodes.len()),
        "GET /nodes" => client.nodes().await.map(|nodes| nodes.len()),
        "GET /access/permissions" => client.permissions(None).await.map(|paths| paths.len()),
        "GET /cluster/resources" if query("type").is_some_and(|kind| kind == "vm") => {
            client.resources_vm().await.map(|guests| guests.len())
        }
        "GET /cluster/nextid" => client.next_id(None).await.map(|_| 1),
        "GET /nodes/{node}/qemu" => client.node_vms(&node).await.map(|vms| vms.len()),
        "GET /nodes/{node}/qemu/{vmid}/config" => match client.vm_config(&node, vmid, View::Pending).await {
            Ok(config) => {
                let data = exchange.body["data"].as_object().unwrap();
                let read = data
                    .iter()
                    .filter(|(key, _)| *key != "digest")
                    .filter(|(key, value)| {
                        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        config.get(key) == Some(value.as_str())
                    })
                    .count();
                Ok(read + usize::from(data.contains_key("digest")))
            }
            Err(error) => Err(error),
        },
        "GET /nodes/{node}/qemu/{vmid}/pending" => client.vm_pending(&node, vmid).await.map(|entries| entries.len()),
        "GET /nodes/{node}/qemu/{vmid}/status/current" => match client.vm_status(&node, vmid).await {
            Ok(status) => {
                let data = &exchange.body["data"];
                assert_eq!(status.running, data["status"] == "running", "{}", exchange.name);
                assert_eq!(status.running, status.pid.is_some(), "{}", exchange.name);
                assert_eq!(status.name, data["name"].as_str().unwrap_or_default());
                Ok(data.as_object().unwrap().len())
            }
            Err(error) => Err(error),
        },
        "GET /nodes/{node}/qemu/{vmid}/migrate" => client.migrate_check(&node, vmid, &node).await.map(|check| {
            assert_eq!(
                check.local_disks,
                ["vmdata:100/vm-100-cloudinit.qcow2", "vmdata:100/vm-100-disk-0.qcow2"]
            );
            exchange.body["data"].as_object().unwrap().len()
        }),
        "POST /nodes/{node}/qemu/{vmid}/clone" => {
            client.clone_vm(&node, vmid, &CloneRequest::new(vmid)).await.map(|_| 1)
        }
        "PUT /nodes/{node}/qemu/{vmid}/config" => client.set_config(&node, vmid, None, set, delete).await.map(|()| 0),
        "POST /nodes/{node}/qemu/{vmid}/config" => client
            .set_config_task(&node, vmid, None, set, delete)
            .await
            .map(|upid| usize::from(upid.is_some())),
        "PUT /nodes/{node}/qemu/{vmid}/resize" => client
            .resize(&node, vmid, "scsi0", 0, None)
            .await
            .map(|upid| usize::from(upid.is_some())),
        "PUT /nodes/{node}/qemu/{vmid}/cloudinit" => client.regenerate_cloudinit(&node, vmid).await.map(|()| 0),
        "POST /nodes/{node}/qemu/{vmid}/status/start" => client.start(&node, vmid).await.map(|_| 1),
        "POST /nodes/{node}/qemu/{vmid}/status/stop" => client.stop(&node, vmid).await.map(|_| 1),
        "POST /nodes/{node}/qemu/{vmid}/status/shutdown" => {
            client.shutdown(&node, vmid, minute, false).await.map(|_| 1)
        }
        "POST /nodes/{node}/qemu/{vmid}/status/reboot" => client.reboot(&node, vmid, minute).await.map(|_| 1),
        "DELETE /nodes/{node}/qemu/{vmid}" => client.delete_vm(&node, vmid, true).await.map(|_| 1),
        "GET /nodes/{node}/tasks/{upid}/status" => client
            .task_status(&upid())
            .await
            .map(|_| exchange.body["data"].as_object().unwrap().len()),
        "GET /nodes/{node}/tasks/{upid}/log" if exchange.body.is_object() => {
            client.task_log(&upid(), 0, 0).await.map(|lines| {
                let raw: Vec<&str> = exchange.body["data"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(|line| line["t"].as_str())
                    .collect();
                if lines.is_empty() {
                    let text = raw.join("\n");
                    assert!(
                        matches!(
                            text.as_str(),
                            "" | "no content" | "unable to open file - No such file or directory"
                        ),
                        "{text}"
                    );
                    raw.len()
                } else {
                    lines.len()
                }
            })
        }
        "GET /nodes/{node}/tasks" => client
            .tasks(&node, &TaskFilter::default())
            .await
            .map(|tasks| tasks.len()),
        "GET /nodes/{node}/storage" => client.storages(&node).await.map(|storages| storages.len()),
        "GET /nodes/{node}/storage/{storage}/content" => client
            .content(&node, &storage(), None, None)
            .await
            .map(|volumes| volumes.len()),
        "GET /nodes/{node}/network" => client.bridges(&node).await.map(|bridges| bridges.len()),
        _ => return None,
    };
    Some(result.map_err(said))
}

#[tokio::test]
async fn every_success_is_read_in_full() {
    let (Some(recordings), Some(schemas)) = (reference::recordings(), Schema::load(&["9.2"])) else {
        return;
    };
    let (mut wrong, mut read) = (Vec::new(), BTreeMap::<String, usize>::new());
    for (file, exchange) in recordings.iter().filter(|(_, exchange)| exchange.status == 200) {
        let Some(path) = exchange.api_path() else { continue };
        let Some((call, places)) = schemas[0].template(&exchange.method, &path) else {
            continue;
        };
        // A node's name may be given as localhost, and a path may hold what no type of ours takes: not the client's paths.
        if places.get("vmid").is_some_and(|vmid| vmid.parse::<VmId>().is_err())
            || places.get("upid").is_some_and(|upid| upid.parse::<Upid>().is_err())
        {
            continue;
        }
        let (client, _) = Door::answering(exchange.response());
        let Some(result) = ask(&client, &call, &places, exchange).await else {
            continue;
        };
        let data = &exchange.body["data"];
        let expected = match data {
            Value::Array(entries) => entries.len(),
            Value::Object(map) if call == "GET /version" => usize::from(!map.is_empty()),
            Value::Object(map) => map.len(),
            Value::Null => 0,
            _ => 1,
        };
        match result {
            Ok(count) if count == expected => *read.entry(call).or_default() += 1,
            Ok(count) => wrong.push(format!("{file} {}: {count} of {expected} read", exchange.name)),
            Err(error) => wrong.push(format!("{file} {}: {error}", exchange.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read.len() >= 22 && read.values().sum::<usize>() > 400, "{read:#?}");
}
