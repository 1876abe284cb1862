//! Who may do what: users, tokens, tickets, roles, access rules (pve-access-control).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::spec::{AclSpec, TokenSpec, UserSpec};

/// Every privilege of release 9.
pub(crate) const PRIVILEGES: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `user@realm` or `user@realm!token`.
    pub(crate) id: String,
}

impl Identity {
    /// The user's part.
    pub(crate) fn user(&self) -> &str {
        self.id.split('!').next().unwrap_or_default()
    }

    /// The token's name.
    pub(crate) fn token(&self) -> Option<&str> {
        self.id.split_once('!').map(|(_, token)| token)
    }

    /// Whether it is root with a ticket: a token of root's is not.
    pub(crate) fn is_root(&self) -> bool {
        self.id == "root@pam"
    }
}

/// A ticket that was given out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ticket {
    user: String,
    csrf: String,
    until_ms: u64,
}

/// Users, tokens, roles, rules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// Users by id.
    pub users: BTreeMap<String, UserSpec>,
    /// Tokens by full id.
    pub tokens: BTreeMap<String, TokenSpec>,
    /// Custom roles.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Rules.
    pub acl: Vec<AclSpec>,
    pub(crate) tickets: BTreeMap<String, Ticket>,
}

/// What a request brought to prove who it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) authorization: Option<String>,
    pub(crate) cookie: Option<String>,
    pub(crate) csrf: Option<String>,
}

const TICKET_LIFETIME_MS: u64 = 7_200_000;

impl Access {
    /// Who the request is from; the error is the reason phrase of a 401.
    pub(crate) fn authenticate(&self, with: &Credentials, writes: bool, now_ms: u64) -> Result<Identity, String> {
        const FAILED: &str = "Authentication failed!";
        let cookie = with.cookie.as_deref().and_then(|all| {
            all.split(';')
                .find_map(|one| one.trim().strip_prefix("PVEAuthCookie="))
                .map(|value| super::props::percent_decode(value, false))
        });
        if let Some(ticket) = cookie {
            let known = self
                .tickets
                .get(&ticket)
                .filter(|t| t.until_ms > now_ms)
                .ok_or(FAILED)?;
            self.alive(&known.user, now_ms)?;
            if writes && with.csrf.as_deref() != Some(known.csrf.as_str()) {
                return Err("Permission denied - invalid csrf token".to_owned());
            }
            return Ok(Identity { id: known.user.clone() });
        }
        let header = with.authorization.as_deref().unwrap_or_default();
        let Some(rest) = header.strip_prefix("PVEAPIToken") else {
            return Err("No ticket".to_owned());
        };
        if rest.is_empty() || rest == "=" {
            return Err("No ticket".to_owned());
        }
        let value = rest.strip_prefix('=').ok_or(FAILED)?;
        let value = super::props::percent_decode(value.split(';').next().unwrap_or_default(), false);
        let (id, secret) = value.rsplit_once('=').ok_or(FAILED)?;
        let token = self.tokens.get(id).ok_or(FAILED)?;
        let user = id.split('!').next().unwrap_or_default();
        self.alive(user, now_ms)?;
        if token.secret != secret || (token.expire != 0 && token.expire * 1000 <= now_ms) {
            return Err(FAILED.to_owned());
        }
        Ok(Identity { id: id.to_owned() })
    }

    fn alive(&self, user: &str, now_ms: u64) -> Result<(), String> {
        if user == "root@pam" && !self.users.contains_key(user) {
            return Ok(());
        }
        self.users
            .get(user)
            .filter(|u| u.enable && (u.expire == 0 || u.expire * 1000 > now_ms))
            .map(|_| ())
            .ok_or_else(|| "Authentication failed!".to_owned())
    }

    /// A new ticket and its CSRF token, when the password (or a living ticket as password) is right.
    pub(crate) fn login(
        &mut self,
        user: &str,
        password: &str,
        now_ms: u64,
        random: [u64; 2],
    ) -> Option<(String, String)> {
        self.alive(user, now_ms).ok()?;
        let known = self.users.get(user).and_then(|u| u.password.as_deref()) == Some(password);
        let renewed = self
            .tickets
            .get(password)
            .is_some_and(|t| t.user == user && t.until_ms > now_ms);
        if !known && !renewed {
            return None;
        }
        self.tickets.retain(|_, t| t.until_ms > now_ms);
        let stamp = now_ms / 1000;
        let ticket = format!("PVE:{user}:{stamp:08X}::{:016x}{:016x}==", random[0], random[1]);
        let csrf = format!("{stamp:08X}:{:016x}", random[1].rotate_left(17) ^ random[0]);
        self.tickets.insert(
            ticket.clone(),
            Ticket {
                user: user.to_owned(),
                csrf: csrf.clone(),
                until_ms: now_ms + TICKET_LIFETIME_MS,
            },
        );
        Some((ticket, csrf))
    }

    /// The privileges of a role.
    pub(crate) fn role(&self, name: &str) -> Option<BTreeSet<String>> {
        if let Some(own) = self.roles.get(name) {
            return Some(own.iter().cloned().collect());
        }
        let by = |keep: &dyn Fn(&str) -> bool| {
            PRIVILEGES
                .iter()
                .copied()
                .filter(|p| keep(p))
                .map(str::to_owned)
                .collect()
        };
        let vm_user = [
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.PowerMgmt",
        ];
        Some(match name {
            "Administrator" => by(&|_| true),
            "PVEAdmin" => by(&|p| {
                !matches!(
                    p,
                    "Permissions.Modify" | "Realm.Allocate" | "Sys.Modify" | "Sys.PowerMgmt" | "Sys.AccessNetwork"
                )
            }),
            "PVEVMAdmin" => by(&|p| p.starts_with("VM.")),
            "PVEVMUser" => by(&|p| vm_user.contains(&p) || p == "VM.GuestAgent.Audit"),
            "PVETemplateUser" => by(&|p| matches!(p, "VM.Audit" | "VM.Clone")),
            "PVEAuditor" => by(&|p| p.ends_with(".Audit")),
            "PVEDatastoreAdmin" => by(&|p| p.starts_with("Datastore.")),
            "PVEDatastoreUser" => by(&|p| matches!(p, "Datastore.AllocateSpace" | "Datastore.Audit")),
            "PVEPoolAdmin" => by(&|p| p.starts_with("Pool.")),
            "PVEPoolUser" => by(&|p| p == "Pool.Audit"),
            "PVESDNAdmin" => by(&|p| p.starts_with("SDN.")),
            "PVESDNUser" => by(&|p| matches!(p, "SDN.Audit" | "SDN.Use")),
            "PVESysAdmin" => by(&|p| p.starts_with("Sys.") && !matches!(p, "Sys.Modify" | "Sys.PowerMgmt")),
            "PVEMappingUser" => by(&|p| matches!(p, "Mapping.Audit" | "Mapping.Use")),
            "NoAccess" => BTreeSet::new(),
            _ => return None,
        })
    }

    /// The privileges of a user or token on a path, each with whether it propagates. Rules on a deeper path replace
    /// those above.
    pub(crate) fn privileges(&self, id: &str, path: &str) -> BTreeMap<String, bool> {
        let user = id.split('!').next().unwrap_or_default();
        let all = || PRIVILEGES.iter().map(|p| ((*p).to_owned(), true)).collect();
        if id == "root@pam" {
            return all();
        }
        let Some(token) = self.tokens.get(id) else {
            return self.by_rules(id, path);
        };
        let of_user = if user == "root@pam" {
            all()
        } else {
            self.by_rules(user, path)
        };
        if !token.privsep {
            return of_user;
        }
        self.by_rules(id, path)
            .into_iter()
            .filter(|(p, _)| of_user.contains_key(p))
            .collect()
    }

    fn by_rules(&self, id: &str, path: &str) -> BTreeMap<String, bool> {
        let mut found = BTreeMap::new();
        for level in ancestors(path) {
            let rules: Vec<&AclSpec> = self
                .acl
                .iter()
                .filter(|a| a.id == id && a.path == level && (a.propagate || level == path))
                .collect();
            if rules.is_empty() {
                continue;
            }
            found.clear();
            for rule in rules {
                for privilege in self.role(&rule.role).unwrap_or_default() {
                    let propagates = found.entry(privilege).or_insert(false);
                    *propagates |= rule.propagate;
                }
            }
        }
        found
    }

    /// The paths that rules name for this user or token.
    pub(crate) fn paths(&self, id: &str) -> BTreeSet<String> {
        let user = id.split('!').next().unwrap_or_default();
        if user == "root@pam" {
            return ["/", "/access", "/nodes", "/pool", "/sdn", "/storage", "/vms"]
                .map(str::to_owned)
                .into();
        }
        self.acl
            .iter()
            .filter(|a| a.id == user || a.id == id)
            .map(|a| a.path.clone())
            .collect()
    }
}

/// `/`, `/vms`, `/vms/100`.
fn ancestors(path: &str) -> Vec<String> {
    let mut all = vec!["/".to_owned()];
    let mut so_far = String::new();
    for part in path.split('/').filter(|p| !p.is_empty()) {
        so_far.push('/');
        so_far.push_str(part);
        all.push(so_far.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, id: &str, role: &str) -> AclSpec {
        AclSpec {
            path: path.to_owned(),
            id: id.to_owned(),
            role: role.to_owned(),
            propagate: true,
        }
    }

    #[test]
    fn deeper_rules_replace_and_separated_tokens_intersect() {
        let mut access = Access {
            acl: vec![
                rule("/vms", "ci@pve", "PVEVMAdmin"),
                rule("/vms/123", "ci@pve", "PVETemplateUser"),
            ],
            ..Access::default()
        };
        access.users.insert("ci@pve".to_owned(), UserSpec::default());
        access.tokens.insert(
            "ci@pve!sep".to_owned(),
            TokenSpec {
                privsep: true,
                ..TokenSpec::default()
            },
        );
        assert!(access.privileges("ci@pve", "/vms/100").contains_key("VM.PowerMgmt"));
        assert!(!access.privileges("ci@pve", "/vms/123").contains_key("VM.PowerMgmt"));
        assert!(access.privileges("ci@pve!sep", "/vms/100").is_empty());
        access.acl.push(rule("/vms", "ci@pve!sep", "PVEAuditor"));
        assert_eq!(
            access
                .privileges("ci@pve!sep", "/vms/100")
                .into_keys()
                .collect::<Vec<_>>(),
            ["VM.Audit", "VM.GuestAgent.Audit"]
        );
    }

    #[test]
    fn tickets_need_the_csrf_token_for_writes() {
        let mut access = Access::default();
        access.users.insert(
            "web@pve".to_owned(),
            UserSpec {
                password: Some("secret-word".to_owned()),
                ..UserSpec::default()
            },
        );
        assert!(access.login("web@pve", "wrong", 0, [1, 2]).is_none());
        let (ticket, csrf) = access.login("web@pve", "secret-word", 0, [1, 2]).unwrap();
        let mut with = Credentials {
            cookie: Some(format!("PVEAuthCookie={ticket}")),
            ..Credentials::default()
        };
        assert!(access.authenticate(&with, false, 1).is_ok());
        assert_eq!(
            access.authenticate(&with, true, 1).unwrap_err(),
            "Permission denied - invalid csrf token"
        );
        with.csrf = Some(csrf);
        assert!(access.authenticate(&with, true, 1).is_ok());
        assert!(access.authenticate(&with, true, TICKET_LIFETIME_MS).is_err());
    }
}
