//! The doors to the API and to DNS, in process and through the dead switch.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use vmwright::dns::{Added, DnsError, Observation, Provider, Record, Removed};
use vmwright::proxmox::transport::{ApiRequest, ApiResponse, Method, Transport, TransportError};
use vmwright::simulator::spec::DEMO_SECRET;
use vmwright::simulator::{Handle, Request};

use crate::switch::{Mishap, Switch};

/// Every effect takes a moment, so that a paused clock goes on.
pub async fn moment() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// How long a request of a dead process is on its way.
const LATE: Duration = Duration::from_millis(40);

/// The API of the simulated cluster, without a socket.
pub struct Api {
    /// The cluster.
    pub cluster: Handle,
    /// The switch.
    pub switch: Switch,
}

fn encoded(params: &[(String, String)]) -> String {
    let escape = |text: &str| -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.~-".contains(&b);
        text.bytes()
            .map(|b| {
                if plain(b) {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect()
    };
    let pairs: Vec<String> = params
        .iter()
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
        .collect();
    pairs.join("&")
}

fn cut() -> TransportError {
    TransportError::Unknown("connection closed before message completed".to_owned())
}

impl Transport for Api {
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        Box::pin(async move {
            let what = format!("{} {}", request.method, request.path);
            let mishap = self.switch.before(&what).await;
            match mishap {
                Some(Mishap::CutBefore) => return Err(cut()),
                Some(Mishap::NotSent) => return Err(TransportError::NotSent("connection refused".to_owned())),
                Some(Mishap::CutAfter) | None => {}
            }
            moment().await;
            let params = encoded(&request.params);
            let in_query = matches!(request.method, Method::Get | Method::Delete);
            let sent = Request {
                method: request.method.as_str().to_owned(),
                path: format!("/api2/json{}", request.path),
                query: if in_query { params.clone() } else { String::new() },
                authorization: Some(format!("PVEAPIToken=automation@pve!vmwright={DEMO_SECRET}")),
                content_type: (!in_query).then(|| "application/x-www-form-urlencoded".to_owned()),
                body: if in_query { Vec::new() } else { params.into_bytes() },
                ..Request::default()
            };
            if request.method != Method::Get && self.switch.late(&what) {
                let cluster = self.cluster.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    let _ = cluster.handle(sent).await;
                });
                return self.switch.hang().await;
            }
            let answer = self.cluster.handle(sent).await;
            self.switch.after(&what).await;
            match answer {
                Ok(_) if mishap == Some(Mishap::CutAfter) => Err(cut()),
                Ok(response) => Ok(ApiResponse {
                    status: response.status,
                    reason: response.reason,
                    body: response.body,
                }),
                Err(_) => Err(cut()),
            }
        })
    }
}

/// A DNS server that counts what is written; reads, compares and writes as the Pi-hole provider does.
pub struct Hole {
    /// The records, in the order in which they were written.
    pub records: Arc<Mutex<Vec<Record>>>,
    /// The switch.
    pub switch: Switch,
}

impl Hole {
    fn all(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    fn lost(action: String) -> DnsError {
        DnsError::Unknown {
            server: "hole".to_owned(),
            action,
            detail: "connection closed before message completed".to_owned(),
        }
    }

    /// One exchange with the server.
    async fn exchange<T>(&self, what: String, effect: impl FnOnce(&mut Vec<Record>) -> T) -> Result<T, DnsError> {
        let mishap = self.switch.before(&what).await;
        match mishap {
            Some(Mishap::CutBefore) => return Err(Self::lost(what)),
            Some(Mishap::NotSent) => {
                return Err(DnsError::Unreachable {
                    server: "hole".to_owned(),
                    detail: "connection refused".to_owned(),
                });
            }
            Some(Mishap::CutAfter) | None => {}
        }
        moment().await;
        let value = effect(&mut self.records.lock().unwrap());
        self.switch.after(&what).await;
        if mishap == Some(Mishap::CutAfter) {
            return Err(Self::lost(what));
        }
        Ok(value)
    }

    async fn read(&self) -> Result<Vec<Record>, DnsError> {
        self.exchange("dns read".to_owned(), |records| records.clone()).await
    }
}

impl Provider for Hole {
    fn label(&self) -> String {
        "the hole".to_owned()
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Record>, DnsError>> {
        Box::pin(async move { Ok(self.read().await?.into_iter().filter(|r| r.name == name).collect()) })
    }

    fn find_address(&self, address: IpAddr) -> BoxFuture<'_, Result<Vec<Record>, DnsError>> {
        Box::pin(async move {
            Ok(self
                .read()
                .await?
                .into_iter()
                .filter(|r| r.address == address)
                .collect())
        })
    }

    fn observe<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Observation, DnsError>> {
        Box::pin(async move { Ok(Observation::of(record, &self.read().await?)) })
    }

    fn add<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Added, DnsError>> {
        Box::pin(async move {
            let Observation {
                present,
                same_name,
                same_address,
            } = Observation::of(record, &self.read().await?);
            if !same_name.is_empty() {
                return Ok(Added::Conflict { same_name });
            }
            if present {
                return Ok(Added::Unchanged { same_address });
            }
            // Like the real one, the server takes the same record twice.
            self.exchange(format!("dns add {record}"), |records| records.push(record.clone()))
                .await?;
            if !self.read().await?.contains(record) {
                return Err(Self::lost(format!("adding {record}")));
            }
            Ok(Added::Added { same_address })
        })
    }

    fn remove<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Removed, DnsError>> {
        Box::pin(async move {
            if !self.read().await?.contains(record) {
                return Ok(Removed::Absent);
            }
            self.exchange(format!("dns remove {record}"), |records| {
                records.retain(|r| r != record)
            })
            .await?;
            Ok(match self.all().contains(record) {
                true => return Err(Self::lost(format!("removing {record}"))),
                false => Removed::Removed,
            })
        })
    }
}
