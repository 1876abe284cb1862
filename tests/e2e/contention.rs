//! Two runs at the same time.

use std::path::PathBuf;

use crate::support::Site;

const WEB_1: [&str; 3] = ["provision", "--limit", "web-1"];

#[tokio::test(flavor = "multi_thread")]
async fn of_two_runs_on_one_vm_one_works_and_the_other_leaves_at_once() {
    let site = Site::start().await;
    site.hold("POST", "*/clone");
    let first = site.begin(&WEB_1);
    site.held().await;
    let (state, changes) = (site.tree("state/locks"), site.changes());
    let records = site.tree("state/records");
    let lock = site.locks();
    assert_eq!(lock.len(), 1);

    let second = site.vmwright(&WEB_1).await;
    second.assert_code(3);
    // It names the holder, and touched nothing of it.
    second.assert_says(&format!("(pid {} on ", first.pid()));
    second.assert_says("prod-web-1");
    assert_eq!(site.tree("state/locks"), state);
    assert_eq!(site.tree("state/records"), records);
    assert_eq!(site.changes(), changes);
    let status = site.vmwright(&["status", "--limit", "web-1"]).await;
    status.assert_says("web-1 is locked by");
    // A plan says that it is locked, too.
    let plan = site.vmwright(&["provision", "--limit", "web-1", "--plan"]).await;
    assert!(matches!(plan.code, 0 | 3), "{}", plan.all());
    plan.assert_says("locked");

    // Another VM is not disturbed by it.
    site.sim.faults().clear();
    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    assert_eq!(site.locks(), lock);
    assert_eq!(site.phase("web-0").as_deref(), Some("complete"));
    first.signal("KILL");
    first.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_the_lock_goes_on_when_it_is_free() {
    let site = Site::start().await;
    site.sim.faults().add(vmwright::simulator::fault::Fault::on(
        "POST",
        "*/clone",
        vmwright::simulator::fault::Action::Delay(700),
    ));
    let first = site.begin(&WEB_1);
    site.held().await;
    let second = site.begin(&["provision", "--limit", "web-1", "--wait-lock", "1m"]);
    let (first, second) = (first.end().await, second.end().await);
    first.assert_code(0);
    second.assert_code(0);
    second.assert_says("unchanged");
    assert_eq!(site.vms().len(), 1);
    assert_eq!(site.changes_to("/clone").len(), 1);

    // Not forever.
    site.sim.faults().clear();
    site.hold("GET", "*");
    let third = site.begin(&WEB_1);
    site.held().await;
    let fourth = site
        .vmwright(&["provision", "--limit", "web-1", "--wait-lock", "100ms"])
        .await;
    fourth.assert_code(3);
    third.signal("KILL");
    third.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_start_together_make_one_vm() {
    let site = Site::start().await;
    let (a, b) = (site.begin(&WEB_1), site.begin(&WEB_1));
    let (a, b) = (a.end().await, b.end().await);
    let mut codes = [a.code, b.code];
    codes.sort_unstable();
    // The later one may come when everything is done.
    assert!(codes == [0, 3] || codes == [0, 0], "{}\n{}", a.all(), b.all());
    assert_eq!(site.vms().len(), 1);
    assert_eq!(site.changes_to("/clone").len(), 1);
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_freed_by_hand_only_under_the_vms_own_name() {
    let site = Site::start().await;
    // Nothing is locked: nothing to free.
    let free = site.vmwright(&["unlock", "web-1"]).await;
    free.assert_code(0);
    free.assert_says("not locked");
    // A lock of another machine, of which nothing can be proven from here.
    site.hold("POST", "*/clone");
    site.killed_there(&WEB_1).await;
    let owner = site.locks()[0].join("owner.json");
    let mut told: serde_json::Value = serde_json::from_slice(&std::fs::read(&owner).unwrap()).unwrap();
    told["host"] = "elsewhere.example".into();
    told["boot_id"] = "00000000-0000-4000-8000-000000000000".into();
    std::fs::write(&owner, told.to_string()).unwrap();
    let blocked = site.vmwright(&WEB_1).await;
    blocked.assert_code(3);
    blocked.assert_says("elsewhere.example");
    blocked.assert_says("vmwright unlock");
    for args in [
        vec!["unlock", "web-1"],
        vec!["unlock", "web-1", "--confirm", "web-1"],
        vec!["unlock", "web-1", "--confirm", ""],
    ] {
        let refused = site.vmwright(&args).await;
        refused.assert_code(4);
        refused.assert_says("elsewhere.example");
        assert_eq!(site.locks().len(), 1);
    }
    let freed = site.vmwright(&["unlock", "web-1", "--confirm", "prod-web-1"]).await;
    freed.assert_code(0);
    assert_eq!(site.locks(), Vec::<PathBuf>::new());
    site.vmwright(&WEB_1).await.assert_code(0);
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_and_a_provision_share_one_lock() {
    const REMOVE: [&str; 5] = ["remove", "--limit", "web-1", "--confirm", "prod-web-1"];
    let site = crate::remove::with("", |_| {}).await;
    site.hold("POST", "*/clone");
    let provision = site.begin(&WEB_1);
    site.held().await;
    let state = site.tree("state");
    let remove = site.vmwright(&REMOVE).await;
    remove.assert_code(3);
    remove.assert_says(&format!("(pid {} on ", provision.pid()));
    assert_eq!(site.tree("state"), state);
    site.sim.faults().clear();
    provision.signal("KILL");
    provision.end().await;
    site.vmwright(&WEB_1).await.assert_code(0);

    site.hold("DELETE", "*/qemu/*");
    let remove = site.begin(&REMOVE);
    site.held().await;
    let state = site.tree("state");
    let provision = site.vmwright(&WEB_1).await;
    provision.assert_code(3);
    provision.assert_says(&format!("(pid {} on ", remove.pid()));
    assert_eq!(site.tree("state"), state);
    site.sim.faults().clear();
    remove.signal("KILL");
    remove.end().await;
    site.vmwright(&REMOVE).await.assert_code(0);
    assert_eq!(site.vms(), []);
}
