//! Power, boots and time: how a [`Guest`] gets from one state to the next. Pure, but for the look at the two files that
//! decide whether cloud-init runs.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::documents::{self, PowerState, User};
use super::network::{self, Device, Interface};
use super::status::{CloudInitVersion, Disabled, Report, Source, Stage};
use super::{Boot, CloudInitEnd, Guest, PowerOn, Run, Seed, Then};
use crate::simulator::clock::Durations;

/// A time that never comes.
const NEVER: u64 = u64::MAX;

impl Guest {
    /// QEMU starts.
    pub fn power_on(&mut self, on: PowerOn, d: &Durations) {
        let now = on.now_ms;
        let boot = self.new_boot(&on, d, now);
        self.run = Some(Run {
            on,
            durations: d.clone(),
            boot,
            ending: None,
        });
        self.revision += 1;
        self.advance(now);
    }

    /// QEMU is killed.
    pub fn power_off(&mut self, _now_ms: u64) {
        self.read_switches();
        self.run = None;
        self.revision += 1;
    }

    /// The power button, or the agent's shutdown. When the guest will have powered itself off; none: it ignores it.
    pub fn acpi_shutdown(&mut self, now_ms: u64, d: &Durations) -> Option<u64> {
        let behaviour = &self.run.as_ref()?.on.behaviour;
        if behaviour.ignores_shutdown || behaviour.never_boots {
            return None;
        }
        self.end(now_ms + d.shutdown, Then::Off)
    }

    /// `poweroff` inside the guest. When it will be off; none when it is off already.
    pub fn shutdown_inside(&mut self, now_ms: u64, d: &Durations) -> Option<u64> {
        self.end(now_ms + d.shutdown, Then::Off)
    }

    /// `reboot` inside the guest: the same QEMU process with the drive it has. When the next boot begins.
    pub fn reboot_inside(&mut self, now_ms: u64, d: &Durations) -> Option<u64> {
        self.end(now_ms + d.shutdown, Then::Boot)
    }

    /// The reset button: the same QEMU process, a new boot at once.
    pub fn reset(&mut self, now_ms: u64, d: &Durations) {
        if let Some(run) = &mut self.run {
            run.durations = d.clone();
            run.ending = Some((now_ms, Then::Boot));
            self.revision += 1;
            self.advance(now_ms);
        }
    }

    /// `cloud-init clean`: the next boot with a seed is a first boot.
    pub fn clean(&mut self) {
        self.disk.instance_id = None;
        self.revision += 1;
    }

    /// Says whether `/etc/cloud/cloud-init.disabled` is there and whether `manual_cache_clean` is set. With a root
    /// directory attached the guest looks itself.
    pub fn set_switches(&mut self, disabled: bool, manual_cache_clean: bool) {
        self.disk.cloud_init_disabled = disabled;
        self.disk.manual_cache_clean = manual_cache_clean;
    }

    fn end(&mut self, at_ms: u64, then: Then) -> Option<u64> {
        let run = self.run.as_mut()?;
        // A shutdown in progress goes on; `poweroff` after `reboot` changes what follows.
        let at_ms = run.ending.map_or(at_ms, |(at, _)| at);
        run.ending = Some((at_ms, then));
        self.revision += 1;
        Some(at_ms)
    }

    /// Lets time pass up to `now_ms`: every event until then happens, in its order.
    pub fn advance(&mut self, now_ms: u64) {
        while let Some(at) = self.next_event().filter(|at| *at <= now_ms) {
            self.happen(at);
        }
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<u64> {
        let run = self.run.as_ref()?;
        if let Some((at, _)) = run.ending {
            return Some(at);
        }
        let boot = &run.boot;
        let stage = match boot.stage {
            _ if boot.disabled.is_some() && boot.applied => NEVER,
            Stage::Waiting => boot.times_ms[0],
            Stage::Init => boot.times_ms[1],
            Stage::Config => boot.times_ms[2],
            Stage::Final => boot.times_ms[3],
            Stage::Over => NEVER,
        };
        let agent = if boot.agent_up { NEVER } else { boot.agent_ms };
        let ssh = if boot.ssh_up { NEVER } else { boot.ssh_ms };
        let restart = boot.restarts_ms.unwrap_or(NEVER);
        let next = stage.min(agent).min(ssh).min(restart);
        (next != NEVER).then_some(next)
    }

    /// The one next event, at its time.
    fn happen(&mut self, at: u64) {
        self.revision += 1;
        let Some(run) = &mut self.run else { return };
        if let Some((_, then)) = run.ending {
            self.ended(at, then);
            return;
        }
        let boot = &mut run.boot;
        let due = |time: u64| time <= at;
        if boot.disabled.is_none() || !boot.applied {
            let index = boot.stage as usize;
            if index < 4 && due(boot.times_ms[index]) {
                self.next_stage(at);
                return;
            }
        }
        if !boot.agent_up && due(boot.agent_ms) {
            boot.agent_up = true;
        } else if !boot.ssh_up && due(boot.ssh_ms) {
            boot.ssh_up = true;
        } else if boot.restarts_ms.is_some_and(due) {
            boot.restarts_ms = None;
            self.disk.restarted_itself = true;
            let at_ms = at + run.durations.shutdown;
            run.ending = Some((at_ms, Then::Boot));
        }
    }

    fn next_stage(&mut self, at: u64) {
        let Some(run) = &mut self.run else { return };
        match run.boot.stage {
            Stage::Waiting if run.boot.disabled.is_some() => {
                if run.on.behaviour.cloud_init == CloudInitEnd::Disabled && run.on.seed.is_some() {
                    self.apply();
                }
                if let Some(run) = &mut self.run {
                    run.boot.applied = true;
                }
            }
            Stage::Waiting => {
                run.boot.stage = Stage::Init;
                self.apply();
            }
            Stage::Init => run.boot.stage = Stage::Config,
            Stage::Config => run.boot.stage = Stage::Final,
            Stage::Final => {
                run.boot.stage = Stage::Over;
                if run.boot.first {
                    self.disk.runcmd_runs += 1;
                    match run.boot.power_state {
                        Some(PowerState::Reboot) => run.ending = Some((at + run.durations.shutdown, Then::Boot)),
                        Some(PowerState::Poweroff) => run.ending = Some((at + run.durations.shutdown, Then::Off)),
                        None => {}
                    }
                }
            }
            Stage::Over => {}
        }
    }

    fn ended(&mut self, at: u64, then: Then) {
        self.read_switches();
        let Some(mut run) = self.run.take() else { return };
        if then == Then::Boot {
            run.boot = self.new_boot(&run.on, &run.durations, at);
            run.ending = None;
            self.run = Some(run);
        }
    }

    /// Looks at the switches on the disk, where there is one.
    pub(in crate::simulator) fn read_switches(&mut self) {
        let Some(root) = &self.root else { return };
        if !root.is_dir() {
            return;
        }
        let cloud = root.join("etc/cloud");
        self.disk.cloud_init_disabled = cloud.join("cloud-init.disabled").exists();
        let mut texts = std::fs::read_dir(cloud.join("cloud.cfg.d"))
            .into_iter()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let manual = |text: String| {
            let line = |l: &str| l.trim().starts_with("manual_cache_clean:") && l.contains("true");
            text.lines().any(line)
        };
        self.disk.manual_cache_clean = texts.any(manual);
    }

    fn new_boot(&mut self, on: &PowerOn, d: &Durations, now: u64) -> Boot {
        self.read_switches();
        self.boots += 1;
        let behaviour = &on.behaviour;
        let (disabled, source, first) = self.plan(on);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "milliseconds are far below 2^52 and the factor is not negative"
        )]
        let boot_ms = (d.boot as f64 * behaviour.slow_boot_factor.max(0.0)) as u64;
        // A boot with a known instance only runs the per-boot modules.
        let cloud_ms = if first { d.cloud_init } else { d.cloud_init / 4 };
        let ssh = now + boot_ms;
        let over = ssh + cloud_ms;
        let mut times_ms = [now + boot_ms / 2, ssh, ssh + cloud_ms / 3, over];
        let mut boot = Boot {
            number: self.boots,
            id: uuid_like(self.seed, self.boots),
            started_ms: now,
            agent_ms: now + boot_ms * 7 / 10,
            ssh_ms: ssh,
            times_ms,
            disabled,
            source,
            first,
            applied: false,
            stage: Stage::Waiting,
            report: Report::default(),
            agent_up: false,
            ssh_up: false,
            restarts_ms: None,
            power_state: None,
        };
        if behaviour.reboots_itself && first && !self.disk.restarted_itself {
            boot.restarts_ms = Some(ssh + cloud_ms / 2);
        }
        if behaviour.cloud_init == CloudInitEnd::NeverEnds && disabled.is_none() {
            times_ms[3] = NEVER;
        }
        if behaviour.never_boots {
            times_ms = [NEVER; 4];
            (boot.agent_ms, boot.ssh_ms, boot.restarts_ms) = (NEVER, NEVER, None);
        }
        boot.times_ms = times_ms;
        boot
    }

    /// Whether cloud-init runs, with which datasource, and whether the instance is new to it.
    fn plan(&self, on: &PowerOn) -> (Option<Disabled>, Source, bool) {
        if self.disk.cloud_init_disabled {
            return (Some(Disabled::MarkerFile), Source::NoCloud, false);
        }
        if on.behaviour.cloud_init == CloudInitEnd::Disabled {
            return (Some(Disabled::Generator), Source::NoCloud, false);
        }
        let known = self.disk.instance_id.as_deref();
        match &on.seed {
            Some(seed) => (None, Source::NoCloud, known != Some(instance_id(seed).as_str())),
            None if self.disk.manual_cache_clean && known.is_some() => {
                (None, self.disk.source.unwrap_or(Source::NoCloud), false)
            }
            None if on.behaviour.datasource_none_fallback => (None, Source::None, known != Some(NONE_INSTANCE)),
            None => (Some(Disabled::Generator), Source::NoCloud, false),
        }
    }

    /// The init stage: what the documents say becomes the state of the disk.
    fn apply(&mut self) {
        let Some(run) = &mut self.run else { return };
        run.boot.applied = true;
        let behaviour = run.on.behaviour.clone();
        let version = behaviour.cloud_init_version;
        let seed = run.on.seed.clone();
        let first = run.boot.first || (run.boot.disabled.is_some() && self.disk.instance_id.is_none());
        let devices: Vec<Device> = run
            .on
            .nics
            .iter()
            .map(|nic| Device {
                name: super::device_name(nic.index),
                mac: nic.mac.to_uppercase(),
            })
            .collect();
        let mut report = Report::default();
        match (run.boot.source, seed) {
            (Source::NoCloud, Some(seed)) => {
                let data = documents::user_data(&seed.user_data, &self.image.default_user);
                let network = network::network_data(&seed.network_data, &devices);
                report.init_errors.clone_from(&data.init_errors);
                report.final_errors.clone_from(&data.final_errors);
                if !first {
                    // Per-instance modules, runcmd among them, "previously ran".
                    report = Report::default();
                }
                report
                    .warnings
                    .extend(data.warnings.iter().chain(&network.warnings).cloned());
                report.deprecated.clone_from(&data.deprecated);
                run.boot.power_state = data.power_state;
                if first {
                    self.first_boot(&seed, &data, network.interfaces, &behaviour, &mut report);
                }
            }
            (Source::None, _) if first => self.fallback(&devices, &mut report),
            (Source::NoCloud | Source::None, _) => {}
        }
        match behaviour.cloud_init {
            CloudInitEnd::Degraded => report
                .final_warnings
                .push("Failed to run module package-update-upgrade-install".to_owned()),
            CloudInitEnd::Error => report.final_errors.push(
                "('scripts-user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))".to_owned(),
            ),
            CloudInitEnd::Done | CloudInitEnd::Disabled | CloudInitEnd::NeverEnds => {}
        }
        if version == CloudInitVersion::V22 {
            report.warnings.clear();
            report.deprecated.clear();
            report.final_warnings.clear();
        } else if !report.final_errors.is_empty() {
            report
                .final_warnings
                .push("Failed to run module scripts-user (scripts in /var/lib/cloud/instance/scripts)".to_owned());
        }
        if let Some(run) = &mut self.run {
            run.boot.report = report;
        }
    }

    fn first_boot(
        &mut self,
        seed: &Seed,
        data: &documents::UserData,
        interfaces: Vec<Interface>,
        behaviour: &super::GuestBehaviour,
        report: &mut Report,
    ) {
        let disk = &mut self.disk;
        let meta = documents::meta_data(&seed.meta_data);
        disk.instance_id = Some(instance_id(seed));
        disk.source = Some(Source::NoCloud);
        let name = data
            .hostname
            .clone()
            .or_else(|| data.fqdn.clone())
            .or_else(|| meta.get("local-hostname").cloned())
            .unwrap_or_else(|| disk.host_name.clone());
        disk.host_name = name.split('.').next().unwrap_or_default().to_owned();
        disk.fqdn = data.fqdn.clone().unwrap_or(name);
        if data.applied {
            for user in &data.users {
                add_user(&mut disk.users, user.clone());
            }
            disk.root_keys.clone_from(&data.root_keys);
            disk.timezone = data.timezone.clone().or(disk.timezone.take());
            disk.packages.clone_from(&data.packages);
            disk.files.clone_from(&data.files);
        } else {
            // The image's own configuration still makes its default user, without any key.
            let default = documents::user_data("#cloud-config\n{}\n", &self.image.default_user);
            for user in default.users {
                add_user(&mut disk.users, user);
            }
        }
        disk.given_host_keys.clone_from(&data.host_keys);
        disk.key_generation += 1;
        self.host_key_cache = OnceLock::new();
        disk.interfaces = interfaces;
        if behaviour.networkd_renderer && has_default_route(&seed.network_data) {
            disk.interfaces.clear();
            report
                .init_errors
                .push("Address default is not a valid ip address".to_owned());
        }
    }

    /// DataSourceNone: measured on templates with `datasource_list: [NoCloud, None]` after the drive is gone.
    fn fallback(&mut self, devices: &[Device], report: &mut Report) {
        let disk = &mut self.disk;
        disk.instance_id = Some(NONE_INSTANCE.to_owned());
        disk.source = Some(Source::None);
        disk.key_generation += 1;
        self.host_key_cache = OnceLock::new();
        disk.given_host_keys.clear();
        disk.interfaces = network::network_data("", devices).interfaces;
        let default = documents::user_data("#cloud-config\n{}\n", &self.image.default_user);
        for user in default.users {
            add_user(&mut disk.users, user);
        }
        report.final_warnings.push("Used fallback datasource".to_owned());
    }
}

/// The instance id of DataSourceNone.
const NONE_INSTANCE: &str = "iid-datasource-none";

/// meta-data's, or what qemu-server would make: a hash of the user and network data.
fn instance_id(seed: &Seed) -> String {
    documents::meta_data(&seed.meta_data)
        .remove("instance-id")
        .unwrap_or_else(|| hex(&[seed.user_data.as_bytes(), seed.network_data.as_bytes()], 20))
}

fn add_user(users: &mut Vec<User>, user: User) {
    match users.iter_mut().find(|known| known.name == user.name) {
        // The user exists: keys are written again, nothing else.
        Some(known) => known.keys = user.keys,
        None => users.push(user),
    }
}

fn has_default_route(network_data: &str) -> bool {
    network_data.contains("to: default") || network_data.contains("to: \"default\"")
}

fn hex(parts: &[&[u8]], bytes: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .take(bytes)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A boot id: random-looking, and the same for the same boot.
fn uuid_like(seed: u64, number: u32) -> String {
    let text = hex(&[b"boot", &seed.to_be_bytes(), &number.to_be_bytes()], 16);
    format!(
        "{}-{}-4{}-a{}-{}",
        &text[..8],
        &text[8..12],
        &text[13..16],
        &text[17..20],
        &text[20..]
    )
}

impl Guest {
    /// /etc/machine-id.
    pub(super) fn machine_id(&self) -> String {
        hex(&[b"machine", &self.seed.to_be_bytes()], 16)
    }
}
