//! What went wrong, and what can be done about it.
//!
//! ```text
//!   no answer (TransportError) --\
//!   status and text --------------+--> ApiError --kind()--> NotSent, Busy, NoQuorum: certainly not executed, try again
//!   a task's exit status --------/                          Unknown: look before anything else
//!                                                           the others: final, each with its own way out
//! ```
//!
//! An [`ApiError`] names what was asked and what was answered, with what was said about single parameters; its
//! classification is in [`Kind`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde_json::Value;

mod kind;

pub use kind::Kind;

use super::ids::Upid;
use super::transport::{ApiResponse, Method, TransportError};

/// A call that failed: what was asked, what was answered. The details are read through [`Deref`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError(Box<Details>);

/// The particulars of an [`ApiError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// The method.
    pub method: Method,
    /// The path below `/api2/json`; empty when no call was made yet.
    pub path: String,
    /// The HTTP status; `None` without an answer.
    pub status: Option<u16>,
    /// What Proxmox said, in full, or why there is no answer.
    pub reason: String,
    /// What it said about single parameters.
    pub errors: BTreeMap<String, String>,
    /// The task, when one failed.
    pub upid: Option<Upid>,
    kind: Kind,
}

impl Deref for ApiError {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl ApiError {
    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.kind.clone()
    }

    /// An answer that is no success.
    pub fn answered(method: Method, path: &str, response: &ApiResponse) -> Self {
        let body: Option<Value> = serde_json::from_slice(&response.body).ok();
        let message = body
            .as_ref()
            .and_then(|body| body.get("message"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim();
        // The status line holds the first line only; older releases have no message.
        let reason = if message.len() > response.reason.len() {
            message
        } else {
            response.reason.trim()
        };
        let errors: BTreeMap<String, String> = match body.as_ref().and_then(|body| body.get("errors")) {
            Some(Value::Object(map)) => map
                .iter()
                .map(|(name, text)| {
                    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
                    (name.clone(), text.trim().to_owned())
                })
                .collect(),
            Some(_) | None => BTreeMap::new(),
        };
        Self(Box::new(Details {
            method,
            path: path.to_owned(),
            status: Some(response.status),
            reason: reason.to_owned(),
            kind: Kind::of_status(response.status, reason, &errors),
            errors,
            upid: None,
        }))
    }

    /// No answer.
    pub fn unanswered(method: Method, path: &str, error: TransportError) -> Self {
        let (reason, kind) = match error {
            TransportError::NotSent(reason) => (reason, Kind::NotSent),
            TransportError::Untrusted {
                seen_fingerprint,
                detail,
            } => (detail, Kind::Untrusted { seen_fingerprint }),
            TransportError::Unknown(reason) => (reason, Kind::Unknown),
        };
        Self::plain(method, path, reason, kind)
    }

    /// A success that cannot be read. A change that was answered so has happened, so its outcome is in doubt.
    pub fn unreadable(method: Method, path: &str, why: &str) -> Self {
        let kind = if method == Method::Get {
            Kind::Other
        } else {
            Kind::Unknown
        };
        let mut error = Self::plain(method, path, why.to_owned(), kind);
        error.0.status = Some(200);
        error
    }

    /// A task that ended badly; `exitstatus` is Proxmox's text.
    pub fn task(upid: &Upid, exitstatus: &str) -> Self {
        let kind = match Kind::of_text(exitstatus) {
            Kind::Other => Kind::TaskFailed,
            kind => kind,
        };
        let mut error = Self::plain(Method::Get, "", exitstatus.to_owned(), kind);
        error.0.upid = Some(upid.clone());
        error
    }

    /// The client could not be set up, so nothing was sent: `what` names the file or setting.
    pub fn setup(what: String) -> Self {
        Self::plain(Method::Get, "", what, Kind::NotSent)
    }

    fn plain(method: Method, path: &str, reason: String, kind: Kind) -> Self {
        let errors = BTreeMap::new();
        Self(Box::new(Details {
            method,
            path: path.to_owned(),
            status: None,
            reason,
            errors,
            upid: None,
            kind,
        }))
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details {
            method,
            path,
            status,
            reason,
            errors,
            upid,
            kind,
        } = &*self.0;
        if let Some(upid) = upid {
            return write!(
                f,
                "task {} of {} on {} failed: {reason}",
                upid.kind(),
                upid.id(),
                upid.node()
            );
        }
        if path.is_empty() {
            return f.write_str(reason);
        }
        write!(f, "{method} {path} ")?;
        match (status, kind) {
            (Some(200), _) => write!(f, "gave an answer that cannot be read: {reason}")?,
            (Some(status), _) => write!(f, "was answered {status}: {}", reason.replace('\n', " "))?,
            (None, Kind::Untrusted { seen_fingerprint }) => {
                write!(f, "was not sent: the server's certificate is not trusted: {reason}")?;
                if let Some(seen) = seen_fingerprint {
                    write!(f, " (its SHA-256 fingerprint is {seen})")?;
                }
            }
            (None, Kind::Unknown) => write!(f, "got no answer and may have been executed: {reason}")?,
            (None, _) => write!(f, "was not sent: {reason}")?,
        }
        if !errors.is_empty() {
            let all: Vec<String> = errors
                .iter()
                .map(|(name, text)| format!("{name}: {}", text.replace('\n', " ")))
                .collect();
            write!(f, " ({})", all.join("; "))?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, reason: &str, body: &str) -> ApiError {
        let response = ApiResponse {
            status,
            reason: reason.to_owned(),
            body: body.as_bytes().to_vec(),
        };
        ApiError::answered(Method::Put, "/nodes/pve1/qemu/100/config", &response)
    }

    #[test]
    fn a_refusal_names_path_and_privileges() {
        let both = answered(
            403,
            "Permission check failed (/vms/100, VM.Config.Disk|VM.Config.CDROM)",
            "",
        );
        let privileges = vec!["VM.Config.Disk".to_owned(), "VM.Config.CDROM".to_owned()];
        assert_eq!(
            both.kind(),
            Kind::Forbidden {
                path: "/vms/100".to_owned(),
                privileges
            }
        );
        let tag = answered(403, "Permission check failed (/, Sys.Modify for modifying tag 'x')", "");
        assert_eq!(
            tag.kind(),
            Kind::Forbidden {
                path: "/".to_owned(),
                privileges: vec!["Sys.Modify".to_owned()]
            }
        );
        assert_eq!(
            answered(403, "Permission check failed (pool 'p' does not exist)", "").kind(),
            Kind::Invalid
        );
        let bare = Kind::Forbidden {
            path: String::new(),
            privileges: Vec::new(),
        };
        assert_eq!(answered(403, "Permission check failed", "").kind(), bare);
    }

    #[test]
    fn display_tells_the_call_the_answer_and_each_parameter() {
        let error = answered(
            400,
            "Parameter verification failed.",
            r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"net0":"invalid format\nnet0.tag: too big\n","cores":"no"}}"#,
        );
        assert_eq!(
            error.to_string(),
            "PUT /nodes/pve1/qemu/100/config was answered 400: Parameter verification failed. (cores: no; net0: invalid format net0.tag: too big)"
        );
        assert_eq!(error.kind(), Kind::Invalid);
    }

    #[test]
    fn the_longer_of_status_line_and_message_is_kept() {
        let error = answered(
            500,
            "first line",
            "{\"data\":null,\"message\":\"first line\\nVM is locked (clone)\\n\"}",
        );
        assert_eq!(error.reason, "first line\nVM is locked (clone)");
        assert_eq!(
            error.kind(),
            Kind::Locked {
                lock: Some("clone".to_owned())
            }
        );
        assert_eq!(
            answered(500, "VM is locked (clone)", "{\"data\":null}").reason,
            "VM is locked (clone)"
        );
    }

    #[test]
    fn between_the_daemons_only_595_was_not_sent() {
        assert_eq!(answered(595, "Connection refused", "").kind(), Kind::NotSent);
        for status in [596, 597, 599] {
            assert_eq!(answered(status, "Connection timed out", "").kind(), Kind::Unknown);
        }
    }

    #[test]
    fn a_task_that_failed_for_its_own_reason_says_so() {
        let upid: Upid = "UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmstart:100:root@pam:"
            .parse()
            .unwrap();
        let error = ApiError::task(&upid, "start failed: QEMU exited with code 1");
        assert_eq!(error.kind(), Kind::TaskFailed);
        assert_eq!(
            error.to_string(),
            "task qmstart of 100 on pve1 failed: start failed: QEMU exited with code 1"
        );
    }

    #[test]
    fn an_unreadable_answer_to_a_change_is_in_doubt() {
        assert_eq!(
            ApiError::unreadable(Method::Post, "/x", "no UPID").kind(),
            Kind::Unknown
        );
        assert_eq!(ApiError::unreadable(Method::Get, "/x", "no list").kind(), Kind::Other);
    }
}
