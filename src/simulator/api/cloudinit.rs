//! The cloud-init drive's content: what changed, writing it anew, and the generated documents.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::simulator::cloudinit::{generated_meta, generated_network, generated_user};
use crate::simulator::fail::ApiError;

pub(super) fn pending(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let config = &call.world.vm_on(&node, vmid)?.config;
    let mut rows = Vec::new();
    for key in ["cipassword", "ciuser", "sshkeys"] {
        if let Some(value) = config.get(key) {
            let value = if key == "cipassword" { "**********" } else { value };
            rows.push(json!({"key": key, "value": value}));
        }
    }
    Ok(Reply::Data(Value::from(rows)))
}

pub(super) fn regenerate(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    if let Some(lock) = vm.lock() {
        return Err(ApiError::failed(format!("VM is locked ({lock})")));
    }
    call.world.seed(vm).map_err(ApiError::failed)?;
    Ok(Reply::Data(Value::Null))
}

pub(super) fn dump(call: &mut Call) -> Result<Reply, ApiError> {
    let (node, vmid) = (call.node(), call.vmid());
    let vm = call.world.vm_on(&node, vmid)?;
    let (user, network) = (generated_user(vm), generated_network(&vm.config));
    Ok(Reply::Data(Value::from(match call.get("type") {
        Some("user") => user,
        Some("network") => network,
        _ => generated_meta(&user, &network),
    })))
}
