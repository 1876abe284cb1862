//! One VM is one host's: names, addresses and records that two hosts of the inventory share, and a host that was renamed.

use crate::remove;
use crate::support::Site;

/// The site's hosts, written anew.
fn hosts(site: &Site, lines: &[&str]) {
    let text = site.read("inventory/hosts.ini");
    let rest = text.split("\n\n[proxmox_nodes]").nth(1).unwrap();
    let lines = lines.join("\n");
    site.write(
        "inventory/hosts.ini",
        &format!("[vms]\n{lines}\n\n[proxmox_nodes]{rest}"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_or_address_that_another_host_has_is_found_out_whichever_is_selected() {
    let site = remove::with("", |_| {}).await;
    let address = site.address(0);
    let taken = format!("web-1 vms_proxmox_node=pve-1 global_ip_address={address}");
    let first = "web-0 vms_proxmox_node=pve-0 vms_name=web";
    let table = [
        ("web-1 vms_proxmox_node=pve-1 vms_name=web", "machine/duplicate-name"),
        (taken.as_str(), "machine/duplicate-address"),
    ];
    for (second, code) in table {
        hosts(&site, &[first, second]);
        for (host, name) in [("web-0", "web"), ("web-1", "web")] {
            for args in [
                vec!["provision", "--limit", host],
                vec!["remove", "--limit", host, "--confirm", name],
            ] {
                let run = site.vmwright(&args).await;
                run.assert_code(2);
                for text in [code, "web-0", "web-1", "it is not in this run"] {
                    run.assert_says(text);
                }
            }
        }
    }
    assert_eq!(site.changes(), []);
    // A host that cannot be compared is told, and does not stop the others.
    let broken = "web-1 vms_proxmox_node=pve-1 vms_name='{{ nobody_knows }}'";
    hosts(&site, &["web-0 vms_proxmox_node=pve-0", broken]);
    let run = site.vmwright(&["provision", "--plan", "--limit", "web-0"]).await;
    run.assert_code(0);
    for text in ["machine/not-compared", "web-1", "nobody_knows"] {
        run.assert_says(text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_on_record_as_another_host_is_left_alone_until_it_is_adopted_under_the_new_name() {
    let site = remove::with("web-1", |_| {}).await;
    let (id, configs) = (site.vm("prod-web-1", |vm| vm.vmid.to_string()), site.configs());
    let records = site.sim.pihole().unwrap().records();
    hosts(&site, &["web-2 vms_proxmox_node=pve-1 vms_name=prod-web-1"]);
    const REMOVE: [&str; 5] = ["remove", "--limit", "web-2", "--confirm", "prod-web-1"];
    let adopt = ["adopt", "web-2", "--vmid", &id, "--confirm", "prod-web-1"];
    for args in [
        vec!["provision", "--limit", "web-2"],
        vec!["provision", "--limit", "web-2", "--plan"],
        REMOVE.to_vec(),
        [&REMOVE[..], &["--plan"]].concat(),
    ] {
        let run = site.vmwright(&args).await;
        run.assert_code(4);
        run.assert_says("ownership/other-host");
        run.assert_says("host web-1, not as web-2");
        run.assert_says(&format!("vmwright {}", adopt.join(" ")));
    }
    let status = site.vmwright(&["status", "--limit", "web-2"]).await;
    status.assert_says("the record is host web-1's (ownership/other-host)");
    let status = site.vmwright(&["status", "--limit", "web-2", "--output", "json"]).await;
    status.assert_says("\"recorded_as\":\"web-1\"");
    // The number has to be that of the record, and the name is wanted as ever.
    site.vmwright(&["adopt", "web-2", "--vmid", "4711", "--confirm", "prod-web-1"])
        .await
        .assert_code(4);
    site.vmwright(&adopt[..4]).await.assert_code(4);
    assert_eq!(site.record("prod-web-1").unwrap()["host"], "web-1");
    assert_eq!((site.changes(), site.configs()), (vec![], configs));
    assert_eq!(site.sim.pihole().unwrap().records(), records);

    let run = site.vmwright(&adopt).await;
    run.assert_code(0);
    run.assert_says("host web-1, complete");
    run.assert_says("entries of web-1 stay as they are");
    let record = site.record("prod-web-1").unwrap();
    assert_eq!(
        (&record["host"], &record["phase"]["is"]),
        (&"web-2".into(), &"complete".into())
    );
    assert_eq!(record["made"], true, "what vmwright made stays so");
    let run = site.vmwright(&["provision", "--limit", "web-2"]).await;
    run.assert_code(0);
    run.assert_says("unchanged");
    assert_eq!(site.changes(), []);
    site.vmwright(&REMOVE).await.assert_code(0);
    assert_eq!(site.vms(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_on_record_is_not_given_to_another_vm() {
    let site = remove::with("web-1", |_| {}).await;
    // The host is out of the inventory, and its VM is switched off: only the record knows the address.
    site.sim.with(|world| {
        let id = world.vm_named("prod-web-1").unwrap().vmid;
        world.power_off(id);
    });
    let address = site.address(1);
    hosts(
        &site,
        &[&format!("web-0 vms_proxmox_node=pve-0 global_ip_address={address}")],
    );
    let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
    run.assert_code(1);
    for text in [
        "readiness/address-recorded",
        &address,
        "prod-web-1",
        "vmwright forget web-1 --confirm prod-web-1",
    ] {
        run.assert_says(text);
    }
    assert_eq!(site.changes(), []);
    assert_eq!(site.sim.pihole().unwrap().records().hosts.len(), 1);
}
