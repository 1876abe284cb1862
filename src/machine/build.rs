//! From variables to a machine, all problems at once.

use super::reader::Reader;
use super::{Machine, addresses, cluster, connection, guest, hardware, names, schema, variable_names};
use crate::diagnose::{Diagnostic, nearest};
use crate::proxmox::ids::VmId;

use super::variables::Variables;

/// A machine, and what is worth reading about it.
#[derive(Clone, Debug)]
pub struct Built {
    /// The machine.
    pub machine: Machine,
    /// Warnings: the run goes on.
    pub warnings: Vec<Diagnostic>,
}

/// Builds the machine of one host.
///
/// Nothing is asked of the world, but for whether a CA file can be read.
///
/// # Errors
///
/// Every problem of the host, each with key, place, rule and help where they are known; warnings come after the errors.
pub fn build(vars: &dyn Variables) -> Result<Built, Vec<Diagnostic>> {
    let mut reader = Reader::new(vars);
    let r = &mut reader;
    variable_names::mistyped(r);
    variable_names::without_effect(r);
    let name = names::vm_name(r);
    let cluster = cluster::build(r);
    let node = r.get_or_default("vms_proxmox_node").and_then(|field| r.id(&field));
    let template = template(r);
    let vmid = vmid(r);
    let hardware = hardware::build(r);
    let guest = guest::build(r);
    let domain = guest.as_ref().map(|guest| guest.domain.clone());
    let network = addresses::build(r, &hardware.nics, domain.as_deref());
    let ssh = connection::guest_ssh(r, network.as_ref(), guest.as_ref());
    let snippets = connection::snippets(r, node.as_ref().map(crate::proxmox::ids::NodeName::as_str));
    let has_address = network
        .as_ref()
        .is_none_or(|n| n.interfaces.iter().any(|i| !i.addresses.is_empty()));
    let dns = connection::dns(r, has_address);
    let waits = connection::waits(r);
    let protected = r.flag("vms_protected");
    let origins = r.origins();
    let machine = (|| {
        Some(Machine {
            host: vars.host().to_owned(),
            name: name?,
            groups: vars.groups(),
            cluster: cluster?,
            node: node?,
            template: template?,
            vmid: vmid?,
            hardware,
            network: network?,
            guest: guest?,
            ssh: ssh?,
            snippets: snippets?,
            dns: dns?,
            waits: waits?,
            protected,
            origins,
        })
    })();
    reader.finish(machine)
}

/// The template that `vms_os` selects.
fn template(reader: &mut Reader<'_>) -> Option<String> {
    let systems = reader.get("global_os");
    let os = reader.required("vms_os", "vms_os: a key of global_os, as ubuntu_24_server");
    if reader.is_broken("global_os") {
        return None;
    }
    let os = os?;
    let key = reader.text(&os)?;
    let Some(systems) = systems else {
        return match schema::TEMPLATES.iter().find(|(name, _)| *name == key) {
            Some((_, template)) => Some((*template).to_owned()),
            None => {
                reader.push(
                    os.error(
                        "machine/unknown-os",
                        format!("vms_os is {key:?}, and global_os is not defined"),
                    )
                    .rule("global_os tells the template of each operating system")
                    .help(format!("global_os: {{{key}: {{template: NAME-OF-THE-TEMPLATE}}}}")),
                );
                None
            }
        };
    };
    let Some(map) = systems.map() else {
        reader.push(systems.wrong("a mapping of operating systems"));
        return None;
    };
    let Some(entry) = map.get(&key) else {
        let keys: Vec<&str> = map.keys().map(String::as_str).collect();
        let mut problem = os
            .error(
                "machine/unknown-os",
                format!("vms_os is {key:?}, which global_os does not have"),
            )
            .rule(format!("one of {}", keys.join(", ")))
            .note(systems.value.place.clone(), "global_os is here");
        if let Some(near) = nearest(&key, keys) {
            problem = problem.help(format!("did you mean {near:?}?"));
        }
        reader.push(problem);
        return None;
    };
    let path = format!("global_os.{key}.template");
    let template = match &entry.value.data {
        super::variables::Data::Map(map) => map.get("template").map(|entry| entry.value.clone()),
        _ => {
            let field = super::reader::Field {
                path: format!("global_os.{key}"),
                value: entry.value.clone(),
            };
            reader.push(field.wrong("a mapping"));
            return None;
        }
    };
    let template = template.filter(|value| !matches!(value.data, super::variables::Data::Null));
    let Some(value) = template else {
        reader.push(
            Diagnostic::error("machine/no-template", format!("{path} is not set"))
                .key(path)
                .at(entry.value.place.clone())
                .rule("the VM is a clone of a template; this operating system has none")
                .note(os.value.place.clone(), format!("vms_os selects {key} here"))
                .help("make a template with a cloud-init drive and name it here; Windows guests are not provisioned"),
        );
        return None;
    };
    let field = super::reader::Field { path, value };
    let name = reader.text(&field)?;
    match names::dns_name_fault(&name) {
        None => Some(name),
        Some(fault) => {
            reader.push(
                field
                    .error(
                        "machine/invalid-name",
                        format!("{} is {}: no VM has such a name", field.path, field.show()),
                    )
                    .rule(fault),
            );
            None
        }
    }
}

/// A fixed id: `Some(None)` for the next free one, `None` where it is wrong.
pub(super) fn vmid(reader: &mut Reader<'_>) -> Option<Option<VmId>> {
    let Some(field) = reader.get("vms_vmid") else {
        return Some(None);
    };
    if field.text().is_some_and(|text| matches!(text.trim(), "" | "0")) {
        return Some(None);
    }
    let number = reader.int(&field, 100..=999_999_999)?;
    VmId::try_from(u32::try_from(number).ok()?).ok().map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::machine::testing::{codes, good, problems, warnings};

    #[test]
    fn a_good_host_has_nothing_to_complain_about() {
        let built = good().build().unwrap();
        assert_eq!(built.warnings, []);
        let machine = built.machine;
        assert_eq!((machine.host.as_str(), machine.name.as_str()), ("web-0", "web-0"));
        assert_eq!(
            (machine.node.as_str(), machine.template.as_str()),
            ("pve1", "debian-12-cloudinit")
        );
        assert_eq!(machine.vmid, None);
        assert_eq!(
            (machine.cluster.host.as_str(), machine.cluster.port),
            ("pve1.lab.test", 8006)
        );
        assert!(!machine.protected && !machine.cluster.assume_full_visibility);
        assert_eq!(machine.secrets().len(), 2);
        let place = machine.origins.place("vms_config.disk_os.size").unwrap();
        assert_eq!(place.file.as_ref(), "group_vars/all.yml");
        assert_eq!(
            machine.origins.place("vms_config.disk9.size"),
            machine.origins.place("vms_config")
        );
        assert_eq!(machine.origins.place("vms_pool"), None);
    }

    #[test]
    fn the_two_identities_are_apart() {
        let machine = good().set("vms_name", "prod-web").build().unwrap().machine;
        assert_eq!((machine.host.as_str(), machine.name.as_str()), ("web-0", "prod-web"));
        assert_eq!(machine.guest.fqdn, "web-0.lab.test");
        assert_eq!(good().set("name", "older").build().unwrap().machine.name, "older");
    }

    #[test]
    fn all_problems_come_at_once() {
        let vars = good()
            .set("vms_name", "no_name")
            .set("global_proxmox_api_user", "root")
            .config("coers", 2)
            .config("disk_os.size", "big")
            .set("global_ip_address", "10.0.20.0")
            .unset("vms_os")
            .set("ansible_port", 0);
        let mut found = codes(&problems(&vars));
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "machine/api-user",
                "machine/invalid-name",
                "machine/missing-variable",
                "machine/no-host-address",
                "machine/out-of-range",
                "machine/unknown-key",
                "machine/wrong-type",
            ]
        );
    }

    #[test]
    fn a_failed_template_is_told_once_and_not_called_missing() {
        for name in [
            "vms_os",
            "global_os",
            "global_ip_address",
            "global_proxmox_api_token",
            "vms_config",
            "global_dns_servers",
            "vms_name",
        ] {
            let problems = problems(&good().broken(name));
            assert_eq!(codes(&problems), ["inventory/undefined"], "{name}");
            assert_eq!(problems[0].key.as_deref(), Some(name));
        }
    }

    #[test]
    fn the_template_is_found_or_the_reason_told() {
        let table = [
            (good().unset("vms_os"), "machine/missing-variable"),
            (good().set("vms_os", json!(null)), "machine/missing-variable"),
            (good().set("vms_os", "debian_13"), "machine/unknown-os"),
            (good().set("vms_os", "win"), "machine/no-template"),
            (good().unset("global_os"), "machine/unknown-os"),
            (
                good().set("global_os", json!({"debian_12": "a name"})),
                "machine/wrong-type",
            ),
            (
                good().set("global_os", json!({"debian_12": {"template": "a b"}})),
                "machine/invalid-name",
            ),
            (good().set("global_os", json!([])), "machine/wrong-type"),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
        }
        assert_eq!(
            problems(&good().set("vms_os", "debian_13"))[0].help,
            ["did you mean \"debian_12\"?"]
        );
        let default = good()
            .unset("global_os")
            .set("vms_os", "ubuntu_24_server")
            .build()
            .unwrap()
            .machine;
        assert_eq!(default.template, "ubuntu-server-24.04-cloudinit");
    }

    #[test]
    fn ids_and_nodes_are_checked() {
        let vmid = |value| {
            good()
                .set("vms_vmid", value)
                .build()
                .unwrap()
                .machine
                .vmid
                .map(|id| id.get())
        };
        assert_eq!(vmid(json!(128)), Some(128));
        assert_eq!(vmid(json!("128")), Some(128));
        for auto in [json!(0), json!(""), json!(null)] {
            assert_eq!(vmid(auto), None);
        }
        let table = [
            (good().set("vms_vmid", 99), "machine/out-of-range"),
            (good().set("vms_vmid", 1_000_000_000), "machine/out-of-range"),
            (good().set("vms_proxmox_node", ""), "machine/empty"),
            (good().set("vms_proxmox_node", "pve_1"), "machine/invalid-name"),
            (good().set("vms_protected", "sometimes"), "machine/wrong-type"),
        ];
        for (vars, code) in table {
            assert_eq!(codes(&problems(&vars)), [code], "{vars:?}");
        }
        assert_eq!(
            good().unset("vms_proxmox_node").build().unwrap().machine.node.as_str(),
            "pve-0"
        );
    }

    #[test]
    fn what_has_no_effect_is_told() {
        assert_eq!(warnings(&good().set("vms_use_terraform", true)), ["machine/terraform"]);
        assert_eq!(warnings(&good().set("vms_use_terraform", "false")), [""; 0]);
        assert_eq!(warnings(&good().set("vms_clone", "false")), ["machine/deprecated"]);
        assert_eq!(warnings(&good().set("vms_static_vmid", 120)), ["machine/deprecated"]);
        assert_eq!(warnings(&good().set("vms_static_vmid", "")), [""; 0]);
        assert_eq!(
            warnings(
                &good()
                    .set("vms_autoinstall", true)
                    .set("vms_simulator", json!({"port": 1}))
            ),
            [""; 0]
        );
    }

    #[test]
    fn a_mistyped_variable_is_told_with_the_right_name() {
        let built = good()
            .set("vms_proxmox_nod", "pve2")
            .set("vms_helper_of_mine", 1)
            .build()
            .unwrap();
        assert_eq!(codes(&built.warnings), ["machine/unknown-variable"]);
        assert_eq!(built.warnings[0].help, ["did you mean vms_proxmox_node?"]);
    }
}
