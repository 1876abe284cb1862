//! Adopt: an existing VM is taken in. Proxmox is only read; the record is the only thing that is written.
//!
//! ```text
//!   the VM of that number                          taken in as
//!   ---------------------------------------------  --------------------------------------------------------------
//!   has no cloud-init drive                        complete: provision leaves it as it is
//!   has one, and runs                              initialized: trust and finalize are left
//!   has one, and is stopped                        created: hardware, start, cloud-init and the rest are left
//!
//!   its own record is another host's               the same phase, for this host: the host was renamed in the inventory
//!
//!   any other record exists, another name, a template or a container, a second VM of the name, being made, no SMBIOS UUID,
//!   or the listing is incomplete                   refused
//! ```

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::cluster::{Listed, Listing};
use crate::engine::event::Change;
use crate::machine::Machine;
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::config::VmConfig;
use crate::proxmox::ids::VmId;
use crate::stage::Vm;
use crate::stage::hardware::difference;
use crate::state::record::{Phase, Record, VmKey};

/// How the verdict of an adopted VM's cloud-init begins on record: nobody has judged it.
const ADOPTED: &str = "adopted";

/// A VM that may be taken in.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The VM.
    pub vm: Vm,
    /// The phase that it is taken in with.
    pub phase: Phase,
    /// Its cloud-init drives' slots.
    pub drives: Vec<String>,
    /// How it differs from what the inventory declares.
    pub differences: Vec<Change>,
}

/// The guest of this number, if it is a VM of this name and the only one.
pub fn candidate<'l>(name: &str, vmid: VmId, listing: &'l Listing) -> Result<&'l Listed, Box<Diagnostic>> {
    let refuse = |code, message: String| Diagnostic::error(code, message).exit(Exit::Refused);
    let mut gaps = refuse(
        "ownership/unknown",
        format!("VM {vmid} cannot be adopted while the listing of the cluster is not complete"),
    )
    .rule("another VM of the name may exist and not be seen");
    for gap in &listing.gaps {
        gaps = gaps.note(None, gap.clone());
    }
    let gaps = gaps.help("bring the nodes back, or grant the identity VM.Audit on /vms with propagation");
    let Some(listed) = listing.by_id(vmid) else {
        if !listing.gaps.is_empty() {
            return Err(gaps.into());
        }
        let mut diagnostic = refuse("adopt/no-such-vm", format!("there is no VM {vmid}"));
        for other in listing.named(name) {
            diagnostic = diagnostic.help(format!("{name} is VM {} on {}", other.vmid, other.node));
        }
        return Err(diagnostic.into());
    };
    if listed.kind == GuestKind::Lxc || listed.template {
        let what = if listed.template { "a template" } else { "a container" };
        return Err(
            refuse("adopt/wrong-kind", format!("{vmid} on {} is {what}", listed.node))
                .rule("only VMs are adopted")
                .into(),
        );
    }
    if listed.name.as_deref() != Some(name) {
        let seen = listed.name.as_deref().unwrap_or("nothing");
        return Err(refuse(
            "adopt/other-name",
            format!("VM {vmid} on {} is called {seen}, not {name}", listed.node),
        )
        .rule("number and name must both be those of the VM that is meant; nothing was written")
        .help(format!(
            "if it is the right VM, set vms_name: {seen} for this host, or rename the VM in Proxmox"
        ))
        .into());
    }
    if !listing.gaps.is_empty() {
        return Err(gaps.into());
    }
    if let Some(other) = listing.named(name).find(|other| other.vmid != vmid) {
        return Err(refuse(
            "ownership/ambiguous",
            format!(
                "{name} is the name of VM {vmid} on {} and of {} on {}",
                listed.node, other.vmid, other.node
            ),
        )
        .help("rename or remove the one that is not meant")
        .into());
    }
    Ok(listed)
}

/// Refuses a VM that is on record already: under this name, or in the record of another.
pub fn unclaimed(name: &str, vmid: VmId, cluster: &str, records: &[Record]) -> Result<(), Box<Diagnostic>> {
    let claims = |record: &&Record| record.cluster == cluster && (record.name == name || record.phase.vmid() == vmid);
    match records.iter().find(claims) {
        None => Ok(()),
        Some(record) => Err(Diagnostic::error(
            "adopt/recorded",
            format!(
                "there is a record already: {} is VM {}, {}",
                record.name,
                record.phase.vmid(),
                record.phase.name()
            ),
        )
        .rule("a record is never replaced by an adoption; nothing was written")
        .help("if that VM is gone: `vmwright forget HOST --confirm NAME` drops its record")
        .exit(Exit::Refused)
        .into()),
    }
}

/// The record of this very VM (name, number and SMBIOS UUID) that is another host's, if there is one: the host was renamed
/// in the inventory, and its record goes on under the new name. A clone that is only intended has no identity yet.
pub fn renamed<'r>(machine: &Machine, vmid: VmId, uuid: Option<&str>, records: &'r [Record]) -> Option<&'r Record> {
    records.iter().find(|record| {
        record.name == machine.name
            && record.key == VmKey::of(&machine.cluster.host, machine.cluster.port, &machine.name)
            && record.phase.vmid() == vmid
            && uuid.is_some()
            && record.phase.uuid() == uuid
            && !record.is_of(&machine.host)
    })
}

/// What the VM would be taken in as.
pub fn adoption(
    machine: &Machine,
    listed: &Listed,
    config: &VmConfig,
    running: bool,
    addresses: &BTreeSet<String>,
) -> Result<Adoption, Box<Diagnostic>> {
    let refuse = |code, message: String| Diagnostic::error(code, message).exit(Exit::Refused);
    let (vmid, node) = (listed.vmid, listed.node.clone());
    if let Some(lock @ ("clone" | "create" | "destroyed")) = config.lock() {
        return Err(refuse("adopt/locked", format!("VM {vmid} is locked ({lock})"))
            .rule("a VM that is being made or destroyed is not adopted")
            .help("wait for that task to end, then run the same command again")
            .into());
    }
    let Some(uuid) = config.smbios_uuid() else {
        return Err(refuse("adopt/no-uuid", format!("VM {vmid} has no SMBIOS UUID"))
            .rule("a VM is recognised by its SMBIOS UUID (smbios1)")
            .help(format!(
                "`qm set {vmid} --smbios1 uuid=$(uuidgen)` adds one; it shows after the next start"
            ))
            .into());
    };
    let drives: Vec<String> = config
        .cloudinit_drives()
        .iter()
        .map(|drive| drive.slot.to_string())
        .collect();
    let phase = match (drives.is_empty(), running) {
        (true, _) => Phase::Complete {
            vmid,
            uuid: uuid.clone(),
            node: node.clone(),
            host_keys: Vec::new(),
            addresses: addresses.iter().cloned().collect(),
            finished: Timestamp::now(),
        },
        (false, true) => Phase::Initialized {
            vmid,
            uuid: uuid.clone(),
            node: node.clone(),
            verdict: format!("{ADOPTED} as it ran; cloud-init was not judged"),
        },
        (false, false) => Phase::Created {
            vmid,
            uuid: uuid.clone(),
            node: node.clone(),
        },
    };
    let mut differences = Vec::new();
    if node != machine.node {
        differences.push(Change::set(
            "node",
            Some(node.to_string()),
            Some(machine.node.to_string()),
        ));
    }
    // Which documents cloud-init read is no matter of the VM's declaration.
    let declared = difference(machine, config, "").changes;
    differences.extend(declared.into_iter().filter(|change| change.what != "cicustom"));
    Ok(Adoption {
        vm: Vm { vmid, uuid, node },
        phase,
        drives,
        differences,
    })
}

/// What provision does next with a VM that was taken in with this phase.
pub fn next(phase: &Phase) -> &'static str {
    match phase {
        Phase::Complete { .. } => "complete: provision leaves it as it is",
        Phase::Initialized { .. } => {
            "initialized: provision learns its host keys, removes its cloud-init drive and restarts it"
        }
        Phase::Created { .. } => {
            "created: provision sets the declared hardware, starts it and waits for cloud-init. If this VM has been in \
             use, start it first and adopt it as it runs"
        }
        Phase::Cloning { .. } | Phase::Finalizing { .. } | Phase::Removing { .. } => "as it is on record",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::testing::{config, machine};
    use crate::proxmox::cluster::ClusterStatus;

    fn listed(vmid: u32, name: &str) -> Listed {
        Listed {
            vmid: vmid.try_into().unwrap(),
            node: machine().node,
            kind: GuestKind::Qemu,
            name: Some(name.to_owned()),
            template: false,
            running: true,
        }
    }

    fn listing(guests: Vec<Listed>, gaps: &[&str]) -> Listing {
        Listing {
            guests,
            status: ClusterStatus {
                quorate: None,
                nodes: Vec::new(),
            },
            gaps: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
        }
    }

    #[test]
    fn number_and_name_must_both_fit() {
        let code = |guests: Vec<Listed>, gaps: &[&str]| {
            candidate("web-0", 100.try_into().unwrap(), &listing(guests, gaps))
                .map(|listed| listed.vmid.get())
                .map_err(|diagnostic| diagnostic.code)
        };
        assert_eq!(code(vec![listed(100, "web-0"), listed(101, "db-0")], &[]), Ok(100));
        assert_eq!(code(vec![listed(101, "web-0")], &[]), Err("adopt/no-such-vm"));
        assert_eq!(code(vec![listed(101, "web-0")], &["a node"]), Err("ownership/unknown"));
        assert_eq!(code(vec![listed(100, "web-0")], &["a node"]), Err("ownership/unknown"));
        assert_eq!(code(vec![listed(100, "db-0")], &[]), Err("adopt/other-name"));
        assert_eq!(
            code(vec![listed(100, "web-0"), listed(101, "web-0")], &[]),
            Err("ownership/ambiguous")
        );
        let template = Listed {
            template: true,
            ..listed(100, "web-0")
        };
        let container = Listed {
            kind: GuestKind::Lxc,
            ..listed(100, "web-0")
        };
        assert_eq!(code(vec![template], &[]), Err("adopt/wrong-kind"));
        assert_eq!(code(vec![container], &[]), Err("adopt/wrong-kind"));
    }

    #[test]
    fn the_phase_follows_drive_and_power() {
        let phase = |data, running| {
            adoption(
                &machine(),
                &listed(100, "web-0"),
                &config(data),
                running,
                &BTreeSet::new(),
            )
            .map(|adoption| adoption.phase.name())
            .map_err(|diagnostic| diagnostic.code)
        };
        let plain = json!({"name": "web-0", "smbios1": "uuid=6B2F..."});
        assert_eq!(phase(plain.clone(), false), Ok("complete"));
        assert_eq!(phase(plain, true), Ok("complete"));
        let drive = json!({"smbios1": "uuid=6B2F", "ide2": "local:100/vm-100-cloudinit.qcow2,media=cdrom"});
        assert_eq!(phase(drive.clone(), true), Ok("initialized"));
        assert_eq!(phase(drive, false), Ok("created"));
        assert_eq!(phase(json!({"name": "web-0"}), true), Err("adopt/no-uuid"));
        assert_eq!(
            phase(json!({"lock": "clone", "smbios1": "uuid=6B2F"}), false),
            Err("adopt/locked")
        );
    }

    #[test]
    fn only_the_record_of_this_very_vm_goes_on_under_another_host() {
        let phase = |vmid: u32| Phase::Created {
            vmid: vmid.try_into().unwrap(),
            uuid: "u".to_owned(),
            node: machine().node,
        };
        let cluster = machine().cluster;
        let record = |host: &str, name: &str, vmid| Record::new(&cluster.host, cluster.port, host, name, phase(vmid));
        let found = |record: Record, uuid: Option<&str>| {
            renamed(&machine(), 100.try_into().unwrap(), uuid, &[record]).map(|record| record.host.clone())
        };
        let old = Some("old-0".to_owned());
        assert_eq!(found(record("old-0", "web-0", 100), Some("u")), old);
        assert_eq!(found(record("old-0", "web-0", 100), Some("v")), None, "another UUID");
        assert_eq!(found(record("old-0", "web-0", 100), None), None);
        assert_eq!(found(record("old-0", "web-0", 101), Some("u")), None, "another number");
        assert_eq!(found(record("old-0", "db-0", 100), Some("u")), None, "another name");
        assert_eq!(found(record("WEB-0", "web-0", 100), Some("u")), None, "the same host");
        let elsewhere = Record::new("other", 8006, "old-0", "web-0", phase(100));
        assert_eq!(found(elsewhere, Some("u")), None, "another cluster");
    }

    #[test]
    fn one_vm_has_one_record() {
        let record = |name: &str, vmid: u32| {
            let phase = Phase::Created {
                vmid: vmid.try_into().unwrap(),
                uuid: "u".to_owned(),
                node: machine().node,
            };
            Record::new("pve", 8006, name, name, phase)
        };
        let code = |records: &[Record]| {
            unclaimed("web-0", 100.try_into().unwrap(), "pve:8006", records).map_err(|diagnostic| diagnostic.code)
        };
        assert_eq!(code(&[record("db-0", 101)]), Ok(()));
        assert_eq!(code(&[record("web-0", 101)]), Err("adopt/recorded"));
        assert_eq!(code(&[record("db-0", 100)]), Err("adopt/recorded"));
    }
}
