//! The client: one method a call, typed in and typed out, in the files of their subjects.
//!
//! ```text
//!   call --> exchange --> 200: decode --> typed answer
//!              |  ^        other: ApiError
//!              v  |
//!            harmless failure? wait 50 ms .. 1 s, at most 4 tries
//! ```
//!
//! Harmless is: a read that failed between here and its answer; a change that was certainly not sent. Everything else
//! is answered at once: a change is sent exactly once, and credentials that were refused are not tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::error::{ApiError, Kind};
use super::ids::Upid;
use super::json;
use super::transport::{ApiRequest, ApiResponse, Method, Transport};

/// How often a call is sent at most.
const TRIES: u32 = 4;
/// No further try begins after this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest pause between tries; the first is a twentieth of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Parameters in the making: names and plain values.
pub(super) type Params = Vec<(String, String)>;

/// Typed calls over a [`Transport`]. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client over this door.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport }
    }

    /// Reads a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: String, params: Params) -> Result<Vec<T>, ApiError> {
        self.get_with(path, params, json::entries).await
    }

    /// Reads something that is decoded by hand.
    pub(super) async fn get_with<T>(
        &self,
        path: String,
        params: Params,
        decode: impl FnOnce(Value) -> Result<T, String>,
    ) -> Result<T, ApiError> {
        self.decoded(Method::Get, path, params, decode).await
    }

    /// Makes a change that answers nothing.
    pub(super) async fn change(&self, method: Method, path: String, params: Params) -> Result<(), ApiError> {
        self.decoded(method, path, params, |_| Ok(())).await
    }

    /// Makes a change that a task carries out.
    pub(super) async fn task(&self, method: Method, path: String, params: Params) -> Result<Upid, ApiError> {
        self.decoded(method, path, params, |data| {
            upid(&data)?.ok_or_else(|| "no task id".to_owned())
        })
        .await
    }

    /// Makes a change that a task may carry out.
    pub(super) async fn maybe_task(
        &self,
        method: Method,
        path: String,
        params: Params,
    ) -> Result<Option<Upid>, ApiError> {
        self.decoded(method, path, params, |data| upid(&data)).await
    }

    /// Makes a change whose answer is decoded.
    pub(super) async fn decoded<T>(
        &self,
        method: Method,
        path: String,
        params: Params,
        decode: impl FnOnce(Value) -> Result<T, String>,
    ) -> Result<T, ApiError> {
        let request = ApiRequest { method, path, params };
        let response = self.call(&request).await?;
        data(&response.body)
            .and_then(decode)
            .map_err(|why| ApiError::unreadable(method, &request.path, &why))
    }

    /// Sends a request, again after a harmless failure, and answers what is a success.
    async fn call(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError> {
        let started = Instant::now();
        let mut tries = 0;
        loop {
            let error = match self.once(request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            tries += 1;
            if tries == TRIES || started.elapsed() >= PATIENCE || !harmless(request.method, &error.kind()) {
                return Err(error);
            }
            let pause = pause(tries, RandomState::new().build_hasher().finish());
            tracing::debug!(tries, pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), %error, "trying again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a request once.
    async fn once(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError> {
        let started = Instant::now();
        let result = self.transport.exchange(request.clone()).await;
        let names: Vec<&str> = request.params.iter().map(|(name, _)| name.as_str()).collect();
        tracing::debug!(
            method = %request.method,
            path = request.path,
            params = names.join(","),
            status = result.as_ref().map_or(0, |response| response.status),
            ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "proxmox"
        );
        match result {
            Ok(response) if (200..300).contains(&response.status) => Ok(response),
            Ok(response) => Err(ApiError::answered(request.method, &request.path, &response)),
            Err(error) => Err(ApiError::unanswered(request.method, &request.path, error)),
        }
    }
}

/// Whether a request may simply be sent again. A 500 is never harmless here: what it means is the caller's to decide.
fn harmless(method: Method, kind: &Kind) -> bool {
    match kind {
        Kind::NotSent => true,
        Kind::Unknown => method == Method::Get,
        Kind::Unauthorized
        | Kind::Forbidden { .. }
        | Kind::Missing
        | Kind::Locked { .. }
        | Kind::Exists
        | Kind::Invalid
        | Kind::Busy
        | Kind::NoQuorum
        | Kind::Untrusted { .. }
        | Kind::NotImplemented
        | Kind::TaskFailed
        | Kind::Other => false,
    }
}

/// The pause after the nth failure: 50, 224, 1000 ms, each shortened by up to a half at random, so that many hosts do not
/// come back at the same moment.
fn pause(failures: u32, random: u64) -> Duration {
    let base = (0..failures)
        .skip(1)
        .fold(LONGEST_PAUSE / 20, |pause, _| pause.mul_f64(4.48))
        .min(LONGEST_PAUSE);
    let percent = u32::try_from(random % 51).unwrap_or(0);
    base - base / 100 * percent
}

/// The `data` of an answer; null when it has none.
fn data(body: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(mut envelope)) => Ok(envelope.remove("data").unwrap_or(Value::Null)),
        Ok(_) => Err("no object with data".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn upid(data: &Value) -> Result<Option<Upid>, String> {
    match data {
        Value::Null => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => text
            .parse()
            .map(Some)
            .map_err(|error: super::ids::InvalidId| error.to_string()),
        other => Err(format!("no task id: {other}")),
    }
}

/// A parameter.
pub(super) fn param(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    use futures_util::future::BoxFuture;

    use super::super::transport::TransportError;
    use super::*;

    /// Plays answers and counts requests.
    struct Fake {
        script: Mutex<VecDeque<Result<ApiResponse, TransportError>>>,
        sent: Mutex<u32>,
    }

    impl Transport for Fake {
        fn exchange(&self, _request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
            *self.sent.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            let next = self.script.lock().unwrap().pop_front();
            Box::pin(std::future::ready(
                next.unwrap_or_else(|| Err(TransportError::NotSent("end of script".to_owned()))),
            ))
        }
    }

    fn fake(script: impl IntoIterator<Item = Result<ApiResponse, TransportError>>) -> (Client, Arc<Fake>) {
        let fake = Arc::new(Fake {
            script: Mutex::new(script.into_iter().collect()),
            sent: Mutex::new(0),
        });
        (Client::new(Arc::clone(&fake) as Arc<dyn Transport>), fake)
    }

    fn answer(status: u16, reason: &str, body: &str) -> Result<ApiResponse, TransportError> {
        Ok(ApiResponse {
            status,
            reason: reason.to_owned(),
            body: body.as_bytes().to_vec(),
        })
    }

    fn sent(fake: &Fake) -> u32 {
        *fake.sent.lock().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_tried_four_times_and_then_given_up() {
        let (client, fake) = fake((0..9).map(|_| answer(596, "Connection timed out", "")));
        let started = Instant::now();
        assert_eq!(client.version().await.unwrap_err().kind(), Kind::Unknown);
        assert_eq!(sent(&fake), 4);
        assert!(
            started.elapsed() <= Duration::from_millis(50 + 225 + 1000 + 10),
            "{:?}",
            started.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_sent_again_only_if_it_was_certainly_not_sent() {
        let upid = "{\"data\":\"UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmstart:100:root@pam:\"}";
        let node = "pve1".parse().unwrap();
        let vmid = "100".parse().unwrap();
        let (client, door) = fake([
            Err(TransportError::NotSent("refused".to_owned())),
            answer(595, "No route to host", ""),
            answer(200, "OK", upid),
        ]);
        assert_eq!(client.start(&node, vmid).await.unwrap().kind(), "qmstart");
        assert_eq!(sent(&door), 3);
        for doubtful in [
            Err(TransportError::Unknown("reset".to_owned())),
            answer(596, "Broken pipe", ""),
            answer(
                500,
                "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
                "",
            ),
        ] {
            let (client, door) = fake([doubtful, answer(200, "OK", upid)]);
            client.start(&node, vmid).await.unwrap_err();
            assert_eq!(sent(&door), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_not_tried_again() {
        let (client, fake) = fake([answer(401, "Authentication failed!", ""), answer(200, "OK", "{}")]);
        assert_eq!(client.nodes().await.unwrap_err().kind(), Kind::Unauthorized);
        assert_eq!(sent(&fake), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_a_task_id_leaves_the_change_in_doubt() {
        let (client, _) = fake([answer(200, "OK", "{\"data\":null}")]);
        let error = client
            .stop(&"pve1".parse().unwrap(), "100".parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Unknown);
        let (client, _) = fake([answer(200, "OK", "<html>")]);
        assert_eq!(client.nodes().await.unwrap_err().kind(), Kind::Other);
    }

    #[test]
    fn pauses_grow_to_a_second_and_differ() {
        let pauses: Vec<u128> = (1..=3).map(|failures| pause(failures, 0).as_millis()).collect();
        assert_eq!(pauses, [50, 224, 1000]);
        assert_eq!(pause(3, 50), Duration::from_millis(500));
        assert_eq!(pause(9, 0), LONGEST_PAUSE);
    }
}
