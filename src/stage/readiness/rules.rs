//! The rules of readiness: pure functions from the facts to everything that is wrong.

mod devices;
mod privileges;
mod storage;

use std::collections::BTreeSet;

use crate::diagnose::{Diagnostic, nearest};
use crate::machine::Machine;
use crate::proxmox::size::Size;
use crate::stage::readiness::Template;
use crate::stage::readiness::facts::Facts;

/// Everything that is wrong, errors and warnings.
pub fn check(machine: &Machine, facts: &Facts) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    cluster(machine, facts, &mut out);
    template(machine, facts, &mut out);
    storage::storages(machine, facts, &mut out);
    storage::snippet_folder(machine, facts, &mut out);
    bridges(machine, facts, &mut out);
    privileges::privileges(machine, facts, &mut out);
    address(machine, facts, &mut out);
    number(machine, facts, &mut out);
    out
}

fn error(machine: &Machine, code: &'static str, key: &str, message: String) -> Diagnostic {
    Diagnostic::error(code, message)
        .host(&machine.host)
        .key(key)
        .at(machine.origins.place(key))
}

fn warning(machine: &Machine, code: &'static str, key: &str, message: String) -> Diagnostic {
    Diagnostic::warning(code, message)
        .host(&machine.host)
        .key(key)
        .at(machine.origins.place(key))
}

fn cluster(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    if facts.listing.status.quorate == Some(false) {
        out.push(
            Diagnostic::error("readiness/no-quorum", "the cluster has no quorum")
                .rule("without quorum every write is refused")
                .help("bring the cluster's nodes back"),
        );
    }
    match facts.listing.online(&machine.node) {
        Some(true) => {}
        Some(false) => out.push(
            error(
                machine,
                "readiness/node-offline",
                "vms_proxmox_node",
                format!("node {} is offline", machine.node),
            )
            .help("bring the node back, or choose another vms_proxmox_node"),
        ),
        None => {
            let known: Vec<&str> = facts
                .listing
                .status
                .nodes
                .iter()
                .map(|node| node.name.as_str())
                .collect();
            let mut diagnostic = error(
                machine,
                "readiness/unknown-node",
                "vms_proxmox_node",
                format!("the cluster has no node {}", machine.node),
            )
            .rule(format!("its nodes are {}", known.join(", ")));
            if let Some(near) = nearest(machine.node.as_str(), known) {
                diagnostic = diagnostic.help(format!("did you mean {near}?"));
            }
            out.push(diagnostic);
        }
    }
}

fn template(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    if !facts.template_needed {
        return;
    }
    let Some(template) = &facts.template else {
        out.push(no_template(machine, facts));
        return;
    };
    let drives = template.config.cloudinit_drives();
    let help = format!("qm set {} --ide2 STORAGE:cloudinit", template.vmid);
    match drives.as_slice() {
        [_] => {}
        [] => out.push(
            error(
                machine,
                "readiness/no-cloud-init-drive",
                "vms_os",
                format!("template {} has no cloud-init drive", machine.template),
            )
            .rule("the guest gets its user and its network from the cloud-init drive")
            .help(help),
        ),
        several => {
            let slots: Vec<String> = several.iter().map(|drive| drive.slot.to_string()).collect();
            out.push(
                error(
                    machine,
                    "readiness/two-cloud-init-drives",
                    "vms_os",
                    format!(
                        "template {} has several cloud-init drives: {}",
                        machine.template,
                        slots.join(", ")
                    ),
                )
                .rule("there is exactly one cloud-init drive"),
            );
        }
    }
    devices::serial(machine, template, out);
    devices::agent(machine, template, out);
    disks(machine, template, out);
    boot_order(machine, template, out);
}

fn no_template(machine: &Machine, facts: &Facts) -> Diagnostic {
    if let Some(node) = &facts.template_offline {
        return error(
            machine,
            "readiness/template-offline",
            "vms_os",
            format!("template {} is on node {node}, which is offline", machine.template),
        );
    }
    let mut diagnostic = error(
        machine,
        "readiness/no-template",
        "vms_os",
        format!("the cluster has no template {}", machine.template),
    )
    .rule("vms_os selects it in global_os; the identity must see it (VM.Audit) and it must be a template");
    if let Some(near) = nearest(&machine.template, facts.template_names.iter().map(String::as_str)) {
        diagnostic = diagnostic.help(format!("did you mean {near}?"));
    } else if !facts.template_names.is_empty() {
        diagnostic = diagnostic.note(
            None,
            format!("templates that are seen: {}", facts.template_names.join(", ")),
        );
    }
    diagnostic
}

fn disks(machine: &Machine, template: &Template, out: &mut Vec<Diagnostic>) {
    let slots: Vec<String> = template
        .config
        .disks()
        .iter()
        .map(|disk| disk.slot.to_string())
        .collect();
    // CD drives take a slot too.
    let taken: Vec<String> = template
        .config
        .drives()
        .iter()
        .map(|drive| drive.slot.to_string())
        .collect();
    if let Some(boot) = &machine.hardware.boot_disk {
        let drive = boot.slot.parse().ok().and_then(|slot| template.config.drive(slot));
        match drive.filter(|drive| !drive.is_cdrom()) {
            None => out.push(
                error(
                    machine,
                    "readiness/boot-disk",
                    "vms_config.disk_os.disk",
                    format!("template {} has no disk {}", machine.template, boot.slot),
                )
                .rule(format!(
                    "the boot disk comes with the clone; the template's disks are {}",
                    slots.join(", ")
                )),
            ),
            Some(drive) => {
                if let (Some(wanted), Some(size)) = (boot.size_gib, drive.size())
                    && Size::gib(wanted) < size
                {
                    out.push(
                        error(
                            machine,
                            "readiness/disk-too-small",
                            "vms_config.disk_os.size",
                            format!(
                                "disk {} is to have {wanted} GiB, but the template's has {size}",
                                boot.slot
                            ),
                        )
                        .rule("a disk can grow, never shrink"),
                    );
                }
            }
        }
    } else if template.config.boot_disk().is_none() {
        out.push(
            error(
                machine,
                "readiness/boot-disk",
                "vms_os",
                format!("it is not clear which disk template {} boots from", machine.template),
            )
            .rule("the boot order's first disk, or the only one, is the boot disk")
            .help(format!(
                "qm set {} --boot order=DISK, or declare vms_config.disk_os.disk",
                template.vmid
            )),
        );
    }
    for disk in &machine.hardware.extra_disks {
        if taken.contains(&disk.slot) {
            out.push(
                error(
                    machine,
                    "readiness/slot-taken",
                    &format!("vms_config.{}.disk", disk.key),
                    format!(
                        "slot {} is taken by a drive of template {}",
                        disk.slot, machine.template
                    ),
                )
                .rule("an extra disk needs a free slot"),
            );
        }
    }
}

fn boot_order(machine: &Machine, template: &Template, out: &mut Vec<Diagnostic>) {
    let Some(order) = &machine.hardware.boot_order else {
        return;
    };
    let mut devices: BTreeSet<String> = template.config.devices();
    devices.extend(machine.hardware.extra_disks.iter().map(|disk| disk.slot.clone()));
    devices.extend(machine.hardware.nics.iter().map(|nic| format!("net{}", nic.index)));
    let absent: Vec<&str> = order
        .iter()
        .filter(|device| !devices.contains(*device))
        .map(String::as_str)
        .collect();
    if !absent.is_empty() {
        let known: Vec<&str> = devices.iter().map(String::as_str).collect();
        out.push(
            error(
                machine,
                "readiness/boot-order",
                "vms_config.boot_order",
                format!("the boot order names {}, which the VM will not have", absent.join(", ")),
            )
            .rule(format!("its devices will be {}", known.join(", "))),
        );
    }
}

fn bridges(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let online = facts.listing.online(&machine.node) == Some(true);
    let Some(bridges) = &facts.bridges else {
        if online && !machine.hardware.nics.is_empty() {
            out.push(warning(
                machine,
                "readiness/bridges-unknown",
                "vms_config.network",
                format!(
                    "this API does not tell the bridges of {}; a missing one fails at the start only",
                    machine.node
                ),
            ));
        }
        return;
    };
    let mut told = BTreeSet::new();
    for nic in &machine.hardware.nics {
        if bridges.iter().any(|bridge| bridge.iface == nic.bridge) || !told.insert(nic.bridge.as_str()) {
            continue;
        }
        let known: Vec<&str> = bridges.iter().map(|bridge| bridge.iface.as_str()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        out.push(
            error(
                machine,
                "readiness/no-bridge",
                &format!("vms_config.network.nic{}.bridge", nic.index),
                format!(
                    "node {} has no bridge {}, or the identity may not use it",
                    machine.node, nic.bridge
                ),
            )
            .rule(format!("bridges that it may use: {known}"))
            .help("on Proxmox VE 8 and later the identity needs SDN.Use on /sdn/zones/localnetwork/BRIDGE"),
        );
    }
}

fn number(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    if let Some(other) = &facts.vmid_taken {
        let name = other.name.as_deref().unwrap_or("without a name");
        out.push(
            error(
                machine,
                "readiness/vmid-taken",
                "vms_vmid",
                format!("VM id {} is taken by {name} on {}", other.vmid, other.node),
            )
            .rule("vms_vmid asks for exactly this number")
            .help("choose another vms_vmid, or leave it out for the next free one"),
        );
    }
}

fn address(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    if let Some(address) = facts.stranger {
        out.push(
            error(
                machine,
                "readiness/address-in-use",
                "global_ip_address",
                format!(
                    "{address} answers on port {} already, although {} does not exist",
                    machine.ssh.port, machine.name
                ),
            )
            .rule("an address belongs to one machine")
            .help("find the machine that has the address, or give this host another one"),
        );
    }
    for other in &facts.recorded {
        out.push(
            error(
                machine,
                "readiness/address-recorded",
                "global_ip_address",
                format!(
                    "{} is the address of {} (host {}), as its record says",
                    other.address, other.name, other.host
                ),
            )
            .rule("an address belongs to one machine")
            .help("give this host another address")
            .help(format!(
                "if that VM is gone: `vmwright forget {} --confirm {}` drops its record",
                other.host, other.name
            )),
        );
    }
}

#[cfg(test)]
mod tests;
