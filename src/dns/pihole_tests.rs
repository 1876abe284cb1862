//! The client against a small server that behaves like Pi-hole v6.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Added, DnsError, Observation, Pihole, Provider, Record, Removed};
use crate::secret::Secret;

/// What the server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Reading the list fails.
    ListFails,
    /// A write is done, and answered 400.
    Says400,
    /// A write is done, and the connection is cut.
    CutsAfterWrite,
    /// A write is accepted, and not done.
    Forgets,
    /// No session is free.
    NoSeats,
    /// Not a Pi-hole.
    Stranger,
    /// No password is set: valid, without a session id.
    Open,
}

struct State {
    hosts: Vec<String>,
    sessions: BTreeSet<String>,
    opened: usize,
    writes: usize,
    fault: Fault,
    requests: Vec<String>,
}

#[derive(Clone)]
struct FakePihole {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl FakePihole {
    async fn start(hosts: &[&str], fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let state = State {
            hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            sessions: BTreeSet::new(),
            opened: 0,
            writes: 0,
            fault,
            requests: vec![],
        };
        let fake = Self {
            state: Arc::new(Mutex::new(state)),
            address: listener.local_addr().expect("an address"),
        };
        let server = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| server.clone().answer(request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        fake
    }

    fn client(&self, password: &str) -> Pihole {
        Pihole::new(&format!("http://{}", self.address), Secret::new(password)).expect("a client")
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        let sid = parts
            .headers
            .get("sid")
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned);
        let mut state = self.state.lock().expect("unpoisoned");
        let path = parts.uri.path().to_owned();
        state.requests.push(format!("{} {}", parts.method, parts.uri));
        let (status, body) = state.answer(&parts.method, &path, sid.as_deref(), &body);
        if state.fault == Fault::CutsAfterWrite && matches!(parts.method, Method::PUT) {
            return Err(std::io::Error::other("cut"));
        }
        let mut response = Response::new(Full::new(Bytes::from(match &body {
            Value::Null => String::new(),
            body => body.to_string(),
        })));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        Ok(response)
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, sid: Option<&str>, body: &[u8]) -> (u16, Value) {
        let error = |key: &str, text: &str| json!({"error": {"key": key, "message": text, "hint": null}, "took": 0.1});
        if self.fault == Fault::Stranger {
            return (404, Value::Null);
        }
        if path == "/api/auth" {
            return match *method {
                Method::POST => self.login(body),
                Method::DELETE if self.sessions.remove(sid.unwrap_or_default()) => (204, Value::Null),
                _ => (401, error("unauthorized", "Unauthorized")),
            };
        }
        if self.fault != Fault::Open && !self.sessions.contains(sid.unwrap_or_default()) {
            return (401, error("unauthorized", "Unauthorized"));
        }
        let Some(item) = path.strip_prefix("/api/config/dns/hosts") else {
            return (404, error("not_found", "Not found"));
        };
        let item = item.trim_start_matches('/').replace("%20", " ");
        match *method {
            Method::GET if self.fault == Fault::ListFails => (500, error("internal", "database locked")),
            Method::GET => (200, json!({"config": {"dns": {"hosts": self.hosts}}})),
            Method::PUT if self.hosts.contains(&item) => (400, error("bad_request", "Item already present")),
            Method::PUT => {
                self.writes += 1;
                if self.fault != Fault::Forgets {
                    self.hosts.push(item);
                }
                match self.fault {
                    Fault::Says400 => (400, error("bad_request", "Item already present")),
                    _ => (201, json!({"took": 0.1})),
                }
            }
            Method::DELETE => {
                self.writes += 1;
                let before = self.hosts.len();
                self.hosts.retain(|h| *h != item);
                if self.hosts.len() < before {
                    (204, Value::Null)
                } else {
                    (404, error("not_found", "Item not found"))
                }
            }
            _ => (405, Value::Null),
        }
    }

    fn login(&mut self, body: &[u8]) -> (u16, Value) {
        if self.fault == Fault::NoSeats {
            let hint = "increase webserver.api.max_sessions";
            return (
                429,
                json!({"error": {"key": "api_seats_exceeded", "message": "API seats exceeded", "hint": hint}}),
            );
        }
        if self.fault == Fault::Open {
            return (
                200,
                json!({"session": {"valid": true, "sid": null, "message": "no password set"}}),
            );
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if body["password"] != "pihole-password" {
            return (
                401,
                json!({"session": {"valid": false, "sid": null, "validity": -1, "message": "password incorrect"}}),
            );
        }
        self.opened += 1;
        let sid = format!("sid-{}=", self.opened);
        self.sessions.insert(sid.clone());
        (
            200,
            json!({"session": {"valid": true, "sid": sid, "validity": 1800, "message": "password correct"}}),
        )
    }
}

fn record(name: &str, address: &str) -> Record {
    Record::new(name, address.parse().expect("an address"))
}

fn web1() -> Record {
    record("web1.lan", "10.0.0.5")
}

/// Runs one thing against a server, and looks that every session is closed and no password was in a URL.
async fn with<T>(hosts: &[&str], fault: Fault, work: impl AsyncFnOnce(&Pihole) -> T) -> (T, Vec<String>, usize) {
    let fake = FakePihole::start(hosts, fault).await;
    let result = work(&fake.client("pihole-password")).await;
    let state = fake.state.lock().expect("unpoisoned");
    assert!(state.sessions.is_empty(), "open sessions: {:?}", state.sessions);
    assert!(
        !state
            .requests
            .iter()
            .any(|r| r.contains("password") || r.contains("sid-")),
        "{:?}",
        state.requests
    );
    (result, state.hosts.clone(), state.writes)
}

#[tokio::test]
async fn a_new_record_is_added_once() {
    let (result, hosts, writes) = with(&["10.0.0.9 other.lan"], Fault::None, async |p| {
        let first = p.add(&web1()).await.expect("added");
        (
            first,
            p.add(&web1()).await.expect("unchanged"),
            p.lookup("WEB1.lan.").await.expect("found"),
        )
    })
    .await;
    assert_eq!(result.0, Added::Added { same_address: vec![] });
    assert_eq!(result.1, Added::Unchanged { same_address: vec![] });
    assert_eq!(result.2, [web1()]);
    assert_eq!(
        (hosts, writes),
        (vec!["10.0.0.9 other.lan".to_owned(), "10.0.0.5 web1.lan".to_owned()], 1)
    );
}

#[tokio::test]
async fn a_name_that_points_elsewhere_is_not_overwritten() {
    let (result, hosts, writes) = with(&["10.0.0.6 WEB1.lan"], Fault::None, async |p| {
        (
            p.add(&web1()).await.expect("an answer"),
            p.observe(&web1()).await.expect("seen"),
        )
    })
    .await;
    assert_eq!(
        result.0,
        Added::Conflict {
            same_name: vec![record("web1.lan", "10.0.0.6")]
        }
    );
    assert_eq!(result.1.same_name, [record("web1.lan", "10.0.0.6")]);
    assert_eq!((hosts, writes), (vec!["10.0.0.6 WEB1.lan".to_owned()], 0));
}

#[tokio::test]
async fn the_address_under_another_name_is_reported() {
    let (result, hosts, _) = with(&["10.0.0.5 alias.lan"], Fault::None, async |p| {
        (
            p.find_address("10.0.0.5".parse().expect("an address"))
                .await
                .expect("found"),
            p.add(&web1()).await.expect("added"),
        )
    })
    .await;
    assert_eq!(result.0, [record("alias.lan", "10.0.0.5")]);
    assert_eq!(
        result.1,
        Added::Added {
            same_address: vec![record("alias.lan", "10.0.0.5")]
        }
    );
    assert_eq!(hosts.len(), 2);
}

#[tokio::test]
async fn only_the_exact_record_is_removed() {
    let hosts = ["10.0.0.5 web1.lan", "10.0.0.6 web1.lan", "10.0.0.5 alias.lan"];
    let (result, hosts, writes) = with(&hosts, Fault::None, async |p| {
        (
            p.remove(&web1()).await.expect("removed"),
            p.remove(&web1()).await.expect("gone already"),
        )
    })
    .await;
    assert_eq!(result, (Removed::Removed, Removed::Absent));
    assert_eq!(
        (hosts, writes),
        (vec!["10.0.0.6 web1.lan".to_owned(), "10.0.0.5 alias.lan".to_owned()], 1)
    );
}

#[tokio::test]
async fn an_entry_with_further_names_is_somebody_elses() {
    let (result, _, writes) = with(&["10.0.0.5 web1.lan www.lan"], Fault::None, async |p| {
        p.remove(&web1()).await
    })
    .await;
    assert_eq!(
        result,
        Ok(Removed::Shared {
            entry: "10.0.0.5 web1.lan www.lan".to_owned()
        })
    );
    assert_eq!(writes, 0);
}

#[tokio::test]
async fn reading_back_decides_not_the_answer() {
    for fault in [Fault::Says400, Fault::CutsAfterWrite] {
        let (result, hosts, _) = with(&[], fault, async |p| p.add(&web1()).await).await;
        assert_eq!(result, Ok(Added::Added { same_address: vec![] }));
        assert_eq!(hosts, ["10.0.0.5 web1.lan"]);
    }
    let (result, ..) = with(&[], Fault::Forgets, async |p| p.add(&web1()).await).await;
    assert!(
        matches!(&result, Err(DnsError::Unknown { action, .. }) if action.contains("web1.lan")),
        "{result:?}"
    );
}

#[tokio::test]
async fn the_session_is_closed_after_a_failure_too() {
    let (result, ..) = with(&[], Fault::ListFails, async |p| p.add(&web1()).await).await;
    let Err(DnsError::Refused {
        status: 500, detail, ..
    }) = result
    else {
        panic!("{result:?}")
    };
    assert_eq!(detail, "database locked");
}

#[tokio::test]
async fn a_future_dropped_in_the_middle_closes_its_session() {
    let fake = FakePihole::start(&[], Fault::None).await;
    let client = fake.client("pihole-password");
    let wanted = web1();
    let mut add = client.add(&wanted);
    // Polled until the session is open, then dropped.
    while fake.state.lock().expect("unpoisoned").sessions.is_empty() {
        let _ = futures_util::future::select(&mut add, Box::pin(tokio::task::yield_now())).await;
    }
    // One more round, so that the client has the answer.
    while fake.state.lock().expect("unpoisoned").requests.len() < 2 {
        let _ = futures_util::future::select(&mut add, Box::pin(tokio::task::yield_now())).await;
    }
    drop(add);
    while !fake.state.lock().expect("unpoisoned").sessions.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn refusals_of_the_login_are_told_apart() {
    let fake = FakePihole::start(&[], Fault::None).await;
    let error = fake.client("wrong").add(&web1()).await.expect_err("denied");
    assert!(
        matches!(&error, DnsError::Denied { detail, .. } if detail == "password incorrect"),
        "{error}"
    );
    let (error, ..) = with(&[], Fault::NoSeats, async |p| p.add(&web1()).await).await;
    let Err(DnsError::Busy { detail, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(detail, "API seats exceeded (increase webserver.api.max_sessions)");
    let (error, ..) = with(&[], Fault::Stranger, async |p| p.add(&web1()).await).await;
    assert!(matches!(error, Err(DnsError::Unreadable { .. })), "{error:?}");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    let gone = Pihole::new(&format!("http://127.0.0.1:{port}"), Secret::new("hunter2-password")).expect("a client");
    let error = gone.add(&web1()).await.expect_err("refused");
    assert!(matches!(error, DnsError::Unreachable { .. }), "{error:?}");
    assert!(!error.to_string().contains("hunter2"));
}

#[tokio::test]
async fn a_pihole_without_a_password_needs_no_session() {
    let (result, ..) = with(&["10.0.0.5 web1.lan"], Fault::Open, async |p| p.observe(&web1()).await).await;
    assert_eq!(
        result,
        Ok(Observation {
            present: true,
            ..Observation::default()
        })
    );
}
