//! The rules of readiness: pure functions from the facts to everything that is wrong.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnose::{Diagnostic, nearest};
use crate::engine::cluster::Permissions;
use crate::machine::Machine;
use crate::proxmox::size::Size;
use crate::proxmox::storage::StorageInfo;
use crate::stage::readiness::Template;
use crate::stage::readiness::facts::Facts;
use crate::stage::readiness::grant;

/// Everything that is wrong, errors and warnings.
pub fn check(machine: &Machine, facts: &Facts) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    cluster(machine, facts, &mut out);
    template(machine, facts, &mut out);
    storages(machine, facts, &mut out);
    bridges(machine, facts, &mut out);
    privileges(machine, facts, &mut out);
    address(machine, facts, &mut out);
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

/// What each storage is needed for: key, content type, GiB.
fn needs(machine: &Machine, facts: &Facts) -> Vec<(String, &'static str, String, u64)> {
    let hardware = &machine.hardware;
    let mut needs = Vec::new();
    if facts.template_needed {
        let size = hardware.boot_disk.as_ref().and_then(|disk| disk.size_gib).unwrap_or(0);
        match (&hardware.storage, &facts.template) {
            (Some(storage), _) => needs.push((storage.to_string(), "images", "vms_config.storage".to_owned(), size)),
            (None, Some(template)) => {
                for storage in template
                    .config
                    .disks()
                    .iter()
                    .filter_map(crate::proxmox::drive::Drive::storage)
                {
                    needs.push((storage.to_string(), "images", "vms_os".to_owned(), size));
                }
            }
            (None, None) => {}
        }
    }
    for disk in &hardware.extra_disks {
        needs.push((
            disk.storage.to_string(),
            "images",
            format!("vms_config.{}.storage", disk.key),
            disk.size_gib,
        ));
    }
    needs.push((
        machine.snippets.storage.to_string(),
        "snippets",
        "vms_snippets_storage".to_owned(),
        0,
    ));
    needs
}

fn storages(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let Some(storages) = &facts.storages else { return };
    let mut told: BTreeSet<(String, &str)> = BTreeSet::new();
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    let needs = needs(machine, facts);
    for (name, content, key, gib) in &needs {
        let Some(storage) = storages.iter().find(|storage| storage.storage.as_str() == name) else {
            if told.insert((name.clone(), "missing")) {
                let known: Vec<&str> = storages.iter().map(|storage| storage.storage.as_str()).collect();
                let mut diagnostic = error(
                    machine,
                    "readiness/no-storage",
                    key,
                    format!("node {} has no storage {name}", machine.node),
                )
                .rule(format!("its storages are {}", known.join(", ")));
                if let Some(near) = nearest(name, known) {
                    diagnostic = diagnostic.help(format!("did you mean {near}?"));
                }
                out.push(diagnostic);
            }
            continue;
        };
        *wanted.entry(storage.storage.as_str()).or_default() += gib;
        storage_is_usable(machine, storage, content, key, &mut told, out);
    }
    on_the_way(machine, facts, out);
    for (name, gib) in wanted {
        let Some(storage) = storages.iter().find(|storage| storage.storage.as_str() == name) else {
            continue;
        };
        if storage.total > 0 && Size::gib(gib).bytes() > storage.avail {
            out.push(
                warning(
                    machine,
                    "readiness/room",
                    "vms_config.storage",
                    format!(
                        "storage {name} on {} has {} GiB free and the disks may grow to {gib} GiB",
                        machine.node,
                        storage.avail >> 30
                    ),
                )
                .rule("thin disks fit at first and fill the storage later"),
            );
        }
    }
}

/// A clone that is moved afterwards is made on the template's node first, onto the storage of that name there.
fn on_the_way(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let (Some(template), Some(wanted), Some(there)) =
        (&facts.template, &machine.hardware.storage, &facts.source_storages)
    else {
        return;
    };
    if template.node == machine.node || facts.template_is_shared {
        return;
    }
    let usable = there.iter().any(|storage| {
        storage.storage == *wanted && storage.enabled && storage.active && storage.content.iter().any(|c| c == "images")
    });
    if !usable {
        out.push(
            error(
                machine,
                "readiness/no-storage-on-the-way",
                "vms_config.storage",
                format!("node {} has no storage {wanted} that takes images", template.node),
            )
            .rule(format!(
                "template {} is on {}: the clone is made there and then moved to {}",
                machine.template, template.node, machine.node
            ))
            .help(format!(
                "put a copy of the template on {}, or on shared storage",
                machine.node
            )),
        );
    }
}

fn storage_is_usable(
    machine: &Machine,
    storage: &StorageInfo,
    content: &'static str,
    key: &str,
    told: &mut BTreeSet<(String, &str)>,
    out: &mut Vec<Diagnostic>,
) {
    let name = storage.storage.to_string();
    if !(storage.enabled && storage.active) && told.insert((name.clone(), "inactive")) {
        out.push(error(
            machine,
            "readiness/storage-inactive",
            key,
            format!(
                "storage {name} is {} on {}",
                if storage.enabled { "not active" } else { "disabled" },
                machine.node
            ),
        ));
    }
    if !storage.content.iter().any(|known| known == content) && told.insert((name.clone(), content)) {
        let mut all = storage.content.clone();
        all.push(content.to_owned());
        out.push(
            error(
                machine,
                "readiness/content-type",
                key,
                format!("storage {name} does not take {content}"),
            )
            .rule(format!("its content types are {}", storage.content.join(", ")))
            .help(format!("pvesm set {name} --content {}", all.join(","))),
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

/// The privileges that provisioning uses, per path (pve-api: privileges per call).
fn needed_privileges(machine: &Machine, facts: &Facts) -> Vec<(String, Vec<&'static str>)> {
    let mut needed = vec![(
        "/vms".to_owned(),
        vec![
            "VM.Audit",
            "VM.Config.CDROM",
            "VM.Config.CPU",
            "VM.Config.Cloudinit",
            "VM.Config.Disk",
            "VM.Config.HWType",
            "VM.Config.Memory",
            "VM.Config.Network",
            "VM.Config.Options",
            "VM.PowerMgmt",
        ],
    )];
    if let Some(template) = &facts.template {
        needed.push((format!("/vms/{}", template.vmid), vec!["VM.Clone"]));
        match &machine.hardware.pool {
            Some(pool) => needed.push((format!("/pool/{pool}"), vec!["VM.Allocate"])),
            None => needed.push(("/vms".to_owned(), vec!["VM.Allocate"])),
        }
        if template.node != machine.node && !facts.template_is_shared {
            needed.push(("/vms".to_owned(), vec!["VM.Migrate"]));
        }
    }
    for (storage, content, _, _) in self::needs(machine, facts) {
        if content == "images" {
            needed.push((format!("/storage/{storage}"), vec!["Datastore.AllocateSpace"]));
        }
    }
    if facts.major >= 8 {
        // A vnet lies in a zone of its own, which the API does not name here; that it is listed at all is the proof.
        let is_vnet = |name: &str| {
            let bridges = facts.bridges.as_deref().unwrap_or_default();
            bridges
                .iter()
                .any(|bridge| bridge.iface == name && bridge.kind == "vnet")
        };
        for nic in machine.hardware.nics.iter().filter(|nic| !is_vnet(&nic.bridge)) {
            let path = match nic.tag {
                Some(tag) => format!("/sdn/zones/localnetwork/{}/{tag}", nic.bridge),
                None => format!("/sdn/zones/localnetwork/{}", nic.bridge),
            };
            needed.push((path, vec!["SDN.Use"]));
        }
    }
    needed
}

fn privileges(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let Some(permissions) = &facts.permissions else { return };
    let mut missing: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (path, privileges) in needed_privileges(machine, facts) {
        for privilege in privileges {
            if !granted(permissions, &path, privilege) {
                missing.entry(path.clone()).or_default().insert(privilege);
            }
        }
    }
    for (path, privileges) in missing {
        let list: Vec<&str> = privileges.into_iter().collect();
        let mut diagnostic = error(
            machine,
            "readiness/privileges",
            "global_proxmox_api_user",
            format!("the identity lacks {} on {path}", list.join(", ")),
        );
        diagnostic.help = grant::commands(machine, permissions, &path, &list);
        out.push(diagnostic);
    }
}

/// Whether a privilege holds on a path: by the nearest path that is listed, with propagation from above.
fn granted(permissions: &Permissions, path: &str, privilege: &str) -> bool {
    let mut at = path;
    loop {
        if let Some(privileges) = permissions.get(if at.is_empty() { "/" } else { at }) {
            return match privileges.get(privilege) {
                Some(propagates) => *propagates || at == path,
                None => false,
            };
        }
        match at.rfind('/') {
            Some(0) if at != "/" && !at.is_empty() => at = "",
            Some(index) if !at.is_empty() && at != "/" => at = &at[..index],
            Some(_) | None => return false,
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privilege_comes_from_the_nearest_path() {
        let permissions: Permissions = [
            (
                "/".to_owned(),
                [("VM.Audit".to_owned(), true), ("Sys.Audit".to_owned(), false)].into(),
            ),
            ("/vms/105".to_owned(), [("VM.Clone".to_owned(), false)].into()),
        ]
        .into();
        assert!(granted(&permissions, "/vms", "VM.Audit"));
        assert!(granted(&permissions, "/vms/105", "VM.Clone"));
        assert!(
            !granted(&permissions, "/vms/105", "VM.Audit"),
            "a deeper ACL replaces what is inherited"
        );
        assert!(!granted(&permissions, "/vms", "Sys.Audit"), "it does not propagate");
        assert!(granted(&permissions, "/", "Sys.Audit"));
        assert!(!granted(&Permissions::new(), "/vms", "VM.Audit"));
    }
}
