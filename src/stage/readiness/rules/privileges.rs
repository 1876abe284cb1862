//! Which privileges the run will use, and whether the identity has them.

use std::collections::{BTreeMap, BTreeSet};

use super::error;
use super::storage::needs;
use crate::diagnose::Diagnostic;
use crate::engine::cluster::Permissions;
use crate::machine::Machine;
use crate::stage::readiness::facts::Facts;
use crate::stage::readiness::grant;

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
    for (storage, content, _, _) in needs(machine, facts) {
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

pub(super) fn privileges(machine: &Machine, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let Some(permissions) = &facts.permissions else { return };
    let mut missing: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (path, privileges) in needed_privileges(machine, facts) {
        for privilege in privileges {
            // A new VM lies below /vms: there only what propagates counts.
            let at = if path == "/vms" { "/vms/NEW" } else { &path };
            if !granted(permissions, at, privilege) {
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
