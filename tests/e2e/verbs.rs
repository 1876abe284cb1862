//! The verbs beside `provision`.

use serde_json::Value;

use crate::support::{PIHOLE_PASSWORD, Site};

const SECRET: &str = vmwright::simulator::spec::DEMO_SECRET;

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_phase_number_node_power_and_what_is_unfinished() {
    let site = Site::start().await;
    let nothing = site.vmwright(&["status"]).await;
    nothing.assert_code(0);
    nothing.assert_says("not provisioned by this state directory");
    assert!(!site.path("state").exists(), "status only reads");

    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    site.hold("POST", "*/status/start");
    site.killed_there(&["provision", "--limit", "web-1"]).await;
    let state = site.tree("state");
    site.sim.handle().clear_requests();
    let run = site.vmwright(&["status", "--output", "json"]).await;
    run.assert_code(0);
    let rows = run.events();
    assert_eq!(rows.len(), 2);
    let [done, begun] = [&rows[0], &rows[1]];
    assert_eq!(
        (&done["host"], &done["phase"], &done["power"]),
        (&"web-0".into(), &"complete".into(), &"running".into())
    );
    assert_eq!(
        (&done["node"], &done["unfinished"]),
        (&"pve-0".into(), &"nothing".into())
    );
    assert_eq!(done["vmid"], site.vms()[0].0);
    assert_eq!(done.get("locked_by"), None);
    assert_eq!(
        (&begun["host"], &begun["name"]),
        (&"web-1".into(), &"prod-web-1".into())
    );
    assert_eq!(
        (&begun["phase"], &begun["node"], &begun["power"]),
        (&"created".into(), &"pve-1".into(), &"stopped".into())
    );
    assert_eq!(begun["unfinished"], "hardware, start or cloud-init");
    let holder = begun["locked_by"].as_str().unwrap();
    assert!(holder.contains("provision web-1"), "{holder}");
    assert_eq!(site.changes(), []);
    assert_eq!(site.tree("state"), state);

    let table = site.vmwright(&["status"]).await;
    table.assert_code(0);
    table.assert_says("web-1 is locked by");
    let first = table.stdout.lines().next().unwrap();
    assert_eq!(
        first.split_whitespace().collect::<Vec<_>>(),
        ["HOST", "PHASE", "VMID", "NODE", "POWER", "UNFINISHED"]
    );

    // Without the cluster: what the records say. And a VM that somebody removed is told as gone.
    site.sim.with(|world| {
        let vmid = world.vm_named("web-0").unwrap().vmid;
        world.vms.remove(&vmid);
    });
    let offline = site.vmwright(&["status", "--offline", "--output", "json"]).await;
    offline.assert_code(0);
    assert_eq!(offline.events()[0]["power"], "-");
    let gone = site.vmwright(&["status", "--limit", "web-0", "--output", "json"]).await;
    gone.assert_code(0);
    assert_eq!(gone.events()[0]["power"], "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inventory_is_printed_as_json_with_secrets_masked() {
    let site = Site::start().await;
    let before = site.tree(".");
    let list = site.vmwright(&["inventory", "--list"]).await;
    list.assert_code(0);
    let json: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(json["vms"]["hosts"], serde_json::json!(["web-0", "web-1"]));
    let web_1 = &json["_meta"]["hostvars"]["web-1"];
    assert_eq!(web_1["vms_name"], "prod-web-1");
    assert_eq!(web_1["ansible_port"], 2222);

    let host = site.vmwright(&["inventory", "--host", "web-1"]).await;
    host.assert_code(0);
    let json: Value = serde_json::from_str(&host.stdout).unwrap();
    assert_eq!(json["vms_name"], "prod-web-1");
    for run in [&list, &host] {
        run.assert_silent_about(SECRET);
        run.assert_silent_about(PIHOLE_PASSWORD);
    }
    let unknown = site.vmwright(&["inventory", "--host", "web-l"]).await;
    unknown.assert_code(2);
    unknown.assert_says("web-l");
    site.vmwright(&["inventory"]).await.assert_code(2);
    let after = site.tree(".");
    let of_ours = |tree: &[(std::path::PathBuf, u32, Vec<u8>)]| {
        tree.iter()
            .filter(|(path, ..)| !path.starts_with(site.path("world")))
            .count()
    };
    assert_eq!(of_ours(&after), of_ours(&before), "printing writes nothing");
    assert_eq!(site.sim.requests(), [], "printing asks nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_of_a_host_are_rendered_with_secrets_masked() {
    let hash = "$6$marked$secrethashthatmustnotbeseenanywhere0000000000000000000000000000000000000000000000000";
    let site = Site::with(|plan| {
        plan.all = format!("global_vm_template_user_crypted_password: \"{hash}\"\nvms_additional_packages: [jq]\n");
    })
    .await;
    let run = site.vmwright(&["render", "web-1"]).await;
    run.assert_code(0);
    assert!(!run.stdout.contains("secrethash"), "{}", run.stdout);
    run.assert_silent_about("$6$marked");
    let (user, network) = run
        .stdout
        .split_once("# local:snippets/prod-web-1-network-data-ci.yml\n")
        .unwrap();
    let user = user
        .strip_prefix("# local:snippets/prod-web-1-user-data-ci.yml\n")
        .unwrap();
    assert!(user.starts_with("#cloud-config\n"));
    let data: serde_yaml::Value = serde_yaml::from_str(user).unwrap();
    assert_eq!(data["fqdn"].as_str(), Some("web-1.test.example"));
    assert_eq!(data["users"][0]["lock_passwd"].as_bool(), Some(false));
    let packages: Vec<&str> = data["packages"]
        .as_sequence()
        .unwrap()
        .iter()
        .filter_map(|p| p.as_str())
        .collect();
    assert_eq!(packages, ["qemu-guest-agent", "jq"]);
    let data: serde_yaml::Value = serde_yaml::from_str(network).unwrap();
    let address = data["network"]["ethernets"]["ens18"]["addresses"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(address, format!("{}/24", site.address(1)));
    assert_eq!(site.sim.requests(), []);
    assert!(!site.path("state").exists());

    // The guest gets the real one: a password that is set, not a mask.
    site.hold("POST", "*/status/start");
    site.killed_there(&["provision", "--limit", "web-1"]).await;
    let written = site.snippet_dir("pve-1", "local").join("prod-web-1-user-data-ci.yml");
    assert!(std::fs::read_to_string(written).unwrap().contains(hash));

    site.vmwright(&["render", "no-such-host"]).await.assert_code(2);
    site.vmwright(&["render", "pve-0"]).await.assert_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_there_for_the_usual_shells() {
    let site = Site::start().await;
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef vmwright"),
        ("fish", "complete -c vmwright"),
    ] {
        let run = site.vmwright(&["completions", shell]).await;
        run.assert_code(0);
        assert!(run.stdout.contains(mark), "{shell}");
        for verb in ["provision", "status", "inventory", "render", "unlock", "demo"] {
            assert!(run.stdout.contains(verb), "{shell} {verb}");
        }
        assert_eq!(run.stderr, "");
    }
    let parsed = std::process::Command::new("bash")
        .arg("-n")
        .arg("/dev/stdin")
        .stdin(
            std::process::Command::new(env!("CARGO_BIN_EXE_vmwright"))
                .args(["completions", "bash"])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
                .stdout
                .unwrap(),
        )
        .status()
        .unwrap();
    assert!(parsed.success());
    site.vmwright(&["completions", "cmd"]).await.assert_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_are_data_and_wrong_usage_is_code_2() {
    let site = Site::start().await;
    let bare = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vmwright"))
            .args(args)
            .env_clear()
            .env("HOME", site.path("home"))
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, out, err) = bare(&["--help"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("Exit codes: 0 done"), "{out}");
    let (code, out, _) = bare(&["--version"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), concat!("vmwright ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    for wrong in [
        &["provision"][..],
        &["provsion", "-i", "x"],
        &["provision", "-i", "x", "--forks", "0"],
        &["provision", "-i", "x", "--output", "xml"],
        &[],
    ] {
        let (code, out, err) = bare(wrong);
        assert_eq!(code, Some(2), "{wrong:?}");
        assert!(out.is_empty() && !err.is_empty(), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_trusted_hides_no_other_host() {
    let site = Site::start().await;
    site.vmwright(&["provision"]).await.assert_code(0);
    let records = site
        .tree("state/records")
        .into_iter()
        .map(|(path, ..)| path)
        .filter(|path| path.is_file());
    let of_web_0 = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().contains("\"name\": \"web-0\"");
    let path = records.into_iter().find(of_web_0).unwrap();
    std::fs::write(&path, "{\"schema\": 1").unwrap();

    for args in [&["status"][..], &["status", "--offline"]] {
        let table = site.vmwright(args).await;
        table.assert_code(1);
        let phases: Vec<Vec<&str>> = table
            .stdout
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().take(2).collect())
            .collect();
        assert_eq!(
            phases,
            [["web-0", "untrusted"], ["web-1", "complete"]],
            "{}",
            table.all()
        );
        assert!(
            table.stderr.contains("state/corrupt-record") && table.stderr.contains("web-0"),
            "{}",
            table.all()
        );
    }
    let run = site.vmwright(&["status", "--output", "json"]).await;
    run.assert_code(1);
    let rows = run.events();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["phase"], "untrusted");
    assert_eq!(rows[0]["unfinished"], "unknown: the record cannot be trusted");
    assert!(rows[0]["problem"].as_str().unwrap().contains("record"), "{}", rows[0]);
    assert_eq!(
        (&rows[1]["phase"], rows[1].get("problem")),
        (&Value::from("complete"), None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn several_state_directories_in_one_inventory_are_refused() {
    let site = Site::with(|plan| {
        plan.hosts = vec![
            "web-0 vms_proxmox_node=pve-0 vms_state_dir=../state-a".to_owned(),
            "web-1 vms_proxmox_node=pve-1 vms_name=prod-web-1 vms_state_dir=../state-b".to_owned(),
        ];
    })
    .await;
    site.write("inventory/vmwright.yaml", "known_hosts: ../known_hosts\n");
    // Also where only one of them is selected: the other's locks and records would not be seen.
    let verbs = [
        &["provision"][..],
        &["provision", "--limit", "web-1"],
        &["provision", "--limit", "web-0", "--plan"],
        &["status"],
        &["history"],
        &["forget", "web-0", "--confirm", "web-0"],
        &["unlock", "web-0", "--confirm", "web-0"],
    ];
    for args in verbs {
        let run = site.vmwright(args).await;
        run.assert_code(2);
        for text in [
            "cli/state-dirs",
            "web-0: ",
            "state-a",
            "web-1: ",
            "state-b",
            "hosts.ini",
        ] {
            assert!(run.stderr.contains(text), "{args:?}: {text}\n{}", run.all());
        }
        assert_eq!(site.changes(), []);
    }
    assert!(!site.path("state-a").exists() && !site.path("state-b").exists());

    // A directory that was named decides for all; and so does one that all hosts share, however it is written.
    site.vmwright(&["status", "--state-dir", "elsewhere"])
        .await
        .assert_code(0);
    let hosts = site.read("inventory/hosts.ini");
    site.write(
        "inventory/hosts.ini",
        &hosts.replace("../state-b", &site.path("inventory/../state-a").display().to_string()),
    );
    site.vmwright(&["status"]).await.assert_code(0);
    // One host without is another directory too: the default.
    site.write("inventory/hosts.ini", &hosts.replace(" vms_state_dir=../state-b", ""));
    let run = site.vmwright(&["status"]).await;
    run.assert_code(2);
    run.assert_says("web-1: none");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_knows_a_vm_that_is_not_the_one_on_record() {
    let site = Site::start().await;
    site.vmwright(&["provision", "--limit", "web-0"]).await.assert_code(0);
    let vmid = site.vms()[0].0;
    let set = |key: &str, value: &str| {
        site.sim.handle().with(|world| {
            let config = &mut world.vms.get_mut(&vmid).unwrap().config.current;
            config.insert(key.to_owned(), value.to_owned());
        });
    };
    set("name", "stranger");
    let status = site.vmwright(&["status", "--limit", "web-0"]).await;
    status.assert_says("called stranger now (ownership/renamed)");
    set("smbios1", "uuid=00000000-0000-4000-8000-000000000000");
    let status = site.vmwright(&["status", "--limit", "web-0"]).await;
    status.assert_says("another machine, called stranger (ownership/other-uuid)");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_lost_on_a_full_disk_is_no_success() {
    let site = Site::start().await;
    for args in [
        &["inventory", "--list"][..],
        &["provision", "--output", "json", "--limit", "web-0"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = site.command(args).stdout(full).spawn().unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told.matches("standard output cannot be written").count(), 1, "{told}");
    }
    assert_eq!(site.phase("web-0").as_deref(), Some("complete"));
}
