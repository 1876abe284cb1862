//! Every failure on record, classified. The table below is the expectation, by status and a part of what was said; the
//! first line that fits counts, and a failure that no line fits fails the test.

use vmwright::proxmox::error::{ApiError, Kind};
use vmwright::proxmox::task::TaskStatus;
use vmwright::proxmox::transport::Method;

use crate::reference;

/// Only what a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Unauthorized,
    Forbidden,
    Missing,
    Locked,
    Exists,
    Invalid,
    Busy,
    Unknown,
    NotImplemented,
    Other,
}

fn sort(kind: &Kind) -> Option<Sort> {
    match kind {
        Kind::Unauthorized => Some(Sort::Unauthorized),
        Kind::Forbidden { .. } => Some(Sort::Forbidden),
        Kind::Missing => Some(Sort::Missing),
        Kind::Locked { .. } => Some(Sort::Locked),
        Kind::Exists => Some(Sort::Exists),
        Kind::Invalid => Some(Sort::Invalid),
        Kind::Busy => Some(Sort::Busy),
        Kind::Unknown => Some(Sort::Unknown),
        Kind::NotImplemented => Some(Sort::NotImplemented),
        Kind::Other => Some(Sort::Other),
        Kind::NoQuorum | Kind::NotSent | Kind::Untrusted { .. } | Kind::TaskFailed => None,
    }
}

const ANSWERS: &[(u16, &str, Sort)] = &[
    (400, "no such task", Sort::Missing),
    (400, "\"vmid\": \"VM ", Sort::Exists),
    (400, "Only root may use this option", Sort::Forbidden),
    (400, "hotplug problem", Sort::Other),
    (400, "", Sort::Invalid),
    (401, "", Sort::Unauthorized),
    (403, "(pool 'nosuch' does not exist)", Sort::Invalid),
    (403, "", Sort::Forbidden),
    (500, "Configuration file 'nodes/", Sort::Missing),
    (500, "unable to find configuration file for VM", Sort::Missing),
    (500, "config file already exists", Sort::Exists),
    (500, "already exists on node 'pve1'", Sort::Exists),
    (500, "VM is locked (", Sort::Locked),
    (500, "got timeout", Sort::Busy),
    (500, "checksum mismatch", Sort::Busy),
    (500, "only root can set", Sort::Forbidden),
    (500, "Only root can pass arbitrary", Sort::Forbidden),
    (500, "no such cluster node", Sort::Invalid),
    (500, "pool 'nosuch' does not exist", Sort::Invalid),
    (500, "storage 'nosuch' does not exist", Sort::Invalid),
    (500, "storage 'off' is disabled", Sort::Invalid),
    (500, "invalid bootorder: device", Sort::Invalid),
    (500, "no options specified", Sort::Invalid),
    (500, "not allowed for linked clones", Sort::Invalid),
    (500, "unable to parse value of", Sort::Invalid),
    (500, "protection mode enabled", Sort::Other),
    (500, "destroy failed", Sort::Other),
    (500, "not running", Sort::Other),
    (500, "hostname lookup '", Sort::Other),
    (500, "Linked clone feature is not supported", Sort::Other),
    (500, "create user failed", Sort::Other),
    (500, "disk 'scsi", Sort::Other),
    (500, "disk image '", Sort::Other),
    (500, "cloud-init drive is already attached", Sort::Other),
    (500, "snapshot", Sort::Other),
    (500, "unable to parse directory volume name", Sort::Other),
    (500, "volume 'local:backup/", Sort::Other),
    (500, "template", Sort::Other),
    (500, "you can't move to the same storage", Sort::Other),
    (500, "AnyEvent.pm line", Sort::Other),
    (501, "for data too large", Sort::Invalid),
    (501, "Unexpected content", Sort::Invalid),
    (501, "", Sort::NotImplemented),
    (506, "not implemented", Sort::Invalid),
];

const TASKS: &[(&str, Sort)] = &[
    ("Configuration file 'nodes/", Sort::Missing),
    ("VM is locked (backup)", Sort::Locked),
    ("can't lock file '/var/lock/qemu-server/", Sort::Busy),
    ("checksum mismatch", Sort::Busy),
    ("config file already exists", Sort::Exists),
    ("already exists on node", Sort::Exists),
    ("storage 'nosuch' does not exist", Sort::Invalid),
    ("storage 'off' is disabled", Sort::Invalid),
    ("VM quit/powerdown failed - got timeout", Sort::Other),
    ("already running", Sort::Other),
    ("vcpus allowed per VM", Sort::Other),
    ("still in use by linked cloned", Sort::Other),
    ("bridge 'vmbr77' does not exist", Sort::Other),
    ("copy failed: command", Sort::Other),
    ("volume '", Sort::Other),
    ("qemu-img resize", Sort::Other),
    ("disk 'scsi", Sort::Other),
    ("received interrupt", Sort::Other),
    ("shrinking disks is not supported", Sort::Other),
    ("snapshot", Sort::Other),
    ("start failed: QEMU exited with code 1", Sort::Other),
    ("failed to stat", Sort::Other),
    ("unable to parse volume ID", Sort::Other),
    ("you can't start a vm if it's a template", Sort::Other),
];

fn method(name: &str) -> Method {
    match name {
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        _ => Method::Get,
    }
}

#[test]
fn every_failed_exchange_is_classified() {
    let Some(recordings) = reference::recordings() else {
        return;
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (file, exchange) in recordings.iter().filter(|(_, exchange)| exchange.status != 200) {
        count += 1;
        let error = ApiError::answered(method(&exchange.method), &exchange.path, &exchange.response());
        let said = format!("{} {:?}", error.reason, error.errors);
        let expected = ANSWERS
            .iter()
            .find(|(status, part, _)| *status == exchange.status && said.contains(part));
        let name = format!("{file} {}: {} {said}", exchange.name, exchange.status);
        match expected {
            None => wrong.push(format!("{name}: not in the table")),
            Some((_, _, expected)) if sort(&error.kind()) != Some(*expected) => {
                wrong.push(format!("{name}: {:?}, not {expected:?}", error.kind()));
            }
            Some(_) => {}
        }
        let text = error.to_string();
        if !text.contains(&exchange.path) || !text.contains(&exchange.status.to_string()) {
            wrong.push(format!("{name}: told as {text}"));
        }
        for (parameter, rule) in &error.errors {
            if !text.contains(parameter) || !text.contains(&rule.replace('\n', " ")) {
                wrong.push(format!("{name}: {parameter} is missing in {text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "only {count} failures on record");
}

#[test]
fn a_refused_privilege_is_named() {
    let Some(recordings) = reference::recordings() else {
        return;
    };
    let mut named = 0;
    for (_, exchange) in recordings.iter().filter(|(_, exchange)| exchange.status == 403) {
        let error = ApiError::answered(method(&exchange.method), &exchange.path, &exchange.response());
        if let Kind::Forbidden { path, privileges } = error.kind()
            && error.reason.contains("(/")
        {
            named += 1;
            assert!(path.starts_with('/') && !privileges.is_empty(), "{error}");
            assert!(
                privileges.iter().all(|privilege| privilege.contains('.')),
                "{error}: {privileges:?}"
            );
        }
    }
    assert!(named > 20, "only {named} refusals name a privilege");
}

#[test]
fn every_task_that_failed_is_classified() {
    let Some(recordings) = reference::recordings() else {
        return;
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (file, exchange) in &recordings {
        let Some(exit) = exchange.body["data"]["exitstatus"].as_str() else {
            continue;
        };
        let text = match TaskStatus::of_exit(exit) {
            TaskStatus::Failed(text) => text,
            TaskStatus::Ok => {
                assert_eq!(exit, "OK");
                continue;
            }
            TaskStatus::Warnings(_) | TaskStatus::Unexpected => {
                assert!(exit.starts_with("WARNINGS: ") || exit == "unexpected status", "{exit}");
                continue;
            }
            TaskStatus::Running => panic!("{exit}"),
        };
        count += 1;
        let kind = Kind::of_text(&text);
        match TASKS.iter().find(|(part, _)| text.contains(part)) {
            None => wrong.push(format!("{file} {}: {text}: not in the table", exchange.name)),
            Some((_, expected)) if sort(&kind) != Some(*expected) => {
                wrong.push(format!("{file} {}: {text}: {kind:?}, not {expected:?}", exchange.name));
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 25, "only {count} failed tasks on record");
}
