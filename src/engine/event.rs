//! What the engine tells: typed events, the only output of a run.
//!
//! Terminal progress, NDJSON, the journal and the recap only read them. An event never holds a secret: texts from outside
//! (task logs, remote errors) pass the run's redactor before they are put in.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::diagnose::{Diagnostic, Severity};

/// The stages of the workflows, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageName {
    /// Takes the VM's lock.
    Lock,
    /// Looks for the VM in the cluster and in the records.
    Discover,
    /// Decides whose the VM is and what is left to do.
    Ownership,
    /// Checks everything that creation needs.
    Readiness,
    /// Publishes the guest's name.
    Dns,
    /// Delivers the cloud-init documents.
    Snippets,
    /// Clones the template.
    Clone,
    /// Moves the VM to its node.
    Migrate,
    /// Sets the declared hardware.
    Hardware,
    /// Starts the VM until a command runs on the guest.
    Start,
    /// Waits for cloud-init's verdict.
    CloudInit,
    /// Writes the guest's host keys into known_hosts.
    Trust,
    /// Removes the cloud-init drive and proves it with a restart.
    Finalize,
    /// Sees to it that the VM is not the one vmwright runs on, nor one that is declared as protected.
    Protection,
    /// Looks for everything that Proxmox would refuse the removal for.
    Obstacles,
    /// Stops the VM.
    Stop,
    /// Destroys the VM.
    Destroy,
    /// Takes back what stood outside the VM: DNS, snippets, known_hosts, the record.
    Cleanup,
}

impl StageName {
    /// The stages of provision, in order.
    pub const PROVISION: &'static [Self] = &[
        Self::Lock,
        Self::Discover,
        Self::Ownership,
        Self::Readiness,
        Self::Dns,
        Self::Snippets,
        Self::Clone,
        Self::Migrate,
        Self::Hardware,
        Self::Start,
        Self::CloudInit,
        Self::Trust,
        Self::Finalize,
    ];

    /// The stages of remove, in order.
    pub const REMOVE: &'static [Self] = &[
        Self::Lock,
        Self::Discover,
        Self::Ownership,
        Self::Protection,
        Self::Obstacles,
        Self::Stop,
        Self::Destroy,
        Self::Cleanup,
    ];

    /// The name as users see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Discover => "discover",
            Self::Ownership => "ownership",
            Self::Readiness => "readiness",
            Self::Dns => "dns",
            Self::Snippets => "snippets",
            Self::Clone => "clone",
            Self::Migrate => "migrate",
            Self::Hardware => "hardware",
            Self::Start => "start",
            Self::CloudInit => "cloud-init",
            Self::Trust => "trust",
            Self::Finalize => "finalize",
            Self::Protection => "protection",
            Self::Obstacles => "obstacles",
            Self::Stop => "stop",
            Self::Destroy => "destroy",
            Self::Cleanup => "cleanup",
        }
    }
}

impl std::fmt::Display for StageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// One change that a stage makes, or would make: what, from what, to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What changes: `cores`, `A record web-0.example.org`, `clone`.
    pub what: String,
    /// What is there now; `None` if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What is to be there; `None` if it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Change {
    /// Something new.
    pub fn new(what: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            from: None,
            to: Some(to.into()),
        }
    }

    /// Something that becomes different.
    pub fn set(what: impl Into<String>, from: Option<String>, to: Option<String>) -> Self {
        Self {
            what: what.into(),
            from,
            to,
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{}: {from} -> {to}", self.what),
            (None, Some(to)) => write!(f, "{}: {to}", self.what),
            (Some(from), None) => write!(f, "{}: {from} -> (removed)", self.what),
            (None, None) => f.write_str(&self.what),
        }
    }
}

/// How a host ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything asked for is done and something was changed.
    Changed,
    /// Everything was already right; nothing was written.
    Unchanged,
    /// The VM is gone, and with it what stood outside it.
    Removed,
    /// There was nothing to remove.
    Absent,
    /// A plan was made; nothing was written.
    Planned,
    /// A stage failed.
    Failed,
    /// Another run holds the lock.
    Locked,
    /// Refused before any write: ownership, ambiguity.
    Refused,
    /// Stopped by a signal at a safe point.
    Interrupted,
    /// Not started, since an earlier host failed (`--fail-fast`) or the run was interrupted.
    Skipped,
}

/// A diagnostic as data.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// `error` or `warning`.
    pub severity: &'static str,
    /// The stable code.
    pub code: &'static str,
    /// What.
    pub message: String,
    /// The variable or key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Further facts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub help: Vec<String>,
}

impl From<&Diagnostic> for Told {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self {
            severity: match diagnostic.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            code: diagnostic.code,
            message: diagnostic.message.clone(),
            key: diagnostic.key.clone(),
            place: diagnostic.place.as_ref().map(ToString::to_string),
            rule: diagnostic.rule.clone(),
            notes: diagnostic
                .notes
                .iter()
                .map(|(place, text)| match place {
                    Some(place) => format!("{place}: {text}"),
                    None => text.clone(),
                })
                .collect(),
            help: diagnostic.help.clone(),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EventKind {
    /// A run begins.
    RunStarted {
        /// The verb, `provision`.
        command: String,
        /// vmwright's version.
        version: &'static str,
        /// The hosts, in order.
        hosts: Vec<String>,
    },
    /// A host begins.
    HostStarted {
        /// `vms_name`.
        name: String,
    },
    /// A stage begins.
    StageStarted {
        /// Which.
        stage: StageName,
    },
    /// A stage waits for the world.
    Waiting {
        /// Which.
        stage: StageName,
        /// What for.
        what: String,
    },
    /// A stage makes a change (or, in a plan, would make it).
    Changing {
        /// Which.
        stage: StageName,
        /// The changes.
        changes: Vec<Change>,
        /// True in a plan: nothing is sent.
        planned: bool,
    },
    /// A task was started at the API.
    Task {
        /// Which stage.
        stage: StageName,
        /// Its id.
        upid: String,
        /// What it does.
        what: String,
    },
    /// A call that certainly did nothing is made again.
    Retrying {
        /// Which stage.
        stage: StageName,
        /// Why.
        why: String,
        /// How long until then, in milliseconds.
        delay_ms: u64,
    },
    /// A stage is done.
    StageDone {
        /// Which.
        stage: StageName,
        /// Whether it changed anything.
        changed: bool,
        /// The evidence, in words.
        detail: String,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// Something to tell that does not stop the host.
    Warning {
        /// What.
        diagnostic: Told,
    },
    /// A host has ended.
    HostDone {
        /// How.
        outcome: Outcome,
        /// `vms_name`.
        name: String,
        /// The VM's number, when known.
        #[serde(skip_serializing_if = "Option::is_none")]
        vmid: Option<u32>,
        /// Its node, when known.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The guest's primary address, when known.
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// The stages that changed something.
        changed: Vec<StageName>,
        /// The stage that failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        stage: Option<StageName>,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        diagnostic: Option<Told>,
        /// The command that goes on from here.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<String>,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// The run has ended.
    RunDone {
        /// The exit code.
        exit: u8,
        /// How long it took, in milliseconds.
        ms: u64,
    },
}

impl EventKind {
    /// Every text in it that is made of values or of answers from outside; names of hosts and ids are none.
    pub fn for_each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Waiting { what, .. } | Self::Task { what, .. } => change(what),
            Self::Changing { changes, .. } => {
                for one in changes {
                    change(&mut one.what);
                    one.from.iter_mut().chain(&mut one.to).for_each(&mut *change);
                }
            }
            Self::Retrying { why, .. } => change(why),
            Self::StageDone { detail, .. } => change(detail),
            // Told already with secrets masked.
            Self::RunStarted { .. }
            | Self::HostStarted { .. }
            | Self::StageStarted { .. }
            | Self::Warning { .. }
            | Self::HostDone { .. }
            | Self::RunDone { .. } => {}
        }
    }
}

/// One event.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// When, on this machine's clock.
    pub time: Timestamp,
    /// The run.
    pub run: Uuid,
    /// The host that it is about (`inventory_hostname`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A reader of events.
pub trait Listener: Send + Sync {
    /// Takes one event in. It must not block for long and cannot stop the run.
    fn on(&self, event: &Event);
}

/// Where the engine puts its events.
#[derive(Clone)]
pub struct Events {
    run: Uuid,
    listeners: Arc<Vec<Box<dyn Listener>>>,
}

impl Events {
    /// Events of this run, for these readers.
    pub fn new(run: Uuid, listeners: Vec<Box<dyn Listener>>) -> Self {
        Self {
            run,
            listeners: Arc::new(listeners),
        }
    }

    /// The run's id.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// Tells everybody.
    pub fn emit(&self, host: Option<&str>, kind: EventKind) {
        let event = Event {
            time: Timestamp::now(),
            run: self.run,
            host: host.map(str::to_owned),
            kind,
        };
        for listener in self.listeners.iter() {
            listener.on(&event);
        }
    }
}
