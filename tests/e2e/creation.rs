//! What each stage of creation leaves in the cluster, on the nodes and in the Pi-hole, up to the moment of the first start.
//!
//! `inventory_hostname` (web-1) and `vms_name` (prod-web-1) differ in all of them.

use std::os::unix::fs::PermissionsExt as _;

use vmwright::simulator::pihole::Records;

use crate::support::{Site, param};

const WEB_1: [&str; 3] = ["provision", "--limit", "web-1"];

/// A site in which web-1 has come as far as its first start, and no further.
async fn before_the_first_start() -> Site {
    let site = Site::start().await;
    site.hold("POST", "*/status/start");
    site.killed_there(&WEB_1).await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn before_its_first_start_everything_is_in_place() {
    let site = before_the_first_start().await;

    // Clone: a full one, of the template that the OS key names, under the VM's name.
    let clones = site.changes_to("/clone");
    assert_eq!(clones.len(), 1);
    assert_eq!(clones[0].path, "/nodes/pve-0/qemu/9000/clone");
    assert_eq!(param(&clones[0], "full"), Some("1"));
    assert_eq!(param(&clones[0], "name"), Some("prod-web-1"));
    assert_eq!(site.vms().len(), 1);
    site.vm("prod-web-1", |vm| {
        assert!(!vm.is_running() && !vm.guest.has_run());
        assert_eq!(vm.lock(), None);
        let disk = vm.config.get("scsi0").unwrap();
        assert!(!disk.contains("base-"), "a linked clone: {disk}");
    });

    // Migrate: offline, to the requested node, before anything was started.
    assert_eq!(site.vm("prod-web-1", |vm| vm.node.clone()), "pve-1");
    let migrations = site.changes_to("/migrate");
    assert_eq!(migrations.len(), 1);
    assert!(matches!(param(&migrations[0], "online"), None | Some("0")));
    assert_eq!(site.changes_to("/status/start"), []);

    // DNS: the guest's name, not the VM's, and no session is left open, though the run was killed.
    let pihole = site.sim.pihole().unwrap();
    let address = site.address(1);
    assert_eq!(pihole.records().hosts, [format!("{address} web-1.test.example")]);
    assert_eq!(pihole.open_sessions(), 0, "{:?}", pihole.log());

    // Snippets: two files, named after the VM, on the node that starts it, for its owner only.
    assert_eq!(site.snippets("pve-0", "local"), Vec::<String>::new());
    let names = site.snippets("pve-1", "local");
    assert_eq!(names, ["prod-web-1-network-data-ci.yml", "prod-web-1-user-data-ci.yml"]);
    let dir = site.snippet_dir("pve-1", "local");
    assert!(dir.ends_with("nodes/pve-1/var/lib/vz/snippets"), "{}", dir.display());
    for name in &names {
        let mode = std::fs::metadata(dir.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(
        site.key("prod-web-1", "cicustom").as_deref(),
        Some("user=local:snippets/prod-web-1-user-data-ci.yml,network=local:snippets/prod-web-1-network-data-ci.yml")
    );
    let user_data = std::fs::read_to_string(dir.join(&names[1])).unwrap();
    for line in [
        "#cloud-config",
        "hostname: web-1",
        "fqdn: web-1.test.example",
        "name: ansible",
        "timezone: Etc/UTC",
        "- qemu-guest-agent",
        "NOPASSWD:ALL",
        "ssh-ed25519 ",
    ] {
        assert!(user_data.contains(line), "{line:?} is not in\n{user_data}");
    }
    assert!(!user_data.contains("prod-web-1"), "{user_data}");
    let network_data = std::fs::read_to_string(dir.join(&names[0])).unwrap();
    let gateway = address.rsplit_once('.').unwrap().0.to_owned() + ".1";
    for text in ["ens18", &format!("{address}/24"), &gateway, "test.example"] {
        assert!(network_data.contains(text), "{text:?} is not in\n{network_data}");
    }

    // The record, the lock's name and the mark: all by the VM's name.
    let record = site.record("prod-web-1").unwrap();
    assert_eq!(record["host"], "web-1");
    assert_eq!(record["phase"]["is"], "created");
    assert_eq!(site.record("web-1"), None);
    // The mark of the clone is gone from the notes again.
    assert_eq!(site.key("prod-web-1", "description"), None);

    // The rest of the way, by the guest's name.
    site.vmwright(&WEB_1).await.assert_code(0);
    assert_eq!(
        site.guest_file("prod-web-1", "etc/hostname").as_deref(),
        Some("web-1\n")
    );
    let known = site.read("known_hosts");
    assert!(
        known.contains("web-1.test.example") && !known.contains("prod-web-1"),
        "{known}"
    );
    // The documents go once nothing refers to them, and so does the reference.
    assert_eq!(site.snippets("pve-1", "local"), Vec::<String>::new());
    assert_eq!(site.key("prod-web-1", "cicustom"), None);
    assert_eq!(pihole.records().hosts.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn snippets_and_their_reference_stay_where_the_inventory_wants_it() {
    let site = Site::with(|plan| {
        plan.all = "vms_keep_snippets: true\nvms_snippets_storage: cephfs\n".to_owned();
    })
    .await;
    let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
    run.assert_code(0);
    // A storage of another kind: its own real path, on the destination node.
    let dir = site.snippet_dir("pve-0", "cephfs");
    assert!(dir.ends_with("mnt/pve/cephfs/snippets"), "{}", dir.display());
    let names = site.snippets("pve-0", "cephfs");
    assert_eq!(
        names,
        ["web-0-network-data-ci.yml", "web-0-user-data-ci.yml"],
        "{}",
        run.all()
    );
    let cicustom = site.key("web-0", "cicustom").unwrap();
    assert!(
        cicustom.starts_with("user=cephfs:snippets/") && !cicustom.contains("meta="),
        "{cicustom}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn snippets_can_be_written_into_a_mounted_folder_without_ssh_to_the_node() {
    let site = Site::start().await;
    let folder = site.snippet_dir("pve-0", "local");
    std::fs::create_dir_all(&folder).unwrap();
    // The node's SSH would not let us in.
    site.write("inventory/group_vars/proxmox_nodes.yml", "ansible_user: nobody\n");
    let run = site
        .vmwright(&[
            "provision",
            "--limit",
            "web-0",
            "-e",
            &format!("vms_snippets_path={}", folder.display()),
        ])
        .await;
    run.assert_code(0);
    run.assert_says(&format!("{}", folder.display()));
    assert_eq!(site.snippets("pve-0", "local"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dns_record_that_is_there_is_not_added_again_and_others_stay() {
    let site = Site::start().await;
    let pihole = site.sim.pihole().unwrap();
    let records = Records {
        hosts: vec![
            "192.0.2.7 old.test.example".to_owned(),
            format!("{} web-0.test.example", site.address(0)),
        ],
        ..Records::default()
    };
    pihole.set_records(records.clone()).unwrap();
    let run = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_eq!(pihole.records(), records);
    assert!(
        pihole
            .log()
            .iter()
            .all(|request| request.method != "PUT" && request.path != "/api/config"),
        "{:?}",
        pihole.log()
    );
    assert_eq!(pihole.open_sessions(), 0);
    assert!(pihole.opened_sessions() > 0);
    let changed = run.end("web-0")["changed"].clone();
    assert!(!changed.as_array().unwrap().contains(&"dns".into()), "{changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_stays_on_the_templates_node_is_not_migrated() {
    let site = Site::start().await;
    let run = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_eq!(site.changes_to("/migrate"), []);
    assert_eq!(site.vm("web-0", |vm| vm.node.clone()), "pve-0");
    let changed = run.end("web-0")["changed"].clone();
    assert!(!changed.as_array().unwrap().contains(&"migrate".into()), "{changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_on_shared_storage_goes_to_its_node_at_once() {
    let site = Site::with(|plan| {
        plan.vms = "vms_proxmox_node: pve-2\n".to_owned();
        plan.hosts = vec!["web-0 vms_os=ubuntu_24_server".to_owned()];
        plan.vms_config = "  cores: 2\n  memory: 2048\n  scsihw: virtio-scsi-single\n  storage: ceph-vm\n  \
                           disk_os: {disk: virtio0, size: 20}\n  nic0: {bridge: vmbr0}\n"
            .to_owned();
    })
    .await;
    let run = site.vmwright(&["provision"]).await;
    run.assert_code(0);
    let clones = site.changes_to("/clone");
    assert_eq!(clones[0].path, "/nodes/pve-1/qemu/9001/clone");
    assert_eq!(param(&clones[0], "target"), Some("pve-2"));
    assert_eq!(site.changes_to("/migrate"), []);
    assert_eq!(site.vm("web-0", |vm| vm.node.clone()), "pve-2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_vm_id_is_taken_or_the_host_fails_before_any_vm_is_made() {
    let site = Site::with(|plan| {
        plan.hosts = vec![
            "web-0 vms_proxmox_node=pve-0 vms_vmid=4711".to_owned(),
            "web-1 vms_proxmox_node=pve-0 vms_vmid=9001".to_owned(),
        ];
    })
    .await;
    let run = site.vmwright(&["provision", "--output", "json"]).await;
    run.assert_code(1);
    assert_eq!(site.vms(), [(4711, "web-0".to_owned())]);
    assert_eq!(run.end("web-0")["vmid"], 4711);
    let end = run.end("web-1");
    assert_eq!(end["diagnostic"]["code"], "readiness/vmid-taken", "{end}");
    assert_eq!(site.changes_to("/clone").len(), 1);
}
