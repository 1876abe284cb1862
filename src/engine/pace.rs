//! How often to look: waiting starts fast and backs off, so that a short wait ends at once and a long one costs little.

use std::time::Duration;

/// The rhythm of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A task at the Proxmox API, from 50 ms to 2 s.
    Task,
    /// A guest that boots, from 50 ms to 2 s: a look is one TCP connection until something answers, which costs nobody
    /// anything, so it stays fast for the usual time of a boot.
    Boot,
    /// A login that was refused, from 3 s to 10 s: newer OpenSSH servers shut out an address that fails too often
    /// (`PerSourcePenalties`: 5 s a failure, enforced from 15 s on).
    Login,
    /// cloud-init on the guest, from 50 ms to 3 s: a look is one command over the open SSH session.
    CloudInit,
    /// Something that the look itself waited for: no pause but a breath.
    Watched,
}

impl Pace {
    /// The pause after having waited for `elapsed`.
    ///
    /// Doubling from 50 ms, held at a plateau, later a part of the time waited so far, so that the last look comes at most
    /// that part too late. The plateau of a task keeps the API below three calls a second.
    pub fn pause(self, elapsed: Duration) -> Duration {
        let (plateau, part, longest) = match self {
            Self::Login => return (elapsed / 3).clamp(Duration::from_secs(3), Duration::from_secs(10)),
            Self::Watched => return Duration::from_millis(50),
            Self::Task => (334, 12, 2_000),
            Self::Boot => (50, 50, 2_000),
            Self::CloudInit => (200, 20, 3_000),
        };
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let pause = (elapsed + 50).min(plateau).max(elapsed / part).min(longest);
        Duration::from_millis(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(pace: Pace, total_ms: u64) -> u64 {
        let (mut at, mut looks) = (0, 0);
        while at < total_ms {
            at += u64::try_from(pace.pause(Duration::from_millis(at)).as_millis()).unwrap();
            looks += 1;
        }
        looks
    }

    #[test]
    fn no_second_after_the_first_has_more_than_three_looks_at_a_task() {
        let mut at = Duration::ZERO;
        let mut times = Vec::new();
        while at < Duration::from_secs(60) {
            at += Pace::Task.pause(at);
            times.push(at);
        }
        for from in times.iter().filter(|at| **at >= Duration::from_millis(350)) {
            let looks = times
                .iter()
                .filter(|at| *at >= from && **at < *from + Duration::from_secs(1));
            assert!(looks.count() <= 3, "from {from:?}");
        }
        assert_eq!(times[..3], [50, 150, 350].map(Duration::from_millis));
    }

    #[test]
    fn a_wait_starts_fast_and_ends_slow() {
        assert_eq!(Pace::Task.pause(Duration::ZERO), Duration::from_millis(50));
        assert_eq!(Pace::Task.pause(Duration::from_secs(3600)), Duration::from_secs(2));
        assert_eq!(Pace::CloudInit.pause(Duration::from_secs(3600)), Duration::from_secs(3));
    }

    #[test]
    fn a_refused_login_is_never_hammered() {
        assert_eq!(Pace::Login.pause(Duration::ZERO), Duration::from_secs(3));
        assert_eq!(Pace::Login.pause(Duration::from_secs(18)), Duration::from_secs(6));
        assert_eq!(Pace::Login.pause(Duration::from_secs(600)), Duration::from_secs(10));
    }

    #[test]
    fn a_task_of_ten_seconds_costs_less_than_three_looks_a_second() {
        assert!(looks(Pace::Task, 10_000) <= 30, "{}", looks(Pace::Task, 10_000));
    }
}
