//! The classification of failures: status and text in, [`Kind`] out.
//!
//! Proxmox has no useful status codes: 500 is everything from "does not exist" to "try again", so the text decides.
//! Sources: the error texts of qemu-server, pve-common, pve-cluster, pve-guest-common and pve-http-server; each pattern
//! below stands for one place there.

use std::collections::BTreeMap;

/// What a failure means for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 401: the identity is not accepted. Wrong, expired and disabled look alike.
    Unauthorized,
    /// 403, or a call that only `root@pam` itself may make.
    Forbidden {
        /// The ACL path, `/vms/100`; empty when Proxmox does not tell.
        path: String,
        /// Any one of these would do; empty when Proxmox does not tell.
        privileges: Vec<String>,
    },
    /// The VM is not on that node, or the task is not known there. Only these: a storage or pool that does not exist is
    /// [`Kind::Invalid`], so that "gone" can be read as "done" after a destroy.
    Missing,
    /// The VM carries a lock.
    Locked {
        /// `clone`, `backup`, `migrate`, ...
        lock: Option<String>,
    },
    /// The VM id is taken.
    Exists,
    /// A parameter breaks a rule, or names something that does not exist.
    Invalid,
    /// Certainly not executed, and likely to work in a moment: a lock that was not got in time, no free worker, or a
    /// configuration that somebody changed in between (`digest`). Look again, then repeat.
    Busy,
    /// The cluster has no quorum, so nothing can be written.
    NoQuorum,
    /// The request did not reach Proxmox.
    NotSent,
    /// The server's certificate is not trusted; nothing was sent.
    Untrusted {
        /// SHA-256 of what it showed, `AA:BB:...`.
        seen_fingerprint: Option<String>,
    },
    /// It may have been executed.
    Unknown,
    /// 501: this API does not know the call.
    NotImplemented,
    /// A task ran and failed, for a reason of its own.
    TaskFailed,
    /// Everything else.
    Other,
}

impl Kind {
    /// Classifies the text of a 500, or a task's exit status. A text that says nothing special is [`Kind::Other`].
    pub fn of_text(text: &str) -> Self {
        let text = text.trim();
        let has = |part: &str| text.contains(part);
        if let Some(rest) = text.strip_prefix("400 ") {
            return Self::of_rejection(rest);
        }
        if let Some(at) = text.find("Permission check failed") {
            return permission(&text[at..]);
        }
        if has("no quorum") || (has("/etc/pve/") && has("Permission denied")) {
            return Self::NoQuorum;
        }
        if has(".active.lock'") && has("got timeout") {
            // The worker was released before the list of running tasks could be written.
            return Self::Unknown;
        }
        if (has("can't lock file '") && has("got timeout"))
            || has("got lock request timeout")
            || has("got no worker upid")
            || has("starting worker failed")
            || has("unable to fork worker")
            || has("unexpected state change")
            || has("checksum mismatch")
            || has("checksum missmatch")
        {
            return Self::Busy;
        }
        if has("-locked command timed out")
            || text == "unexpected status"
            || text.starts_with("unable to get last line from task log")
            || (has(" qmp command '") && has("got timeout"))
            || (has(" qga command '") && has("got timeout"))
        {
            return Self::Unknown;
        }
        if let Some(lock) = text
            .split_once(" is locked (")
            .and_then(|(_, rest)| rest.split_once(')'))
        {
            return Self::Locked {
                lock: Some(lock.0.to_owned()),
            };
        }
        if has(" is locked") {
            return Self::Locked { lock: None };
        }
        if (has("Configuration file '") && has("does not exist")) || has("unable to find configuration file for VM") {
            return Self::Missing;
        }
        if has("config file already exists")
            || (has("VM ") && has(" already exists on node"))
            || (has("close (rename) atomic file") && has("File exists"))
            || is_taken(text)
        {
            return Self::Exists;
        }
        if has("only root can set ") || has("Only root ") {
            return root_only();
        }
        if (has("storage '") || has("pool '") || has("no such cluster node '") || has("no such storage"))
            && (has("does not exist") || has("no such") || has("is disabled"))
            || has("no options specified")
            || has("invalid bootorder")
            || has("not allowed for linked clones")
            || has("unable to parse value of ")
        {
            return Self::Invalid;
        }
        Self::Other
    }

    /// Classifies a 400 by what it says about its parameters.
    fn of_rejection(text: &str) -> Self {
        if text.contains("no such task") {
            Self::Missing
        } else if text.contains("already exists") && text.contains("VM ") {
            Self::Exists
        } else if text.contains("Only root may use") {
            root_only()
        } else if text.contains("checksum mismatch") || text.contains("checksum missmatch") {
            Self::Busy
        } else if text.contains("hotplug problem") {
            // Accepted, but pending.
            Self::Other
        } else {
            Self::Invalid
        }
    }

    pub(super) fn of_status(status: u16, text: &str, errors: &BTreeMap<String, String>) -> Self {
        match status {
            400 => {
                let all: Vec<&str> = errors.values().map(String::as_str).chain([text]).collect();
                Self::of_rejection(&all.join("; "))
            }
            401 => Self::Unauthorized,
            403 => permission(text),
            501 if text.contains("too large") || text.contains("Unexpected content") => Self::Invalid,
            501 => Self::NotImplemented,
            506 => Self::Invalid,
            // pve-http-server: 595 is a connection between nodes that was not made; 596 to 599 came after it was.
            595 => Self::NotSent,
            596..=599 => Self::Unknown,
            _ => Self::of_text(text),
        }
    }
}

/// `VM 100 already exists`.
fn is_taken(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("VM ") else {
        return false;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && rest[digits..].starts_with(" already exists")
}

fn root_only() -> Kind {
    Kind::Forbidden {
        path: String::new(),
        privileges: vec!["root@pam".to_owned()],
    }
}

/// `Permission check failed (/vms/100, VM.Config.Disk|VM.Config.CDROM)` (pve-access-control: `raise_perm_exc`).
fn permission(text: &str) -> Kind {
    let unknown = Kind::Forbidden {
        path: String::new(),
        privileges: Vec::new(),
    };
    let Some((_, inner)) = text.split_once('(') else {
        return unknown;
    };
    let inner = inner.trim_end().trim_end_matches(')');
    if inner.ends_with("does not exist") {
        return Kind::Invalid;
    }
    match inner.split_once(", ") {
        Some((path, privileges)) if path.starts_with('/') => Kind::Forbidden {
            path: path.to_owned(),
            privileges: privileges
                .split('|')
                .filter_map(|privilege| privilege.split_whitespace().next())
                .map(str::to_owned)
                .collect(),
        },
        Some(_) | None => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_500_or_a_task_decide() {
        let locked = |lock: &str| Kind::Locked {
            lock: Some(lock.to_owned()),
        };
        let cases = [
            (
                "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
                Kind::Busy,
            ),
            (
                "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout",
                Kind::Busy,
            ),
            (
                "clone failed: cfs-lock 'storage-nas' error: got lock request timeout",
                Kind::Busy,
            ),
            (
                "can't lock file '/var/log/pve/tasks/.active.lock' - got timeout",
                Kind::Unknown,
            ),
            ("'storage-nas'-locked command timed out - aborting", Kind::Unknown),
            ("VM 100 qmp command 'device_del' failed - got timeout", Kind::Unknown),
            ("got no worker upid - start worker failed", Kind::Busy),
            ("checksum missmatch (file change by other user?)", Kind::Busy),
            ("cfs-lock 'file-user_cfg' error: no quorum!", Kind::NoQuorum),
            ("cluster not ready - no quorum?", Kind::NoQuorum),
            (
                "unable to open file '/etc/pve/nodes/a/qemu-server/1.conf.tmp.7' - Permission denied",
                Kind::NoQuorum,
            ),
            ("VM is locked (backup)", locked("backup")),
            ("VM is locked (snapshot-delete)", locked("snapshot-delete")),
            (
                "Configuration file 'nodes/pve1/qemu-server/777.conf' does not exist",
                Kind::Missing,
            ),
            (
                "unable to find configuration file for VM 777 on node 'pve1'",
                Kind::Missing,
            ),
            ("unable to create VM 195: config file already exists", Kind::Exists),
            (
                "unable to create VM 100 - VM 100 already exists on node 'pve1'",
                Kind::Exists,
            ),
            (
                "close (rename) atomic file '/etc/pve/nodes/b/qemu-server/9.conf' failed: File exists",
                Kind::Exists,
            ),
            (
                "disk image '/var/lib/vmdata/images/1/vm-1-cloudinit.qcow2' already exists",
                Kind::Other,
            ),
            ("storage 'nosuch' does not exist", Kind::Invalid),
            ("volume 'local:snippets/missing.yaml' does not exist", Kind::Other),
            ("migration aborted", Kind::Other),
            ("unexpected status", Kind::Unknown),
            (
                "400 Parameter verification failed.  scsi1: hotplug problem - x",
                Kind::Other,
            ),
            (
                "400 Parameter verification failed.  name: invalid format",
                Kind::Invalid,
            ),
            (
                "403 Permission check failed (/vms/5, VM.Clone)",
                Kind::Forbidden {
                    path: "/vms/5".to_owned(),
                    privileges: vec!["VM.Clone".to_owned()],
                },
            ),
        ];
        for (text, kind) in cases {
            assert_eq!(Kind::of_text(text), kind, "{text}");
        }
    }
}
