//! Which storages are needed, what for, and whether they will do.

use std::collections::{BTreeMap, BTreeSet};

use super::{error, warning};
use crate::diagnose::{Diagnostic, nearest};
use crate::machine::Machine;
use crate::proxmox::size::Size;
use crate::proxmox::storage::StorageInfo;
use crate::stage::node_access;
use crate::stage::readiness::facts::Facts;

/// What each storage is needed for: key, content type, GiB.
pub(super) fn needs(machine: &Machine, facts: &Facts) -> Vec<(String, &'static str, String, u64)> {
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

pub(super) fn storages(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
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

/// Snippets that go over SSH need the storage's real path. A storage that is not seen at all is told by [`storages`].
pub(super) fn snippet_folder(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let name = &machine.snippets.storage;
    let seen = facts
        .storages
        .as_ref()
        .is_some_and(|storages| storages.iter().any(|storage| storage.storage == *name));
    if machine.snippets.local_path.is_none() && facts.snippet_dir.is_none() && seen {
        out.push(
            error(
                machine,
                "readiness/snippet-path",
                "vms_snippets_storage",
                format!("the API does not tell the path of storage {name}"),
            )
            .rule(
                "the cloud-init documents are written into the storage's own folder on the node, which is not guessed",
            )
            .help(node_access::tell_path(name.as_str())),
        );
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
