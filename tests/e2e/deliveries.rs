//! Snippets hold a password hash: they go from every folder that they were delivered to, wherever the inventory points now.

use vmwright::simulator::fault::{Action, Fault};

use crate::remove;
use crate::support::{Plan, Site};

const PROVISION: [&str; 3] = ["provision", "--limit", "web-1"];

fn refuse(site: &Site, path: &str) {
    let action = Action::Answer {
        status: 500,
        text: "not today".to_owned(),
    };
    site.sim.faults().add(Fault::on("POST", path, action).always());
}

/// All snippets of web-1 that lie anywhere, as `node storage name`.
fn left(site: &Site) -> Vec<String> {
    let mut left = Vec::new();
    for node in ["pve-0", "pve-1", "pve-2"] {
        for storage in ["local", "cephfs"] {
            let names = site.snippets(node, storage);
            let ours = names.iter().filter(|name| name.starts_with("prod-web-1-"));
            left.extend(ours.map(|name| format!("{node} {storage} {name}")));
        }
    }
    left
}

/// The folders on record, as `node path`.
fn on_record(site: &Site) -> Vec<String> {
    let record = site.record("prod-web-1").unwrap();
    let deliveries = record["deliveries"].as_array().cloned().unwrap_or_default();
    let shown = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    deliveries
        .iter()
        .map(|delivery| format!("{} {}", shown(&delivery["node"]), shown(&delivery["path"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_node_or_storage_leaves_no_snippet_behind() {
    let changes = [
        ("vms_proxmox_node=pve-2", "pve-2 /var/lib/vz/snippets"),
        ("vms_snippets_storage=cephfs", "pve-1 /mnt/pve/cephfs/snippets"),
    ];
    // Before the documents are read, and after.
    for (step, goes_on_elsewhere) in [
        ("/nodes/*/qemu/*/status/start", true),
        ("/nodes/*/qemu/*/status/reboot", false),
    ] {
        for (change, second) in changes {
            let site = Site::start().await;
            refuse(&site, step);
            site.vmwright(&PROVISION).await.assert_code(1);
            let first = "pve-1 /var/lib/vz/snippets".to_owned();
            assert_eq!(on_record(&site), [first.as_str()], "{step} {change}");
            assert_eq!(left(&site).len(), 2, "{step} {change}");

            let args = [&PROVISION[..], &["-e", change]].concat();
            site.vmwright(&args).await.assert_code(1);
            let mut known = vec![first];
            known.extend(goes_on_elsewhere.then(|| second.to_owned()));
            assert_eq!(on_record(&site), known, "{step} {change}");
            site.sim.faults().clear();
            let run = site.vmwright(&args).await;
            run.assert_code(0);
            assert_eq!(left(&site), Vec::<String>::new(), "{step} {change}\n{}", run.all());
            assert_eq!(on_record(&site), Vec::<String>::new(), "{step} {change}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_clears_every_folder_on_record() {
    let keep = |plan: &mut Plan| plan.vms = "vms_keep_snippets: true\n".to_owned();
    let site = remove::with("web-1", keep).await;
    assert_eq!(on_record(&site), ["pve-1 /var/lib/vz/snippets"]);
    assert_eq!(left(&site).len(), 2);
    let args = [
        "remove",
        "--limit",
        "web-1",
        "--confirm",
        "prod-web-1",
        "-e",
        "vms_proxmox_node=pve-0",
    ];
    let plan = site.vmwright(&[&args[..], &["--plan"]].concat()).await;
    plan.assert_code(0);
    plan.assert_says("snippet: prod-web-1-user-data-ci.yml on pve-1");
    let run = site.vmwright(&args).await;
    run.assert_code(0);
    assert_eq!(left(&site), Vec::<String>::new(), "{}", run.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_left_the_cluster_does_not_hold_a_removal_up() {
    let keep = |plan: &mut Plan| plan.vms = "vms_keep_snippets: true\n".to_owned();
    let site = remove::with("web-1", keep).await;
    let path = site
        .tree("state/records")
        .into_iter()
        .map(|(path, ..)| path)
        .find(|path| path.is_file())
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let elsewhere = "\"deliveries\": [{\"node\": \"pve-9\", \"path\": \"/srv/snippets\"},";
    std::fs::write(&path, text.replace("\"deliveries\": [", elsewhere)).unwrap();
    let run = site
        .vmwright(&["remove", "--limit", "web-1", "--confirm", "prod-web-1"])
        .await;
    run.assert_code(0);
    run.assert_says("snippets/node-gone");
    run.assert_says("pve-9");
    assert_eq!(left(&site), Vec::<String>::new(), "{}", run.all());
    assert_eq!(site.record("prod-web-1"), None);
}
