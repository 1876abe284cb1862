//! The variables of one host: precedence applied, templates evaluated when they are asked for.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use super::groups::Vars;
use super::template::{Failure, Run};
use super::trace::Step;
use super::value::Value;
use super::{Core, Inventory};
use crate::diagnose::{Diagnostic, Place};

/// The variables of one host.
///
/// A scope remembers what it evaluated, also of other hosts that were asked for by `hostvars`. Make one per host, use it
/// for all variables of that host, and drop it.
#[derive(Debug)]
pub struct Scope<'i> {
    session: Arc<Session>,
    host: Arc<HostScope>,
    inventory: PhantomData<&'i Inventory>,
}

/// What the evaluations of one scope share.
#[derive(Debug)]
pub(crate) struct Session {
    pub core: Arc<Core>,
    hosts: Mutex<HashMap<usize, Arc<HostScope>>>,
}

/// The variables of one host within a session.
#[derive(Debug)]
pub(crate) struct HostScope {
    pub host: usize,
    pub vars: Arc<Vars>,
    /// Results of templates, by their text.
    pub results: Mutex<HashMap<Arc<str>, Arc<Value>>>,
}

impl Session {
    pub fn host(&self, host: usize) -> Arc<HostScope> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let scope = hosts.entry(host).or_insert_with(|| {
            Arc::new(HostScope {
                host,
                vars: self.core.vars_of(host),
                results: Mutex::default(),
            })
        });
        Arc::clone(scope)
    }
}

impl<'i> Scope<'i> {
    pub(crate) fn new(core: &Arc<Core>, host: Option<usize>) -> Self {
        let session = Arc::new(Session {
            core: Arc::clone(core),
            hosts: Mutex::default(),
        });
        let host = match host {
            Some(host) => session.host(host),
            None => Arc::new(HostScope {
                host: usize::MAX,
                vars: Arc::new(core.layers.extra.clone()),
                results: Mutex::default(),
            }),
        };
        Self {
            session,
            host,
            inventory: PhantomData,
        }
    }

    /// The value of a variable, templates evaluated all the way down; `None` where there is none, or it is `omit`.
    ///
    /// Nested values keep their own places; the result of a template has the place of the template.
    ///
    /// # Errors
    ///
    /// `inventory/undefined-variable`, `inventory/template-loop`, `inventory/template-syntax`, `inventory/template`,
    /// `inventory/template-bound`, `inventory/template-refused`, and the codes of the vault for encrypted values; each
    /// names the host, the variable, its place and the chain of templates that led there.
    pub fn get(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        let run = Run::new(&self.session);
        let result = match self.host.vars.get(name) {
            Some(raw) => run.resolve(&self.host, raw, name),
            None => run.magic_value(&self.host, name),
        };
        result.map_err(|failure| self.tell(failure, Some(name)))
    }

    /// The value as the sources say it: templates unevaluated, `!vault` texts encrypted. Magic variables have none.
    pub fn raw(&self, name: &str) -> Option<&Value> {
        self.host.vars.get(name).map(|value| &**value)
    }

    /// Evaluates a raw value of this host, and tells the steps of its templates.
    pub(crate) fn traced(&self, raw: &Value, label: &str) -> (Result<Option<Value>, Diagnostic>, Vec<Step>) {
        // What was evaluated before is not evaluated again, and would have no steps.
        let core = &self.session.core;
        let fresh = Scope::new(core, Some(self.host.host).filter(|host| *host < core.graph.hosts.len()));
        let run = Run::new(&fresh.session);
        run.trace.start();
        let value = run.resolve(&fresh.host, raw, label);
        let value = value.map_err(|failure| self.tell(failure, Some(label)));
        (value, run.trace.steps())
    }

    /// The names of all variables, without the magic ones, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.host.vars.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// Evaluates a text as if it were the value of a variable of this host that stands at `place`.
    ///
    /// # Errors
    ///
    /// As [`Scope::get`].
    pub fn render(&self, template: &str, place: &Place) -> Result<Value, Diagnostic> {
        let run = Run::new(&self.session);
        let raw = Value::text(template, place.clone());
        match run.resolve(&self.host, &raw, "") {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Ok(Value::new(super::value::Data::Null, place.clone())),
            Err(failure) => Err(self.tell(failure, None)),
        }
    }

    fn tell(&self, failure: Failure, name: Option<&str>) -> Diagnostic {
        let mut fault = match failure {
            Failure::Undefined(fault) | Failure::Fault(fault) => *fault,
        };
        if fault.host.is_none()
            && let Some(host) = self.session.core.graph.hosts.get(self.host.host)
        {
            fault.host = Some(host.name.to_string());
        }
        if fault.key.is_none() {
            fault.key = name.map(str::to_owned);
        }
        fault
    }
}
