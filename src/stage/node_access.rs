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
/// otherwise; network storages are mounted at `/mnt/pve/<id>`).
pub fn snippet_dir(storage: &str, config: Option<&StorageConfig>) -> String {
    let path = match config.and_then(|config| config.path.clone()) {
        Some(path) => path,
        None if storage == "local" => "/var/lib/vz".to_owned(),
        None => format!("/mnt/pve/{storage}"),
    };
    let folder = config
        .and_then(|config| config.content_dirs.get("snippets").cloned())
        .unwrap_or_else(|| "snippets".to_owned());
    format!("{}/{}", path.trim_end_matches('/'), folder.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snippet_folder_is_the_storages_real_one() {
        assert_eq!(snippet_dir("local", None), "/var/lib/vz/snippets");
        assert_eq!(snippet_dir("nas", None), "/mnt/pve/nas/snippets");
        let config = StorageConfig {
            path: Some("/srv/pve/".to_owned()),
            content_dirs: [("snippets".to_owned(), "/ci".to_owned())].into(),
            ..StorageConfig::default()
        };
        assert_eq!(snippet_dir("srv", Some(&config)), "/srv/pve/ci");
    }
}
