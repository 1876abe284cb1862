//! Start, stop, shutdown, reboot, reset, pause (qemu-server: `vm_start`, `vm_stop`, `vm_reboot`, `qm cleanup`).
//!
//! ```text
//! stopped --qmstart: apply pending, cloud-init drive, checks--> running
//! running --qmstop--> stopped, pending applied
//! running --qmshutdown: agent or ACPI, wait--> stopped, pending applied   | timeout: fails, or kills (forceStop)
//! running --qmreboot: the same--> stopped, pending applied --qmeventd: a separate qmstart of root@pam--> running
//! running --power-off from inside--> stopped, pending kept;  reboot from inside or reset: nothing is applied
//! ```

use serde::{Deserialize, Serialize};

use super::{Job, check_unlocked, lock_vm};
use crate::simulator::guest::{Nic, PowerOn};
use crate::simulator::props::{Net, net_index};
use crate::simulator::task::{Step, TaskView};
use crate::simulator::vm::{Config, Power, Process, Vm};
use crate::simulator::world::World;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    Start,
    Stop,
    Shutdown,
    Reboot,
    Reset,
    Suspend,
    Resume,
}

impl Action {
    /// The task's type.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Start => "qmstart",
            Self::Stop => "qmstop",
            Self::Shutdown => "qmshutdown",
            Self::Reboot => "qmreboot",
            Self::Reset => "qmreset",
            Self::Suspend => "qmpause",
            Self::Resume => "qmresume",
        }
    }
}

/// A power task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PowerJob {
    pub(crate) vmid: u32,
    pub(crate) action: Action,
    /// How long to wait for the guest.
    pub(crate) timeout_ms: u64,
    pub(crate) force: bool,
    pub(crate) stage: u8,
    pub(crate) deadline_ms: u64,
}

impl PowerJob {
    pub(crate) fn new(vmid: u32, action: Action) -> Self {
        Self {
            vmid,
            action,
            timeout_ms: 0,
            force: false,
            stage: 0,
            deadline_ms: 0,
        }
    }

    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, now: u64) -> Step {
        let node = task.node.clone();
        self.stage += 1;
        if self.stage == 1 {
            return lock_vm(world, &node, self.vmid);
        }
        if let Err(error) = world.vm_on(&node, self.vmid) {
            return Step::Fail(error.task_text());
        }
        match self.action {
            Action::Start => self.start(world, task, &node, now),
            Action::Stop => self.stop(world, &node, now),
            Action::Shutdown | Action::Reboot => self.shutdown(world, task, &node, now),
            Action::Reset => {
                let durations = world.durations.clone();
                if let Some(vm) = world.vms.get_mut(&self.vmid).filter(|vm| vm.is_running()) {
                    vm.guest.reset(now, &durations);
                }
                Step::Done
            }
            Action::Suspend | Action::Resume => {
                if let Some(vm) = world.vms.get_mut(&self.vmid)
                    && let Power::Running(process) = &mut vm.power
                {
                    process.paused = self.action == Action::Suspend;
                }
                Step::Done
            }
        }
    }

    fn start(&mut self, world: &mut World, task: &mut TaskView, node: &str, now: u64) -> Step {
        if self.stage == 2 {
            if !world.quorate {
                return Step::Fail("cluster not ready - no quorum?".to_owned());
            }
            if let Err(why) = check_unlocked(world, node, self.vmid) {
                return Step::Fail(why);
            }
            let Some(vm) = world.vms.get(&self.vmid) else {
                return Step::Fail(String::new());
            };
            if vm.is_template() {
                return Step::Fail("you can't start a vm if it's a template".to_owned());
            }
            if vm.is_running() {
                return Step::Fail(format!("VM {} already running", self.vmid));
            }
            world.apply_pending(node, self.vmid);
            return match world.check_start(node, self.vmid, task) {
                Ok(()) => Step::At(now + world.durations.start),
                Err(why) => Step::Fail(why),
            };
        }
        match world.power_on(node, self.vmid) {
            Ok(()) => Step::Done,
            Err(why) => Step::Fail(why),
        }
    }

    fn stop(&mut self, world: &mut World, node: &str, now: u64) -> Step {
        let running = world.vms.get(&self.vmid).is_some_and(Vm::is_running);
        if !running {
            return Step::Done;
        }
        if self.stage == 2 {
            return Step::At(now + world.durations.stop);
        }
        world.power_off(self.vmid);
        world.apply_pending(node, self.vmid);
        Step::Done
    }

    fn shutdown(&mut self, world: &mut World, task: &mut TaskView, node: &str, now: u64) -> Step {
        let durations = world.durations.clone();
        let vmid = self.vmid;
        let Some(vm) = world.vms.get_mut(&vmid) else {
            return Step::Fail(String::new());
        };
        if !vm.is_running() {
            return self.after_shutdown(world, node, now);
        }
        if self.stage == 2 {
            if self.action == Action::Reboot {
                vm.reboot_requested = true;
            }
            if vm.process().is_some_and(|p| p.agent) && !vm.guest.agent_answers(now) {
                task.say(format!(
                    "QEMU Guest Agent is not running - VM {vmid} qga command 'guest-ping' failed - got timeout"
                ));
            }
            self.deadline_ms = now + self.timeout_ms;
            let off = vm.guest.acpi_shutdown(now, &durations);
            return Step::At(off.map_or(self.deadline_ms, |at| at.min(self.deadline_ms)));
        }
        if now < self.deadline_ms {
            let next = vm.guest.next_event().unwrap_or(self.deadline_ms);
            return Step::At(next.max(now + 1).min(self.deadline_ms));
        }
        vm.reboot_requested = false;
        if self.force {
            task.say("VM still running - terminating now with SIGTERM");
            world.power_off(vmid);
            world.apply_pending(node, vmid);
            return Step::Done;
        }
        Step::Fail("VM quit/powerdown failed - got timeout".to_owned())
    }

    /// The process is gone: pending changes are applied; after a reboot qmeventd starts the VM in a task of its own.
    fn after_shutdown(&mut self, world: &mut World, node: &str, now: u64) -> Step {
        world.power_off(self.vmid);
        world.apply_pending(node, self.vmid);
        let again = world
            .vms
            .get_mut(&self.vmid)
            .is_some_and(|vm| std::mem::take(&mut vm.reboot_requested));
        if again && self.action == Action::Reboot {
            let start = Job::Power(Self::new(self.vmid, Action::Start));
            let upid = world.spawn("root@pam", node, "qmstart", &self.vmid.to_string(), start);
            let at = now + world.durations.reboot_gap;
            if let Some(task) = world.tasks.iter_mut().rev().find(|t| t.upid == upid) {
                task.due_ms = at;
            }
        }
        Step::Done
    }

    pub(crate) fn abandon(&mut self, world: &mut World) -> String {
        if let Some(vm) = world.vms.get_mut(&self.vmid) {
            vm.reboot_requested = false;
        }
        "received interrupt".to_owned()
    }
}

/// `hastart`, `hastop`, `hamigrate`: ends after asking; the manager acts in a task of root's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HaJob {
    pub(crate) kind: String,
    pub(crate) vmid: u32,
    pub(crate) then: Box<Job>,
    pub(crate) stage: u8,
}

impl HaJob {
    pub(crate) fn step(&mut self, world: &mut World, task: &mut TaskView, _now: u64) -> Step {
        let upid = world.spawn(
            "root@pam",
            &task.node,
            &self.kind,
            &self.vmid.to_string(),
            (*self.then).clone(),
        );
        let at = world.now_ms + world.durations.stale;
        if let Some(task) = world.tasks.iter_mut().rev().find(|t| t.upid == upid) {
            task.due_ms = at;
        }
        task.say(format!("Requesting HA change for VM {}", self.vmid));
        Step::Done
    }
}

impl World {
    /// What a start finds wrong: storages, snippets, volumes, bridges, processors, memory.
    fn check_start(&self, node: &str, vmid: u32, task: &mut TaskView) -> Result<(), String> {
        let Some(vm) = self.vms.get(&vmid) else {
            return Err(String::new());
        };
        if vm.config.cloudinit_slot().is_some() {
            self.seed(vm)?;
            task.say("generating cloud-init ISO");
        }
        let machine = self.nodes.get(node);
        if machine.is_some_and(|n| vm.cpus() > u64::from(n.cpus)) {
            return Err(format!(
                "MAX {} vcpus allowed per VM on this node",
                machine.map_or(0, |n| n.cpus)
            ));
        }
        for (_, drive) in Config::drives(&vm.config.current) {
            if drive.has_volume() {
                self.check_volume(node, &drive.file).map_err(|e| e.task_text())?;
            }
        }
        for (_, text) in vm.config.current.iter().filter(|(key, _)| net_index(key).is_some()) {
            if let Some(bridge) = Net::parse(text).option("bridge")
                && !self.has_bridge(node, bridge)
            {
                return Err(format!("bridge '{bridge}' does not exist"));
            }
        }
        if machine.is_some_and(|n| vm.memory() > n.memory) {
            task.say("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory");
            return Err("start failed: QEMU exited with code 1".to_owned());
        }
        Ok(())
    }

    /// Whether a node has a bridge.
    pub(crate) fn has_bridge(&self, node: &str, bridge: &str) -> bool {
        self.bridges
            .get(bridge)
            .is_some_and(|b| b.nodes.is_empty() || b.nodes.iter().any(|n| n == node))
    }

    /// QEMU starts.
    pub(crate) fn power_on(&mut self, node: &str, vmid: u32) -> Result<(), String> {
        self.next_pid += 1;
        let (pid, now, durations) = (self.next_pid, self.now_ms, self.durations.clone());
        let vm = self.vm_on(node, vmid).map_err(|e| e.task_text())?;
        let on = PowerOn {
            now_ms: now,
            seed: self.seed(vm)?,
            nics: nics(vm),
            agent_device: vm.agent(),
            behaviour: self.behaviour_of(vm),
        };
        let Some(vm) = self.vms.get_mut(&vmid) else {
            return Ok(());
        };
        vm.power = Power::Running(Process {
            pid,
            since_ms: now,
            paused: false,
            agent: on.agent_device,
        });
        vm.booted = true;
        vm.agent_results.clear();
        vm.guest.power_on(on, &durations);
        Ok(())
    }

    /// The process is gone.
    pub fn power_off(&mut self, vmid: u32) {
        let now = self.now_ms;
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.power = Power::Stopped;
            vm.guest.power_off(now);
        }
    }
}

/// The network devices as the guest sees them. DHCP gives every MAC an address of its own.
fn nics(vm: &Vm) -> Vec<Nic> {
    let mut all = Vec::new();
    for (key, text) in &vm.config.current {
        let Some(index) = net_index(key) else {
            continue;
        };
        let net = Net::parse(text);
        let mac = net.mac.clone().unwrap_or_default();
        let tail: Vec<u8> = mac
            .split(':')
            .skip(3)
            .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
            .collect();
        let (b, c) = match tail.as_slice() {
            [_, b, c] => (*b, *c),
            _ => (0, 1),
        };
        all.push(Nic {
            index: u8::try_from(index).unwrap_or(u8::MAX),
            bridge: net.option("bridge").unwrap_or_default().to_owned(),
            link_down: net.option("link_down") == Some("1"),
            dhcp_address: format!("127.{}.{b}.{}/8", 200 + index % 50, c.clamp(1, 254)),
            mac,
        });
    }
    all.sort_by_key(|nic| nic.index);
    all
}
