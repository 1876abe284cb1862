//! Many hosts at once: bounded, fair, and one failing host does not stop the others.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How many hosts at once, and whether the first failure stops starting new ones.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Hosts under way at once, at least one.
    pub forks: usize,
    /// A failing host stops hosts that have not begun.
    pub fail_fast: bool,
}

impl Fleet {
    /// Runs `work` for every item, in order of start. The results come in the order of the items; `None` is an item that was
    /// not begun, since an earlier one failed or the run was cancelled.
    ///
    /// `failed` tells whether a result counts as a failure.
    pub async fn run<I, T, F>(
        self,
        items: Vec<I>,
        cancel: &CancellationToken,
        failed: fn(&T) -> bool,
        work: impl Fn(I) -> F,
    ) -> Vec<Option<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.forks.max(1)));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let total = items.len();
        for (index, item) in items.into_iter().enumerate() {
            let place = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = stop.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            if cancel.is_cancelled() || stop.is_cancelled() {
                break;
            }
            let (future, stop) = (work(item), self.fail_fast.then(|| stop.clone()));
            tasks.spawn(async move {
                let result = future.await;
                if let Some(stop) = stop
                    && failed(&result)
                {
                    stop.cancel();
                }
                drop(place);
                (index, result)
            });
        }
        let mut results: Vec<Option<T>> = (0..total).map(|_| None).collect();
        while let Some(joined) = tasks.join_next().await {
            match joined {
                Ok((index, result)) => results[index] = Some(result),
                // A panic is a bug of ours: let it be seen with its own message instead of a lost host.
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => {}
            }
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_forks_run_at_once_and_results_keep_their_order() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let fleet = Fleet {
            forks: 3,
            fail_fast: false,
        };
        let results = fleet
            .run(
                (0..10_u64).collect(),
                &CancellationToken::new(),
                |_| false,
                |n| {
                    let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                    async move {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(100 - n)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        n
                    }
                },
            )
            .await;
        assert_eq!(results, (0..10).map(Some).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn fail_fast_leaves_the_rest_unbegun() {
        let fleet = Fleet {
            forks: 1,
            fail_fast: true,
        };
        let results = fleet
            .run(
                vec![0, 1, 2, 3],
                &CancellationToken::new(),
                |ok: &bool| !ok,
                |n| async move { n != 1 },
            )
            .await;
        assert_eq!(results, [Some(true), Some(false), None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_run_begins_nothing_more() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let results = Fleet {
            forks: 8,
            fail_fast: false,
        }
        .run(vec![1, 2], &cancel, |_| false, |n| async move { n })
        .await;
        assert_eq!(results, [None, None]);
    }
}
