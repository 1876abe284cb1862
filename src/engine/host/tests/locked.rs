//! A lock of Proxmox: waited for while a running task explains it, else final.

use serde_json::{Value, json};

use super::*;
use crate::engine::testing::{Reply, upid};
use crate::proxmox::error::Kind;

/// What a call is told that meets the lock.
pub(super) fn failure() -> Failure {
    let mut failure = Failure::new(Diagnostic::error("api/locked", "VM is locked (backup)"));
    failure.kind = Some(Kind::Locked {
        lock: Some("backup".to_owned()),
    });
    failure
}

/// How a change ends that meets the lock twice, with this running task and this lock; and for how long it was tried.
async fn end(task: Option<String>, lock: Option<&str>, deeds: &[Deed]) -> (&'static str, Duration, Vec<EventKind>) {
    let fixture = Fixture::new().locked().recorded(created());
    let tasks: Vec<Value> = task
        .iter()
        .map(|upid| json!({"upid": upid, "type": "vzdump", "id": "105", "user": "root@pam", "starttime": 1}))
        .collect();
    fixture.api.always("GET /nodes/pve1/tasks", Reply::Data(json!(tasks)));
    let status = json!({"status": "stopped", "name": "web-0", "vmid": 105, "lock": lock});
    fixture
        .api
        .always("GET /nodes/pve1/qemu/105/status/current", Reply::Data(status));
    let looks = match deeds.len() {
        1 => vec![Look::Absent("it")],
        times => [vec![Look::Absent("it"); times], vec![Look::Done]].concat(),
    };
    let stage = Scripted::looks(&looks).deeds(deeds);
    let begun = Instant::now();
    let (code, _) = code(fixture.run.stage(&stage).await);
    (code, begun.elapsed(), fixture.heard.all())
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_waited_for_while_a_task_explains_it() {
    let twice = [Deed::Locked, Deed::Locked, Deed::Works];
    let table = [
        (Some(upid("vzdump", 105)), Some("backup"), "done"),
        // The task ended between the refusal and the look.
        (None, None, "done"),
        (None, Some("backup"), "api/locked"),
        (Some(upid("vzdump", 106)), Some("backup"), "api/locked"),
        (Some(upid("vncproxy", 105)), Some("backup"), "api/locked"),
    ];
    for (task, lock, want) in table {
        let (code, _, heard) = end(task.clone(), lock, &twice).await;
        assert_eq!(code, want, "{task:?} {lock:?}");
        let told = heard
            .iter()
            .any(|event| matches!(event, EventKind::Waiting { what, .. } if what.contains("VM 105 (backup)")));
        assert_eq!(told, want == "done", "{task:?} {lock:?}");
    }
    let (code, waited, _) = end(Some(upid("vzdump", 105)), Some("backup"), &[Deed::Locked]).await;
    assert_eq!(code, "api/locked", "not for ever");
    assert!((3600..3700).contains(&waited.as_secs()), "{waited:?}");
}
