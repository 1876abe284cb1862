//! The commands that grant what is missing.
//!
//! An ACL replaces everything that the identity inherits at its path (pve-access-control: `roles`), so a role with only the
//! missing privileges, set below an ACL that works, would take the others away. Where the identity has a role already, that
//! role is extended.

use crate::engine::cluster::Permissions;
use crate::machine::{Auth, Machine};

/// What to do about missing privileges on a path.
pub(super) fn commands(machine: &Machine, permissions: &Permissions, path: &str, missing: &[&str]) -> Vec<String> {
    let privileges = missing.join(" ");
    if covered(permissions, path) {
        return vec![format!(
            "pveum role modify ROLE --append --privs '{privileges}' (ROLE: the one that the identity has on {path} or above, see `pveum acl list`)"
        )];
    }
    let role = format!("Vmwright{}", name_of(path));
    vec![format!(
        "pveum role add {role} --privs '{privileges}' && pveum acl modify {path} {} --roles {role}",
        identity(machine)
    )]
}

/// The identity as `pveum acl modify` takes it. A token with separated privileges needs them for itself and for its user; to
/// one without, its own ACL does no harm.
fn identity(machine: &Machine) -> String {
    match &machine.cluster.auth {
        Auth::Token { user, id, .. } => format!("--users '{user}' --tokens '{user}!{id}'"),
        Auth::Password { user, .. } => format!("--users '{user}'"),
    }
}

/// Whether the identity has any privilege on the path, by itself or from above.
fn covered(permissions: &Permissions, path: &str) -> bool {
    permissions.iter().any(|(known, privileges)| {
        let propagates = privileges.values().any(|propagates| *propagates);
        (known == path && !privileges.is_empty()) || (propagates && (known == "/" || below(path, known)))
    })
}

fn below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// A part of a role's name: `/storage/local-lvm` gives `StorageLocalLvm`.
fn name_of(path: &str) -> String {
    path.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_covered_from_above_and_not_by_its_neighbour() {
        let audit = || [("VM.Audit".to_owned(), true)].into();
        let permissions: Permissions = [("/vms".to_owned(), audit())].into();
        assert!(covered(&permissions, "/vms"));
        assert!(covered(&permissions, "/vms/9000"));
        assert!(!covered(&permissions, "/vmsx"));
        assert!(!covered(&permissions, "/storage/local"));
        assert!(covered(&[("/".to_owned(), audit())].into(), "/storage/local"));
        assert!(!covered(&[("/vms".to_owned(), [].into())].into(), "/vms"));
        let here_only: Permissions = [("/".to_owned(), [("Sys.Audit".to_owned(), false)].into())].into();
        assert!(!covered(&here_only, "/storage/local"), "it does not propagate");
    }

    #[test]
    fn a_role_is_named_after_its_path() {
        assert_eq!(name_of("/storage/local-lvm"), "StorageLocalLvm");
    }
}
