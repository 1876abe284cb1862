//! `/access`: tickets, permissions, rules, roles.

use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::simulator::access::Identity;
use crate::simulator::fail::ApiError;

pub(super) fn ticket(call: &mut Call) -> Result<Reply, ApiError> {
    let mut user = call.take("username").unwrap_or_default();
    if let Some(realm) = call.get("realm")
        && !user.contains('@')
    {
        user = format!("{user}@{realm}");
    }
    let password = call.take("password").unwrap_or_default();
    let random = [call.world.next_random(), call.world.next_random()];
    let now = call.world.now_ms;
    let Some((ticket, csrf)) = call.world.access.login(&user, &password, now, random) else {
        return Err(ApiError {
            status: 401,
            message: "authentication failure".to_owned(),
            errors: Vec::new(),
            plain: false,
        });
    };
    let mut data = json!({
        "username": user, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": {},
    });
    if !call.world.cluster.is_empty() {
        data["clustername"] = Value::from(call.world.cluster.as_str());
    }
    Ok(Reply::Data(data))
}

fn of_path(call: &Call, who: &Identity, path: &str) -> Value {
    let privileges = call.world.privileges(who, path);
    Value::Object(
        privileges
            .into_iter()
            .map(|(p, flag)| (p, Value::from(u8::from(flag))))
            .collect(),
    )
}

pub(super) fn permissions(call: &mut Call) -> Result<Reply, ApiError> {
    let who = match call.get("userid") {
        Some(other) if other != call.who.id && other != call.who.user() => {
            call.check("/access", &["Sys.Audit"])?;
            Identity { id: other.to_owned() }
        }
        Some(other) => Identity { id: other.to_owned() },
        None => call.who.clone(),
    };
    let mut all = Map::new();
    if let Some(path) = call.get("path") {
        let of = of_path(call, &who, path);
        all.insert(path.to_owned(), of);
    } else {
        for path in call.world.access.paths(&who.id) {
            let of = of_path(call, &who, &path);
            if of.as_object().is_some_and(|map| !map.is_empty()) {
                all.insert(path, of);
            }
        }
    }
    Ok(Reply::Data(Value::Object(all)))
}

pub(super) fn acl(call: &mut Call) -> Result<Reply, ApiError> {
    let rules = call.world.access.acl.iter().map(|rule| {
        json!({
            "path": rule.path, "roleid": rule.role, "ugid": rule.id, "propagate": u8::from(rule.propagate),
            "type": if rule.id.contains('!') { "token" } else { "user" },
        })
    });
    Ok(Reply::Data(rules.collect()))
}

pub(super) fn role(call: &mut Call) -> Result<Reply, ApiError> {
    let name = call.part("roleid");
    let privileges = call
        .world
        .access
        .role(name)
        .ok_or_else(|| ApiError::failed(format!("role '{name}' does not exist")))?;
    Ok(Reply::Data(Value::Object(
        privileges.into_iter().map(|p| (p, Value::from(1))).collect(),
    )))
}
