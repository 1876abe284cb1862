//! Variables whose names tell something: mistyped ones, and those that had a meaning once.

use super::reader::Reader;
use super::schema;
use crate::diagnose::{Diagnostic, nearest};

/// Warns about variables that look like ours, are not, and nearly are.
pub(super) fn mistyped(reader: &mut Reader<'_>) {
    let prefixes = ["vms_", "global_", "pihole_"];
    for name in reader.vars.names() {
        let ours = prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.contains('.');
        if !ours || schema::variable(&name).is_some() {
            continue;
        }
        let known = schema::variables().map(|v| v.name).filter(|n| !n.contains('.'));
        let Some(near) = nearest(&name, known) else { continue };
        let place = reader.vars.get(&name).ok().flatten().map(|v| v.place);
        reader.push(
            Diagnostic::warning("machine/unknown-variable", format!("{name} is no variable of vmwright"))
                .key(&name)
                .at(place)
                .help(format!("did you mean {near}?")),
        );
    }
}

/// Variables that had a meaning once.
pub(super) fn without_effect(reader: &mut Reader<'_>) {
    if let Some(field) = reader.get("vms_use_terraform")
        && reader.bool(&field) == Some(true)
    {
        reader.push(
            field
                .warning("machine/terraform", "vms_use_terraform is true: ignored")
                .rule("vmwright has one backend and owns VMs by its own records, with the same checks")
                .help("remove vms_use_terraform"),
        );
    }
    for (name, why) in [
        ("vms_clone", "every VM is a clone of its template"),
        ("vms_static_vmid", "a fixed id is vms_vmid"),
    ] {
        if let Some(field) = reader
            .get(name)
            .filter(|field| field.text().is_none_or(|text| !text.is_empty()))
        {
            reader.push(
                field
                    .warning("machine/deprecated", format!("{name} has no effect"))
                    .rule(why)
                    .help(format!("remove {name}")),
            );
        }
    }
}
