//! Names: DNS labels, domains, users. The rules of Proxmox (pve-common: format `dns-name`), of DNS (RFC 1035: 63 and 253)
//! and of Linux (a host name has at most 64 bytes).

use std::net::IpAddr;

use super::reader::{Field, Reader};
use crate::diagnose::Diagnostic;

/// What a name is, once it is split.
pub(super) struct HostNames {
    /// The short name.
    pub hostname: String,
    /// With the domain.
    pub fqdn: String,
    /// The domain.
    pub domain: String,
}

/// Why a text is no DNS name; `None` where it is one.
pub(super) fn dns_name_fault(name: &str) -> Option<String> {
    if name.parse::<IpAddr>().is_ok() {
        return Some("an address is no name".to_owned());
    }
    if name.len() > 253 {
        return Some(format!("it has {} characters, at most 253 are allowed", name.len()));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Some("there is an empty part between its dots".to_owned());
        }
        if label.len() > 63 {
            return Some(format!(
                "{label:?} has {} characters, at most 63 are allowed between dots",
                label.len()
            ));
        }
        if let Some(bad) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return Some(format!("{bad:?} is neither letter, digit nor dash"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Some(format!("{label:?} begins or ends with a dash"));
        }
    }
    None
}

/// The nearest valid name: other characters become dashes, and nothing else.
fn repaired(name: &str) -> Option<String> {
    let dashed: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .collect();
    let labels: Vec<&str> = dashed
        .split('.')
        .map(|label| label.trim_matches('-'))
        .filter(|label| !label.is_empty())
        .collect();
    let repaired = labels.join(".");
    (dns_name_fault(&repaired).is_none() && repaired != name).then_some(repaired)
}

/// `vms_name`, else `name`, else the host's.
pub(super) fn vm_name(reader: &mut Reader<'_>) -> Option<String> {
    let Some(field) = reader.first_of(&["vms_name", "name"]) else {
        // The host's own name is checked as such, and told once.
        return Some(reader.vars.host().to_owned());
    };
    let name = reader.text(&field)?;
    match dns_name_fault(&name) {
        None => Some(name),
        Some(fault) => {
            let mut problem = field
                .error(
                    "machine/invalid-name",
                    format!("{} is {}: no valid VM name", field.path, field.show()),
                )
                .rule(format!("Proxmox takes DNS names only: {fault}"));
            if let Some(repaired) = repaired(&name) {
                problem = problem.help(format!("vms_name: {repaired}"));
            }
            reader.push(problem);
            None
        }
    }
}

/// The guest's names, from the host's name and the domain.
pub(super) fn host_names(reader: &mut Reader<'_>) -> Option<HostNames> {
    let host = reader.vars.host().to_owned();
    let host_fault = dns_name_fault(&host);
    if let Some(fault) = &host_fault {
        let mut problem = Diagnostic::error("machine/invalid-name", format!("{host:?} is no valid host name"))
            .key("inventory_hostname")
            .rule(format!("the guest's host name is a DNS name: {fault}"));
        if let Some(repaired) = repaired(&host) {
            problem = problem.help(format!("rename the host to {repaired:?} in the inventory"));
        }
        reader.push(problem);
    }
    if reader.get("global_domain_name").is_none() && !reader.is_broken("global_domain_name") {
        reader.push(
            Diagnostic::warning("machine/default-domain", "global_domain_name is not defined")
                .key("global_domain_name")
                .rule(format!("the guest is called {host}.example.org"))
                .help("set global_domain_name"),
        );
    }
    let field = reader.get_or_default("global_domain_name")?;
    let domain = domain(reader, &field)?;
    if host_fault.is_some() {
        return None;
    }
    let suffix = format!(".{domain}");
    let fqdn = if host.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase()) {
        host.clone()
    } else {
        format!("{host}{suffix}")
    };
    if fqdn.len() > 253 {
        reader.push(
            field
                .error(
                    "machine/invalid-name",
                    format!("{fqdn:?} has {} characters", fqdn.len()),
                )
                .rule("at most 253"),
        );
        return None;
    }
    let hostname = host.split('.').next().unwrap_or(&host).to_owned();
    Some(HostNames { hostname, fqdn, domain })
}

/// A domain name; one dot at its end is dropped.
pub(super) fn domain(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    let domain = text.strip_suffix('.').unwrap_or(&text);
    match dns_name_fault(domain) {
        None => Some(domain.to_owned()),
        Some(fault) => {
            reader.push(
                field
                    .error(
                        "machine/invalid-name",
                        format!("{} is {}: no valid domain", field.path, field.show()),
                    )
                    .rule(fault),
            );
            None
        }
    }
}

/// A Linux user's name (shadow: lower case, digits, `_`, `-`, at most 32).
pub(super) fn user(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let name = reader.text(field)?;
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    let rest = |c: char| first(c) || c.is_ascii_digit() || c == '-' || c == '.';
    if name.starts_with(first) && name.chars().all(rest) && name.len() <= 32 {
        return Some(name);
    }
    reader.push(
        field
            .error(
                "machine/invalid-name",
                format!("{} is {}: no valid user name", field.path, field.show()),
            )
            .rule("a lower-case letter or `_`, then also digits, `-` and `.`; at most 32 characters"),
    );
    None
}

/// Something that SSH or HTTPS connects to: a name or an address, nothing that could be taken for an option.
pub(super) fn endpoint(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = reader.text(field)?;
    let bare = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(&text);
    if bare.parse::<IpAddr>().is_ok() {
        return Some(bare.to_owned());
    }
    // An SSH alias may hold an underscore.
    let fault = dns_name_fault(&text.replace('_', "-"));
    let Some(fault) = fault else { return Some(text) };
    let mut problem = field
        .error(
            "machine/invalid-endpoint",
            format!("{} is {}", field.path, field.show()),
        )
        .rule(format!("a host name or an address, and nothing else: {fault}"));
    if text.contains("://") {
        problem = problem.help("leave out the scheme, and give the port in its own variable");
    } else if let Some((_, port)) = text.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        problem = problem.help("give the port in its own variable");
    }
    reader.push(problem);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{codes, good, problems};

    #[test]
    fn the_rule_for_names_is_that_of_proxmox_and_dns() {
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        let table = [
            ("web-0", true),
            ("2604-kdcs-002", true),
            ("vm1.example.com", true),
            ("Web-1", true),
            (long.as_str(), true),
            (too_long.as_str(), false),
            ("debian_12_homelab", false),
            ("-web", false),
            ("web-", false),
            ("web..x", false),
            (".hello", false),
            ("web.", false),
            ("10.0.0.5", false),
            ("wéb", false),
            ("", false),
        ];
        for (name, ok) in table {
            assert_eq!(dns_name_fault(name).is_none(), ok, "{name:?}");
        }
        assert!(dns_name_fault(&["a"; 128].join(".")).is_some(), "255 characters");
    }

    #[test]
    fn a_bad_name_is_told_with_a_good_one() {
        let problems = problems(&good().set("vms_name", "debian_12"));
        assert_eq!(codes(&problems), ["machine/invalid-name"]);
        assert_eq!(problems[0].help, ["vms_name: debian-12"]);
        assert!(problems[0].place.is_some());
    }

    #[test]
    fn the_domain_is_added_once() {
        let machine = good().build().unwrap().machine;
        assert_eq!(
            (machine.guest.hostname.as_str(), machine.guest.fqdn.as_str()),
            ("web-0", "web-0.lab.test")
        );
        let machine = good().host("web-0.lab.test").build().unwrap().machine;
        assert_eq!(
            (machine.guest.hostname.as_str(), machine.guest.fqdn.as_str()),
            ("web-0", "web-0.lab.test")
        );
        let machine = good().set("global_domain_name", "lab.test.").build().unwrap().machine;
        assert_eq!(machine.guest.domain, "lab.test");
    }

    #[test]
    fn the_default_domain_is_warned_about() {
        let built = good().unset("global_domain_name").build().unwrap();
        assert_eq!(built.machine.guest.fqdn, "web-0.example.org");
        assert!(codes(&built.warnings).contains(&"machine/default-domain"));
    }

    #[test]
    fn a_url_is_no_host() {
        let problems = problems(&good().set("global_proxmox_api_host", "https://pve.lab.test:8006"));
        assert_eq!(codes(&problems), ["machine/invalid-endpoint"]);
        assert!(problems[0].help[0].contains("scheme"));
    }

    #[test]
    fn a_host_that_looks_like_an_option_is_refused() {
        assert_eq!(
            codes(&problems(&good().set("ansible_host", "-oProxyCommand=x"))),
            ["machine/invalid-endpoint"]
        );
    }
}
