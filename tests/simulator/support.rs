//! A simulator for a test, and a client that is as plain as can be.

use std::time::Duration;

use serde_json::Value;
use vmwright::simulator::clock::Durations;
use vmwright::simulator::{Handle, Options, Request, Response, Simulator};

/// A simulator in a directory of its own.
pub struct Sim {
    pub sim: Simulator,
    pub handle: Handle,
    _dir: tempfile::TempDir,
    pub token: String,
}

/// Everything takes no time.
pub fn instant() -> Durations {
    Durations {
        stale: 0,
        ..Durations::zero()
    }
}

impl Sim {
    pub async fn start(durations: Durations) -> Self {
        Self::with(durations, |_| {}).await
    }

    pub async fn with(durations: Durations, change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::api_only(dir.path().join("world"));
        options.durations = durations;
        change(&mut options);
        let sim = Simulator::start(options).await.unwrap();
        let (id, secret) = sim.token().unwrap();
        Self {
            handle: sim.handle().clone(),
            sim,
            _dir: dir,
            token: format!("PVEAPIToken={id}={secret}"),
        }
    }

    pub fn request(&self, method: &str, path: &str, params: &[(&str, &str)]) -> Request {
        let form = encode(params);
        let reads = matches!(method, "GET" | "DELETE");
        Request {
            method: method.to_owned(),
            path: format!("/api2/json{path}"),
            query: if reads { form.clone() } else { String::new() },
            authorization: Some(self.token.clone()),
            content_type: (!reads).then(|| "application/x-www-form-urlencoded".to_owned()),
            body: if reads { Vec::new() } else { form.into_bytes() },
            ..Request::default()
        }
    }

    pub async fn call(&self, method: &str, path: &str, params: &[(&str, &str)]) -> Response {
        self.handle.handle(self.request(method, path, params)).await.unwrap()
    }

    /// The data of a call that must succeed.
    pub async fn ok(&self, method: &str, path: &str, params: &[(&str, &str)]) -> Value {
        let response = self.call(method, path, params).await;
        assert_eq!(response.status, 200, "{method} {path}: {}", response.reason);
        response.data()
    }

    /// The exit status of the task that a call starts.
    pub async fn task(&self, method: &str, path: &str, params: &[(&str, &str)]) -> String {
        let upid = self.ok(method, path, params).await;
        self.end_of(upid.as_str().unwrap()).await
    }

    pub async fn end_of(&self, upid: &str) -> String {
        let node = upid.split(':').nth(1).unwrap();
        let path = format!("/nodes/{node}/tasks/{}/status", upid.replace('!', "%21"));
        loop {
            let status = self.ok("GET", &path, &[]).await;
            if let Some(exit) = status["exitstatus"].as_str() {
                return exit.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Form encoding of everything but the unreserved characters.
pub fn encode(params: &[(&str, &str)]) -> String {
    let escape = |text: &str| {
        text.bytes()
            .map(|b| {
                if b.is_ascii_alphanumeric() || b"_.~-".contains(&b) {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect::<String>()
    };
    let pairs: Vec<String> = params
        .iter()
        .map(|(k, v)| format!("{}={}", escape(k), escape(v)))
        .collect();
    pairs.join("&")
}
