//! The HTTPS door: HTTP/1.1 with real reason phrases (pve-http-server: `AnyEvent.pm`).
//!
//! A connection ends after five idle seconds, after a hundred requests, and with every response of 400 and above.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Handle;
use super::api::{Request, Response};

const REQUESTS_PER_CONNECTION: u32 = 100;
const BODY_LIMIT: usize = 4 << 20;

/// The connection is cut without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection was cut")]
pub struct Cut;

/// The open door.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Door {
    /// Closes it; open connections end at once.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Opens the door.
pub(crate) async fn start(handle: Handle, bind: SocketAddr, tls: TlsAcceptor) -> std::io::Result<Door> {
    let listener = TcpListener::bind(bind).await?;
    let address = listener.local_addr()?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let (until, tracker) = (stop.clone(), tasks.clone());
    tasks.spawn(async move {
        loop {
            tokio::select! {
                () = until.cancelled() => break,
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        let (handle, tls, until) = (handle.clone(), tls.clone(), until.clone());
                        tracker.spawn(async move {
                            tokio::select! {
                                () = until.cancelled() => {}
                                () = serve(handle, tls, stream) => {}
                            }
                        });
                    }
                }
            }
        }
    });
    Ok(Door { address, stop, tasks })
}

async fn serve(handle: Handle, tls: TlsAcceptor, stream: TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(stream) = tls.accept(stream).await else {
        return;
    };
    let count = Arc::new(AtomicU32::new(0));
    let service = service_fn(move |request| {
        let (handle, count) = (handle.clone(), Arc::clone(&count));
        async move {
            let last = count.fetch_add(1, Ordering::Relaxed) + 1 >= REQUESTS_PER_CONNECTION;
            answer(&handle, request, last).await
        }
    });
    let ended = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(5))
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::trace!("connection ended: {error}");
    }
}

fn header(request: &hyper::Request<Incoming>, name: &str) -> Option<String> {
    request
        .headers()
        .get(name)
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned)
}

async fn answer(
    handle: &Handle,
    request: hyper::Request<Incoming>,
    last: bool,
) -> Result<hyper::Response<Full<Bytes>>, Cut> {
    if request.headers().contains_key("transfer-encoding") {
        return Ok(text_response(501, "chunked transfer encoding not supported"));
    }
    let mut plain = Request {
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        authorization: header(&request, "authorization"),
        cookie: header(&request, "cookie"),
        csrf: header(&request, "csrfpreventiontoken"),
        content_type: header(&request, "content-type"),
        body: Vec::new(),
    };
    match Limited::new(request.into_body(), BODY_LIMIT).collect().await {
        Ok(body) => plain.body = body.to_bytes().to_vec(),
        Err(_) => return Ok(text_response(501, "for data too large")),
    }
    let response = handle.handle(plain).await.map_err(|super::Dropped| Cut)?;
    Ok(to_hyper(response, last))
}

fn text_response(status: u16, text: &str) -> hyper::Response<Full<Bytes>> {
    to_hyper(
        Response {
            status,
            reason: text.to_owned(),
            content_type: Some("text/plain"),
            body: text.as_bytes().to_vec(),
        },
        true,
    )
}

fn to_hyper(response: Response, last: bool) -> hyper::Response<Full<Bytes>> {
    let mut out = hyper::Response::new(Full::new(Bytes::from(response.body)));
    if let Ok(status) = hyper::StatusCode::from_u16(response.status) {
        *out.status_mut() = status;
    }
    if let Ok(reason) = ReasonPhrase::try_from(response.reason.into_bytes()) {
        out.extensions_mut().insert(reason);
    }
    if let Some(kind) = response.content_type {
        out.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    out.headers_mut()
        .insert("server", HeaderValue::from_static("pve-api-daemon/3.0"));
    if last || response.status >= 400 {
        out.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    out
}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
