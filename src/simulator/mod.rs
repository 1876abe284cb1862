//! A Proxmox cluster in one process, on loopback: an HTTPS API, guests and nodes behind SSH, a Pi-hole.
//!
//! It is written against the API's facts and knows nothing of the client, so that one misreading cannot hide in both.
//!
//! ```text
//!   HTTPS (http)      \
//!   direct (handle)   -+-> api: who may, schema, effect --> world: nodes, storages, VMs, tasks, guests
//!   SSH (ssh, shell)  /        ^ faults, request log          |  advanced lazily to the clock's time
//!   Pi-hole (pihole) /                                        `-> world.json, nodes/<node>/..., in the directory
//! ```
//!
//! The happy path: [`Simulator::start`] makes a world (from a [`spec::WorldSpec`], or the one that the directory holds)
//! and opens the doors; [`Simulator::stop`] closes them and saves. What a test looks at or changes goes through
//! [`Handle::with`]; what shall go wrong through [`Handle::faults`] and the [`guest::GuestBehaviour`] of a VM's name.
//!
//! Failures: a directory that another process uses, a saved world of another version, an address that is taken; each a
//! [`SimulatorError`].

pub(crate) mod access;
mod api;
mod build;
pub mod clock;
mod cloudinit;
mod fail;
pub mod fault;
pub mod guest;
mod hardware;
mod http;
mod jobs;
mod keep;
pub mod pihole;
mod props;
pub mod rootfs;
pub mod schema;
pub mod shell;
pub mod spec;
pub mod ssh;
mod start;
mod storage;
pub mod task;
mod tls;
pub mod vm;
pub mod world;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

pub use self::api::{Request, Response};
pub use self::fail::ApiError;
pub use self::keep::KeepError;
pub use self::start::{Options, Simulator, SimulatorError, free_loopback_net};
pub use self::storage::Volume;

use self::clock::{Clock, Durations};
use self::fault::{Doom, Faults, Verdict};
use self::world::World;

/// Requests that are remembered.
const REMEMBERED: usize = 100_000;

/// A request that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// When, in the cluster's milliseconds.
    pub at_ms: u64,
    /// How long until the answer.
    pub took_ms: u64,
    /// `GET`
    pub method: String,
    /// The path without `/api2/json`, as it was sent.
    pub path: String,
    /// The parameters; a password is masked.
    pub params: Vec<(String, String)>,
    /// The status; none: the connection was cut.
    pub status: Option<u16>,
    /// The reason phrase.
    pub reason: String,
}

/// A request whose connection a fault has cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

#[derive(Debug)]
struct Inner {
    world: Mutex<World>,
    clock: Clock,
    faults: Faults,
    requests: Mutex<VecDeque<RequestRecord>>,
    warnings: Mutex<Vec<String>>,
    bell: keep::Bell,
    /// Whether every change is saved before anybody hears of it.
    at_once: bool,
    changes: watch::Sender<u64>,
    dir: PathBuf,
}

/// The running cluster; clones are the same one.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Inner>);

impl Handle {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        if self.0.at_once {
            if let Err(error) = keep::save(self.dir(), &self.serialised()) {
                tracing::warn!("simulator: {error}");
            }
        } else {
            self.0.bell.ring();
        }
        self.0.changes.send_modify(|n| *n += 1);
    }

    /// Uses the world, advanced to now. It is saved soon after, and the doors look at it again.
    pub fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        let result = {
            let mut world = self.world();
            world.advance(self.0.clock.now_ms());
            f(&mut world)
        };
        self.changed();
        result
    }

    /// Looks at the world, advanced to now.
    pub fn look<R>(&self, f: impl FnOnce(&World) -> R) -> R {
        let (result, happened) = {
            let mut world = self.world();
            let happened = world.advance(self.0.clock.now_ms());
            (f(&world), happened)
        };
        if happened {
            self.changed();
        }
        result
    }

    /// Now, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    /// The cluster's clock.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// How long things take.
    pub fn durations(&self) -> Durations {
        self.world().durations.clone()
    }

    /// The world's directory.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The directory that is `/` of a node.
    pub fn node_root(&self, node: &str) -> PathBuf {
        self.0.dir.join("nodes").join(node)
    }

    /// The scripted faults of the API.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// The next task of a type (for a VM, if named) that nobody asked for through a faulty request ends like this: the
    /// start after a reboot, for instance.
    pub fn fail_next_task(&self, kind: &str, vmid: Option<u32>, end: &str) {
        self.with(|world| {
            world.doomed.push(Doom {
                kind: Some(kind.to_owned()),
                id: vmid.map(|v| v.to_string()),
                upid: None,
                end: end.to_owned(),
            });
        });
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.records().iter().cloned().collect()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.records().clear();
    }

    /// What a person should read: addresses of guests that cannot be bound, for instance.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<RequestRecord>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request, as the HTTPS door does.
    ///
    /// # Errors
    ///
    /// A fault cut the connection.
    pub async fn handle(&self, request: Request) -> Result<Response, Dropped> {
        let arrived = self.now_ms();
        let short = request.path.replacen("//", "/", 1);
        let short = short
            .strip_prefix("/api2/json")
            .or_else(|| short.strip_prefix("/api2/extjs"))
            .unwrap_or(&short);
        let judged = self
            .0
            .faults
            .judge(&request.method, &props::percent_decode(short, false));
        self.pause(judged.delay_ms).await;
        let mut response = match &judged.verdict {
            Verdict::DropBefore => None,
            Verdict::Answer(..) => self.look(|world| api::verdict_response(world, &judged.verdict)),
            Verdict::Pass | Verdict::DropAfter => Some(self.execute(&request, arrived, judged.fail_task.clone()).await),
        };
        if judged.verdict == Verdict::DropAfter {
            response = None;
        }
        self.pause(judged.delay_answer_ms).await;
        self.remember(&request, short, arrived, response.as_ref());
        response.ok_or(Dropped)
    }

    async fn pause(&self, ms: u64) {
        if ms > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        }
    }

    async fn execute(&self, request: &Request, arrived: u64, fail_task: Option<String>) -> Response {
        let prepared = match self.look(|world| api::prepare(world, request)) {
            Ok(prepared) => prepared,
            Err((response, delay)) => {
                self.pause(delay).await;
                return response;
            }
        };
        let reads = request.method == "GET";
        loop {
            let (answer, until, changed) = {
                let mut world = self.world();
                let happened = world.advance(self.0.clock.now_ms());
                let answer = api::answer(&mut world, &prepared, arrived);
                if let (api::Answer::Send(response, _), Some(end)) = (&answer, &fail_task)
                    && let Some(upid) = response.data().as_str().filter(|text| text.starts_with("UPID:"))
                {
                    world.doomed.push(Doom {
                        kind: None,
                        id: None,
                        upid: Some(upid.to_owned()),
                        end: end.clone(),
                    });
                }
                (answer, world.next_event(), happened || !reads)
            };
            if changed {
                self.changed();
            }
            match answer {
                api::Answer::Send(response, delay) => {
                    self.pause(delay).await;
                    return response;
                }
                api::Answer::Again(deadline) => {
                    self.0
                        .clock
                        .sleep_until(until.unwrap_or(deadline).min(deadline).max(self.now_ms() + 1))
                        .await;
                }
                api::Answer::Follow { upid, until_ms } => return self.follow(&upid, until_ms, prepared.extjs).await,
            }
        }
    }

    /// Waits for a task: null when it ended well in time, an error when not, else its UPID.
    async fn follow(&self, upid: &str, until_ms: u64, extjs: bool) -> Response {
        loop {
            let (exit, next) = self.look(|world| {
                let task = world.task(upid);
                (task.and_then(|t| t.exit.clone()), task.map_or(until_ms, |t| t.due_ms))
            });
            match exit.as_deref() {
                Some("OK") => return api::data_response(Value::Null, None, extjs),
                Some(exit) if exit.starts_with("WARNINGS") => return api::data_response(Value::Null, None, extjs),
                Some(exit) => {
                    let vmid = upid.split(':').nth(6).unwrap_or_default();
                    let error = ApiError::failed(format!("failed to update VM {vmid}: {exit}"));
                    return self.look(|world| api::error_response(world, &error, extjs));
                }
                None if self.now_ms() >= until_ms => return api::data_response(Value::from(upid), None, extjs),
                None => {
                    self.0
                        .clock
                        .sleep_until(next.min(until_ms).max(self.now_ms() + 1))
                        .await
                }
            }
        }
    }

    fn remember(&self, request: &Request, short: &str, arrived: u64, response: Option<&Response>) {
        let params = api::parse_given(request).unwrap_or_default();
        let shown = |key: &str, value: &Value| match value {
            _ if matches!(key, "password" | "cipassword") => "**********".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut records = self.records();
        if records.len() >= REMEMBERED {
            records.pop_front();
        }
        records.push_back(RequestRecord {
            at_ms: arrived,
            took_ms: self.now_ms().saturating_sub(arrived),
            method: request.method.clone(),
            path: short.to_owned(),
            params: params.iter().map(|(k, v)| (k.clone(), shown(k, v))).collect(),
            status: response.map(|r| r.status),
            reason: response.map(|r| r.reason.clone()).unwrap_or_default(),
        });
    }
}

impl ssh::Machines for Handle {
    fn clock(&self) -> Clock {
        self.0.clock
    }

    fn durations(&self) -> Durations {
        Self::durations(self)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn next_event(&self) -> Option<u64> {
        self.world().next_event()
    }

    fn node_online(&self, name: &str) -> bool {
        self.world().node_online(name)
    }

    fn each_guest(&self, look: &mut dyn FnMut(u32, &mut guest::Guest)) {
        let happened = {
            let mut world = self.world();
            let now = self.0.clock.now_ms();
            let happened = world.advance(now);
            for (vmid, vm) in &mut world.vms {
                if !vm.is_template() {
                    look(*vmid, &mut vm.guest);
                }
            }
            happened
        };
        if happened {
            self.changed();
        }
    }

    fn change_guest(&self, vmid: u32, change: &mut dyn FnMut(&mut guest::Guest)) -> bool {
        self.with(|world| match world.guest_mut(vmid) {
            Some(guest) => {
                change(guest);
                true
            }
            None => false,
        })
    }

    fn warn(&self, text: String) {
        let mut warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&text) {
            tracing::warn!("simulator: {text}");
            warnings.push(text);
        }
    }
}
