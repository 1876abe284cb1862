//! The doors of a run to the world: one client a cluster and identity, one DNS provider a server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Problems;
use crate::diagnose::Diagnostic;
use crate::dns::{NoDns, Pihole, Provider};
use crate::engine::cluster::Cluster;
use crate::engine::failure::Failure;
use crate::machine::{Auth, Dns, Machine, Trust};
use crate::proxmox::client::Client;
use crate::proxmox::https::HttpsTransport;

/// The doors of a run: one client a cluster and identity, one DNS provider a server.
#[derive(Default)]
pub struct Doors {
    clusters: RefCell<BTreeMap<String, Arc<Cluster>>>,
    dns: RefCell<BTreeMap<String, Arc<dyn Provider>>>,
}

impl Doors {
    /// The cluster of a machine.
    pub fn cluster(&self, machine: &Machine) -> Result<Arc<Cluster>, Problems> {
        let cluster = &machine.cluster;
        let user = match &cluster.auth {
            Auth::Token { user, id, .. } => format!("{user}!{id}"),
            Auth::Password { user, .. } => user.clone(),
        };
        let key = format!(
            "{user}@{}:{} {:?} {}",
            cluster.host, cluster.port, cluster.trust, cluster.assume_full_visibility
        );
        if let Some(known) = self.clusters.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let transport = HttpsTransport::new(cluster).map_err(|error| vec![*Failure::from(error).diagnostic])?;
        let made = Arc::new(Cluster::new(
            Client::new(Arc::new(transport)),
            cluster.assume_full_visibility,
        ));
        self.clusters.borrow_mut().insert(key, Arc::clone(&made));
        Ok(made)
    }

    /// The DNS server of a machine.
    pub fn dns(&self, machine: &Machine) -> Result<Arc<dyn Provider>, Problems> {
        let (key, made): (String, Arc<dyn Provider>) = match &machine.dns {
            Dns::None => (String::new(), Arc::new(NoDns)),
            Dns::Pihole { url, password } => {
                let key = format!("{url} {}", password.expose());
                if let Some(known) = self.dns.borrow().get(&key) {
                    return Ok(Arc::clone(known));
                }
                let provider = Pihole::new(url, password.clone()).map_err(|error| {
                    vec![
                        Diagnostic::error("dns/setup", error.to_string())
                            .host(&machine.host)
                            .key("pihole_api_host"),
                    ]
                })?;
                (key, Arc::new(provider))
            }
        };
        self.dns.borrow_mut().insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// Verification that is switched off is told at every run.
pub fn insecure(machines: &[Machine]) -> Vec<Diagnostic> {
    let mut told: Vec<Diagnostic> = Vec::new();
    for machine in machines
        .iter()
        .filter(|machine| machine.cluster.trust == Trust::Insecure)
    {
        let warning = Diagnostic::warning(
            "cli/insecure",
            format!(
                "the certificate of {}:{} is not verified",
                machine.cluster.host, machine.cluster.port
            ),
        )
        .key("vms_pve_tls_insecure")
        .at(machine.origins.place("vms_pve_tls_insecure"))
        .rule("whoever is in between can read the token and change every call")
        .help("set global_proxmox_api_fingerprint or global_proxmox_api_ca_file instead");
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    told
}
