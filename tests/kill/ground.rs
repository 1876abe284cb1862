//! A site with other people's machines in it, and what checkers look at there.

use vmwright::simulator::clock::Durations;
use vmwright::simulator::pihole::Records;

use crate::check;
use crate::e2e::support::Site;
use crate::scene::{HOST, KNOWN_BEFORE, NAME, Scene, Seen, add_foreign, foreign, prepare_snippets};

/// The command under test.
pub const PROVISION: [&str; 3] = ["provision", "--limit", HOST];
/// Its opposite.
pub const REMOVE: [&str; 5] = ["remove", "--limit", HOST, "--confirm", NAME];

/// A site.
pub struct Ground {
    /// The cluster, the inventory, the binary.
    pub site: Site,
    foreign: Vec<String>,
    seen: Seen,
}

impl Ground {
    /// A new one: nothing of ours in it.
    pub async fn new() -> Self {
        let site = Site::with(|plan| {
            add_foreign(&mut plan.spec);
            plan.durations = Durations::default().scaled(0.01);
            plan.hosts = vec![
                format!("{HOST} vms_name={NAME} vms_proxmox_node=pve-1"),
                "[removable]".to_owned(),
                HOST.to_owned(),
            ];
            plan.vms_config += "  disk2: {disk: scsi1, size: 10, storage: local-lvm}\n";
        })
        .await;
        prepare_snippets(site.sim.handle());
        site.write("known_hosts", KNOWN_BEFORE);
        let records = Records {
            hosts: vec!["10.9.0.9 other.test.example".to_owned()],
            ..Records::default()
        };
        site.sim.pihole().unwrap().set_records(records).unwrap();
        Self {
            foreign: foreign(site.sim.handle()),
            seen: Seen::default(),
            site,
        }
    }

    /// Notes what our VM looks like now.
    pub fn note(&mut self) {
        self.seen.note(self.site.sim.handle());
    }

    /// What checkers look at.
    pub fn scene(&mut self) -> Scene {
        self.note();
        let turned = |line: &String| {
            let (address, name) = line.split_once(' ').unwrap_or((line, ""));
            format!("{name} -> {address}")
        };
        let public = self.site.read("id_ed25519.pub");
        Scene {
            cluster: self.site.sim.handle().clone(),
            state: self.site.path("state"),
            known_hosts: self.site.path("known_hosts"),
            address: self.site.address(0),
            key: public.split(' ').take(2).collect::<Vec<_>>().join(" "),
            records: self
                .site
                .sim
                .pihole()
                .unwrap()
                .records()
                .hosts
                .iter()
                .map(turned)
                .collect(),
            records_before: vec!["other.test.example -> 10.9.0.9".to_owned()],
            foreign: self.foreign.clone(),
            seen: self.seen.clone(),
        }
    }

    /// Runs a command once more, without any trouble; what is wrong then.
    pub async fn ends_well(&mut self, args: &[&str]) -> Vec<String> {
        self.note();
        let run = self.site.vmwright(args).await;
        let mut wrong = Vec::new();
        if run.code != 0 {
            wrong.push(run.all());
        }
        let scene = self.scene();
        wrong.extend(match args.first() {
            Some(&"remove") => check::removed(&scene),
            _ => check::provisioned(&scene),
        });
        // The killed run's folder too: sockets and learned keys.
        let left = std::fs::read_dir(self.site.path("tmp")).unwrap().flatten();
        wrong.extend(left.map(|entry| format!("{} is left", entry.path().display())));
        wrong
    }
}
