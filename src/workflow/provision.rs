//! Provision: one page.
//!
//! ```text
//!   lock -> discover -> ownership --> Done ------------------------------------------------------> nothing to do
//!                           |-------> Finalize --------------------------------------+
//!                           |-------> Resume --+                                     |
//!                           +-------> New -----+-> readiness -> dns -> snippets ->   v
//!                                 clone -> migrate -> hardware -> start -> cloud-init -> trust -> finalize -> Complete
//! ```
//!
//! Evidence goes from stage to stage by hand, and only the stage before can make it: a stage out of order does not compile.

use std::time::Duration;

use crate::engine::event::StageName;
use crate::engine::host::{Halt, HostRun, Mode};
use crate::stage::clone::{Clone, Cloned};
use crate::stage::cloud_init::{CloudInit, Initialized};
use crate::stage::discover::Discover;
use crate::stage::dns::Dns;
use crate::stage::finalize::{Complete, Finalize};
use crate::stage::hardware::Hardware;
use crate::stage::migrate::Migrate;
use crate::stage::ownership::{Decision, Owned, Ownership};
use crate::stage::readiness::Readiness;
use crate::stage::snippets::Snippets;
use crate::stage::start::Start;
use crate::stage::trust::Trust;
use crate::stage::{Vm, lock};

/// Provisions one VM, from wherever it is to complete. The lock is held until the end and freed by the caller.
pub async fn provision(run: &HostRun, wait_lock: Duration) -> Result<Vm, Halt> {
    match run.shared.mode {
        Mode::Apply => lock::acquire(run, "provision", wait_lock).await?,
        Mode::Plan => lock::peek(run)?,
    }
    let found = run.stage(Discover).await?;
    let initialized = match run.stage(Ownership { found }).await? {
        Decision::Done(owned) => return Ok(owned.vm),
        Decision::Finalize(owned) => Initialized::before(owned),
        Decision::Resume(owned) => create(run, Some(owned)).await?,
        Decision::New(_) => create(run, None).await?,
    };
    let trusted = run.stage(Trust { initialized }).await?;
    let Complete { vm, .. } = run.stage(Finalize::new(trusted)).await?;
    Ok(vm)
}

/// Creates the VM, or goes on with the creation of one that is ours.
async fn create(run: &HostRun, owned: Option<Owned>) -> Result<Initialized, Halt> {
    let ready = run.stage(Readiness { owned: owned.as_ref() }).await?;
    run.stage(Dns { ready: &ready }).await?;
    let delivered = run.stage(Snippets { ready: &ready }).await?;
    let cloned = match (owned, ready.template.as_ref()) {
        (Some(owned), _) => Cloned::before(owned),
        (None, Some(template)) => run.stage(Clone { ready: &ready, template }).await?,
        (None, None) => return Err(Halt::Planned { stage: StageName::Clone }),
    };
    let placed = run.stage(Migrate { cloned }).await?;
    let shaped = run.stage(Hardware { placed, delivered }).await?;
    let running = run.stage(Start::new(shaped)).await?;
    run.stage(CloudInit { running }).await
}
