//! What the image relies on: a serial port, the agent.

use super::*;

#[test]
fn a_template_without_serial_port_or_agent_is_warned_about() {
    let declared = |agent: Option<bool>, packages: &[&str]| {
        let mut machine = wanted();
        machine.hardware.agent = agent;
        machine.guest.packages = packages.iter().map(|name| (*name).to_owned()).collect();
        machine
    };
    let agent = "readiness/no-agent";
    let table = [
        (declared(Some(true), &["vim"]), None, vec![agent]),
        (declared(Some(true), &["vim"]), Some("1"), vec![]),
        (declared(Some(true), &["qemu-guest-agent"]), None, vec![]),
        (declared(Some(false), &["vim"]), None, vec![]),
        (declared(None, &["vim"]), None, vec![]),
    ];
    for (machine, value, want) in table {
        let mut facts = good();
        change(&mut facts, "agent", value);
        assert_eq!(codes(&machine, &facts), want, "{value:?}");
    }
    let with = |vga: Option<&str>, serial: bool| {
        let mut machine = wanted();
        machine.hardware.vga = vga.map(str::to_owned);
        let port = ("serial0".to_owned(), "socket".to_owned());
        machine.hardware.serial = if serial { vec![port] } else { Vec::new() };
        machine
    };
    let serial = "readiness/no-serial";
    let table = [
        (with(None, false), None, None, vec![serial]),
        (with(None, true), None, None, vec![]),
        (with(None, false), None, Some("socket"), vec![]),
        (with(Some("serial0"), false), None, None, vec![serial]),
        (with(Some("serial0"), true), None, None, vec![]),
        (with(None, false), Some("serial0"), Some("socket"), vec![]),
        (with(Some("serial1"), true), None, None, vec![serial]),
    ];
    for (machine, vga, port, want) in table {
        let mut facts = good();
        change(&mut facts, "vga", vga);
        change(&mut facts, "serial0", port);
        let found = check(&machine, &facts);
        let told: Vec<&str> = found.iter().map(|problem| problem.code).collect();
        assert_eq!(told, want, "{:?} {vga:?} {port:?}", machine.hardware.vga);
        assert!(
            found
                .iter()
                .all(|problem| problem.severity == crate::diagnose::Severity::Warning)
        );
    }
    // An image that is not known to need one, and a template that was cloned before.
    let mut facts = good();
    change(&mut facts, "serial0", None);
    let mut machine = with(None, false);
    machine.template = "rocky-9".to_owned();
    assert_eq!(codes(&machine, &facts), [""; 0]);
}
