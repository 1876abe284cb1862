//! Pi-hole v6: local DNS records by its HTTP API.
//!
//! ```text
//!   POST /api/auth ─> sid ─> GET /api/config/dns/hosts ─> PUT or DELETE one entry ─> GET again ─> DELETE /api/auth
//!                                                                                                 always, also on error
//! ```
//!
//! Pi-hole has few sessions (about 16) and keeps each for half an hour, so a session that is not closed locks everybody out
//! after some runs. Every method opens one and closes it on every path; a future that is dropped in the middle closes it
//! in the background.
//!
//! An entry is one line of a hosts file, `IP NAME` or `IP NAME NAME...`. Only entries with exactly one name are made or
//! deleted here. A `400` to a write may mean that the entry is there already: reading back decides, not the text.
//!
//! The password goes into the body of the login and nowhere else; the session id into a header.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::{Value, json};

use super::{Added, DnsError, Observation, Provider, Record, Removed, canonical};
use crate::secret::Secret;

/// Where the records are.
const HOSTS: [&str; 4] = ["api", "config", "dns", "hosts"];
/// Where sessions are opened and closed.
const AUTH: [&str; 2] = ["api", "auth"];
const CONNECT: Duration = Duration::from_secs(5);
/// Pi-hole restarts its resolver when a record changes; the answer may wait for it.
const ANSWER: Duration = Duration::from_secs(20);

/// A Pi-hole.
pub struct Pihole {
    client: Client,
    base: Url,
    password: Secret,
}

/// One line of the hosts list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    raw: String,
    records: Vec<Record>,
}

/// An open session; closed by [`Session::close`], and by dropping as a last resort.
struct Session<'p> {
    pihole: &'p Pihole,
    /// `None` where no password is set: there is nothing to close.
    sid: Option<Secret>,
}

impl Pihole {
    /// A Pi-hole at a base URL such as `http://10.0.20.253`. Nothing is sent.
    ///
    /// # Errors
    /// [`DnsError::Unreachable`] if the URL is none, or the system's certificates cannot be read.
    pub fn new(url: &str, password: Secret) -> Result<Self, DnsError> {
        let wrong = |detail: String| DnsError::Unreachable {
            server: shown(url),
            detail,
        };
        let base = Url::parse(url).map_err(|e| wrong(format!("not a URL: {e}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() || !base.username().is_empty() {
            return Err(wrong("not a URL of the form http://HOST".to_owned()));
        }
        // The first call of the process wins; all of them install the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .build()
            .map_err(|e| wrong(chain(e)))?;
        Ok(Self { client, base, password })
    }

    /// The base URL, for messages.
    fn server(&self) -> String {
        shown(self.base.as_str())
    }

    /// Sends one request. The answer is its status and its JSON; a body that is none is `null`.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        sid: Option<&Secret>,
        body: Option<Value>,
    ) -> Result<(StatusCode, Value), reqwest::Error> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            // Each is percent-encoded: `10.0.0.5 web1.lan` becomes `10.0.0.5%20web1.lan`.
            segments.pop_if_empty().extend(path);
        }
        let mut request = self.client.request(method, url);
        if let Some(sid) = sid {
            request = request.header("sid", sid.expose());
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.map_err(reqwest::Error::without_url)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(reqwest::Error::without_url)?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    async fn open(&self) -> Result<Session<'_>, DnsError> {
        let login = json!({ "password": self.password.expose() });
        let sent = self.send(Method::POST, &AUTH, None, Some(login)).await;
        let (status, answer) = sent.map_err(|e| DnsError::Unreachable {
            server: self.server(),
            detail: chain(e),
        })?;
        let session = answer.get("session");
        let valid = session.and_then(|s| s.get("valid")).and_then(Value::as_bool);
        let said = said(&answer);
        match status.as_u16() {
            200 if valid == Some(true) => Ok(Session {
                pihole: self,
                sid: session
                    .and_then(|s| s.get("sid"))
                    .and_then(Value::as_str)
                    .map(Secret::new),
            }),
            200 if valid.is_none() => Err(self.unreadable("the login's answer has no session".to_owned())),
            429 => Err(DnsError::Busy {
                server: self.server(),
                detail: said.unwrap_or_else(|| "too many requests".to_owned()),
            }),
            200 | 400 | 401 | 403 => Err(DnsError::Denied {
                server: self.server(),
                detail: said.unwrap_or_else(|| format!("HTTP status {status}")),
            }),
            404 => Err(self.unreadable("it has no /api/auth: is it Pi-hole 6?".to_owned())),
            code => Err(self.refused("the login", code, said)),
        }
    }

    /// Runs some work in a session, and closes the session whatever came of it.
    async fn within<'p, T, F>(&'p self, work: impl FnOnce(&'p Self, Option<Secret>) -> F) -> Result<T, DnsError>
    where
        F: Future<Output = Result<T, DnsError>> + Send,
    {
        let session = self.open().await?;
        let result = work(self, session.sid.clone()).await;
        session.close().await;
        result
    }

    /// All entries.
    async fn entries(&self, sid: Option<&Secret>) -> Result<Vec<Entry>, DnsError> {
        let sent = self.send(Method::GET, &HOSTS, sid, None).await;
        let (status, answer) = sent.map_err(|e| DnsError::Unreachable {
            server: self.server(),
            detail: chain(e),
        })?;
        if status != StatusCode::OK {
            return Err(self.refused("reading the records", status.as_u16(), said(&answer)));
        }
        let list = answer
            .pointer("/config/dns/hosts")
            .and_then(Value::as_array)
            .ok_or_else(|| self.unreadable("no list at config.dns.hosts".to_owned()))?;
        Ok(list.iter().filter_map(Value::as_str).map(Entry::parse).collect())
    }

    async fn records(&self, sid: Option<&Secret>) -> Result<Vec<Record>, DnsError> {
        Ok(self.entries(sid).await?.into_iter().flat_map(|e| e.records).collect())
    }

    /// Writes or deletes one entry, and looks whether it is as wanted now.
    async fn change(&self, sid: Option<&Secret>, method: Method, raw: &str, record: &Record) -> Result<(), DnsError> {
        let wanted = method == Method::PUT;
        let action = match wanted {
            true => format!("adding {record}"),
            false => format!("removing {record}"),
        };
        let path: Vec<&str> = HOSTS.iter().copied().chain([raw]).collect();
        let sent = self.send(method, &path, sid, None).await;
        let answer = match sent {
            Ok(answer) => Some(answer),
            Err(e) if e.is_connect() => {
                return Err(DnsError::Unreachable {
                    server: self.server(),
                    detail: chain(e),
                });
            }
            // Sent, and the answer is lost: what is there now tells.
            Err(_) => None,
        };
        let unknown = |detail: String| DnsError::Unknown {
            server: self.server(),
            action: action.clone(),
            detail,
        };
        let now = self.records(sid).await.map_err(|e| unknown(e.to_string()))?;
        if now.contains(record) == wanted {
            return Ok(());
        }
        match answer {
            Some((status, _)) if status.is_success() => {
                Err(unknown("it was accepted, and reading back does not show it".into()))
            }
            Some((status, answer)) => Err(self.refused(&action, status.as_u16(), said(&answer))),
            None => Err(unknown("the answer was lost".to_owned())),
        }
    }

    async fn add_in(&self, sid: Option<Secret>, record: &Record) -> Result<Added, DnsError> {
        let sid = sid.as_ref();
        let seen = Observation::of(record, &self.records(sid).await?);
        if !seen.same_name.is_empty() {
            return Ok(Added::Conflict {
                same_name: seen.same_name,
            });
        }
        let same_address = seen.same_address;
        if seen.present {
            return Ok(Added::Unchanged { same_address });
        }
        let raw = format!("{} {}", record.address, record.name);
        self.change(sid, Method::PUT, &raw, record).await?;
        Ok(Added::Added { same_address })
    }

    async fn remove_in(&self, sid: Option<Secret>, record: &Record) -> Result<Removed, DnsError> {
        let sid = sid.as_ref();
        let entries = self.entries(sid).await?;
        let ours: Vec<&Entry> = entries.iter().filter(|e| e.records.contains(record)).collect();
        if let Some(shared) = ours.iter().find(|e| e.records.len() > 1) {
            return Ok(Removed::Shared {
                entry: shared.raw.clone(),
            });
        }
        let Some((last, others)) = ours.split_last() else {
            return Ok(Removed::Absent);
        };
        // The same record written in several ways ("WEB1.lan"): only the last deletion can be read back.
        for entry in others {
            let path: Vec<&str> = HOSTS.iter().copied().chain([entry.raw.as_str()]).collect();
            let _ = self.send(Method::DELETE, &path, sid, None).await;
        }
        self.change(sid, Method::DELETE, &last.raw, record).await?;
        Ok(Removed::Removed)
    }

    fn refused(&self, action: &str, status: u16, said: Option<String>) -> DnsError {
        DnsError::Refused {
            server: self.server(),
            action: action.to_owned(),
            status,
            detail: said.unwrap_or_else(|| "no reason given".to_owned()),
        }
    }

    fn unreadable(&self, detail: String) -> DnsError {
        DnsError::Unreadable {
            server: self.server(),
            detail,
        }
    }
}

impl Session<'_> {
    /// Closes the session. A failure is logged only: what was asked for is done, or has its own error.
    async fn close(mut self) {
        if let Some(sid) = &self.sid {
            let sent = self.pihole.send(Method::DELETE, &AUTH, Some(sid), None).await;
            note_close(&self.pihole.server(), sent);
        }
        // Until here a dropped future leaves it to `drop`.
        self.sid = None;
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let (Some(sid), Ok(runtime)) = (self.sid.take(), tokio::runtime::Handle::try_current()) {
            let pihole = Pihole {
                client: self.pihole.client.clone(),
                base: self.pihole.base.clone(),
                password: Secret::new(""),
            };
            runtime.spawn(async move {
                let sent = pihole.send(Method::DELETE, &AUTH, Some(&sid), None).await;
                note_close(&pihole.server(), sent);
            });
        }
    }
}

fn note_close(server: &str, sent: Result<(StatusCode, Value), reqwest::Error>) {
    match sent {
        Ok((status, _)) if status.is_success() => {}
        Ok((status, _)) => tracing::warn!(server, %status, "the Pi-hole session was not closed"),
        Err(error) => tracing::warn!(server, error = chain(error), "the Pi-hole session was not closed"),
    }
}

impl Entry {
    /// A line of a hosts file; what is none has no records.
    fn parse(raw: &str) -> Self {
        let line = raw.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address: Option<IpAddr> = words.next().and_then(|a| a.parse().ok());
        Self {
            raw: raw.to_owned(),
            records: address
                .map(|address| words.map(|name| Record::new(name, address)).collect())
                .unwrap_or_default(),
        }
    }
}

impl Provider for Pihole {
    fn label(&self) -> String {
        format!("Pi-hole at {}", self.server())
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Record>, DnsError>> {
        let name = canonical(name);
        Box::pin(async move {
            let mut records = self.within(async |p, sid| p.records(sid.as_ref()).await).await?;
            records.retain(|r| r.name == name);
            Ok(records)
        })
    }

    fn find_address(&self, address: IpAddr) -> BoxFuture<'_, Result<Vec<Record>, DnsError>> {
        Box::pin(async move {
            let mut records = self.within(async |p, sid| p.records(sid.as_ref()).await).await?;
            records.retain(|r| r.address == address);
            Ok(records)
        })
    }

    fn observe<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Observation, DnsError>> {
        Box::pin(async move {
            let records = self.within(async |p, sid| p.records(sid.as_ref()).await).await?;
            Ok(Observation::of(record, &records))
        })
    }

    fn add<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Added, DnsError>> {
        Box::pin(self.within(move |p, sid| p.add_in(sid, record)))
    }

    fn remove<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Removed, DnsError>> {
        Box::pin(self.within(move |p, sid| p.remove_in(sid, record)))
    }
}

/// What Pi-hole says: `session.message`, or `error.message` and its hint.
fn said(answer: &Value) -> Option<String> {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let message = text("/error/message").or_else(|| text("/session/message"))?;
    Some(match text("/error/hint") {
        Some(hint) => format!("{message} ({hint})"),
        None => message,
    })
}

/// A URL without a password that somebody wrote into it, and without a final slash.
fn shown(url: &str) -> String {
    let text = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    };
    text.trim_end_matches('/').to_owned()
}

/// An error and its sources, without the URL.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_an_address_and_names() {
        let record = |name: &str| Record::new(name, "10.0.0.5".parse().expect("an address"));
        assert_eq!(
            Entry::parse("10.0.0.5\tWeb1.lan  web1 # mine").records,
            [record("web1.lan"), record("web1")]
        );
        assert!(Entry::parse("# 10.0.0.5 web1").records.is_empty());
        assert!(Entry::parse("web1 10.0.0.5").records.is_empty());
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        assert_eq!(shown("http://me:secret@10.0.0.2/"), "http://10.0.0.2");
        let error = Pihole::new("http://me:secret@10.0.0.2", Secret::new("x"))
            .err()
            .expect("refused");
        assert!(!error.to_string().contains("secret"), "{error}");
        for url in ["10.0.0.2", "ftp://10.0.0.2", "mailto:x"] {
            assert!(Pihole::new(url, Secret::new("x")).is_err(), "{url}");
        }
    }
}
