//! Lock: one run at a time works on a VM.
//!
//! The lock is a directory in the state directory (see [`crate::state::lock`]). A contender fails at once, touches
//! nothing, and tells the holder and its age; with `--wait-lock` it waits that long.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::Diagnostic;
use crate::engine::event::{EventKind, StageName};
use crate::engine::failure::Failure;
use crate::engine::host::{Halt, HostRun, millis};

/// Takes the lock and reads the record under it.
pub async fn acquire(run: &HostRun, command: &str, wait: Duration) -> Result<(), Halt> {
    run.check_cancel(StageName::Lock)?;
    run.emit(EventKind::StageStarted { stage: StageName::Lock });
    let started = Instant::now();
    let state = &run.shared.state;
    let owner = state.owner(run.run_id(), format!("{command} {}", run.machine.host));
    let guard = tokio::select! {
        locked = state.lock_waiting(&run.key, owner, wait) => locked.map_err(|error| {
            failed(Failure::new(error.diagnostic(&run.machine.host, &run.machine.name)))
        })?,
        () = run.shared.cancel.cancelled() => return Err(Halt::Interrupted { stage: StageName::Lock }),
    };
    run.is_locked(guard);
    read_record(run)?;
    run.emit(EventKind::StageDone {
        stage: StageName::Lock,
        changed: false,
        detail: format!("held for {}", run.machine.name),
        ms: millis(started.elapsed()),
    });
    Ok(())
}

/// Reads the record without the lock, for a plan. A holder is told: what it does meanwhile is not in the plan.
pub fn peek(run: &HostRun) -> Result<(), Halt> {
    let holder = run.shared.state.lock_holder(&run.key);
    if let Some(seen) = holder.map_err(|error| failed(error.into()))? {
        let who = seen
            .owner
            .as_ref()
            .map_or_else(|| "somebody unknown".to_owned(), ToString::to_string);
        run.warn(
            &Diagnostic::warning("state/locked", format!("{} is locked by {who}", run.machine.name))
                .rule(seen.verdict.reason())
                .help("plan again once it is free: what its holder does is not in this plan"),
        );
    }
    read_record(run)
}

fn read_record(run: &HostRun) -> Result<(), Halt> {
    let record = run
        .shared
        .state
        .read_record(&run.key)
        .map_err(|error| failed(error.into()))?;
    *run.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
    Ok(())
}

fn failed(failure: Failure) -> Halt {
    Halt::Failed {
        stage: StageName::Lock,
        diagnostic: failure.diagnostic,
    }
}

/// Frees the lock.
pub fn release(run: &HostRun) -> Result<(), Failure> {
    let guard = run.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
    match guard {
        Some(guard) => Ok(guard.release()?),
        None => Ok(()),
    }
}
