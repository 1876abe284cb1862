//! `provision --plan`: it tells, and writes nothing anywhere.

use crate::support::Site;

const EMPTY: [std::path::PathBuf; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_every_stage_and_writes_nothing() {
    let site = Site::start().await;
    // No key pair either: a plan makes none.
    let key = site.path("other/id_ed25519");
    let home = site.path("home");
    std::fs::create_dir_all(&home).unwrap();
    let (configs, inventory, nodes) = (site.configs(), site.tree("inventory"), site.tree("world/nodes"));
    let run = site
        .vmwright(&[
            "provision",
            "--plan",
            "--limit",
            "web-1",
            "-e",
            &format!("ansible_ssh_private_key_file={}", key.display()),
        ])
        .await;
    // The node refuses a key that is not there; so the site's own key once more, below. Nothing was written here either.
    assert!(matches!(run.code, 0 | 1), "{}", run.all());
    assert!(!key.exists() && !key.parent().unwrap().exists());
    assert_eq!(site.changes(), []);

    let run = site.vmwright(&["provision", "--plan"]).await;
    run.assert_code(0);
    assert_eq!(site.changes(), [], "{}", run.all());
    assert_eq!(site.vms(), []);
    assert_eq!(site.configs(), configs);
    assert!(!site.path("state").exists());
    assert!(!site.path("known_hosts").exists());
    assert_eq!(site.tree("inventory"), inventory);
    assert_eq!(site.tree("world/nodes"), nodes);
    let in_home: Vec<_> = home.read_dir().unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(in_home, EMPTY);
    let pihole = site.sim.pihole().unwrap();
    assert_eq!(pihole.records().hosts, Vec::<String>::new());
    assert!(
        pihole.log().iter().all(|request| request.method != "PUT"),
        "{:?}",
        pihole.log()
    );
    assert_eq!(pihole.open_sessions(), 0);

    // Every stage of every host that would change something, and what.
    let line = |host: &str, stage: &str, text: &str| {
        let found = run.stderr.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(host)
                && words.next() == Some(stage)
                && line.contains("would change")
                && line.contains(text)
        });
        assert!(found, "{host} {stage} {text:?} is not in\n{}", run.all());
    };
    for host in ["web-0", "web-1"] {
        line(host, "dns", &format!("{host}.test.example"));
        line(host, "clone", "debian-12-cloudinit");
        line(host, "hardware", "cores: 1 -> 2");
        line(host, "hardware", "size of scsi0: 2G -> 20G");
        line(host, "start", "running");
        line(host, "finalize", "ide2");
    }
    line("web-1", "snippets", "prod-web-1-user-data-ci.yml");
    line("web-1", "clone", "prod-web-1");
    line("web-1", "migrate", "pve-0 -> pve-1");
    run.assert_says("2 planned");
    assert!(!run.stderr.contains("web-0  migrate"), "{}", run.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_a_finished_vm_has_nothing_to_tell() {
    let site = Site::start().await;
    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    let before = (site.tree("state"), site.read("known_hosts"), site.configs());
    site.sim.handle().clear_requests();
    let run = site
        .vmwright(&["provision", "--plan", "--limit", "web-0", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_eq!(site.changes(), []);
    assert!(
        run.events().iter().all(|event| event["event"] != "changing"),
        "{}",
        run.all()
    );
    assert_eq!((site.tree("state"), site.read("known_hosts"), site.configs()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_finds_the_faults_that_a_run_would_find() {
    let site = Site::start().await;
    site.write(
        "inventory/host_vars/web-0.yml",
        "vms_config: {cores: 2, memory: 2048, storage: no-such, disk_os: {disk: scsi0, size: 20}, nic0: {bridge: vmbr9}}\n",
    );
    let run = site.vmwright(&["provision", "--plan", "--limit", "web-0"]).await;
    run.assert_code(1);
    run.assert_says("no-such");
    run.assert_says("vmbr9");
    assert_eq!(site.changes(), []);
    assert!(!site.path("state").exists());
}
