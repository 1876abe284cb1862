//! The installation that the exchanges were recorded on, and what was done to it beside the API.

use std::time::Duration;

use vmwright::simulator::clock::Durations;
use vmwright::simulator::spec::{AclSpec, UserSpec, VmSpec};
use vmwright::simulator::world::World as Model;
use vmwright::simulator::{Handle, Options, Request, Response, Simulator};

use crate::replay_spec::{SCSI0, spec, template, vm, vms_of};

/// The files, each with a world of its own.
pub const FILES: &[&str] = &[
    "a01_version_auth.json",
    "a02_http_routing.json",
    "a03_resources_nextid.json",
    "a04_create.json",
    "a05_config.json",
    "a06_clone.json",
    "a07_resize_disk.json",
    "a08_power.json",
    "a09_delete.json",
    "a10_tasks.json",
    "a11_permissions.json",
    "a12_snapshots.json",
    "a13_extra.json",
];

/// Calls that the simulator does not have: a provisioning client does not need them.
pub const UNKNOWN_CALLS: &[&str] = &[
    "/move_disk",
    "/rrddata",
    "/firewall/",
    "/monitor",
    "/cluster/options",
    "/access/users",
    "/snapshot/s1/config",
    "/syslog",
];

/// Exchanges that depend on what cannot be had here.
pub fn is_out_of_reach(name: &str) -> bool {
    let only_there = [
        // Indexes list calls that the simulator does not have.
        "node index",
        "vm index",
        "snapshot index",
        "task list as ci",
        // The file has moved disks in between.
        "config after move",
        "content of vmdata",
        // A volume of a VM that the recording does not make.
        "storage content",
        // The order of two equal errors is a hash's.
        "create unused",
        // Rules and users are not made through the API here; the body is shortened in the recording.
        "acl for user",
        "huge body",
        // An image that is larger than the storage.
        "import-from to full storage",
        "config of that vm",
        // A race of `qm cleanup` and its timing.
        "stop soon after the quick restart",
        "current after that",
        // QEMU's own words.
        "start with broken disk",
        "start with bad args",
    ];
    if matches!(
        name,
        "storage content iso" | "storage content snippets" | "config of that vm 2"
    ) {
        return false;
    }
    only_there.iter().any(|part| name.starts_with(part))
        || name.starts_with("move disk")
        || name.contains("long header")
}

/// The header of a token's short name, or of a literal token.
pub fn authorization(token: &str) -> String {
    let secret = |n: u8| format!("00000000-0000-0000-0000-00000000000{n}");
    let literal = match token {
        "root" => format!("root@pam!oracle={}", secret(1)),
        "ci" => format!("ci@pve!full={}", secret(2)),
        "sep" => format!("ci@pve!sep={}", secret(3)),
        "none" => format!("nobody@pve!none={}", secret(4)),
        "aud" => format!("aud@pve!aud={}", secret(5)),
        literal => literal.to_owned(),
    };
    format!("PVEAPIToken={literal}")
}

/// A text without UUIDs, MACs, digests, UPIDs, passwords' hashes.
pub fn without_random(text: &str) -> String {
    let rules = [
        (r"UPID:[^ ]*:", "UPID"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"(?i)bc:24:11:[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}", "MAC"),
        (r"\b[0-9a-f]{40}\b", "DIGEST"),
        (r"creation-qemu=[0-9.]+,ctime=[0-9]+", "META"),
        (r"\$5\$[^\n]*", "HASH"),
        (r"( at /usr/share/perl5/\S+ line \d+)", ""),
    ];
    static COMPILED: std::sync::OnceLock<Vec<(regex::Regex, &str)>> = std::sync::OnceLock::new();
    let compiled = COMPILED.get_or_init(|| rules.map(|(p, with)| (regex::Regex::new(p).unwrap(), with)).into());
    let mut text = text.to_owned();
    for (pattern, instead) in compiled {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    text
}

/// A world as it was recorded.
pub struct World {
    sim: Simulator,
    handle: Handle,
    _dir: tempfile::TempDir,
}

impl World {
    pub async fn for_file(file: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::api_only(dir.path());
        options.spec = spec();
        options.spec.vms = vms_of(file);
        options.durations = Durations {
            clone: 1500,
            start: 500,
            delete: 100,
            ..Durations::default()
        };
        let sim = Simulator::start(options).await.unwrap();
        let handle = sim.handle().clone();
        let vz = handle.node_root("pve1").join("var/lib/vz");
        for (file, text) in [
            ("snippets/ok.yaml", "#cloud-config\n"),
            ("template/iso/test.iso", "iso"),
            ("import/disk.qcow2", "disk"),
        ] {
            std::fs::write(vz.join(file), text).unwrap();
        }
        let world = Self { sim, handle, _dir: dir };
        tokio::time::sleep(Duration::from_secs(11)).await;
        world
    }

    pub async fn handle(&self, request: Request) -> Response {
        self.handle.handle(request).await.unwrap()
    }

    /// Waits until the task of a status request has ended.
    pub async fn finish(&self, request: &Request) {
        for _ in 0..4000 {
            let mut as_root = request.clone();
            as_root.authorization = Some(authorization("root"));
            let response = self.handle(as_root).await;
            if response.status != 200 || response.data()["status"] == "stopped" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn config(&self, vmid: u32, key: &str, value: Option<&str>) {
        self.sim.with(|world| {
            if let Some(vm) = world.vms.get_mut(&vmid) {
                match value {
                    Some(value) => vm.config.current.insert(key.to_owned(), value.to_owned()),
                    None => vm.config.current.shift_remove(key),
                };
            }
        });
    }

    fn add(&self, vm: &VmSpec) {
        self.sim.with(|world| world.add_vm(vm)).unwrap();
    }

    /// What happened beside the API just before an exchange.
    pub async fn before(&self, file: &str, name: &str) {
        let drop_vm = |vmid: u32| {
            self.sim.with(|world: &mut Model| {
                world.power_off(vmid);
                world.vms.remove(&vmid);
                world.volumes.retain(|v| v.vmid != vmid);
            });
        };
        let start = |vmid: u32| {
            self.sim.with(|world: &mut Model| world.vms[&vmid].is_running()) || {
                self.sim.with(|world: &mut Model| {
                    let spec = VmSpec {
                        running: true,
                        ..world.vms.get(&vmid).map(|_| vm(vmid, &[], SCSI0)).unwrap_or_default()
                    };
                    let old = world.vms.remove(&vmid);
                    world.volumes.retain(|v| v.vmid != vmid || v.volid.contains("nothing"));
                    world.add_vm(&spec).unwrap();
                    if let (Some(old), Some(new)) = (old, world.vms.get_mut(&vmid)) {
                        new.config = old.config;
                    }
                });
                true
            }
        };
        match (file, name) {
            ("a03_resources_nextid.json", "resources 1 vm, right after create, vmid used before") => {
                self.add(&vm(100, &[], SCSI0));
                tokio::time::sleep(Duration::from_secs(11)).await;
            }
            ("a03_resources_nextid.json", "resources 2 vms, right after create") => {
                self.handle.look(|_| ());
                self.add(&vm(169_499, &[], SCSI0));
            }
            ("a03_resources_nextid.json", "resources 1 vm, after status cycle") => {
                drop_vm(169_499);
                tokio::time::sleep(Duration::from_secs(11)).await;
            }
            ("a03_resources_nextid.json", "resources 2 vms and template") => {
                start(100);
                self.add(&VmSpec {
                    name: "second.example.test".to_owned(),
                    ..vm(102, &[("tags", "a;b")], SCSI0)
                });
                self.add(&template());
                self.sim
                    .with(|world| world.pools.entry("ci".to_owned()).or_default().insert(102));
                tokio::time::sleep(Duration::from_secs(11)).await;
            }
            ("a03_resources_nextid.json", "nextid with range") => self.sim.with(|w| w.next_id = (500, 502)),
            ("a03_resources_nextid.json", "pools") => self.sim.with(|w| w.next_id = (100, 1_000_000)),
            ("a05_config.json", "config of locked vm") => self.config(100, "lock", Some("backup")),
            ("a05_config.json", "running: put cores") => {
                self.config(100, "lock", None);
                self.sim.with(|world| {
                    let mut other = vm(100, &[], &[]);
                    other.vmid = 999;
                    other.running = true;
                    world.add_vm(&other).unwrap();
                    let power = world.vms[&999].power.clone();
                    world.vms.remove(&999);
                    world.vms.get_mut(&100).unwrap().power = power;
                });
            }
            ("a06_clone.json", "delete template with linked clones") => {}
            ("a06_clone.json", "while cloning: task status" | "while cloning: task status 2") => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            ("a06_clone.json", "while cloning: stop task") => tokio::time::sleep(Duration::from_secs(5)).await,
            ("a06_clone.json", "template of running") => {
                start(100);
            }
            ("a06_clone.json", "clone slow (bwlimit)") => self.sim.with(|w| grow(w, 100)),
            ("a07_resize_disk.json", "resize running") => {
                self.sim.with(|w| run(w, 100));
            }
            ("a08_power.json", "start with missing cicustom snippet") => {
                self.sim.with(|world| {
                    let mut spec = vm(100, &[], SCSI0);
                    spec.cloudinit = Some("ide2".to_owned());
                    spec.config.insert("agent".to_owned(), "enabled=1".to_owned());
                    world.power_off(100);
                    world.vms.remove(&100);
                    world.volumes.clear();
                    world.add_vm(&spec).unwrap();
                });
                self.config(100, "cicustom", Some("user=local:snippets/missing.yaml"));
            }
            ("a08_power.json", "start with cicustom on unknown storage") => {
                self.config(100, "cicustom", Some("user=nosuch:snippets/ok.yaml"));
            }
            ("a08_power.json", "start with good cicustom") => {
                self.config(100, "cicustom", Some("user=local:snippets/ok.yaml"));
            }
            ("a08_power.json", "start with missing bridge") => {
                self.sim.with(|w| w.power_off(100));
                self.config(100, "net0", Some("virtio=BC:24:11:00:00:01,bridge=vmbr77"));
            }
            ("a08_power.json", "start with firewall=1") => {
                self.config(100, "net0", Some("virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"));
            }
            ("a08_power.json", "start with missing disk") => {
                self.sim.with(|w| w.power_off(100));
                self.sim.with(|w| w.volumes.retain(|v| !v.volid.contains("disk-0")));
            }
            ("a08_power.json", "start with bad args (QEMU fails)") => {
                self.config(100, "scsi0", None);
            }
            ("a08_power.json", "start with too many cores") => {
                self.config(100, "memory", Some("128"));
                self.config(100, "cores", Some("64"));
            }
            ("a08_power.json", "start with missing iso") => {
                self.config(100, "cores", Some("1"));
                self.config(100, "ide0", Some("local:iso/test.iso,media=cdrom"));
                let iso = self.handle.node_root("pve1").join("var/lib/vz/template/iso/test.iso");
                std::fs::remove_file(iso).unwrap();
            }
            ("a08_power.json", "start ok at the end") => {
                self.config(100, "ide0", None);
                self.sim.with(|world| {
                    let mut volume = world.volumes[0].clone();
                    volume.volid = "vmdata:100/vm-100-disk-0.qcow2".to_owned();
                    world.volumes.push(volume);
                });
                self.config(100, "scsi0", Some("vmdata:100/vm-100-disk-0.qcow2,size=1G"));
            }
            ("a08_power.json", "current after qemu was killed") => {
                self.sim.with(|w| w.power_off(100));
                self.config(100, "agent", Some("enabled=1"));
                tokio::time::sleep(Duration::from_secs(11)).await;
            }
            ("a09_delete.json", "delete with missing disk file") => {
                self.sim.with(|w| w.volumes.retain(|v| v.vmid != 105));
            }
            ("a09_delete.json", "config with unknown storage") => {
                self.config(106, "scsi0", Some("nosuch:106/vm-106-disk-0.qcow2,size=1G"));
            }
            ("a09_delete.json", "pool after delete") | ("a06_clone.json", "pool after") => {}
            ("a11_permissions.json", "disabled user") => self.user(|u| u.enable = false),
            ("a11_permissions.json", "expired user") => self.user(|u| {
                u.enable = true;
                u.expire = 1;
            }),
            ("a11_permissions.json", "expired token") => {
                self.user(|u| u.expire = 0);
                self.sim
                    .with(|w| w.access.tokens.get_mut("ci@pve!full").unwrap().expire = 1);
            }
            ("a11_permissions.json", "enabled again") => {
                self.sim
                    .with(|w| w.access.tokens.get_mut("ci@pve!full").unwrap().expire = 0);
            }
            ("a13_extra.json", "clone with missing source disk") => {
                self.sim.with(|w| w.volumes.retain(|v| v.vmid != 104));
            }
            ("a13_extra.json", "login ok") => self.sim.with(|w| {
                let user = UserSpec {
                    password: Some("test-password".to_owned()),
                    ..UserSpec::default()
                };
                w.access.users.insert("web@pve".to_owned(), user);
                w.access.acl.push(AclSpec {
                    path: "/vms".to_owned(),
                    id: "web@pve".to_owned(),
                    role: "PVEVMAdmin".to_owned(),
                    propagate: true,
                });
            }),
            ("a13_extra.json", "ticket of deleted user") => self.sim.with(|w| {
                w.access.users.remove("web@pve");
            }),
            ("a13_extra.json", "create where an orphan disk exists") => self.sim.with(|world| {
                world.add_vm(&vm(150, &[], SCSI0)).unwrap();
                world.vms.remove(&150);
            }),
            ("a13_extra.json", "config of vm with broken file") => self.sim.with(|world| {
                world.add_vm(&vm(151, &[], &[])).unwrap();
                world.vms.get_mut(&151).unwrap().config.current.clear();
            }),
            _ => {}
        }
    }

    /// A task that the recording started without an exchange of its own.
    pub async fn task_beside_the_api(&self, name: &str) -> Option<String> {
        if !matches!(name, "running task: status" | "killed worker: status") {
            return None;
        }
        let response = self
            .handle(Request {
                method: "POST".to_owned(),
                path: "/api2/json/nodes/pve1/qemu/100/status/shutdown".to_owned(),
                authorization: Some(authorization("root")),
                ..Request::default()
            })
            .await;
        let upid = response.data().as_str()?.to_owned();
        if name.starts_with("killed") {
            self.sim.with(|world| {
                let pid = world.task(&upid).unwrap().pid;
                world.kill_task(pid);
            });
        }
        Some(upid)
    }

    /// The digest of a VM's config.
    pub fn digest(&self, vmid: u32) -> String {
        self.handle.look(|world| world.vms[&vmid].config.digest())
    }

    fn user(&self, change: impl FnOnce(&mut UserSpec)) {
        self.sim.with(|w| change(w.access.users.get_mut("ci@pve").unwrap()));
    }
}

/// The VM runs, whatever it takes.
fn run(world: &mut Model, vmid: u32) {
    let mut spec = vm(999, &[], &[]);
    spec.running = true;
    world.add_vm(&spec).unwrap();
    let power = world.vms[&999].power.clone();
    world.vms.remove(&999);
    world.vms.get_mut(&vmid).unwrap().power = power;
}

/// The disk is 2 GiB.
fn grow(world: &mut Model, vmid: u32) {
    for volume in world.volumes.iter_mut().filter(|v| v.vmid == vmid) {
        volume.size = 2 << 30;
    }
}
