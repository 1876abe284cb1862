//! Bad input: the inventory, its variables, the settings and the command line. Exit code 2, the place is named, and nothing
//! at all was asked of anybody.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::Site;
use crate::weather::Edit::{Append, Replace, Write};
use crate::weather::{Edit, assert_calm, assert_never_begun, assert_told, edit, inventory_files, run_of};

/// What is wrong, how it came to be so, further arguments, and words that must be told.
type Case<'t> = (&'t str, &'t [Edit<'t>], &'t [&'t str], &'t [&'t str]);

const ALL: &str = "group_vars/all.yml";
const VMS: &str = "group_vars/vms.yml";
const WEB_0: &str = "host_vars/web-0.yml";

/// Runs the cases one after the other at one site; each must end with exit code 2 before anything was asked.
async fn refused(cases: &[Case<'_>]) {
    let site = Site::start().await;
    std::fs::write(site.path("latin.ini"), b"[vms]\nweb-0 a=caf\xe9\n").unwrap();
    let pristine = inventory_files(&site);
    for (what, edits, args, words) in cases {
        edit(&site, edits);
        let mut all = vec!["provision"];
        all.extend_from_slice(args);
        let run = site.vmwright(&all).await;
        assert_told(what, &run, 2, words);
        assert_never_begun(&site, what, &run);
        let _ = std::fs::remove_dir_all(site.path("inventory"));
        for (path, content) in &pristine {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_inventory_is_told_with_its_place() {
    refused(&[
        (
            "a tab indents YAML",
            &[Write(WEB_0, "a:\n\tb: 1\n")],
            &[],
            &["error[inventory/yaml-syntax]", "host_vars/web-0.yml:2:", "tabs"],
        ),
        (
            "a quote is not closed in YAML",
            &[Write(WEB_0, "a: 1\nb: \"open\n")],
            &[],
            &["error[inventory/yaml-syntax]", "host_vars/web-0.yml:2:4"],
        ),
        (
            "a key stands twice",
            &[Append(VMS, "  cores: 4\n")],
            &[],
            &[
                "error[inventory/yaml-duplicate-key]",
                "group_vars/vms.yml:13:3",
                "cores",
                "group_vars/vms.yml:4:3",
            ],
        ),
        (
            "a file of variables holds a list",
            &[Write(WEB_0, "- a\n")],
            &[],
            &["error[inventory/vars-structure]", "host_vars/web-0.yml:1:1"],
        ),
        (
            "a section header is broken",
            &[Append("hosts.ini", "[db:variables]\na=1\n")],
            &[],
            &[
                "error[inventory/ini-section]",
                "hosts.ini:9",
                "db:variables",
                "[group:vars]",
            ],
        ),
        (
            "a word behind a host's name is no assignment",
            &[Replace(
                "hosts.ini",
                "web-0 vms_proxmox_node=pve-0",
                "web-0 vms_proxmox_node = pve-0",
            )],
            &[],
            &["error[inventory/ini-assignment]", "hosts.ini:2:7", "key=value"],
        ),
        (
            "a quote is not closed in INI",
            &[Replace(
                "hosts.ini",
                "web-0 vms_proxmox_node=pve-0",
                "web-0 vms_proxmox_node='pve-0",
            )],
            &[],
            &["error[inventory/ini-quotes]", "hosts.ini:2:24"],
        ),
        (
            "a YAML inventory is a list",
            &[Write("more.yml", "- web-2\n")],
            &[],
            &["error[inventory/yaml-structure]", "more.yml:1:1"],
        ),
        (
            "a file is not UTF-8",
            &[],
            &["-i", "latin.ini"],
            &["error[inventory/not-utf8]", "latin.ini:2:12", "iconv"],
        ),
        (
            "the inventory is not there",
            &[],
            &["-i", "nowhere.ini"],
            &["error[inventory/source-missing]", "nowhere.ini"],
        ),
        (
            "two faults in two files are told at once",
            &[Write(WEB_0, "a:\n\tb: 1\n"), Write("host_vars/web-1.yml", "a: 'open\n")],
            &[],
            &["host_vars/web-0.yml:2:", "host_vars/web-1.yml:1:4"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_named() {
    let site = Site::start().await;
    edit(&site, &[Write(WEB_0, "a: 1\n")]);
    let path = site.path("inventory").join(WEB_0);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        // Root reads everything but what is not there.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(site.path("nowhere"), &path).unwrap();
        eprintln!("as root a file of mode 000 can be read: a dangling link instead");
    }
    let run = site.vmwright(&["provision"]).await;
    assert_told("unreadable", &run, 2, &["inventory/unreadable", "host_vars/web-0.yml"]);
    assert_never_begun(&site, "unreadable", &run);
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_and_vaults_that_give_no_value_are_told() {
    let vault = "secret: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  36653135383762373137633061336630666463646664396163383437323161326131383831343661\n  3264316264366465653833646637363236346235623034610a336662333436306532313865303039\n  38663639306238646562386336653535643136303261376534343462363237663539353335343738\n  3832386435303436370a663065636331356535633833356233396237663436393537373737323337\n  6266\nvms_description: '{{ secret }}'\n";
    refused(&[
        (
            "a variable is not defined",
            &[Write(WEB_0, "vms_description: 'by {{ team }}'\nteam: '{{ temas }}'\n")],
            &[],
            &[
                "error[inventory/undefined-variable]",
                "temas",
                "host_vars/web-0.yml:2",
                "vms_description",
                "team",
                "host: web-0",
            ],
        ),
        (
            "a near name",
            &[Replace(
                ALL,
                "global_domain_name: test.example",
                "global_domain_name: '{{ global_timezon }}'",
            )],
            &[],
            &[
                "error[inventory/undefined-variable]",
                "global_timezon",
                "global_timezone",
            ],
        ),
        (
            "a loop",
            &[Write(WEB_0, "vms_description: '{{ a }}'\na: '{{ b }}'\nb: '{{ a }}'\n")],
            &[],
            &[
                "error[inventory/template-loop]",
                "host_vars/web-0.yml:3:4",
                "`b` needs its own value: b > a > b",
                "host: web-0",
            ],
        ),
        (
            "no template",
            &[Write(WEB_0, "vms_description: '{{ a | }}'\n")],
            &[],
            &["error[inventory/template-syntax]", "host_vars/web-0.yml:1:18"],
        ),
        (
            "no vault password",
            &[Write(WEB_0, vault)],
            &[],
            &[
                "error[inventory/vault-no-password]",
                "host_vars/web-0.yml:2:3",
                "needed by `vms_description`",
                "--vault-password-file",
            ],
        ),
        (
            "a wrong vault password",
            &[Write(WEB_0, vault), Write("../pw", "not it\n")],
            &["--vault-password-file", "pw"],
            &["error[inventory/vault-wrong-password]", "host_vars/web-0.yml:2:3"],
        ),
        (
            "a vault password file that is not there",
            &[],
            &["--vault-password-file", "none"],
            &["error[inventory/vault-password-file]", "none"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_must_name_hosts_of_the_vms() {
    refused(&[
        (
            "unknown host",
            &[],
            &["--limit", "wbe-0"],
            &["error[inventory/no-match]", "wbe-0", "web-0"],
        ),
        (
            "a host of another group",
            &[],
            &["--limit", "pve-0"],
            &["error[cli/not-a-vm]", "pve-0", "group vms"],
        ),
        (
            "a broken pattern",
            &[],
            &["--limit", "web-[0"],
            &["error[inventory/", "web-[0"],
        ),
        (
            "no VMs at all",
            &[Replace("hosts.ini", "[vms]", "[others]")],
            &[],
            &["error[cli/no-vms]", "group vms"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_break_a_rule_are_told_with_place_key_and_rule() {
    refused(&[
        (
            "an unknown key and the nearest",
            &[Replace(VMS, "  cores: '2'", "  coers: '2'")],
            &[],
            &[
                "error[machine/unknown-key]",
                "coers",
                "group_vars/vms.yml:4:3",
                "cores",
                "host: web-0, web-1",
                "key: vms_config.coers",
            ],
        ),
        (
            "scsihw holds a storage's name (1.6 item 1)",
            &[Replace(VMS, "scsihw: virtio-scsi-single", "scsihw: local")],
            &[],
            &[
                "error[machine/scsihw]",
                "group_vars/vms.yml:9:11",
                "local",
                "virtio-scsi-single",
                "key: vms_config.scsihw",
            ],
        ),
        (
            "a number that is none (1.6 item 2)",
            &[Replace(VMS, "cores: '2'", "cores: 'two'")],
            &[],
            &[
                "error[machine/wrong-type]",
                "group_vars/vms.yml:4:10",
                "two",
                "key: vms_config.cores",
            ],
        ),
        (
            "no address (1.6 item 3)",
            &[Replace("hosts.ini", "web-0 vms", "web-9 vms")],
            &["--limit", "web-9"],
            &["error[machine/no-address]", "web-9", "global_ip_addresses"],
        ),
        (
            "an extra disk in the boot disk's slot (1.6 item 4)",
            &[Append(VMS, "  disk2: {disk: scsi0, size: 10, storage: local-lvm}\n")],
            &[],
            &[
                "error[machine/disk-slot-twice]",
                "group_vars/vms.yml:13",
                "scsi0",
                "disk2",
            ],
        ),
        (
            "no vms_os (1.6 item 6)",
            &[Replace(VMS, "vms_os: debian_12\n", "")],
            &[],
            &["error[machine/missing-variable]", "vms_os", "web-0"],
        ),
        (
            "no slot of the boot disk (1.6 item 6)",
            &[Replace(
                VMS,
                "disk_os: {disk: scsi0, size: 20, backup: true}",
                "disk_os: {size: 20}",
            )],
            &[],
            &[
                "error[machine/missing-key]",
                "group_vars/vms.yml:11:12",
                "vms_config.disk_os.disk",
            ],
        ),
        (
            "a Windows guest (1.6 item 12)",
            &[Replace(VMS, "ostype: l26", "ostype: win11")],
            &[],
            &["error[machine/windows]", "group_vars/vms.yml:8:11", "win11"],
        ),
        (
            "a Windows template (1.6 item 12)",
            &[Replace(ALL, "{template: debian-12-cloudinit}", "{template: null}")],
            &[],
            &["error[machine/no-template]", "debian_12"],
        ),
        (
            "an unknown operating system",
            &[Replace(VMS, "vms_os: debian_12", "vms_os: debian_21")],
            &[],
            &[
                "error[machine/unknown-os]",
                "group_vars/vms.yml:1:9",
                "debian_21",
                "debian_12",
            ],
        ),
        (
            "a name that is no DNS label",
            &[Replace("hosts.ini", "vms_name=prod-web-1", "vms_name=prod_web_1-")],
            &[],
            &[
                "error[machine/invalid-name]",
                "prod_web_1-",
                "hosts.ini:3",
                "key: vms_name",
            ],
        ),
        (
            "an address outside its subnet",
            &[Append(ALL, "vms_subnet: 10.0.20.0/24\n")],
            &["--limit", "web-0"],
            &["error[machine/outside-subnet]", "10.0.20.0/24", "group_vars/all.yml:13"],
        ),
        (
            "a gateway outside the subnet",
            &[Append(ALL, "global_gateway: 10.9.9.1\n")],
            &["--limit", "web-0"],
            &[
                "error[machine/gateway-outside]",
                "10.9.9.1",
                "group_vars/all.yml:27:17",
                "global_gateway",
            ],
        ),
        (
            "a duplicate address",
            &[Write(
                "host_vars/web-1.yml",
                "global_ip_address: '{{ global_ip_addresses[\"web-0\"] }}'\n",
            )],
            &[],
            &["error[machine/duplicate-address]", "web-0", "web-1"],
        ),
        (
            "a duplicate name",
            &[Replace("hosts.ini", "vms_name=prod-web-1", "vms_name=web-0")],
            &[],
            &["error[machine/duplicate-name]", "web-0", "web-1"],
        ),
        (
            "a boot order that does not begin with the boot disk",
            &[Append(VMS, "  boot_order: 'order=net0;scsi0'\n")],
            &[],
            &["error[machine/boot-order]", "group_vars/vms.yml:13", "scsi0"],
        ),
        (
            "a tag out of range",
            &[Replace(
                VMS,
                "{model: virtio, bridge: vmbr0}",
                "{model: virtio, bridge: vmbr0, tag: 5000}",
            )],
            &[],
            &["error[machine/vlan-range]", "group_vars/vms.yml:12", "5000", "4094"],
        ),
        (
            "a password instead of its hash",
            &[Append(ALL, "global_vm_template_user_crypted_password: clear-text\n")],
            &[],
            &[
                "error[machine/password-hash]",
                "global_vm_template_user_crypted_password",
            ],
        ),
        (
            "a token that is half there",
            &[Replace(ALL, "global_proxmox_api_token_id: vmwright\n", "")],
            &[],
            &["error[machine/half-token]", "global_proxmox_api_token_id"],
        ),
        (
            "no CA file",
            &[Replace(
                ALL,
                "global_proxmox_api_ca_file: /",
                "global_proxmox_api_ca_file: /nowhere/",
            )],
            &[],
            &["error[machine/ca-file]", "/nowhere/", "group_vars/all.yml:3:29"],
        ),
        (
            "a fingerprint that is none",
            &[Append(ALL, "global_proxmox_api_fingerprint: 'AB:CD'\n")],
            &[],
            &["error[machine/fingerprint]", "AB:CD", "group_vars/all.yml:27:33"],
        ),
        (
            "every problem of every host at once",
            &[
                Replace(VMS, "scsihw: virtio-scsi-single", "scsihw: local"),
                Replace(VMS, "  cores: '2'", "  coers: '2'"),
                Replace("hosts.ini", "vms_name=prod-web-1", "vms_name=-"),
            ],
            &[],
            &[
                "error[machine/scsihw]",
                "error[machine/unknown-key]",
                "error[machine/invalid-name]",
            ],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_arguments_are_checked_before_anything() {
    refused(&[
        (
            "an unknown key of vmwright.yaml",
            &[Append("vmwright.yaml", "frks: 3\n")],
            &[],
            &[
                "error[settings/unknown-key]",
                "inventory/vmwright.yaml:3:1",
                "frks",
                "did you mean `forks`?",
            ],
        ),
        (
            "a bad value in vmwright.yaml",
            &[Append("vmwright.yaml", "forks: many\n")],
            &[],
            &[
                "error[settings/invalid]",
                "inventory/vmwright.yaml:3:8",
                "many",
                "1 to 1000",
            ],
        ),
        (
            "vmwright.yaml is no YAML",
            &[Append("vmwright.yaml", "forks: [\n")],
            &[],
            &["error[settings/invalid]", "inventory/vmwright.yaml:"],
        ),
        (
            "no such settings file",
            &[],
            &["--config", "none.yaml"],
            &["error[settings/unreadable-file]", "none.yaml"],
        ),
        (
            "an argument that is no number",
            &[],
            &["--forks", "many"],
            &["--forks", "many"],
        ),
        (
            "an argument that nobody knows",
            &[],
            &["--limt", "web-0"],
            &["--limt", "--limit"],
        ),
        (
            "a duration without a unit",
            &[],
            &["--wait-lock", "30"],
            &["--wait-lock", "unit"],
        ),
        (
            "an output that nobody knows",
            &[],
            &["--output", "xml"],
            &["--output", "xml", "human"],
        ),
        (
            "a limit twice",
            &[],
            &["--limit", "web-0", "--limit", "web-1"],
            &["--limit", "cannot be used multiple times"],
        ),
        (
            "extra variables that are none",
            &[],
            &["-e", "nonsense"],
            &["error[inventory/extra-vars]", "nonsense"],
        ),
    ])
    .await;
    let site = Site::start().await;
    let mut command = site.command(&["provision"]);
    command.env("VMWRIGHT_FORKS", "many");
    let run = run_of(command).await;
    assert_told(
        "environment",
        &run,
        2,
        &["error[settings/bad-environment]", "VMWRIGHT_FORKS", "many"],
    );
    assert_never_begun(&site, "environment", &run);
    let run = site.vmwright(&["inventory", "--list", "--host", "web-0"]).await;
    assert_told("conflict", &run, 2, &["--list", "--host", "cannot be used with"]);
    let run = site.vmwright(&["render", "nobody"]).await;
    assert_told("render", &run, 2, &["nobody"]);
    let run = site.vmwright(&["unlock", "web-*", "--confirm", "web-0"]).await;
    assert_told("unlock", &run, 2, &["error[cli/one-host]"]);
    assert_never_begun(&site, "unlock", &run);
    let mut bare = tokio::process::Command::new(env!("CARGO_BIN_EXE_vmwright"));
    bare.arg("provision");
    assert_told("no inventory", &run_of(bare).await, 2, &["--inventory"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_odd_is_warned_of_and_planned() {
    let cases: &[Case<'_>] = &[
        (
            "storage without a value (1.6 item 5)",
            &[Replace(VMS, "  storage: local-lvm", "  storage:")],
            &["--limit", "web-0"],
            &[
                "warning[machine/null-value]",
                "group_vars/vms.yml:10",
                "vms_config.storage",
            ],
        ),
        (
            "nothing declared (1.6 items 6 and 7)",
            &[Replace(VMS, "  ostype: l26\n", "")],
            &["--limit", "web-0"],
            &["warning[machine/left-to-template]", "ostype"],
        ),
        (
            "tag and third octet differ (1.6 item 8)",
            &[
                Replace(
                    VMS,
                    "{model: virtio, bridge: vmbr0}",
                    "{model: virtio, bridge: vmbr0, tag: 30}",
                ),
                Write(
                    WEB_0,
                    "global_ip_address: 10.77.20.5\nansible_host: '{{ global_ip_addresses[inventory_hostname] }}'\n",
                ),
            ],
            &["--limit", "web-0"],
            &[
                "warning[machine/vlan-octet]",
                "VLAN 30",
                "10.77.20.5",
                "host_vars/web-0.yml:1:20",
            ],
        ),
        (
            "a host without the tag that its neighbours have (1.6 item 8)",
            &[
                Write(
                    WEB_0,
                    "global_ip_address: 10.77.20.5\nansible_host: '{{ global_ip_addresses[inventory_hostname] }}'\n",
                ),
                Write(
                    "host_vars/web-1.yml",
                    "global_ip_address: 10.77.30.5\nansible_host: '{{ global_ip_addresses[inventory_hostname] }}'\nvms_config: {cores: 1, memory: 1024, disk_os: {disk: scsi0, size: 20}, nic0: {model: virtio, bridge: vmbr0, tag: 30}}\n",
                ),
            ],
            &[],
            &["warning[machine/vlan-untagged]", "web-0"],
        ),
        (
            "vms_clone is deprecated (1.6 item 9)",
            &[Replace("hosts.ini", "web-0 vms", "web-0 vms_clone=false vms")],
            &["--limit", "web-0"],
            &["warning[machine/deprecated]", "vms_clone", "hosts.ini:2"],
        ),
        (
            "vms_use_terraform is ignored",
            &[Append(ALL, "vms_use_terraform: true\n")],
            &["--limit", "web-0"],
            &["warning[machine/terraform]", "vms_use_terraform"],
        ),
        (
            "a variable with a misspelt name",
            &[Append(ALL, "vms_additional_package: [jq]\n")],
            &["--limit", "web-0"],
            &[
                "warning[machine/unknown-variable]",
                "vms_additional_package",
                "vms_additional_packages",
            ],
        ),
        (
            "VLAN -1",
            &[Replace(
                VMS,
                "{model: virtio, bridge: vmbr0}",
                "{model: virtio, bridge: vmbr0, tag: -1}",
            )],
            &["--limit", "web-0"],
            &["warning[machine/vlan-minus-one]"],
        ),
        (
            "certificates are not checked",
            &[Replace(
                ALL,
                "global_proxmox_api_ca_file:",
                "vms_pve_tls_insecure: true #",
            )],
            &["--limit", "web-0"],
            &["warning[", "is not verified", "vms_pve_tls_insecure"],
        ),
    ];
    let site = Site::start().await;
    let pristine = inventory_files(&site);
    for (what, edits, args, words) in cases {
        edit(&site, edits);
        let mut all = vec!["provision", "--plan"];
        all.extend_from_slice(args);
        let run = site.vmwright(&all).await;
        assert_told(what, &run, 0, words);
        assert_eq!(site.changes(), [], "{what}");
        assert_calm(what, &run);
        for (path, content) in &pristine {
            std::fs::write(path, content).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_the_output_and_not_the_run() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let site = Site::start().await;
    // NDJSON: the reader takes one line and goes away; the VM is made nevertheless.
    let mut child = site
        .command(&["provision", "--limit", "web-0", "--output", "json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.contains("run-started"), "{first}");
    drop(lines);
    let end = child.wait_with_output().await.unwrap();
    let told = String::from_utf8_lossy(&end.stderr).into_owned();
    assert!(end.status.success(), "{:?} {told}", end.status);
    assert!(!told.contains("panicked"), "{told}");
    assert_eq!(site.vms().len(), 1);
    // The inventory: more than a pipe takes.
    for args in [
        &["inventory", "--list"][..],
        &["completions", "bash"][..],
        &["--help"][..],
    ] {
        let mut child = site.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let end = child.wait_with_output().await.unwrap();
        let told = String::from_utf8_lossy(&end.stderr).into_owned();
        assert!(
            !told.contains("panicked") && end.status.code().is_some(),
            "{args:?}: {:?} {told}",
            end.status
        );
    }
    // Standard error closed from the start.
    let mut child = site.command(&["provision", "--limit", "web-0"]).spawn().unwrap();
    drop(child.stderr.take());
    let end = child.wait_with_output().await.unwrap();
    assert!(end.status.success(), "{:?}", end.status);
}
