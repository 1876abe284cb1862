//! What readiness looks at: gathered side by side, judged elsewhere.

use std::net::IpAddr;
use std::time::Duration;

use crate::engine::cluster::{Listed, Listing, Permissions};
use crate::engine::failure::{Failure, if_told};
use crate::engine::host::HostRun;
use crate::machine::SshTarget;
use crate::proxmox::cluster::GuestKind;
use crate::proxmox::error::ApiError;
use crate::proxmox::ids::{NodeName, VmId};
use crate::proxmox::network::Bridge;
use crate::proxmox::storage::StorageInfo;
use crate::proxmox::vm::View;
use crate::stage::node_access;
use crate::stage::ownership::Owned;
use crate::stage::readiness::Template;
use crate::state::Recorded;
use crate::state::record::Phase;

/// How long a stranger at the guest's address is waited for.
const PROBE: Duration = Duration::from_millis(500);

/// Everything that was looked at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The cluster.
    pub listing: Listing,
    /// The template's names that exist, for suggestions.
    pub template_names: Vec<String>,
    /// The template, if one was found on a node that is online.
    pub template: Option<Template>,
    /// A template of the name exists, but only on nodes that are offline.
    pub template_offline: Option<NodeName>,
    /// Whether a template is needed at all.
    pub template_needed: bool,
    /// All of the template's volumes, and the storage of the clone, are shared.
    pub template_is_shared: bool,
    /// Storages of the template's node; `None` when they could not be asked.
    pub source_storages: Option<Vec<StorageInfo>>,
    /// Storages of the target node; `None` when they could not be asked (node offline).
    pub storages: Option<Vec<StorageInfo>>,
    /// Bridges of the target node; `None` when this API cannot tell.
    pub bridges: Option<Vec<Bridge>>,
    /// The identity's privileges; `None` when this API cannot tell.
    pub permissions: Option<Permissions>,
    /// The API's major version.
    pub major: u32,
    /// How to log in to the target node.
    pub node_ssh: Option<SshTarget>,
    /// The snippet folder on the target node; `None` when the API does not tell it.
    pub snippet_dir: Option<String>,
    /// Somebody answers at the guest's address although the VM does not exist.
    pub stranger: Option<IpAddr>,
    /// Addresses that are to be the guest's, and that the records of other VMs have.
    pub recorded: Vec<Recorded>,
    /// The guest that has the number that `vms_vmid` asks for.
    pub vmid_taken: Option<Listed>,
}

/// Gathers the facts.
pub async fn gather(run: &HostRun, owned: Option<&Owned>) -> Result<Facts, Failure> {
    let machine = &run.machine;
    let listing = run.listing().await?;
    let online = listing.online(&machine.node) == Some(true);
    let (template, template_offline) = match owned {
        Some(_) => (None, None),
        None => template(run, &listing).await?,
    };
    let source = template
        .as_ref()
        .map(|template| template.node.clone())
        .filter(|node| *node != machine.node);
    let vmid_taken = machine
        .vmid
        .filter(|wanted| owned.is_none() && !intended(run, *wanted))
        .and_then(|wanted| listing.by_id(wanted).cloned());
    let api = run.api();
    let (version, permissions, storages, source_storages, bridges, snippet_storage, stranger) = tokio::try_join!(
        async { api.version().await },
        run.cluster.permissions(),
        async {
            if online {
                api.storages(&machine.node).await.map(Some)
            } else {
                Ok(None)
            }
        },
        async {
            match &source {
                Some(node) => api.storages(node).await.map(Some),
                None => Ok(None),
            }
        },
        async {
            if online {
                if_told(api.bridges(&machine.node).await)
            } else {
                Ok(None)
            }
        },
        async { if_told(api.storage_config(&machine.snippets.storage).await) },
        async { Ok::<_, ApiError>(if owned.is_none() { stranger(run).await } else { None }) },
    )?;
    let source_storages = source_storages.or_else(|| storages.clone());
    let template_is_shared = match (&template, &source_storages) {
        (Some(template), Some(storages)) => shared(
            template,
            storages,
            machine.hardware.storage.as_ref().map(|s| s.as_str()),
        ),
        (Some(_) | None, _) => false,
    };
    Ok(Facts {
        template_names: templates(&listing).map(|(name, _)| name.to_owned()).collect(),
        template_needed: owned.is_none(),
        template_is_shared,
        node_ssh: node_access::ssh_target(machine, &machine.node, &listing),
        snippet_dir: node_access::snippet_dir(snippet_storage.flatten().as_ref()),
        permissions: permissions.cloned(),
        major: version.major,
        listing,
        template,
        template_offline,
        source_storages,
        storages,
        bridges,
        stranger,
        recorded: recorded(run),
        vmid_taken,
    })
}

/// Whether an earlier run wrote down this number for the clone: what has it now is the clone stage's to judge.
fn intended(run: &HostRun, wanted: VmId) -> bool {
    matches!(run.phase(), Some(Phase::Cloning { vmid, .. }) if vmid == wanted)
}

fn templates(listing: &Listing) -> impl Iterator<Item = (&str, &crate::engine::cluster::Listed)> {
    listing
        .guests
        .iter()
        .filter(|guest| guest.template && guest.kind == GuestKind::Qemu)
        .filter_map(|guest| Some((guest.name.as_deref()?, guest)))
}

/// The copy of the template that is nearest the target: on it, else on any node that is online, by name of the node.
async fn template(run: &HostRun, listing: &Listing) -> Result<(Option<Template>, Option<NodeName>), Failure> {
    let mut copies: Vec<_> = templates(listing)
        .filter(|(name, _)| *name == run.machine.template)
        .map(|(_, guest)| guest)
        .collect();
    copies.sort_by_key(|guest| (guest.node != run.machine.node, guest.node.clone(), guest.vmid));
    let Some(copy) = copies.iter().find(|guest| listing.online(&guest.node) != Some(false)) else {
        return Ok((None, copies.first().map(|guest| guest.node.clone())));
    };
    let config = run.api().vm_config(&copy.node, copy.vmid, View::Current).await?;
    Ok((
        Some(Template {
            vmid: copy.vmid,
            node: copy.node.clone(),
            config,
        }),
        None,
    ))
}

/// Whether the clone can be made on another node at once: every volume of the template, its cloud-init drive included,
/// and the clone's storage are shared (qemu-server `clone_vm`: `can't clone VM to node 'x' (VM uses local storage)`).
fn shared(template: &Template, storages: &[StorageInfo], clone_storage: Option<&str>) -> bool {
    let is_shared = |name: &str| {
        storages
            .iter()
            .any(|storage| storage.storage.as_str() == name && storage.shared)
    };
    template
        .config
        .drives()
        .iter()
        .filter_map(crate::proxmox::drive::Drive::storage)
        .all(|storage| is_shared(storage.as_str()))
        && clone_storage.is_none_or(is_shared)
}

/// The guest's addresses that the record of another VM has.
fn recorded(run: &HostRun) -> Vec<Recorded> {
    let interfaces = run.machine.network.interfaces.iter();
    let ours: Vec<IpAddr> = interfaces
        .flat_map(|interface| &interface.addresses)
        .map(|cidr| cidr.address)
        .collect();
    let taken = |other: &&Recorded| other.key != run.key && ours.contains(&other.address);
    run.recorded().iter().filter(taken).cloned().collect()
}

/// Whether somebody answers at the guest's SSH port before the guest exists.
async fn stranger(run: &HostRun) -> Option<IpAddr> {
    let machine = &run.machine;
    if !machine.ssh.extra_args.is_empty() {
        return None;
    }
    let address: IpAddr = machine.ssh.host.parse().ok()?;
    let answers = run.shared.remote.answers(&machine.ssh, PROBE).await;
    answers.then_some(address)
}
