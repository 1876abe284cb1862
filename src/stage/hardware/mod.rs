//! Hardware: the declared hardware as one explicit set of keys, computed against the current configuration.
//!
//! Only differences are sent, with the digest. MACs are kept, devices that nobody declared are kept, an extra disk is
//! allocated once, the boot disk is grown to an absolute size. Then the result is read back and asserted: boot disk
//! present and first in the boot order, cloud-init drive present, every declared NIC present, nothing pending.
//!
//! A VM that runs already is not touched: provisioning is creation only.

mod diff;

use crate::diagnose::{Diagnostic, count};
use crate::engine::event::StageName;
use crate::engine::failure::{Failure, Retry};
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::proxmox::config::VmConfig;
use crate::proxmox::vm::View;
use crate::stage::migrate::Placed;
use crate::stage::ownership::Owned;
use crate::stage::snippets::Delivered;
use crate::stage::{Vm, still_ours};

pub use diff::{Difference, difference, shortfalls};

/// The VM has its hardware.
#[derive(Clone, Debug)]
pub struct Shaped {
    /// The VM.
    pub vm: Vm,
    detail: String,
    _made: (),
}

impl Shaped {
    /// A VM whose creation is over has had its hardware since then.
    pub fn before(owned: Owned) -> Self {
        Self {
            vm: owned.vm,
            detail: "set before".to_owned(),
            _made: (),
        }
    }
}

/// The stage.
pub struct Hardware {
    /// The VM is on its node.
    pub placed: Placed,
    /// The cloud-init documents are there.
    pub delivered: Delivered,
}

impl Stage for Hardware {
    const NAME: StageName = StageName::Hardware;
    type Evidence = Shaped;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Shaped>, Failure> {
        let vm = &self.placed.vm;
        let config = run.api().vm_config(&vm.node, vm.vmid, View::Pending).await?;
        still_ours(vm, &run.machine.name, &config)?;
        let difference = difference(&run.machine, &config, &self.delivered.cicustom);
        let done = |detail: String| {
            Ok(Seen::Done(Shaped {
                vm: vm.clone(),
                detail,
                _made: (),
            }))
        };
        if !difference.is_empty() {
            if run.api().vm_status(&vm.node, vm.vmid).await?.running {
                for change in &difference.changes {
                    let message = format!("VM {} runs already; left as it is: {change}", vm.vmid);
                    run.warn(
                        &Diagnostic::warning("hardware/running", message)
                            .rule("provisioning sets hardware before the first start only"),
                    );
                }
                return done("left as it is, the VM runs".to_owned());
            }
            return Ok(Seen::Absent(difference.changes));
        }
        let missing = shortfalls(&run.machine, &config);
        if !missing.is_empty() {
            let mut diagnostic = Diagnostic::error(
                "hardware/not-as-declared",
                format!("VM {} would not boot as declared", vm.vmid),
            )
            .rule("what was set is read back before the start");
            for what in missing {
                diagnostic = diagnostic.note(None, what);
            }
            return Err(Failure::new(diagnostic));
        }
        let pending: Vec<String> = run
            .api()
            .vm_pending(&vm.node, vm.vmid)
            .await?
            .into_iter()
            .filter(|entry| entry.delete || entry.pending.is_some())
            .map(|entry| entry.key)
            .collect();
        if !pending.is_empty() && !run.api().vm_status(&vm.node, vm.vmid).await?.running {
            let message = format!(
                "Proxmox keeps changes of VM {} pending although it is stopped: {}",
                vm.vmid,
                pending.join(", ")
            );
            return Err(Failure::new(
                Diagnostic::error("hardware/pending", message)
                    .help("an earlier change failed in the middle; look at the VM's Hardware tab, revert or mend it, then run the same command again"),
            ));
        }
        done(tell(&config))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let vm = &self.placed.vm;
        let config = run.api().vm_config(&vm.node, vm.vmid, View::Pending).await?;
        still_ours(vm, &run.machine.name, &config)?;
        let difference = difference(&run.machine, &config, &self.delivered.cicustom);
        let digest = config.digest.as_deref();
        // One kind of change a look: after each the engine reads the configuration again, with its new digest.
        if !difference.set.is_empty() || !difference.delete.is_empty() {
            return run
                .api()
                .set_config(&vm.node, vm.vmid, digest, &difference.set, &difference.delete)
                .await
                .map_err(changed);
        }
        if let Some((slot, size)) = &difference.resize {
            if let Some(upid) = run
                .api()
                .resize(&vm.node, vm.vmid, slot, size.bytes(), digest)
                .await
                .map_err(changed)?
            {
                run.follow(Self::NAME, &upid, &format!("resize of {slot} to {size}"))
                    .await?;
            }
            return Ok(());
        }
        if let Some((slot, value)) = difference.allocate.first() {
            let set = [(slot.clone(), value.clone())];
            if let Some(upid) = run
                .api()
                .set_config_task(&vm.node, vm.vmid, digest, &set, &[])
                .await
                .map_err(changed)?
            {
                run.follow(Self::NAME, &upid, &format!("allocation of {slot}")).await?;
            }
        }
        Ok(())
    }

    fn tell(&self, shaped: &Shaped) -> String {
        shaped.detail.clone()
    }
}

/// Somebody changed the configuration between the look and the change: look again.
fn changed(error: crate::proxmox::error::ApiError) -> Failure {
    let text = error.to_string();
    let failure = Failure::from(error);
    if text.contains("checksum mi") || text.contains("detected modified configuration") {
        failure.retry(Retry::NotExecuted)
    } else {
        failure
    }
}

fn tell(config: &VmConfig) -> String {
    let mut parts = Vec::new();
    let cores = config.cores().unwrap_or(1) * config.sockets().unwrap_or(1);
    parts.push(count(cores as usize, "core"));
    if let Some(memory) = config.memory_mib() {
        parts.push(format!("{memory} MiB"));
    }
    if let Some(disk) = config.boot_disk() {
        let size = disk.size().map_or_else(String::new, |size| format!(" {size}"));
        parts.push(format!("{}{size}", disk.slot));
    }
    for nic in config.nics() {
        parts.push(format!(
            "net{} on {}",
            nic.index,
            nic.bridge.as_deref().unwrap_or("no bridge")
        ));
    }
    parts.join(", ")
}
