//! Protection: what vmwright never does to the machine it runs on, nor to one that the inventory declares as protected.
//!
//! ```text
//!   the VM is the one vmwright runs on   stop, restart, removal refused: the run would die half-way
//!   vms_protected: true                  the same: others depend on it (state store, DNS, secrets, git)
//!   --override-protection NAME           told, and done
//! ```
//!
//! Where this machine cannot tell who it is (no UUID, no card of its own), that is said before a VM that may be it is stopped.
//!
//! Only the exact name of the VM overrides. A VM that provision itself is making is nobody's dependency yet: its restart
//! in finalize is refused only if it is us. Every other restart of a declared VM is refused too: that of an adopted one,
//! whatever was done to it since, and that of one whose record does not say that vmwright made it.

use crate::diagnose::{Diagnostic, Exit};
use crate::engine::event::StageName;
use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::engine::ourselves::SelfProtection;
use crate::engine::stage::{Seen, Stage};
use crate::machine::Machine;
use crate::proxmox::config::VmConfig;
use crate::stage::Vm;
use crate::stage::remove::standing::Here;

/// What is about to be done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Stopped and destroyed.
    Remove,
    /// Stopped and started again.
    Restart,
}

impl Deed {
    fn words(self) -> &'static str {
        match self {
            Self::Remove => "removed",
            Self::Restart => "restarted",
        }
    }
}

/// The VM may be stopped.
#[derive(Clone, Debug)]
pub struct Unprotected {
    /// The VM, with what is known of it.
    pub here: Here,
    detail: String,
    _made: (),
}

/// The stage, for a removal.
pub struct Protection {
    /// The VM.
    pub here: Here,
}

impl Stage for Protection {
    const NAME: StageName = StageName::Protection;
    type Evidence = Unprotected;

    async fn observe(&self, run: &HostRun) -> Result<Seen<Unprotected>, Failure> {
        let protection = &run.shared.protection;
        match judge(
            protection,
            &run.machine,
            &self.here.config,
            Deed::Remove,
            run.machine.protected,
        ) {
            Err(diagnostic) => Ok(Seen::Foreign(diagnostic)),
            Ok(overridden) => {
                if let Some(warning) = overridden {
                    run.warn(&warning);
                }
                if let Some(warning) = unknown_self(protection, &run.machine, Deed::Remove) {
                    run.warn(&warning);
                }
                let detail = match protection.ourselves.node(&self.here.cluster) {
                    Some(node) => format!("not this machine, which is node {node}"),
                    None => "not this machine, and not declared as protected".to_owned(),
                };
                Ok(Seen::Done(Unprotected {
                    here: self.here.clone(),
                    detail,
                    _made: (),
                }))
            }
        }
    }

    async fn act(&self, _run: &HostRun) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, unprotected: &Unprotected) -> String {
        unprotected.detail.clone()
    }
}

/// Whether provision may restart the VM; an override is told, and where an adopted VM may be this machine for all that can be
/// seen. One that provision made itself runs nothing yet, so nothing is said of it.
pub fn may_restart(run: &HostRun, vm: &Vm, config: &VmConfig) -> Result<(), Failure> {
    // Provision never restarts a complete VM, so a VM of our own making is restarted before it was ever finished.
    let declared = run.machine.protected && !run.is_of_our_making();
    if !run.is_of_our_making()
        && let Some(warning) = unknown_self(&run.shared.protection, &run.machine, Deed::Restart)
    {
        run.warn(&warning);
    }
    match judge(&run.shared.protection, &run.machine, config, Deed::Restart, declared) {
        Ok(None) => Ok(()),
        Ok(Some(warning)) => {
            tracing::warn!(host = %run.machine.host, %vm, "protection is overridden");
            run.warn(&warning);
            Ok(())
        }
        Err(diagnostic) => Err(Failure::new(*diagnostic)),
    }
}

/// The warning that nobody knows whether the VM is the machine that vmwright runs on; none where it is known, or where the
/// user has decided.
fn unknown_self(protection: &SelfProtection, machine: &Machine, deed: Deed) -> Option<Diagnostic> {
    let name = &machine.name;
    if protection.ourselves.is_known() || protection.overrides.contains(name) {
        return None;
    }
    Some(
        Diagnostic::warning(
            "protection/unknown-self",
            format!(
                "it cannot be told whether vmwright runs on {name}, which will be {}; only addresses were compared",
                deed.words()
            ),
        )
        .rule("this machine's SMBIOS UUID is readable by root only, and a container has no network card of its own")
        .help(
            "set vms_protected: true for the VM that vmwright runs on, or run vmwright as root outside of a container",
        ),
    )
}

/// The rule. A warning is what an override leaves to be told.
pub fn judge(
    protection: &SelfProtection,
    machine: &Machine,
    config: &VmConfig,
    deed: Deed,
    declared: bool,
) -> Result<Option<Diagnostic>, Box<Diagnostic>> {
    let ours = protection.ourselves.matches(machine, config);
    if ours.is_empty() && !declared {
        return Ok(None);
    }
    let name = &machine.name;
    if protection.overrides.contains(name) {
        let mut warning = Diagnostic::warning(
            "protection/overridden",
            format!("{name} is protected, and will be {} all the same", deed.words()),
        )
        .rule(format!("--override-protection {name} was given"))
        .help("leave --override-protection out unless this very VM is meant");
        for note in &ours {
            warning = warning.note(None, note.clone());
        }
        return Ok(Some(warning));
    }
    let diagnostic = if ours.is_empty() {
        Diagnostic::error(
            "protection/declared",
            format!("{name} is declared as protected and will not be {}", deed.words()),
        )
        .key("vms_protected")
        .at(machine.origins.place("vms_protected"))
        .rule("a VM with vms_protected: true is needed by others; nothing was touched")
    } else {
        let mut diagnostic = Diagnostic::error(
            "protection/self",
            format!("vmwright runs on {name}, which will not be {}", deed.words()),
        )
        .rule(
            "a run that stops its own machine dies half-way, and nobody starts the machine again; nothing was touched",
        );
        for note in ours {
            diagnostic = diagnostic.note(None, note);
        }
        diagnostic.help("run the same command from another machine that has this state directory")
    };
    Err(Box::new(
        diagnostic
            .help(format!("if this very VM is meant: --override-protection {name}"))
            .exit(Exit::Refused),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::ourselves::Ourselves;
    use crate::engine::testing::{config, machine};

    fn verdict(ours: bool, declared: bool, overrides: &[&str]) -> Result<Option<&'static str>, &'static str> {
        let protection = SelfProtection {
            ourselves: Ourselves {
                macs: ["BC:24:11:00:00:01".parse().unwrap()].into(),
                ..Ourselves::default()
            },
            overrides: overrides.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mac = if ours { "BC:24:11:00:00:01" } else { "BC:24:11:00:00:02" };
        let config = config(json!({"net0": format!("virtio={mac},bridge=vmbr0")}));
        match judge(&protection, &machine(), &config, Deed::Remove, declared) {
            Ok(warning) => Ok(warning.map(|warning| warning.code)),
            Err(diagnostic) => {
                assert_eq!(diagnostic.exit, Exit::Refused);
                Err(diagnostic.code)
            }
        }
    }

    #[test]
    fn a_machine_that_does_not_know_itself_says_so() {
        let warned = |ourselves: Ourselves, overrides: &[&str]| {
            let protection = SelfProtection {
                ourselves,
                overrides: overrides.iter().map(|name| (*name).to_owned()).collect(),
            };
            unknown_self(&protection, &machine(), Deed::Remove).map(|warning| warning.code)
        };
        let unknown = Ourselves {
            macs: ["BC:24:11:00:00:01".parse().unwrap()].into(),
            addresses: ["10.0.0.9".parse().unwrap()].into(),
            ..Ourselves::default()
        };
        let by_uuid = Ourselves {
            uuid: Some("u".to_owned()),
            ..Ourselves::default()
        };
        let by_card = Ourselves {
            own_card: true,
            ..unknown.clone()
        };
        let name = machine().name;
        assert_eq!(warned(unknown.clone(), &[]), Some("protection/unknown-self"));
        assert_eq!(warned(unknown.clone(), &["another"]), Some("protection/unknown-self"));
        assert_eq!(warned(unknown, &[&name]), None, "the user has decided");
        assert_eq!(warned(by_uuid, &[]), None);
        assert_eq!(warned(by_card, &[]), None);
    }

    #[test]
    fn only_the_vms_own_name_overrides() {
        let name = machine().name;
        assert_eq!(verdict(false, false, &[]), Ok(None));
        assert_eq!(verdict(true, false, &[]), Err("protection/self"));
        assert_eq!(verdict(true, true, &[]), Err("protection/self"));
        assert_eq!(verdict(false, true, &[]), Err("protection/declared"));
        assert_eq!(verdict(true, true, &["another"]), Err("protection/self"));
        assert_eq!(
            verdict(true, false, &["another", &name]),
            Ok(Some("protection/overridden"))
        );
        assert_eq!(verdict(false, true, &[&name]), Ok(Some("protection/overridden")));
        assert_eq!(verdict(false, false, &[&name]), Ok(None), "nothing to override");
    }
}
