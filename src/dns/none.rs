//! No DNS: the name is published by somebody else, or not at all.

use std::net::IpAddr;

use futures_util::future::{BoxFuture, ready};

use super::{Added, DnsError, Observation, Provider, Record, Removed};

/// A provider that knows no record and writes none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDns;

impl Provider for NoDns {
    fn label(&self) -> String {
        "no DNS".to_owned()
    }

    fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Record>, DnsError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn find_address(&self, _: IpAddr) -> BoxFuture<'_, Result<Vec<Record>, DnsError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn observe<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Observation, DnsError>> {
        Box::pin(ready(Ok(Observation::default())))
    }

    fn add<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Added, DnsError>> {
        Box::pin(ready(Ok(Added::NotPublished)))
    }

    fn remove<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Removed, DnsError>> {
        Box::pin(ready(Ok(Removed::NotPublished)))
    }
}
