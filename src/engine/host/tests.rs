//! Tests of the engine's one function, with stages that play a script under a paused clock.

mod locked;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::retry::PATIENCE;
use super::*;
use crate::engine::event::EventKind;
use crate::engine::failure::Retry;
use crate::engine::limits::Limit;
use crate::engine::pace::Pace;
use crate::engine::stage::Wait;
use crate::engine::testing::{Fixture, SECRET, machine};
use crate::guest::remote::{HostKeys, SshError};

/// What the stage sees next; the last one is seen again and again.
#[derive(Clone)]
enum Look {
    Absent(&'static str),
    Pending(&'static str, u64),
    Done,
    Foreign(Exit),
    Fails(Retry),
}

/// What an act does.
#[derive(Clone)]
enum Deed {
    Works,
    Fails(Retry),
    Locked,
}

#[derive(Default)]
struct Scripted {
    looks: Mutex<VecDeque<Look>>,
    deeds: Mutex<VecDeque<Deed>>,
    acts: Mutex<u32>,
    observed: Mutex<u32>,
    phase: Option<Phase>,
    assumed: bool,
    limited: bool,
}

impl Scripted {
    fn looks(looks: &[Look]) -> Self {
        Self {
            looks: Mutex::new(looks.to_vec().into()),
            ..Self::default()
        }
    }

    fn deeds(self, deeds: &[Deed]) -> Self {
        Self {
            deeds: Mutex::new(deeds.to_vec().into()),
            ..self
        }
    }
}

fn failure(retry: Retry) -> Failure {
    Failure::new(Diagnostic::error("test/fails", format!("it failed ({SECRET})"))).retry(retry)
}

fn next<T: Clone>(script: &Mutex<VecDeque<T>>) -> Option<T> {
    let mut script = script.lock().unwrap();
    if script.len() > 1 {
        script.pop_front()
    } else {
        script.front().cloned()
    }
}

impl Stage for &Scripted {
    const NAME: StageName = StageName::Hardware;
    type Evidence = &'static str;

    async fn observe(&self, _run: &HostRun) -> Result<Seen<&'static str>, Failure> {
        *self.observed.lock().unwrap() += 1;
        match next(&self.looks).unwrap() {
            Look::Absent(what) => Ok(Seen::Absent(vec![Change::new(what, "there")])),
            Look::Pending(what, budget) => Ok(Seen::Pending(Wait {
                what: what.to_owned(),
                pace: Pace::Task,
                budget: Duration::from_secs(budget),
                late: Box::new(Diagnostic::error("test/late", "it is late")),
            })),
            Look::Done => Ok(Seen::Done("done")),
            Look::Foreign(exit) => Ok(Seen::Foreign(Box::new(
                Diagnostic::error("test/foreign", "not ours").exit(exit),
            ))),
            Look::Fails(retry) => Err(failure(retry)),
        }
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        *self.acts.lock().unwrap() += 1;
        match next(&self.deeds) {
            None | Some(Deed::Works) => Ok(()),
            Some(Deed::Fails(retry)) => Err(failure(retry)),
            Some(Deed::Locked) => Err(locked::failure()),
        }
    }

    fn assume(&self, _run: &HostRun) -> Option<&'static str> {
        self.assumed.then_some("assumed")
    }

    fn settles(&self, _evidence: &&'static str) -> Option<Phase> {
        self.phase.clone()
    }

    fn tell(&self, evidence: &&'static str) -> String {
        (*evidence).to_owned()
    }

    fn limit(&self, _run: &HostRun) -> Option<Limit> {
        self.limited.then(|| Limit::Migrate { node: "pve1".into() })
    }
}

fn code(end: Result<&'static str, Halt>) -> (&'static str, Exit) {
    match end {
        Err(Halt::Failed { diagnostic, .. }) => (diagnostic.code, diagnostic.exit),
        Err(Halt::Planned { .. }) => ("planned", Exit::Done),
        Err(Halt::Interrupted { .. }) => ("interrupted", Exit::Interrupted),
        Ok(evidence) => (evidence, Exit::Done),
    }
}

fn created() -> Phase {
    Phase::Created {
        vmid: "105".parse().unwrap(),
        uuid: "11111111-2222-3333-4444-555555555555".to_owned(),
        node: "pve1".parse().unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_not_made_again() {
    let (fixture, stage) = (Fixture::new(), Scripted::looks(&[Look::Done]));
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert_eq!(*stage.acts.lock().unwrap(), 0);
    assert!(fixture.run.changed.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_absent_is_made_and_looked_at_again() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("disk"), Look::Done]);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert_eq!(*stage.acts.lock().unwrap(), 1);
    assert_eq!(*fixture.run.changed.lock().unwrap(), [StageName::Hardware]);
    assert!(
        matches!(
            fixture.heard.all().last(),
            Some(EventKind::StageDone { changed: true, .. })
        ),
        "{:?}",
        fixture.heard.all()
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_own_words_when_its_budget_is_used_up() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Pending("sshd", 60)]);
    let began = Instant::now();
    assert_eq!(code(fixture.run.stage(&stage).await), ("test/late", Exit::HostFailed));
    let took = began.elapsed();
    assert!((60..65).contains(&took.as_secs()), "{took:?}");
    let told = fixture.heard.all();
    let waits = told.iter().filter(|event| matches!(event, EventKind::Waiting { .. }));
    assert_eq!(waits.count(), 1, "the same wait is told once");
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_after_a_long_one_has_its_whole_budget() {
    let fixture = Fixture::new();
    let mut looks = vec![Look::Pending("the task", 3600); 40];
    looks.extend(vec![Look::Pending("the lock", 10); 3]);
    looks.push(Look::Done);
    let began = Instant::now();
    let stage = Scripted::looks(&looks);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert!(began.elapsed() > Duration::from_secs(10), "the long wait was long");
}

#[tokio::test(start_paused = true)]
async fn waits_that_take_turns_do_not_wind_each_other_up() {
    let fixture = Fixture::new();
    let looks: Vec<Look> = (0..2000)
        .map(|n| Look::Pending("a or b", if n % 2 == 0 { 30 } else { 40 }))
        .collect();
    let began = Instant::now();
    assert_eq!(code(fixture.run.stage(&Scripted::looks(&looks)).await).0, "test/late");
    assert!(began.elapsed() < Duration::from_secs(35));
}

#[tokio::test(start_paused = true)]
async fn the_budget_begins_anew_after_a_change() {
    let fixture = Fixture::new();
    let mut looks = vec![Look::Pending("boot", 10); 20];
    looks.push(Look::Absent("power"));
    looks.extend(vec![Look::Pending("boot", 10); 20]);
    looks.push(Look::Done);
    let began = Instant::now();
    let stage = Scripted::looks(&looks);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert!(
        began.elapsed() > Duration::from_secs(10),
        "together they took longer than one budget"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_foreign_is_refused_and_left_alone() {
    let (fixture, stage) = (Fixture::new(), Scripted::looks(&[Look::Foreign(Exit::Usage)]));
    assert_eq!(code(fixture.run.stage(&stage).await), ("test/foreign", Exit::Refused));
    let failed = Scripted::looks(&[Look::Foreign(Exit::HostFailed)]);
    assert_eq!(
        code(fixture.run.stage(&failed).await),
        ("test/foreign", Exit::HostFailed)
    );
    assert_eq!(*stage.acts.lock().unwrap() + *failed.acts.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_certainly_not_done_is_tried_again_after_another_look() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("disk"), Look::Absent("disk"), Look::Done])
        .deeds(&[Deed::Fails(Retry::NotExecuted), Deed::Works]);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert_eq!((*stage.acts.lock().unwrap(), *stage.observed.lock().unwrap()), (2, 3));
    assert!(
        !fixture.heard.text().contains(SECRET),
        "the reason is told without secrets"
    );
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_settled_by_the_world_and_not_by_a_second_try() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("clone"), Look::Done]).deeds(&[Deed::Fails(Retry::Doubt)]);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert_eq!(*stage.acts.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_final_no_is_not_asked_again() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("clone")]).deeds(&[Deed::Fails(Retry::No)]);
    assert_eq!(code(fixture.run.stage(&stage).await), ("test/fails", Exit::HostFailed));
    assert_eq!(*stage.acts.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn patience_with_an_act_ends_after_three_minutes() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("clone")]).deeds(&[Deed::Fails(Retry::NotExecuted)]);
    let began = Instant::now();
    assert_eq!(code(fixture.run.stage(&stage).await).0, "test/fails");
    assert!((180..195).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(*stage.acts.lock().unwrap() < 60, "it backs off");
}

#[tokio::test(start_paused = true)]
async fn looking_is_tried_again_too_and_each_trouble_has_its_own_patience() {
    let fixture = Fixture::new();
    let mut looks = vec![Look::Fails(Retry::Doubt), Look::Pending("boot", 3600)];
    looks.extend(vec![Look::Pending("boot", 3600); 200]);
    looks.extend([Look::Fails(Retry::NotExecuted), Look::Done]);
    let began = Instant::now();
    assert_eq!(fixture.run.stage(&Scripted::looks(&looks)).await.unwrap(), "done");
    assert!(
        began.elapsed() > PATIENCE,
        "the second trouble came long after the first"
    );
    let blind = Scripted::looks(&[Look::Fails(Retry::NotExecuted)]);
    let began = Instant::now();
    assert_eq!(code(fixture.run.stage(&blind).await).0, "test/fails");
    assert!((180..195).contains(&began.elapsed().as_secs()));
    let wrong = Scripted::looks(&[Look::Fails(Retry::No)]);
    assert_eq!(code(fixture.run.stage(&wrong).await).0, "test/fails");
    assert_eq!(*wrong.observed.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_asks_for_rest_gets_it() {
    let fixture = Fixture::new();
    let denied = fixture.run.guest_failure(&SshError::Denied("publickey".into()));
    let gone = fixture.run.guest_failure(&SshError::NotReachable("refused".into()));
    for (failure, at_least) in [(denied, 3000), (gone, 50)] {
        let began = Instant::now();
        fixture.run.tried(StageName::Trust, failure, &mut None).await.unwrap();
        let took = began.elapsed().as_millis();
        assert!((at_least..at_least + 20).contains(&took), "{took}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_does_not_converge_stops() {
    let fixture = Fixture::new();
    let stage = Scripted::looks(&[Look::Absent("disk")]);
    assert_eq!(
        code(fixture.run.stage(&stage).await),
        ("engine/unsettled", Exit::HostFailed)
    );
    assert_eq!(*stage.acts.lock().unwrap(), MAX_ACTS);
}

#[tokio::test(start_paused = true)]
async fn many_different_changes_are_no_loop() {
    let fixture = Fixture::new();
    let disks = [
        "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15",
    ];
    let mut looks: Vec<Look> = disks.iter().map(|disk| Look::Absent(disk)).collect();
    looks.push(Look::Done);
    let stage = Scripted::looks(&looks);
    assert_eq!(fixture.run.stage(&stage).await.unwrap(), "done");
    assert_eq!(*stage.acts.lock().unwrap(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_plan_never_acts_never_waits_and_never_writes() {
    let plan = || Fixture::of(machine(), Mode::Plan);
    for (look, assumed, expected) in [
        (Look::Absent("clone"), false, "planned"),
        (Look::Absent("record"), true, "assumed"),
        (Look::Pending("sshd", 600), false, "planned"),
        (Look::Done, false, "done"),
    ] {
        let (fixture, began) = (plan(), Instant::now());
        let mut stage = Scripted::looks(&[look]);
        (stage.assumed, stage.phase) = (assumed, Some(created()));
        assert_eq!(code(fixture.run.stage(&stage).await).0, expected);
        assert_eq!(*stage.acts.lock().unwrap(), 0);
        assert!(began.elapsed() < Duration::from_secs(1));
        assert_eq!(fixture.on_disk(), None);
        let told = fixture.heard.all();
        let real = told
            .iter()
            .any(|event| matches!(event, EventKind::Changing { planned: false, .. }));
        assert!(!real, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn evidence_is_recorded_under_the_lock_only() {
    let mut stage = Scripted::looks(&[Look::Done]);
    stage.phase = Some(created());
    let fixture = Fixture::new();
    assert_eq!(code(fixture.run.stage(&stage).await).0, "state/no-lock");
    assert_eq!(fixture.on_disk(), None);
    let fixture = Fixture::new().locked();
    assert_eq!(code(fixture.run.stage(&stage).await).0, "done");
    assert_eq!(fixture.on_disk(), Some(created()));
    assert_eq!(fixture.run.phase(), Some(created()));
    let path = fixture.run.shared.state.record_path(&fixture.run.key);
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(code(fixture.run.stage(&stage).await).0, "done");
    assert_eq!(
        std::fs::metadata(&path).unwrap().modified().unwrap(),
        before,
        "not written twice"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_begins_no_stage_and_no_change() {
    let fixture = Fixture::new();
    fixture.cancel.cancel();
    let stage = Scripted::looks(&[Look::Absent("disk")]);
    assert_eq!(code(fixture.run.stage(&stage).await).0, "interrupted");
    assert_eq!((*stage.observed.lock().unwrap(), *stage.acts.lock().unwrap()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_and_a_retry_are_left_at_once() {
    for look in [Look::Pending("boot", 600), Look::Fails(Retry::NotExecuted)] {
        let fixture = Fixture::new();
        let stage = Scripted::looks(&[look]);
        let began = Instant::now();
        let (end, ()) = tokio::join!(fixture.run.stage(&stage), async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            fixture.cancel.cancel();
        });
        assert_eq!(code(end).0, "interrupted");
        assert!(began.elapsed() < Duration::from_secs(21), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_place_can_be_interrupted() {
    let fixture = Fixture::new();
    let mut stage = Scripted::looks(&[Look::Absent("node")]);
    stage.limited = true;
    let place = fixture
        .run
        .shared
        .limits
        .acquire(Limit::Migrate { node: "pve1".into() })
        .await;
    let (end, ()) = tokio::join!(fixture.run.stage(&stage), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        fixture.cancel.cancel();
    });
    assert_eq!(code(end).0, "interrupted");
    assert_eq!(*stage.acts.lock().unwrap(), 0);
    drop(place);
}

#[tokio::test(start_paused = true)]
async fn after_a_long_wait_for_a_place_the_world_is_looked_at_again() {
    let fixture = Fixture::new();
    let mut stage = Scripted::looks(&[Look::Absent("node"), Look::Done]);
    stage.limited = true;
    let limit = Limit::Migrate { node: "pve1".into() };
    let place = fixture.run.shared.limits.acquire(limit).await;
    let (end, ()) = tokio::join!(fixture.run.stage(&stage), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(place);
    });
    assert_eq!(code(end).0, "done");
    assert_eq!(*stage.acts.lock().unwrap(), 0, "somebody else did it meanwhile");
    assert!(fixture.heard.text().contains("a free place"));
}

#[tokio::test(start_paused = true)]
async fn host_keys_on_record_are_the_only_ones_accepted() {
    let fixture = Fixture::new();
    assert!(matches!(fixture.run.guest_keys(), HostKeys::LearnInto(_)));
    assert!(fixture.run.is_first_boot());
    let fixture = fixture.recorded(Phase::Complete {
        vmid: "105".parse().unwrap(),
        uuid: "u".to_owned(),
        node: "pve1".parse().unwrap(),
        host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
        addresses: Vec::new(),
        finished: jiff::Timestamp::UNIX_EPOCH,
    });
    assert_eq!(
        fixture.run.guest_keys(),
        HostKeys::Known(vec!["ssh-ed25519 AAAA".to_owned()])
    );
    assert!(!fixture.run.is_first_boot());
}
