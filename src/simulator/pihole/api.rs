//! What each request does and answers, without HTTP: routes, sessions, the two lists of records.

use hyper::Method;
use serde_json::{Value, json};

use super::{Inner, Seat};

/// Status and body; no body at all for 204.
pub(super) struct Answer(pub(super) u16, pub(super) Value);

impl Answer {
    fn error(status: u16, key: &str, message: &str, hint: impl Into<Value>) -> Self {
        Self(
            status,
            json!({"error": {"key": key, "message": message, "hint": hint.into()}}),
        )
    }

    fn unauthorized() -> Self {
        Self::error(401, "unauthorized", "Unauthorized", Value::Null)
    }
}

impl Inner {
    pub(super) fn route(&self, method: &Method, path: &str, sid: Option<&str>, body: &[u8]) -> Answer {
        let segments: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let not_found = || Answer::error(404, "not_found", "Not found", path);
        let Some(("api", rest)) = words.split_first().map(|(first, rest)| (*first, rest)) else {
            return not_found();
        };
        if rest == ["auth"] {
            return self.auth(method, sid, body);
        }
        if self.seat_of(sid).is_none() {
            return Answer::unauthorized();
        }
        match (method, rest) {
            (&Method::GET, ["auth", "sessions"]) => self.sessions(sid),
            (&Method::GET, ["config", ..]) => self.config(&rest[1..]).unwrap_or_else(not_found),
            (&Method::PUT, ["config", "dns", list, item]) => self.change(list, item, true).unwrap_or_else(not_found),
            (&Method::DELETE, ["config", "dns", list, item]) => {
                self.change(list, item, false).unwrap_or_else(not_found)
            }
            (&Method::PUT, ["config", ..]) => Answer::error(
                400,
                "bad_request",
                "Invalid path depth",
                "Use, e.g., PUT /api/config/dns/upstreams/127.0.0.1 to add \"127.0.0.1\" to config.dns.upstreams",
            ),
            (&Method::POST, ["action", "restartdns"]) => {
                self.restart();
                Answer(200, json!({"status": "success"}))
            }
            _ => not_found(),
        }
    }

    /// The seat of a session id; seat 0 stands for everyone where no password is set.
    pub(super) fn seat_of(&self, sid: Option<&str>) -> Option<usize> {
        if self.options.password.is_empty() {
            return Some(0);
        }
        let now = self.clock.now_ms();
        let until = now + self.options.session_seconds * 1000;
        let mut state = self.state();
        let (seat, known) = state
            .seats
            .iter_mut()
            .find(|(_, seat)| Some(seat.sid.as_str()) == sid)?;
        if known.valid_until_ms <= now {
            return None;
        }
        known.valid_until_ms = until;
        Some(*seat)
    }

    fn session(&self, seat: Option<usize>, message: &str) -> Value {
        let now = self.clock.now_ms();
        let none = json!({"session": {"valid": false, "totp": false, "sid": null, "validity": -1, "message": message}});
        let state = self.state();
        match seat.and_then(|seat| state.seats.get(&seat)) {
            Some(seat) => json!({"session": {
                "valid": true, "totp": false, "sid": seat.sid, "csrf": seat.csrf,
                "validity": seat.valid_until_ms.saturating_sub(now) / 1000, "message": message,
            }}),
            None => none,
        }
    }

    fn auth(&self, method: &Method, sid: Option<&str>, body: &[u8]) -> Answer {
        if self.options.password.is_empty() && method != Method::DELETE {
            return Answer(
                200,
                json!({"session": {
                    "valid": true, "totp": false, "sid": null, "validity": -1, "message": "no password set",
                }}),
            );
        }
        match *method {
            Method::POST => self.log_in(body),
            Method::GET => match self.seat_of(sid) {
                Some(seat) => Answer(200, self.session(Some(seat), "correct password")),
                None => Answer(
                    401,
                    self.session(
                        None,
                        if sid.is_some() {
                            "session unknown"
                        } else {
                            "no SID provided"
                        },
                    ),
                ),
            },
            Method::DELETE => match self.seat_of(sid).and_then(|seat| self.state().seats.remove(&seat)) {
                Some(_) => Answer(204, Value::Null),
                None => Answer(
                    401,
                    self.session(
                        None,
                        if sid.is_some() {
                            "session unknown"
                        } else {
                            "no SID provided"
                        },
                    ),
                ),
            },
            _ => Answer::error(404, "not_found", "Not found", "/api/auth"),
        }
    }

    fn log_in(&self, body: &[u8]) -> Answer {
        let bad = |message: &str| Answer::error(400, "bad_request", message, Value::Null);
        let Ok(payload) = serde_json::from_slice::<Value>(body) else {
            return bad("No password found in JSON payload");
        };
        let password = match payload.get("password") {
            None => return bad("No password found in JSON payload"),
            Some(Value::String(password)) => password,
            Some(_) => return bad("Field password has to be of type 'string'"),
        };
        if *password != self.options.password {
            return Answer(401, self.session(None, "password incorrect"));
        }
        let now = self.clock.now_ms();
        let mut state = self.state();
        state.seats.retain(|_, seat| seat.valid_until_ms > now);
        let Some(seat) = (0..self.options.max_sessions).find(|seat| !state.seats.contains_key(seat)) else {
            return Answer::error(
                429,
                "api_seats_exceeded",
                "API seats exceeded",
                "increase webserver.api.max_sessions",
            );
        };
        let token = || format!("{}=", uuid::Uuid::new_v4().simple());
        let fresh = Seat {
            sid: token(),
            csrf: token(),
            valid_until_ms: now + self.options.session_seconds * 1000,
        };
        state.seats.insert(seat, fresh);
        state.opened += 1;
        drop(state);
        Answer(200, self.session(Some(seat), "password correct"))
    }

    fn sessions(&self, sid: Option<&str>) -> Answer {
        let now = self.clock.now_ms();
        let state = self.state();
        let list: Vec<Value> = state
            .seats
            .iter()
            .map(|(id, seat)| {
                json!({
                    "id": id, "current_session": Some(seat.sid.as_str()) == sid, "valid": seat.valid_until_ms > now,
                    "valid_until": seat.valid_until_ms / 1000, "app": false, "cli": false,
                })
            })
            .collect();
        Answer(200, json!({"sessions": list}))
    }

    fn config(&self, path: &[&str]) -> Option<Answer> {
        let records = self.state().records.clone();
        let hosts = json!(records.hosts);
        let cnames = json!(records.cnames);
        let dns = match path {
            [] | ["dns"] => json!({"hosts": hosts, "cnameRecords": cnames}),
            ["dns", "hosts"] => json!({"hosts": hosts}),
            ["dns", "cnameRecords"] => json!({"cnameRecords": cnames}),
            _ => return None,
        };
        Some(Answer(200, json!({"config": {"dns": dns}})))
    }

    /// Adds or removes one item of a list; none: no such list.
    fn change(&self, list: &str, item: &str, add: bool) -> Option<Answer> {
        let mut state = self.state();
        let (items, problem) = match list {
            "hosts" => (&mut state.records.hosts, invalid_host(item)),
            "cnameRecords" => (&mut state.records.cnames, invalid_cname(item)),
            _ => return None,
        };
        let at = items.iter().position(|known| known == item);
        match (add, at) {
            (true, Some(_)) => {
                return Some(Answer::error(
                    400,
                    "bad_request",
                    "Item already present",
                    "Uniqueness of items is enforced",
                ));
            }
            (true, None) => {
                if let Some(problem) = problem {
                    let hint = format!("dns.{list}[{}]: {problem}", items.len());
                    return Some(Answer::error(400, "bad_request", "Invalid value", hint));
                }
                items.push(item.to_owned());
            }
            (false, Some(at)) => {
                items.remove(at);
            }
            (false, None) => return Some(Answer(404, json!({}))),
        }
        drop(state);
        if let Err(error) = self.keep() {
            return Some(Answer::error(
                500,
                "internal_error",
                "Internal server error",
                error.to_string(),
            ));
        }
        if list == "cnameRecords" || self.options.restart_for_hosts {
            self.restart();
        }
        Some(if add {
            Answer(201, json!({}))
        } else {
            Answer(204, Value::Null)
        })
    }

    fn restart(&self) {
        self.state().silent_until_ms = self.clock.now_ms() + self.options.restart_gap_ms;
    }
}

/// FTL: validate_dns_hosts.
fn invalid_host(item: &str) -> Option<String> {
    let mut words = item.split_whitespace();
    let Some(address) = words.next() else {
        return Some(format!("found no first element (\"{item}\")"));
    };
    if address.parse::<std::net::IpAddr>().is_err() {
        return Some(format!("neither a valid IPv4 nor IPv6 address (\"{address}\")"));
    }
    let names: Vec<&str> = words.take_while(|word| !word.starts_with('#')).collect();
    if names.is_empty() {
        return Some(format!("entry does not have at least one hostname (\"{item}\")"));
    }
    let label =
        |l: &str| !l.is_empty() && l.len() < 64 && l.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let bad = names.iter().find(|name| !name.split('.').all(label));
    bad.map(|name| format!("invalid hostname (\"{name}\")"))
}

/// FTL: validate_dns_cnames.
fn invalid_cname(item: &str) -> Option<String> {
    let parts: Vec<&str> = item.split(',').collect();
    if let Some(at) = parts.iter().position(|part| part.is_empty()) {
        return Some(format!("contains an empty string at position {at}"));
    }
    (parts.len() < 2).then(|| "not a valid CNAME definition (too few elements)".to_owned())
}

/// Percent-decoded; a wrong escape stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let high = bytes.get(at + 1).copied().and_then(hex);
        let low = bytes.get(at + 2).copied().and_then(hex);
        match (byte, high, low) {
            (b'%', Some(high), Some(low)) => {
                out.push(high * 16 + low);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
