//! How things are reached and published, and how long they may take: SSH, snippets, DNS, budgets.

use std::net::IpAddr;
use std::time::Duration;

use super::reader::{Field, Reader};
use super::variables::{Data, Variables};
use super::{Dns, Guest, Network, Snippets, SshTarget, Waits, names, shell_words};
use crate::diagnose::Diagnostic;

/// How to log in to the guest.
pub(super) fn guest_ssh(
    reader: &mut Reader<'_>,
    network: Option<&Network>,
    guest: Option<&Guest>,
) -> Option<SshTarget> {
    let address = network
        .and_then(|network| network.interfaces.first())
        .and_then(|interface| interface.addresses.first())
        .map(|cidr| cidr.address.to_string());
    let target = target(reader, address, guest.map(|guest| guest.user.clone()));
    if network.is_some() && target.host.is_none() && reader.first_of(&["ansible_host", "ansible_ssh_host"]).is_none() {
        reader.push(
            Diagnostic::error(
                "machine/no-ssh-host",
                "the guest's address is not known beforehand (DHCP)",
            )
            .key("ansible_host")
            .rule("vmwright has to log in to the guest")
            .help("set ansible_host to the name or address that DHCP gives it"),
        );
    }
    target.complete(reader.vars.host())
}

/// A target that may miss parts.
struct Partial {
    host: Option<String>,
    port: Option<u16>,
    user: Option<String>,
    key: Option<Option<std::path::PathBuf>>,
    extra_args: Option<Vec<String>>,
}

impl Partial {
    fn complete(self, alias: &str) -> Option<SshTarget> {
        Some(SshTarget {
            alias: alias.to_owned(),
            host: self.host?,
            port: self.port?,
            user: self.user?,
            key: self.key?,
            extra_args: self.extra_args?,
        })
    }
}

/// The `ansible_*` variables of a host.
fn target(reader: &mut Reader<'_>, host: Option<String>, user: Option<String>) -> Partial {
    let host = match reader.first_of(&["ansible_host", "ansible_ssh_host"]) {
        None => host,
        Some(field) => names::endpoint(reader, &field),
    };
    let port = reader
        .first_of(&["ansible_port", "ansible_ssh_port"])
        .or_else(|| reader.get_or_default("ansible_port"))
        .and_then(|field| reader.int(&field, 1..=65535))
        .and_then(|port| u16::try_from(port).ok());
    let user = match reader.first_of(&["ansible_user", "ansible_ssh_user"]) {
        None => user,
        Some(field) => ssh_user(reader, &field),
    };
    let key = match reader.first_of(&["ansible_ssh_private_key_file", "ansible_private_key_file"]) {
        None => Some(None),
        Some(field) => reader.path(&field).map(Some),
    };
    let mut extra_args = Some(Vec::new());
    for name in ["ansible_ssh_common_args", "ansible_ssh_extra_args"] {
        let Some(field) = reader
            .get(name)
            .filter(|field| field.text().is_none_or(|text| !text.trim().is_empty()))
        else {
            continue;
        };
        let words = ssh_args(reader, &field);
        extra_args = extra_args.zip(words).map(|(mut all, words)| {
            all.extend(words);
            all
        });
    }
    Partial {
        host,
        port,
        user,
        key,
        extra_args,
    }
}

/// A login name as `ssh` may get it: nothing that could be an option or another host.
fn ssh_user(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let user = reader.text(field)?;
    let bad = user.starts_with('-')
        || user.contains(|c: char| {
            c.is_whitespace() || c.is_control() || matches!(c, '\'' | '"' | '`' | '$' | ';' | '&' | '|')
        });
    if !bad {
        return Some(user);
    }
    reader.push(
        field
            .error(
                "machine/invalid-name",
                format!("{} is {}: no valid user name", field.path, field.show()),
            )
            .rule("no blanks, no quotes, no dash in front"),
    );
    None
}

fn ssh_args(reader: &mut Reader<'_>, field: &Field) -> Option<Vec<String>> {
    let text = reader.text(field)?;
    match shell_words::split(&text) {
        Ok(words) => Some(words),
        Err(err) => {
            reader.push(
                field
                    .error(
                        "machine/ssh-args",
                        format!("{} cannot be split into arguments: {err}", field.path),
                    )
                    .rule("quoted as in a shell"),
            );
            None
        }
    }
}

/// How the documents get to the node.
pub(super) fn snippets(reader: &mut Reader<'_>, node: Option<&str>) -> Option<Snippets> {
    let storage = reader
        .get_or_default("vms_snippets_storage")
        .and_then(|field| reader.id(&field));
    let local_path = match reader.get("vms_snippets_path") {
        None => Some(None),
        Some(field) => match reader.path(&field) {
            Some(path) if path.is_absolute() => Some(Some(path)),
            Some(_) => {
                reader.push(
                    field
                        .error("machine/relative-path", format!("{} is {}", field.path, field.show()))
                        .rule("an absolute path, or one that begins with ~/"),
                );
                None
            }
            None => None,
        },
    };
    let mode = snippets_mode(reader);
    let node_ssh = match node.and_then(|node| Some((node, reader.vars.of_host(node)?))) {
        None => Some(None),
        Some((node, vars)) => node_ssh(reader, node, vars.as_ref()).map(Some),
    };
    Some(Snippets {
        keep: reader.flag("vms_keep_snippets"),
        storage: storage?,
        local_path: local_path?,
        mode: mode?,
        node_ssh: node_ssh?,
    })
}

/// The mode of documents in a mounted folder. Without quotes YAML reads 0644 as an octal number, which means the same.
fn snippets_mode(reader: &mut Reader<'_>) -> Option<Option<u32>> {
    let Some(field) = reader.get("vms_snippets_mode") else {
        return Some(None);
    };
    let bits = match &field.value.data {
        Data::Str(text) => u32::from_str_radix(text.trim().trim_start_matches("0o"), 8).ok(),
        Data::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    let known = bits.filter(|bits| matches!(bits, 0o600 | 0o640 | 0o644));
    if known.is_none() {
        reader.push(
            field
                .error("machine/unknown-value", format!("{} is {}", field.path, field.show()))
                .rule("\"0600\", \"0640\" or \"0644\": the documents are data, and the owner has to be able to replace them")
                .help("vms_snippets_mode: \"0644\""),
        );
        return None;
    }
    Some(known)
}

/// How a node that is a host of the inventory is logged in to; `None` if its variables are wrong.
pub fn node_target(vars: &dyn Variables, node: &str) -> Option<SshTarget> {
    let mut own = Reader::new(vars);
    let target = target(&mut own, Some(node.to_owned()), Some("root".to_owned())).complete(node);
    target.filter(|_| own.into_problems().is_empty())
}

/// The node as a host of the inventory; as root and under its name, unless it says otherwise.
fn node_ssh(reader: &mut Reader<'_>, node: &str, vars: &dyn Variables) -> Option<SshTarget> {
    let mut own = Reader::new(vars);
    let target = target(&mut own, Some(node.to_owned()), Some("root".to_owned())).complete(node);
    for problem in own.into_problems() {
        reader.push(problem);
    }
    target
}

/// Where the name is published.
pub(super) fn dns(reader: &mut Reader<'_>, has_address: bool) -> Option<Dns> {
    let hosts = ["pihole_api_url", "pihole_api_host", "global_pihole_api_host"];
    let host = reader.first_of(&hosts);
    let password = reader.get("pihole_password");
    let broken = hosts
        .iter()
        .chain(&["pihole_password"])
        .any(|name| reader.is_broken(name));
    let wanted = reader.get("vms_dns");
    let pihole = match &wanted {
        Some(field) => reader.word(field, &["none", "pihole"])? == "pihole",
        None => {
            if let (Some(host), None, false) = (&host, &password, broken) {
                reader.push(
                    host.warning(
                        "machine/dns-incomplete",
                        format!("{} is set, but not pihole_password", host.path),
                    )
                    .rule("without it the guest's name is published nowhere")
                    .help("set pihole_password, or vms_dns: none"),
                );
            }
            host.is_some() && password.is_some()
        }
    };
    if !pihole {
        return Some(Dns::None);
    }
    let missing = [
        ("pihole_api_host", host.is_none()),
        ("pihole_password", password.is_none()),
    ];
    for (name, _) in missing.into_iter().filter(|(_, missing)| *missing && !broken) {
        reader.push(
            Diagnostic::error("machine/missing-variable", format!("{name} is not defined"))
                .key(name)
                .at(wanted.as_ref().map(|field| field.value.place.clone()))
                .rule("vms_dns is pihole")
                .help(format!("set {name}, or vms_dns: none")),
        );
    }
    if !has_address {
        reader.push(
            Diagnostic::error("machine/dns-address", "there is no static address to publish")
                .key("vms_dns")
                .at(wanted.as_ref().map(|field| field.value.place.clone()))
                .rule("a DNS record needs an address that is known beforehand")
                .help("vms_dns: none"),
        );
    }
    let url = host.and_then(|field| url(reader, &field));
    let password = password.and_then(|field| reader.secret(&field));
    Some(Dns::Pihole {
        url: url?,
        password: password?,
    })
}

/// A base URL from a host, a host and port, or a URL.
fn url(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    let text = text.trim().trim_end_matches('/');
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (host, port) = if rest.parse::<IpAddr>().is_ok_and(|a| a.is_ipv6()) {
        (format!("[{rest}]"), None)
    } else {
        match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host.to_owned(), Some(port)),
            Some(_) | None => (rest.to_owned(), None),
        }
    };
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host_ok = match bare {
        Some(bare) => bare.parse::<IpAddr>().is_ok_and(|a| a.is_ipv6()),
        None => host.parse::<IpAddr>().is_ok() || names::dns_name_fault(&host).is_none(),
    };
    let port_ok = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|p| p > 0));
    if matches!(scheme, "http" | "https") && host_ok && port_ok {
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        return Some(format!("{scheme}://{host}{port}"));
    }
    reader.push(
        field
            .error("machine/pihole-url", format!("{} is {}", field.path, field.show()))
            .rule("a host, a host and port, or http(s)://host[:port]; the path is Pi-hole's own"),
    );
    None
}

/// Budgets.
pub(super) fn waits(reader: &mut Reader<'_>) -> Option<Waits> {
    let mut number = |name: &str, most: u64| {
        let field = reader.get_or_default(name);
        field.and_then(|field| reader.int(&field, 1..=most))
    };
    let startup = number("vms_startup_timeout", 86_400);
    let restart = number("vms_restart_timeout", 86_400);
    let idle = number("vms_task_idle_timeout", 86_400);
    let shutdown = number("vms_shutdown_timeout", 86_400);
    let retries = number("vms_cloud_init_poll_retries", 1_000_000);
    let delay = number("vms_cloud_init_poll_delay", 86_400);
    let command = number("vms_cloud_init_command_timeout", 86_400);
    let secs = Duration::from_secs;
    Some(Waits {
        startup: secs(startup?),
        cloud_init: secs(retries?.saturating_mul(delay?)),
        cloud_init_command: secs(command?),
        restart: secs(restart?),
        task_idle: secs(idle?),
        shutdown: secs(shutdown?),
    })
}

#[cfg(test)]
mod tests;
