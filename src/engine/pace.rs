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
    /// It starts at 50 ms and grows; later it is a part of the time waited so far, so that the last look comes at most that
    /// part too late. Looks at a task stay at or below three calls a second, in every second and on the whole.
    pub fn pause(self, elapsed: Duration) -> Duration {
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let backed_off = |plateau: u64, part: u64, longest: u64| (elapsed / part).clamp(plateau, longest);
        Duration::from_millis(match self {
            Self::Task => match FIRST_LOOKS_AT_A_TASK.iter().find(|look| **look > elapsed) {
                Some(look) => look - elapsed,
                None => backed_off(334, 12, 2_000),
            },
            Self::Boot => backed_off(50, 50, 2_000),
            Self::Login => backed_off(3_000, 3, 10_000),
            Self::CloudInit => (elapsed + 50).min(backed_off(200, 20, 3_000)),
            Self::Watched => 50,
        })
    }
}

/// When a task is looked at first, in milliseconds after its start was answered: a change of the configuration takes some 50,
/// a small one at a storage or a stop some 300. Whoever looks three times in the first second has no look left in it.
const FIRST_LOOKS_AT_A_TASK: [u64; 3] = [50, 350, 1_000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_three_looks_at_a_task_and_no_wait_more_than_three_a_second() {
        let mut at = Duration::ZERO;
        let mut times = Vec::new();
        while at < Duration::from_secs(60) {
            at += Pace::Task.pause(at);
            times.push(at);
        }
        for from in &times {
            let looks = times
                .iter()
                .filter(|at| *at >= from && **at < *from + Duration::from_secs(1));
            assert!(looks.count() <= 3, "from {from:?}");
        }
        for (before, at) in times.iter().enumerate().skip(2) {
            let looks = f64::from(u32::try_from(before).unwrap() + 1);
            assert!(looks <= 3.0 * at.as_secs_f64(), "{looks} looks in {at:?}");
        }
        assert_eq!(times[..4], [50, 350, 1000, 1334].map(Duration::from_millis));
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
}
