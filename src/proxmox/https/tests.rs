//! The real client against a small real HTTPS server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as StdMutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::machine::Trust;
use crate::proxmox::client::Client;
use crate::proxmox::error::Kind;
use crate::proxmox::vm::View;

/// What the server does with a request.
#[derive(Clone)]
enum Play {
    Answer(u16, &'static str, &'static str),
    /// Closes the connection instead of answering.
    Drop,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
struct Arrived {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Arrived {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

struct Server {
    port: u16,
    ca: std::path::PathBuf,
    leaf: [u8; 32],
    arrived: Arc<StdMutex<Vec<Arrived>>>,
    _dir: TempDir,
}

impl Server {
    /// A server with a certificate from a CA of its own; it plays its script and then answers `{"data":null}`.
    async fn start(script: impl IntoIterator<Item = Play>) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Proxmox names each cluster's CA by a random UUID.
        ca.distinguished_name
            .push(DnType::OrganizationalUnitName, uuid::Uuid::new_v4().to_string());
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &Issuer::new(ca, ca_key))
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, ca_pem).unwrap();

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(StdMutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let arrived = Arc::new(StdMutex::new(Vec::new()));
        let log = Arc::clone(&arrived);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, script, log) = (acceptor.clone(), Arc::clone(&script), Arc::clone(&log));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| play(request, Arc::clone(&script), Arc::clone(&log)));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            port,
            ca,
            leaf: Sha256::digest(leaf.der()).into(),
            arrived,
            _dir: dir,
        }
    }

    fn door(&self, trust: Trust, auth: Auth) -> HttpsTransport {
        door(self.port, trust, auth)
    }

    fn client(&self) -> Client {
        Client::new(Arc::new(self.door(Trust::Fingerprint(self.leaf), token())))
    }

    fn lines(&self) -> Vec<String> {
        self.arrived
            .lock()
            .unwrap()
            .iter()
            .map(|request| request.line.clone())
            .collect()
    }
}

async fn play(
    request: hyper::Request<Incoming>,
    script: Arc<StdMutex<VecDeque<Play>>>,
    log: Arc<StdMutex<Vec<Arrived>>>,
) -> Result<hyper::Response<Full<Bytes>>, String> {
    let line = format!("{} {}", request.method(), request.uri());
    let headers = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let body = request
        .into_body()
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    log.lock().unwrap().push(Arrived {
        line,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let next = script.lock().unwrap().pop_front();
    match next.unwrap_or(Play::Answer(200, "OK", "{\"data\":null}")) {
        Play::Drop => Err("dropped".to_owned()),
        Play::Answer(status, phrase, body) => {
            let mut response = hyper::Response::new(Full::from(body));
            *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
            response
                .extensions_mut()
                .insert(ReasonPhrase::try_from(phrase.as_bytes()).unwrap());
            Ok(response)
        }
    }
}

fn door(port: u16, trust: Trust, auth: Auth) -> HttpsTransport {
    let cluster = Cluster {
        host: "127.0.0.1".to_owned(),
        port,
        trust,
        auth,
        assume_full_visibility: false,
    };
    HttpsTransport::new(&cluster).unwrap()
}

fn token() -> Auth {
    Auth::Token {
        user: "root@pam".to_owned(),
        id: "ci".to_owned(),
        secret: Secret::new("secret-1"),
    }
}

fn request(method: Method) -> ApiRequest {
    let params = vec![
        ("size".to_owned(), "+1G".to_owned()),
        ("boot".to_owned(), "order=scsi0;net0".to_owned()),
    ];
    ApiRequest {
        method,
        path: "/nodes/pve1/qemu/100/resize".to_owned(),
        params,
    }
}

fn untrusted(result: Result<ApiResponse, TransportError>) -> (Option<String>, String) {
    match result {
        Err(TransportError::Untrusted {
            seen_fingerprint,
            detail,
        }) => (seen_fingerprint, detail),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_right_ca_the_right_fingerprint_and_insecure_are_trusted() {
    let server = Server::start([]).await;
    for trust in [
        Trust::Ca(server.ca.clone()),
        Trust::Fingerprint(server.leaf),
        Trust::Insecure,
    ] {
        let response = server.door(trust.clone(), token()).exchange(request(Method::Get)).await;
        assert_eq!(response.map(|response| response.status), Ok(200), "{trust:?}");
    }
}

#[tokio::test]
async fn another_ca_is_refused_and_the_seen_fingerprint_told() {
    let (server, other) = (Server::start([]).await, Server::start([]).await);
    let (seen, detail) = untrusted(
        server
            .door(Trust::Ca(other.ca.clone()), token())
            .exchange(request(Method::Post))
            .await,
    );
    assert_eq!(seen, Some(tls::fingerprint(server.leaf)));
    assert!(
        detail.contains("UnknownIssuer") && detail.contains("ca.pem"),
        "{detail}"
    );
    assert_eq!(server.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn another_fingerprint_is_refused_and_never_tried_again() {
    let server = Server::start([]).await;
    let mut wrong = server.leaf;
    wrong[0] ^= 1;
    let client = Client::new(Arc::new(server.door(Trust::Fingerprint(wrong), token())));
    let error = client.version().await.unwrap_err();
    assert_eq!(
        error.kind(),
        Kind::Untrusted {
            seen_fingerprint: Some(tls::fingerprint(server.leaf))
        }
    );
    let text = error.to_string();
    assert!(
        text.contains(&tls::fingerprint(wrong)) && text.contains(&tls::fingerprint(server.leaf)),
        "{text}"
    );
}

#[tokio::test]
async fn the_systems_roots_do_not_know_a_private_ca() {
    let server = Server::start([]).await;
    let cluster = Cluster {
        host: "127.0.0.1".to_owned(),
        port: server.port,
        trust: Trust::System,
        auth: token(),
        assume_full_visibility: false,
    };
    let Ok(door) = HttpsTransport::new(&cluster) else {
        eprintln!("SKIPPED: this system has no root certificates");
        return;
    };
    assert_eq!(
        untrusted(door.exchange(request(Method::Get)).await).0,
        Some(tls::fingerprint(server.leaf))
    );
}

#[tokio::test]
async fn a_refused_connection_was_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let result = door(port, Trust::Insecure, token())
        .exchange(request(Method::Post))
        .await;
    let Err(TransportError::NotSent(text)) = result else {
        panic!("{result:?}")
    };
    assert!(text.contains("refused"), "{text}");
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_was_not_sent_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2\r\n").await;
        }
    });
    let result = door(port, Trust::Insecure, token())
        .exchange(request(Method::Post))
        .await;
    assert!(matches!(result, Err(TransportError::NotSent(_))), "{result:?}");
}

#[tokio::test]
async fn a_connection_that_drops_after_the_request_leaves_a_change_in_doubt() {
    let server = Server::start([Play::Drop]).await;
    let error = server
        .client()
        .start(&"pve1".parse().unwrap(), "100".parse().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown);
    assert_eq!(server.lines(), ["POST /api2/json/nodes/pve1/qemu/100/status/start"]);
}

#[tokio::test]
async fn a_read_whose_connection_drops_is_read_again() {
    let answer = Play::Answer(200, "OK", r#"{"data":{"name":"web","digest":"d"}}"#);
    let server = Server::start([Play::Drop, Play::Answer(596, "Connection timed out", ""), answer]).await;
    let config = server
        .client()
        .vm_config(&"pve1".parse().unwrap(), "100".parse().unwrap(), View::Current)
        .await
        .unwrap();
    assert_eq!(config.get("name"), Some("web"));
    assert_eq!(
        server.lines(),
        ["GET /api2/json/nodes/pve1/qemu/100/config?current=1"; 3]
    );
}

#[tokio::test]
async fn reads_carry_their_parameters_in_the_query_and_changes_in_a_counted_body() {
    let server = Server::start([]).await;
    let door = server.door(Trust::Ca(server.ca.clone()), token());
    for method in [Method::Get, Method::Delete, Method::Post, Method::Put] {
        door.exchange(request(method)).await.unwrap();
    }
    let form = "size=%2B1G&boot=order%3Dscsi0%3Bnet0";
    let path = "/api2/json/nodes/pve1/qemu/100/resize";
    let lines = [
        format!("GET {path}?{form}"),
        format!("DELETE {path}?{form}"),
        format!("POST {path}"),
        format!("PUT {path}"),
    ];
    assert_eq!(server.lines(), lines);
    for (index, arrived) in server.arrived.lock().unwrap().iter().enumerate() {
        assert_eq!(
            arrived.header("authorization"),
            Some("PVEAPIToken=root@pam!ci=secret-1")
        );
        assert_eq!(arrived.header("transfer-encoding"), None);
        assert_eq!(arrived.header("cookie"), None);
        if index < 2 {
            assert_eq!((arrived.header("content-length"), arrived.body.as_str()), (None, ""));
        } else {
            assert_eq!(
                (arrived.header("content-length"), arrived.body.as_str()),
                (Some("36"), form)
            );
            assert_eq!(
                arrived.header("content-type"),
                Some("application/x-www-form-urlencoded")
            );
        }
    }
}

#[tokio::test]
async fn a_change_without_parameters_has_an_empty_counted_body() {
    let server = Server::start([]).await;
    let door = server.door(Trust::Insecure, token());
    door.exchange(ApiRequest {
        method: Method::Post,
        path: "/x".to_owned(),
        params: Vec::new(),
    })
    .await
    .unwrap();
    assert_eq!(server.arrived.lock().unwrap()[0].header("content-length"), Some("0"));
}

#[tokio::test]
async fn the_reason_phrase_is_the_text_and_the_body_its_stand_in() {
    let server = Server::start([
        Play::Answer(
            500,
            "unable to create VM 101: config file already exists",
            "{\"data\":null}",
        ),
        Play::Answer(500, "", "{\"data\":null,\"message\":\"VM is locked (clone)\\n\"}"),
        Play::Answer(501, "", "for data too large\n"),
        Play::Answer(400, "", ""),
        Play::Answer(200, "", "{\"data\":1}"),
    ])
    .await;
    let door = server.door(Trust::Insecure, token());
    let mut reasons = Vec::new();
    for _ in 0..5 {
        reasons.push(door.exchange(request(Method::Post)).await.unwrap().reason);
    }
    let expected = [
        "unable to create VM 101: config file already exists",
        "VM is locked (clone)",
        "for data too large",
        "Bad Request",
        "OK",
    ];
    assert_eq!(reasons, expected);
}

#[tokio::test]
async fn a_password_logs_in_once_and_its_ticket_is_sent_along() {
    let ticket = r#"{"data":{"ticket":"PVE:a@pve:0::S+/==","CSRFPreventionToken":"0:csrf"}}"#;
    let server = Server::start([Play::Answer(200, "OK", ticket)]).await;
    let auth = Auth::Password {
        user: "a@pve".to_owned(),
        password: Secret::new("p&w+"),
    };
    let door = server.door(Trust::Fingerprint(server.leaf), auth);
    let (one, two) = tokio::join!(door.exchange(request(Method::Get)), door.exchange(request(Method::Put)));
    assert_eq!((one.unwrap().status, two.unwrap().status), (200, 200));
    let arrived = server.arrived.lock().unwrap();
    assert_eq!(arrived.len(), 3);
    assert_eq!(arrived[0].line, "POST /api2/json/access/ticket");
    assert_eq!(arrived[0].body, "username=a%40pve&password=p%26w%2B");
    for request in &arrived[1..] {
        assert_eq!(request.header("cookie"), Some("PVEAuthCookie=PVE:a@pve:0::S+/=="));
        let csrf = if request.line.starts_with("GET") {
            None
        } else {
            Some("0:csrf")
        };
        assert_eq!(request.header("csrfpreventiontoken"), csrf);
        assert_eq!(request.header("authorization"), None);
    }
}

#[tokio::test]
async fn a_refused_password_is_unauthorized_and_not_tried_again() {
    let server = Server::start([Play::Answer(401, "authentication failure", "")]).await;
    let auth = Auth::Password {
        user: "a@pve".to_owned(),
        password: Secret::new("wrong"),
    };
    let client = Client::new(Arc::new(server.door(Trust::Insecure, auth)));
    let error = client.version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert_eq!(
        error.to_string(),
        "GET /version was answered 401: the login of a@pve was refused: authentication failure"
    );
    assert_eq!(server.lines(), ["POST /api2/json/access/ticket"]);
}

#[test]
fn an_ipv6_host_gets_brackets() {
    assert_eq!(base("fd00::1", 8006), "https://[fd00::1]:8006/api2/json");
    assert_eq!(base("[fd00::1]", 8006), "https://[fd00::1]:8006/api2/json");
    assert_eq!(base("pve1.lan", 443), "https://pve1.lan:443/api2/json");
}
