//! Sessions, records, restarts, and the shapes on the wire.

use super::api::Answer;
use super::*;
use hyper::Method;

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
    let put =
        "PUT /api/config/dns/hosts/10.0.0.9%20a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
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
