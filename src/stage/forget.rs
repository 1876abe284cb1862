//! Forget: the record of a VM that is gone is dropped. Proxmox is only read.
//!
//! ```text
//!   record              cluster                                      verdict
//!   ------------------  -------------------------------------------  -------------------------------
//!   any                 view of the cluster incomplete               refuse: not seen is not gone
//!   Cloning             a guest of that number with our mark         refuse: the VM exists
//!   Cloning             its clone task runs, or may come             refuse: the VM may come yet
//!   Created ..          number and SMBIOS UUID are there             refuse: the VM exists
//!   Created ..          number and name are there, another UUID      refuse: it may be the same VM
//!   any                 no such number, or somebody else's           dropped
//! ```

use crate::diagnose::{Diagnostic, Exit};
use crate::proxmox::config::VmConfig;
use crate::stage::clone::{Mark, read_mark};
use crate::state::record::{Phase, Record};

/// The table. `config` is that of the VM with the number on record, if there is one; `may_come` tells that the clone that was
/// intended runs, or that its request may still arrive.
pub fn judge(
    record: &Record,
    gaps: &[String],
    config: Option<&VmConfig>,
    may_come: bool,
) -> Result<(), Box<Diagnostic>> {
    let (name, vmid) = (&record.name, record.phase.vmid());
    let refuse = |code, message: String| Diagnostic::error(code, message).exit(Exit::Refused);
    if !gaps.is_empty() {
        let mut diagnostic = refuse(
            "ownership/unknown",
            format!("whether {name} (VM {vmid}) is gone cannot be told: the listing is not complete"),
        )
        .rule("not seen is not gone; the record was kept");
        for gap in gaps {
            diagnostic = diagnostic.note(None, gap.clone());
        }
        return Err(diagnostic
            .help("bring the nodes back, or grant the identity VM.Audit on /vms with propagation")
            .into());
    }
    let exists = || {
        refuse("forget/exists", format!("{name} (VM {vmid}) exists"))
            .rule("a record is what proves that the VM is ours: it is dropped only when the VM is gone")
            .help("to take the VM away with everything that belongs to it: `vmwright remove`")
    };
    match (&record.phase, config) {
        (Phase::Cloning { .. }, _) if may_come => Err(refuse(
            "forget/cloning",
            format!("the clone of {name} (VM {vmid}) is being made, or its request may still be on its way"),
        )
        .rule("a record is dropped only when nothing can come of it any more")
        .help("wait for the task to end, or half a minute, then run the same command again")
        .into()),
        (Phase::Cloning { operation, .. }, Some(config)) => match read_mark(config, *operation) {
            Mark::Ours | Mark::Making => Err(exists().into()),
            Mark::Foreign => Ok(()),
        },
        (_, None) => Ok(()),
        (phase, Some(config)) => {
            let same_uuid = config.smbios_uuid().as_deref() == phase.uuid();
            if same_uuid {
                return Err(exists().into());
            }
            if config.name() == Some(name) || config.lock() == Some("destroyed") {
                return Err(exists()
                    .note(
                        None,
                        format!(
                            "its SMBIOS UUID is another one than on record ({})",
                            phase.uuid().unwrap_or("none")
                        ),
                    )
                    .into());
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::engine::testing::{config, machine};
    use crate::stage::clone::mark;

    fn verdict(phase: Phase, data: Option<serde_json::Value>, gaps: &[&str], runs: bool) -> Result<(), &'static str> {
        let record = Record::new("pve", 8006, "web-0", "web-0", phase);
        let gaps: Vec<String> = gaps.iter().map(|gap| (*gap).to_owned()).collect();
        judge(&record, &gaps, data.map(config).as_ref(), runs).map_err(|diagnostic| diagnostic.code)
    }

    fn created() -> Phase {
        Phase::Created {
            vmid: 100.try_into().unwrap(),
            uuid: "aa".to_owned(),
            node: machine().node,
        }
    }

    #[test]
    fn only_a_vm_that_is_surely_gone_is_forgotten() {
        assert_eq!(verdict(created(), None, &[], false), Ok(()));
        assert_eq!(
            verdict(created(), None, &["a node is offline"], false),
            Err("ownership/unknown")
        );
        let same = json!({"name": "renamed", "smbios1": "uuid=AA"});
        assert_eq!(verdict(created(), Some(same), &[], false), Err("forget/exists"));
        let changed = json!({"name": "web-0", "smbios1": "uuid=bb"});
        assert_eq!(verdict(created(), Some(changed), &[], false), Err("forget/exists"));
        let foreign = json!({"name": "db-0", "smbios1": "uuid=bb"});
        assert_eq!(verdict(created(), Some(foreign), &[], false), Ok(()));
        assert_eq!(
            verdict(created(), Some(json!({"lock": "destroyed"})), &[], false),
            Err("forget/exists")
        );
    }

    #[test]
    fn an_intent_to_clone_is_forgotten_when_nothing_comes_of_it() {
        let operation = Uuid::from_u128(7);
        let cloning = || Phase::Cloning {
            vmid: 100.try_into().unwrap(),
            operation,
            template: 9000.try_into().unwrap(),
            template_node: machine().node,
            upid: None,
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        assert_eq!(verdict(cloning(), None, &[], false), Ok(()));
        assert_eq!(verdict(cloning(), None, &[], true), Err("forget/cloning"));
        let ours = json!({"name": "web-0", "description": mark(operation)});
        assert_eq!(verdict(cloning(), Some(ours), &[], false), Err("forget/exists"));
        let foreign = json!({"name": "db-0", "description": "another"});
        assert_eq!(verdict(cloning(), Some(foreign), &[], false), Ok(()));
    }
}
