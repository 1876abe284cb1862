//! Lock: one run at a time works on a VM.
//!
//! The lock is a directory in the state directory (see [`crate::state::lock`]). A contender fails at once, touches
//! nothing, and tells the holder and its age; with `--wait-lock` it waits that long.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::{EventKind, StageName};
use crate::engine::failure::Failure;
use crate::engine::host::{Halt, HostRun, millis};
use crate::engine::pace::Pace;
use crate::state::lock::{LockError, Owner};

/// Takes the lock and reads the record under it.
pub async fn acquire(run: &HostRun, command: &str, wait: Duration) -> Result<(), Halt> {
    let failed = |failure: Failure| Halt::Failed { stage: StageName::Lock, diagnostic: failure.diagnostic };
    run.check_cancel(StageName::Lock)?;
    run.emit(EventKind::StageStarted { stage: StageName::Lock });
    let started = Instant::now();
    let guard = loop {
        let owner = Owner::current(run.run_id(), command);
        match run.shared.state.lock(&run.key, owner) {
            Ok(guard) => break guard,
            Err(LockError::State(error)) => return Err(failed(error.into())),
            Err(held @ LockError::Held { .. }) => {
                if started.elapsed() >= wait {
                    return Err(failed(Failure::new(explain(run, &held))));
                }
                run.emit(EventKind::Waiting { stage: StageName::Lock, what: held.to_string() });
                tokio::select! {
                    () = tokio::time::sleep(Pace::Task.pause(started.elapsed())) => {}
                    () = run.shared.cancel.cancelled() => return Err(Halt::Interrupted { stage: StageName::Lock }),
                }
            }
        }
    };
    *run.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    let record = run.shared.state.read_record(&run.key).map_err(|error| failed(error.into()))?;
    *run.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
    run.emit(EventKind::StageDone {
        stage: StageName::Lock,
        changed: false,
        detail: format!("held for {}", run.machine.name),
        ms: millis(started.elapsed()),
    });
    Ok(())
}

/// Reads the record without the lock, for a plan.
pub fn peek(run: &HostRun) -> Result<(), Halt> {
    let failed = |failure: Failure| Halt::Failed { stage: StageName::Lock, diagnostic: failure.diagnostic };
    let record = run.shared.state.read_record(&run.key).map_err(|error| failed(error.into()))?;
    *run.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
    Ok(())
}

/// Frees the lock.
pub fn release(run: &HostRun) -> Result<(), Failure> {
    let guard = run.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
    match guard {
        Some(guard) => Ok(guard.release()?),
        None => Ok(()),
    }
}

fn explain(run: &HostRun, held: &LockError) -> Diagnostic {
    Diagnostic::error("lock/held", format!("{} is locked: {held}", run.machine.name))
        .rule("one run at a time works on a VM; nothing was touched")
        .help("wait for the other run to end, or give --wait-lock 10m to wait in line")
        .exit(Exit::Locked)
}
