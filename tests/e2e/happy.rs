//! The main job, and that it is done once.

use crate::support::Site;

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
    site.sim.handle().clear_requests();
    let again = site.vmwright(&["provision", "--limit", "web-0"]).await;
    again.assert_code(0);
    assert_eq!(site.changes(), [], "{}", again.all());
    again.assert_says("unchanged");
}
