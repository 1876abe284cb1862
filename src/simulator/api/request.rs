//! Parameters out of a query and a body (pve-http-server: `extract_params`, `decode_urlencoded`).

use serde_json::Value;

use super::Request;
use crate::simulator::fail::ApiError;
use crate::simulator::props::percent_decode;

const BODY_LIMIT: usize = 512 * 1024;

/// Every given parameter; a repeated one is an array.
pub(crate) fn parse_given(request: &Request) -> Result<Vec<(String, Value)>, ApiError> {
    let mut given = Vec::new();
    let reads = matches!(request.method.as_str(), "GET" | "DELETE");
    if reads && !request.body.is_empty() {
        return Err(ApiError::daemon(
            501,
            format!("Unexpected content for method '{}'", request.method),
        ));
    }
    if request.body.len() > BODY_LIMIT {
        return Err(ApiError::daemon(501, "for data too large"));
    }
    if !reads && !request.body.is_empty() {
        let kind = request
            .content_type
            .as_deref()
            .unwrap_or("application/x-www-form-urlencoded");
        match kind.split(';').next().unwrap_or_default().trim() {
            "application/x-www-form-urlencoded" => {
                add_pairs(&mut given, &String::from_utf8_lossy(&request.body));
            }
            "application/json" => add_json(&mut given, &request.body)?,
            _ => {
                return Err(ApiError::daemon(
                    506,
                    format!("upload 'Content-Type '{kind}' not implemented"),
                ));
            }
        }
    }
    let mut query = Vec::new();
    add_pairs(&mut query, &request.query);
    for (key, value) in query {
        given.retain(|(k, _)| *k != key);
        given.push((key, value));
    }
    Ok(given)
}

/// Pairs are split at `&` and `;`, and each at every `=`, of which two pieces count.
fn add_pairs(given: &mut Vec<(String, Value)>, text: &str) {
    for pair in text.split(['&', ';']).filter(|p| !p.is_empty()) {
        let mut pieces = pair.split('=');
        let key = percent_decode(pieces.next().unwrap_or_default(), true);
        let value = pieces
            .next()
            .map_or(Value::Null, |v| Value::from(percent_decode(v, true)));
        match given.iter_mut().find(|(k, _)| *k == key) {
            Some((_, Value::Array(all))) => all.push(value),
            Some((_, old)) => *old = Value::from(vec![old.take(), value]),
            None => given.push((key, value)),
        }
    }
}

fn add_json(given: &mut Vec<(String, Value)>, body: &[u8]) -> Result<(), ApiError> {
    let at = "at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line";
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(map)) => {
            given.extend(map);
            Ok(())
        }
        Ok(_) => Err(ApiError::daemon(500, format!("Not a HASH reference {at} 978.\n"))),
        Err(_) => Err(ApiError::daemon(
            500,
            format!(
                ", or }} expected while parsing object/hash, at character offset {} (before \"(end of string)\") {at} 934.\n",
                body.len()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_as_the_daemon_splits_them() {
        let mut given = Vec::new();
        add_pairs(
            &mut given,
            "scsi1=local:20,format=qcow2&boot=order=scsi0;ide2&d=a+b%2Bc&c=1&c=2",
        );
        let value = |key: &str| given.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        assert_eq!(value("scsi1"), Some(Value::from("local:20,format")));
        assert_eq!(value("boot"), Some(Value::from("order")));
        assert_eq!(value("ide2"), Some(Value::Null));
        assert_eq!(value("d"), Some(Value::from("a b+c")));
        assert_eq!(value("c"), Some(Value::from(vec!["1", "2"])));
    }
}
