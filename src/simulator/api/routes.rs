//! The calls that the simulator knows: path, parameters, who may, and what does it.

use super::{Call, Reply};
use super::{access, agent, clone, cloudinit, cluster, config, migrate, nodes, power, qemu, snapshot, storage, tasks};
use crate::simulator::access::Identity;
use crate::simulator::fail::ApiError;
use crate::simulator::hardware::ANY_CONFIG;
use crate::simulator::props::percent_decode;
use crate::simulator::schema::tables as t;
use crate::simulator::schema::values::VMID;
use crate::simulator::schema::{Kind, Param, must};
use crate::simulator::world::World;

/// What a call needs before its parameters are looked at.
pub(crate) enum Allowed {
    /// Nothing, not even a login.
    Everybody,
    /// A login; the handler checks the rest.
    User,
    /// One of the privileges on a path.
    One(&'static str, &'static [&'static str]),
    /// One of the first (release 9), or of the second (before).
    Agent(&'static [&'static str]),
}

impl Allowed {
    pub(crate) fn check(
        &self,
        world: &World,
        who: &Identity,
        parts: &[(&'static str, String)],
    ) -> Result<(), ApiError> {
        let vm = || {
            let vmid = parts.iter().find(|(name, _)| *name == "vmid").map_or("", |(_, v)| v);
            format!("/vms/{vmid}")
        };
        match self {
            Self::Everybody | Self::User => Ok(()),
            Self::One(template, privileges) => {
                let mut path = (*template).to_owned();
                for (name, value) in parts {
                    path = path.replace(&format!("{{{name}}}"), value);
                }
                world.check(who, &path, privileges)
            }
            Self::Agent(privileges) if world.major() >= 9 => world.check(who, &vm(), privileges),
            Self::Agent(_) => world.check(who, &vm(), &["VM.Monitor"]),
        }
    }
}

/// A call.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) allowed: Allowed,
    pub(crate) params: &'static [&'static [Param]],
    pub(crate) handler: fn(&mut Call) -> Result<Reply, ApiError>,
}

/// A part of the path as a parameter.
pub(crate) fn path_param(name: &'static str) -> Param {
    match name {
        "vmid" => must(name, VMID),
        "storage" => must(name, Kind::Format("pve-storage-id", 0)),
        "snapname" => must(name, Kind::Format("pve-configid", 40)),
        _ => must(name, Kind::Text(0)),
    }
}

const fn route(
    method: &'static str,
    path: &'static str,
    allowed: Allowed,
    params: &'static [&'static [Param]],
    handler: fn(&mut Call) -> Result<Reply, ApiError>,
) -> Route {
    Route {
        method,
        path,
        allowed,
        params,
        handler,
    }
}

use Allowed::{Agent, Everybody, One, User};

const VM: &str = "/vms/{vmid}";
const AUDIT: &[&str] = &["VM.Audit"];
const POWER: &[&str] = &["VM.PowerMgmt"];
const AGENT: &[&str] = &["VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"];
const AGENT_ALL: &[&str] = &["VM.GuestAgent.Unrestricted"];
const AGENT_READ: &[&str] = &["VM.GuestAgent.FileRead", "VM.GuestAgent.Unrestricted"];

/// Every call.
#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = &[
    route("GET", "/", User, &[], cluster::index),
    route("GET", "/version", User, &[], cluster::version),
    route("POST", "/access/ticket", Everybody, &[t::TICKET], access::ticket),
    route("GET", "/access/permissions", User, &[t::PERMISSIONS], access::permissions),
    route("GET", "/access/acl", User, &[], access::acl),
    route("GET", "/access/roles/{roleid}", User, &[], access::role),
    route("GET", "/cluster/resources", User, &[t::RESOURCES], cluster::resources),
    route("GET", "/cluster/status", One("/", &["Sys.Audit"]), &[], cluster::status),
    route("GET", "/cluster/nextid", User, &[t::NEXT_ID], cluster::next_id),
    route("GET", "/cluster/tasks", User, &[], tasks::cluster),
    route("GET", "/cluster/ha/resources", One("/", &["Sys.Audit"]), &[t::HA_LIST], cluster::ha_resources),
    route("GET", "/cluster/ha/resources/{sid}", One("/", &["Sys.Audit"]), &[], cluster::ha_resource),
    route("GET", "/cluster/replication", User, &[], cluster::replication),
    route("GET", "/pools", User, &[t::POOLS], cluster::pools),
    route("GET", "/pools/{poolid}", One("/pool/{poolid}", &["Pool.Audit"]), &[t::POOL], cluster::pool),
    route("GET", "/storage", User, &[t::STORAGE], storage::configs),
    route("GET", "/storage/{storage}", One("/storage/{storage}", &["Datastore.Allocate"]), &[], storage::config),
    route("GET", "/nodes", User, &[], nodes::list),
    route("GET", "/nodes/{node}/status", One("/nodes/{node}", &["Sys.Audit"]), &[], nodes::status),
    route("GET", "/nodes/{node}/version", User, &[], cluster::version),
    route("GET", "/nodes/{node}/network", User, &[t::NETWORK], nodes::network),
    route("GET", "/nodes/{node}/certificates/info", User, &[], nodes::certificates),
    route("GET", "/nodes/{node}/replication", User, &[t::REPLICATION], nodes::replication),
    route("GET", "/nodes/{node}/lxc", User, &[], nodes::containers),
    route("GET", "/nodes/{node}/lxc/{vmid}/status/current", One(VM, AUDIT), &[], nodes::container),
    route("GET", "/nodes/{node}/lxc/{vmid}/config", One(VM, AUDIT), &[t::READ_CONFIG], nodes::container_config),
    route("GET", "/nodes/{node}/storage", User, &[t::NODE_STORAGE], storage::list),
    route("GET", "/nodes/{node}/storage/{storage}/status", One("/storage/{storage}", storage::LOOK), &[], storage::status),
    route("GET", "/nodes/{node}/storage/{storage}/content", One("/storage/{storage}", storage::LOOK), &[t::CONTENT], storage::content),
    route("GET", "/nodes/{node}/storage/{storage}/content/{volume}", User, &[], storage::volume),
    route("DELETE", "/nodes/{node}/storage/{storage}/content/{volume}", User, &[t::DELETE_CONTENT], storage::delete),
    route("GET", "/nodes/{node}/tasks", User, &[t::TASKS], tasks::list),
    route("GET", "/nodes/{node}/tasks/{upid}", User, &[], tasks::index),
    route("GET", "/nodes/{node}/tasks/{upid}/status", User, &[], tasks::status),
    route("GET", "/nodes/{node}/tasks/{upid}/log", User, &[t::TASK_LOG], tasks::log),
    route("DELETE", "/nodes/{node}/tasks/{upid}", User, &[], tasks::stop),
    route("GET", "/nodes/{node}/qemu", User, &[t::QEMU], qemu::list),
    route("POST", "/nodes/{node}/qemu", User, &[t::CREATE, t::CONFIG], qemu::create),
    route("GET", "/nodes/{node}/qemu/{vmid}", User, &[], qemu::index),
    route("DELETE", "/nodes/{node}/qemu/{vmid}", One(VM, &["VM.Allocate"]), &[t::DESTROY], qemu::destroy),
    route("GET", "/nodes/{node}/qemu/{vmid}/config", One(VM, AUDIT), &[t::READ_CONFIG], config::read),
    route("PUT", "/nodes/{node}/qemu/{vmid}/config", One(VM, ANY_CONFIG), &[t::CONFIG, t::CHANGE], config::put),
    route("POST", "/nodes/{node}/qemu/{vmid}/config", One(VM, ANY_CONFIG), &[t::CONFIG, t::CHANGE, t::CHANGE_TASK], config::post),
    route("GET", "/nodes/{node}/qemu/{vmid}/pending", One(VM, AUDIT), &[], config::pending),
    route("PUT", "/nodes/{node}/qemu/{vmid}/unlink", One(VM, &["VM.Config.Disk"]), &[t::UNLINK], config::unlink),
    route("PUT", "/nodes/{node}/qemu/{vmid}/resize", One(VM, &["VM.Config.Disk"]), &[t::RESIZE], config::resize),
    route("GET", "/nodes/{node}/qemu/{vmid}/status", User, &[], qemu::status_index),
    route("GET", "/nodes/{node}/qemu/{vmid}/status/current", One(VM, AUDIT), &[], qemu::current),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/start", One(VM, POWER), &[t::START], power::start),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/stop", One(VM, POWER), &[t::STOP], power::stop),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/shutdown", One(VM, POWER), &[t::SHUTDOWN], power::shutdown),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/reboot", One(VM, POWER), &[t::REBOOT], power::reboot),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/reset", One(VM, POWER), &[t::RESET], power::reset),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/suspend", One(VM, POWER), &[t::SUSPEND], power::suspend),
    route("POST", "/nodes/{node}/qemu/{vmid}/status/resume", One(VM, POWER), &[t::RESUME], power::resume),
    route("POST", "/nodes/{node}/qemu/{vmid}/clone", One(VM, &["VM.Clone"]), &[t::CLONE], clone::clone),
    route("GET", "/nodes/{node}/qemu/{vmid}/migrate", One(VM, &["VM.Migrate"]), &[t::MIGRATE_CHECK], migrate::check),
    route("POST", "/nodes/{node}/qemu/{vmid}/migrate", One(VM, &["VM.Migrate"]), &[t::MIGRATE], migrate::start),
    route("GET", "/nodes/{node}/qemu/{vmid}/feature", One(VM, AUDIT), &[t::FEATURE], qemu::feature),
    route("POST", "/nodes/{node}/qemu/{vmid}/template", One(VM, &["VM.Allocate"]), &[t::TEMPLATE], qemu::template),
    route("GET", "/nodes/{node}/qemu/{vmid}/cloudinit", One(VM, AUDIT), &[], cloudinit::pending),
    route("PUT", "/nodes/{node}/qemu/{vmid}/cloudinit", One(VM, &["VM.Config.Cloudinit"]), &[], cloudinit::regenerate),
    route("GET", "/nodes/{node}/qemu/{vmid}/cloudinit/dump", One(VM, AUDIT), &[t::DUMP], cloudinit::dump),
    route("GET", "/nodes/{node}/qemu/{vmid}/snapshot", One(VM, AUDIT), &[], snapshot::list),
    route("POST", "/nodes/{node}/qemu/{vmid}/snapshot", One(VM, &["VM.Snapshot"]), &[t::SNAPSHOT], snapshot::create),
    route("DELETE", "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}", One(VM, &["VM.Snapshot"]), &[t::DELETE_SNAPSHOT], snapshot::delete),
    route("POST", "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback", One(VM, &["VM.Snapshot", "VM.Snapshot.Rollback"]), &[t::ROLLBACK], snapshot::rollback),
    route("POST", "/nodes/{node}/qemu/{vmid}/agent", Agent(AGENT), &[t::AGENT_ANY], agent::any),
    route("POST", "/nodes/{node}/qemu/{vmid}/agent/ping", Agent(AGENT), &[], agent::ping),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces", Agent(AGENT), &[], agent::interfaces),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/get-host-name", Agent(AGENT), &[], agent::host_name),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/get-osinfo", Agent(AGENT), &[], agent::osinfo),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/info", Agent(AGENT), &[], agent::info),
    route("POST", "/nodes/{node}/qemu/{vmid}/agent/exec", Agent(AGENT_ALL), &[t::AGENT_EXEC], agent::exec),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/exec-status", Agent(AGENT_ALL), &[t::AGENT_STATUS], agent::exec_status),
    route("GET", "/nodes/{node}/qemu/{vmid}/agent/file-read", Agent(AGENT_READ), &[t::AGENT_READ], agent::file_read),
    route("POST", "/nodes/{node}/qemu/{vmid}/agent/shutdown", One(VM, POWER), &[], agent::shutdown),
];

/// The call for a method and path, and the parts of the path.
pub(crate) fn find(method: &str, path: &str) -> Option<(&'static Route, Vec<(&'static str, String)>)> {
    let parts: Vec<String> = path
        .split('/')
        .filter(|p| !p.is_empty())
        .map(|p| percent_decode(p, false))
        .collect();
    ROUTES.iter().filter(|r| r.method == method).find_map(|route| {
        let wanted: Vec<&'static str> = route.path.split('/').filter(|p| !p.is_empty()).collect();
        let tail = wanted.last() == Some(&"{volume}");
        if wanted.len() != parts.len() && !(tail && parts.len() > wanted.len()) {
            return None;
        }
        let mut named = Vec::new();
        for (at, want) in wanted.iter().enumerate() {
            let have = parts.get(at)?;
            match want.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
                Some("volume") => named.push(("volume", parts[at..].join("/"))),
                Some(name) => named.push((name, have.clone())),
                None if want == have => {}
                None => return None,
            }
        }
        Some((route, named))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_with_their_parts() {
        let (route, parts) = find("GET", "/nodes/pve-0/qemu/%31%30%30/config").unwrap();
        assert_eq!(route.path, "/nodes/{node}/qemu/{vmid}/config");
        assert_eq!(parts, [("node", "pve-0".to_owned()), ("vmid", "100".to_owned())]);
        let (_, parts) = find("DELETE", "/nodes/n/storage/local/content/local:snippets/a.yml").unwrap();
        assert_eq!(parts[2], ("volume", "local:snippets/a.yml".to_owned()));
        assert!(find("GET", "/nodes/pve-0/nosuch").is_none());
        assert!(find("POST", "/cluster/nextid").is_none());
    }
}
