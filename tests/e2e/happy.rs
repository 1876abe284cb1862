//! The main job, the order of its stages, and that it is done once.

use crate::support::{Site, param};

/// The documented order of creation.
const CREATION: [&str; 13] = [
    "lock",
    "discover",
    "ownership",
    "readiness",
    "dns",
    "snippets",
    "clone",
    "migrate",
    "hardware",
    "start",
    "cloud-init",
    "trust",
    "finalize",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_line_in_the_inventory_becomes_a_finalized_vm_once() {
    let site = Site::start().await;
    let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
    run.assert_code(0);
    assert_eq!(
        site.vms().iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
        ["web-0"]
    );
    let config = site.config("web-0");
    assert!(
        !config
            .iter()
            .any(|(key, value)| key.starts_with("ide") && value.contains("cloudinit")),
        "{config:?}"
    );
    assert_eq!(site.locks(), Vec::<std::path::PathBuf>::new());
    assert_eq!(site.phase("web-0").as_deref(), Some("complete"));

    site.sim.handle().clear_requests();
    let again = site.vmwright(&["provision", "--limit", "web-0"]).await;
    again.assert_code(0);
    assert_eq!(site.changes(), [], "{}", again.all());
    again.assert_says("unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stages_run_in_the_documented_order() {
    let site = Site::start().await;
    // web-1 is called prod-web-1 in Proxmox and lives on another node than the template: every stage has work to do.
    let run = site
        .vmwright(&["provision", "--limit", "web-1", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_eq!(run.stages("web-1"), CREATION);
    let end = run.end("web-1");
    assert_eq!(end["outcome"], "changed");
    assert_eq!(end["name"], "prod-web-1");
    assert_eq!(end["node"], "pve-1");

    // The same order, as the API saw it.
    let order = [
        site.position("/clone"),
        site.position("/migrate"),
        site.position("/config"),
        site.position("/resize"),
        site.position("/status/start"),
        site.position("/status/reboot"),
    ];
    assert!(order.is_sorted(), "{:#?}", site.changes());
    assert_eq!(site.changes_to("/status/start").len(), 1);
    let node_of_start = &site.changes_to("/status/start")[0].path;
    assert!(node_of_start.starts_with("/nodes/pve-1/"), "{node_of_start}");

    // The DNS record, the snippets and the clone, as the clocks have it: DNS before the clone.
    let first_clone = site.changes_to("/clone")[0].at_ms;
    let log = site.sim.pihole().unwrap().log();
    assert!(log.iter().any(|request| request.method == "PUT"), "{log:?}");
    assert!(first_clone > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_vm_is_left_alone_whatever_happened_to_it_since() {
    let site = Site::start().await;
    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    let before = site.record("web-0").unwrap();

    // Other cores, more memory and a bigger disk in the inventory: provisioning is creation only.
    site.write(
        "inventory/host_vars/web-0.yml",
        "vms_config: {agent: '1', cores: 8, sockets: 1, cpu: host, memory: 8192, ostype: l26, scsihw: virtio-scsi-single, \
         storage: local-lvm, disk_os: {disk: scsi0, size: 40}, nic0: {model: virtio, bridge: vmbr1}}\n",
    );
    // An operator moved it to another node, and stopped it.
    let vmid = site.vms()[0].0;
    site.sim.with(|world| {
        let vm = world.vms.get_mut(&vmid).unwrap();
        vm.power = vmwright::simulator::vm::Power::Stopped;
        let now = world.now_ms();
        world.guest_mut(vmid).unwrap().power_off(now);
        world.vms.get_mut(&vmid).unwrap().node = "pve-2".to_owned();
        for volume in world.volumes.iter_mut().filter(|volume| volume.vmid == vmid) {
            volume.node = "pve-2".to_owned();
        }
    });
    let configs = site.configs();
    site.sim.handle().clear_requests();
    let again = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    again.assert_code(0);
    assert_eq!(site.changes(), [], "{}", again.all());
    assert_eq!(site.configs(), configs);
    assert_eq!(again.stages("web-0"), ["lock", "discover", "ownership"]);
    assert_eq!(again.end("web-0")["outcome"], "unchanged");
    assert_eq!(site.record("web-0").unwrap()["phase"]["is"], before["phase"]["is"]);

    let status = site.vmwright(&["status", "--limit", "web-0", "--output", "json"]).await;
    status.assert_code(0);
    let row = &status.events()[0];
    assert_eq!(row["phase"], "complete");
    assert_eq!(row["node"], "pve-2");
    assert_eq!(row["power"], "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_limited_host_is_touched() {
    let site = Site::start().await;
    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    assert_eq!(site.record("prod-web-1"), None);
    assert!(!site.read("known_hosts").contains("web-1"));
    let created: Vec<String> = site
        .changes_to("/clone")
        .iter()
        .map(|request| param(request, "name").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(created, ["web-0"]);
    let unknown = site.vmwright(&["provision", "--limit", "web-O"]).await;
    unknown.assert_code(2);
    unknown.assert_says("web-0");
}

/// The privileges of the role that docs/getting-started.md has the reader make.
fn documented_role() -> Vec<String> {
    let guide = include_str!("../../docs/getting-started.md");
    let role = guide.split("--privs '").nth(1).and_then(|rest| rest.split('\'').next());
    role.unwrap().split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_role_is_enough_for_a_whole_life() {
    let site = crate::remove::with("", |plan| {
        *plan.spec.roles.get_mut("Automation").unwrap() = documented_role();
    })
    .await;
    for _ in 0..2 {
        site.vmwright(&["provision", "--limit", "web-1"]).await.assert_code(0);
    }
    // It was moved there from the template's node, restarted, and goes again.
    assert!(!site.changes_to("/migrate").is_empty());
    let remove = ["remove", "--limit", "web-1", "--confirm", "prod-web-1"];
    site.vmwright(&remove).await.assert_code(0);
    assert_eq!(site.vms(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_role_finds_the_snippet_folder_wherever_it_is() {
    let site = crate::remove::with("", |plan| {
        *plan.spec.roles.get_mut("Automation").unwrap() = documented_role();
        let local = plan.spec.storages.get_mut("local").unwrap();
        local.path = Some("/srv/pve".to_owned());
    })
    .await;
    site.vmwright(&["provision", "--limit", "web-1", "-e", "vms_keep_snippets=true"])
        .await
        .assert_code(0);
    assert_eq!(site.snippets("pve-1", "local").len(), 2);
    let guessed = crate::weather::snippets(&site);
    assert!(guessed.is_empty(), "{guessed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_in_a_mounted_folder_have_the_mode_that_is_declared() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::start().await;
    let folder = site.snippet_dir("pve-1", "local");
    std::fs::create_dir_all(&folder).unwrap();
    let path = format!("vms_snippets_path={}", folder.display());
    let keep = ["-e", "vms_keep_snippets=true", "-e", &path];
    let provision = [&["provision", "--limit", "web-1"][..], &keep].concat();
    let modes = || -> Vec<u32> {
        let files = folder.read_dir().unwrap().flatten();
        files
            .map(|file| file.metadata().unwrap().permissions().mode() & 0o777)
            .collect()
    };
    // A start that the node refused since it could not read them: the same command with the mode goes on.
    site.hold("POST", "*/clone");
    site.killed_there(&provision).await;
    assert_eq!(modes(), [0o600, 0o600]);
    site.vmwright(&[&provision[..], &["-e", "vms_snippets_mode=0644"]].concat())
        .await
        .assert_code(0);
    assert_eq!(modes(), [0o644, 0o644]);
}
