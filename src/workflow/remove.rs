//! Remove: one page.
//!
//! ```text
//!   lock -> discover -> standing --> Nothing -----------------------------------------------> there is nothing to remove
//!                           |------> Here -> protection -> obstacles -> stop -> destroy -+
//!                           +------> Gone -----------------------------------------------+-> cleanup -> (no record)
//! ```
//!
//! Up to `obstacles` nothing is touched; behind it the record says Removing, and only removal goes on with the VM. DNS,
//! snippets, known_hosts and the record go when the VM is seen to be gone. Evidence goes from stage to stage by hand, and
//! only the stage before can make it.

use std::time::Duration;

use crate::engine::host::{Halt, HostRun, Mode};
use crate::stage::discover::Discover;
use crate::stage::protect::Protection;
use crate::stage::remove::Gone;
use crate::stage::remove::cleanup::{Clean, Cleanup};
use crate::stage::remove::destroy::Destroy;
use crate::stage::remove::obstacles::Obstacles;
use crate::stage::remove::standing::{Here, Stand, Standing};
use crate::stage::remove::stop::Stop;
use crate::stage::{Vm, lock};

/// How a removal ended well.
#[derive(Clone, Debug)]
pub enum Removal {
    /// There was neither VM nor record.
    Nothing,
    /// The VM is gone, with everything that belonged to it; none if only its clone had been intended.
    Removed(Option<Vm>),
}

/// Removes one VM, from wherever it is. The lock is held until the end and freed by the caller.
pub async fn remove(run: &HostRun, wait_lock: Duration, with_snapshots: bool) -> Result<Removal, Halt> {
    match run.shared.mode {
        Mode::Apply => lock::acquire(run, "remove", wait_lock).await?,
        Mode::Plan => lock::peek(run)?,
    }
    let found = run.stage(Discover).await?;
    let gone = match run.stage(Stand { found }).await? {
        Standing::Nothing => return Ok(Removal::Nothing),
        Standing::Gone(gone) => gone,
        Standing::Here(here) => destroy(run, here, with_snapshots).await?,
    };
    let Clean { vm, .. } = run.stage(Cleanup::new(gone)).await?;
    Ok(Removal::Removed(vm))
}

/// Takes away a VM that is there.
async fn destroy(run: &HostRun, here: Here, with_snapshots: bool) -> Result<Gone, Halt> {
    let unprotected = run.stage(Protection { here }).await?;
    let clear = run
        .stage(Obstacles {
            unprotected,
            with_snapshots,
        })
        .await?;
    let stopped = run.stage(Stop::new(clear)).await?;
    run.stage(Destroy { stopped }).await
}
