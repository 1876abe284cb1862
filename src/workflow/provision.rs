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

use crate::engine::event::{Change, EventKind, StageName};
use crate::engine::host::{Halt, HostRun, Mode};
use crate::stage::clone::{Clone, Cloned};
use crate::stage::cloud_init::{CloudInit, Initialized};
use crate::stage::discover::Discover;
use crate::stage::dns::Dns;
use crate::stage::finalize::{Complete, Finalize};
use crate::stage::hardware::{Hardware, Shaped, difference};
use crate::stage::migrate::Migrate;
use crate::stage::ownership::{Decision, Owned, Ownership};
use crate::stage::readiness::Readiness;
use crate::stage::readiness::Template;
use crate::stage::snippets::{Delivered, Snippets};
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
        Decision::Finalize(owned) => {
            // The restart may have been cut off: the VM runs and answers before anything else is looked at.
            let running = run.stage(Start::new(Shaped::before(owned))).await?;
            Initialized::before(running)
        }
        Decision::Resume(owned) => create(run, Some(owned)).await?,
        Decision::New(_) => create(run, None).await?,
    };
    let trusted = run.stage(Trust::new(initialized)).await?;
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
        (None, Some(template)) => match run
            .stage(Clone {
                ready: &ready,
                template,
            })
            .await
        {
            Err(planned @ Halt::Planned { .. }) => {
                outline(run, template, &delivered);
                return Err(planned);
            }
            cloned => cloned?,
        },
        (None, None) => {
            return Err(Halt::Planned {
                stage: StageName::Clone,
            });
        }
    };
    let placed = run.stage(Migrate { cloned }).await?;
    let shaped = run.stage(Hardware { placed, delivered }).await?;
    let running = run.stage(Start::new(shaped)).await?;
    run.stage(CloudInit::new(running)).await
}

/// What a plan tells of the stages behind the clone, which cannot be observed before there is a VM: the hardware is
/// computed against the template, which the clone will be like.
fn outline(run: &HostRun, template: &Template, delivered: &Delivered) {
    let machine = &run.machine;
    let tell = |stage, changes| {
        run.emit(EventKind::Changing {
            stage,
            changes,
            planned: true,
        })
    };
    if template.node != machine.node {
        let from = Some(template.node.to_string());
        tell(
            StageName::Migrate,
            vec![Change::set("node", from, Some(machine.node.to_string()))],
        );
    }
    let hardware = difference(machine, &template.config, &delivered.cicustom).changes;
    if !hardware.is_empty() {
        tell(StageName::Hardware, hardware);
    }
    let stopped = Some("stopped".to_owned());
    tell(
        StageName::Start,
        vec![Change::set("power", stopped, Some("running".to_owned()))],
    );
    tell(
        StageName::CloudInit,
        vec![Change::new("wait", "until cloud-init ends without a fault")],
    );
    tell(
        StageName::Trust,
        vec![Change::new("host keys", run.shared.known_hosts.display().to_string())],
    );
    let drive = template
        .config
        .cloudinit_drives()
        .first()
        .map(|drive| drive.slot.to_string());
    tell(
        StageName::Finalize,
        vec![
            Change::set("cloud-init drive", drive, None),
            Change::new("power", "cycled through the API"),
        ],
    );
}
