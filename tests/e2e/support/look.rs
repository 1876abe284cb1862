//! Looking at a site: the world, the state directory, the node's and the guest's files; and waiting for a moment.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use vmwright::simulator::RequestRecord;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::guest::GuestBehaviour;
use vmwright::simulator::vm::Vm;

use super::{PATIENCE, Site, Started};

/// Running commands, and waiting for moments of them.
impl Site {
    /// Starts the real binary with this inventory.
    pub fn begin(&self, args: &[&str]) -> Started {
        Started(self.command(args).spawn().unwrap())
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until<'s>(&'s self, what: &'s str, is_so: impl Fn(&Self) -> bool + 's) -> impl Future<Output = ()> + 's {
        let place = std::panic::Location::caller();
        async move {
            let since = Instant::now();
            while !is_so(self) {
                assert!(since.elapsed() < PATIENCE, "{place}: waited in vain for: {what}");
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
    }

    /// Lets the next such request wait before it is executed, for as long as nobody calls `clear`.
    pub fn hold(&self, method: &str, path: &str) {
        self.sim.faults().add(Fault::on(method, path, Action::Delay(600_000)));
    }

    /// Lets the next such request be executed, and holds its answer back for as long as the test runs.
    pub fn hold_answer(&self, method: &str, path: &str) {
        self.sim
            .faults()
            .add(Fault::on(method, path, Action::DelayAnswer(600_000)));
    }

    /// Waits until a request is held.
    pub async fn held(&self) {
        self.until("a request that is held", |site| site.sim.faults().hits() > 0)
            .await;
    }

    /// Runs the binary up to the request that is held (see [`Site::hold`]) and kills it there, as a power cut would.
    pub async fn killed_there(&self, args: &[&str]) {
        let mut started = self.begin(args);
        self.held().await;
        assert!(!started.has_ended());
        started.kill();
        assert_eq!(started.end().await.code, -1);
        self.sim.faults().clear();
    }
}

/// Looking at what there is.
impl Site {
    /// A VM, by its Proxmox name.
    #[track_caller]
    pub fn vm<R>(&self, name: &str, look: impl FnOnce(&Vm) -> R) -> R {
        self.sim.handle().look(|world| {
            let vm = world.vms.values().find(|vm| vm.name() == name);
            look(vm.unwrap_or_else(|| panic!("there is no VM {name}")))
        })
    }

    /// A key of a VM's configuration, as it runs.
    #[track_caller]
    pub fn key(&self, name: &str, key: &str) -> Option<String> {
        self.vm(name, |vm| vm.config.get(key).map(str::to_owned))
    }

    /// From now on the guest of this VM behaves differently.
    pub fn behave(&self, name: &str, change: impl FnOnce(&mut GuestBehaviour)) {
        let mut behaviour = GuestBehaviour::default();
        change(&mut behaviour);
        self.sim.with(|world| world.set_behaviour(name, behaviour));
    }

    /// The record of a VM, by its Proxmox name.
    pub fn record(&self, name: &str) -> Option<Value> {
        let dir = std::fs::read_dir(self.path("state/records")).ok()?;
        dir.flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "json"))
            .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
            .find(|record: &Value| record["name"] == name)
    }

    /// A record's phase: `complete`.
    pub fn phase(&self, name: &str) -> Option<String> {
        Some(self.record(name)?["phase"]["is"].as_str()?.to_owned())
    }

    /// The locks that are held.
    pub fn locks(&self) -> Vec<PathBuf> {
        let Ok(dir) = std::fs::read_dir(self.path("state/locks")) else {
            return Vec::new();
        };
        dir.flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    }

    /// The names in the snippet folder of a node's storage.
    pub fn snippets(&self, node: &str, storage: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .snippet_dir(node, storage)
            .read_dir()
            .map(|dir| {
                dir.flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect()
            })
            .unwrap_or_default();
        names.sort();
        names
    }

    /// The snippet folder of a node's storage.
    pub fn snippet_dir(&self, node: &str, storage: &str) -> PathBuf {
        self.sim
            .handle()
            .look(|world| world.content_dir(node, storage, "snippets"))
            .unwrap()
    }

    /// A file on a guest's disk; none if there is no such file.
    pub fn guest_file(&self, name: &str, path: &str) -> Option<String> {
        let root = self.vm(name, |vm| vm.guest.root().map(Path::to_owned))?;
        std::fs::read_to_string(root.join(path.trim_start_matches('/'))).ok()
    }

    /// The changes to the API whose path ends like this, in order.
    pub fn changes_to(&self, end: &str) -> Vec<RequestRecord> {
        let mut found = self.changes();
        found.retain(|request| request.path.ends_with(end));
        found
    }

    /// Where the first change whose path ends like this stands among all changes.
    #[track_caller]
    pub fn position(&self, end: &str) -> usize {
        let changes = self.changes();
        let found = changes.iter().position(|request| request.path.ends_with(end));
        found.unwrap_or_else(|| panic!("no change to {end} among {changes:#?}"))
    }

    /// The templates and VMs that the cluster runs or keeps, and everything about them that a change would change.
    pub fn configs(&self) -> String {
        self.sim.handle().look(|world| {
            world
                .vms
                .values()
                .map(|vm| format!("{} {} {:?}\n", vm.vmid, vm.node, vm.config))
                .collect()
        })
    }

    /// Every file and directory of a part of the site, with mode and content.
    pub fn tree(&self, part: &str) -> Vec<(PathBuf, u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt as _;
        fn walk(path: &Path, found: &mut Vec<(PathBuf, u32, Vec<u8>)>) {
            let Ok(meta) = std::fs::symlink_metadata(path) else {
                return;
            };
            let content = if meta.is_file() {
                std::fs::read(path).unwrap_or_default()
            } else {
                Vec::new()
            };
            found.push((path.to_owned(), meta.permissions().mode() & 0o7777, content));
            if meta.is_dir() {
                for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                    walk(&entry.path(), found);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(part), &mut found);
        found.sort();
        found
    }
}

/// A parameter of a request.
pub fn param<'r>(request: &'r RequestRecord, name: &str) -> Option<&'r str> {
    request
        .params
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}
