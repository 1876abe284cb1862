//! The door: one request, one answer. Everything that talks to Proxmox passes [`Transport::exchange`].
//!
//! A transport knows how to log in and how to encode, not what a call means; it never repeats a request.

use std::fmt;

use futures_util::future::BoxFuture;

/// The methods that the API uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Starts something or creates it.
    Post,
    /// Changes something.
    Put,
    /// Removes something.
    Delete,
}

impl Method {
    /// The name on the wire, `GET`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call, before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// The method. GET and DELETE carry `params` in the query, POST and PUT in a form body (pve-http-server: a body on
    /// GET or DELETE is refused).
    pub method: Method,
    /// The path below `/api2/json`, with a leading slash, ready to be sent: `/nodes/pve1/qemu`.
    pub path: String,
    /// Names and plain values in order, not encoded. A repeated name is an array.
    pub params: Vec<(String, String)>,
}

/// What came back, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status; Proxmox uses 595 to 599 for failures between its own daemons.
    pub status: u16,
    /// The reason phrase, which is where Proxmox puts the error text; the `message` or the plain text of the body where
    /// the phrase is lost.
    pub reason: String,
    /// The body, at best `{"data": ...}`.
    pub body: Vec<u8>,
}

/// No answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The request was certainly not sent: name lookup, connection, TLS or login failed.
    #[error("{0}")]
    NotSent(String),
    /// The server's certificate is not the trusted one; nothing was sent.
    #[error("the server's certificate is not trusted: {detail}")]
    Untrusted {
        /// SHA-256 of the leaf certificate that the server showed, `AA:BB:...`.
        seen_fingerprint: Option<String>,
        /// Why it is not trusted.
        detail: String,
    },
    /// The request was sent, or may have been, and the answer was lost or did not come in time.
    #[error("{0}")]
    Unknown(String),
}

/// The Proxmox REST API of one cluster under one identity.
pub trait Transport: Send + Sync {
    /// Sends one request, once.
    fn exchange(&self, request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>>;
}
