//! What the guest's image relies on besides its disk: a serial port, the guest agent. Both are warned about, no more: only
//! the first start tells for certain.

use super::warning;
use crate::diagnose::Diagnostic;
use crate::machine::Machine;
use crate::stage::readiness::Template;

/// The cloud images of these systems are made for a serial console; some of them wait for it, or stop, where there is none
/// (Proxmox VE's own guide to cloud-init adds one for this reason).
const MADE_FOR_SERIAL: &[&str] = &["debian", "ubuntu"];

/// The package of the guest agent.
const AGENT: &str = "qemu-guest-agent";

/// The VM will have the serial port that its display or its image needs.
pub(super) fn serial(machine: &Machine, template: &Template, out: &mut Vec<Diagnostic>) {
    let has = |port: &str| {
        let declared = machine.hardware.serial.iter().any(|(slot, _)| slot == port);
        declared || template.config.get(port).is_some()
    };
    let display = machine.hardware.vga.as_deref().or_else(|| template.config.get("vga"));
    let display = display.map(|vga| vga.split(',').next().unwrap_or(vga).trim_start_matches("type="));
    let help = |diagnostic: Diagnostic, port: &str| {
        diagnostic
            .help(format!("qm set {} --{port} socket", template.vmid))
            .help(format!("or vms_config.{port}: socket for this host"))
    };
    if let Some(port) = display.filter(|display| display.starts_with("serial")) {
        if !has(port) {
            let message = format!(
                "the display is to be {port}, and neither template {} nor vms_config has that port",
                machine.template
            );
            out.push(help(
                warning(machine, "readiness/no-serial", "vms_config.vga", message)
                    .rule("a display on a serial port needs the port"),
                port,
            ));
        }
        return;
    }
    let name = machine.template.to_ascii_lowercase();
    let known = MADE_FOR_SERIAL.iter().any(|system| name.contains(system));
    if known && !(0..4).any(|index| has(&format!("serial{index}"))) {
        let message = format!("template {} has no serial port", machine.template);
        out.push(help(
            warning(machine, "readiness/no-serial", "vms_os", message)
                .rule("the cloud images of this system are made for a serial console"),
            "serial0",
        ));
    }
}

/// A declared agent is one that answers: the template brings it, or the packages do.
pub(super) fn agent(machine: &Machine, template: &Template, out: &mut Vec<Diagnostic>) {
    let brought = template.config.agent_enabled() || machine.guest.packages.iter().any(|package| package == AGENT);
    if machine.hardware.agent == Some(true) && !brought {
        out.push(
            warning(
                machine,
                "readiness/no-agent",
                "vms_config.agent",
                format!("vms_config.agent is set, but template {} has no agent and the packages do not bring one", machine.template),
            )
            .rule("without a guest agent that answers, host keys are scanned over the network and Proxmox shuts down by ACPI only")
            .help(format!("add {AGENT} to vms_additional_packages, or leave vms_config.agent out")),
        );
    }
}
