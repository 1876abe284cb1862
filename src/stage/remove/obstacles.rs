//! Obstacles: everything that Proxmox would refuse the removal for is found while the guest still runs, all at once.
//!
//! ```text
//!   protection: 1            DELETE answers "protection mode enabled"
//!   HA-managed               power tasks end before anything happened, and HA may start the VM again
//!   replication job          would be dropped with its copies on other nodes
//!   snapshots                go with the VM, so the user has to say so (--with-snapshots)
//!   linked clones            "base volume is still in use", in the task, after the stop
//!   a storage unseen         may hold linked clones: only one that Proxmox does not know any more holds none
//!   config lock              "VM is locked (backup)", in the task, after the stop
//!   backup, migration, ...   the task would be cut off, or hold the VM's lock
//! ```
//!
//! If there is none, the intent is written to the record; from then on provision refuses the VM.
//! Source: qemu-server `API2/Qemu.pm` and `QemuServer.pm`, `destroy_vm` (lock `suspended` is tolerated).

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::proxmox::config::VmConfig;
use crate::proxmox::error::Kind;
use crate::proxmox::ids::{StorageName, VmId};
use crate::proxmox::storage::Volume;
use crate::proxmox::task::TaskFilter;
use crate::proxmox::vm::View;
use crate::stage::protect::Unprotected;
use crate::stage::remove::{removing, went};
use crate::stage::{Vm, still_ours};
use crate::state::record::{Phase, RemoveStep};

/// Nothing stands in the way.
#[derive(Clone, Debug)]
pub struct Clear {
    /// The VM.
    pub vm: Vm,
    phase: Option<Phase>,
    detail: String,
    _made: (),
}

/// The stage.
pub struct Obstacles {
    /// The VM may be stopped.
    pub unprotected: Unprotected,
    /// The user said that snapshots go too.
    pub with_snapshots: bool,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
struct Facts {
    vmid: Option<VmId>,
    protection: bool,
    lock: Option<String>,
    ha_managed: bool,
    replication: Vec<String>,
    snapshots: Vec<String>,
    /// Volumes of others that are based on ours: theirs, ours.
    linked: Linked,
    /// Storages of ours that could not be looked at, and why.
    unseen: Unseen,
    /// Running tasks, by type.
    tasks: Vec<(String, String)>,
}

impl Stage for Obstacles {
    const NAME: StageName = StageName::Obstacles;
    type Evidence = Clear;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Clear>, Failure> {
        match self.see(run).await {
            Err(failure) if went(run, &self.unprotected.here.vm, &failure).await? => {
                Ok(Seen::Done(self.clear(run, "it went meanwhile".to_owned())))
            }
            seen => seen,
        }
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn settles(&self, clear: &Clear) -> Option<Phase> {
        clear.phase.clone()
    }

    fn tell(&self, clear: &Clear) -> String {
        clear.detail.clone()
    }
}

impl Obstacles {
    async fn see(&self, run: &HostRun) -> Result<Seen<Clear>, Failure> {
        let vm = &self.unprotected.here.vm;
        let config = run.api().vm_config(&vm.node, vm.vmid, View::Current).await?;
        still_ours(vm, &run.machine.name, &config)?;
        let facts = look(run, vm, &config).await?;
        let found = obstacles(&facts, self.with_snapshots);
        if !found.is_empty() {
            return Ok(Seen::Foreign(Box::new(refusal(&run.machine.name, vm, &found))));
        }
        let detail = match facts.snapshots.len() {
            0 => "nothing stands in the way".to_owned(),
            _ => format!(
                "nothing stands in the way; snapshots go too: {}",
                facts.snapshots.join(", ")
            ),
        };
        Ok(Seen::Done(self.clear(run, detail)))
    }

    fn clear(&self, run: &HostRun, detail: String) -> Clear {
        let vm = &self.unprotected.here.vm;
        Clear {
            vm: vm.clone(),
            phase: removing(run.phase().as_ref(), vm, RemoveStep::Begun),
            detail,
            _made: (),
        }
    }
}

/// Asks for everything.
async fn look(run: &HostRun, vm: &Vm, config: &VmConfig) -> Result<Facts, Failure> {
    let (api, node, vmid) = (run.api(), &vm.node, vm.vmid);
    let running = TaskFilter {
        vmid: Some(vmid),
        running_only: true,
        ..TaskFilter::default()
    };
    let (status, snapshots, replication, tasks) = tokio::try_join!(
        api.vm_status(node, vmid),
        api.snapshots(node, vmid),
        api.replication_jobs(node, vmid),
        api.tasks(node, &running),
    )?;
    let (linked, unseen) = linked(run, vm, config).await?;
    Ok(Facts {
        vmid: Some(vmid),
        protection: config.protection(),
        lock: config.lock().map(str::to_owned),
        ha_managed: status.ha_managed,
        replication,
        snapshots,
        linked,
        unseen,
        tasks: tasks
            .into_iter()
            .map(|task| (task.upid.kind().to_owned(), task.upid.to_string()))
            .collect(),
    })
}

/// Volumes (theirs, ours).
type Linked = Vec<(String, String)>;
/// Storages, and why they could not be looked at.
type Unseen = Vec<(StorageName, String)>;

/// Volumes of other guests that are based on volumes of this one, and the storages that could not be looked at.
async fn linked(run: &HostRun, vm: &Vm, config: &VmConfig) -> Result<(Linked, Unseen), Failure> {
    let ours: Vec<String> = config
        .disks()
        .iter()
        .map(|drive| drive.volume.to_string())
        .filter(|volume| volume.contains(':'))
        .collect();
    let mut storages: Vec<StorageName> = ours
        .iter()
        .filter_map(|volume| volume.split(':').next()?.parse().ok())
        .collect();
    storages.sort();
    storages.dedup();
    let (mut found, mut unseen) = (Vec::new(), Vec::new());
    for storage in storages {
        let volumes = match run.api().content(&vm.node, &storage, Some("images"), None).await {
            Ok(volumes) => volumes,
            // A storage that is gone keeps nobody's base; the removal tells of its volumes in a warning.
            Err(error) if is_gone(&error.kind(), &storage, &error.to_string()) => {
                run.warn(
                    &Diagnostic::warning(
                        "remove/storage-unseen",
                        format!("storage {storage} cannot be looked at: {error}"),
                    )
                    .rule("whether other VMs are linked clones of this one was not seen there"),
                );
                continue;
            }
            // Its own words say why; whether another guest is based on ours was not seen.
            Err(error) if matches!(error.kind(), Kind::Missing | Kind::Invalid | Kind::Other) => {
                unseen.push((storage, error.to_string()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for volume in &volumes {
            found.extend(
                ours.iter()
                    .filter(|base| is_based_on(volume, vm.vmid, base))
                    .map(|base| (volume.volid.clone(), base.clone())),
            );
        }
    }
    Ok((found, unseen))
}

/// Whether Proxmox does not know the storage any more (pve-storage: `storage 'x' does not exist`). One that is disabled,
/// offline or cannot be activated is still there, with all that is based on ours.
fn is_gone(kind: &Kind, storage: &StorageName, text: &str) -> bool {
    *kind == Kind::Invalid && text.contains(&format!("storage '{storage}' does not exist"))
}

/// Whether another guest's volume is based on `base`. The file's name stands as a part in the volume's own id
/// (`local:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2`) or in its parent (`base-100-disk-0@__base__`).
fn is_based_on(volume: &Volume, vmid: VmId, base: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split([':', '/'])
            .map(|part| part.split('@').next().unwrap_or_default().to_owned())
            .collect()
    };
    let Some(name) = parts(base).pop().filter(|name| !name.is_empty()) else {
        return false;
    };
    let mut own_path = parts(&volume.volid);
    own_path.pop();
    volume.vmid != Some(vmid)
        && (own_path.contains(&name)
            || volume
                .parent
                .as_deref()
                .is_some_and(|parent| parts(parent).contains(&name)))
}

/// The obstacles: what stands in the way, and what takes it away.
fn obstacles(facts: &Facts, with_snapshots: bool) -> Vec<(String, String)> {
    let vmid = facts.vmid.map_or_else(|| "VMID".to_owned(), |vmid| vmid.to_string());
    let mut found = Vec::new();
    let mut add = |what: String, cure: String| found.push((what, cure));
    if facts.protection {
        add(
            "it is protected in Proxmox (protection: 1)".to_owned(),
            format!("`qm set {vmid} --protection 0` on its node, if it may go"),
        );
    }
    if facts.ha_managed {
        add(
            format!("HA manages it (vm:{vmid})"),
            format!("`ha-manager remove vm:{vmid}` on a node"),
        );
    }
    for job in &facts.replication {
        add(
            format!("replication job {job} copies it to another node"),
            format!("`pvesr delete {job}` on its node, and wait until the job is gone"),
        );
    }
    if !facts.snapshots.is_empty() && !with_snapshots {
        add(
            format!("it has snapshots: {}", facts.snapshots.join(", ")),
            "--with-snapshots lets them go with the VM".to_owned(),
        );
    }
    for (theirs, base) in &facts.linked {
        add(
            format!("volume {theirs} is a linked clone of {base}"),
            "remove that clone first, or make it independent (move its disk)".to_owned(),
        );
    }
    for (storage, why) in &facts.unseen {
        add(
            format!("storage {storage} cannot be looked at for linked clones: {why}"),
            format!("bring {storage} back; if it is gone for good, take it out of Proxmox (`pvesm remove {storage}`)"),
        );
    }
    // `suspended` is hibernation: Proxmox destroys such a VM.
    if let Some(lock) = facts.lock.as_deref().filter(|lock| *lock != "suspended") {
        add(
            format!("it is locked ({lock})"),
            format!("wait for the task that holds the lock; if none runs, `qm unlock {vmid}` on its node"),
        );
    }
    for (kind, upid) in facts.tasks.iter().filter(|(kind, _)| !is_harmless(kind)) {
        let what = match kind.as_str() {
            "vzdump" => "a backup of it runs".to_owned(),
            other => format!("a task works on it ({other})"),
        };
        add(format!("{what}: {upid}"), "wait for it to end".to_owned());
    }
    found
}

/// Tasks that stand in nobody's way: consoles, and power tasks, of which the removal's own may still run.
fn is_harmless(kind: &str) -> bool {
    matches!(
        kind,
        "qmstart" | "qmstop" | "qmshutdown" | "qmreboot" | "qmreset" | "qmresume" | "qmpause" | "qmdestroy"
    ) || kind.ends_with("proxy")
}

fn refusal(name: &str, vm: &Vm, found: &[(String, String)]) -> Diagnostic {
    let what = match found.len() {
        1 => "an obstacle".to_owned(),
        several => format!("{several} obstacles"),
    };
    let mut diagnostic = Diagnostic::error("remove/obstacles", format!("{name} ({vm}) cannot be removed: {what}"))
        .rule("Proxmox would refuse, or more would be lost than the VM; the guest was not stopped, and nothing was touched")
        .exit(Exit::Refused);
    for (what, cure) in found {
        diagnostic = diagnostic.note(None, what.clone()).help(cure.clone());
    }
    diagnostic
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            vmid: Some(100.try_into().unwrap()),
            ..Facts::default()
        }
    }

    fn words(facts: &Facts, with_snapshots: bool) -> Vec<String> {
        obstacles(facts, with_snapshots)
            .into_iter()
            .map(|(what, _)| what)
            .collect()
    }

    #[test]
    fn each_obstacle_is_told_and_all_at_once() {
        assert!(words(&facts(), false).is_empty());
        let all = Facts {
            protection: true,
            lock: Some("backup".to_owned()),
            ha_managed: true,
            replication: vec!["100-0".to_owned()],
            snapshots: vec!["before".to_owned()],
            linked: vec![("local:vm-101-disk-0".to_owned(), "local:base-100-disk-0".to_owned())],
            unseen: vec![("nas".parse().unwrap(), "unable to activate storage 'nas'".to_owned())],
            tasks: vec![
                ("vzdump".to_owned(), "UPID:a".to_owned()),
                ("qmmove".to_owned(), "UPID:b".to_owned()),
            ],
            ..facts()
        };
        assert_eq!(
            words(&all, false),
            [
                "it is protected in Proxmox (protection: 1)",
                "HA manages it (vm:100)",
                "replication job 100-0 copies it to another node",
                "it has snapshots: before",
                "volume local:vm-101-disk-0 is a linked clone of local:base-100-disk-0",
                "storage nas cannot be looked at for linked clones: unable to activate storage 'nas'",
                "it is locked (backup)",
                "a backup of it runs: UPID:a",
                "a task works on it (qmmove): UPID:b",
            ]
        );
        assert_eq!(words(&all, true).len(), 8, "snapshots may go");
    }

    #[test]
    fn only_a_storage_that_proxmox_does_not_know_holds_no_linked_clone() {
        let storage = "nas".parse().unwrap();
        let cases = [
            ("storage 'nas' does not exist", true),
            ("storage 'nas' is disabled", false),
            (
                "unable to activate storage 'nas' - directory '/mnt/pve/nas' does not exist or is unreachable",
                false,
            ),
            ("storage 'nas' is not online", false),
            ("storage 'nas' is not available on node 'pve-1'", false),
            ("storage 'other' does not exist", false),
            ("pool 'nas' does not exist", false),
            (
                "Configuration file 'nodes/pve-1/qemu-server/100.conf' does not exist",
                false,
            ),
            ("no such volume group 'nas'", false),
        ];
        for (text, gone) in cases {
            assert_eq!(is_gone(&Kind::of_text(text), &storage, text), gone, "{text}");
        }
    }

    #[test]
    fn hibernation_and_our_own_tasks_are_no_obstacles() {
        let mut seen = Facts {
            lock: Some("suspended".to_owned()),
            ..facts()
        };
        for kind in ["qmshutdown", "qmdestroy", "vncproxy", "qmstart"] {
            seen.tasks.push((kind.to_owned(), "UPID".to_owned()));
        }
        assert!(words(&seen, false).is_empty());
    }

    #[test]
    fn a_linked_clone_is_known_by_its_path_or_its_parent() {
        let volume = |volid: &str, vmid: u32, parent: Option<&str>| Volume {
            volid: volid.to_owned(),
            size: 0,
            format: String::new(),
            content: "images".to_owned(),
            vmid: vmid.try_into().ok(),
            parent: parent.map(str::to_owned),
        };
        let us: VmId = 100.try_into().unwrap();
        let is = |volume: Volume, base: &str| is_based_on(&volume, us, base);
        let dir = "local:100/base-100-disk-0.qcow2";
        assert!(is(
            volume("local:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2", 101, None),
            dir
        ));
        assert!(is(
            volume(
                "local:101/vm-101-disk-0.qcow2",
                101,
                Some("../100/base-100-disk-0.qcow2")
            ),
            dir
        ));
        let zfs = "tank:vm-100-disk-0";
        assert!(is(volume("tank:vm-101-disk-0", 101, Some("vm-100-disk-0@snap")), zfs));
        assert!(!is(volume("tank:vm-101-disk-0", 101, None), zfs));
        assert!(!is(volume("tank:vm-100-disk-0", 100, None), zfs), "itself");
        assert!(
            !is(volume("tank:vm-100-disk-1", 100, Some("vm-100-disk-0@x")), zfs),
            "its own"
        );
        assert!(!is(volume("tank:vm-101-disk-0", 101, Some("vm-1100-disk-0@x")), zfs));
    }
}
