//! Not death but faults, at every boundary: the run ends complete or with a clear failure, and a clean run completes.

use std::time::Duration;

use vmwright::engine::host::Halt;
use vmwright::simulator::fault::{Action, Fault};

use crate::life::{End, Workflow, clean, live};
use crate::points::{Verdict, each, runtime};
use crate::scene::NAME;
use crate::switch::{Mishap, Plan, Switch};
use crate::workflows::ALL;
use crate::world::Site;

/// A fault.
#[derive(Clone, Debug)]
enum Trouble {
    /// At a door, before or after the effect, or at the disk.
    Here(Plan),
    /// The cluster answers the n-th request like this.
    There(u64, Action),
    /// The cluster answers the n-th and so many further requests like this.
    Long(u64, u64, Action),
}

/// A clean run: the doors' effects, the requests to the API, those of them that change something (by their number, from
/// 1), and the writes to the state directory.
struct Counts {
    effects: usize,
    requests: u64,
    changes: Vec<u64>,
    writes: usize,
}

fn counts(workflow: &dyn Workflow) -> Counts {
    runtime().block_on(async {
        let site = Site::new().await;
        workflow.prepare(&site).await;
        site.cluster().clear_requests();
        let switch = Switch::new(Plan::Live);
        assert_eq!(live(&site, workflow, &switch).await.failure(), None);
        let (_, effects, writes) = switch.counts();
        let requests = site.cluster().requests();
        let numbered = (1_u64..).zip(&requests);
        Counts {
            effects,
            requests: u64::try_from(requests.len()).unwrap(),
            changes: numbered.filter(|(_, r)| r.method != "GET").map(|(n, _)| n).collect(),
            writes,
        }
    })
}

/// Whether a failure tells what happened and what to do.
fn clear(end: &End) -> Option<String> {
    let End::Ended(Err(Halt::Failed { diagnostic, .. })) = end else {
        return None;
    };
    let vague = diagnostic.message.is_empty() || (diagnostic.help.is_empty() && diagnostic.rule.is_none());
    vague.then(|| format!("a failure that does not help: {diagnostic:?}"))
}

/// Does what the failure of a killed worker asks of an administrator: it leaves locks that nobody else may end.
fn administer(site: &Site, end: &End) -> bool {
    let End::Ended(Err(Halt::Failed { diagnostic, .. })) = end else {
        return false;
    };
    match diagnostic.code {
        "clone/left-over" => site.cluster().with(|world| {
            let made: Vec<u32> = world
                .vms
                .values()
                .filter(|vm| vm.lock() == Some("clone"))
                .map(|vm| vm.vmid)
                .collect();
            for vmid in made {
                world.vms.remove(&vmid);
                world.volumes.retain(|volume| volume.vmid != vmid);
            }
        }),
        "migrate/late" | "migrate/left-over" | "api/locked" | "task/failed" => site.cluster().with(|world| {
            for vm in world.vms.values_mut().filter(|vm| vm.name() == NAME) {
                vm.config.current.shift_remove("lock");
            }
        }),
        _ => return false,
    }
    true
}

async fn examine(workflow: &dyn Workflow, trouble: &Trouble) -> Verdict<Trouble> {
    let site = Site::new().await;
    workflow.prepare(&site).await;
    let switch = match trouble {
        Trouble::Here(plan) => Switch::new(*plan),
        Trouble::There(nth, action) => {
            site.sim.faults().add(Fault::on("*", "*", action.clone()).nth(*nth));
            Switch::new(Plan::Live)
        }
        Trouble::Long(nth, times, action) => {
            site.sim
                .faults()
                .add(Fault::on("*", "*", action.clone()).nth(*nth).times(*times));
            Switch::new(Plan::Live)
        }
    };
    let first = live(&site, workflow, &switch).await;
    let mut wrong: Vec<String> = clear(&first).into_iter().collect();
    site.sim.faults().clear();
    site.rest(Duration::from_secs(1)).await;
    let mut end = clean(&site, workflow).await;
    if administer(&site, &end) {
        end = clean(&site, workflow).await;
    }
    let was = first.failure().unwrap_or_else(|| "it ended well".to_owned());
    wrong.extend(
        end.failure()
            .map(|why| format!("the clean run: {why}\n    before: {was}")),
    );
    wrong.extend(workflow.check(&site));
    Verdict {
        wrong,
        further: Vec::new(),
    }
}

const LOCK_TIMEOUT: &str = "can't lock file '/var/lock/qemu-server/lock-103.conf' - got timeout";

fn answers() -> [Action; 4] {
    let answer = |status, text: &str| Action::Answer {
        status,
        text: text.to_owned(),
    };
    [
        answer(500, LOCK_TIMEOUT),
        answer(595, "Connection refused"),
        answer(596, "Connection timed out"),
        answer(599, "Too many redirections"),
    ]
}

#[test]
fn a_cut_connection_at_any_effect() {
    for workflow in ALL {
        let effects = counts(*workflow).effects;
        let points = (0..effects).flat_map(|at| {
            [Mishap::CutBefore, Mishap::CutAfter, Mishap::NotSent].map(|mishap| Trouble::Here(Plan::Mishap(at, mishap)))
        });
        let what = format!("{}: cut connections", workflow.name());
        each(&what, points, |point| Box::pin(examine(*workflow, point)));
    }
}

#[test]
fn an_error_as_the_answer_to_any_request() {
    for workflow in ALL {
        let requests = counts(*workflow).requests;
        let points = (1..=requests).flat_map(|nth| answers().map(|action| Trouble::There(nth, action)));
        let what = format!("{}: errors as answers", workflow.name());
        each(&what, points, |point| Box::pin(examine(*workflow, point)));
    }
}

#[test]
fn the_api_is_away_from_any_request_on() {
    for workflow in ALL {
        let requests = counts(*workflow).requests;
        let away = Action::Answer {
            status: 595,
            text: "Connection refused".to_owned(),
        };
        let points = (1..=requests).map(|nth| Trouble::Long(nth, 100_000, away.clone()));
        let what = format!("{}: the API goes away", workflow.name());
        each(&what, points, |point| Box::pin(examine(*workflow, point)));
    }
}

#[test]
fn a_task_of_any_request_fails() {
    for workflow in ALL {
        let changes = counts(*workflow).changes;
        let points = changes.into_iter().flat_map(|nth| {
            ["command failed: exit code 1", "unexpected status", LOCK_TIMEOUT]
                .map(|text| Trouble::There(nth, Action::FailTask(text.to_owned())))
        });
        let what = format!("{}: failing tasks", workflow.name());
        each(&what, points, |point| Box::pin(examine(*workflow, point)));
    }
}

#[test]
fn a_full_disk_at_any_write() {
    for workflow in ALL {
        let writes = counts(*workflow).writes;
        let points = (0..writes).flat_map(|at| [Plan::Full(at), Plan::FullFrom(at)].map(Trouble::Here));
        let what = format!("{}: a full disk", workflow.name());
        each(&what, points, |point| Box::pin(examine(*workflow, point)));
    }
}
