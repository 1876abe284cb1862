//! What the documents say, for the machines of the test inventories.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;
use crate::cloud_init::validate;
use crate::inventory::yaml;
use crate::machine::testing::{TestVars, good};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEVZ ops@control: yes #1";

fn vars() -> TestVars {
    good()
        .set("vms_name", "prod-web")
        .set("vms_authorized_keys", json!([KEY]))
}

fn machine(vars: &TestVars) -> Machine {
    vars.build().unwrap().machine
}

fn rendered(vars: &TestVars) -> Documents {
    render(&machine(vars), &BTreeMap::new(), None).unwrap()
}

fn read(text: &str) -> Json {
    let name: Arc<str> = "test".into();
    yaml::parse(text, &name).unwrap().value.to_json()
}

fn user_data(vars: &TestVars) -> Json {
    read(&rendered(vars).user_data)
}

fn network_data(vars: &TestVars) -> Json {
    read(&rendered(vars).network_data)
}

/// A machine whose every text is one that YAML would take for something else.
fn hard() -> TestVars {
    vars()
        .host("0644")
        .set("global_domain_name", "1e3")
        .set("global_vm_template_user", "no")
        .set("global_timezone", "Etc/UTC")
        .set(
            "global_packages_list",
            json!(["yes", "0644", "1.20", "2024-01-02", "on=1:1"]),
        )
        .set("global_vm_template_user_crypted_password", "$6$rounds=5000$=#'\"{}$x")
        .set("vms_interface", "1_000")
}

#[test]
fn user_data_says_what_it_always_said() {
    let documents = rendered(&vars());
    assert!(documents.user_data.starts_with("#cloud-config\n"));
    assert_eq!(
        read(&documents.user_data),
        json!({
            "create_hostname_file": false,
            "disable_root": true,
            "fqdn": "web-0.lab.test",
            "hostname": "web-0",
            "manage_etc_hosts": true,
            "package_update": true,
            "package_upgrade": true,
            "packages": ["vim", "qemu-guest-agent"],
            "prefer_fqdn_over_hostname": false,
            "preserve_hostname": false,
            "ssh_pwauth": true,
            "timezone": "Etc/UTC",
            "users": [{
                "gecos": "Ansible user",
                "groups": "users,admin",
                "lock_passwd": false,
                "name": "ops",
                "passwd": "$6$salt$hash",
                "shell": "/bin/bash",
                "ssh_authorized_keys": [KEY],
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
            }],
            "write_files": [{
                "content": "%ansible ALL=(ALL) NOPASSWD:ALL\n",
                "owner": "root:root",
                "path": "/etc/sudoers.d/99_ansible",
                "permissions": "0440",
            }],
        })
    );
}

#[test]
fn network_data_says_what_it_always_said_but_for_the_route() {
    let documents = rendered(&vars());
    assert!(documents.network_data.starts_with("#cloud-config\nnetwork:\n"));
    assert_eq!(
        read(&documents.network_data),
        json!({"network": {"ethernets": {"ens18": {
            "addresses": ["10.0.20.31/24"],
            "nameservers": {"addresses": ["10.0.20.2", "10.0.20.3"], "search": ["lab.test"]},
            "routes": [{"to": "0.0.0.0/0", "via": "10.0.20.1"}],
        }}, "version": 2}})
    );
}

#[test]
fn the_files_are_named_after_the_vm_not_the_guest() {
    let (user, network) = file_names(&machine(&vars()));
    assert_eq!(user, "prod-web-user-data-ci.yml");
    assert_eq!(network, "prod-web-network-data-ci.yml");
}

#[test]
fn several_interfaces_two_families_and_macs() {
    let vars = vars()
        .config(
            "network",
            json!({"nic0": {}, "nic1": {"mac": "BC:24:11:00:00:09"}, "nic2": {}}),
        )
        .set("vms_interface_match", "mac")
        .set("global_ipv6_address", "2001:db8::31")
        .set("global_ipv6_gateway", "fe80::1")
        .set(
            "vms_network",
            json!({
                "nic1": {"address": "10.1.0.5/16", "mtu": 9000, "interface": "storage0"},
                "nic2": {"dhcp4": true, "dhcp6": true, "match": "name"},
            }),
        );
    let machine = machine(&vars);
    let macs = BTreeMap::from([(0, "12:34:56:10:20:30".parse().unwrap())]);
    let documents = render(&machine, &macs, None).unwrap();
    assert_eq!(
        read(&documents.network_data)["network"]["ethernets"],
        json!({
            "ens18": {
                "addresses": ["10.0.20.31/24", "2001:db8::31/64"],
                "match": {"macaddress": "12:34:56:10:20:30"},
                "nameservers": {"addresses": ["10.0.20.2", "10.0.20.3"], "search": ["lab.test"]},
                "routes": [{"to": "0.0.0.0/0", "via": "10.0.20.1"}, {"to": "::/0", "via": "fe80::1"}],
                "set-name": "ens18",
            },
            "ens20": {"dhcp4": true, "dhcp6": true},
            "storage0": {
                "addresses": ["10.1.0.5/16"],
                "match": {"macaddress": "bc:24:11:00:00:09"},
                "mtu": 9000,
                "set-name": "storage0",
            },
        })
    );
    let missing = render(&machine, &BTreeMap::new(), None).unwrap_err();
    assert_eq!(
        (missing.code, missing.host.as_deref()),
        ("cloud-init/no-mac", Some("web-0"))
    );
    let shown = render_masked(&machine, &BTreeMap::new(), None).unwrap();
    assert!(shown.network_data.contains("macaddress: known-after-the-clone"));
}

#[test]
fn what_is_empty_is_left_out() {
    let vars = vars()
        .unset("global_vm_template_user_crypted_password")
        .set("global_packages_list", json!([]))
        .set("global_dns_servers", json!([]))
        .set("vms_dns_search", json!([]))
        .set("global_gateway", "none")
        .set("vms_package_upgrade", "no");
    let user = user_data(&vars);
    assert_eq!(user.get("packages"), None);
    assert_eq!(
        (&user["package_upgrade"], &user["ssh_pwauth"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (&user["users"][0]["lock_passwd"], user["users"][0].get("passwd")),
        (&json!(true), None)
    );
    assert_eq!(
        network_data(&vars)["network"]["ethernets"]["ens18"],
        json!({"addresses": ["10.0.20.31/24"]})
    );
}

#[test]
fn hard_values_come_back_as_they_were_declared() {
    let user = user_data(&hard());
    assert_eq!((&user["hostname"], &user["fqdn"]), (&json!("0644"), &json!("0644.1e3")));
    assert_eq!(user["packages"], json!(["yes", "0644", "1.20", "2024-01-02", "on=1:1"]));
    assert_eq!(user["users"][0]["name"], "no");
    assert_eq!(user["users"][0]["passwd"], "$6$rounds=5000$=#'\"{}$x");
    let network = network_data(&hard());
    assert_eq!(
        network["network"]["ethernets"]["1_000"]["nameservers"]["search"],
        json!(["1e3"])
    );
}

#[test]
fn pyyaml_reads_what_was_declared() {
    if !python("import yaml") {
        eprintln!("SKIPPED: python3 with PyYAML is not here: the documents are not read with it");
        return;
    }
    for vars in [vars(), hard()] {
        let documents = rendered(&vars);
        for text in [&documents.user_data, &documents.network_data] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("doc.yml"), text).unwrap();
            std::fs::write(dir.path().join("want.json"), read(text).to_string()).unwrap();
            let script = "import yaml, json, sys, os\nos.chdir(sys.argv[1])\n\
                          got, want = yaml.safe_load(open('doc.yml')), json.load(open('want.json'))\n\
                          print(got, want)\nsys.exit(json.dumps(got, sort_keys=True) != json.dumps(want, sort_keys=True))";
            let out = Command::new("python3")
                .args(["-c", script])
                .arg(dir.path())
                .output()
                .unwrap();
            assert!(
                out.status.success(),
                "{}{}",
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr)
            );
        }
    }
}

#[test]
fn cloud_init_itself_finds_nothing_wrong() {
    if !Command::new("cloud-init")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
    {
        eprintln!("SKIPPED: cloud-init is not here: its own schema check is not run");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for vars in [vars(), hard()] {
        let path = dir.path().join("user-data");
        std::fs::write(&path, rendered(&vars).user_data).unwrap();
        let out = Command::new("cloud-init")
            .args(["schema", "-c"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

fn python(code: &str) -> bool {
    Command::new("python3")
        .args(["-c", code])
        .output()
        .is_ok_and(|out| out.status.success())
}

#[test]
fn secrets_are_masked_where_the_documents_are_shown() {
    let machine = machine(&vars());
    let shown = render_masked(&machine, &BTreeMap::new(), None).unwrap();
    assert!(!shown.user_data.contains("$6$"));
    assert_eq!(read(&shown.user_data)["users"][0]["passwd"], "***");
    assert_eq!(
        shown.network_data,
        render(&machine, &BTreeMap::new(), None).unwrap().network_data
    );
}

#[test]
fn a_guest_without_a_key_is_not_sent() {
    let machine = machine(&good());
    assert_eq!(
        render(&machine, &BTreeMap::new(), None).unwrap_err().code,
        "cloud-init/no-key"
    );
    let shown = read(&render_masked(&machine, &BTreeMap::new(), None).unwrap().user_data);
    assert_eq!(shown["users"][0].get("ssh_authorized_keys"), None);
}

#[test]
fn the_users_templates_take_the_place_of_the_built_in_ones() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("user-data.j2"), text).unwrap();
    let machine = machine(&vars().set("global_vm_template_user_crypted_password", "$6$a$b"));
    let rendered = || render(&machine, &BTreeMap::new(), Some(dir.path()));

    assert_eq!(
        rendered().unwrap(),
        render(&machine, &BTreeMap::new(), None).unwrap(),
        "an empty directory changes nothing"
    );

    write(
        "{% include 'builtin/user-data.j2' %}\nruncmd:\n  - [touch, {{ '/x: ' ~ name }}]\n  - {{ ('echo ' ~ node) | safe }}\n",
    );
    let user = read(&rendered().unwrap().user_data);
    assert_eq!(user["runcmd"], json!([["touch", "/x: prod-web"], "echo pve1"]));
    assert_eq!(user["hostname"], "web-0");

    write("#cloud-config\n{% macro line(k, v) %}{{ k }}: {{ v | yaml }}{% endmacro %}{{ line('hostname', '0644') }}\n");
    assert_eq!(read(&rendered().unwrap().user_data), json!({"hostname": "0644"}));

    for (text, code, line) in [
        ("#cloud-config\nhostname: {{ hostnam }}\n", "cloud-init/template", 2),
        ("#cloud-config\n{% if %}\n", "cloud-init/template", 2),
        (
            "#cloud-config\n{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
            "cloud-init/template",
            2,
        ),
        ("hostname: a\n", "cloud-init/header", 1),
        ("#cloud-config\nhostname: yes\n", "cloud-init/wrong-type", 2),
        ("#cloud-config\n\nhostnam: a\nfqnd: b\n", "cloud-init/unknown-key", 3),
        ("#cloud-config\nhostname: \"{{ '\"' }}\"\n", "cloud-init/yaml", 2),
    ] {
        write(text);
        let problem = rendered().unwrap_err();
        assert_eq!(
            (problem.code, problem.place.as_ref().unwrap().line),
            (code, line),
            "{text}: {problem:?}"
        );
        assert_eq!(problem.host.as_deref(), Some("web-0"));
        assert!(!format!("{problem:?}").contains("$6$"));
    }
    write("#cloud-config\n\nhostnam: a\nfqnd: b\n");
    assert_eq!(rendered().unwrap_err().notes.len(), 1, "the other problems are notes");

    let gone = render(&machine, &BTreeMap::new(), Some(&dir.path().join("nowhere"))).unwrap_err();
    assert_eq!(gone.code, "cloud-init/template-unreadable");
}

#[test]
fn both_documents_can_be_checked_later() {
    let documents = rendered(&vars());
    assert_eq!(validate(&documents, ("u", "n")), []);
    let broken = Documents {
        user_data: documents.user_data.replace("hostname: web-0", "hostname: 7"),
        network_data: documents.network_data.replace("0.0.0.0/0", "default"),
    };
    let codes: Vec<&str> = validate(&broken, ("u", "n")).iter().map(|p| p.code).collect();
    assert_eq!(codes, ["cloud-init/wrong-type", "cloud-init/default-route"]);
}
