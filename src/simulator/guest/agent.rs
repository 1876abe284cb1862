//! The guest agent's answers.

use serde_json::{Value, json};

use super::{ExecResult, Guest, split_cidr};
use crate::simulator::clock::Durations;
use crate::simulator::rootfs;
use crate::simulator::shell::{self, Login, Machine};

impl Guest {
    /// `network-get-interfaces`: the list under `result`.
    pub fn interfaces_json(&self, now_ms: u64) -> Value {
        let mut list = vec![json!({
            "name": "lo",
            "hardware-address": "00:00:00:00:00:00",
            "ip-addresses": [
                {"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8},
                {"ip-address": "::1", "ip-address-type": "ipv6", "prefix": 128}
            ],
            "statistics": statistics(),
        })];
        for interface in self.live_interfaces(now_ms) {
            let addresses: Vec<Value> = interface
                .addresses
                .iter()
                .map(|cidr| {
                    let (address, prefix) = split_cidr(cidr);
                    let kind = if address.contains(':') { "ipv6" } else { "ipv4" };
                    json!({"ip-address": address, "ip-address-type": kind, "prefix": prefix})
                })
                .collect();
            let mut entry = json!({
                "name": interface.name,
                "hardware-address": interface.mac.to_lowercase(),
                "statistics": statistics(),
            });
            if !addresses.is_empty() {
                entry["ip-addresses"] = Value::Array(addresses);
            }
            list.push(entry);
        }
        Value::Array(list)
    }

    /// `get-osinfo`: the object under `result`.
    pub fn osinfo_json(&self) -> Value {
        let (name, pretty) = self.os_names();
        json!({
            "id": self.image.os, "name": name, "pretty-name": pretty, "version-id": self.image.os_version,
            "version": self.image.os_version, "machine": "x86_64", "kernel-release": "6.1.0-50-cloud-amd64",
        })
    }

    /// Runs a command as root through the agent, really, in the guest's root directory (without one nothing can run). It
    /// blocks the caller for at most five seconds.
    pub fn agent_exec(&mut self, now_ms: u64, _d: &Durations, command: &[String], input: &[u8]) -> ExecResult {
        let failed = |text: String| ExecResult {
            code: 127,
            stdout: String::new(),
            stderr: text,
        };
        let (Some(root), Some(shell)) = (self.root.clone(), self.shell.clone()) else {
            return failed("the guest has no root directory".to_owned());
        };
        if let Err(error) = rootfs::sync(self, &root, &shell, now_ms) {
            return failed(error.to_string());
        }
        let login = Login {
            // The number only matters to requests such as reboot, and those name it by the root's.
            machine: Machine::Guest(root.file_name().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(0)),
            root,
            user: "root".to_owned(),
            sudo: true,
            no_python: self.behaviour().is_some_and(|b| b.no_python),
            no_cloud_init: self.behaviour().is_some_and(|b| b.no_cloud_init_command),
        };
        let result = shell::run_blocking(&shell, &login, command, input);
        self.read_switches();
        result.unwrap_or_else(|error| failed(error.to_string()))
    }

    /// Reads a file as root through the agent; the error is QGA's text.
    ///
    /// # Errors
    /// The file is not there.
    pub fn agent_read_file(&self, now_ms: u64, path: &str) -> Result<Vec<u8>, String> {
        let below = path.trim_start_matches('/');
        let from_disk = || self.root.as_ref().and_then(|root| std::fs::read(root.join(below)).ok());
        let from_model = || {
            let files = self.files(now_ms);
            files
                .into_iter()
                .find(|f| f.path == below)
                .and_then(|f| f.content)
                .map(String::into_bytes)
        };
        from_model()
            .or_else(from_disk)
            .ok_or_else(|| format!("failed to open file '{path}' (mode: 'r'): No such file or directory"))
    }
}

fn statistics() -> Value {
    json!({"rx-bytes": 0, "rx-dropped": 0, "rx-errs": 0, "rx-packets": 0, "tx-bytes": 0, "tx-dropped": 0, "tx-errs": 0, "tx-packets": 0})
}
