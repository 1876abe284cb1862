//! Many hosts at once.

use std::collections::BTreeSet;

use vmwright::simulator::fault::{Action, Fault};

use crate::support::{Site, param};

const SIX: [&str; 6] = ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5"];

async fn six() -> Site {
    Site::with(|plan| {
        plan.hosts = SIX
            .iter()
            .enumerate()
            .map(|(index, name)| format!("{name} vms_proxmox_node=pve-{}", index % 3))
            .collect();
    })
    .await
}

/// How many tasks of a kind ran at the same time at most.
fn most_at_once(site: &Site, kind: &str) -> usize {
    let spans: Vec<(u64, u64)> = site.sim.handle().look(|world| {
        let tasks = world.tasks.iter().filter(|task| task.kind == kind);
        tasks
            .map(|task| (task.start_ms, task.end_ms.unwrap_or(u64::MAX)))
            .collect()
    });
    let at = |moment: u64| {
        spans
            .iter()
            .filter(|(from, to)| *from <= moment && moment < *to)
            .count()
    };
    spans.iter().map(|(from, _)| at(*from)).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn six_hosts_get_six_numbers_within_the_limits() {
    let site = Site::with(|plan| {
        plan.hosts = SIX
            .iter()
            .map(|name| format!("{name} vms_proxmox_node=pve-0"))
            .collect();
        // Long enough that they would overlap.
        plan.durations.clone = 300;
    })
    .await;
    let run = site.vmwright(&["provision", "--forks", "6"]).await;
    run.assert_code(0);
    let (numbers, names): (BTreeSet<u32>, BTreeSet<String>) = site.vms().into_iter().unzip();
    assert_eq!((numbers.len(), names.len()), (6, 6));
    for name in SIX {
        assert_eq!(site.phase(name).as_deref(), Some("complete"), "{name}\n{}", run.all());
    }
    assert_eq!(site.changes_to("/clone").len(), 6);
    assert_eq!(
        most_at_once(&site, "qmclone"),
        2,
        "the default: two clones at once on one storage"
    );
    assert_eq!(site.sim.pihole().unwrap().records().hosts.len(), 6);
    assert_eq!(site.sim.pihole().unwrap().open_sessions(), 0);

    site.sim.handle().clear_requests();
    site.vmwright(&["provision"]).await.assert_code(0);
    assert_eq!(site.changes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_can_be_lifted_and_migrations_have_their_own() {
    let site = Site::with(|plan| {
        plan.hosts = SIX[..4]
            .iter()
            .map(|name| format!("{name} vms_proxmox_node=pve-1"))
            .collect();
        plan.durations.clone = 1500;
        plan.durations.migrate = 150;
    })
    .await;
    let run = site
        .vmwright(&["provision", "--forks", "4", "--clone-limit-per-storage", "unlimited"])
        .await;
    run.assert_code(0);
    assert!(most_at_once(&site, "qmclone") > 2, "{}", run.all());
    assert_eq!(most_at_once(&site, "qmigrate"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_host_does_not_stop_the_others() {
    let site = six().await;
    site.sim.faults().add(Fault::on(
        "POST",
        "*/clone",
        Action::FailTask("lvcreate failed: no space".to_owned()),
    ));
    let run = site.vmwright(&["provision", "--output", "json"]).await;
    run.assert_code(1);
    let failed: Vec<&str> = SIX
        .iter()
        .filter(|host| run.end(host)["outcome"] == "failed")
        .copied()
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(site.vms().len(), 5);
    let done = SIX.iter().filter(|host| run.end(host)["outcome"] == "changed").count();
    assert_eq!(done, 5);
    let end = run.end(failed[0]);
    assert!(end.to_string().contains("no space"), "{end}");
    assert!(
        end["next"]
            .as_str()
            .unwrap()
            .ends_with(&format!("--limit {}", failed[0])),
        "{end}"
    );
    assert_eq!(run.events().last().unwrap()["exit"], 1);

    // The command that it told, for that host alone.
    let again = site.vmwright(&["provision", "--limit", failed[0]]).await;
    again.assert_code(0);
    assert_eq!(site.vms().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_fast_begins_no_further_host() {
    let site = six().await;
    site.sim.faults().add(
        Fault::on(
            "POST",
            "*/clone",
            Action::FailTask("lvcreate failed: no space".to_owned()),
        )
        .always(),
    );
    let run = site
        .vmwright(&["provision", "--output", "json", "--forks", "1", "--fail-fast"])
        .await;
    run.assert_code(1);
    assert_eq!(run.end("web-0")["outcome"], "failed");
    for host in &SIX[1..] {
        assert_eq!(run.end(host)["outcome"], "skipped", "{host}");
        assert_eq!(run.stages(host), Vec::<String>::new());
    }
    let asked: Vec<String> = site
        .changes_to("/clone")
        .iter()
        .map(|request| param(request, "name").unwrap_or_default().to_owned())
        .collect();
    assert!(asked.iter().all(|name| name == "web-0"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fork_works_one_host_after_the_other_in_inventory_order() {
    let site = six().await;
    let run = site
        .vmwright(&[
            "provision",
            "--output",
            "json",
            "--forks",
            "1",
            "--limit",
            "web-2,web-0",
        ])
        .await;
    run.assert_code(0);
    let order: Vec<(String, String)> = run
        .events()
        .iter()
        .filter(|event| event["event"] == "host-started" || event["event"] == "host-done")
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            (text("host"), text("event"))
        })
        .collect();
    let order: Vec<(&str, &str)> = order
        .iter()
        .map(|(host, event)| (host.as_str(), event.as_str()))
        .collect();
    assert_eq!(
        order,
        [
            ("web-0", "host-started"),
            ("web-0", "host-done"),
            ("web-2", "host-started"),
            ("web-2", "host-done")
        ]
    );
}
