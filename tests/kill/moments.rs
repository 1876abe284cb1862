//! Moments at which the real binary is killed, and the clean run after each.
//!
//! Requests are stopped at by the simulator's delays, before and after execution; commands over `ssh` likewise; writes of
//! the record are seen by looking at the file without pause, so that the kill comes right after them; and some moments are
//! any moments.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use vmwright::simulator::RequestRecord;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::ssh::{SshEffect, SshFault};

use crate::e2e::support::Site;
use crate::ground::{Ground, PROVISION, REMOVE};
use crate::scene::NAME;

/// Runs at once: more than cores, since a run waits most of its time.
const AT_ONCE: usize = 4;
/// Longer than any test.
const EVER: u64 = 600_000;

/// When to kill.
#[derive(Clone, Debug)]
enum Moment {
    /// Before or after the n-th request of this method and pattern.
    Request(String, String, u64, bool),
    /// While the first command over `ssh` with this text waits to run; it runs all the same, later.
    Command(&'static str),
    /// Right after the record says this.
    Record(&'static str),
    /// Right after this folder of the state directory got another entry, or lost one: locks, journals, records.
    Entries(&'static str),
    /// After so long.
    Time(Duration),
}

/// The entries of a folder of the state directory, written ones and those under way.
fn entries(site: &Site, folder: &str) -> BTreeSet<OsString> {
    let listed = std::fs::read_dir(site.path("state").join(folder));
    listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect()
}

/// A path as a pattern: a task's is told by its kind only.
fn pattern(path: &str) -> String {
    match path.split_once("UPID:") {
        Some((before, upid)) => {
            let kind = upid.split(':').nth(4).unwrap_or_default();
            let after = upid.rsplit_once('/').map_or("", |(_, after)| after);
            format!("{before}UPID:*:{kind}:*/{after}")
        }
        None => path.to_owned(),
    }
}

/// Before and after every request.
fn of_requests(requests: &[RequestRecord]) -> Vec<Moment> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut moments = Vec::new();
    for request in requests {
        let pattern = pattern(&request.path);
        let nth = counts.entry((request.method.clone(), pattern.clone())).or_default();
        *nth += 1;
        for after in [false, true] {
            moments.push(Moment::Request(request.method.clone(), pattern.clone(), *nth, after));
        }
    }
    moments
}

/// Kills the command at the moment; whether the moment came.
async fn kill(ground: &Ground, args: &[&str], moment: &Moment) -> bool {
    let site = &ground.site;
    let doors = site.sim.ssh().unwrap();
    match moment {
        Moment::Request(method, pattern, nth, after) => {
            let action = if *after {
                Action::DelayAnswer(EVER)
            } else {
                Action::Delay(EVER)
            };
            site.sim.faults().add(Fault::on(method, pattern, action).nth(*nth));
        }
        Moment::Command(text) => doors.set_faults(vec![SshFault {
            machine: None,
            containing: Some((*text).to_owned()),
            skip: 0,
            times: Some(1),
            effect: SshEffect::Delay { ms: 400 },
        }]),
        Moment::Record(_) | Moment::Entries(_) | Moment::Time(_) => {}
    }
    let before = match moment {
        Moment::Entries(folder) => entries(site, folder),
        _ => BTreeSet::new(),
    };
    let mut started = site.begin(args);
    let began = Instant::now();
    let came = loop {
        let here = match moment {
            Moment::Request(..) => site.sim.faults().hits() > 0,
            Moment::Command(text) => doors.log().iter().any(|entry| entry.command.contains(text)),
            Moment::Record(step) => site.record(NAME).is_some_and(|record| {
                let phase = &record["phase"];
                phase["is"] == *step || phase["step"] == *step
            }),
            Moment::Entries(folder) => entries(site, folder) != before,
            Moment::Time(time) => began.elapsed() >= *time,
        };
        if here {
            break true;
        }
        if started.has_ended() {
            break false;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{moment:?} does not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    if came {
        started.kill();
    }
    started.end().await;
    site.sim.faults().clear();
    doors.set_faults(Vec::new());
    came
}

/// Kills at every moment and runs again; prints how many there were.
async fn all(what: &str, provisioned: bool, args: &'static [&'static str], moments: Vec<Moment>) {
    let (began, count) = (Instant::now(), moments.len());
    let examine = |moment: Moment| async move {
        let mut ground = Ground::new().await;
        if provisioned {
            let wrong = ground.ends_well(&PROVISION).await;
            assert!(wrong.is_empty(), "{wrong:#?}");
        }
        let came = kill(&ground, args, &moment).await;
        let wrong = ground.ends_well(args).await;
        (moment, came, wrong)
    };
    let ends: Vec<_> = stream::iter(moments)
        .map(examine)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let came = ends.iter().filter(|(_, came, _)| *came).count();
    println!(
        "{what}: killed at {came} of {count} moments in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let wrong: Vec<String> = ends
        .iter()
        .filter(|(.., wrong)| !wrong.is_empty())
        .map(|(moment, _, wrong)| format!("{moment:?}: {}", wrong.join("\n    ")))
        .collect();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    let missed: Vec<_> = ends
        .iter()
        .filter(|(_, came, _)| !came)
        .map(|(moment, ..)| moment)
        .collect();
    // A look may not be needed in every run; a change always is.
    let change = |moment: &&&Moment| matches!(moment, Moment::Request(method, ..) if method != "GET");
    assert_eq!(missed.iter().filter(change).count(), 0, "{missed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn provision_is_killed_at_requests_commands_and_writes() {
    let mut ground = Ground::new().await;
    let began = Instant::now();
    let wrong = ground.ends_well(&PROVISION).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    let whole = began.elapsed();
    all(
        "provision, requests",
        false,
        &PROVISION,
        of_requests(&ground.site.sim.requests()),
    )
    .await;
    let mut moments: Vec<Moment> = [
        "cat > \"$t\"",
        "boot_id",
        "cloud-init status",
        "ip -j addr",
        "cloud-init.disabled",
        "rm -f \"$f\"",
    ]
    .map(Moment::Command)
    .into();
    moments.extend(
        [
            "cloning",
            "created",
            "initialized",
            "begun",
            "cloud-init-off",
            "drive-removed",
            "restarted",
            "complete",
        ]
        .map(Moment::Record),
    );
    moments.extend(["locks", "runs", "records"].map(Moment::Entries));
    moments.extend((1..=12).map(|n| Moment::Time(whole * n / 13)));
    all("provision, commands, records and times", false, &PROVISION, moments).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remove_is_killed_at_requests_and_writes() {
    let mut ground = Ground::new().await;
    assert_eq!(ground.ends_well(&PROVISION).await, Vec::<String>::new());
    ground.site.sim.handle().clear_requests();
    assert_eq!(ground.ends_well(&REMOVE).await, Vec::<String>::new());
    let mut moments = of_requests(&ground.site.sim.requests());
    moments.extend(["begun", "stopped", "gone"].map(Moment::Record));
    moments.extend(["locks", "runs", "records"].map(Moment::Entries));
    moments.push(Moment::Command("w=absent"));
    all("remove", true, &REMOVE, moments).await;
}
