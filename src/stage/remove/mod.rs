//! The stages of a removal, in the order of the workflow; lock and discover are those of provision.
//!
//! ```text
//!   standing     whose the VM is, and whether it is there      (protection: stage::protect)
//!   obstacles    everything that Proxmox would refuse for, all at once, while the guest still runs    -> Removing, begun
//!   stop         an orderly shutdown with a bound, then the plug                                      -> Removing, stopped
//!   destroy      the VM is seen to be gone                                                            -> Removing, gone
//!   cleanup      DNS, snippets, known_hosts, and last the record                                      -> (none)
//! ```
//!
//! Nothing outside the VM is touched before the VM is seen to be gone. Every stage looks first, so a rerun after a crash
//! goes on wherever the last one stopped.

pub mod cleanup;
pub mod destroy;
pub mod obstacles;
pub mod standing;
pub mod stop;

use jiff::Timestamp;

use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::whereabouts::Whereabouts;
use crate::proxmox::error::Kind;
use crate::proxmox::vm::View;
use crate::stage::Vm;
use crate::state::record::{Phase, RemoveStep};

/// The VM is gone; only traces of it are left.
#[derive(Clone, Debug)]
pub struct Gone {
    /// The VM that was there, unless only its clone was intended.
    pub vm: Option<Vm>,
    pub(in crate::stage::remove) phase: Option<Phase>,
    pub(in crate::stage::remove) detail: String,
    pub(in crate::stage::remove) _made: (),
}

/// Whether a call failed because the VM is surely gone by now: an earlier run's task may have been at it.
pub(in crate::stage::remove) async fn went(run: &HostRun, vm: &Vm, failure: &Failure) -> Result<bool, Failure> {
    if failure.kind != Some(Kind::Missing) {
        return Ok(false);
    }
    let listing = run.fresh_listing().await?;
    let seen = run.cluster.whereabouts(&listing, vm.vmid, View::Current).await?;
    Ok(matches!(seen, Whereabouts::Gone | Whereabouts::Container(_)))
}

/// The phase that tells that this step of the removal has been seen, after the phase that stands. `None` where the record
/// says so, or more, already.
pub(in crate::stage::remove) fn removing(before: Option<&Phase>, vm: &Vm, step: RemoveStep) -> Option<Phase> {
    let (host_keys, addresses, upid, since) = match before? {
        Phase::Removing { step: done, .. } if *done >= step => return None,
        Phase::Removing {
            host_keys,
            addresses,
            upid,
            since,
            ..
        } => (host_keys.clone(), addresses.clone(), upid.clone(), *since),
        Phase::Finalizing {
            host_keys, addresses, ..
        }
        | Phase::Complete {
            host_keys, addresses, ..
        } => (host_keys.clone(), addresses.clone(), None, Timestamp::now()),
        Phase::Cloning { .. } | Phase::Created { .. } | Phase::Initialized { .. } => {
            (Vec::new(), Vec::new(), None, Timestamp::now())
        }
    };
    Some(Phase::Removing {
        vmid: vm.vmid,
        uuid: vm.uuid.clone(),
        node: vm.node.clone(),
        host_keys,
        addresses,
        step,
        upid,
        since,
    })
}
