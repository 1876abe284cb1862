//! Reaching the node that carries a VM: its SSH target and its snippet folder.

use crate::engine::cluster::Listing;
use crate::machine::{Machine, SshTarget};
use crate::proxmox::ids::NodeName;
use crate::proxmox::storage::StorageConfig;

/// How to log in to a node: the inventory's host of that name, else root at the address that the cluster tells.
pub fn ssh_target(machine: &Machine, node: &NodeName, listing: &Listing) -> Option<SshTarget> {
    if let Some(target) = &machine.snippets.node_ssh
        && *node == machine.node
    {
        return Some(target.clone());
    }
    let known = listing.status.nodes.iter().find(|known| known.name == *node)?;
    Some(SshTarget {
        alias: known.name.to_string(),
        host: known.ip.clone().unwrap_or_else(|| known.name.to_string()),
        port: 22,
        user: "root".to_owned(),
        key: None,
        extra_args: Vec::new(),
    })
}

/// The real path of a storage's snippets (pve-storage: `snippets` below the storage's path, unless `content-dirs` says
/// otherwise); `None` where the API does not tell the path. It is never guessed: documents in the wrong folder show when
/// the VM is started, after DNS and clone.
pub fn snippet_dir(config: Option<&StorageConfig>) -> Option<String> {
    let config = config?;
    let path = config.path.as_ref()?;
    let folder = config.content_dirs.get("snippets").map_or("snippets", String::as_str);
    Some(format!("{}/{}", path.trim_end_matches('/'), folder.trim_matches('/')))
}

/// What to do where the path of a storage is not told.
pub fn tell_path(storage: &str) -> String {
    format!(
        "grant the identity Datastore.Audit on /storage/{storage}, or set vms_snippets_path to the storage's mounted snippet folder"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snippet_folder_is_the_storages_real_one_and_never_guessed() {
        let config = |path: Option<&str>, folder: Option<&str>| StorageConfig {
            path: path.map(str::to_owned),
            content_dirs: folder
                .map(|folder| ("snippets".to_owned(), folder.to_owned()))
                .into_iter()
                .collect(),
            ..StorageConfig::default()
        };
        let table = [
            (None, None),
            (Some(config(None, None)), None),
            (Some(config(None, Some("ci"))), None),
            (Some(config(Some("/var/lib/vz"), None)), Some("/var/lib/vz/snippets")),
            (Some(config(Some("/srv/pve/"), Some("/ci"))), Some("/srv/pve/ci")),
        ];
        for (config, want) in table {
            assert_eq!(snippet_dir(config.as_ref()).as_deref(), want, "{config:?}");
        }
    }
}
