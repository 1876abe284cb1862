//! Simulated guests and nodes, visited by the real `ssh`: logins, boot ids, cloud-init over time, restarts, jump hosts,
//! faults. Everything is on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed step of a test's own machinery ends the test"
)]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::watch;
use vmwright::simulator::clock::{Clock, Durations};
use vmwright::simulator::guest::{Guest, GuestBehaviour, GuestImage, PowerOn, Seed};
use vmwright::simulator::shell::Machine;
use vmwright::simulator::ssh::{self, Doors, Machines, NodeDoor, Options, Refusal, SshEffect, SshFault};

/// A world of guests without a cluster.
struct World {
    clock: Clock,
    durations: Durations,
    guests: Mutex<BTreeMap<u32, Guest>>,
    changed: watch::Sender<u64>,
    warnings: watch::Sender<Vec<String>>,
}

impl Machines for World {
    fn clock(&self) -> Clock {
        self.clock
    }
    fn durations(&self) -> Durations {
        self.durations.clone()
    }
    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
    fn each_guest(&self, look: &mut dyn FnMut(u32, &mut Guest)) {
        let now = self.clock.now_ms();
        let mut happened = false;
        for (vmid, guest) in self.guests.lock().unwrap().iter_mut() {
            let before = guest.revision();
            guest.advance(now);
            happened |= guest.revision() != before;
            look(*vmid, guest);
        }
        if happened {
            self.changed.send_modify(|n| *n += 1);
        }
    }
    fn change_guest(&self, vmid: u32, change: &mut dyn FnMut(&mut Guest)) -> bool {
        let now = self.clock.now_ms();
        let mut guests = self.guests.lock().unwrap();
        let Some(guest) = guests.get_mut(&vmid) else {
            return false;
        };
        guest.advance(now);
        change(guest);
        drop(guests);
        self.changed.send_modify(|n| *n += 1);
        true
    }
    fn warn(&self, text: String) {
        self.warnings.send_modify(|all| all.push(text));
    }
}

/// The world, its doors and a client.
struct Lab {
    world: Arc<World>,
    doors: Doors,
    dir: tempfile::TempDir,
    key: PathBuf,
    public: String,
    guest: SocketAddr,
    node: SocketAddr,
}

/// Every test has addresses of its own, also beside another run of the tests.
fn address() -> IpAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let pid = std::process::id();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let part = |shift: u32, size: u32| u8::try_from((pid >> shift) % size).unwrap();
    IpAddr::from([127, 64 + part(8, 64), part(0, 256), u8::try_from(n).unwrap()])
}

async fn keygen(path: &Path) -> String {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "me", "-f"])
        .arg(path);
    assert!(command.status().await.unwrap().success());
    let text = std::fs::read_to_string(path.with_extension("pub")).unwrap();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

async fn lab(durations: Durations) -> Lab {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("id");
    let public = keygen(&key).await;
    let world = Arc::new(World {
        clock: Clock::start(0),
        durations,
        guests: Mutex::default(),
        changed: watch::channel(0).0,
        warnings: watch::channel(Vec::new()).0,
    });
    let mut options = Options::below(&dir.path().join("world"));
    let guest = SocketAddr::new(address(), options.guest_port);
    let node = SocketAddr::new(address(), 2222);
    options.nodes.push(NodeDoor {
        name: "pve1".to_owned(),
        address: node,
        root: dir.path().join("world/nodes/pve1"),
        authorized_keys: vec![public.clone()],
    });
    let machines = Arc::clone(&world) as Arc<dyn Machines>;
    let doors = ssh::start(machines, options).await.unwrap();
    Lab {
        world,
        doors,
        dir,
        key,
        public,
        guest,
        node,
    }
}

const LOOSE: [&str; 12] = [
    "-F",
    "/dev/null",
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "LogLevel=ERROR",
    "-o",
    "IdentitiesOnly=yes",
];

impl Lab {
    fn seed(&self) -> Seed {
        Seed {
            user_data: format!(
                "#cloud-config\nhostname: web-0\nusers:\n- name: ops\n  sudo: ALL=(ALL) NOPASSWD:ALL\n  \
                 ssh_authorized_keys: ['{} me']\n",
                self.public
            ),
            network_data: format!(
                "version: 2\nethernets:\n  ens18: {{addresses: [{}/8]}}\n",
                self.guest.ip()
            ),
            meta_data: String::new(),
        }
    }

    fn power_on(&self, seed: Option<Seed>, behaviour: GuestBehaviour) {
        let on = PowerOn {
            now_ms: self.world.clock.now_ms(),
            seed,
            nics: Vec::new(),
            agent_device: true,
            behaviour,
        };
        let mut guests = self.world.guests.lock().unwrap();
        let fresh = || Guest::new_from_template(&GuestImage::default(), 42);
        guests
            .entry(101)
            .or_insert_with(fresh)
            .power_on(on, &self.world.durations);
        drop(guests);
        self.world.changed.send_modify(|n| *n += 1);
    }

    /// Waits until the guest's door is open (or closed).
    async fn door(&self, wanted: bool) {
        let mut open = self.doors.open();
        let waited = open.wait_for(|open| open.contains(&self.guest) == wanted);
        let waited = tokio::time::timeout(Duration::from_secs(20), waited).await;
        waited.expect("the door opens or closes").unwrap();
    }

    /// A guest that runs.
    async fn started(&self) {
        self.power_on(Some(self.seed()), GuestBehaviour::default());
        self.door(true).await;
    }

    async fn ssh_as(
        &self,
        who: &str,
        to: SocketAddr,
        key: &Path,
        more: &[&str],
        command: &str,
        stdin: &[u8],
    ) -> Output {
        let mut ssh = Command::new("ssh");
        ssh.args(LOOSE).arg("-i").arg(key).args(more);
        ssh.args(["-p", &to.port().to_string(), &format!("{who}@{}", to.ip()), command]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let feed = async move {
            // ssh may not want it.
            let _written = pipe.write_all(stdin).await;
        };
        tokio::join!(feed, child.wait_with_output()).1.unwrap()
    }

    async fn ssh(&self, command: &str) -> Output {
        self.ssh_as("ops", self.guest, &self.key, &[], command, b"").await
    }

    /// The output of a command that succeeds.
    async fn says(&self, command: &str) -> String {
        let output = self.ssh(command).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn status(&self) -> (String, Option<i32>) {
        let output = self.ssh("cloud-init status --format=json").await;
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (json["status"].as_str().unwrap().to_owned(), output.status.code())
    }
}

fn quick() -> Durations {
    Durations {
        boot: 30,
        cloud_init: 30,
        shutdown: 10,
        ..Durations::zero()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_logs_in_with_the_key_of_the_user_data_and_no_other() {
    let lab = lab(quick()).await;
    assert!(
        !lab.ssh("true").await.status.success(),
        "nothing answers before the start"
    );
    lab.started().await;
    assert_eq!(lab.says("whoami; hostname; id -u").await, "ops\nweb-0\n1000\n");
    assert_eq!(lab.says("sudo -n sh -c 'whoami; hostname'").await, "root\nweb-0\n");
    let boot_id = lab.says("cat /proc/sys/kernel/random/boot_id").await;
    let model = lab.world.guests.lock().unwrap()[&101].boot_id().unwrap().to_owned();
    assert_eq!(boot_id.trim(), model);
    let output = lab.ssh("cat; echo oops >&2; exit 7").await;
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(7), &b"oops\n"[..])
    );

    let other = lab.dir.path().join("other");
    keygen(&other).await;
    let denied = lab.ssh_as("ops", lab.guest, &other, &[], "true", b"").await;
    assert_eq!(denied.status.code(), Some(255));
    let text = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(text.contains("Permission denied (publickey)"), "{text}");
    let root = lab.ssh_as("root", lab.guest, &lab.key, &[], "true", b"").await;
    assert_eq!(root.status.code(), Some(255));
    assert_eq!(*lab.world.warnings.borrow(), Vec::<String>::new());
    lab.doors.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_input_and_output_pass() {
    let lab = lab(quick()).await;
    lab.started().await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let output = lab.ssh_as("ops", lab.guest, &lab.key, &[], "cat", &data).await;
    assert!(output.status.success() && output.stdout == data);
}

#[tokio::test(flavor = "multi_thread")]
async fn cloud_init_runs_to_done_and_wait_waits() {
    let lab = lab(Durations {
        cloud_init: 1500,
        ..quick()
    })
    .await;
    lab.started().await;
    assert_eq!(lab.status().await, ("running".to_owned(), Some(0)));
    let result = lab.ssh("test -e /run/cloud-init/result.json").await;
    assert_eq!(result.status.code(), Some(1));
    assert_eq!(lab.says("cloud-init status --wait").await, "status: done\n");
    assert_eq!(lab.status().await, ("done".to_owned(), Some(0)));
    let result = lab.says("cat /run/cloud-init/result.json").await;
    assert!(result.contains("DataSourceNoCloud"));
    let long = lab.says("cloud-init status --long").await;
    assert!(long.contains("extended_status: done\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_inside_keeps_the_drive_and_changes_the_boot_id() {
    let lab = lab(quick()).await;
    lab.started().await;
    let key = "cat /etc/ssh/ssh_host_ed25519_key.pub";
    let boot_id = "cat /proc/sys/kernel/random/boot_id";
    let (keys, before) = (lab.says(key).await, lab.says(boot_id).await);
    lab.says("touch /run/gone; touch /var/stays").await;
    // With real guests ssh ends with 255 or with the command's own status.
    let ended = lab.ssh("sudo systemctl reboot; sleep 20").await;
    assert_eq!(ended.status.code(), Some(255));
    lab.door(true).await;
    assert_ne!(lab.says(boot_id).await, before);
    assert_eq!(lab.says(key).await, keys);
    let left = lab
        .says("for f in /run/gone /var/stays; do test -e $f && echo $f; done; exit 0")
        .await;
    assert!(left.ends_with("/var/stays\n") && !left.contains("gone"), "{left}");
    assert_eq!(lab.status().await.0, "done");
    assert_eq!(lab.ssh("reboot").await.status.code(), Some(1), "only root may");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_after_the_drive_is_gone_also_with_the_fallback_template() {
    let lab = lab(quick()).await;
    let behaviour = GuestBehaviour {
        datasource_none_fallback: true,
        ..GuestBehaviour::default()
    };
    lab.power_on(Some(lab.seed()), behaviour.clone());
    lab.door(true).await;
    let keys = lab.doors.host_keys(lab.guest.ip(), lab.guest.port()).unwrap();
    lab.says("sudo -n touch /etc/cloud/cloud-init.disabled").await;
    let now = lab.world.clock.now_ms();
    lab.world.change_guest(101, &mut |guest| guest.power_off(now));
    lab.door(false).await;
    lab.power_on(None, behaviour);
    lab.door(true).await;
    assert_eq!(lab.status().await, ("disabled".to_owned(), Some(0)));
    assert_eq!(lab.doors.host_keys(lab.guest.ip(), lab.guest.port()).unwrap(), keys);

    // Without the switch the same template loses its address and its keys.
    lab.ssh("sudo -n rm /etc/cloud/cloud-init.disabled; sudo -n reboot")
        .await;
    lab.door(false).await;
    let mut open = lab.doors.open();
    let again = open.wait_for(|open| open.contains(&lab.guest));
    assert!(tokio::time::timeout(Duration::from_millis(500), again).await.is_err());
    assert_eq!(lab.world.guests.lock().unwrap()[&101].key_generation(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snippet_is_written_on_a_node() {
    let lab = lab(quick()).await;
    let script = "set -e; d=/var/lib/vz/snippets; umask 077; t=$(mktemp \"$d/.new.XXXXXX\"); cat > \"$t\"; \
                  mv \"$t\" $d/web-0.yml; cat '/var/lib/vz/snippets/web-0.yml'";
    let written = lab
        .ssh_as("root", lab.node, &lab.key, &[], script, b"#cloud-config\n")
        .await;
    assert_eq!(
        written.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    assert_eq!(written.stdout, b"#cloud-config\n");
    let file = lab.dir.path().join("world/nodes/pve1/var/lib/vz/snippets/web-0.yml");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "#cloud-config\n");
    let names = lab
        .ssh_as("root", lab.node, &lab.key, &[], "hostname; whoami", b"")
        .await;
    assert_eq!(names.stdout, b"pve1\nroot\n");
    let user = lab.ssh_as("ops", lab.node, &lab.key, &[], "true", b"").await;
    assert_eq!(user.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_is_a_jump_host() {
    let lab = lab(quick()).await;
    lab.started().await;
    let proxy = format!(
        "ProxyCommand=ssh {} -i {} -p {} -W %h:%p root@{}",
        LOOSE.join(" "),
        lab.key.display(),
        lab.node.port(),
        lab.node.ip()
    );
    let output = lab
        .ssh_as("ops", lab.guest, &lab.key, &["-o", &proxy], "hostname", b"")
        .await;
    assert_eq!(output.stdout, b"web-0\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn bounded_scripts_with_sudo_do_what_they_say() {
    let lab = lab(quick()).await;
    lab.started().await;
    let disable =
        "f=/etc/cloud/cloud-init.disabled; [ -e \"$f\" ] || { echo off > \"$f\" && sync \"$f\"; }; cat \"$f\"";
    assert_eq!(
        lab.says(&format!("sudo -n timeout -k 5 10 sh -c '{disable}'")).await,
        "off\n"
    );
    let file = lab.dir.path().join("world/guests/101/etc/cloud/cloud-init.disabled");
    assert!(file.exists());
    let late = lab.ssh("timeout -k 1 0.1 sh -c 'sleep 5'").await;
    assert_eq!(late.status.code(), Some(124));
    let keys = lab
        .says("for f in /etc/ssh/ssh_host_*_key.pub; do cut -d\" \" -f1,2 \"$f\"; done")
        .await;
    let mut shown: Vec<&str> = keys.lines().collect();
    let mut served = lab.doors.host_keys(lab.guest.ip(), lab.guest.port()).unwrap();
    shown.sort_unstable();
    served.sort();
    assert_eq!(shown, served);
    let addresses: serde_json::Value = serde_json::from_str(&lab.says("ip -j -4 addr show").await).unwrap();
    assert_eq!(addresses[1]["addr_info"][0]["local"], lab.guest.ip().to_string());
    assert_eq!(
        lab.says("hostname -f; hostname -I; uname -n").await,
        format!("web-0\n{} \nweb-0\n", lab.guest.ip())
    );
    let scan = Command::new("ssh-keyscan")
        .args([
            "-T",
            "5",
            "-p",
            &lab.guest.port().to_string(),
            &lab.guest.ip().to_string(),
        ])
        .output()
        .await
        .unwrap();
    let scanned = String::from_utf8_lossy(&scan.stdout).into_owned();
    assert!(served.iter().all(|key| scanned.contains(key)), "{scanned}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_strike_as_scripted() {
    let lab = lab(quick()).await;
    lab.started().await;
    let fault = |effect, skip, times| SshFault {
        machine: Some(Machine::Guest(101)),
        containing: None,
        skip,
        times,
        effect,
    };
    lab.doors.set_faults(vec![fault(SshEffect::DropAfter, 1, Some(1))]);
    assert!(lab.ssh("true").await.status.success());
    assert_eq!(lab.ssh("touch /var/ran").await.status.code(), Some(255));
    assert!(
        lab.ssh("test -e /var/ran").await.status.success(),
        "it ran before the connection was lost"
    );
    lab.doors.set_faults(vec![fault(SshEffect::DropBefore, 0, Some(1))]);
    assert_eq!(lab.ssh("touch /var/never").await.status.code(), Some(255));
    assert!(!lab.ssh("test -e /var/never").await.status.success());
    lab.doors.set_faults(vec![fault(SshEffect::RefuseLogin, 0, None)]);
    assert_eq!(lab.ssh("true").await.status.code(), Some(255));
    lab.doors.set_faults(vec![fault(SshEffect::RefuseConnection, 0, None)]);
    lab.door(false).await;
    let refused = lab.ssh("true").await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Connection refused"));
    let answer = SshEffect::Answer {
        code: 9,
        stderr: "no".to_owned(),
    };
    lab.doors.set_faults(vec![fault(answer, 0, None)]);
    lab.door(true).await;
    let answered = lab.ssh("true").await;
    assert_eq!(
        (answered.status.code(), answered.stderr.as_slice()),
        (Some(9), &b"no"[..])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn in_process_sessions_need_no_socket() {
    let lab = lab(quick()).await;
    lab.started().await;
    let run = |user: &'static str, key: String, command: &'static str| {
        let (doors, to) = (&lab.doors, lab.guest);
        async move { doors.exec(to.ip(), to.port(), user, &key, command, b"in").await }
    };
    let output = run("ops", lab.public.clone(), "cat; exit 3").await.unwrap();
    assert_eq!((output.code, output.stdout.as_slice()), (Some(3), &b"in"[..]));
    let stranger = run("ops", "ssh-ed25519 AAAAno".to_owned(), "true").await;
    assert_eq!(stranger, Err(Refusal::Denied));
    let rebooted = run("ops", lab.public.clone(), "sudo reboot; sleep 30").await;
    assert_eq!(rebooted, Err(Refusal::Lost));
    let nowhere = lab
        .doors
        .exec("127.1.1.1".parse().unwrap(), 1, "a", "b", "c", b"")
        .await;
    assert!(matches!(nowhere, Err(Refusal::NotReachable(_))));
    assert_eq!(lab.doors.log().last().unwrap().command, "sudo reboot; sleep 30");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_guests_run_at_once() {
    let lab = lab(quick()).await;
    let part = u8::try_from(std::process::id() % 64).unwrap();
    let sockets: Vec<SocketAddr> = (1..=50)
        .map(|n| SocketAddr::new(IpAddr::from([127, 192 + part, 1, n]), lab.guest.port()))
        .collect();
    for (vmid, socket) in (200..).zip(&sockets) {
        let mut seed = lab.seed();
        seed.network_data = seed
            .network_data
            .replace(&lab.guest.ip().to_string(), &socket.ip().to_string());
        let on = PowerOn {
            now_ms: lab.world.clock.now_ms(),
            seed: Some(seed),
            nics: Vec::new(),
            agent_device: true,
            behaviour: GuestBehaviour::default(),
        };
        let mut guest = Guest::new_from_template(&GuestImage::default(), u64::from(vmid));
        guest.power_on(on, &lab.world.durations);
        lab.world.guests.lock().unwrap().insert(vmid, guest);
    }
    lab.world.changed.send_modify(|n| *n += 1);
    let mut open = lab.doors.open();
    let all = open.wait_for(|open| sockets.iter().all(|socket| open.contains(socket)));
    tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .expect("fifty doors")
        .unwrap();
    let (key, doors) = (&lab.public, &lab.doors);
    let runs = sockets
        .iter()
        .map(|to| doors.exec(to.ip(), to.port(), "ops", key, "hostname", b""));
    for output in futures_util::future::join_all(runs).await {
        assert_eq!(output.unwrap().stdout, b"web-0\n");
    }
    assert_eq!(*lab.world.warnings.borrow(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_runs_commands_and_reads_files() {
    let lab = lab(quick()).await;
    lab.started().await;
    let mut guests = lab.world.guests.lock().unwrap();
    let guest = guests.get_mut(&101).unwrap();
    let script = "whoami; cat; touch /etc/cloud/cloud-init.disabled";
    let words: Vec<String> = ["/bin/sh", "-c", script].map(str::to_owned).into();
    let now = lab.world.clock.now_ms();
    let result = guest.agent_exec(now, &lab.world.durations, &words, b"input");
    assert_eq!(
        (result.code, result.stdout.as_str()),
        (0, "root\ninput"),
        "{}",
        result.stderr
    );
    let key = guest.agent_read_file(now, "/etc/ssh/ssh_host_ed25519_key.pub").unwrap();
    assert!(String::from_utf8(key).unwrap().starts_with("ssh-ed25519 AAAA"));
    assert_eq!(
        guest.agent_read_file(now, "/etc/cloud/cloud-init.disabled").unwrap(),
        b""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_bound_is_a_warning() {
    let lab = lab(quick()).await;
    let mut seed = lab.seed();
    seed.network_data = seed.network_data.replace(&lab.guest.ip().to_string(), "192.0.2.77");
    let mut warnings = lab.world.warnings.subscribe();
    lab.power_on(Some(seed), GuestBehaviour::default());
    let first = warnings.wait_for(|all| !all.is_empty());
    let first = tokio::time::timeout(Duration::from_secs(10), first)
        .await
        .expect("a warning")
        .unwrap()[0]
        .clone();
    assert!(first.contains("192.0.2.77:2222 cannot be bound"), "{first}");
}
