//! cloud-init's verdict as the stage takes it.

use std::collections::VecDeque;

use super::*;
use crate::diagnose::Exit;
use crate::engine::host::Halt;
use crate::engine::testing::Fixture;
use crate::guest::probes::MARK;
use crate::guest::remote::Output;

const RUNNING: &str = r#"{"status": "running", "extended_status": "running", "stage": "modules-final", "errors": [], "recoverable_errors": {}}"#;
const DONE: &str = r#"{"status": "done", "extended_status": "done", "errors": [], "recoverable_errors": {}}"#;
const ERROR: &str = r#"{"status": "error", "extended_status": "error - done", "errors": ["('scripts_user', RuntimeError('x'))"], "recoverable_errors": {}}"#;
const DISABLED: &str = r#"{"status": "disabled", "errors": [], "recoverable_errors": {}}"#;
const DEGRADED: &str = r#"{"status": "done", "extended_status": "degraded done", "errors": [], "recoverable_errors": {"WARNING": ["bad key"]}}"#;

/// An answer of the guest: exit code, scheduled shutdown, text.
fn says(code: i32, shutdown: &str, text: &str) -> Result<Output, SshError> {
    let stdout = format!("{MARK}\n00000000-0000-0000-0000-000000000001\nresult=yes\nshutdown={shutdown}\n{text}\n");
    Ok(Output {
        code: Some(code),
        stdout: stdout.into_bytes(),
        stderr: Vec::new(),
    })
}

/// How the stage ends when the guest gives these answers, the last one again and again.
async fn verdict(answers: Vec<Result<Output, SshError>>) -> (Result<String, (&'static str, Exit)>, u64, Fixture) {
    let fixture = Fixture::new().locked();
    fixture
        .run
        .record_phase(Phase::Created {
            vmid: "105".parse().unwrap(),
            uuid: "u".to_owned(),
            node: "pve1".parse().unwrap(),
        })
        .unwrap();
    let mut answers: VecDeque<_> = answers.into();
    fixture.far.on(move |_, _| {
        if answers.len() > 1 {
            answers.pop_front().unwrap()
        } else {
            answers[0].clone()
        }
    });
    let began = Instant::now();
    let vm = Vm {
        vmid: "105".parse().unwrap(),
        uuid: "u".to_owned(),
        node: "pve1".parse().unwrap(),
    };
    let end = fixture.run.stage(CloudInit::new(Running::of(vm))).await;
    let end = end.map(|initialized| initialized.verdict).map_err(|halt| match halt {
        Halt::Failed { diagnostic, .. } => (diagnostic.code, diagnostic.exit),
        Halt::Planned { .. } | Halt::Interrupted { .. } => ("other", Exit::Done),
    });
    (end, began.elapsed().as_secs(), fixture)
}

fn failed(code: &'static str) -> Result<String, (&'static str, Exit)> {
    Err((code, Exit::HostFailed))
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_is_recorded() {
    let (end, _, fixture) = verdict(vec![
        says(0, "no", RUNNING),
        Err(SshError::NotReachable("it restarts".into())),
        Err(SshError::Lost("it restarts".into())),
        says(0, "yes", DONE),
        says(0, "no", DONE),
    ])
    .await;
    assert_eq!(end, Ok("done".to_owned()));
    assert!(matches!(fixture.on_disk(), Some(Phase::Initialized { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_believed_when_it_is_seen_twice_in_a_row() {
    let (end, seconds, fixture) = verdict(vec![says(1, "no", ERROR)]).await;
    assert_eq!(end, failed("cloud-init/error"));
    assert!((1..5).contains(&seconds), "{seconds}");
    assert!(matches!(fixture.on_disk(), Some(Phase::Created { .. })));
    let (end, _, _) = verdict(vec![says(1, "no", ERROR), says(0, "no", DONE)]).await;
    assert_eq!(end, Ok("done".to_owned()));
    let (end, _, _) = verdict(vec![
        says(1, "no", ERROR),
        says(0, "no", RUNNING),
        says(1, "no", ERROR),
        says(0, "no", DONE),
    ])
    .await;
    assert_eq!(end, Ok("done".to_owned()), "not in a row");
}

#[tokio::test(start_paused = true)]
async fn what_is_certain_is_told_at_once() {
    for (answer, code) in [
        (says(2, "no", DEGRADED), "cloud-init/degraded"),
        (says(0, "no", DISABLED), "cloud-init/disabled"),
        (says(127, "no", ""), "cloud-init/not-installed"),
    ] {
        let (end, seconds, _) = verdict(vec![answer]).await;
        assert_eq!((end, seconds), (failed(code), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn no_evidence_is_asked_for_again() {
    let traceback = || says(1, "no", "Traceback (most recent call last):");
    let (end, _, _) = verdict(vec![traceback(), traceback(), says(124, "no", ""), says(0, "no", DONE)]).await;
    assert_eq!(end, Ok("done".to_owned()));
    let (end, seconds, _) = verdict(vec![traceback()]).await;
    assert_eq!(end, failed("cloud-init/unreadable"));
    assert!((60..70).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_ends_is_told_when_the_budget_is_used_up() {
    for answer in [says(0, "no", RUNNING), says(124, "no", "")] {
        let (end, seconds, fixture) = verdict(vec![answer]).await;
        assert_eq!(end, failed("cloud-init/timeout"));
        let budget = fixture.run.machine.waits.cloud_init.as_secs();
        assert!((budget..budget + 5).contains(&seconds), "{seconds}");
    }
}
