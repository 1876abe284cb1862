//! A VM's power.
//!
//! ```text
//!   stopped --start--> running --stop-----> stopped        at once
//!                              --shutdown-> stopped        if the guest follows
//!                              --reboot---> stopped --(another task)--> running
//! ```
//!
//! The tasks of an HA-managed VM end when the change was *asked for*: look at the VM, not at the task. Pending changes
//! come into force by stop, shutdown, reboot and start; a reboot from inside the guest applies nothing (qemu-server:
//! callers of `vmconfig_apply_pending`).

use std::time::Duration;

use super::client::{Client, param};
use super::error::ApiError;
use super::ids::{NodeName, Upid, VmId};
use super::transport::Method;
use super::vm::vm;

impl Client {
    /// Starts a VM.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn start(&self, node: &NodeName, vmid: VmId) -> Result<Upid, ApiError> {
        self.task(Method::Post, vm(node, vmid, "/status/start"), Vec::new())
            .await
    }

    /// Pulls a VM's plug. A stopped one is fine.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn stop(&self, node: &NodeName, vmid: VmId) -> Result<Upid, ApiError> {
        self.task(Method::Post, vm(node, vmid, "/status/stop"), Vec::new())
            .await
    }

    /// Asks the guest to power off, and pulls the plug after `timeout` if `force_stop`. A stopped VM is fine.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn shutdown(
        &self,
        node: &NodeName,
        vmid: VmId,
        timeout: Duration,
        force_stop: bool,
    ) -> Result<Upid, ApiError> {
        let mut params = vec![param("timeout", timeout.as_secs())];
        if force_stop {
            params.push(param("forceStop", 1));
        }
        self.task(Method::Post, vm(node, vmid, "/status/shutdown"), params)
            .await
    }

    /// Asks the guest to power off, applies what is pending, and starts it again. The task ends while the VM is stopped:
    /// the start is another task, so look at [`Client::vm_status`] for a new process.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn reboot(&self, node: &NodeName, vmid: VmId, timeout: Duration) -> Result<Upid, ApiError> {
        self.task(
            Method::Post,
            vm(node, vmid, "/status/reboot"),
            vec![param("timeout", timeout.as_secs())],
        )
        .await
    }
}
