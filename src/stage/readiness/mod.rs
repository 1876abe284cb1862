//! Readiness: everything that creation needs is there. All problems at once, none after the first write.
//!
//! ```text
//!   listing + target node ---> template (name, kind, cloud-init drive, boot disk; the copy nearest the target)
//!                        \---> node online, quorum
//!   storages, bridges   ----> content types, room, bridges present
//!   permissions         ----> every privilege that the run will use
//!   the guest's address ----> nobody answers there yet
//! ```
//!
//! The facts are gathered here; the rules are pure functions in `rules`.

mod facts;
mod grant;
mod rules;

use crate::diagnose::{Diagnostic, Severity};
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::stage::{Seen, Stage};
use crate::machine::SshTarget;
use crate::proxmox::config::VmConfig;
use crate::proxmox::ids::{NodeName, VmId};
use crate::stage::ownership::Owned;

pub use facts::Facts;

/// The template, as it is.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its number.
    pub vmid: VmId,
    /// The node it is on.
    pub node: NodeName,
    /// Its configuration.
    pub config: VmConfig,
}

/// Everything that creation needs is there.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The template; `None` when the VM was cloned before.
    pub template: Option<Template>,
    /// The node to clone to directly, when all of the template's volumes are on shared storage.
    pub clone_target: Option<NodeName>,
    /// How to log in to the destination node, when snippets go over SSH.
    pub node_ssh: Option<SshTarget>,
    /// The snippet folder on the destination node; empty where the documents are written to `vms_snippets_path`.
    pub snippet_dir: String,
    _made: (),
}

/// The stage.
pub struct Readiness<'o> {
    /// The VM, if it was cloned before: then the template is not needed any more.
    pub owned: Option<&'o Owned>,
}

impl Stage for Readiness<'_> {
    const NAME: StageName = StageName::Readiness;
    type Evidence = Ready;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Ready>, Failure> {
        let facts = facts::gather(run, self.owned).await?;
        let (warnings, problems): (Vec<Diagnostic>, Vec<Diagnostic>) = rules::check(&run.machine, &facts)
            .into_iter()
            .partition(|diagnostic| diagnostic.severity == Severity::Warning);
        for warning in &warnings {
            run.warn(warning);
        }
        match problems.len() {
            0 => Ok(Seen::Done(ready(run, facts))),
            _ => Err(Failure::new(together(&run.machine.host, problems))),
        }
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, ready: &Ready) -> String {
        match &ready.template {
            Some(template) => format!("template {} on {}", template.vmid, template.node),
            None => "everything needed is there".to_owned(),
        }
    }
}

fn ready(run: &HostRun, facts: Facts) -> Ready {
    let clone_target = facts
        .template
        .as_ref()
        .filter(|template| template.node != run.machine.node && facts.template_is_shared)
        .map(|_| run.machine.node.clone());
    Ready {
        template: facts.template,
        clone_target,
        node_ssh: facts.node_ssh,
        snippet_dir: facts.snippet_dir.unwrap_or_default(),
        _made: (),
    }
}

/// One diagnostic for all problems: a single one as it is, several as a list.
fn together(host: &str, mut problems: Vec<Diagnostic>) -> Diagnostic {
    if problems.len() == 1
        && let Some(only) = problems.pop()
    {
        return only;
    }
    let mut all = Diagnostic::error(
        "readiness/several",
        format!("{} things are not ready for {host}", problems.len()),
    );
    for problem in problems {
        let mut text = format!("[{}] {}", problem.code, problem.message);
        if let Some(rule) = &problem.rule {
            text.push_str("; ");
            text.push_str(rule);
        }
        all = all.note(problem.place.clone(), text);
        for help in problem.help {
            if !all.help.contains(&help) {
                all = all.help(help);
            }
        }
    }
    all.rule("nothing was written")
}

#[cfg(test)]
impl Ready {
    /// As if everything had been found ready for a clone of this template on its own node.
    pub(crate) fn of(template: Template) -> Self {
        Self {
            template: Some(template),
            clone_target: None,
            node_ssh: None,
            snippet_dir: "/var/lib/vz/snippets".to_owned(),
            _made: (),
        }
    }
}
