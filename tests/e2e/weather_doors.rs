//! The doors that do not open: the API, the Pi-hole, SSH to the node.

use std::os::unix::fs::PermissionsExt as _;

use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::pihole::{PiholeEffect, PiholeFault, Records};
use vmwright::simulator::shell::Machine;
use vmwright::simulator::ssh::{SshEffect, SshFault};

use crate::support::{Plan, Site};
use crate::weather::Edit::{Append, Replace};
use crate::weather::{
    Edit, answer, assert_calm, assert_tidy, assert_told, assert_wrote_nothing, dns, edit, fault, records, snippets,
    ssh_fault,
};

const ALL: &str = "group_vars/all.yml";
const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];

fn nothing_is_slow(plan: &mut Plan) {
    plan.durations = vmwright::simulator::clock::Durations::zero();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_refuses_or_is_not_there_is_told_and_nothing_is_written() {
    let site = Site::with(nothing_is_slow).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let stranger = site.path("stranger");
    std::fs::create_dir_all(&stranger).unwrap();
    let other = vmwright::simulator::Simulator::start(vmwright::simulator::Options::api_only(&stranger))
        .await
        .unwrap();
    let ca_line = format!("global_proxmox_api_ca_file: {}", site.sim.ca_file().display());
    let other_ca = format!("global_proxmox_api_ca_file: {}", other.ca_file().display());
    let other_pin = format!("global_proxmox_api_fingerprint: \"{}\"", other.fingerprint());
    let seen = site.sim.fingerprint().to_owned();
    let advice = format!("set global_proxmox_api_fingerprint: \"{seen}\"");
    let user_line = "global_proxmox_api_token_id: vmwright";
    let cases: &[(&str, &[Edit<'_>], &[&str])] = &[
        (
            "wrong token",
            &[Replace(ALL, "5eed0000", "5eed1111")],
            &["[api/unauthorized]", "401", "global_proxmox_api_token"],
        ),
        (
            "unknown token",
            &[Replace(ALL, user_line, "global_proxmox_api_token_id: nobody")],
            &["[api/unauthorized]", "401"],
        ),
        (
            "wrong CA",
            &[Replace(ALL, &ca_line, &other_ca)],
            &["[api/untrusted]", &seen, &advice, "/etc/pve/pve-root-ca.pem"],
        ),
        (
            "wrong fingerprint",
            &[Replace(ALL, &ca_line, &other_pin)],
            &["[api/untrusted]", &seen, &advice],
        ),
    ];
    let pristine = crate::weather::inventory_files(&site);
    for (what, edits, words) in cases {
        edit(&site, edits);
        let run = site.vmwright(&WEB_0).await;
        assert_told(what, &run, 1, words);
        assert_told(what, &run, 1, &["FAILED at discover", "changed so far: nothing"]);
        assert_wrote_nothing(&site, what, &run);
        for (path, content) in &pristine {
            std::fs::write(path, content).unwrap();
        }
    }
    // Both wait a few seconds for an API that is being restarted; side by side here.
    let port = format!("global_proxmox_api_port={closed}");
    let at_port = ["provision", "--limit", "web-0", "-e", &port];
    let at_name = [
        "provision",
        "--limit",
        "web-1",
        "-e",
        "global_proxmox_api_host=pve.invalid",
    ];
    let (nothing, unknown) = tokio::join!(site.vmwright(&at_port), site.vmwright(&at_name),);
    let at = format!("127.0.0.1:{closed}: tcp connect error: Connection refused");
    assert_told(
        "nothing listens",
        &nothing,
        1,
        &[
            "[api/unreachable]",
            &at,
            "global_proxmox_api_port",
            "-e global_proxmox_api_port=... --limit web-0",
        ],
    );
    assert_told(
        "the name does not resolve",
        &unknown,
        1,
        &["[api/unreachable]", "pve.invalid:", "dns error"],
    );
    for run in [nothing, unknown] {
        assert_told(
            "unreachable",
            &run,
            1,
            &["FAILED at discover", "changed so far: nothing"],
        );
        assert_wrote_nothing(&site, "unreachable", &run);
    }
    // Not one secret went to the stranger whose certificate is not trusted.
    assert_eq!(other.requests(), []);
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_forbidden_after_all_says_what_to_grant() {
    let site = Site::with(nothing_is_slow).await;
    fault(
        &site,
        "POST",
        "/nodes/*/qemu/*/clone",
        answer(
            403,
            "Permission check failed (/storage/local-lvm, Datastore.AllocateSpace)",
        ),
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "forbidden",
        &run,
        1,
        &[
            "FAILED at clone",
            "[api/forbidden]",
            "the identity needs Datastore.AllocateSpace on /storage/local-lvm",
            "pveum role modify ROLE --append --privs 'Datastore.AllocateSpace'",
        ],
    );
    assert_eq!(site.vms(), []);
    assert_tidy(&site, "forbidden", &run);
    let run = site.vmwright(&WEB_0).await;
    assert_told("granted", &run, 0, &["ready, changed"]);
    assert_eq!(site.vms(), [(100, "web-0".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pihole_that_refuses_leaves_the_cluster_alone() {
    let site = Site::with(nothing_is_slow).await;
    let door = site.sim.pihole().unwrap();
    let address = door.address().to_string();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let pristine = crate::weather::inventory_files(&site);
    let on = |method: &str, containing: &str, effect: PiholeEffect| PiholeFault {
        method: Some(method.to_owned()),
        containing: Some(containing.to_owned()),
        skip: 0,
        times: None,
        effect,
    };
    let says = |status: u16, body: &str| PiholeEffect::Answer {
        status,
        body: body.to_owned(),
    };
    let locked = r#"{"error":{"key":"bad_request","message":"Config is read-only","hint":null}}"#;
    let wrong = Replace(ALL, crate::support::PIHOLE_PASSWORD, "pihole-wrong-marked-secret");
    let away = Replace(ALL, &address, &closed);
    type Case<'c> = (&'c str, Option<Edit<'c>>, Vec<PiholeFault>, &'c [&'c str]);
    let cases: &[Case<'_>] = &[
        (
            "wrong password",
            Some(wrong),
            vec![],
            &["[dns/denied]", "pihole_password"],
        ),
        (
            "unreachable",
            Some(away),
            vec![],
            &["[dns/unreachable]", "pihole_api_host", &closed, "again   http://"],
        ),
        (
            "refuses the record",
            None,
            vec![on("PUT", "/api/config/dns/hosts", says(400, locked))],
            &["[dns/refused]", "Config is read-only"],
        ),
        (
            "something else answers there",
            None,
            vec![on("GET", "/api/config/dns/hosts", says(200, "<html>hello</html>"))],
            &["[dns/unreadable]", "Pi-hole of version 6"],
        ),
    ];
    for (what, change, faults, words) in cases {
        edit(&site, change.as_slice());
        door.set_faults(faults.clone());
        let run = site.vmwright(&WEB_0).await;
        assert_told(what, &run, 1, words);
        assert_told(what, &run, 1, &["FAILED at dns", "changed so far: nothing"]);
        assert!(!run.all().contains("pihole-wrong-marked-secret"), "{}", run.all());
        assert_wrote_nothing(&site, what, &run);
        door.set_faults(Vec::new());
        for (path, content) in &pristine {
            std::fs::write(path, content).unwrap();
        }
    }
    // The name points elsewhere: refused, and the other's record stands.
    let elsewhere = Records {
        hosts: vec!["10.1.2.3 web-0.test.example".to_owned()],
        ..Records::default()
    };
    door.set_records(elsewhere.clone()).unwrap();
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "conflict",
        &run,
        4,
        &[
            "REFUSED at dns",
            "[dns/conflict]",
            "web-0.test.example",
            "10.1.2.3",
            &site.address(0),
            "remove it there",
        ],
    );
    assert_eq!((door.records(), site.changes()), (elsewhere, vec![]));
    assert_tidy(&site, "conflict", &run);
    // The address has another name: told, and done.
    let shared = format!("{} old-web.test.example", site.address(0));
    door.set_records(Records {
        hosts: vec![shared.clone()],
        ..Records::default()
    })
    .unwrap();
    // All seats are taken for a moment, and the answer to the write is lost: one record in the end.
    door.set_faults(vec![
        PiholeFault {
            times: Some(1),
            ..on(
                "POST",
                "/api/auth",
                says(
                    429,
                    r#"{"error":{"key":"api_seats_exceeded","message":"API seats exceeded","hint":"x"}}"#,
                ),
            )
        },
        PiholeFault {
            times: Some(1),
            ..on("PUT", "/api/config/dns/hosts", PiholeEffect::DropAfter)
        },
        PiholeFault {
            times: Some(1),
            ..on("DELETE", "/api/auth", PiholeEffect::DropAfter)
        },
    ]);
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "shared",
        &run,
        0,
        &["dns/same-address", "old-web.test.example", "ready, changed"],
    );
    assert_eq!(dns(&site), [shared, format!("{} web-0.test.example", site.address(0))]);
    assert_tidy(&site, "shared", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_no_snippets_stops_before_the_clone() {
    let site = Site::with(nothing_is_slow).await;
    let doors = site.sim.ssh().unwrap();
    let node = || Some(Machine::Node("pve-0".to_owned()));
    let full = SshFault {
        containing: Some("cat >".to_owned()),
        ..ssh_fault(
            node(),
            SshEffect::Answer {
                code: 74,
                stderr: "cat: write error: No space left on device\n".to_owned(),
            },
        )
    };
    let cases: &[(&str, SshFault, &[&str])] = &[
        (
            "refused",
            ssh_fault(node(), SshEffect::RefuseConnection),
            &["[ssh/unreachable]", "node pve-0 (root@", ":2222"],
        ),
        (
            "denied",
            ssh_fault(node(), SshEffect::RefuseLogin),
            &[
                "[ssh/denied]",
                "node pve-0 (root@",
                "Permission denied",
                "ansible_ssh_private_key_file",
            ],
        ),
        (
            "disk full",
            full,
            &["[snippets/folder]", "pve-0:/var/lib/vz/snippets", "no space left"],
        ),
    ];
    for (what, ssh, words) in cases {
        doors.set_faults(vec![ssh.clone()]);
        doors.refresh();
        let run = site.vmwright(&WEB_0).await;
        assert_told(what, &run, 1, words);
        assert_told(what, &run, 1, &["FAILED at snippets"]);
        assert_eq!(site.changes(), [], "{what}");
        assert_eq!(
            (site.vms(), snippets(&site), records(&site)),
            (vec![], vec![], vec![]),
            "{what}"
        );
        // The name was published before, and stays for the next run.
        assert_eq!(
            dns(&site),
            [format!("{} web-0.test.example", site.address(0))],
            "{what}"
        );
        assert_tidy(&site, what, &run);
    }
    doors.set_faults(Vec::new());
    doors.refresh();
    // A host key that nobody vouches for is not trusted where the inventory says so.
    std::fs::remove_file(site.path("known_hosts")).ok();
    let nodes = "group_vars/proxmox_nodes.yml";
    edit(
        &site,
        &[Replace(
            nodes,
            "StrictHostKeyChecking=accept-new",
            "StrictHostKeyChecking=yes",
        )],
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "unknown host key",
        &run,
        1,
        &[
            "FAILED at snippets",
            "[ssh/host-key]",
            "node pve-0",
            "log in once by hand",
        ],
    );
    assert_eq!(site.changes(), []);
    // Nor one that is another than the known one.
    let [a, b, c] = site.net;
    site.write(
        "known_hosts",
        &format!("[{a}.{b}.{c}.1]:2222,pve-0,[pve-0]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"),
    );
    edit(
        &site,
        &[Replace(
            nodes,
            "StrictHostKeyChecking=yes",
            "StrictHostKeyChecking=accept-new",
        )],
    );
    let before = site.read("known_hosts");
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "changed host key",
        &run,
        1,
        &["FAILED at snippets", "[ssh/host-key]", "node pve-0", "ssh-keygen -R"],
    );
    assert_eq!((site.changes(), site.read("known_hosts")), (vec![], before));
    std::fs::remove_file(site.path("known_hosts")).unwrap();
    // The storage is not mounted on the node.
    let root = site.sim.handle().node_root("pve-0");
    std::fs::rename(root.join("var/lib/vz"), root.join("var/lib/away")).unwrap();
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "no folder",
        &run,
        1,
        &[
            "FAILED at snippets",
            "[snippets/folder]",
            "/var/lib/vz/snippets",
            "does not exist",
        ],
    );
    assert_eq!(site.changes(), []);
    std::fs::rename(root.join("var/lib/away"), root.join("var/lib/vz")).unwrap();
    // The connection is lost before, then after the file was written; then all is well.
    let once = |effect| SshFault {
        containing: Some("cat >".to_owned()),
        times: Some(1),
        ..ssh_fault(node(), effect)
    };
    doors.set_faults(vec![
        once(SshEffect::DropBefore),
        SshFault {
            skip: 1,
            ..once(SshEffect::DropAfter)
        },
    ]);
    let run = site.vmwright(&WEB_0).await;
    assert_told("dropped", &run, 0, &["ready, changed"]);
    assert_eq!(site.vms(), [(100, "web-0".to_owned())]);
    assert_eq!(dns(&site).len(), 1);
    assert_tidy(&site, "dropped", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_an_address_or_a_folder_that_is_mounted_here() {
    // The storage's folder is mounted on the control node, and cannot be written to.
    let site = Site::with(nothing_is_slow).await;
    let here = site.path("mounted");
    edit(
        &site,
        &[Append(
            ALL,
            &format!("vms_snippets_path: {}\n", here.join("snippets").display()),
        )],
    );
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "not mounted",
        &run,
        1,
        &[
            "FAILED at snippets",
            "[snippets/folder]",
            "mounted/snippets",
            "does not exist",
        ],
    );
    assert_eq!(site.changes(), []);
    // Something that is no folder.
    std::fs::create_dir_all(&here).unwrap();
    std::fs::write(here.join("snippets"), "").unwrap();
    let run = site.vmwright(&WEB_0).await;
    assert_told(
        "no folder",
        &run,
        1,
        &["[snippets/folder]", "mounted/snippets", "not a folder"],
    );
    std::fs::remove_file(here.join("snippets")).unwrap();
    std::fs::create_dir(here.join("snippets")).unwrap();
    std::fs::set_permissions(here.join("snippets"), std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(here.join("snippets/probe"), "").is_ok() {
        std::fs::remove_file(here.join("snippets/probe")).unwrap();
        eprintln!("as root every folder can be written to: that case is for other users");
    } else {
        let run = site.vmwright(&WEB_0).await;
        assert_told("not writable", &run, 1, &["[snippets/folder]", "cannot be written"]);
    }
    assert_eq!((site.changes(), snippets(&site)), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_pass_are_waited_for() {
    // Locks that were not got in time: nothing was done, so the call is sent again, and the reason is told.
    let site = Site::with(nothing_is_slow).await;
    let texts = [
        (
            "POST",
            "/nodes/*/qemu/*/clone",
            "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout",
        ),
        (
            "PUT",
            "/nodes/*/qemu/*/config",
            "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
        ),
        (
            "PUT",
            "/nodes/*/qemu/*/resize",
            "cfs-lock 'storage-local-lvm' error: got lock request timeout",
        ),
        (
            "POST",
            "/nodes/*/qemu/*/status/start",
            "got no worker upid - start worker failed",
        ),
    ];
    for (method, path, text) in texts {
        site.sim.faults().add(Fault::on(method, path, answer(500, text)));
    }
    let run = site
        .vmwright(&["provision", "--limit", "web-0", "--output", "json"])
        .await;
    run.assert_code(0);
    assert_calm("locks", &run);
    for (_, _, text) in texts {
        let told = run
            .stdout
            .lines()
            .find(|line| line.contains(r#""event":"retrying""#) && line.contains(text));
        assert!(told.is_some(), "{text}: {}", run.all());
    }
    assert_eq!(site.sim.faults().hits(), 4);
    assert_eq!(site.vms(), [(100, "web-0".to_owned())]);
    // The same as the end of a task.
    let site = Site::with(nothing_is_slow).await;
    site.sim.faults().add(Fault::on(
        "POST",
        "/nodes/*/qemu/*/clone",
        Action::FailTask(
            "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout".to_owned(),
        ),
    ));
    let run = site.vmwright(&WEB_0).await;
    assert_told("task", &run, 0, &["got timeout", "ready, changed"]);
    assert_eq!(site.vms(), [(100, "web-0".to_owned())]);
}
