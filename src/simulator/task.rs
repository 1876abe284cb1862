//! Tasks: UPID, log, end, the locks that they wait for (pve-common: `UPID.pm`, `RESTEnvironment.pm`).

use serde::{Deserialize, Serialize};

use super::jobs::Job;
use super::world::World;

/// A worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// `UPID:node:pid:pstart:starttime:type:id:user:`
    pub upid: String,
    /// The node.
    pub node: String,
    /// The process, unique in the world.
    pub pid: u32,
    /// The process' start in ticks.
    pub pstart: u64,
    /// Milliseconds.
    pub start_ms: u64,
    /// `qmclone`, `qmstart`, ...
    pub kind: String,
    /// The VM, or `vmid@storage`.
    pub id: String,
    /// Who started it, with the token.
    pub user: String,
    /// The log without its last line.
    pub log: Vec<String>,
    /// When it ended.
    pub end_ms: Option<u64>,
    /// How it ended: `OK`, `WARNINGS: 1`, an error, `unexpected status`.
    pub exit: Option<String>,
    pub(crate) warnings: u32,
    pub(crate) due_ms: u64,
    /// How often the job has let time pass.
    pub(crate) pauses: u32,
    pub(crate) job: Option<Job>,
    pub(crate) waiting: Option<Waiting>,
}

impl Task {
    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.end_ms.is_none()
    }

    /// All lines of the log, with the one that tells the end.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.log.clone();
        match self.exit.as_deref() {
            None | Some("unexpected status") => {}
            Some("OK") => lines.push("TASK OK".to_owned()),
            Some(exit) if exit.starts_with("WARNINGS: ") => lines.push(format!("TASK {exit}")),
            Some(exit) => lines.push(format!("TASK ERROR: {exit}")),
        }
        if lines.is_empty() {
            lines.push("no content".to_owned());
        }
        lines
    }
}

/// A task that waits for a lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    key: String,
    kind: LockKind,
    deadline_ms: u64,
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LockKind {
    Exclusive,
    Shared,
    /// One of so many.
    Slot(usize),
}

/// Who holds a lock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flock {
    holders: Vec<(u32, LockKind)>,
}

/// What a job wants next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// To be called again then.
    At(u64),
    /// To be called again with this lock, or to fail when it is not free within so many milliseconds.
    Lock {
        key: String,
        kind: LockKind,
        wait_ms: u64,
    },
    Done,
    Fail(String),
}

/// What a job may do to its own task.
pub(crate) struct TaskView {
    pub(crate) node: String,
    pub(crate) log: Vec<String>,
    pub(crate) warnings: u32,
}

impl TaskView {
    pub(crate) fn say(&mut self, line: impl Into<String>) {
        self.log.push(line.into());
    }

    pub(crate) fn warn(&mut self, line: impl AsRef<str>) {
        self.log.push(format!("WARN: {}", line.as_ref()));
        self.warnings += 1;
    }
}

/// The lock of a VM's config on its node.
pub(crate) fn vm_lock(node: &str, vmid: u32) -> String {
    format!("{node}:/var/lock/qemu-server/lock-{vmid}.conf")
}

/// The text of a lock that was not free in time.
fn lock_text(key: &str) -> String {
    if let Some(storage) = key.strip_prefix("cfs:") {
        return format!("clone failed: cfs-lock 'storage-{storage}' error: got lock request timeout");
    }
    let file = key.split_once(':').map_or(key, |(_, file)| file);
    let before = if file.contains("pve-storage-") {
        "clone failed: "
    } else {
        ""
    };
    format!("{before}can't lock file '{file}' - got timeout")
}

impl Flock {
    fn admits(&self, pid: u32, kind: LockKind) -> bool {
        let others = || self.holders.iter().filter(|(holder, _)| *holder != pid);
        match kind {
            LockKind::Exclusive => others().next().is_none(),
            LockKind::Shared => others().all(|(_, held)| *held == LockKind::Shared),
            LockKind::Slot(count) => others().count() < count,
        }
    }
}

impl World {
    /// Starts a task. Its first step runs at once when time advances next; the UPID.
    pub(crate) fn spawn(&mut self, who: &str, node: &str, kind: &str, id: &str, job: Job) -> String {
        self.next_pid += 1;
        let pid = self.next_pid;
        let booted = self.nodes.get(node).map_or(0, |n| n.booted_ms);
        let pstart = (self.now_ms.saturating_sub(booted) / 10) & 0xffff_ffff;
        let upid = format!(
            "UPID:{node}:{pid:08X}:{pstart:08X}:{:08X}:{kind}:{id}:{who}:",
            self.now_ms / 1000
        );
        self.tasks.push(Task {
            upid: upid.clone(),
            node: node.to_owned(),
            pid,
            pstart,
            start_ms: self.now_ms,
            kind: kind.to_owned(),
            id: id.to_owned(),
            user: who.to_owned(),
            log: Vec::new(),
            end_ms: None,
            exit: None,
            warnings: 0,
            due_ms: self.now_ms,
            pauses: 0,
            job: Some(job),
            waiting: None,
        });
        self.forget_old_tasks();
        upid
    }

    /// A backup job of somebody else has come to this VM: one task for many guests, which holds the VM's lock until
    /// [`World::end_backup`].
    pub fn begin_backup(&mut self, vmid: u32) {
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        vm.config.current.insert("lock".to_owned(), "backup".to_owned());
        let node = vm.node.clone();
        self.next_pid += 1;
        let pid = self.next_pid;
        self.tasks.push(Task {
            upid: format!(
                "UPID:{node}:{pid:08X}:00000001:{:08X}:vzdump::root@pam:",
                self.now_ms / 1000
            ),
            node,
            pid,
            pstart: 1,
            start_ms: self.now_ms,
            kind: "vzdump".to_owned(),
            id: String::new(),
            user: "root@pam".to_owned(),
            log: Vec::new(),
            end_ms: None,
            exit: None,
            warnings: 0,
            due_ms: u64::MAX,
            pauses: 0,
            job: None,
            waiting: None,
        });
    }

    /// The backup job has ended, well or killed (`unexpected status`); only a killed one leaves its lock behind.
    pub fn end_backup(&mut self, vmid: u32, exit: &str) {
        let running = self
            .tasks
            .iter()
            .filter(|task| task.kind == "vzdump" && task.is_running());
        for pid in running.map(|task| task.pid).collect::<Vec<_>>() {
            self.end_task(pid, exit);
        }
        if exit == "OK"
            && let Some(vm) = self.vms.get_mut(&vmid)
        {
            vm.config.current.shift_remove("lock");
        }
    }

    /// A node keeps about its last two thousand tasks.
    fn forget_old_tasks(&mut self) {
        if self.tasks.len() > 4000 {
            let mut to_drop = self.tasks.len() - 3000;
            self.tasks.retain(|t| {
                let drop = to_drop > 0 && !t.is_running();
                to_drop -= usize::from(drop);
                !drop
            });
        }
    }

    /// A task by its UPID.
    pub fn task(&self, upid: &str) -> Option<&Task> {
        self.tasks.iter().rev().find(|t| t.upid == upid)
    }

    /// Whether a lock is held by a task.
    pub(crate) fn is_locked(&self, key: &str) -> bool {
        self.flocks.get(key).is_some_and(|lock| !lock.holders.is_empty())
    }

    /// Runs the steps of tasks that are due.
    pub(crate) fn task_events(&mut self, at: u64) {
        let due: Vec<u32> = self
            .tasks
            .iter()
            .filter(|t| t.is_running() && t.due_ms <= at)
            .map(|t| t.pid)
            .collect();
        for pid in due {
            self.step_task(pid, at);
        }
    }

    fn step_task(&mut self, pid: u32, at: u64) {
        let Some(index) = self
            .tasks
            .iter()
            .rposition(|t| t.pid == pid && t.is_running() && t.due_ms <= at)
        else {
            return;
        };
        if let Some(waiting) = self.tasks[index].waiting.clone() {
            let free = self
                .flocks
                .entry(waiting.key.clone())
                .or_default()
                .admits(pid, waiting.kind);
            if free {
                self.take_lock(pid, &waiting.key, waiting.kind);
                self.tasks[index].waiting = None;
                self.tasks[index].log.push(" OK".to_owned());
            } else if at >= waiting.deadline_ms {
                self.abandon(pid);
                self.end_task(pid, &lock_text(&waiting.key));
                return;
            } else {
                self.tasks[index].due_ms = waiting.deadline_ms;
                return;
            }
        }
        let Some(mut job) = self.tasks[index].job.take() else {
            self.end_task(pid, "unexpected status");
            return;
        };
        if self.tasks[index].pauses > 0
            && let Some(end) = self.take_doom(index)
        {
            if end != "unexpected status" {
                let node = self.tasks[index].node.clone();
                job.abandon(self, &node);
            }
            self.end_task(pid, &end);
            return;
        }
        let task = &self.tasks[index];
        let mut view = TaskView {
            node: task.node.clone(),
            log: Vec::new(),
            warnings: 0,
        };
        let step = job.step(self, &mut view, at);
        let Some(index) = self.tasks.iter().rposition(|t| t.pid == pid) else {
            return;
        };
        let task = &mut self.tasks[index];
        task.log.append(&mut view.log);
        task.warnings += view.warnings;
        task.job = Some(job);
        match step {
            Step::At(then) => {
                task.due_ms = then.max(at);
                task.pauses += 1;
            }
            Step::Lock { key, kind, wait_ms } => {
                if self.flocks.entry(key.clone()).or_default().admits(pid, kind) {
                    self.take_lock(pid, &key, kind);
                    self.step_task(pid, at);
                } else {
                    task.log.push("trying to acquire lock...".to_owned());
                    task.due_ms = at + wait_ms;
                    task.waiting = Some(Waiting {
                        key,
                        kind,
                        deadline_ms: at + wait_ms,
                    });
                }
            }
            Step::Done => {
                if let Some(end) = self.take_doom(index) {
                    self.end_task(pid, &end);
                    return;
                }
                let exit = match self.tasks[index].warnings {
                    0 => "OK".to_owned(),
                    n => format!("WARNINGS: {n}"),
                };
                self.end_task(pid, &exit);
            }
            Step::Fail(text) => self.end_task(pid, &text.replace('\n', " ")),
        }
    }

    fn take_lock(&mut self, pid: u32, key: &str, kind: LockKind) {
        self.flocks.entry(key.to_owned()).or_default().holders.push((pid, kind));
    }

    /// Ends a task: its locks are free, and who waited for them may go on.
    pub(crate) fn end_task(&mut self, pid: u32, exit: &str) {
        let at = self.now_ms;
        let mut freed = Vec::new();
        for (key, lock) in &mut self.flocks {
            let before = lock.holders.len();
            lock.holders.retain(|(holder, _)| *holder != pid);
            if lock.holders.len() < before {
                freed.push(key.clone());
            }
        }
        self.flocks.retain(|_, lock| !lock.holders.is_empty());
        for task in &mut self.tasks {
            if task.pid == pid && task.is_running() {
                task.end_ms = Some(at);
                task.exit = Some(exit.to_owned());
                task.job = None;
                task.waiting = None;
            } else if task.waiting.as_ref().is_some_and(|w| freed.contains(&w.key)) {
                task.due_ms = at;
            }
        }
    }

    /// SIGKILL, or the node's end: nothing is cleaned up.
    pub fn kill_task(&mut self, pid: u32) {
        self.end_task(pid, "unexpected status");
    }

    /// SIGTERM: the job cleans up.
    pub(crate) fn interrupt_task(&mut self, pid: u32) {
        let text = self.abandon(pid);
        self.end_task(pid, &text);
    }

    /// Undoes what a job has half done. The text of an interrupted job.
    fn abandon(&mut self, pid: u32) -> String {
        let Some(index) = self.tasks.iter().rposition(|t| t.pid == pid) else {
            return String::new();
        };
        let node = self.tasks[index].node.clone();
        match self.tasks[index].job.take() {
            Some(mut job) => job.abandon(self, &node),
            None => "received interrupt".to_owned(),
        }
    }

    fn take_doom(&mut self, index: usize) -> Option<String> {
        let (kind, id, upid) = {
            let task = &self.tasks[index];
            (task.kind.clone(), task.id.clone(), task.upid.clone())
        };
        let at = self.doomed.iter().position(|doom| doom.is_for(&kind, &id, &upid))?;
        Some(self.doomed.remove(at).end)
    }
}

/// Whether a text is a UPID, and of which node.
pub(crate) fn upid_node(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split(':').collect();
    let ["UPID", node, pid, pstart, start, kind, _id, user, ""] = parts.as_slice() else {
        return None;
    };
    let hex =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let named = !node.is_empty() && node.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (named && hex(pid, &[8]) && hex(pstart, &[8, 9]) && hex(start, &[8]) && !kind.is_empty() && !user.is_empty())
        .then_some(*node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upids() {
        assert_eq!(
            upid_node("UPID:pve1:0000200A:000539C3:6B0DD9E4:qmstart:100:root@pam!oracle:"),
            Some("pve1")
        );
        assert_eq!(upid_node("UPID:pve1:0000200A:000539C3:6B0DD9E4:qmstart:100::"), None);
        assert_eq!(
            upid_node("UPID:pve1:0000200A:000539C3:6B0DD9E4:qmstart:100:root@pam!oracle"),
            None
        );
        assert_eq!(upid_node("garbage"), None);
    }

    #[test]
    fn locks_and_their_texts() {
        let lock = Flock {
            holders: vec![(1, LockKind::Shared)],
        };
        assert!(
            lock.admits(2, LockKind::Shared)
                && !lock.admits(2, LockKind::Exclusive)
                && lock.admits(1, LockKind::Exclusive)
        );
        assert!(lock.admits(2, LockKind::Slot(2)) && !lock.admits(2, LockKind::Slot(1)));
        assert_eq!(
            lock_text(&vm_lock("pve-0", 195)),
            "can't lock file '/var/lock/qemu-server/lock-195.conf' - got timeout"
        );
    }
}
