//! A VM's lock (`lock: backup` and the like): whether it goes by itself.
//!
//! ```text
//!   refused: VM is locked (backup)
//!      |-- a task that takes such a lock runs for this VM ---> waited for
//!      |-- none, and the lock is gone ----------------------> tried again
//!      +-- none, and the lock is there ----------------------> final: it was left behind, an operator's matter
//! ```
//!
//! Sources: qemu-server (`PVE::QemuConfig::check_lock`; which worker sets which lock) and pve-manager `API2/VZDump.pm`: a
//! backup job of several guests is one task without a guest's number.

use crate::proxmox::client::Client;
use crate::proxmox::ids::{NodeName, VmId};
use crate::proxmox::task::{TaskFilter, TaskInfo};

/// The tasks that set a lock, and clear it at their end.
fn holders(lock: Option<&str>) -> &'static [&'static str] {
    match lock {
        Some("backup") => &["vzdump"],
        Some("snapshot") => &["qmsnapshot"],
        Some("snapshot-delete") => &["qmdelsnapshot"],
        Some("rollback") => &["qmrollback"],
        Some("migrate") => &["qmigrate", "hamigrate"],
        Some("create") => &["qmcreate", "qmrestore"],
        Some("suspending") => &["qmsuspend"],
        // A clone's task bears the number of its source; a suspended VM stays locked until somebody resumes it.
        Some(_) => &[],
        None => &[
            "vzdump",
            "qmsnapshot",
            "qmdelsnapshot",
            "qmrollback",
            "qmigrate",
            "qmcreate",
            "qmrestore",
        ],
    }
}

/// The task that explains the lock.
fn explanation<'t>(tasks: &'t [TaskInfo], vmid: VmId, lock: Option<&str>) -> Option<&'t TaskInfo> {
    let kinds = holders(lock);
    tasks.iter().find(|task| {
        let of_this = task.upid.id() == vmid.to_string() || (task.upid.kind() == "vzdump" && task.upid.id().is_empty());
        task.endtime.is_none() && of_this && kinds.contains(&task.upid.kind())
    })
}

/// What is waited for, in words, if the lock goes by itself. An API that cannot tell leaves the refusal as it is.
pub async fn passing(api: &Client, node: &NodeName, vmid: VmId, lock: Option<&str>) -> Option<String> {
    let running = TaskFilter {
        running_only: true,
        ..TaskFilter::default()
    };
    let tasks = api.tasks(node, &running).await.ok()?;
    let what = lock.map_or_else(String::new, |lock| format!(" ({lock})"));
    if let Some(task) = explanation(&tasks, vmid, lock) {
        return Some(format!(
            "the lock of VM {vmid}{what}, which task {} holds",
            task.upid.kind()
        ));
    }
    let status = api.vm_status(node, vmid).await.ok()?;
    status
        .lock
        .is_none()
        .then(|| format!("the lock of VM {vmid}{what}, which is gone by now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: &str, id: &str, ended: bool) -> TaskInfo {
        let upid = format!("UPID:pve1:000018D9:0004D0B7:6B0DD8D7:{kind}:{id}:root@pam:");
        TaskInfo {
            upid: upid.parse().unwrap(),
            kind: kind.to_owned(),
            id: id.to_owned(),
            user: "root@pam".to_owned(),
            starttime: 1,
            endtime: ended.then_some(2),
            status: None,
        }
    }

    #[test]
    fn only_a_running_task_that_takes_such_a_lock_explains_it() {
        let table = [
            (task("vzdump", "100", false), Some("backup"), true),
            (task("vzdump", "", false), Some("backup"), true),
            (task("vzdump", "101", false), Some("backup"), false),
            (task("vzdump", "100", true), Some("backup"), false),
            (task("vzdump", "", false), Some("snapshot"), false),
            (task("vncproxy", "100", false), Some("backup"), false),
            (task("qmsnapshot", "100", false), Some("snapshot"), true),
            (task("qmdelsnapshot", "100", false), Some("snapshot-delete"), true),
            (task("qmigrate", "100", false), Some("migrate"), true),
            (task("qmsuspend", "100", false), Some("suspended"), false),
            (task("qmclone", "100", false), Some("clone"), false),
            (task("vzdump", "100", false), None, true),
            (task("vncproxy", "100", false), None, false),
        ];
        for (task, lock, want) in table {
            let found = explanation(std::slice::from_ref(&task), "100".parse().unwrap(), lock);
            assert_eq!(found.is_some(), want, "{task:?} {lock:?}");
        }
    }
}
