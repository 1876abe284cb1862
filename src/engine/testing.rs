//! Fakes of the doors, for tests of the engine and of stages: an API and a far side that are scripted by closures and
//! remember what they were asked, a state directory in a temporary folder, and a listener that keeps all events.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::dns::NoDns;
use crate::engine::cluster::Cluster;
use crate::engine::event::{Event, EventKind, Events, Listener};
use crate::engine::host::{HostRun, Mode, RunShared};
use crate::engine::limits::Limits;
use crate::engine::ourselves::SelfProtection;
use crate::guest::probes::MARK;
use crate::guest::remote::{Command, HostKeys, Output, Remote, SshError};
use crate::machine::{Machine, SshTarget};
use crate::proxmox::client::Client;
use crate::proxmox::config::VmConfig;
use crate::proxmox::transport::{ApiRequest, ApiResponse, Transport, TransportError};
use crate::secret::{Redactor, Secret};
use crate::state::StateDir;
use crate::state::record::{Phase, Record};

/// How the fake API answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// 200 with this `data`.
    Data(Value),
    /// Another status, with its reason.
    Status(u16, String),
    /// Nothing was sent.
    NotSent,
    /// Sent, and no answer came.
    Lost,
}

impl Reply {
    pub(crate) fn status(status: u16, reason: &str) -> Self {
        Self::Status(status, reason.to_owned())
    }
}

type Handler = Box<dyn FnMut(&ApiRequest) -> Option<Reply> + Send>;

/// An API of handlers: the one that was added last is asked first, and `None` passes on. What nobody answers is a 501.
#[derive(Default)]
pub(crate) struct Api {
    handlers: Mutex<Vec<Handler>>,
    calls: Mutex<Vec<String>>,
}

impl Api {
    /// Adds a handler.
    pub(crate) fn on(&self, handler: impl FnMut(&ApiRequest) -> Option<Reply> + Send + 'static) {
        self.handlers.lock().unwrap().push(Box::new(handler));
    }

    /// Answers `METHOD /path` always like this.
    pub(crate) fn always(&self, call: &str, reply: Reply) {
        let call = call.to_owned();
        self.on(move |request| (name(request) == call).then(|| reply.clone()));
    }

    /// Answers `METHOD /path` like this once, then passes on.
    pub(crate) fn once(&self, call: &str, reply: Reply) {
        let (call, mut reply) = (call.to_owned(), Some(reply));
        self.on(move |request| if name(request) == call { reply.take() } else { None });
    }

    /// All calls so far, `METHOD /path`, changes with their parameters.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls that change something.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.calls()
            .into_iter()
            .filter(|call| !call.starts_with("GET"))
            .collect()
    }
}

fn name(request: &ApiRequest) -> String {
    format!("{} {}", request.method, request.path)
}

impl Transport for Api {
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        let mut told = name(&request);
        for (key, value) in request.params.iter().filter(|(key, _)| key != "digest") {
            if !told.starts_with("GET") {
                told.push_str(&format!(" {key}={value}"));
            }
        }
        self.calls.lock().unwrap().push(told);
        let reply = self
            .handlers
            .lock()
            .unwrap()
            .iter_mut()
            .rev()
            .find_map(|handler| handler(&request));
        let answer = match reply {
            Some(Reply::Data(data)) => Ok((200, "OK".to_owned(), json!({ "data": data }))),
            Some(Reply::Status(status, reason)) => Ok((status, reason, json!({ "data": null }))),
            Some(Reply::NotSent) => Err(TransportError::NotSent("connection refused".to_owned())),
            Some(Reply::Lost) => Err(TransportError::Unknown("connection reset".to_owned())),
            None => Ok((501, format!("Method '{}' not implemented", name(&request)), json!({}))),
        };
        let answer = answer.map(|(status, reason, body)| ApiResponse {
            status,
            reason,
            body: body.to_string().into_bytes(),
        });
        Box::pin(async move {
            // Every call takes a moment, so that a paused clock goes on.
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer
        })
    }
}

type Script = Box<dyn FnMut(&HostKeys, &Command) -> Result<Output, SshError> + Send>;

/// A far side: a closure answers each command.
pub(crate) struct Far {
    script: Mutex<Script>,
    ran: Mutex<Vec<String>>,
    forgotten: Mutex<u32>,
    scanned: Mutex<Vec<String>>,
}

impl Default for Far {
    fn default() -> Self {
        Self {
            script: Mutex::new(Box::new(|_, _| Err(SshError::NotReachable("nobody".to_owned())))),
            ran: Mutex::default(),
            forgotten: Mutex::default(),
            scanned: Mutex::default(),
        }
    }
}

impl Far {
    pub(crate) fn on(&self, script: impl FnMut(&HostKeys, &Command) -> Result<Output, SshError> + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// The scripts that were sent.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    pub(crate) fn shows(&self, keys: &[&str]) {
        *self.scanned.lock().unwrap() = keys.iter().map(|key| (*key).to_owned()).collect();
    }
}

/// The answer of a probe: the mark and these lines.
pub(crate) fn answer(text: &str) -> Result<Output, SshError> {
    Ok(Output {
        code: Some(0),
        stdout: format!("{MARK}\n{text}\n").into_bytes(),
        stderr: Vec::new(),
    })
}

impl Remote for Far {
    fn run<'a>(
        &'a self,
        _target: &'a SshTarget,
        keys: &'a HostKeys,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, SshError>> {
        self.ran.lock().unwrap().push(command.script.clone());
        let answer = (self.script.lock().unwrap())(keys, command);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer
        })
    }

    fn answers<'a>(&'a self, _target: &'a SshTarget, _within: Duration) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(!self.scanned.lock().unwrap().is_empty()))
    }

    fn forget(&self, _target: &SshTarget) {
        *self.forgotten.lock().unwrap() += 1;
    }

    fn scan<'a>(&'a self, _target: &'a SshTarget) -> BoxFuture<'a, Result<Vec<String>, SshError>> {
        let keys = self.scanned.lock().unwrap().clone();
        Box::pin(std::future::ready(if keys.is_empty() {
            Err(SshError::NotReachable("no key".to_owned()))
        } else {
            Ok(keys)
        }))
    }
}

/// Keeps all events.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<EventKind>>>);

impl Heard {
    pub(crate) fn all(&self) -> Vec<EventKind> {
        self.0.lock().unwrap().clone()
    }

    /// The codes of the warnings.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        self.all()
            .iter()
            .filter_map(|event| match event {
                EventKind::Warning { diagnostic } => Some(diagnostic.code),
                _ => None,
            })
            .collect()
    }

    /// Everything as one text: to search for secrets.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(&self.all()).unwrap()
    }
}

impl Listener for Heard {
    fn on(&self, event: &Event) {
        self.0.lock().unwrap().push(event.kind.clone());
    }
}

/// A host under way between fakes.
pub(crate) struct Fixture {
    pub(crate) run: HostRun,
    pub(crate) api: Arc<Api>,
    pub(crate) far: Arc<Far>,
    pub(crate) heard: Heard,
    pub(crate) cancel: CancellationToken,
    dir: tempfile::TempDir,
}

/// A text that must never be seen.
pub(crate) const SECRET: &str = "hunter2-the-secret";

/// The machine `web-0` of [`crate::machine::testing::good`].
pub(crate) fn machine() -> Machine {
    crate::machine::testing::good().build().unwrap().machine
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of(machine(), Mode::Apply)
    }

    pub(crate) fn of(machine: Machine, mode: Mode) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (api, far, heard) = (Arc::new(Api::default()), Arc::new(Far::default()), Heard::default());
        let cancel = CancellationToken::new();
        let scratch = dir.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let shared = RunShared {
            events: Events::new(Uuid::nil(), vec![Box::new(heard.clone())]),
            mode,
            cancel: cancel.clone(),
            limits: Limits::new(1, 1),
            redactor: Redactor::new([Secret::new(SECRET)]),
            state: Arc::new(StateDir::open(&dir.path().join("state")).unwrap()),
            recorded: std::sync::OnceLock::new(),
            remote: Arc::clone(&far) as Arc<dyn Remote>,
            known_hosts: dir.path().join("known_hosts"),
            templates_dir: None,
            nodes: std::collections::BTreeMap::new(),
            scratch,
            protection: SelfProtection::default(),
        };
        let cluster = Cluster::new(Client::new(Arc::clone(&api) as Arc<dyn Transport>), true);
        let run = HostRun::new(Arc::new(machine), Arc::new(shared), Arc::new(cluster), Arc::new(NoDns));
        Self {
            run,
            api,
            far,
            heard,
            cancel,
            dir,
        }
    }

    /// Takes the VM's lock.
    pub(crate) fn locked(self) -> Self {
        let state = &self.run.shared.state;
        let guard = state.lock(&self.run.key, state.owner(Uuid::nil(), "test")).unwrap();
        self.run.is_locked(guard);
        self
    }

    /// Puts a record of this phase there, as an earlier run would have left it.
    pub(crate) fn recorded(self, phase: Phase) -> Self {
        let machine = &self.run.machine;
        let record = Record::new(
            &machine.cluster.host,
            machine.cluster.port,
            &machine.host,
            &machine.name,
            phase,
        );
        *self.run.record.lock().unwrap() = Some(record);
        self
    }

    /// The phase on disk.
    pub(crate) fn on_disk(&self) -> Option<Phase> {
        let record = self.run.shared.state.read_record(&self.run.key).unwrap();
        record.map(|record| record.phase)
    }

    pub(crate) fn known_hosts(&self) -> &Path {
        &self.run.shared.known_hosts
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A configuration from JSON.
pub(crate) fn config(data: Value) -> VmConfig {
    VmConfig::from_json(data).unwrap()
}

/// A task id of this kind on pve1.
pub(crate) fn upid(kind: &str, id: u32) -> String {
    format!("UPID:pve1:000018D9:0004D0B7:6B0DD8D7:{kind}:{id}:root@pam:")
}
