//! What a run that begins now would find: two worlds with one fingerprint lead the next process the same way.
//!
//! It holds everything durable that the next process can see: our VM with its guest, volumes, tasks under way, snippets,
//! DNS, known_hosts, record and lock. Random ids are numbered in the order in which they occur, so that it counts which are
//! equal, not what they are. Left out are times (how long a task will still take, above all) and the journals of runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use regex::Regex;
use vmwright::dns::Record;
use vmwright::simulator::Handle;

use crate::scene::{FOREIGN, NODES, names, snippets};
use crate::world::Site;

/// The places to look at.
pub struct Places {
    cluster: Handle,
    records: Arc<Mutex<Vec<Record>>>,
    state: PathBuf,
    known_hosts: PathBuf,
    snippets: Vec<PathBuf>,
    /// The last text, and its normal form: most instants are like the one before.
    last: Mutex<(String, String)>,
}

impl Places {
    /// Those of a site.
    pub fn of(site: &Site) -> Self {
        Self {
            cluster: site.cluster().clone(),
            records: Arc::clone(&site.records),
            state: site.state(),
            known_hosts: site.known_hosts(),
            snippets: NODES.map(|node| snippets(site.cluster(), node)).into(),
            last: Mutex::default(),
        }
    }

    /// The fingerprint of this instant.
    pub fn fingerprint(&self) -> String {
        let mut text = self.cluster.look(|world| {
            let mut text = String::new();
            for vm in world.vms.values().filter(|vm| !FOREIGN.contains(&vm.vmid)) {
                let guest = serde_json::to_value(&vm.guest).unwrap_or_default();
                let at = |path: &str| guest.pointer(path).map(ToString::to_string).unwrap_or_default();
                text += &format!(
                    "vm {} {} running {} reboot {} booted {}\n{}\n",
                    vm.vmid,
                    vm.node,
                    vm.is_running(),
                    vm.reboot_requested,
                    vm.booted,
                    vm.config.text()
                );
                for path in [
                    "/boots",
                    "/disk/key_generation",
                    "/disk/runcmd_runs",
                    "/disk/cloud_init_disabled",
                    "/run/boot/id",
                    "/run/boot/stage",
                    "/run/boot/ssh_up",
                    "/run/boot/agent_up",
                ] {
                    text += &format!("{path} {}\n", at(path));
                }
                text += &format!(
                    "ending {}\n",
                    guest.pointer("/run/ending").is_some_and(|e| !e.is_null())
                );
                for volume in world.volumes.iter().filter(|volume| volume.vmid == vm.vmid) {
                    text += &format!("volume {} {} {}\n", volume.node, volume.volid, volume.size);
                }
            }
            for task in world.tasks.iter().filter(|task| task.is_running()) {
                text += &format!("task {} {}\n", task.kind, task.id);
            }
            text
        });
        text += &format!("{:?}\n", self.records.lock().unwrap());
        for folder in &self.snippets {
            for name in names(folder) {
                text += &format!("{name} {:?}\n", std::fs::read_to_string(folder.join(&name)));
            }
        }
        text += &std::fs::read_to_string(&self.known_hosts).unwrap_or_default();
        for folder in ["locks", "records"] {
            for name in names(&self.state.join(folder)) {
                let path = self.state.join(folder).join(&name);
                text += &format!("{folder}/{name} {:?}\n", names(&path));
                // Half a record, of which nothing is read, would hold half a time.
                if folder == "records" && !name.starts_with('.') {
                    text += &std::fs::read_to_string(&path).unwrap_or_default();
                }
            }
        }
        let mut last = self.last.lock().unwrap();
        if last.0 != text {
            *last = (text.clone(), normal(&text));
        }
        last.1.clone()
    }
}

/// Ids by their order, times by a letter.
fn normal(text: &str) -> String {
    static IDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)(?P<upid>UPID:[^\x22]+)|(?P<time>\d{4}-\d\d-\d\dT[0-9:.]+Z)",
            r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:[0-9A-F]{2}:){5}[0-9A-F]{2})",
            r"|(?P<ctime>ctime=\d+)"
        ))
        .unwrap()
    });
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    IDS.replace_all(text, |found: &regex::Captures<'_>| {
        if found.name("upid").is_some() {
            "UPID".to_owned()
        } else if let Some(id) = found.name("id") {
            let next = ids.len();
            format!("<{}>", ids.entry(id.as_str().to_lowercase()).or_insert(next))
        } else {
            "T".to_owned()
        }
    })
    .into_owned()
}
