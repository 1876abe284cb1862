//! Every call of the client, driven once or more, against the schema.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use vmwright::proxmox::client::Client;
use vmwright::proxmox::ids::{NodeName, StorageName, Upid, VmId};
use vmwright::proxmox::login;
use vmwright::proxmox::task::TaskFilter;
use vmwright::proxmox::transport::{ApiRequest, ApiResponse, Method};
use vmwright::proxmox::vm::{CloneRequest, View};
use vmwright::secret::Secret;

use crate::reference::{Door, decode};
use crate::schema::Schema;

const UPID: &str = "UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmclone:9000:root@pam!oracle:";
const DIGEST: &str = "a3d8cf33354b7d05d35610c7815bbab28612e77e";

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn vmid(number: u32) -> VmId {
    number.try_into().unwrap()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Everything that the client can send, with representative arguments. Answers are of no interest here.
async fn all_calls(client: &Client, door: &Arc<Door>) -> Vec<ApiRequest> {
    let pve1 = node("pve1");
    let vm = vmid(101);
    let upid: Upid = UPID.parse().unwrap();
    let store: StorageName = "vmdata".parse().unwrap();

    // The login is the transport's own request.
    let login = login::body("root@pam", &Secret::new("pass word"));
    let fields = login.expose().split('&').filter_map(|pair| pair.split_once('='));
    let params = fields.map(|(name, value)| (name.to_owned(), decode(value))).collect();
    door.sent.lock().unwrap().push(ApiRequest {
        method: Method::Post,
        path: "/access/ticket".to_owned(),
        params,
    });

    let _ = client.version().await;
    let _ = client.cluster_status().await;
    let _ = client.nodes().await;
    let _ = client.permissions(None).await;
    let _ = client.permissions(Some("/vms/101")).await;
    let _ = client.resources_vm().await;
    let _ = client.next_id(None).await;
    let _ = client.next_id(Some(vm)).await;

    let _ = client.node_vms(&pve1).await;
    let _ = client.vm_config(&pve1, vm, View::Pending).await;
    let _ = client.vm_config(&pve1, vm, View::Current).await;
    let _ = client.vm_pending(&pve1, vm).await;
    let _ = client.vm_status(&pve1, vm).await;
    let _ = client.clone_vm(&pve1, vmid(9000), &CloneRequest::new(vm)).await;
    let everything = CloneRequest {
        newid: vm,
        name: Some("web-0.example.test".to_owned()),
        full: Some(true),
        storage: Some(store.clone()),
        format: Some("qcow2".to_owned()),
        target: Some(node("pve2")),
        description: Some("notes\nin two lines".to_owned()),
        pool: Some("ci".to_owned()),
    };
    let _ = client.clone_vm(&pve1, vmid(9000), &everything).await;
    let hardware = pairs(&[
        ("cores", "4"),
        ("sockets", "1"),
        ("cpu", "host"),
        ("memory", "4096"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-single"),
        ("agent", "1"),
        ("vga", "serial0"),
        ("serial0", "socket"),
        ("onboot", "1"),
        ("tags", "ci;web"),
        ("description", "a text"),
        ("boot", "order=virtio0;net0"),
        (
            "virtio0",
            "vmdata:101/vm-101-disk-0.qcow2,discard=on,iothread=1,size=10G",
        ),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=20,firewall=1"),
        (
            "net1",
            "virtio=BC:24:11:00:00:02,bridge=vmbr1,mtu=1500,queues=2,rate=12.5",
        ),
        (
            "cicustom",
            "user=local:snippets/web-0-user-data-ci.yml,network=local:snippets/web-0-network-data-ci.yml",
        ),
    ]);
    let _ = client.set_config(&pve1, vm, Some(DIGEST), &hardware, &[]).await;
    let _ = client
        .set_config(&pve1, vm, None, &[], &["ide2".to_owned(), "net1".to_owned()])
        .await;
    let disk = pairs(&[
        ("virtio1", "vmdata:20,format=qcow2,backup=0,cache=writeback"),
        ("scsi2", "vmdata:1,ssd=1"),
    ]);
    let _ = client
        .set_config_task(&pve1, vm, Some(DIGEST), &disk, &["unused0".to_owned()])
        .await;
    let _ = client.resize(&pve1, vm, "virtio0", 21_474_836_480, Some(DIGEST)).await;
    let _ = client.resize(&pve1, vm, "scsi30", 1 << 30, None).await;
    let _ = client.migrate_check(&pve1, vm, &node("pve2")).await;
    let _ = client.migrate(&pve1, vm, &node("pve2"), false).await;
    let _ = client.migrate(&pve1, vm, &node("pve2"), true).await;
    let _ = client.start(&pve1, vm).await;
    let _ = client.stop(&pve1, vm).await;
    let _ = client.shutdown(&pve1, vm, Duration::from_secs(90), false).await;
    let _ = client.shutdown(&pve1, vm, Duration::from_secs(90), true).await;
    let _ = client.reboot(&pve1, vm, Duration::from_secs(60)).await;
    let _ = client.delete_vm(&pve1, vm, true).await;
    let _ = client.delete_vm(&pve1, vm, false).await;
    let _ = client.regenerate_cloudinit(&pve1, vm).await;

    let _ = client.task_status(&upid).await;
    let _ = client.task_log(&upid, 0, 0).await;
    let _ = client.task_log(&upid, 50, 500).await;
    let _ = client.tasks(&pve1, &TaskFilter::default()).await;
    let narrow = TaskFilter {
        vmid: Some(vmid(9000)),
        kind: Some("qmclone".to_owned()),
        since: Some(1_796_069_621),
        running_only: true,
    };
    let _ = client.tasks(&pve1, &narrow).await;

    let _ = client.storages(&pve1).await;
    let _ = client.storage_config(&store).await;
    let _ = client.content(&pve1, &store, None, None).await;
    let _ = client.content(&pve1, &store, Some("snippets"), Some(vm)).await;
    let _ = client.bridges(&pve1).await;

    let _ = client.agent_ping(&pve1, vm).await;
    let _ = client.agent_interfaces(&pve1, vm).await;
    let _ = client.snapshots(&pve1, vm).await;
    let _ = client.replication_jobs(&pve1, vm).await;
    let _ = client
        .agent_read_file(&pve1, vm, "/etc/ssh/ssh_host_ed25519_key.pub")
        .await;
    let _ = client
        .agent_exec(&pve1, vm, &["/bin/sh", "-c", "cat"], Some("input"))
        .await;
    let _ = client.agent_exec_status(&pve1, vm, 4711).await;

    door.sent.lock().unwrap().clone()
}

async fn sent() -> Vec<ApiRequest> {
    let answer = ApiResponse {
        status: 200,
        reason: "OK".to_owned(),
        body: b"{\"data\":null}".to_vec(),
    };
    let (client, door) = Door::answering(answer);
    all_calls(&client, &door).await
}

#[tokio::test]
async fn every_request_obeys_the_schema_of_8_4_and_9_2() {
    let Some(schemas) = Schema::load(&["8.4", "9.2"]) else {
        return;
    };
    let requests = sent().await;
    assert!(requests.len() >= 49, "only {} requests", requests.len());
    let violations: Vec<String> = schemas
        .iter()
        .flat_map(|schema| requests.iter().flat_map(|request| schema.violations(request)))
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    let calls: BTreeSet<String> = requests
        .iter()
        .filter_map(|request| schemas[1].template(request.method.as_str(), &request.path))
        .map(|(call, _)| call)
        .collect();
    assert_eq!(calls.len(), 37, "{calls:#?}");
}

#[tokio::test]
async fn only_the_agents_command_differs_on_7_4() {
    let Some(schemas) = Schema::load(&["7.4"]) else { return };
    let requests = sent().await;
    let violations: Vec<String> = requests
        .iter()
        .flat_map(|request| schemas[0].violations(request))
        .filter(|text| !text.contains("agent/exec"))
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_check_itself_finds_what_is_wrong() {
    let Some(schemas) = Schema::load(&["9.2"]) else { return };
    let found = |method, path: &str, params: &[(&str, &str)]| {
        schemas[0].violations(&ApiRequest {
            method,
            path: path.to_owned(),
            params: pairs(params),
        })
    };
    let config = "/nodes/pve1/qemu/100/config";
    for (method, path, params) in [
        (Method::Post, "/nodes/pve1/qemu/9000/clone", &[] as &[(&str, &str)]),
        (Method::Post, "/nodes/pve1/qemu/9000/clone", &[("newid", "99")]),
        (
            Method::Post,
            "/nodes/pve1/qemu/9000/clone",
            &[("newid", "101"), ("full", "true")],
        ),
        (
            Method::Post,
            "/nodes/pve1/qemu/9000/clone",
            &[("newid", "101"), ("name", "under_score")],
        ),
        (Method::Put, config, &[("cores", "0")]),
        (Method::Put, config, &[("corse", "1")]),
        (Method::Put, config, &[("net32", "virtio,bridge=vmbr0")]),
        (Method::Put, config, &[("net0", "virtio,bridge=vmbr0,tag=4095")]),
        (Method::Put, config, &[("net0", "bridge=vmbr0")]),
        (Method::Put, config, &[("scsi0", "vmdata:1,foo=1")]),
        (
            Method::Put,
            config,
            &[("digest", "00112233445566778899aabbccddeeff0011223344")],
        ),
        (
            Method::Put,
            "/nodes/pve1/qemu/100/resize",
            &[("disk", "scsi31"), ("size", "1G")],
        ),
        (
            Method::Put,
            "/nodes/pve1/qemu/100/resize",
            &[("disk", "scsi0"), ("size", "1 GiB")],
        ),
        (Method::Get, "/nodes/pve1/qemu/5/config", &[]),
        (Method::Get, "/nodes/pve1/nothing", &[]),
    ] {
        assert!(!found(method, path, params).is_empty(), "{method} {path} {params:?}");
    }
}
