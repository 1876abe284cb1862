//! The host of the record: a VM is one host's of the inventory.
//!
//! The key of a record is the VM's name, so two hosts that have the same `vms_name` by mistake meet in one record. Without
//! this check the second would be "ready" as the first one's VM, and its removal would destroy it.

use super::refuse;
use crate::diagnose::Diagnostic;
use crate::machine::Machine;
use crate::state::record::Record;

/// Refuses the record of another host.
pub(crate) fn agrees(machine: &Machine, record: Option<&Record>) -> Result<(), Box<Diagnostic>> {
    let Some(record) = record.filter(|record| !record.is_of(&machine.host)) else {
        return Ok(());
    };
    let (name, vmid) = (&machine.name, record.phase.vmid());
    Err(refuse(
        "ownership/other-host",
        format!(
            "VM {vmid} ({name}) is on record as host {}, not as {}",
            record.host, machine.host
        ),
    )
    .host(&machine.host)
    .key("vms_name")
    .at(machine.origins.place("vms_name"))
    .rule("a VM is the one host's that it was made for or adopted as; nothing was touched")
    .help(format!(
        "if {} and {} are two machines, give {} a vms_name of its own",
        record.host, machine.host, machine.host
    ))
    .help(format!(
        "if the host was renamed in the inventory: `vmwright adopt {} --vmid {vmid} --confirm {name}` puts the record under its new name",
        machine.host
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::machine;
    use crate::state::record::Phase;

    #[test]
    fn a_record_is_one_hosts() {
        let machine = machine();
        let table = [
            ("web-0", true),
            ("WEB-0", true),
            ("web-1", false),
            ("web-0.lab.test", false),
        ];
        assert!(agrees(&machine, None).is_ok());
        for (host, fits) in table {
            let phase = Phase::Created {
                vmid: "100".parse().unwrap(),
                uuid: "u".to_owned(),
                node: machine.node.clone(),
            };
            let record = Record::new("pve", 8006, host, "web-0", phase);
            let told = agrees(&machine, Some(&record));
            assert_eq!(told.is_ok(), fits, "{host}");
            if let Err(diagnostic) = told {
                assert_eq!(diagnostic.exit, crate::diagnose::Exit::Refused);
                assert!(diagnostic.message.contains(host) && diagnostic.message.contains("web-0"));
                assert!(diagnostic.help[1].contains("vmwright adopt web-0 --vmid 100 --confirm web-0"));
            }
        }
    }
}
