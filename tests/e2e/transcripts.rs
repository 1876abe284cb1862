//! What people see in a pipe, word for word; times, ids and addresses of the machine are replaced.

use insta::{Settings, assert_snapshot};

use crate::support::{PIHOLE_PASSWORD, Run, Site};

/// A run as a page: the command, its code, both streams.
fn page(site: &Site, args: &[&str], run: &Run) -> String {
    // What is waited for, and how often, depends on the machine's speed.
    let steady: String = run
        .stderr
        .lines()
        .filter(|line| {
            let word = line.split_whitespace().nth(2).unwrap_or_default();
            !matches!(word, "wait" | "again")
        })
        .map(|line| format!("{}\n", narrow(line)))
        .collect();
    let [a, b, c] = site.net;
    let stdout: String = run.stdout.lines().map(|line| format!("{}\n", narrow(line))).collect();
    let text = format!(
        "$ vmwright {} -i INVENTORY\n{steady}--- stdout\n{}--- exit code {}\n",
        args.join(" "),
        stdout,
        run.code
    );
    text.replace(&site.path("inventory").display().to_string(), "INVENTORY")
        .replace(&site.path("").display().to_string(), "SITE/")
        .replace(&format!("{a}.{b}.{c}."), "127.0.20.")
}

/// Columns are as wide as their texts, some of which are replaced: two blanks between them.
fn narrow(line: &str) -> String {
    if !line.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return line.to_owned();
    }
    let columns: Vec<&str> = line
        .split("  ")
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    columns.join("  ")
}

fn settings() -> Settings {
    let mut settings = Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.add_filter(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[uuid]",
    );
    settings.add_filter(r"\(boot [0-9a-f]{8}\)", "(boot [id])");
    settings.add_filter(r" \(\d+(\.\d+)? (ms|s|min( \d+ s)?)\)", "");
    settings.add_filter(r"(?m)  (\d+ min )?\d+(\.\d+)? s$", "  [time]");
    settings.add_filter(r"UPID:[\w:.@!-]+", "[upid]");
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn first_run_plan_rerun_and_status() {
    let site = Site::start().await;
    let _bound = settings().bind_to_scope();
    let plan = ["provision", "--plan", "--limit", "web-1"];
    let run = site.vmwright(&plan).await;
    assert_snapshot!("plan", page(&site, &plan, &run));
    let args = ["provision", "--forks", "1"];
    let run = site.vmwright(&args).await;
    assert_snapshot!("first_run", page(&site, &args, &run));
    let run = site.vmwright(&args).await;
    assert_snapshot!("rerun", page(&site, &args, &run));
    // The recap fits a terminal of the usual width.
    assert!(
        run.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        run.stdout
    );
    let args = ["status"];
    let run = site.vmwright(&args).await;
    assert_snapshot!("status", page(&site, &args, &run));
    assert!(
        run.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        run.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_before_and_after_the_first_write() {
    let site = Site::start().await;
    let _bound = settings().bind_to_scope();
    site.write(
        "inventory/host_vars/web-0.yml",
        "vms_config: {cores: 2, memory: 2048, storage: no-such, disk_os: {disk: scsi0, size: 20}, nic0: {bridge: vmbr9}}\n",
    );
    site.behave("prod-web-1", |guest| {
        guest.cloud_init = vmwright::simulator::guest::CloudInitEnd::Error;
    });
    let args = ["provision", "--forks", "1"];
    let run = site.vmwright(&args).await;
    assert_snapshot!("failures", page(&site, &args, &run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_inventory_is_told_with_file_line_and_rule() {
    let site = Site::start().await;
    let _bound = settings().bind_to_scope();
    site.write(
        "inventory/host_vars/web-0.yml",
        "vms_config:\n  cores: many\n  memroy: 2048\n  disk_os: {disk: scsi0}\nglobal_gateway: 192.0.2.1\nvms_os: debian_13\n",
    );
    let args = ["provision", "--limit", "web-0"];
    let run = site.vmwright(&args).await;
    assert_snapshot!("faulty_inventory", page(&site, &args, &run));
    assert_eq!(site.sim.requests(), []);
    assert!(!site.path("state").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_the_json_output_is_an_event() {
    let site = Site::start().await;
    let run = site.vmwright(&["provision", "--output", "json", "-vv"]).await;
    run.assert_code(0);
    let events = run.events();
    let id = &events[0]["run"];
    for event in &events {
        assert!(
            event["time"].as_str().is_some_and(|time| time.ends_with('Z')),
            "{event}"
        );
        assert_eq!(&event["run"], id);
        assert!(event["event"].is_string(), "{event}");
    }
    assert_eq!(events[0]["event"], "run-started");
    assert_eq!(events[0]["hosts"], serde_json::json!(["web-0", "web-1"]));
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"run-done".into(), &0.into()));
    for host in ["web-0", "web-1"] {
        assert_eq!(run.end(host)["outcome"], "changed");
        let done = events
            .iter()
            .filter(|event| event["event"] == "stage-done" && event["host"] == host)
            .count();
        assert_eq!(done, 13, "{host}");
        assert!(
            events
                .iter()
                .any(|event| event["event"] == "task" && event["host"] == host)
        );
    }
    for secret in [PIHOLE_PASSWORD, vmwright::simulator::spec::DEMO_SECRET] {
        run.assert_silent_about(secret);
    }
    // The journal of the run has the same events.
    let journals: Vec<_> = site.path("state/runs").read_dir().unwrap().flatten().collect();
    assert_eq!(journals.len(), 1);
    let journal = std::fs::read_to_string(journals[0].path()).unwrap();
    assert_eq!(journal.lines().count(), events.len());
    assert!(journals[0].file_name().to_string_lossy().contains(id.as_str().unwrap()));
}
