//! The workflows under test.

use std::time::Duration;

use futures_util::future::BoxFuture;
use vmwright::engine::host::{Halt, HostRun};
use vmwright::workflow;

use crate::check;
use crate::life::Workflow;
use crate::world::Site;

/// From nothing to complete.
pub struct Provision;

impl Workflow for Provision {
    fn name(&self) -> &'static str {
        "provision"
    }

    fn prepare<'a>(&'a self, _site: &'a Site) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn run<'a>(&'a self, run: &'a HostRun) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move { workflow::provision::provision(run, Duration::ZERO).await.map(|_| ()) })
    }

    fn check(&self, site: &Site) -> Vec<String> {
        check::provisioned(site)
    }
}

/// All of them.
pub const ALL: &[&dyn Workflow] = &[&Provision];
