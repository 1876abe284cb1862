//! The workflows under test. A new one is an `impl` here and a line in [`ALL`].

use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use vmwright::engine::host::{Halt, HostRun};
use vmwright::workflow;

use crate::check;
use crate::life::{Workflow, clean, live};
use crate::switch::{Plan, Switch};
use crate::world::Site;

/// All of them.
pub const ALL: &[&dyn Workflow] = &[
    &Provision,
    &Remove {
        provisioned: Provisioned::Wholly,
    },
];

/// The removal of VMs whose provision died half-way. Not all of its points end well yet.
pub const HALF_MADE: &[&dyn Workflow] = &[
    &Remove {
        provisioned: Provisioned::Partly("late POST"),
    },
    &Remove {
        provisioned: Provisioned::Partly("after POST /nodes/pve-1/qemu/103/status/start"),
    },
];

/// From nothing to complete.
pub struct Provision;

impl Workflow for Provision {
    fn name(&self) -> String {
        "provision".to_owned()
    }

    fn prepare<'a>(&'a self, _site: &'a Site) -> LocalBoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn run<'a>(&'a self, run: &'a HostRun) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move { workflow::provision::provision(run, Duration::ZERO).await.map(|_| ()) })
    }

    fn check(&self, site: &Site) -> Vec<String> {
        check::provisioned(&site.scene())
    }
}

/// How far the VM came that is removed.
pub enum Provisioned {
    /// It is complete.
    Wholly,
    /// Its provision died at the first boundary of this name.
    Partly(&'static str),
}

/// From a VM to nothing.
pub struct Remove {
    /// How far the VM came.
    pub provisioned: Provisioned,
}

impl Workflow for Remove {
    fn name(&self) -> String {
        match self.provisioned {
            Provisioned::Wholly => "remove".to_owned(),
            Provisioned::Partly(at) => format!("remove of a VM whose provision died {at}"),
        }
    }

    fn prepare<'a>(&'a self, site: &'a Site) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            match self.provisioned {
                Provisioned::Wholly => assert_eq!(clean(site, &Provision).await.failure(), None),
                Provisioned::Partly(at) => {
                    let switch = Switch::new(Plan::DieAt(at));
                    live(site, &Provision, &switch).await;
                    assert!(switch.is_dead(), "no boundary {at}");
                }
            }
        })
    }

    fn run<'a>(&'a self, run: &'a HostRun) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move { workflow::remove::remove(run, Duration::ZERO, false).await.map(|_| ()) })
    }

    fn check(&self, site: &Site) -> Vec<String> {
        check::removed(&site.scene())
    }
}
