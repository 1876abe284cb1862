//! The real door: HTTPS to pveproxy.
//!
//! ```text
//!   exchange --> logged in? (password: one login for all) --> send once --> status, reason phrase, body
//!                    |                                         |
//!                    v                                         v
//!              401, or NotSent                  connection not made: NotSent, Untrusted
//!                                               afterwards: Unknown
//! ```
//!
//! HTTP/1.1 only, since the error text is in the reason phrase. Connections rest for 4 s at most, one less than pveproxy
//! allows, so that a request does not meet one that is being closed. No proxy from the environment, no redirects:
//! credentials go to the configured host and nowhere else. Source: pve-http-server, `AnyEvent.pm`.

use std::error::Error as StdError;
use std::sync::Once;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::ext::ReasonPhrase;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;

use super::error::ApiError;
use super::form;
use super::login::{self, Refused, Session};
use super::tls::{self, Distrust};
use super::transport::{ApiRequest, ApiResponse, Method, Transport, TransportError};
use crate::machine::{Auth, Cluster};
use crate::secret::Secret;

/// Until a connection stands, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// Until the whole answer is there; pveproxy itself gives up after 30 s on each of two legs.
const ANSWER: Duration = Duration::from_secs(60);
/// pveproxy closes idle connections after 5 s.
const IDLE: Duration = Duration::from_secs(4);
/// The longest plain text that serves as a reason.
const PLAIN_LIMIT: usize = 1000;

static PROVIDER: Once = Once::new();

/// HTTPS to the API of one cluster under one identity.
#[derive(Debug)]
pub struct HttpsTransport {
    client: reqwest::Client,
    base: String,
    auth: Auth,
    session: Mutex<Option<Session>>,
}

impl HttpsTransport {
    /// A door to this cluster. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::NotSent`] when a CA file cannot be used, or TLS cannot be set up.
    pub fn new(cluster: &Cluster) -> Result<Self, ApiError> {
        PROVIDER.call_once(|| {
            // Somebody else may have installed one before; any will do, since the configuration below brings its own.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let tls = tls::client_config(&cluster.trust).map_err(ApiError::setup)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("vmwright/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ApiError::setup(format!("cannot set up HTTPS: {}", chain(&error))))?;
        Ok(Self {
            client,
            base: base(&cluster.host, cluster.port),
            auth: cluster.auth.clone(),
            session: Mutex::new(None),
        })
    }

    async fn exchange_once(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let headers = match &self.auth {
            Auth::Token { user, id, secret } => vec![login::token_header(user, id, secret)],
            Auth::Password { user, password } => match self.session(user, password).await {
                Ok(session) => session.headers(request.method),
                Err(Refused::Answer(response)) => return Ok(response),
                Err(Refused::NotSent(error)) => return Err(error),
            },
        };
        let params = form::encode(
            request
                .params
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let response = self
            .send(request.method, &request.path, &Secret::new(params), headers)
            .await?;
        if response.status == 401 {
            // A ticket may end early (a restored snapshot, a suspended control node): the next call logs in anew.
            *self.session.lock().await = None;
        }
        Ok(response)
    }

    /// The session; whoever comes first logs in, the others wait.
    async fn session(&self, user: &str, password: &Secret) -> Result<Session, Refused> {
        let mut held = self.session.lock().await;
        if let Some(session) = held.as_ref().filter(|session| session.is_fresh()) {
            return Ok(session.clone());
        }
        let response = self
            .send(Method::Post, "/access/ticket", &login::body(user, password), Vec::new())
            .await;
        let session = login::read(user, response)?;
        *held = Some(session.clone());
        Ok(session)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        params: &Secret,
        headers: Vec<(&'static str, Secret)>,
    ) -> Result<ApiResponse, TransportError> {
        let params = params.expose();
        let mut url = format!("{}{path}", self.base);
        let in_query = match method {
            Method::Get | Method::Delete => true,
            Method::Post | Method::Put => false,
        };
        if in_query && !params.is_empty() {
            url.push('?');
            url.push_str(params);
        }
        let mut builder = self.client.request(verb(method), url);
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| {
                TransportError::NotSent("the credentials hold a character that no HTTP header may have".to_owned())
            })?;
            value.set_sensitive(true);
            builder = builder.header(HeaderName::from_static(name), value);
        }
        if !in_query {
            builder = builder
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header(CONTENT_LENGTH, params.len())
                .body(params.to_owned());
        }
        let response = builder
            .send()
            .await
            .map_err(|error| lost(self.authority(), &error.without_url()))?;
        let status = response.status();
        let phrase = response
            .extensions()
            .get::<ReasonPhrase>()
            .map(|phrase| phrase.as_bytes().to_vec());
        let body = match response.bytes().await {
            Ok(body) => body.to_vec(),
            // What went wrong was said in the status line already.
            Err(_) if !status.is_success() => Vec::new(),
            Err(error) => return Err(TransportError::Unknown(chain(&error.without_url()))),
        };
        Ok(ApiResponse {
            status: status.as_u16(),
            reason: reason(status, phrase.as_deref(), &body),
            body,
        })
    }
}

impl HttpsTransport {
    /// `host:port`, for messages.
    fn authority(&self) -> &str {
        let base = self.base.trim_start_matches("https://");
        base.split('/').next().unwrap_or(base)
    }
}

impl Transport for HttpsTransport {
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        Box::pin(self.exchange_once(request))
    }
}

/// The address of the API; an IPv6 address gets its brackets.
fn base(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("https://[{host}]:{port}/api2/json")
    } else {
        format!("https://{host}:{port}/api2/json")
    }
}

fn verb(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    }
}

/// What a failure before the answer means: nothing was sent while there was no connection.
fn lost(authority: &str, error: &reqwest::Error) -> TransportError {
    if let Some(Distrust { seen, why }) = Distrust::find(error) {
        return TransportError::Untrusted {
            seen_fingerprint: seen,
            detail: format!("{authority}: {why}"),
        };
    }
    // What it was that failed stands in the last parts; the first ones only say that it was a request.
    let text = chain(error);
    let text = text.strip_prefix("error sending request: ").unwrap_or(&text);
    let text = text.strip_prefix("client error (Connect): ").unwrap_or(text);
    let text = format!("{authority}: {text}");
    if error.is_connect() || error.is_builder() {
        TransportError::NotSent(text)
    } else {
        TransportError::Unknown(text)
    }
}

/// The error text of an answer: the reason phrase; where it is lost (it is when it has a byte outside ASCII) the
/// message of the body; at last what the status means.
fn reason(status: StatusCode, phrase: Option<&[u8]>, body: &[u8]) -> String {
    let phrase = String::from_utf8_lossy(phrase.unwrap_or_default()).trim().to_owned();
    if !phrase.is_empty() {
        return phrase;
    }
    if status.is_success() {
        return status.canonical_reason().unwrap_or_default().to_owned();
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => {
            let message = value.get("message").and_then(Value::as_str).unwrap_or_default().trim();
            if !message.is_empty() {
                return message.to_owned();
            }
        }
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let text: String = text.trim().chars().take(PLAIN_LIMIT).collect();
            if !text.is_empty() {
                return text;
            }
        }
    }
    status.canonical_reason().unwrap_or("no reason given").to_owned()
}

/// An error with its sources, each part once.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;
