//! How fast an inventory is read: 10,000 hosts in 200 groups, with variables beside them and templates.
//!
//! ```text
//! cargo bench --bench inventory
//! ```
//!
//! The real binary lists all hosts (`inventory --list`), and `ansible-inventory --list` does the same, if it is on the PATH or
//! where `scripts/setup test` puts it; both answers must be equal. Then one host is asked for, and one is provisioned until
//! it says that its lock is held, the first thing after everything was read and checked. Wall time is the best of three, for Ansible that of
//! one run; memory is the high-water mark. A line that misses its budget says FAIL, and the exit code is 1. Linux only.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod process;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_vmwright");
const GROUPS: usize = 200;
const HOSTS_A_GROUP: usize = 50;
/// How many times faster than Ansible.
const FASTER: f64 = 40.0;
/// Peak memory, MiB.
const MEMORY: f64 = 150.0;
/// Until one host of them all is read and checked, seconds.
const ONE_HOST: f64 = 0.2;

/// What a command took.
struct Taken {
    wall: f64,
    memory: f64,
    code: Option<i32>,
    out: Vec<u8>,
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    inventory(dir.path());
    let mut missed = false;
    println!(
        "{:34}  wall s  peak MiB  budget",
        format!("{} hosts", GROUPS * HOSTS_A_GROUP)
    );
    let mut tell = |what: &str, taken: &Taken, budget: &str, kept: bool| {
        let verdict = if kept { "PASS" } else { "FAIL" };
        println!(
            "{what:34}  {:6.3}  {:8.1}  {verdict} {budget}",
            taken.wall, taken.memory
        );
        missed |= !kept;
    };
    let list = best(|| vmwright(dir.path(), &["inventory", "--list"]));
    assert_eq!(list.code, Some(0));
    let memory = list.memory <= MEMORY;
    tell(
        "vmwright inventory --list",
        &list,
        &format!("peak <= {MEMORY} MiB"),
        memory,
    );
    let host = best(|| vmwright(dir.path(), &["inventory", "--host", "node-05000"]));
    assert_eq!(host.code, Some(0));
    tell("vmwright inventory --host", &host, "", true);
    let one = best(|| until_locked(dir.path(), "node-05000"));
    let text = format!("wall < {ONE_HOST} s");
    tell("vmwright provision, until its lock", &one, &text, one.wall < ONE_HOST);
    match ansible() {
        Some(program) => {
            let theirs = run(
                Command::new(program).arg("--list").arg("-i").arg("hosts.ini"),
                dir.path(),
            );
            assert_eq!(theirs.code, Some(0));
            let parsed = |taken: &Taken| serde_json::from_slice::<Value>(&taken.out).unwrap();
            assert!(parsed(&theirs) == parsed(&list), "the answers differ");
            let ratio = theirs.wall / list.wall;
            let text = format!("{ratio:.0} times slower, >= {FASTER}");
            tell("ansible-inventory --list", &theirs, &text, ratio >= FASTER);
        }
        None => println!("SKIPPED: ansible-inventory is not there"),
    }
    std::process::exit(i32::from(missed));
}

/// The best of three.
fn best(run: impl Fn() -> Taken) -> Taken {
    let runs = (0..3).map(|_| run());
    runs.min_by(|a, b| a.wall.total_cmp(&b.wall)).unwrap()
}

fn vmwright(dir: &Path, args: &[&str]) -> Taken {
    run(Command::new(BINARY).args(args).arg("-i").arg("hosts.ini"), dir)
}

fn run(command: &mut Command, dir: &Path) -> Taken {
    let out = dir.join("out");
    let begun = Instant::now();
    let mut child = command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(dir.join("err")).unwrap())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let code = loop {
        peak = peak.max(process::high_water_kib(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let wall = begun.elapsed().as_secs_f64();
    Taken {
        wall,
        memory: mebibytes(peak),
        code,
        out: fs::read(out).unwrap(),
    }
}

/// Provisions one host of them all until it says that it holds the lock, and kills it there.
fn until_locked(dir: &Path, host: &str) -> Taken {
    let begun = Instant::now();
    let mut child = Command::new(BINARY)
        .args(["provision", "--limit", host, "-i", "hosts.ini", "--state-dir", "state"])
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(dir.join("err")).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let wall = begun.elapsed().as_secs_f64();
    let peak = process::high_water_kib(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        line.contains(host) && line.contains("lock"),
        "{line}{}",
        fs::read_to_string(dir.join("err")).unwrap()
    );
    Taken {
        wall,
        memory: mebibytes(peak),
        code: None,
        out: Vec::new(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// `ansible-inventory` of ansible-core.
fn ansible() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/ansible/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own).chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join("ansible-inventory"))
        .find(|file| file.is_file())
}

/// Hosts with a few variables each, groups with more, groups of groups, and templates at every level.
fn inventory(dir: &Path) {
    let mut hosts = String::new();
    for group in 0..GROUPS {
        writeln!(hosts, "[rack{group:03}]").unwrap();
        for host in 0..HOSTS_A_GROUP {
            let n = group * HOSTS_A_GROUP + host;
            writeln!(
                hosts,
                "node-{n:05} global_ip_address=10.{}.{}.{} vms_proxmox_node=pve-{} rack_unit={}",
                n / 62_500,
                n / 250 % 250,
                n % 250 + 2,
                n % 8,
                host + 1
            )
            .unwrap();
        }
    }
    for site in 0..10 {
        writeln!(hosts, "[site{site}:children]").unwrap();
        (0..GROUPS)
            .filter(|group| group % 10 == site)
            .for_each(|group| writeln!(hosts, "rack{group:03}").unwrap());
        writeln!(
            hosts,
            "[site{site}:vars]\nsite_name=site{site}\nsite_domain=site{site}.example"
        )
        .unwrap();
    }
    hosts.push_str("[vms:children]\n");
    (0..10).for_each(|site| writeln!(hosts, "site{site}").unwrap());
    fs::write(dir.join("hosts.ini"), hosts).unwrap();
    fs::create_dir_all(dir.join("group_vars")).unwrap();
    fs::create_dir_all(dir.join("host_vars")).unwrap();
    fs::write(dir.join("group_vars/all.yml"), ALL).unwrap();
    fs::write(dir.join("group_vars/vms.yml"), VMS).unwrap();
    for group in 0..GROUPS {
        let text = format!(
            "rack: {group}\nrack_label: \"rack {{{{ rack }}}} of {{{{ site_name }}}}\"\nrack_power: {{feeds: [a, b], watts: {}}}\n\
             rack_contacts:\n  - name: team {}\n    mail: \"team{}@{{{{ site_domain }}}}\"\nglobal_gateway: 10.0.0.1\n",
            5000 + group,
            group % 7,
            group % 7
        );
        fs::write(dir.join(format!("group_vars/rack{group:03}.yml")), text).unwrap();
    }
    for n in (0..GROUPS * HOSTS_A_GROUP).step_by(100) {
        let text = format!("serial: SN{n:06}\nnotes: \"unit {{{{ rack_unit }}}}\"\n");
        fs::write(dir.join(format!("host_vars/node-{n:05}.yml")), text).unwrap();
    }
}

const ALL: &str = r#"
global_proxmox_api_host: 127.0.0.1
global_proxmox_api_port: 1
global_proxmox_api_user: automation@pve
global_proxmox_api_token_id: vmwright
global_proxmox_api_token: "{{ lookup('env', 'PROXMOX_TOKEN') | default('00000000-0000-0000-0000-000000000000', true) }}"
global_domain_name: "{{ site_domain }}"
global_dns_servers: [10.0.0.1, 10.0.0.2]
global_timezone: Europe/Berlin
global_packages_list: [qemu-guest-agent, htop]
global_vm_template_user: ops
global_os:
  debian_12: {template: debian-12-cloudinit}
global_gateway: 10.0.0.1
"#;

const VMS: &str = r#"
vms_os: debian_12
vms_dns: none
vms_prefix_length: 8
vms_config:
  agent: 1
  cores: 2
  sockets: 1
  memory: "{{ 1024 * 2 }}"
  ostype: l26
  scsihw: virtio-scsi-single
  storage: local-lvm
  disk_os: {disk: scsi0, size: 20}
  nic0: {model: virtio, bridge: vmbr0}
"#;
