//! How fast the real binary is: N hosts at once against the simulated cluster as a second process.
//!
//! ```text
//! cargo bench --bench fleet             N = 1, 10 and 50, with the cluster's own durations and with none
//! cargo bench --bench fleet -- --quick  N = 1 only
//! ```
//!
//! Every line is one run of `vmwright provision` from an empty state directory to verified, finalized VMs, over real HTTPS
//! and real `ssh`. The *floor* is the longest chain of simulated durations, which no client can beat. CPU is that of the
//! binary itself, and apart from it that of the `ssh` processes which it started; memory is the binary's own high-water
//! mark. A line that misses its budget says FAIL, and the exit code is 1.
//!
//! CPU times come from `/proc/PID/stat` of ended processes before they are reaped, in steps of 10 ms; `ssh` masters go to
//! the background and come back to this process, which is their subreaper. Linux only.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod process;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde_json::Value;
use vmwright::simulator::clock::Durations;

use process::high_water_kib;

const BINARY: &str = env!("CARGO_BIN_EXE_vmwright");
const SSH_PORT: u16 = 2222;
const NODES: [&str; 3] = ["pve-0", "pve-1", "pve-2"];
/// Where the template is, on a storage that is not shared: VMs elsewhere are cloned here and migrated.
const TEMPLATE_NODE: &str = "pve-0";
/// One tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux that Rust runs on.
const TICK: f64 = 0.01;

/// What a run must keep.
struct Budget {
    /// wall / floor.
    ratio: Option<f64>,
    /// CPU seconds of the binary itself.
    cpu: Option<f64>,
    /// MiB.
    memory: Option<f64>,
}

/// What a run took.
struct Taken {
    wall: f64,
    cpu: f64,
    ssh_cpu: f64,
    memory: f64,
    calls: u64,
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let sizes: &[usize] = if quick { &[1] } else { &[1, 10, 50] };
    // Masters of ssh detach themselves; they are to come back here, so that their CPU is seen.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    println!(
        "durations    N   wall s  floor s  wall/floor  CPU s (itself)  CPU s (ssh)  peak MiB  API calls/VM  budget"
    );
    let mut failed = false;
    for (durations, speed) in [("default", 1.0), ("zero", 0.0)] {
        for &n in sizes {
            let floor = floor(n, &Durations::default().scaled(speed));
            let taken = run(n, speed);
            let ratio = if floor > 0.0 { Some(taken.wall / floor) } else { None };
            let (verdict, right) = judge(&budget(n, speed), ratio, &taken);
            failed |= !right;
            println!(
                "{durations:<9} {n:>4} {:>8.2} {floor:>8.2} {:>11} {:>15.2} {:>12.2} {:>9.1} {:>13.1}  {verdict}",
                taken.wall,
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
                taken.cpu,
                taken.ssh_cpu,
                taken.memory,
                per(taken.calls, n),
            );
        }
    }
    if failed {
        std::process::exit(1);
    }
}

fn budget(n: usize, speed: f64) -> Budget {
    Budget {
        ratio: match n {
            1 if speed > 0.0 => Some(1.10),
            50 if speed > 0.0 => Some(1.20),
            _ => None,
        },
        cpu: (n == 1 && speed == 0.0).then_some(0.10),
        memory: (n == 50 && speed == 0.0).then_some(100.0),
    }
}

fn judge(budget: &Budget, ratio: Option<f64>, taken: &Taken) -> (String, bool) {
    let checks = [
        ("wall/floor", budget.ratio, ratio, "<="),
        ("CPU", budget.cpu, Some(taken.cpu), "<"),
        ("peak", budget.memory, Some(taken.memory), "<"),
    ];
    let mut words = Vec::new();
    let mut right = true;
    for (what, limit, value, sign) in checks {
        if let (Some(limit), Some(value)) = (limit, value) {
            let kept = if sign == "<=" { value <= limit } else { value < limit };
            right &= kept;
            let verdict = if kept { "PASS" } else { "FAIL" };
            words.push(format!("{verdict} {what} {sign} {limit:.2}"));
        }
    }
    (words.join(", "), right)
}

/// The longest chain of simulated durations, in seconds.
///
/// The clone's task (its process forks first), the migration where the VM is not on the template's node, the disk's growth
/// (the configuration is written by a call that takes no time), the start task, the boot until sshd, cloud-init from there
/// on; then the restart through the API: the guest shuts down, Proxmox starts it in a task of its own, it boots. The second
/// boot has no cloud-init.
fn floor(n: usize, d: &Durations) -> f64 {
    let elsewhere = (0..n).any(|index| node(index) != TEMPLATE_NODE);
    let migration = if elsewhere { d.migrate } else { 0 };
    let created = d.fork + d.clone + migration + d.resize + d.start + d.boot + d.cloud_init;
    let restarted = d.shutdown + d.reboot_gap + d.start + d.boot;
    Duration::from_millis(created + restarted).as_secs_f64()
}

/// The node of host `index`: the first one is not the template's, so that even one VM is migrated.
fn node(index: usize) -> &'static str {
    NODES[(index + 1) % NODES.len()]
}

/// One run in a directory of its own.
fn run(n: usize, speed: f64) -> Taken {
    let site = tempfile::tempdir().unwrap();
    let dir = site.path();
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f"])
        .arg(dir.join("key"))
        .status()
        .unwrap();
    assert!(made.success(), "ssh-keygen");
    let mut simulator = Command::new(BINARY)
        .args([
            "simulator",
            "--ssh-port",
            &SSH_PORT.to_string(),
            "--speed",
            &speed.to_string(),
        ])
        .arg("--world")
        .arg(dir.join("world"))
        .arg("--node-key")
        .arg(dir.join("key.pub"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(simulator.stdout.take().unwrap()).lines();
    let place: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
    inventory(dir, n, &place);
    let mut taken = client(dir, n, simulator.id());
    rustix::process::kill_process(pid(&simulator), Signal::TERM).unwrap();
    let end: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
    simulator.wait().unwrap();
    taken.calls = end["requests"].as_u64().unwrap();
    taken
}

/// Runs the client and accounts for it.
#[expect(clippy::zombie_processes, reason = "`reap` waits for it, after its times were read")]
fn client(dir: &Path, n: usize, simulator: u32) -> Taken {
    let log = fs::File::create(dir.join("log")).unwrap();
    let begun = Instant::now();
    let child = Command::new(BINARY)
        .args(["provision", "--forks", "50", "--clone-limit-per-storage", "unlimited"])
        .args(["--migrate-limit-per-node", "unlimited", "-i"])
        .arg(dir.join("inventory"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let peak = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let wall = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(high_water_kib(child.id()), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // The child stays a zombie, so that its times can be read.
        rustix::process::waitid(WaitId::Pid(pid(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let wall = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        wall
    });
    let times = times(child.id()).unwrap();
    let code = reap(pid(&child));
    let mut ssh_ticks = times.children;
    // The masters of ssh end when their client does.
    let patience = Instant::now();
    loop {
        let left: Vec<u32> = children().into_iter().filter(|child| *child != simulator).collect();
        if left.is_empty() {
            break;
        }
        for child in left {
            let raw = Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
            if patience.elapsed() > Duration::from_secs(3) {
                let _ = rustix::process::kill_process(raw, Signal::TERM);
            }
            if let Some(ended) = self::times(child).filter(|times| times.zombie) {
                ssh_ticks += ended.own + ended.children;
                reap(raw);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let log = fs::read_to_string(dir.join("log")).unwrap();
    assert!(
        code == Some(0) && log.contains(&format!("{n} changed")),
        "the run is no success:\n{log}"
    );
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (cpu, ssh_cpu, memory) = (
        times.own as f64 * TICK,
        ssh_ticks as f64 * TICK,
        peak.load(Ordering::Relaxed) as f64 / 1024.0,
    );
    Taken {
        wall: wall.as_secs_f64(),
        cpu,
        ssh_cpu,
        memory,
        calls: 0,
    }
}

fn inventory(dir: &Path, n: usize, place: &Value) {
    let text = |key: &str| place[key].as_str().unwrap().to_owned();
    let net = text("net");
    let hosts: String = (0..n)
        .map(|index| {
            format!(
                "vm-{index:03} vms_proxmox_node={} global_ip_address={net}.{}\n",
                node(index),
                100 + index
            )
        })
        .collect();
    let nodes: String = place["nodes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, ip)| format!("{name} ansible_host={}\n", ip.as_str().unwrap()))
        .collect();
    let api = text("api");
    let (host, port) = api.rsplit_once(':').unwrap();
    let token = text("token_id");
    let (user, id) = token.split_once('!').unwrap();
    let files = [
        ("hosts.ini", format!("[vms]\n{hosts}\n[proxmox_nodes]\n{nodes}")),
        (
            "group_vars/all.yml",
            format!(
                "global_proxmox_api_host: {host}\nglobal_proxmox_api_port: {port}\nglobal_proxmox_api_ca_file: {ca}\n\
                 global_proxmox_api_user: {user}\nglobal_proxmox_api_token_id: {id}\nglobal_proxmox_api_token: {secret}\n\
                 vms_dns: none\nglobal_os: {{debian_12: {{template: debian-12-cloudinit}}}}\n\
                 global_domain_name: bench.example\nglobal_dns_servers: [{net}.3]\nglobal_timezone: Etc/UTC\n\
                 global_packages_list: [qemu-guest-agent]\nglobal_vm_template_user: ansible\n\
                 ansible_port: {SSH_PORT}\nansible_ssh_private_key_file: {key}\n",
                ca = text("ca_file"),
                secret = text("token_secret"),
                key = dir.join("key").display(),
            ),
        ),
        (
            "group_vars/vms.yml",
            "vms_os: debian_12\nvms_config:\n  agent: '1'\n  cores: '2'\n  sockets: 1\n  cpu: host\n  memory: 1024\n  \
             ostype: l26\n  scsihw: virtio-scsi-single\n  storage: local-lvm\n  disk_os: {disk: scsi0, size: 20}\n  \
             nic0: {model: virtio, bridge: vmbr0}\n"
                .to_owned(),
        ),
        (
            "group_vars/proxmox_nodes.yml",
            "ansible_user: root\nansible_ssh_common_args: -o StrictHostKeyChecking=accept-new\n".to_owned(),
        ),
        (
            "vmwright.yaml",
            "state_dir: ../state\nknown_hosts: ../known_hosts\n".to_owned(),
        ),
    ];
    fs::create_dir_all(dir.join("inventory/group_vars")).unwrap();
    for (name, content) in files {
        fs::write(dir.join("inventory").join(name), content).unwrap();
    }
}

/// CPU times of a process, in ticks.
struct Times {
    /// Whether it has ended and was not reaped.
    zombie: bool,
    /// Its own.
    own: u64,
    /// Those of children that it waited for.
    children: u64,
}

/// The times of a process, also of one that has ended and was not reaped.
fn times(pid: u32) -> Option<Times> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): after the name in brackets come state (3) and, as fields 14 to 17, utime, stime, cutime, cstime.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let tick = |index: usize| fields.get(index - 3).and_then(|field| field.parse::<u64>().ok());
    Some(Times {
        zombie: fields.first() == Some(&"Z"),
        own: tick(14)? + tick(15)?,
        children: tick(16)? + tick(17)?,
    })
}

fn children() -> Vec<u32> {
    let me = std::process::id().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')')
                .and_then(|(_, rest)| rest.split_whitespace().nth(1))
                .is_some_and(|parent| parent == me)
        })
        .collect()
}

fn reap(pid: Pid) -> Option<i32> {
    let (_, status) = rustix::process::waitpid(Some(pid), WaitOptions::empty()).unwrap()?;
    status.exit_status()
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn per(calls: u64, n: usize) -> f64 {
    calls as f64 / n as f64
}
