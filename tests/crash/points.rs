//! Going through many points, on as many threads as there are cores, each with a paused clock of its own.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Instant;

use crate::life::{Workflow, clean};
use crate::world::Site;

/// A runtime whose clock stands until everybody waits.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

/// What a point's examination says: what is wrong, and further points.
#[derive(Default)]
pub struct Verdict<P> {
    /// What is wrong; nothing if all is right.
    pub wrong: Vec<String>,
    /// Points that were found on the way.
    pub further: Vec<P>,
}

type Examination<'a, P> = Pin<Box<dyn Future<Output = Verdict<P>> + 'a>>;

/// Examines all points; the test fails with the first few that are wrong. How many there were.
pub fn each<P: Send + std::fmt::Debug>(
    what: &str,
    points: impl IntoIterator<Item = P>,
    examine: impl for<'p> Fn(&'p P) -> Examination<'p, P> + Sync,
) -> usize {
    let began = Instant::now();
    let queue: Mutex<(VecDeque<P>, usize)> = Mutex::new((points.into_iter().collect(), 0));
    let bad = Mutex::new(Vec::new());
    let done = Mutex::new(0_usize);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let point = {
                        let mut queue = queue.lock().unwrap();
                        match queue.0.pop_front() {
                            Some(point) => {
                                queue.1 += 1;
                                point
                            }
                            // Others may still find further points.
                            None if queue.1 > 0 => {
                                drop(queue);
                                std::thread::yield_now();
                                std::thread::sleep(std::time::Duration::from_millis(1));
                                continue;
                            }
                            None => break,
                        }
                    };
                    let verdict = catch_unwind(AssertUnwindSafe(|| runtime().block_on(examine(&point))));
                    let verdict = verdict.unwrap_or_else(|_| Verdict {
                        wrong: vec!["it panicked, see above".to_owned()],
                        further: Vec::new(),
                    });
                    *done.lock().unwrap() += 1;
                    if !verdict.wrong.is_empty() {
                        bad.lock()
                            .unwrap()
                            .push(format!("{point:?}: {}", verdict.wrong.join("\n    ")));
                    }
                    let mut queue = queue.lock().unwrap();
                    queue.0.extend(verdict.further);
                    queue.1 -= 1;
                }
            });
        }
    });
    let (done, bad) = (done.into_inner().unwrap(), bad.into_inner().unwrap());
    println!("{what}: {done} points in {:.1} s", began.elapsed().as_secs_f64());
    let shown: Vec<&str> = bad.iter().take(12).map(String::as_str).collect();
    assert!(
        bad.is_empty(),
        "{} of {done} points of {what} are wrong:\n{}",
        bad.len(),
        shown.join("\n")
    );
    done
}

/// A clean life must end well, and the world be right then.
pub async fn ends_well(site: &Site, workflow: &dyn Workflow) -> Vec<String> {
    let end = clean(site, workflow).await;
    let mut wrong: Vec<String> = end
        .failure()
        .into_iter()
        .map(|why| format!("the clean run: {why}"))
        .collect();
    wrong.extend(workflow.check(site));
    wrong
}
