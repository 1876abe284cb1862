//! Twenty processes on one VM.

use std::time::Duration;

use crate::e2e::support::Started;
use crate::ground::{Ground, PROVISION};

const MANY: usize = 20;

/// Starts twenty at once, and waits until all but one have ended. The one is held at its clone.
async fn contend(ground: &Ground) -> Started {
    let site = &ground.site;
    site.hold("POST", "*/clone");
    let mut started: Vec<Started> = (0..MANY).map(|_| site.begin(&PROVISION)).collect();
    let mut ended = Vec::new();
    let since = std::time::Instant::now();
    while started.len() > 1 {
        assert!(since.elapsed() < Duration::from_secs(90), "{} still run", started.len());
        let mut running = Vec::new();
        for mut one in started {
            if one.has_ended() {
                ended.push(one.end().await);
            } else {
                running.push(one);
            }
        }
        started = running;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let holder = started.pop().expect("one that holds the lock");
    for run in &ended {
        run.assert_code(3);
        run.assert_says(&format!("(pid {} on ", holder.pid()));
        run.assert_says("--wait-lock");
    }
    assert_eq!(ended.len(), MANY - 1);
    holder
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_one_works_and_when_it_is_killed_one_takes_over() {
    let mut ground = Ground::new().await;
    let site = &ground.site;
    let mut holder = contend(&ground).await;
    // One of twenty asked for a clone, and nobody for anything else.
    site.until("the holder's request", |site| site.sim.faults().hits() > 0)
        .await;
    assert_eq!(site.changes().len(), 0, "a held request is not executed");
    assert_eq!(site.locks().len(), 1);
    // Nineteen wrote nothing: there is one journal, the holder's.
    assert_eq!(site.path("state/runs").read_dir().unwrap().count(), 1);
    let state = site.tree("state");
    let late = site.vmwright(&PROVISION).await;
    late.assert_code(3);
    assert_eq!(site.tree("state"), state);

    holder.kill();
    holder.end().await;
    site.sim.faults().clear();
    assert_eq!(site.locks().len(), 1, "the dead holder's lock stays");
    let mut second = contend(&ground).await;
    assert_eq!(site.locks().len(), 1);
    second.kill();
    second.end().await;
    site.sim.faults().clear();

    let wrong = ground.ends_well(&PROVISION).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(ground.site.changes_to("/clone").len(), 1);
    println!(
        "two times {MANY} contenders: one worked, {} left with exit code 3",
        MANY - 1
    );
}
