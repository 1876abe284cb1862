//! After a failed step: whether it is tried again, and for how long.
//!
//! ```text
//!   locked, and a running task explains it ---> waited for, up to an hour
//!   certainly not executed, or in doubt ------> looked at again, for three minutes; for seconds while nothing was done
//!   a VM that was made is not on its node ----> looked at again for some seconds: it may be arriving
//!   everything else --------------------------> final
//! ```

use std::time::Duration;

use tokio::time::Instant;

use super::{Halt, HostRun, millis};
use crate::engine::event::{EventKind, StageName};
use crate::engine::failure::{Failure, Retry};
use crate::engine::locked;
use crate::engine::pace::Pace;
use crate::proxmox::error::Kind;

/// How long calls that were certainly not executed are repeated.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// The same while nothing was done yet in this run: starting it again later costs nothing, and a wrong address is told soon.
const PATIENCE_BEFORE: Duration = Duration::from_secs(5);
/// How long a VM that was made may be missing on its node: after a migration requests see the old state for some seconds
/// (qemu-server itself uses `nocheck` there).
const ARRIVAL: Duration = Duration::from_secs(10);
/// How long a lock is waited for while the task that holds it runs: a backup of large disks takes its time.
const PATIENCE_LOCKED: Duration = Duration::from_secs(3600);
/// The longest pause between two tries on a locked VM.
const LOCK_PAUSE: Duration = Duration::from_secs(10);

impl HostRun {
    /// After a failed step: wait and look again, if it may be tried again and patience lasts.
    pub(super) async fn tried(
        &self,
        stage: StageName,
        failure: Failure,
        troubled: &mut Option<Instant>,
    ) -> Result<(), Halt> {
        if self.shared.cancel.is_cancelled() {
            return Err(Halt::Interrupted { stage });
        }
        let since = *troubled.get_or_insert_with(Instant::now);
        let elapsed = since.elapsed();
        if elapsed < PATIENCE_LOCKED
            && let Some(lock) = self.passing_lock(&failure).await
        {
            self.emit(EventKind::Waiting {
                stage,
                what: self.clean(&lock),
            });
            let pause = Pace::Task.pause(elapsed).max(elapsed / 20).min(LOCK_PAUSE);
            return self.pause(stage, pause).await;
        }
        // The DNS server is the first to be written to: while it cannot be reached, nothing was done.
        let nothing_done =
            stage <= StageName::Readiness || (stage == StageName::Dns && failure.diagnostic.code == "dns/unreachable");
        let moves = failure.kind == Some(Kind::Missing) && stage > StageName::Clone && failure.retry == Retry::No;
        let patience = match nothing_done {
            true => PATIENCE_BEFORE,
            false if moves => ARRIVAL,
            false => PATIENCE,
        };
        if failure.retry == Retry::No && !moves || elapsed >= patience {
            return Err(Halt::Failed {
                stage,
                diagnostic: failure.diagnostic,
            });
        }
        let delay = Pace::Task.pause(elapsed).max(elapsed / 4).min(Duration::from_secs(10));
        let delay = delay.max(failure.rest);
        let why = self.clean(&failure.diagnostic.message);
        self.emit(EventKind::Retrying {
            stage,
            why,
            delay_ms: millis(delay),
        });
        self.pause(stage, delay).await
    }

    /// What a VM's lock is waited for, if the failure is one and a task that runs explains it.
    async fn passing_lock(&self, failure: &Failure) -> Option<String> {
        let Some(Kind::Locked { lock }) = &failure.kind else {
            return None;
        };
        let phase = self.phase()?;
        locked::passing(self.api(), phase.node()?, phase.vmid(), lock.as_deref()).await
    }
}
