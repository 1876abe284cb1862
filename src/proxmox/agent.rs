//! The guest agent of a running VM.
//!
//! ```text
//!   ping --> true: it answers
//!        \-> false: not running, not configured, or the VM is stopped
//!   exec --> pid --> exec_status (until exited)
//! ```
//!
//! Calls are synchronous. What the agent itself refuses comes as 200 with `result.error` (qemu-server:
//! `API2/Qemu/Agent.pm`), and is an error here. Needs VM.GuestAgent.* on PVE 9, VM.Monitor before.

use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::{NodeName, VmId};
use super::json;
use super::transport::Method;
use super::vm::vm;

/// A network interface as the guest sees it, `lo` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestInterface {
    /// `eth0`, `ens18`, ...
    pub name: String,
    /// Its MAC address, as the guest writes it.
    pub mac: Option<String>,
    /// Its addresses, link-local ones included.
    pub addresses: Vec<GuestAddress>,
}

/// An address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestAddress {
    /// The address.
    pub address: std::net::IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

/// How a command in the guest stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecStatus {
    /// Whether it ended.
    pub exited: bool,
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Client {
    /// Whether the agent answers. "No" is an answer; not being allowed to ask is an error.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn agent_ping(&self, node: &NodeName, vmid: VmId) -> Result<bool, ApiError> {
        let answers = |data: Value| Ok(data.get("result").and_then(|result| result.get("error")).is_none());
        match self
            .decoded(Method::Post, vm(node, vmid, "/agent/ping"), Vec::new(), answers)
            .await
        {
            Ok(answers) => Ok(answers),
            Err(error) if error.status == Some(500) && is_silent(&error.reason) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The guest's interfaces.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn agent_interfaces(&self, node: &NodeName, vmid: VmId) -> Result<Vec<GuestInterface>, ApiError> {
        self.get_with(vm(node, vmid, "/agent/network-get-interfaces"), Vec::new(), interfaces)
            .await
    }

    /// A file of the guest, at most 16 MiB.
    ///
    /// # Errors
    ///
    /// As every call; a file that is longer is an error too.
    pub async fn agent_read_file(&self, node: &NodeName, vmid: VmId, path: &str) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default, deserialize_with = "json::text")]
            content: String,
            #[serde(default, deserialize_with = "json::flag")]
            truncated: bool,
        }
        self.get_with(vm(node, vmid, "/agent/file-read"), vec![param("file", path)], |data| {
            let Raw { content, truncated } = json::from_value(data)?;
            if truncated {
                Err("the file is longer than the agent reads at once".to_owned())
            } else {
                Ok(content)
            }
        })
        .await
    }

    /// Starts a command in the guest, without a shell: program first, then its arguments. Answers its process id for
    /// [`Self::agent_exec_status`]. Needs PVE 8 (before, the command was one string that the API split at spaces).
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn agent_exec(
        &self,
        node: &NodeName,
        vmid: VmId,
        command: &[&str],
        input: Option<&str>,
    ) -> Result<u64, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::number")]
            pid: u64,
        }
        let mut params: Vec<_> = command.iter().map(|word| param("command", word)).collect();
        params.extend(input.map(|input| param("input-data", input)));
        self.decoded(Method::Post, vm(node, vmid, "/agent/exec"), params, |data| {
            json::from_value(data).map(|Raw { pid }| pid)
        })
        .await
    }

    /// How a command in the guest stands. Its output is given once: after `exited` do not ask again.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn agent_exec_status(&self, node: &NodeName, vmid: VmId, pid: u64) -> Result<ExecStatus, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::flag")]
            exited: bool,
            #[serde(default, deserialize_with = "json::opt_number")]
            exitcode: Option<i32>,
            #[serde(rename = "out-data", default, deserialize_with = "json::text")]
            stdout: String,
            #[serde(rename = "err-data", default, deserialize_with = "json::text")]
            stderr: String,
        }
        self.get_with(vm(node, vmid, "/agent/exec-status"), vec![param("pid", pid)], |data| {
            let Raw {
                exited,
                exitcode,
                stdout,
                stderr,
            } = json::from_value(data)?;
            Ok(ExecStatus {
                exited,
                code: exitcode,
                stdout,
                stderr,
            })
        })
        .await
    }
}

/// Whether the text of a 500 says that no agent answers (qemu-server: `QemuServer/Agent.pm`, `agent_available`).
fn is_silent(text: &str) -> bool {
    text.contains("QEMU guest agent is not running")
        || text.contains("No QEMU guest agent configured")
        || (text.starts_with("VM ") && text.contains(" not running"))
        || (text.contains(" qga command '") && text.contains("got timeout"))
}

/// The `result` of a generic agent command.
fn result(data: Value) -> Result<Value, String> {
    let Value::Object(mut map) = data else {
        return Err("no object with result".to_owned());
    };
    let result = map.remove("result").unwrap_or(Value::Null);
    match result.get("error") {
        Some(error) => {
            let desc = error
                .get("desc")
                .or_else(|| error.get("class"))
                .and_then(Value::as_str)
                .unwrap_or("no reason given");
            Err(format!("the guest agent refused: {desc}"))
        }
        None => Ok(result),
    }
}

fn interfaces(data: Value) -> Result<Vec<GuestInterface>, String> {
    #[derive(Deserialize)]
    struct RawAddress {
        #[serde(rename = "ip-address", deserialize_with = "json::text")]
        address: String,
        #[serde(default, deserialize_with = "json::number")]
        prefix: u8,
    }
    #[derive(Deserialize)]
    struct Raw {
        #[serde(deserialize_with = "json::text")]
        name: String,
        #[serde(rename = "hardware-address", default, deserialize_with = "json::opt_text")]
        mac: Option<String>,
        #[serde(rename = "ip-addresses", default)]
        addresses: Vec<RawAddress>,
    }
    let raw: Vec<Raw> = json::entries(result(data)?)?;
    raw.into_iter()
        .map(|Raw { name, mac, addresses }| {
            let addresses = addresses
                .into_iter()
                .map(|RawAddress { address, prefix }| {
                    // Windows writes the zone of a link-local address behind a percent sign.
                    let plain = address.split('%').next().unwrap_or_default();
                    let address = plain.parse().map_err(|_| format!("{address:?} is no address"))?;
                    Ok(GuestAddress { address, prefix })
                })
                .collect::<Result<_, String>>()?;
            Ok(GuestInterface { name, mac, addresses })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn interfaces_come_with_and_without_addresses() {
        let read = interfaces(json!({ "result": [
            { "name": "lo", "ip-addresses": [{ "ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8 }] },
            { "name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": [
                { "ip-address": "fe80::1%eth0", "ip-address-type": "ipv6", "prefix": "64" }] },
            { "name": "eth1" },
        ] }))
        .unwrap();
        let names: Vec<(&str, usize)> = read
            .iter()
            .map(|one| (one.name.as_str(), one.addresses.len()))
            .collect();
        assert_eq!(names, [("lo", 1), ("eth0", 1), ("eth1", 0)]);
        assert_eq!(
            read[1].addresses[0],
            GuestAddress {
                address: "fe80::1".parse().unwrap(),
                prefix: 64
            }
        );
        assert_eq!(read[1].mac.as_deref(), Some("bc:24:11:00:00:01"));
    }

    #[test]
    fn what_the_agent_refuses_is_an_error_although_the_status_is_200() {
        let refused =
            json!({ "result": { "error": { "class": "CommandNotFound", "desc": "The command is disabled" } } });
        assert_eq!(
            interfaces(refused).unwrap_err(),
            "the guest agent refused: The command is disabled"
        );
    }

    #[test]
    fn silence_is_told_from_failure() {
        assert!(is_silent("QEMU guest agent is not running"));
        assert!(is_silent("No QEMU guest agent configured"));
        assert!(is_silent("VM 100 is not running"));
        assert!(is_silent("VM 100 qga command 'guest-ping' failed - got timeout"));
        assert!(!is_silent(
            "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"
        ));
    }
}
