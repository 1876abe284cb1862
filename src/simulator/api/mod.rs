//! The REST API: from a request to a reply, without any I/O of its own.
//!
//! ```text
//! path -> route (501) -> who (401) -> node (500 unknown, 595 offline) -> may (403) -> schema (400) -> effect
//! ```
//!
//! A handler answers at once, or says what the answer waits for ([`Reply::Wait`]); it is then asked again.

mod access;
mod agent;
mod clone;
mod cloudinit;
mod cluster;
mod config;
mod migrate;
mod nodes;
mod power;
mod qemu;
mod request;
pub(crate) mod routes;
mod snapshot;
mod storage;
mod tasks;

use serde_json::{Value, json};

use super::access::{Credentials, Identity};
use super::fail::ApiError;
use super::fault::Verdict;
use super::schema;
use super::world::World;
pub(crate) use request::parse_given;
use routes::{Allowed, Route};

/// A request as the doors hand it in.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`
    pub method: String,
    /// The path with `/api2/json`, percent-encoded.
    pub path: String,
    /// The query, encoded.
    pub query: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `Cookie` header.
    pub cookie: Option<String>,
    /// The `CSRFPreventionToken` header.
    pub csrf: Option<String>,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The content type; none: no body.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What stands under `data`.
    pub fn data(&self) -> Value {
        self.json().get("data").cloned().unwrap_or(Value::Null)
    }
}

/// What a handler says.
pub(crate) enum Reply {
    /// The value under `data`.
    Data(Value),
    /// A list with the number of all entries.
    List(Vec<Value>, usize),
    /// Ask again when something happened in the world, at the latest then.
    Wait(u64),
    /// Answer after so many milliseconds.
    After(u64, Result<Value, ApiError>),
    /// A task that is waited for until then: null when it went well by then, the UPID when it still runs.
    Follow { upid: String, until_ms: u64 },
    /// A plain text.
    Text(String),
}

/// A request on its way through a handler.
pub(crate) struct Call<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) who: Identity,
    pub(crate) path: Vec<(&'static str, String)>,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) arrived_ms: u64,
}

impl Call<'_> {
    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v)
    }

    /// The node of the path.
    pub(crate) fn node(&self) -> String {
        self.part("node").to_owned()
    }

    /// The VM of the path.
    pub(crate) fn vmid(&self) -> u32 {
        self.part("vmid").parse().unwrap_or(0)
    }

    /// A parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// A parameter of its own.
    pub(crate) fn take(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A flag.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|text| text.parse().ok())
    }

    /// 403 unless the caller has one of the privileges.
    pub(crate) fn check(&self, path: &str, any_of: &[&str]) -> Result<(), ApiError> {
        self.world.check(&self.who, path, any_of)
    }

    /// 400 for `skiplock` and others that only root may use.
    pub(crate) fn root_only(&self, names: &[&str]) -> Result<(), ApiError> {
        match names.iter().find(|name| self.get(name).is_some_and(|v| v != "0")) {
            Some(name) if !self.who.is_root() => Err(ApiError::invalid(name, "Only root may use this option.")),
            _ => Ok(()),
        }
    }
}

/// What is known of a request before its handler is asked.
pub(crate) struct Prepared {
    pub(crate) route: &'static Route,
    pub(crate) who: Identity,
    pub(crate) parts: Vec<(&'static str, String)>,
    pub(crate) given: Vec<(String, Value)>,
    pub(crate) extjs: bool,
}

/// What the door does.
pub(crate) enum Answer {
    /// Sends this, after so many milliseconds.
    Send(Response, u64),
    /// Asks again, at the latest then.
    Again(u64),
    /// Waits for a task.
    Follow { upid: String, until_ms: u64 },
}

/// Everything before the handler; the error is the answer.
pub(crate) fn prepare(world: &World, request: &Request) -> Result<Prepared, (Response, u64)> {
    let plain = |error: ApiError| (error_response(world, &error, false), 0);
    let path = request.path.replacen("//", "/", 1);
    let Some(rest) = path.strip_prefix("/api2/") else {
        return Err(plain(ApiError::daemon(501, "no such uri")));
    };
    if !matches!(request.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
        let error = ApiError::daemon(501, format!("method '{}' not available", request.method));
        let mut response = error_response(world, &error, false);
        response.body.clear();
        response.content_type = None;
        return Err((response, 0));
    }
    let (format, path) = match rest.split_once('/') {
        Some((format, path)) => (format, format!("/{}", path.trim_end_matches('/'))),
        None => (rest, "/".to_owned()),
    };
    if format.is_empty() {
        return Err(plain(ApiError::daemon(501, "no such uri")));
    }
    let extjs = format == "extjs";
    if !extjs && format != "json" {
        return Err(plain(ApiError::daemon(
            501,
            format!("no formatter for uri {path}, {format}"),
        )));
    }
    let fail = |error: ApiError| (error_response(world, &error, extjs), 0);
    let given = parse_given(request).map_err(plain)?;
    let found = routes::find(&request.method, &path);
    let credentials = Credentials {
        authorization: request.authorization.clone(),
        cookie: request.cookie.clone(),
        csrf: request.csrf.clone(),
    };
    let open = found
        .as_ref()
        .is_some_and(|(route, _)| matches!(route.allowed, Allowed::Everybody));
    let who = if open {
        Identity { id: String::new() }
    } else {
        world
            .access
            .authenticate(&credentials, request.method != "GET", world.now_ms)
            .map_err(|reason| {
                let response = Response {
                    status: 401,
                    reason,
                    content_type: None,
                    body: Vec::new(),
                };
                (response, world.durations.auth_delay)
            })?
    };
    if matches!(found, Some((route, _)) if route.path == "/access/ticket") && credentials.authorization.is_some() {
        // A token cannot make tickets; without credentials it is an ordinary login.
    }
    let Some((route, mut parts)) = found else {
        let mut error = ApiError::daemon(501, format!("Method '{} {path}' not implemented", request.method));
        error.plain = false;
        return Err(fail(error));
    };
    if let Some((_, node)) = parts.iter_mut().find(|(name, _)| *name == "node") {
        if node == "localhost" {
            *node = world.nodes.keys().next().cloned().unwrap_or_default();
        }
        match world.nodes.get(node.as_str()) {
            None => {
                return Err(fail(ApiError::failed(format!(
                    "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known"
                ))));
            }
            Some(known) if !known.online => {
                let response = Response {
                    status: 595,
                    reason: "No route to host".to_owned(),
                    content_type: None,
                    body: Vec::new(),
                };
                return Err((response, 3 * world.durations.second));
            }
            Some(_) => {}
        }
    }
    Ok(Prepared {
        route,
        who,
        parts,
        given,
        extjs,
    })
}

/// Asks the handler.
pub(crate) fn answer(world: &mut World, prepared: &Prepared, arrived_ms: u64) -> Answer {
    let extjs = prepared.extjs;
    match run(world, prepared, arrived_ms) {
        Ok(Reply::Data(data)) => Answer::Send(data_response(data, None, extjs), 0),
        Ok(Reply::List(entries, total)) => Answer::Send(data_response(Value::from(entries), Some(total), extjs), 0),
        Ok(Reply::Text(text)) => Answer::Send(
            Response {
                status: 200,
                reason: "OK".to_owned(),
                content_type: Some("text/plain;charset=UTF-8"),
                body: text.into_bytes(),
            },
            0,
        ),
        Ok(Reply::Wait(until)) => Answer::Again(until),
        Ok(Reply::After(delay, Ok(data))) => Answer::Send(data_response(data, None, extjs), delay),
        Ok(Reply::After(delay, Err(error))) => Answer::Send(error_response(world, &error, extjs), delay),
        Ok(Reply::Follow { upid, until_ms }) => Answer::Follow { upid, until_ms },
        Err(error) => {
            let delay = if error.status == 401 {
                world.durations.auth_delay
            } else {
                0
            };
            Answer::Send(error_response(world, &error, extjs), delay)
        }
    }
}

fn run(world: &mut World, prepared: &Prepared, arrived_ms: u64) -> Result<Reply, ApiError> {
    let route = prepared.route;
    route.allowed.check(world, &prepared.who, &prepared.parts)?;
    let mut given = prepared.given.clone();
    for (name, value) in &prepared.parts {
        match given.iter().find(|(key, _)| key == name) {
            Some((_, other)) if other.as_str() != Some(value) => {
                return Err(ApiError::invalid(
                    name,
                    "duplicate parameter (already defined in URI) with conflicting values!",
                ));
            }
            Some(_) => {}
            None => given.push(((*name).to_owned(), Value::from(value.as_str()))),
        }
    }
    let path_params: Vec<schema::Param> = prepared
        .parts
        .iter()
        .map(|(name, _)| routes::path_param(name))
        .collect();
    let mut lists: Vec<&[schema::Param]> = vec![&path_params];
    lists.extend(route.params);
    let checked = schema::validate(&lists, &given, world.major())?;
    let params = checked
        .into_iter()
        .filter(|(key, _)| !prepared.parts.iter().any(|(name, _)| name == key))
        .collect();
    let mut call = Call {
        world,
        who: prepared.who.clone(),
        path: prepared.parts.clone(),
        params,
        arrived_ms,
    };
    (route.handler)(&mut call)
}

/// A good response.
pub(crate) fn data_response(data: Value, total: Option<usize>, extjs: bool) -> Response {
    let mut body = json!({ "data": data });
    if let Some(total) = total {
        body["total"] = Value::from(total);
    }
    if extjs {
        body["success"] = Value::from(1);
    }
    json_response(200, "OK", &body)
}

fn json_response(status: u16, reason: &str, body: &Value) -> Response {
    Response {
        status,
        reason: reason.to_owned(),
        content_type: Some("application/json;charset=UTF-8"),
        body: body.to_string().into_bytes(),
    }
}

/// A failure as the release says it: `message` stands in the body since 8.3's updates of 2025.
pub(crate) fn error_response(world: &World, error: &ApiError, extjs: bool) -> Response {
    let reason = error.message.lines().next().unwrap_or_default().to_owned();
    if error.plain {
        return Response {
            status: error.status,
            reason,
            content_type: Some("text/plain"),
            body: error.message.clone().into_bytes(),
        };
    }
    if error.status == 401 && error.errors.is_empty() && error.message.is_empty() {
        return Response {
            status: 401,
            reason,
            content_type: None,
            body: Vec::new(),
        };
    }
    let end = if error.status == 501 { "" } else { "\n" };
    let mut body = json!({ "data": null });
    let minor: u32 = world
        .version
        .split('.')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    if extjs || world.major() >= 9 || (world.major() == 8 && minor >= 4) {
        body["message"] = Value::from(format!("{}{end}", error.message));
    }
    if !error.errors.is_empty() {
        let errors: serde_json::Map<String, Value> = error
            .errors
            .iter()
            .map(|(k, v)| (k.clone(), Value::from(v.as_str())))
            .collect();
        body["errors"] = Value::Object(errors);
    }
    if extjs {
        body["success"] = Value::from(0);
        body["status"] = Value::from(error.status);
        return json_response(200, "OK", &body);
    }
    json_response(error.status, &reason, &body)
}

/// A response that a fault ordered.
pub(crate) fn verdict_response(world: &World, verdict: &Verdict) -> Option<Response> {
    match verdict {
        Verdict::Answer(status, text) if (595..=599).contains(status) || *status == 401 => Some(Response {
            status: *status,
            reason: text.clone(),
            content_type: None,
            body: Vec::new(),
        }),
        Verdict::Answer(status, text) => {
            let mut error = ApiError::failed(text.as_str());
            error.status = *status;
            Some(error_response(world, &error, false))
        }
        Verdict::DropBefore | Verdict::DropAfter | Verdict::Pass => None,
    }
}
