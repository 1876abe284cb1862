//! Planted faults: what the harness must catch, it catches.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use vmwright::proxmox::transport::{ApiRequest, ApiResponse, Transport, TransportError};
use vmwright::state::store::Facts;
use vmwright::state::{Filesystem, Store};

use crate::deaths::boundaries;
use crate::door::Api;
use crate::life::{Doctored, Workflow, clean, live, live_with};
use crate::points::{ends_well, runtime};
use crate::scene::{NAME, names};
use crate::switch::{Plan, Switch};
use crate::workflows::Provision;
use crate::world::Site;

/// Sends a clone again, under another number, as if its answer had been lost.
struct Resends(Api);

impl Transport for Resends {
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        Box::pin(async move {
            if request.path.ends_with("/clone") {
                let mut again = request.clone();
                for (name, value) in &mut again.params {
                    if name == "newid" {
                        *value = "900".to_owned();
                    }
                }
                let first = self.0.exchange(request).await;
                // The template's lock is busy with the first one for a while.
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                let _ = self.0.exchange(again).await;
                return first;
            }
            self.0.exchange(request).await
        })
    }
}

/// Says that an intent was written, and writes nothing.
#[derive(Debug)]
struct DropsIntents(Arc<dyn Store>);

impl Store for DropsIntents {
    fn write_atomic(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        if String::from_utf8_lossy(content).contains("\"is\": \"cloning\"") {
            return Ok(());
        }
        self.0.write_atomic(path, content)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }
    fn append(&self, path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
        self.0.append(path, content, sync)
    }
    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename_dir(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn lock_file(&self, path: &Path) -> io::Result<File> {
        self.0.lock_file(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(path)
    }
    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.0.facts(path)
    }
    fn filesystem(&self, path: &Path) -> io::Result<Filesystem> {
        self.0.filesystem(path)
    }
}

/// The boundary of this name.
fn boundary(name: &str) -> usize {
    let all = boundaries(&Provision);
    let found = all.iter().position(|what| what.starts_with(name));
    found.unwrap_or_else(|| panic!("{name:?} is none of {all:#?}"))
}

/// Edits the one record as a faulty program would have written it.
fn forge(site: &Site, change: impl FnOnce(&mut Value)) {
    let folder = site.state().join("records");
    let file = folder.join(&names(&folder)[0]);
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut record["phase"]);
    std::fs::write(&file, serde_json::to_vec_pretty(&record).unwrap()).unwrap();
}

#[track_caller]
fn caught(wrong: &[String], by: &str) {
    assert!(
        wrong.iter().any(|what| what.contains(by)),
        "{by:?} was not noticed: {wrong:#?}"
    );
}

#[test]
fn a_clone_sent_again_after_a_lost_answer_is_caught() {
    runtime().block_on(async {
        let site = Site::new().await;
        let doctored = Doctored {
            api: Some(Box::new(|api| Arc::new(Resends(api)))),
            ..Doctored::default()
        };
        live_with(&site, &Provision, &Switch::new(Plan::Live), doctored).await;
        caught(&Provision.check(&site), "2 VMs are called");
    });
}

#[test]
fn an_intent_that_was_not_written_is_caught() {
    let after_clone = boundary("after POST /nodes/pve-0/qemu/9000/clone");
    let switch = Switch::new(Plan::Die(after_clone));
    runtime().block_on(async {
        let site = Site::new().await;
        let doctored = Doctored {
            store: Some(Box::new(|store| Arc::new(DropsIntents(store)))),
            ..Doctored::default()
        };
        live_with(&site, &Provision, &switch, doctored).await;
        assert!(switch.is_dead());
        caught(&ends_well(&site, &Provision).await, "2 VMs are called");
    });
}

#[test]
fn a_checkpoint_cleared_before_the_proof_is_caught() {
    let before_restart = boundary("before POST /nodes/pve-1/qemu/103/status/reboot");
    runtime().block_on(async {
        let site = Site::new().await;
        live(&site, &Provision, &Switch::new(Plan::Die(before_restart))).await;
        forge(&site, |phase| {
            *phase = json!({
                "is": "complete", "vmid": phase["vmid"], "uuid": phase["uuid"], "node": phase["node"],
                "host_keys": phase["host_keys"], "addresses": phase["addresses"], "finished": "2026-08-01T00:00:00Z",
            });
        });
        let wrong = ends_well(&site, &Provision).await;
        caught(&wrong, "its configuration is");
        caught(&wrong, "boots");
    });
}

#[test]
fn an_intent_that_is_trusted_without_a_look_is_caught() {
    let before_clone = boundary("before POST /nodes/pve-0/qemu/9000/clone");
    runtime().block_on(async {
        let site = Site::new().await;
        live(&site, &Provision, &Switch::new(Plan::Die(before_clone))).await;
        forge(&site, |phase| {
            *phase = json!({
                "is": "created", "vmid": phase["vmid"], "uuid": "00000000-0000-4000-8000-000000000001", "node": "pve-0",
            });
        });
        caught(&ends_well(&site, &Provision).await, "the clean run:");
    });
}

#[test]
fn a_second_first_boot_is_caught() {
    runtime().block_on(async {
        let site = Site::new().await;
        assert_eq!(clean(&site, &Provision).await.failure(), None);
        site.cluster().with(|world| {
            let vmid = world.vms.values().find(|vm| vm.name() == NAME).unwrap().vmid;
            let vm = world.vms.get_mut(&vmid).unwrap();
            let mut guest = serde_json::to_value(&vm.guest).unwrap();
            guest["disk"]["runcmd_runs"] = json!(2);
            guest["disk"]["key_generation"] = json!(2);
            vm.guest = serde_json::from_value(guest).unwrap();
        });
        site.note();
        let wrong = Provision.check(&site);
        caught(&wrong, "first boots");
        caught(&wrong, "did not stay the same");
    });
}
