//! Any number of deaths: every state that deaths can lead to is a start from which a clean run ends well.
//!
//! A breadth-first search over the states of the world as [`fingerprint`](crate::fingerprint) tells them apart. From each
//! state a clean run is watched: every instant of it is a state that one more death leads to, and one that is new is
//! examined in the same way; so is every torn or late effect in a state in which it was not torn or late before. When
//! nothing new turns up, deaths of any number are covered, up to what fingerprints leave out (see there).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::fingerprint::Places;
use crate::life::{Workflow, live};
use crate::points::{Verdict, each};
use crate::switch::{Plan, Switch};
use crate::workflows::ALL;
use crate::world::Site;

/// More states than there are, so that a fault in the fingerprint does not search for ever.
const MANY: usize = 1500;

async fn examine(
    workflow: &dyn Workflow,
    path: Vec<usize>,
    known: Arc<Mutex<BTreeSet<String>>>,
) -> Verdict<Vec<usize>> {
    let site = Site::new().await;
    workflow.prepare(&site).await;
    for boundary in &path {
        live(&site, workflow, &Switch::new(Plan::Die(*boundary))).await;
    }
    let switch = Switch::new(Plan::Live);
    let (places, found) = (Places::of(&site), Arc::new(Mutex::new(Vec::new())));
    let (seen, mut last) = (Arc::clone(&found), String::new());
    switch.watch(move |boundary| {
        let state = match boundary.instant {
            true => {
                last = places.fingerprint();
                last.clone()
            }
            // Half a line of a journal leads nobody anywhere.
            false if boundary.what.contains("append") || boundary.what.starts_with("after") => return,
            false => format!("{} in\n{last}", boundary.what),
        };
        seen.lock().unwrap().push((boundary.number, state));
    });
    let end = live(&site, workflow, &switch).await;
    let mut wrong: Vec<String> = end.failure().into_iter().collect();
    wrong.extend(workflow.check(&site));
    let mut further = Vec::new();
    let mut known = known.lock().unwrap();
    for (number, fingerprint) in found.lock().unwrap().drain(..) {
        if known.len() < MANY && known.insert(fingerprint) {
            further.push([path.as_slice(), &[number]].concat());
        }
    }
    Verdict { wrong, further }
}

#[test]
fn every_state_that_any_number_of_deaths_leads_to_ends_well() {
    for workflow in ALL {
        let known = Arc::new(Mutex::new(BTreeSet::new()));
        let what = format!("{}: states reached by any number of deaths", workflow.name());
        let examine = |path: &Vec<usize>| examine(*workflow, path.clone(), Arc::clone(&known));
        each(&what, [Vec::new()], |path| Box::pin(examine(path)));
        assert!(known.lock().unwrap().len() < MANY, "the search did not close");
    }
}
