//! Where schema and recordings are, and a door that plays and records.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use vmwright::proxmox::client::Client;
use vmwright::proxmox::transport::{ApiRequest, ApiResponse, Transport, TransportError};

/// A file of the reference data; tells loudly when it is not there.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn path(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VMWRIGHT_REFERENCE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let found = [root.join("reference").join(name), root.join(name)]
        .into_iter()
        .find(|path| path.exists());
    if found.is_none() {
        eprintln!("SKIPPED: {name} is neither in $VMWRIGHT_REFERENCE nor in ../shared/reference");
    }
    found
}

/// One recorded exchange; of the asynchronous ones the answer is a task id.
#[derive(Clone, Debug, Deserialize)]
pub struct Exchange {
    pub name: String,
    pub method: String,
    pub path: String,
    pub status: u16,
    pub reason: Option<String>,
    pub body: Value,
    #[serde(default)]
    pub params: Value,
}

impl Exchange {
    /// The answer as the door gives it.
    pub fn response(&self) -> ApiResponse {
        let body = match &self.body {
            Value::Null => Vec::new(),
            Value::String(text) => text.as_bytes().to_vec(),
            other => other.to_string().into_bytes(),
        };
        ApiResponse {
            status: self.status,
            reason: self.reason.clone().unwrap_or_default(),
            body,
        }
    }

    /// The path below `/api2/json`, decoded; `None` for other formats.
    pub fn api_path(&self) -> Option<String> {
        let path = self.path.strip_prefix("/api2/json")?;
        Some(decode(path.split('?').next().unwrap_or_default()))
    }
}

/// Every recorded exchange that was answered at all, with the file that it is in; `None` when there are no recordings.
pub fn recordings() -> Option<Vec<(String, Exchange)>> {
    let dir = path("pve-recordings")?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let exchanges: Vec<Exchange> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        all.extend(
            exchanges
                .into_iter()
                .filter(|one| one.status != 0)
                .map(|one| (name.clone(), one)),
        );
    }
    assert!(all.len() > 500, "only {} recordings", all.len());
    Some(all)
}

/// Percent-decoded.
pub fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A door that writes down what is sent and answers always the same.
pub struct Door {
    answer: ApiResponse,
    pub sent: Mutex<Vec<ApiRequest>>,
}

impl Door {
    pub fn answering(answer: ApiResponse) -> (Client, Arc<Self>) {
        let door = Arc::new(Self {
            answer,
            sent: Mutex::new(Vec::new()),
        });
        (Client::new(Arc::clone(&door) as Arc<dyn Transport>), door)
    }
}

impl Transport for Door {
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        self.sent.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(self.answer.clone())))
    }
}
