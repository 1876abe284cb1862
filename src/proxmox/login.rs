//! Logging in: a token is sent along, a password is exchanged for a ticket.
//!
//! ```text
//!   token:     Authorization: PVEAPIToken=user@realm!id=secret            every request, nothing else
//!   password:  POST /access/ticket -> ticket + CSRF token, good for 2 h   renewed after 100 minutes
//!              Cookie: PVEAuthCookie=ticket, and CSRFPreventionToken on changes
//! ```
//!
//! A login that Proxmox refuses is a 401 whatever the reason; one that wants a second factor is told as such, since
//! nobody is there to give it. Source: pve-access-control, `API2/AccessControl.pm` and `AccessControl.pm`.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::form;
use super::json;
use super::transport::{ApiResponse, Method, TransportError};
use crate::secret::Secret;

/// A ticket lives two hours (pve-access-control: `$ticket_lifetime`); a request on the way must not outlive it.
const RENEW_AFTER: Duration = Duration::from_secs(100 * 60);

/// A ticket and when it was given.
#[derive(Clone, Debug)]
pub struct Session {
    ticket: Secret,
    csrf: Secret,
    since: Instant,
}

impl Session {
    /// Whether it is good for another request.
    pub fn is_fresh(&self) -> bool {
        self.since.elapsed() < RENEW_AFTER
    }

    /// The headers that it adds to a request.
    pub fn headers(&self, method: Method) -> Vec<(&'static str, Secret)> {
        let mut headers = vec![(
            "cookie",
            Secret::new(format!("PVEAuthCookie={}", escape(self.ticket.expose()))),
        )];
        if method != Method::Get {
            headers.push(("csrfpreventiontoken", self.csrf.clone()));
        }
        headers
    }
}

/// The header of a token.
pub fn token_header(user: &str, id: &str, secret: &Secret) -> (&'static str, Secret) {
    // A token id that is written in full has the user in front already.
    let whole = if id.contains('!') {
        id.to_owned()
    } else {
        format!("{user}!{id}")
    };
    (
        "authorization",
        Secret::new(format!("PVEAPIToken={}={}", escape(&whole), escape(secret.expose()))),
    )
}

/// The body of a login.
pub fn body(user: &str, password: &Secret) -> Secret {
    Secret::new(form::encode([("username", user), ("password", password.expose())]))
}

/// Why there is no session.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// An answer that stands for the answer to the request itself: 401.
    Answer(ApiResponse),
    /// Something else; the request itself was not sent.
    NotSent(TransportError),
}

/// Reads the answer of a login.
///
/// # Errors
///
/// [`Refused`]: what to answer instead of sending the request.
pub fn read(auth_user: &str, response: Result<ApiResponse, TransportError>) -> Result<Session, Refused> {
    let unauthorized = |reason: String| {
        Refused::Answer(ApiResponse {
            status: 401,
            reason,
            body: Vec::new(),
        })
    };
    let not_sent = |why: String| {
        Refused::NotSent(TransportError::NotSent(format!(
            "the login of {auth_user} failed: {why}"
        )))
    };
    let response = match response {
        Ok(response) => response,
        Err(TransportError::Unknown(why) | TransportError::NotSent(why)) => return Err(not_sent(why)),
        Err(untrusted @ TransportError::Untrusted { .. }) => return Err(Refused::NotSent(untrusted)),
    };
    match response.status {
        200 => {}
        401 => {
            return Err(unauthorized(format!(
                "the login of {auth_user} was refused: {}",
                response.reason
            )));
        }
        status => return Err(not_sent(format!("{status} {}", response.reason))),
    }
    let answer: Value = serde_json::from_slice(&response.body).map_err(|error| not_sent(error.to_string()))?;
    let data = &answer["data"];
    if json::is_true(&data["NeedTFA"]).unwrap_or(true) {
        return Err(unauthorized(format!(
            "{auth_user} logs in with a second factor, which cannot be given here: use an API token"
        )));
    }
    match (data["ticket"].as_str(), data["CSRFPreventionToken"].as_str()) {
        (Some(ticket), Some(csrf)) => Ok(Session {
            ticket: Secret::new(ticket),
            csrf: Secret::new(csrf),
            since: Instant::now(),
        }),
        _ => Err(not_sent("the answer has no ticket".to_owned())),
    }
}

/// pve-http-server ends a credential at `;` and then decodes percent signs.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace(';', "%3B")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, reason: &str, body: &str) -> Result<ApiResponse, TransportError> {
        Ok(ApiResponse {
            status,
            reason: reason.to_owned(),
            body: body.as_bytes().to_vec(),
        })
    }

    #[test]
    fn a_token_is_one_header() {
        let (name, value) = token_header("root@pam", "ci", &Secret::new("0000-1;%"));
        assert_eq!(
            (name, value.expose()),
            ("authorization", "PVEAPIToken=root@pam!ci=0000-1%3B%25")
        );
        let (_, value) = token_header("root@pam", "ci@pve!full", &Secret::new("s"));
        assert_eq!(value.expose(), "PVEAPIToken=ci@pve!full=s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_serves_for_less_than_its_two_hours() {
        let body = r#"{"data":{"username":"a@pve","ticket":"PVE:a@pve:0::S==","CSRFPreventionToken":"0:c"}}"#;
        let session = read("a@pve", answer(200, "OK", body)).unwrap();
        let headers = |method| -> Vec<String> {
            session
                .headers(method)
                .into_iter()
                .map(|(name, value)| format!("{name}: {}", value.expose()))
                .collect()
        };
        assert_eq!(headers(Method::Get), ["cookie: PVEAuthCookie=PVE:a@pve:0::S=="]);
        assert_eq!(
            headers(Method::Delete),
            ["cookie: PVEAuthCookie=PVE:a@pve:0::S==", "csrfpreventiontoken: 0:c"]
        );
        tokio::time::advance(Duration::from_secs(99 * 60)).await;
        assert!(session.is_fresh());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!session.is_fresh());
    }

    #[test]
    fn a_refused_login_is_a_401_and_any_other_failure_was_not_sent() {
        let refused = read("a@pve", answer(401, "authentication failure", "")).unwrap_err();
        let Refused::Answer(response) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(
            (response.status, response.reason.as_str()),
            (401, "the login of a@pve was refused: authentication failure")
        );
        for lost in [
            answer(596, "Connection timed out", ""),
            Err(TransportError::Unknown("reset".to_owned())),
        ] {
            assert!(matches!(
                read("a@pve", lost).unwrap_err(),
                Refused::NotSent(TransportError::NotSent(_))
            ));
        }
    }

    #[test]
    fn a_second_factor_is_told() {
        let body = r#"{"data":{"NeedTFA":1,"ticket":"PVE:!tfa!x","CSRFPreventionToken":"c"}}"#;
        let Refused::Answer(response) = read("a@pve", answer(200, "OK", body)).unwrap_err() else {
            panic!()
        };
        assert_eq!(response.status, 401);
        assert!(response.reason.contains("use an API token"), "{}", response.reason);
    }
}
