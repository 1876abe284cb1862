//! What creation needs is not there: exit code 1, everything that is wrong is named, and nothing is written anywhere.

use vmwright::simulator::spec::{DiskSpec, Size};

use crate::support::{Plan, Site};
use crate::weather::{assert_told, assert_wrote_nothing, configs, locks};

/// What is wrong, how, the exit code, words.
type Case<'t> = (&'t str, fn(&mut Plan), i32, &'t [&'t str]);

async fn wrote_nothing(cases: &[Case<'_>]) {
    for (what, change, code, words) in cases {
        let site = Site::with(change).await;
        let before = configs(&site);
        let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
        assert_told(what, &run, *code, words);
        assert_wrote_nothing(&site, what, &run);
        assert_eq!(configs(&site), before, "{what}");
        assert!(
            *code != 1 || run.stdout.contains("go on with: vmwright provision"),
            "{what}: {}",
            run.all()
        );
    }
}

fn replace(plan: &mut Plan, from: &str, to: &str) {
    assert!(plan.vms_config.contains(from), "{from}");
    plan.vms_config = plan.vms_config.replace(from, to);
}

fn without(plan: &mut Plan, privileges: &[&str]) {
    let role = plan.spec.roles.get_mut("Automation").unwrap();
    let before = role.len();
    role.retain(|privilege| !privileges.contains(&privilege.as_str()));
    assert_eq!(role.len() + privileges.len(), before, "{privileges:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates() {
    wrote_nothing(&[
        (
            "missing template",
            |plan| plan.vms = "global_os: {debian_12: {template: debian-12-cloudinti}}\n".to_owned(),
            1,
            &[
                "[readiness/no-template]",
                "debian-12-cloudinti",
                "did you mean debian-12-cloudinit?",
                "group_vars/vms.yml",
            ],
        ),
        (
            "template without a cloud-init drive",
            |plan| plan.spec.vms[0].cloudinit = None,
            1,
            &[
                "[readiness/no-cloud-init-drive]",
                "debian-12-cloudinit",
                "qm set 9000 --ide2 STORAGE:cloudinit",
            ],
        ),
        (
            "a VM has the template's name",
            |plan| plan.spec.vms[0].template = false,
            1,
            &["[readiness/no-template]", "it must be a template"],
        ),
        (
            "a disk smaller than the template's",
            |plan| replace(plan, "size: 20", "size: 1"),
            1,
            &["[readiness/disk-too-small]", "1 GiB", "2G", "never shrink"],
        ),
        (
            "a boot disk that the template does not have",
            |plan| replace(plan, "disk: scsi0", "disk: virtio0"),
            1,
            &["[readiness/boot-disk]", "virtio0", "scsi0"],
        ),
        (
            "a boot order that names an absent device",
            |plan| plan.vms_config.push_str("  boot_order: 'order=scsi0;net3'\n"),
            1,
            &["[readiness/boot-order]", "net3", "net0"],
        ),
        (
            "an extra disk in a slot of the template's",
            |plan| {
                let disk = DiskSpec {
                    size: Size::gib(1),
                    data: None,
                    format: None,
                };
                plan.spec.vms[0].disks.insert("scsi1".to_owned(), disk);
                plan.vms_config
                    .push_str("  disk2: {disk: scsi1, size: 10, storage: local-lvm}\n");
            },
            1,
            &["[readiness/slot-taken]", "scsi1", "debian-12-cloudinit"],
        ),
        (
            "an extra disk in the cloud-init drive's slot",
            |plan| {
                plan.vms_config
                    .push_str("  disk2: {disk: ide2, size: 10, storage: local-lvm}\n")
            },
            1,
            &["[readiness/slot-taken]", "ide2"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_networks() {
    wrote_nothing(&[
        (
            "unknown node",
            |plan| plan.hosts = vec!["web-0 vms_proxmox_node=pve-9".to_owned()],
            1,
            &[
                "[readiness/unknown-node]",
                "pve-9",
                "pve-0, pve-1, pve-2",
                "hosts.ini:2",
            ],
        ),
        (
            "the node is offline: the VM could be on it",
            |plan| {
                plan.hosts = vec!["web-0 vms_proxmox_node=pve-1".to_owned()];
                plan.spec.nodes["pve-1"].online = false;
            },
            4,
            &["[ownership/unknown]", "node pve-1 is offline", "not seen is not absent"],
        ),
        (
            "the template's node is offline",
            |plan| {
                plan.vms = "global_os: {debian_12: {template: ubuntu-server-24.04-cloudinit}}\n".to_owned();
                plan.spec.nodes["pve-1"].online = false;
            },
            4,
            &["[ownership/unknown]", "node pve-1 is offline"],
        ),
        (
            "no quorum",
            |plan| plan.spec.quorate = false,
            1,
            &["[readiness/no-quorum]", "quorum"],
        ),
        (
            "bridge missing",
            |plan| replace(plan, "vmbr0", "vmbr9"),
            1,
            &["[readiness/no-bridge]", "vmbr9", "pve-0", "vmbr0, vmbr1"],
        ),
        (
            "bridge on other nodes only",
            |plan| {
                plan.spec.bridges["vmbr1"].nodes = vec!["pve-2".to_owned()];
                replace(plan, "vmbr0", "vmbr1");
            },
            1,
            &["[readiness/no-bridge]", "vmbr1"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn storages() {
    wrote_nothing(&[
        (
            "a storage that takes no images",
            |plan| plan.spec.storages["local-lvm"].content = vec!["rootdir".to_owned()],
            1,
            &[
                "[readiness/content-type]",
                "local-lvm",
                "images",
                "pvesm set local-lvm --content rootdir,images",
            ],
        ),
        (
            "a storage that takes no snippets",
            |plan| plan.spec.storages["local"].content.retain(|kind| kind != "snippets"),
            1,
            &[
                "[readiness/content-type]",
                "storage local does not take snippets",
                "pvesm set local --content",
            ],
        ),
        (
            "a storage that is not there",
            |plan| replace(plan, "storage: local-lvm", "storage: local-lmv"),
            1,
            &["[readiness/no-storage]", "local-lmv", "did you mean local-lvm?"],
        ),
        (
            "a storage of an extra disk that is not there",
            |plan| {
                plan.vms_config
                    .push_str("  disk2: {disk: scsi1, size: 10, storage: nas}\n")
            },
            1,
            &["[readiness/no-storage]", "nas", "vms_config.disk2.storage"],
        ),
        (
            "a storage that does not answer",
            |plan| {
                plan.spec.storages["ceph-vm"].active = false;
                plan.spec.vms.remove(1);
                replace(plan, "storage: local-lvm", "storage: ceph-vm");
            },
            1,
            &[
                "[readiness/storage-inactive]",
                "ceph-vm",
                "not active on pve-0",
                "(vms_config.storage)",
            ],
        ),
        (
            "a storage that is switched off",
            |plan| {
                plan.spec.storages["ceph-vm"].disabled = true;
                plan.spec.vms.remove(1);
                replace(plan, "storage: local-lvm", "storage: ceph-vm");
            },
            1,
            &["[readiness/", "ceph-vm"],
        ),
        (
            "several at once",
            |plan| {
                plan.spec.storages["local"].content.retain(|kind| kind != "snippets");
                plan.spec.vms[0].cloudinit = None;
                replace(plan, "vmbr0", "vmbr9");
            },
            1,
            &[
                "[readiness/several]",
                "readiness/content-type",
                "readiness/no-cloud-init-drive",
                "readiness/no-bridge",
                "vmbr9",
            ],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges() {
    wrote_nothing(&[
        (
            "may not clone",
            |plan| without(plan, &["VM.Clone"]),
            1,
            &[
                "[readiness/privileges]",
                "lacks VM.Clone on /vms/9000",
                "pveum role modify ROLE --append --privs 'VM.Clone'",
                "pveum acl list",
                "group_vars/all.yml:4:26 (global_proxmox_api_user)",
            ],
        ),
        (
            "may neither allocate nor power on",
            |plan| without(plan, &["VM.Allocate", "VM.PowerMgmt", "Datastore.AllocateSpace"]),
            1,
            &["readiness/privileges", "VM.Allocate", "VM.PowerMgmt", "Datastore.AllocateSpace on /storage/local-lvm"],
        ),
        (
            "has no role on storages at all",
            |plan| {
                plan.spec.acl[0].propagate = false;
                for path in ["/vms", "/nodes", "/sdn"] {
                    let rule = vmwright::simulator::spec::AclSpec {
                        path: path.to_owned(),
                        propagate: true,
                        ..plan.spec.acl[0].clone()
                    };
                    plan.spec.acl.push(rule);
                }
            },
            1,
            &[
                "readiness/",
                "pveum role add VmwrightStorageLocalLvm --privs 'Datastore.AllocateSpace' && pveum acl modify /storage/local-lvm --users 'automation@pve' --tokens 'automation@pve!vmwright' --roles VmwrightStorageLocalLvm",
            ],
        ),
        (
            "may not use the bridge",
            |plan| without(plan, &["SDN.Use"]),
            1,
            &["readiness/no-bridge", "bridges that it may use: none", "lacks SDN.Use on /sdn/zones/localnetwork/vmbr0"],
        ),
        (
            "may not migrate, and has to",
            |plan| {
                plan.hosts = vec!["web-0 vms_proxmox_node=pve-2".to_owned()];
                without(plan, &["VM.Migrate"]);
            },
            1,
            &["readiness/privileges", "VM.Migrate"],
        ),
        (
            "may not see all VMs",
            |plan| without(plan, &["VM.Audit"]),
            4,
            &["[ownership/unknown]", "VM.Audit on /vms"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_answers_already_is_left_alone() {
    let site = Site::start().await;
    let _stranger = std::net::TcpListener::bind((site.address(0).as_str(), crate::support::SSH_PORT)).unwrap();
    let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
    let address = site.address(0);
    assert_told(
        "in use",
        &run,
        1,
        &[
            "[readiness/address-in-use]",
            &address,
            "web-0 does not exist",
            "one machine",
        ],
    );
    assert_wrote_nothing(&site, "in use", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_went_offline_stops_a_resumed_creation_where_it_is() {
    let site = Site::start().await;
    crate::weather::fault(
        &site,
        "POST",
        "/nodes/*/qemu/*/migrate",
        crate::weather::answer(500, "no such luck"),
    );
    let run = site.vmwright(&["provision", "--limit", "web-1"]).await;
    assert_told("migrate", &run, 1, &["FAILED at migrate", "no such luck"]);
    site.sim.with(|world| world.set_node_online("pve-1", false));
    let before = configs(&site);
    site.sim.handle().clear_requests();
    let run = site.vmwright(&["provision", "--limit", "web-1"]).await;
    assert_told(
        "offline",
        &run,
        1,
        &["[readiness/node-offline]", "pve-1", "hosts.ini:3"],
    );
    assert_eq!((site.changes(), configs(&site), locks(&site)), (vec![], before, vec![]));
    // Back again: the same command goes on with the one VM.
    site.sim.with(|world| world.set_node_online("pve-1", true));
    let run = site.vmwright(&["provision", "--limit", "web-1"]).await;
    run.assert_code(0);
    assert_eq!(site.vms(), [(100, "prod-web-1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_image_relies_on_is_warned_about_before_anything_is_written() {
    let site = Site::with(|plan| {
        plan.spec.vms[0]
            .config
            .retain(|key, _| !["serial0", "vga", "agent"].contains(&key.as_str()));
        plan.vms = "vms_enable_serial_terminal: false\nglobal_packages_list: [vim]\n".to_owned();
    })
    .await;
    let run = site.vmwright(&["provision", "--plan", "--limit", "web-0"]).await;
    run.assert_code(0);
    for text in [
        "readiness/no-serial",
        "qm set 9000 --serial0 socket",
        "readiness/no-agent",
        "qemu-guest-agent",
    ] {
        run.assert_says(text);
    }
}
