//! A Pi-hole v6 API on loopback: sessions, local DNS records, the error shapes of FTL.
//!
//! ```text
//!   POST /api/auth -> session (sid) -> GET | PUT | DELETE /api/config/dns/{hosts,cnameRecords}[/<item>] -> DELETE /api/auth
//!                                            `-- a change of CNAMEs restarts FTL: a gap without answers
//! ```
//!
//! Failures as in FTL: 401 without or with an unknown session, 401 for a wrong password, 429 when all seats are taken, 400
//! for an item that is there already or that is no valid record, 404 for one that is not there. Records are kept in a file;
//! sessions outlive a restart of FTL. Source: pi-hole/FTL v6.4.1, src/api/auth.c, src/api/config.c, src/config/validator.c.
//! Not here: two-factor tokens, application passwords, rate limits, TLS.

mod api;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::api::Answer;
use super::clock::Clock;

/// How the Pi-hole is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub bind: SocketAddr,
    /// Where its records are kept; none: only in memory.
    pub file: Option<PathBuf>,
    /// The password; empty: no authentication.
    pub password: String,
    /// `webserver.api.max_sessions`.
    pub max_sessions: usize,
    /// `webserver.session.timeout`, in seconds.
    pub session_seconds: u64,
    /// How long no answer comes after a change of CNAMEs (FTL restarts for those).
    pub restart_gap_ms: u64,
    /// Whether a change of hosts has that gap too. FTL only rewrites its hosts file.
    pub restart_for_hosts: bool,
}

impl Options {
    /// FTL's defaults and no gap.
    pub fn new(bind: SocketAddr, password: impl Into<String>) -> Self {
        Self {
            bind,
            file: None,
            password: password.into(),
            max_sessions: 16,
            session_seconds: 1800,
            restart_gap_ms: 0,
            restart_for_hosts: false,
        }
    }
}

/// What a fault does to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PiholeEffect {
    /// The connection is lost before anything is done.
    DropBefore,
    /// It is done, but the answer is lost.
    DropAfter,
    /// Nothing is done; this is the answer.
    Answer {
        /// HTTP status.
        status: u16,
        /// Body.
        body: String,
    },
    /// The answer comes so many milliseconds later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
}

/// A scripted fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PiholeFault {
    /// Only requests with this method.
    #[serde(default)]
    pub method: Option<String>,
    /// Only requests whose path has this part.
    #[serde(default)]
    pub containing: Option<String>,
    /// So many fitting requests pass first.
    #[serde(default)]
    pub skip: u32,
    /// It happens so often; none: always.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens.
    pub effect: PiholeEffect,
}

/// The records, as in pihole.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Records {
    /// `dns.hosts`: `IP NAME [NAME..]`.
    pub hosts: Vec<String>,
    /// `dns.cnameRecords`: `alias,target[,ttl]`.
    pub cnames: Vec<String>,
}

/// A request that was answered, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Method.
    pub method: String,
    /// Path, as it was sent.
    pub path: String,
    /// Status; none: the connection was dropped.
    pub status: Option<u16>,
}

#[derive(Clone, Debug)]
struct Seat {
    sid: String,
    csrf: String,
    valid_until_ms: u64,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    seats: BTreeMap<usize, Seat>,
    opened: usize,
    faults: Vec<PiholeFault>,
    log: Vec<LoggedRequest>,
    silent_until_ms: u64,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    clock: Clock,
    state: Mutex<State>,
}

/// The running Pi-hole. Dropping it stops it.
#[derive(Debug)]
pub struct Door {
    inner: Arc<Inner>,
    address: SocketAddr,
    stop: CancellationToken,
}

/// Starts it. Must be called inside a tokio runtime.
///
/// # Errors
/// The address cannot be bound, or the records' file is not readable.
pub async fn start(options: Options, clock: Clock) -> std::io::Result<Door> {
    let records = match options.file.as_ref().map(std::fs::read) {
        Some(Ok(bytes)) => serde_json::from_slice(&bytes).map_err(std::io::Error::other)?,
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Some(Err(_)) | None => Records::default(),
    };
    let listener = TcpListener::bind(options.bind).await?;
    let address = listener.local_addr()?;
    let state = State {
        records,
        ..State::default()
    };
    let inner = Arc::new(Inner {
        options,
        clock,
        state: Mutex::new(state),
    });
    let stop = CancellationToken::new();
    tokio::spawn(accept(Arc::clone(&inner), listener, stop.clone()));
    Ok(Door { inner, address, stop })
}

impl Door {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The records now.
    pub fn records(&self) -> Records {
        self.inner.state().records.clone()
    }

    /// Replaces the records, as someone else's change.
    ///
    /// # Errors
    /// They cannot be kept.
    pub fn set_records(&self, records: Records) -> std::io::Result<()> {
        self.inner.state().records = records;
        self.inner.keep()
    }

    /// How many sessions are open: 0 once every client closed its own.
    pub fn open_sessions(&self) -> usize {
        let now = self.inner.clock.now_ms();
        self.inner
            .state()
            .seats
            .values()
            .filter(|seat| seat.valid_until_ms > now)
            .count()
    }

    /// How many sessions were ever opened.
    pub fn opened_sessions(&self) -> usize {
        self.inner.state().opened
    }

    /// Replaces the scripted faults.
    pub fn set_faults(&self, faults: Vec<PiholeFault>) {
        self.inner.state().faults = faults;
    }

    /// Every request so far.
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.inner.state().log.clone()
    }

    /// Stops it: open connections end with their next answer.
    pub async fn stop(self) {
        self.stop.cancel();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(inner: Arc<Inner>, listener: TcpListener, stop: CancellationToken) {
    loop {
        let socket = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = socket else {
            // Out of file descriptors, perhaps: not at once again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        tokio::spawn(serve(Arc::clone(&inner), socket, stop.child_token()));
    }
}

/// A request that gets no answer: hyper then closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("dropped on purpose")]
struct Dropped;

async fn serve(inner: Arc<Inner>, socket: TcpStream, stop: CancellationToken) {
    if inner.silent() {
        return;
    }
    let service = service_fn(move |request| {
        let inner = Arc::clone(&inner);
        async move { inner.answer(request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // How it ended is the client's to see.
        _ended = connection => {}
        () = stop.cancelled() => {}
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> bool {
        self.state().silent_until_ms > self.clock.now_ms()
    }

    fn keep(&self) -> std::io::Result<()> {
        let Some(file) = &self.options.file else { return Ok(()) };
        let text = serde_json::to_vec_pretty(&self.state().records)?;
        let temporary = file.with_extension("new");
        std::fs::write(&temporary, text)?;
        std::fs::rename(temporary, file)
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Dropped> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let method = parts.method.clone();
        let log = |status| {
            let method = method.to_string();
            let path = path.clone();
            self.state().log.push(LoggedRequest { method, path, status });
        };
        if self.silent() {
            log(None);
            return Err(Dropped);
        }
        let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
            log(None);
            return Err(Dropped);
        };
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let sid = header("sid").or_else(|| header("x-ftl-sid")).map(str::to_owned);
        let effect = self.state().strike(method.as_str(), &path);
        let answer = match &effect {
            Some(PiholeEffect::DropBefore) => {
                log(None);
                return Err(Dropped);
            }
            Some(PiholeEffect::Answer { status, body }) => {
                log(Some(*status));
                return Ok(response(*status, body.clone()));
            }
            Some(PiholeEffect::Delay { ms }) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                self.route(&parts.method, &path, sid.as_deref(), &body)
            }
            Some(PiholeEffect::DropAfter) | None => self.route(&parts.method, &path, sid.as_deref(), &body),
        };
        if effect == Some(PiholeEffect::DropAfter) {
            log(None);
            return Err(Dropped);
        }
        log(Some(answer.0));
        let Answer(status, mut body) = answer;
        if let Some(object) = body.as_object_mut() {
            object.insert("took".to_owned(), json!(0.000_42));
        }
        let text = if status == 204 { String::new() } else { body.to_string() };
        Ok(response(status, text))
    }
}

impl State {
    /// The fault that strikes a request; counted.
    fn strike(&mut self, method: &str, path: &str) -> Option<PiholeEffect> {
        for fault in &mut self.faults {
            let fits = fault.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(method))
                && fault.containing.as_deref().is_none_or(|part| path.contains(part));
            if !fits || fault.times == Some(0) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            return Some(fault.effect.clone());
        }
        None
    }
}

fn response(status: u16, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status != 204 {
        let json = hyper::header::HeaderValue::from_static("application/json; charset=utf-8");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    }
    response
}
