//! Which addresses a machine has: asked of `ip`, or of `/proc` where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

use super::probes::{Probe, body};

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestAddress {
    /// The address.
    pub address: IpAddr,
    /// Prefix length, where it is known.
    pub prefix: Option<u8>,
    /// The interface, where it is known.
    pub interface: Option<String>,
    /// Leased or advertised: it may change without anybody's doing.
    pub dynamic: bool,
}

/// The machine's addresses, sorted: no loopback, no link-local, no temporary ones.
pub fn addresses() -> Probe<Vec<GuestAddress>> {
    let script = "if j=$(ip -j addr show 2>/dev/null) && [ -n \"$j\" ]; then echo ip; printf '%s\\n' \"$j\"\n\
                  else echo proc; cat /proc/net/fib_trie; echo vmwright:6; cat /proc/net/if_inet6 2>/dev/null; true; fi";
    Probe::new("the addresses", script, false, |output| {
        let body = body(output)?;
        let (kind, rest) = body.split_once('\n').unwrap_or((&body, ""));
        let mut found = match kind.trim() {
            "ip" => from_ip_json(rest)?,
            "proc" => from_proc(rest),
            other => return Err(format!("an unexpected line: {other:?}")),
        };
        found.retain(worth_keeping);
        found.sort();
        found.dedup();
        Ok(found)
    })
}

/// The addresses of the machine that vmwright runs on: no loopback, no link-local ones.
pub fn of_this_machine() -> BTreeSet<IpAddr> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let text = format!(
        "{}\nvmwright:6\n{}",
        read("/proc/net/fib_trie"),
        read("/proc/net/if_inet6")
    );
    from_proc(&text)
        .into_iter()
        .filter(worth_keeping)
        .map(|found| found.address)
        .collect()
}

/// Whether the address is the machine's own towards others: not on its loopback interface, not link-local. Where the
/// interface is not known, the loopback range stands for it.
fn worth_keeping(found: &GuestAddress) -> bool {
    let on_loopback = match &found.interface {
        Some(interface) => interface == "lo",
        None => found.address.is_loopback(),
    };
    let local = match found.address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified(),
    };
    !on_loopback && !local
}

#[derive(Deserialize)]
struct IpLink {
    #[serde(default)]
    ifname: Option<String>,
    #[serde(default)]
    addr_info: Vec<IpAddress>,
}

#[derive(Deserialize)]
struct IpAddress {
    #[serde(default)]
    local: Option<IpAddr>,
    #[serde(default)]
    prefixlen: Option<u8>,
    #[serde(default)]
    dynamic: bool,
    #[serde(default)]
    temporary: bool,
}

/// `ip -j addr show` of iproute2: a list of links, some of them empty objects.
fn from_ip_json(text: &str) -> Result<Vec<GuestAddress>, String> {
    let links: Vec<IpLink> = serde_json::from_str(text).map_err(|e| format!("`ip -j addr` gave no such JSON: {e}"))?;
    let mut found = Vec::new();
    for link in links {
        for info in link.addr_info {
            if let (Some(address), false) = (info.local, info.temporary) {
                found.push(GuestAddress {
                    address,
                    prefix: info.prefixlen,
                    interface: link.ifname.clone(),
                    dynamic: info.dynamic,
                });
            }
        }
    }
    Ok(found)
}

/// `/proc/net/fib_trie` (an address of this host is a `/32 host LOCAL` leaf) and `/proc/net/if_inet6`.
fn from_proc(text: &str) -> Vec<GuestAddress> {
    let (v4, v6) = text.split_once("vmwright:6\n").unwrap_or((text, ""));
    let mut found: BTreeMap<IpAddr, GuestAddress> = BTreeMap::new();
    let mut leaf = None;
    for line in v4.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        } else if let (true, Some(address)) = (line == "/32 host LOCAL", leaf) {
            let address = IpAddr::V4(address);
            found.insert(address, bare(address, None, None));
        }
    }
    for line in v6.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [digits, _, prefix, _, flags, interface] = words.as_slice()
            && let Ok(bits) = u128::from_str_radix(digits, 16)
            && u32::from_str_radix(flags, 16).is_ok_and(|f| f & IFA_F_TEMPORARY == 0)
        {
            let address = IpAddr::V6(Ipv6Addr::from_bits(bits));
            let prefix = u8::from_str_radix(prefix, 16).ok();
            found.insert(address, bare(address, prefix, Some((*interface).to_owned())));
        }
    }
    found.into_values().collect()
}

/// `linux/if_addr.h`.
const IFA_F_TEMPORARY: u32 = 0x01;

fn bare(address: IpAddr, prefix: Option<u8>, interface: Option<String>) -> GuestAddress {
    GuestAddress {
        address,
        prefix,
        interface,
        dynamic: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::probes::MARK;
    use super::super::remote::Output;
    use super::*;

    fn answer(code: i32, body: &str) -> Output {
        Output {
            code: Some(code),
            stdout: format!("{MARK}\n{body}").into_bytes(),
            stderr: Vec::new(),
        }
    }

    #[test]
    fn addresses_of_iproute2_leave_out_loopback_link_local_and_temporary_ones() {
        let body = r#"ip
[{"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},{},
{"ifname":"ens18","addr_info":[{"family":"inet","local":"10.0.20.5","prefixlen":24,"scope":"global"},
{"family":"inet6","local":"fe80::1","prefixlen":64},{"local":"2001:db8::9","prefixlen":64,"temporary":true,"dynamic":true},
{"local":"2001:db8::5","prefixlen":64,"dynamic":true}]}]
"#;
        let found = addresses().read(&answer(0, body)).expect("addresses");
        let text: Vec<String> = found
            .iter()
            .map(|a| format!("{} {:?} {}", a.address, a.prefix, a.dynamic))
            .collect();
        assert_eq!(text, ["10.0.20.5 Some(24) false", "2001:db8::5 Some(64) true"]);
        assert!(addresses().read(&answer(0, "ip\n{}\n")).is_err());
    }

    #[test]
    fn addresses_of_proc_are_the_local_leaves() {
        let body = "proc\nMain:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.20.0\n        \
                    /24 link UNICAST\n     |-- 10.0.20.5\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n\
                    vmwright:6\n20010db8000000000000000000000005 02 40 00 80     ens18\n\
                    fe800000000000000000000000000001 02 40 20 80    ens18\n";
        let found = addresses().read(&answer(0, body)).expect("addresses");
        let text: Vec<String> = found.iter().map(|a| a.address.to_string()).collect();
        assert_eq!(text, ["10.0.20.5", "2001:db8::5"]);
        assert_eq!(found[1].prefix, Some(64));
    }

    /// In the shell of this machine, with the files of this machine.
    #[test]
    fn the_script_is_a_shells_language() {
        let run = |script: &str| {
            let output = std::process::Command::new("sh")
                .args(["-c", script])
                .output()
                .expect("sh");
            Output {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: output.stderr,
            }
        };
        let probe = addresses();
        probe
            .read(&run(&probe.command(std::time::Duration::from_secs(5)).script))
            .expect("this machine's addresses");
        let proc = run("cat /proc/net/fib_trie; echo vmwright:6; cat /proc/net/if_inet6");
        assert!(from_proc(&proc.text()).iter().any(|a| a.address.is_loopback()));
    }
}
