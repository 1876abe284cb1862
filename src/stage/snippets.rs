//! Snippets: the cloud-init documents lie on the destination node, under the storage's real path, as rendered.
//!
//! Proxmox reads them at the start of the VM, on the node that starts it, and only from a storage's snippet folder (they
//! cannot be uploaded through the API). They are written under a temporary name, renamed and read back, over SSH or, where
//! the storage is mounted here, into that folder (`vms_snippets_path`).

use crate::cloud_init::{Documents, file_names, render};
use crate::diagnose::Diagnostic;
use crate::engine::event::{Change, StageName};
use crate::engine::failure::{Failure, Retry, explain_ssh, if_told};
use crate::engine::guest::at;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::guest::known_hosts;
use crate::guest::node::{Folder, FolderError};
use crate::guest::remote::HostKeys;
use crate::machine::{Machine, SshTarget};
use crate::proxmox::config::VmConfig;
use crate::proxmox::ids::NodeName;
use crate::stage::node_access;
use crate::stage::readiness::Ready;
use crate::stage::trust::explain as known_hosts_failure;
use crate::state::record::Delivery;

/// The documents are there.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The value of `cicustom` that refers to them.
    pub cicustom: String,
    detail: String,
    _made: (),
}

/// The stage.
pub struct Snippets<'r> {
    /// Everything that creation needs is there.
    pub ready: &'r Ready,
}

impl Stage for Snippets<'_> {
    const NAME: StageName = StageName::Snippets;
    type Evidence = Delivered;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Delivered>, Failure> {
        let place = self.place(run)?;
        let folder = place.folder(run);
        let [user, network] = files(run)?;
        let there = folder
            .read_all(&[&user.0, &network.0])
            .await
            .map_err(|error| place.explain(&error))?;
        let mut missing: Vec<Change> = Vec::new();
        for ((name, content), there) in [user, network].into_iter().zip(there) {
            if there.as_deref() != Some(content.as_bytes()) {
                missing.push(Change::new(name, place.to_string()));
            } else if !folder.has_mode(&name).map_err(|error| place.explain(&error))? {
                missing.push(Change::new(name, format!("{place}, with its mode")));
            }
        }
        if !place.news(run)?.is_empty() {
            let file = run.shared.known_hosts.display().to_string();
            missing.push(Change::new(format!("host key of {}", place.node), file));
        }
        run.hold_delivery(place.delivery());
        if missing.is_empty() {
            return Ok(Seen::Done(delivered(&run.machine, &place.to_string())));
        }
        Ok(Seen::Absent(missing))
    }

    async fn act(&self, run: &HostRun) -> Result<(), Failure> {
        let place = self.place(run)?;
        let folder = place.folder(run);
        let [user, network] = files(run)?;
        run.note_delivery(place.delivery())?;
        tokio::try_join!(
            folder.write(&user.0, user.1.as_bytes()),
            folder.write(&network.0, network.1.as_bytes())
        )
        .map_err(|error| place.explain(&error))?;
        place.remember(run).await
    }

    fn assume(&self, run: &HostRun) -> Option<Delivered> {
        Some(delivered(&run.machine, "would be written"))
    }

    fn tell(&self, delivered: &Delivered) -> String {
        delivered.detail.clone()
    }
}

impl Snippets<'_> {
    fn place(&self, run: &HostRun) -> Result<Place, Failure> {
        Place::of(
            run,
            &run.machine.node,
            self.ready.node_ssh.clone(),
            self.ready.snippet_dir.clone(),
        )
    }
}

fn delivered(machine: &Machine, detail: &str) -> Delivered {
    let (user, network) = file_names(machine);
    let storage = &machine.snippets.storage;
    let cicustom = format!("user={storage}:snippets/{user},network={storage}:snippets/{network}");
    Delivered {
        cicustom,
        detail: detail.to_owned(),
        _made: (),
    }
}

/// The files as they are to be: name and content.
fn files(run: &HostRun) -> Result<[(String, String); 2], Failure> {
    let Documents {
        user_data,
        network_data,
    } = render(&run.machine, &run.machine.macs(), run.shared.templates_dir.as_deref())?;
    let (user, network) = file_names(&run.machine);
    Ok([(user, user_data), (network, network_data)])
}

/// Where the snippets of a VM are.
struct Place {
    node: NodeName,
    target: Option<(SshTarget, HostKeys)>,
    path: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.target {
            Some(_) => write!(f, "{}:{}", self.node, self.path),
            None => f.write_str(&self.path),
        }
    }
}

impl Place {
    fn of(run: &HostRun, node: &NodeName, target: Option<SshTarget>, path: String) -> Result<Self, Failure> {
        match &run.machine.snippets.local_path {
            Some(local) => Ok(Self::here(node, local.display().to_string())),
            None => Self::there(run, node, target, path),
        }
    }

    /// A folder that is mounted on the control node.
    fn here(node: &NodeName, path: String) -> Self {
        Self {
            node: node.clone(),
            target: None,
            path,
        }
    }

    /// A folder on the node.
    fn there(run: &HostRun, node: &NodeName, target: Option<SshTarget>, path: String) -> Result<Self, Failure> {
        let Some(target) = target else {
            return Err(Failure::new(
                Diagnostic::error(
                    "snippets/no-node-address",
                    format!("nothing tells how to reach node {node} over SSH"),
                )
                .help(format!(
                    "add {node} to the inventory with its ansible_host, or set vms_snippets_path to the mounted folder"
                )),
            ));
        };
        let keys = node_keys(run, &target)?;
        Ok(Self {
            node: node.clone(),
            target: Some((target, keys)),
            path,
        })
    }

    /// As it is noted in the record.
    fn delivery(&self) -> Delivery {
        Delivery {
            node: self.node.clone(),
            path: self.path.clone(),
            local: self.target.is_none(),
        }
    }

    /// The keys of a node that was met for the first time in this run, and that known_hosts does not have yet.
    fn news(&self, run: &HostRun) -> Result<Vec<String>, Failure> {
        match &self.target {
            Some((target, HostKeys::LearnInto(learned))) if !is_known(run, target)? => {
                known_hosts::read(learned, &target.alias).map_err(known_hosts_failure)
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Puts such keys into known_hosts, under its lock: `ssh` itself appends to the file without one.
    async fn remember(&self, run: &HostRun) -> Result<(), Failure> {
        let keys = self.news(run)?;
        if let Some((target, _)) = &self.target
            && !keys.is_empty()
        {
            known_hosts::replace(&run.shared.known_hosts, &node_names(target), &keys)
                .await
                .map_err(known_hosts_failure)?;
        }
        Ok(())
    }

    fn folder<'p>(&'p self, run: &'p HostRun) -> Folder<'p> {
        match &self.target {
            Some((target, keys)) => Folder::Node {
                remote: run.shared.remote.as_ref(),
                target,
                keys,
                path: &self.path,
            },
            None => Folder::Local {
                path: self.path.as_ref(),
                mode: run.machine.snippets.mode,
            },
        }
    }

    fn explain(&self, error: &FolderError) -> Failure {
        if let (FolderError::Ssh(error), Some((target, _))) = (error, &self.target) {
            let mut diagnostic = explain_ssh(error, &format!("node {} ({})", self.node, at(target)));
            if let crate::guest::remote::SshError::HostKey { changed: false, .. } = error {
                diagnostic.help = vec![format!(
                    "log in once by hand (`ssh {}@{}`) and compare the fingerprint, so that the node's key is in known_hosts",
                    target.user, target.host
                )];
            }
            let retry = if error.nothing_ran() { Retry::No } else { Retry::Doubt };
            return Failure::new(diagnostic).retry(retry);
        }
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(error) {
            text = format!("{text}: {source}");
        }
        Failure::new(
            Diagnostic::error(
                "snippets/folder",
                format!("the snippets cannot be kept in {self}: {text}"),
            )
            .rule("Proxmox reads snippets from the storage's own folder on the node that starts the VM"),
        )
    }
}

/// The host keys that a node must show: those of the user's known_hosts. Only the inventory's own
/// `StrictHostKeyChecking=accept-new` learns an unknown one.
fn node_keys(run: &HostRun, target: &SshTarget) -> Result<HostKeys, Failure> {
    let learns = target
        .extra_args
        .iter()
        .any(|arg| arg.ends_with("StrictHostKeyChecking=accept-new"));
    if learns && !is_known(run, target)? {
        // One file for all hosts of the run: they share the connection.
        let file = format!("node-{}", target.alias.replace('/', "_"));
        return Ok(HostKeys::LearnInto(run.shared.scratch.join(file)));
    }
    Ok(HostKeys::File(run.shared.known_hosts.clone()))
}

/// Whether known_hosts has a key of this node.
fn is_known(run: &HostRun, target: &SshTarget) -> Result<bool, Failure> {
    for name in node_names(target) {
        if !known_hosts::read(&run.shared.known_hosts, &name)
            .map_err(known_hosts_failure)?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn node_names(target: &SshTarget) -> Vec<String> {
    known_hosts::names(&target.alias, std::slice::from_ref(&target.host), target.port)
}

/// The cloud-init keys of a configuration that refer to our snippets.
pub fn cloud_init_keys(run: &HostRun, config: &VmConfig) -> Vec<String> {
    let (user, _) = file_names(&run.machine);
    match config.get("cicustom") {
        Some(value) if value.contains(&user) => vec!["cicustom".to_owned()],
        Some(_) | None => Vec::new(),
    }
}

/// The snippets of this VM that are left, by name and node.
pub async fn present(run: &HostRun) -> Result<Vec<(String, NodeName)>, Failure> {
    let (user, network) = file_names(&run.machine);
    let mut found = Vec::new();
    for place in places(run).await? {
        let names = match place.folder(run).list().await {
            Ok(names) => names,
            Err(FolderError::Missing(_)) => Vec::new(),
            Err(error) => return Err(place.explain(&error)),
        };
        let ours = names.into_iter().filter(|name| *name == user || *name == network);
        found.extend(ours.map(|name| (name, place.node.clone())));
    }
    Ok(found)
}

/// Removes the snippets of this VM from all folders that they were delivered to. One that cannot be reached does not keep
/// them in the others.
pub async fn remove(run: &HostRun) -> Result<(), Failure> {
    let (user, network) = file_names(&run.machine);
    let mut failed = None;
    for place in places(run).await? {
        if let Err(error) = place.folder(run).remove(&[&user, &network]).await {
            failed.get_or_insert(place.explain(&error));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Where the snippets of this VM may lie: the folders on record; if there are none, the one that is declared.
async fn places(run: &HostRun) -> Result<Vec<Place>, Failure> {
    let deliveries = run.deliveries();
    if deliveries.is_empty() {
        return Ok(vec![place_on(run, &run.machine.node).await?]);
    }
    let mut places = Vec::new();
    for delivery in deliveries {
        let Delivery { node, path, local } = delivery;
        if local {
            places.push(Place::here(&node, path));
            continue;
        }
        let listing = run.listing().await?;
        let nodes = &listing.status.nodes;
        if !nodes.is_empty() && nodes.iter().all(|known| known.name != node) {
            run.warn(
                &Diagnostic::warning(
                    "snippets/node-gone",
                    format!(
                        "node {node} is not in the cluster any more; the snippets in {path} there were not removed"
                    ),
                )
                .rule("they hold the password hash of the guest's login user")
                .help("remove them by hand if the machine still exists"),
            );
            continue;
        }
        let own = run.shared.nodes.get(node.as_str());
        let target = match own.filter(|_| node != run.machine.node) {
            Some(target) => Some(target.clone()),
            None => node_access::ssh_target(&run.machine, &node, &listing),
        };
        places.push(Place::there(run, &node, target, path)?);
    }
    Ok(places)
}

/// Where the snippets of this VM would lie on a node.
async fn place_on(run: &HostRun, node: &NodeName) -> Result<Place, Failure> {
    let (target, path) = match run.machine.snippets.local_path {
        Some(_) => (None, String::new()),
        None => {
            let listing = run.listing().await?;
            let storage = &run.machine.snippets.storage;
            let config = if_told(run.api().storage_config(storage).await)?.flatten();
            let Some(path) = node_access::snippet_dir(config.as_ref()) else {
                return Err(Failure::new(
                    Diagnostic::error(
                        "snippets/unknown-path",
                        format!(
                            "the API does not tell the path of storage {storage}, where the snippets of {} are",
                            run.machine.host
                        ),
                    )
                    .key("vms_snippets_storage")
                    .at(run.machine.origins.place("vms_snippets_storage"))
                    .help(node_access::tell_path(storage.as_str())),
                ));
            };
            (node_access::ssh_target(&run.machine, node, &listing), path)
        }
    };
    Place::of(run, node, target, path)
}
