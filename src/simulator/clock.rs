//! Time in the simulated cluster: epoch milliseconds that follow tokio's clock, and how long things take.
//!
//! The clock starts at the wall clock's time and then advances with [`tokio::time::Instant`], so that a test with
//! tokio's paused clock moves the whole cluster with `tokio::time::advance`, and a ten-minute wait takes no time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The cluster's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_ms: u64,
    started: Instant,
}

impl Clock {
    /// A clock that starts at the wall clock's time, or at `at_least_ms` when the world was saved later than that.
    pub fn start(at_least_ms: u64) -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        Self {
            base_ms: wall.max(at_least_ms),
            started: Instant::now(),
        }
    }

    /// Now, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        let elapsed = self.started.elapsed().as_millis();
        self.base_ms.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Sleeps until the cluster's clock shows `at_ms`.
    pub async fn sleep_until(&self, at_ms: u64) {
        let offset = Duration::from_millis(at_ms.saturating_sub(self.base_ms));
        tokio::time::sleep_until(self.started + offset).await;
    }
}

/// How long things take, in milliseconds. The defaults are real enough to watch; [`Durations::scaled`] makes them
/// shorter for tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Durations {
    /// A full clone's copy of one template.
    pub clone: u64,
    /// A linked clone.
    pub linked_clone: u64,
    /// Between the answer to a clone request and the new VM's first config: until then the id looks free.
    pub fork: u64,
    /// An offline migration.
    pub migrate: u64,
    /// A resize task.
    pub resize: u64,
    /// A config task (POST), allocation included.
    pub config: u64,
    /// The start task, until QEMU runs.
    pub start: u64,
    /// The stop task.
    pub stop: u64,
    /// The destroy task.
    pub delete: u64,
    /// Between the end of a reboot task and the separate start task (qmeventd).
    pub reboot_gap: u64,
    /// The guest: from power on to sshd's answer.
    pub boot: u64,
    /// The guest: from sshd's answer to the end of cloud-init, when there is a seed.
    pub cloud_init: u64,
    /// The guest: from the request to power off, or to the new boot's start.
    pub shutdown: u64,
    /// A failed authentication's delay.
    pub auth_delay: u64,
    /// How old `/cluster/resources` may be (pvestatd's cycle).
    pub stale: u64,
    /// How long a request or task waits for a VM's lock.
    pub lock_wait: u64,
    /// How long a clone waits for a VM's lock.
    pub clone_lock_wait: u64,
    /// How long a shutdown or reboot task waits for the guest when the request says nothing (60 s in real life).
    pub shutdown_limit: u64,
    /// One second of a timeout that a request names (`timeout=60`).
    pub second: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            clone: 2000,
            linked_clone: 300,
            fork: 5,
            migrate: 1500,
            resize: 50,
            config: 20,
            start: 300,
            stop: 200,
            delete: 300,
            reboot_gap: 200,
            boot: 3000,
            cloud_init: 4000,
            shutdown: 500,
            auth_delay: 3000,
            stale: 10_000,
            lock_wait: 10_000,
            clone_lock_wait: 1000,
            shutdown_limit: 60_000,
            second: 1000,
        }
    }
}

impl Durations {
    /// Everything takes no time. Waits for locks and guests keep a few milliseconds, so that they are waits.
    pub fn zero() -> Self {
        Self::default().scaled(0.0)
    }

    /// The durations multiplied by `factor`. Limits (lock waits, shutdown limit, a second) never go under the
    /// few milliseconds that the things they wait for need on a busy machine.
    pub fn scaled(&self, factor: f64) -> Self {
        let by = |ms: u64| -> u64 {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "milliseconds are far below 2^52 and the factor is not negative"
            )]
            let scaled = (ms as f64 * factor.max(0.0)).round() as u64;
            scaled
        };
        Self {
            clone: by(self.clone),
            linked_clone: by(self.linked_clone),
            fork: by(self.fork),
            migrate: by(self.migrate),
            resize: by(self.resize),
            config: by(self.config),
            start: by(self.start),
            stop: by(self.stop),
            delete: by(self.delete),
            reboot_gap: by(self.reboot_gap),
            boot: by(self.boot),
            cloud_init: by(self.cloud_init),
            shutdown: by(self.shutdown),
            auth_delay: by(self.auth_delay),
            stale: by(self.stale),
            lock_wait: by(self.lock_wait).max(20),
            clone_lock_wait: by(self.clone_lock_wait).max(10),
            shutdown_limit: by(self.shutdown_limit).max(50),
            second: by(self.second).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_tokios() {
        let clock = Clock::start(0);
        let before = clock.now_ms();
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(clock.now_ms() - before, 600_000);
        assert!(Clock::start(u64::MAX - 10).now_ms() >= u64::MAX - 10);
    }

    #[test]
    fn scaling_keeps_limits_above_zero() {
        let zero = Durations::zero();
        assert_eq!((zero.clone, zero.boot), (0, 0));
        assert!(zero.lock_wait > 0 && zero.shutdown_limit > 0);
        assert_eq!(Durations::default().scaled(0.5).clone, 1000);
    }
}
