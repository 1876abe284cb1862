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

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

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

/// Status and body; no body at all for 204.
struct Answer(u16, Value);

impl Answer {
    fn error(status: u16, key: &str, message: &str, hint: impl Into<Value>) -> Self {
        Self(
            status,
            json!({"error": {"key": key, "message": message, "hint": hint.into()}}),
        )
    }

    fn unauthorized() -> Self {
        Self::error(401, "unauthorized", "Unauthorized", Value::Null)
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

    fn route(&self, method: &Method, path: &str, sid: Option<&str>, body: &[u8]) -> Answer {
        let segments: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let not_found = || Answer::error(404, "not_found", "Not found", path);
        let Some(("api", rest)) = words.split_first().map(|(first, rest)| (*first, rest)) else {
            return not_found();
        };
        if rest == ["auth"] {
            return self.auth(method, sid, body);
        }
        if self.seat_of(sid).is_none() {
            return Answer::unauthorized();
        }
        match (method, rest) {
            (&Method::GET, ["auth", "sessions"]) => self.sessions(sid),
            (&Method::GET, ["config", ..]) => self.config(&rest[1..]).unwrap_or_else(not_found),
            (&Method::PUT, ["config", "dns", list, item]) => self.change(list, item, true).unwrap_or_else(not_found),
            (&Method::DELETE, ["config", "dns", list, item]) => {
                self.change(list, item, false).unwrap_or_else(not_found)
            }
            (&Method::PUT, ["config", ..]) => Answer::error(
                400,
                "bad_request",
                "Invalid path depth",
                "Use, e.g., PUT /api/config/dns/upstreams/127.0.0.1 to add \"127.0.0.1\" to config.dns.upstreams",
            ),
            (&Method::POST, ["action", "restartdns"]) => {
                self.restart();
                Answer(200, json!({"status": "success"}))
            }
            _ => not_found(),
        }
    }

    /// The seat of a session id; seat 0 stands for everyone where no password is set.
    fn seat_of(&self, sid: Option<&str>) -> Option<usize> {
        if self.options.password.is_empty() {
            return Some(0);
        }
        let now = self.clock.now_ms();
        let until = now + self.options.session_seconds * 1000;
        let mut state = self.state();
        let (seat, known) = state
            .seats
            .iter_mut()
            .find(|(_, seat)| Some(seat.sid.as_str()) == sid)?;
        if known.valid_until_ms <= now {
            return None;
        }
        known.valid_until_ms = until;
        Some(*seat)
    }

    fn session(&self, seat: Option<usize>, message: &str) -> Value {
        let now = self.clock.now_ms();
        let none = json!({"session": {"valid": false, "totp": false, "sid": null, "validity": -1, "message": message}});
        let state = self.state();
        match seat.and_then(|seat| state.seats.get(&seat)) {
            Some(seat) => json!({"session": {
                "valid": true, "totp": false, "sid": seat.sid, "csrf": seat.csrf,
                "validity": seat.valid_until_ms.saturating_sub(now) / 1000, "message": message,
            }}),
            None => none,
        }
    }

    fn auth(&self, method: &Method, sid: Option<&str>, body: &[u8]) -> Answer {
        if self.options.password.is_empty() && method != Method::DELETE {
            return Answer(
                200,
                json!({"session": {
                    "valid": true, "totp": false, "sid": null, "validity": -1, "message": "no password set",
                }}),
            );
        }
        match *method {
            Method::POST => self.log_in(body),
            Method::GET => match self.seat_of(sid) {
                Some(seat) => Answer(200, self.session(Some(seat), "correct password")),
                None => Answer(
                    401,
                    self.session(
                        None,
                        if sid.is_some() {
                            "session unknown"
                        } else {
                            "no SID provided"
                        },
                    ),
                ),
            },
            Method::DELETE => match self.seat_of(sid).and_then(|seat| self.state().seats.remove(&seat)) {
                Some(_) => Answer(204, Value::Null),
                None => Answer(
                    401,
                    self.session(
                        None,
                        if sid.is_some() {
                            "session unknown"
                        } else {
                            "no SID provided"
                        },
                    ),
                ),
            },
            _ => Answer::error(404, "not_found", "Not found", "/api/auth"),
        }
    }

    fn log_in(&self, body: &[u8]) -> Answer {
        let bad = |message: &str| Answer::error(400, "bad_request", message, Value::Null);
        let Ok(payload) = serde_json::from_slice::<Value>(body) else {
            return bad("No password found in JSON payload");
        };
        let password = match payload.get("password") {
            None => return bad("No password found in JSON payload"),
            Some(Value::String(password)) => password,
            Some(_) => return bad("Field password has to be of type 'string'"),
        };
        if *password != self.options.password {
            return Answer(401, self.session(None, "password incorrect"));
        }
        let now = self.clock.now_ms();
        let mut state = self.state();
        state.seats.retain(|_, seat| seat.valid_until_ms > now);
        let Some(seat) = (0..self.options.max_sessions).find(|seat| !state.seats.contains_key(seat)) else {
            return Answer::error(
                429,
                "api_seats_exceeded",
                "API seats exceeded",
                "increase webserver.api.max_sessions",
            );
        };
        let token = || format!("{}=", uuid::Uuid::new_v4().simple());
        let fresh = Seat {
            sid: token(),
            csrf: token(),
            valid_until_ms: now + self.options.session_seconds * 1000,
        };
        state.seats.insert(seat, fresh);
        state.opened += 1;
        drop(state);
        Answer(200, self.session(Some(seat), "password correct"))
    }

    fn sessions(&self, sid: Option<&str>) -> Answer {
        let now = self.clock.now_ms();
        let state = self.state();
        let list: Vec<Value> = state
            .seats
            .iter()
            .map(|(id, seat)| {
                json!({
                    "id": id, "current_session": Some(seat.sid.as_str()) == sid, "valid": seat.valid_until_ms > now,
                    "valid_until": seat.valid_until_ms / 1000, "app": false, "cli": false,
                })
            })
            .collect();
        Answer(200, json!({"sessions": list}))
    }

    fn config(&self, path: &[&str]) -> Option<Answer> {
        let records = self.state().records.clone();
        let hosts = json!(records.hosts);
        let cnames = json!(records.cnames);
        let dns = match path {
            [] | ["dns"] => json!({"hosts": hosts, "cnameRecords": cnames}),
            ["dns", "hosts"] => json!({"hosts": hosts}),
            ["dns", "cnameRecords"] => json!({"cnameRecords": cnames}),
            _ => return None,
        };
        Some(Answer(200, json!({"config": {"dns": dns}})))
    }

    /// Adds or removes one item of a list; none: no such list.
    fn change(&self, list: &str, item: &str, add: bool) -> Option<Answer> {
        let mut state = self.state();
        let (items, problem) = match list {
            "hosts" => (&mut state.records.hosts, invalid_host(item)),
            "cnameRecords" => (&mut state.records.cnames, invalid_cname(item)),
            _ => return None,
        };
        let at = items.iter().position(|known| known == item);
        match (add, at) {
            (true, Some(_)) => {
                return Some(Answer::error(
                    400,
                    "bad_request",
                    "Item already present",
                    "Uniqueness of items is enforced",
                ));
            }
            (true, None) => {
                if let Some(problem) = problem {
                    let hint = format!("dns.{list}[{}]: {problem}", items.len());
                    return Some(Answer::error(400, "bad_request", "Invalid value", hint));
                }
                items.push(item.to_owned());
            }
            (false, Some(at)) => {
                items.remove(at);
            }
            (false, None) => return Some(Answer(404, json!({}))),
        }
        drop(state);
        if let Err(error) = self.keep() {
            return Some(Answer::error(
                500,
                "internal_error",
                "Internal server error",
                error.to_string(),
            ));
        }
        if list == "cnameRecords" || self.options.restart_for_hosts {
            self.restart();
        }
        Some(if add {
            Answer(201, json!({}))
        } else {
            Answer(204, Value::Null)
        })
    }

    fn restart(&self) {
        self.state().silent_until_ms = self.clock.now_ms() + self.options.restart_gap_ms;
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

/// FTL: validate_dns_hosts.
fn invalid_host(item: &str) -> Option<String> {
    let mut words = item.split_whitespace();
    let Some(address) = words.next() else {
        return Some(format!("found no first element (\"{item}\")"));
    };
    if address.parse::<std::net::IpAddr>().is_err() {
        return Some(format!("neither a valid IPv4 nor IPv6 address (\"{address}\")"));
    }
    let names: Vec<&str> = words.take_while(|word| !word.starts_with('#')).collect();
    if names.is_empty() {
        return Some(format!("entry does not have at least one hostname (\"{item}\")"));
    }
    let label =
        |l: &str| !l.is_empty() && l.len() < 64 && l.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let bad = names.iter().find(|name| !name.split('.').all(label));
    bad.map(|name| format!("invalid hostname (\"{name}\")"))
}

/// FTL: validate_dns_cnames.
fn invalid_cname(item: &str) -> Option<String> {
    let parts: Vec<&str> = item.split(',').collect();
    if let Some(at) = parts.iter().position(|part| part.is_empty()) {
        return Some(format!("contains an empty string at position {at}"));
    }
    (parts.len() < 2).then(|| "not a valid CNAME definition (too few elements)".to_owned())
}

/// Percent-decoded; a wrong escape stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let high = bytes.get(at + 1).copied().and_then(hex);
        let low = bytes.get(at + 2).copied().and_then(hex);
        match (byte, high, low) {
            (b'%', Some(high), Some(low)) => {
                out.push(high * 16 + low);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pihole(options: Options) -> Inner {
        Inner {
            options,
            clock: Clock::start(0),
            state: Mutex::default(),
        }
    }

    fn options() -> Options {
        Options::new(SocketAddr::from(([127, 0, 0, 1], 0)), "right")
    }

    fn login(inner: &Inner) -> String {
        let Answer(status, body) = inner.route(&Method::POST, "/api/auth", None, br#"{"password":"right"}"#);
        assert_eq!((status, &body["session"]["message"]), (200, &json!("password correct")));
        body["session"]["sid"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn sessions_are_counted_and_limited() {
        let inner = pihole(Options {
            max_sessions: 2,
            ..options()
        });
        let wrong = inner.route(&Method::POST, "/api/auth", None, br#"{"password":"wrong"}"#);
        assert_eq!(
            (wrong.0, wrong.1),
            (
                401,
                json!({"session": {"valid": false, "totp": false, "sid": null, "validity": -1, "message": "password incorrect"}})
            )
        );
        assert_eq!(inner.route(&Method::POST, "/api/auth", None, b"{}").0, 400);
        let first = login(&inner);
        let _second = login(&inner);
        let full = inner.route(&Method::POST, "/api/auth", None, br#"{"password":"right"}"#);
        assert_eq!((full.0, &full.1["error"]["key"]), (429, &json!("api_seats_exceeded")));
        assert_eq!(inner.route(&Method::DELETE, "/api/auth", Some(&first), b"").0, 204);
        assert_eq!(inner.route(&Method::DELETE, "/api/auth", Some(&first), b"").0, 401);
        assert_eq!(inner.state().seats.len(), 1);
        login(&inner);
        let unknown = inner.route(&Method::GET, "/api/config/dns/hosts", Some(&first), b"");
        assert_eq!((unknown.0, &unknown.1["error"]["key"]), (401, &json!("unauthorized")));
    }

    #[tokio::test]
    async fn records_are_added_once_and_removed_once() {
        let inner = pihole(options());
        let sid = login(&inner);
        let call = |method: Method, path: &str| inner.route(&method, path, Some(&sid), b"");
        let item = "/api/config/dns/hosts/10.0.0.9%20web-0.example.net";
        assert_eq!(call(Method::PUT, item).0, 201);
        let again = call(Method::PUT, item);
        assert_eq!(
            (again.0, &again.1["error"]["message"]),
            (400, &json!("Item already present"))
        );
        let listed = call(Method::GET, "/api/config/dns/hosts");
        assert_eq!(
            listed.1,
            json!({"config": {"dns": {"hosts": ["10.0.0.9 web-0.example.net"]}}})
        );
        assert_eq!(call(Method::DELETE, item).0, 204);
        assert_eq!(call(Method::DELETE, item).0, 404);
        let bad = call(Method::PUT, "/api/config/dns/hosts/10.0.0%20x");
        let hint = "dns.hosts[0]: neither a valid IPv4 nor IPv6 address (\"10.0.0\")";
        assert_eq!((bad.0, &bad.1["error"]["hint"]), (400, &json!(hint)));
        assert_eq!(
            call(
                Method::PUT,
                "/api/config/dns/cnameRecords/www.example.net,web-0.example.net"
            )
            .0,
            201
        );
        assert_eq!(call(Method::PUT, "/api/config/dns/cnameRecords/alone").0, 400);
        assert_eq!(call(Method::GET, "/api/config/dns/nothing").0, 404);
        assert_eq!(call(Method::PUT, "/api/config/dns").0, 400);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_cnames_restarts_and_sessions_expire() {
        let inner = pihole(Options {
            restart_gap_ms: 100,
            ..options()
        });
        let sid = login(&inner);
        inner.route(&Method::PUT, "/api/config/dns/hosts/10.0.0.9%20a", Some(&sid), b"");
        assert!(!inner.silent());
        inner.route(&Method::PUT, "/api/config/dns/cnameRecords/b,a", Some(&sid), b"");
        assert!(inner.silent());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(!inner.silent());
        assert!(inner.seat_of(Some(&sid)).is_some(), "the session outlives the restart");
        tokio::time::advance(Duration::from_secs(1801)).await;
        assert!(inner.seat_of(Some(&sid)).is_none());
    }

    /// Over a socket, by hand: the shapes on the wire.
    #[tokio::test]
    async fn it_speaks_http_and_keeps_its_records() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let dir = tempfile::tempdir().unwrap();
        let open = Options {
            file: Some(dir.path().join("pihole.json")),
            password: String::new(),
            ..options()
        };
        let door = start(open.clone(), Clock::start(0)).await.unwrap();
        let ask = async |door: &Door, request: &str| {
            let mut socket = TcpStream::connect(door.address()).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            socket.read_to_string(&mut text).await.unwrap();
            text
        };
        let put = "PUT /api/config/dns/hosts/10.0.0.9%20a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let created = ask(&door, put).await;
        assert!(
            created.starts_with("HTTP/1.1 201 Created\r\n") && created.contains("\"took\""),
            "{created}"
        );
        let fault = PiholeFault {
            method: None,
            containing: None,
            skip: 0,
            times: Some(1),
            effect: PiholeEffect::DropBefore,
        };
        door.set_faults(vec![fault]);
        assert_eq!(ask(&door, put).await, "");
        let delete = put.replace("PUT", "DELETE");
        let deleted = ask(&door, &delete.replace("%20a", "%20b")).await;
        assert!(deleted.starts_with("HTTP/1.1 404"), "{deleted}");
        assert_eq!(
            door.log().iter().map(|l| l.status).collect::<Vec<_>>(),
            [Some(201), None, Some(404)]
        );
        door.stop().await;
        let again = start(open, Clock::start(0)).await.unwrap();
        assert_eq!(again.records().hosts, ["10.0.0.9 a"]);
        let gone = ask(&again, &delete).await;
        assert!(
            gone.starts_with("HTTP/1.1 204 No Content\r\n") && gone.ends_with("\r\n\r\n"),
            "{gone}"
        );
        assert!(again.records().hosts.is_empty());
    }
}
