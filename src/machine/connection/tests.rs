//! How guest and node are reached, from variables.

use serde_json::json;

use super::*;
use crate::machine::testing::{codes, good, problems, warnings};

#[test]
fn the_guest_is_reached_at_its_address_as_the_template_user() {
    let ssh = good().build().unwrap().machine.ssh;
    assert_eq!(
        (ssh.alias.as_str(), ssh.host.as_str(), ssh.port, ssh.user.as_str()),
        ("web-0", "10.0.20.31", 22, "ops")
    );
    assert_eq!((ssh.key, ssh.extra_args.len()), (None, 0));
}

#[test]
fn the_ansible_variables_say_otherwise() {
    let vars = good()
        .set("ansible_host", "127.0.0.1")
        .set("ansible_port", "2222")
        .set("ansible_user", "admin")
        .set("ansible_ssh_private_key_file", "~/.ssh/id_lab")
        .set("ansible_ssh_common_args", "-J jump.lab.test")
        .set("ansible_ssh_extra_args", "-o 'ProxyCommand=ssh -W %h:%p b'");
    let ssh = vars.build().unwrap().machine.ssh;
    assert_eq!(
        (ssh.host.as_str(), ssh.port, ssh.user.as_str()),
        ("127.0.0.1", 2222, "admin")
    );
    assert_eq!(ssh.key.unwrap(), std::path::Path::new("/home/ops/.ssh/id_lab"));
    assert_eq!(
        ssh.extra_args,
        ["-J", "jump.lab.test", "-o", "ProxyCommand=ssh -W %h:%p b"]
    );
    let old = good()
        .set("ansible_ssh_host", "10.9.9.9")
        .set("ansible_ssh_port", 23)
        .build()
        .unwrap()
        .machine
        .ssh;
    assert_eq!((old.host.as_str(), old.port), ("10.9.9.9", 23));
}

#[test]
fn a_node_of_the_inventory_is_reached_as_that_host() {
    assert!(good().build().unwrap().machine.snippets.node_ssh.is_none());
    let bare = good()
        .other("pve1", json!({}))
        .build()
        .unwrap()
        .machine
        .snippets
        .node_ssh
        .unwrap();
    assert_eq!(
        (bare.alias.as_str(), bare.host.as_str(), bare.user.as_str()),
        ("pve1", "pve1", "root")
    );
    let full = good().other(
        "pve1",
        json!({"ansible_host": "10.0.0.11", "ansible_user": "deploy", "ansible_port": 2200}),
    );
    let full = full.build().unwrap().machine.snippets.node_ssh.unwrap();
    assert_eq!(
        (full.host.as_str(), full.user.as_str(), full.port),
        ("10.0.0.11", "deploy", 2200)
    );
}

#[test]
fn dns_follows_what_is_there() {
    let dns = |vars: &crate::machine::testing::TestVars| vars.build().unwrap().machine.dns;
    assert!(matches!(dns(&good()), Dns::None));
    let hole = good()
        .set("pihole_api_host", "10.0.20.253")
        .set("pihole_password", "pw");
    let url = |vars: &crate::machine::testing::TestVars| match dns(vars) {
        Dns::Pihole { url, .. } => url,
        Dns::None => panic!("none"),
    };
    assert_eq!(url(&hole), "http://10.0.20.253");
    assert!(matches!(dns(&hole.clone().set("vms_dns", "none")), Dns::None));
    for (name, value, want) in [
        ("pihole_api_host", "127.0.0.1:18080", "http://127.0.0.1:18080"),
        ("pihole_api_host", "2001:db8::5", "http://[2001:db8::5]"),
        ("pihole_api_host", "[2001:db8::5]:81", "http://[2001:db8::5]:81"),
        (
            "pihole_api_url",
            "https://dns.lab.test:8443/",
            "https://dns.lab.test:8443",
        ),
    ] {
        assert_eq!(url(&hole.clone().set(name, value)), want);
    }
    let global = good()
        .set("global_pihole_api_host", "10.0.20.9")
        .set("pihole_password", "pw");
    assert_eq!(url(&global), "http://10.0.20.9");
    assert_eq!(
        warnings(&good().set("pihole_api_host", "10.0.20.253")),
        ["machine/dns-incomplete"]
    );
}

#[test]
fn broken_connections_are_told() {
    let table = [
        (good().set("ansible_port", 0), "machine/out-of-range"),
        (good().set("ansible_host", "a b"), "machine/invalid-endpoint"),
        (good().set("ansible_user", "-l root"), "machine/invalid-name"),
        (good().set("ansible_ssh_common_args", "-o 'x"), "machine/ssh-args"),
        (
            good()
                .other("pve1", json!({"ansible_port": "ssh"}))
                .set("vms_name", "x"),
            "machine/wrong-type",
        ),
        (good().set("vms_snippets_storage", "/var"), "machine/invalid-name"),
        (good().set("vms_snippets_path", "snippets"), "machine/relative-path"),
        (good().set("vms_dns", "bind"), "machine/unknown-value"),
        (
            good().set("vms_dns", "pihole").set("pihole_password", "pw"),
            "machine/missing-variable",
        ),
        (
            good().set("pihole_api_url", "ftp://dns").set("pihole_password", "pw"),
            "machine/pihole-url",
        ),
        (
            good().set("pihole_api_host", "dns/admin").set("pihole_password", "pw"),
            "machine/pihole-url",
        ),
        (good().set("vms_startup_timeout", 0), "machine/out-of-range"),
        (good().set("vms_cloud_init_poll_retries", "many"), "machine/wrong-type"),
        (good().set("vms_cloud_init_poll_delay", -1), "machine/out-of-range"),
    ];
    for (vars, code) in table {
        let problems = match vars.build() {
            Ok(_) => panic!("built: {vars:?}"),
            Err(problems) => problems,
        };
        assert_eq!(codes(&problems), [code], "{vars:?}");
    }
    let node = good()
        .other("pve1", json!({"ansible_port": "ssh"}))
        .build()
        .unwrap_err();
    assert_eq!(node[0].host.as_deref(), Some("pve1"), "the node's own variable");
    assert_eq!(
        codes(&problems(&good().set("vms_startup_timeout", 0))),
        ["machine/out-of-range"]
    );
}

#[test]
fn the_mode_of_documents_is_one_of_three_however_it_is_written() {
    let mode = |value: serde_json::Value| {
        let built = good().set("vms_snippets_mode", value).build();
        built
            .map(|built| built.machine.snippets.mode)
            .map_err(|found| codes(&found))
    };
    assert_eq!(good().build().unwrap().machine.snippets.mode, None);
    for (value, want) in [
        (json!("0644"), 0o644),
        (json!("644"), 0o644),
        (json!("0o640"), 0o640),
        (json!(0o644), 0o644),
        (json!("0600"), 0o600),
    ] {
        assert_eq!(mode(value.clone()), Ok(Some(want)), "{value}");
    }
    for value in [json!(644), json!("0777"), json!("rw"), json!(true), json!("0444")] {
        assert_eq!(mode(value.clone()), Err(vec!["machine/unknown-value"]), "{value}");
    }
}

#[test]
fn budgets_have_the_defaults_of_old() {
    let waits = good().build().unwrap().machine.waits;
    let secs: Vec<u64> = [
        waits.startup,
        waits.cloud_init,
        waits.cloud_init_command,
        waits.restart,
        waits.task_idle,
        waits.shutdown,
    ]
    .iter()
    .map(Duration::as_secs)
    .collect();
    assert_eq!(secs, [600, 1800, 30, 600, 300, 120]);
    let own = good()
        .set("vms_cloud_init_poll_retries", "10")
        .set("vms_cloud_init_poll_delay", 2);
    assert_eq!(own.build().unwrap().machine.waits.cloud_init, Duration::from_secs(20));
}
