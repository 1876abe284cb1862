//! Tests of following a task, under a paused clock.

use serde_json::json;

use super::*;
use crate::engine::testing::{Fixture, Reply, SECRET, upid};

const STATUS: &str = "GET /nodes/pve1/tasks/UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmclone:9000:root@pam:/status";
const LOG: &str = "GET /nodes/pve1/tasks/UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmclone:9000:root@pam:/log";

fn running() -> Reply {
    Reply::Data(json!({"status": "running"}))
}

fn ended(exit: &str) -> Reply {
    Reply::Data(json!({"status": "stopped", "exitstatus": exit}))
}

fn log(lines: &[&str]) -> Reply {
    Reply::Data(json!(
        lines
            .iter()
            .enumerate()
            .map(|(n, t)| json!({"n": n + 1, "t": t}))
            .collect::<Vec<_>>()
    ))
}

/// A task that runs `looks` times and then ends like this.
fn task(fixture: &Fixture, mut looks: u32, exit: Reply) {
    fixture.api.on(move |request| {
        if format!("{} {}", request.method, request.path) != STATUS {
            return None;
        }
        if looks > 0 {
            looks -= 1;
            return Some(running());
        }
        Some(exit.clone())
    });
}

async fn follow(fixture: &Fixture) -> Result<(), Failure> {
    let upid = upid("qmclone", 9000).parse().unwrap();
    fixture.run.follow(StageName::Clone, &upid, "the clone").await
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_end() {
    let fixture = Fixture::new();
    task(&fixture, 5, ended("OK"));
    follow(&fixture).await.unwrap();
    assert_eq!(fixture.api.calls().len(), 6);
    assert!(fixture.heard.text().contains("UPID:pve1"));
}

#[tokio::test(start_paused = true)]
async fn warnings_are_told_and_are_no_failure() {
    let fixture = Fixture::new();
    task(&fixture, 0, ended("WARNINGS: 1"));
    fixture
        .api
        .always(LOG, log(&["a", "WARN: volume could not be freed", "TASK WARNINGS: 1"]));
    follow(&fixture).await.unwrap();
    assert_eq!(fixture.heard.warnings(), ["task/warnings"]);
    assert!(fixture.heard.text().contains("could not be freed"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_shows_the_end_of_its_log_without_secrets() {
    let fixture = Fixture::new();
    task(&fixture, 1, ended(&format!("clone failed: no space left ({SECRET})")));
    let mut lines: Vec<String> = (0..40).map(|n| format!("line {n}")).collect();
    lines.push(format!("password is {SECRET}"));
    fixture
        .api
        .always(LOG, log(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
    let failure = follow(&fixture).await.unwrap_err();
    assert_eq!((failure.diagnostic.code, failure.retry), ("task/failed", Retry::No));
    let text = format!("{:?}", failure.diagnostic);
    assert!(text.contains("line 39") && !text.contains("line 20"), "{text}");
    assert!(!text.contains(SECRET) && text.contains("***"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_failure_decides_whether_it_may_be_tried_again() {
    for (exit, retry, kind) in [
        (
            "clone failed: cfs-lock 'storage-nas' error: got lock request timeout",
            Retry::NotExecuted,
            Kind::Busy,
        ),
        (
            "unable to create VM 105: config file already exists",
            Retry::No,
            Kind::Exists,
        ),
        (
            "'storage-nas'-locked command timed out - aborting",
            Retry::Doubt,
            Kind::Unknown,
        ),
    ] {
        let fixture = Fixture::new();
        task(&fixture, 0, ended(exit));
        let failure = follow(&fixture).await.unwrap_err();
        assert_eq!((failure.retry, failure.kind), (retry, Some(kind)), "{exit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_result_leaves_a_doubt() {
    let fixture = Fixture::new();
    task(&fixture, 0, ended("unexpected status"));
    assert_eq!(follow(&fixture).await.unwrap_err().retry, Retry::Doubt);
    let fixture = Fixture::new();
    task(&fixture, 0, Reply::status(400, "no such task"));
    assert_eq!(follow(&fixture).await.unwrap_err().retry, Retry::Doubt);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_for_a_while_does_not_end_the_wait() {
    let fixture = Fixture::new();
    let mut looks = 0;
    fixture.api.on(move |request| {
        if !request.path.ends_with("/status") {
            return None;
        }
        looks += 1;
        Some(match looks {
            1..=10 => Reply::NotSent,
            11..=20 => Reply::status(595, "No route to host"),
            21..=30 => Reply::status(596, "Connection timed out"),
            _ => ended("OK"),
        })
    });
    follow(&fixture).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_idleness_is_limited() {
    let idle = Fixture::new();
    task(&idle, u32::MAX, ended("OK"));
    idle.api.always(LOG, log(&[]));
    let began = Instant::now();
    let failure = follow(&idle).await.unwrap_err();
    assert_eq!((failure.diagnostic.code, failure.retry), ("task/idle", Retry::No));
    let limit = idle.run.machine.waits.task_idle;
    assert!(began.elapsed() >= limit && began.elapsed() < limit + Duration::from_secs(5));

    let busy = Fixture::new();
    let (mut lines, began) = (0, Instant::now());
    busy.api.on(move |request| {
        let minutes = began.elapsed().as_secs() / 60;
        if request.path.ends_with("/log") {
            lines += 1;
            let line = format!("transferred {lines} GiB");
            return Some(log(&[line.as_str()]));
        }
        Some(if minutes < 60 { running() } else { ended("OK") })
    });
    follow(&busy).await.unwrap();
    assert!(busy.heard.text().contains("transferred 3 GiB"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_leaves_the_task_to_itself() {
    let fixture = Fixture::new();
    task(&fixture, u32::MAX, ended("OK"));
    let (end, ()) = tokio::join!(follow(&fixture), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        fixture.cancel.cancel();
    });
    assert_eq!(end.unwrap_err().diagnostic.exit, Exit::Interrupted);
    assert!(fixture.api.writes().is_empty());
}
