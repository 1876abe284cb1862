//! Following a task at the API to its own end.
//!
//! ```text
//!   running ------------> look again, from 50 ms to 2 s; every 15 s its log is read
//!      | nothing new in the log for too long -----> stuck: the host stops, the task goes on
//!   OK, WARNINGS -------> done; warnings are told with the end of the log
//!   failed -------------> the end of the log is told; the text decides whether it may be tried again
//!   without a result, or forgotten by its node ---> doubt: the stage looks at what it did
//!   the API is away ----> asked again, within the same patience
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::{EventKind, StageName};
use crate::engine::failure::{Failure, Retry, retry_of};
use crate::engine::host::HostRun;
use crate::engine::pace::Pace;
use crate::proxmox::error::Kind;
use crate::proxmox::ids::Upid;
use crate::proxmox::task::TaskStatus;

/// The lines of a failed task's log that are shown.
const LOG_TAIL: usize = 12;

impl HostRun {
    /// Follows a task to its own end. A task that still makes progress is not stuck: only idleness is limited.
    pub async fn follow(&self, stage: StageName, upid: &Upid, what: &str) -> Result<(), Failure> {
        self.emit(EventKind::Task {
            stage,
            upid: upid.to_string(),
            what: what.to_owned(),
        });
        let started = Instant::now();
        let (mut lines, mut progress, mut looked) = (0, started, started);
        loop {
            // No task has ended when its call is answered, so the first look is not at once.
            tokio::select! {
                () = tokio::time::sleep(Pace::Task.pause(started.elapsed())) => {}
                () = self.shared.cancel.cancelled() => {
                    let diagnostic = Diagnostic::error("engine/interrupted", format!("interrupted while {what} went on"))
                        .exit(Exit::Interrupted);
                    return Err(Failure::new(diagnostic));
                }
            }
            match self.api().task_status(upid).await {
                Ok(TaskStatus::Running) => {}
                Ok(TaskStatus::Ok) => return Ok(()),
                Ok(TaskStatus::Warnings(count)) => {
                    self.warn_of_task(upid, what, count).await;
                    return Ok(());
                }
                Ok(TaskStatus::Failed(text)) => return Err(self.task_failed(upid, what, &text).await),
                Ok(TaskStatus::Unexpected) => {
                    return Err(self
                        .task_failed(upid, what, "it ended without a result (killed, or its node restarted)")
                        .await
                        .retry(Retry::Doubt));
                }
                Err(error) if matches!(retry_of(&error.kind()), Retry::NotExecuted | Retry::Doubt) => {}
                // The node has lost the task's log; how it ended must be seen in what it did.
                Err(error) if error.kind() == Kind::Missing => return Err(Failure::from(error).retry(Retry::Doubt)),
                Err(error) => return Err(error.into()),
            }
            if looked.elapsed() >= Duration::from_secs(15) {
                looked = Instant::now();
                if let Ok(log) = self.api().task_log(upid, lines, 500).await
                    && !log.is_empty()
                {
                    lines += log.len();
                    progress = Instant::now();
                    if let Some(last) = log.last() {
                        self.emit(EventKind::Waiting {
                            stage,
                            what: self.clean(&format!("{what}: {last}")),
                        });
                    }
                }
            }
            if progress.elapsed() >= self.machine.waits.task_idle.max(Duration::from_secs(16)) {
                let diagnostic = Diagnostic::error(
                    "task/idle",
                    format!(
                        "{what}: the task has made no progress for {} s",
                        self.machine.waits.task_idle.as_secs()
                    ),
                )
                .note(None, format!("task {upid}"))
                .help("look at the task in Proxmox; when it has ended, run the same command again");
                return Err(Failure::new(diagnostic));
            }
        }
    }

    async fn warn_of_task(&self, upid: &Upid, what: &str, count: u32) {
        let mut diagnostic = Diagnostic::warning(
            "task/warnings",
            format!("{what} ended with {count} warning{}", if count == 1 { "" } else { "s" }),
        );
        for line in self.log_tail(upid).await {
            diagnostic = diagnostic.note(None, line);
        }
        self.warn(&diagnostic);
    }

    /// The tail of a task's log, masked; empty if it cannot be read.
    async fn log_tail(&self, upid: &Upid) -> Vec<String> {
        let log = self.api().task_log(upid, 0, 0).await.unwrap_or_default();
        let skip = log.len().saturating_sub(LOG_TAIL);
        log[skip..].iter().map(|line| self.clean(line)).collect()
    }

    async fn task_failed(&self, upid: &Upid, what: &str, text: &str) -> Failure {
        let kind = Kind::of_text(text);
        let mut diagnostic = Diagnostic::error("task/failed", format!("{what} failed: {}", self.clean(text)))
            .note(None, format!("task {upid}"))
            .help("the end of the task's log says why; once that is mended, the same command goes on from here");
        for line in self.log_tail(upid).await {
            diagnostic = diagnostic.note(None, line);
        }
        let mut failure = Failure::new(diagnostic).retry(retry_of(&kind));
        failure.kind = Some(kind);
        failure
    }
}

#[cfg(test)]
mod tests;
