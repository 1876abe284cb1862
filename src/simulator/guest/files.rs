//! The files of a guest that tell the truth about its state: pure, what should stand where. The shell module writes them.

use super::status::{Printed, View};
use super::{Guest, keys, split_cidr, view};

/// A file that should be there, or should not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruthFile {
    /// Path below the root, without a leading slash.
    pub path: String,
    /// Its content; none: the file must not be there.
    pub content: Option<String>,
    /// Permission bits.
    pub mode: u32,
    /// Whether the simulator owns it. Files that it does not own are written when they are absent or when the model
    /// changes, so that what a client wrote stays.
    pub owned: bool,
}

fn owned(path: &str, content: Option<String>) -> TruthFile {
    TruthFile {
        path: path.to_owned(),
        content,
        mode: 0o644,
        owned: true,
    }
}

fn kept(path: &str, content: String, mode: u32) -> TruthFile {
    TruthFile {
        path: path.trim_start_matches('/').to_owned(),
        content: Some(content),
        mode,
        owned: false,
    }
}

impl Guest {
    /// Every file that follows from the state now.
    pub fn files(&self, now_ms: u64) -> Vec<TruthFile> {
        let mut files = self.disk_files();
        files.extend(self.run_files());
        files.extend(self.network_files(now_ms));
        files
    }

    fn disk_files(&self) -> Vec<TruthFile> {
        let disk = &self.disk;
        let (name, pretty) = self.os_names();
        let os_release = format!(
            "PRETTY_NAME=\"{pretty}\"\nNAME=\"{name}\"\nVERSION_ID=\"{}\"\nID={}\n",
            self.image.os_version, self.image.os
        );
        let names = if disk.fqdn.is_empty() || disk.fqdn == disk.host_name {
            disk.host_name.clone()
        } else {
            format!("{} {}", disk.fqdn, disk.host_name)
        };
        let mut passwd = String::from("root:x:0:0:root:/root:/bin/bash\n");
        let mut sudoers = String::new();
        for (uid, user) in (1000..).zip(&disk.users) {
            passwd += &format!(
                "{0}:x:{uid}:{uid}:{1}:/home/{0}:{2}\n",
                user.name, user.gecos, user.shell
            );
            for rule in &user.sudo {
                sudoers += &format!("{} {rule}\n", user.name);
            }
        }
        let datasources = match self.behaviour().is_some_and(|b| b.datasource_none_fallback) {
            true => "datasource_list: [ NoCloud, None ]\n",
            false => "datasource_list: [ NoCloud, ConfigDrive ]\n",
        };
        let mut files = vec![
            kept("etc/os-release", os_release, 0o644),
            kept("etc/hostname", format!("{}\n", disk.host_name), 0o644),
            kept("etc/hosts", format!("127.0.1.1 {names}\n127.0.0.1 localhost\n"), 0o644),
            kept("etc/passwd", passwd, 0o644),
            kept("etc/machine-id", format!("{}\n", self.machine_id()), 0o444),
            kept("etc/cloud/cloud.cfg.d/90_dpkg.cfg", datasources.to_owned(), 0o644),
            kept(
                "etc/timezone",
                format!("{}\n", disk.timezone.as_deref().unwrap_or("Etc/UTC")),
                0o644,
            ),
        ];
        if !sudoers.is_empty() {
            files.push(kept("etc/sudoers.d/90-cloud-init-users", sudoers, 0o600));
        }
        for (name, text) in keys::files(&self.host_keys()) {
            let mode = if name.ends_with(".pub") { 0o644 } else { 0o600 };
            files.push(TruthFile {
                mode,
                ..owned(&format!("etc/ssh/{name}"), Some(text))
            });
        }
        for user in &disk.users {
            let path = format!("home/{}/.ssh/authorized_keys", user.name);
            let lines: String = user.keys.iter().map(|key| format!("{key}\n")).collect();
            files.push(kept(&path, lines, 0o600));
        }
        for file in &disk.files {
            files.push(kept(&file.path, file.content.clone(), file.mode));
        }
        if let Some(id) = &disk.instance_id {
            files.push(owned("var/lib/cloud/data/instance-id", Some(format!("{id}\n"))));
        }
        files
    }

    fn run_files(&self) -> Vec<TruthFile> {
        let run = self.run.as_ref();
        let view = run.map(view);
        let printed = self.cloud_init();
        let printed = printed.as_ref();
        let line = |text: &str| format!("{text}\n");
        let status = view.as_ref().and_then(|v| v.status_file());
        let result = view.as_ref().and_then(|v| v.result_file());
        let mut files = vec![
            owned("proc/sys/kernel/random/boot_id", self.boot_id().map(line)),
            owned("proc/sys/kernel/hostname", run.map(|_| line(&self.disk.host_name))),
            owned("run/cloud-init/status.json", status),
            owned(
                "run/cloud-init/enabled",
                view.as_ref().filter(|v| v.disabled.is_none()).map(|_| String::new()),
            ),
            owned(
                "run/cloud-init/disabled",
                view.as_ref().and_then(|v| v.disabled).map(|_| String::new()),
            ),
            owned("run/cloud-init/result.json", result.clone()),
            owned(
                "run/cloud-init/instance-id",
                run.and(self.disk.instance_id.as_deref()).map(line),
            ),
            owned(".sim/fqdn", run.map(|_| line(&self.fqdn()))),
            owned(
                ".sim/packages",
                Some(self.disk.packages.iter().map(|p| line(p)).collect()),
            ),
            owned(
                ".sim/cloud-init",
                printed.map(|p| sections(&status_sections(p, view.as_ref()))),
            ),
        ];
        if result.is_some() {
            let version = view.as_ref().map(|v| v.version);
            let text = format!("Cloud-init {version:?} finished. Datasource DataSourceNoCloud.\n");
            files.push(kept("var/log/cloud-init-output.log", text.clone(), 0o640));
            files.push(kept("var/log/cloud-init.log", text, 0o640));
        }
        files
    }

    /// What `ip` prints, in the forms that programs ask for.
    fn network_files(&self, now_ms: u64) -> Vec<TruthFile> {
        let mut links = vec![(
            "lo".to_owned(),
            "00:00:00:00:00:00".to_owned(),
            vec!["127.0.0.1/8".to_owned(), "::1/128".to_owned()],
        )];
        let mut routes = String::new();
        let live = self.live_interfaces(now_ms);
        for interface in &live {
            links.push((
                interface.name.clone(),
                interface.mac.to_lowercase(),
                interface.addresses.clone(),
            ));
            for gateway in interface.gateways.iter().filter(|g| !g.contains(':')) {
                routes += &format!("default via {gateway} dev {} proto static\n", interface.name);
            }
        }
        let mut forms = vec![("route".to_owned(), routes)];
        for (suffix, wanted) in [("", None), ("4", Some(false)), ("6", Some(true))] {
            let shown: Vec<_> = links
                .iter()
                .map(|(name, mac, cidrs)| {
                    let fits = |cidr: &&String| wanted.is_none_or(|v6| cidr.contains(':') == v6);
                    let cidrs: Vec<&str> = cidrs.iter().filter(fits).map(String::as_str).collect();
                    (name.as_str(), mac.as_str(), cidrs)
                })
                .collect();
            forms.push((format!("json{suffix}"), ip_json(&shown)));
            forms.push((format!("oneline{suffix}"), ip_oneline(&shown)));
            forms.push((format!("brief{suffix}"), ip_brief(&shown)));
            forms.push((format!("full{suffix}"), ip_full(&shown)));
        }
        vec![owned(".sim/ip", Some(sections(&forms)))]
    }
}

/// Several texts in one file, each after a line `@name`: what the shims print from.
fn sections(texts: &[(String, String)]) -> String {
    let section = |(name, text): &(String, String)| format!("@{name}\n{}\n", text.trim_end_matches('\n'));
    texts.iter().map(section).collect()
}

fn status_sections(printed: &Printed, view: Option<&View<'_>>) -> Vec<(String, String)> {
    let over = if printed.over { "yes" } else { "no" };
    let texts = [
        (
            "version",
            view.map(|v| version_text(v.version)).unwrap_or_default().to_owned(),
        ),
        ("exit", printed.exit.to_string()),
        ("over", over.to_owned()),
        ("text", printed.text.clone()),
        ("long", printed.long.clone()),
        ("json", printed.json.clone()),
    ];
    texts.map(|(name, text)| (name.to_owned(), text)).into()
}

type Link<'a> = (&'a str, &'a str, Vec<&'a str>);

fn family(cidr: &str) -> &'static str {
    if cidr.contains(':') { "inet6" } else { "inet" }
}

fn scope(name: &str) -> &'static str {
    if name == "lo" { "host" } else { "global" }
}

fn ip_json(links: &[Link<'_>]) -> String {
    let list: Vec<_> = (1..)
        .zip(links)
        .map(|(index, (name, mac, cidrs))| {
            let addresses: Vec<_> = cidrs
                .iter()
                .map(|cidr| {
                    let (local, prefix) = split_cidr(cidr);
                    serde_json::json!({"family": family(cidr), "local": local, "prefixlen": prefix, "scope": scope(name), "label": name})
                })
                .collect();
            let kind = if *name == "lo" { "loopback" } else { "ether" };
            serde_json::json!({
                "ifindex": index, "ifname": name, "flags": ["UP", "LOWER_UP"], "mtu": 1500, "operstate": "UP",
                "link_type": kind, "address": mac, "addr_info": addresses,
            })
        })
        .collect();
    format!("{}\n", serde_json::Value::Array(list))
}

fn ip_oneline(links: &[Link<'_>]) -> String {
    let mut text = String::new();
    for (index, (name, _, cidrs)) in (1..).zip(links) {
        for cidr in cidrs {
            text += &format!(
                "{index}: {name}    {} {cidr} scope {} {name}\\       valid_lft forever preferred_lft forever\n",
                family(cidr),
                scope(name)
            );
        }
    }
    text
}

fn ip_brief(links: &[Link<'_>]) -> String {
    let state = |name: &str| if name == "lo" { "UNKNOWN" } else { "UP" };
    let line = |(name, _, cidrs): &Link<'_>| format!("{name:<16} {:<14} {} \n", state(name), cidrs.join(" "));
    links.iter().map(line).collect()
}

fn ip_full(links: &[Link<'_>]) -> String {
    let mut text = String::new();
    for (index, (name, mac, cidrs)) in (1..).zip(links) {
        let kind = if *name == "lo" { "loopback" } else { "ether" };
        text += &format!("{index}: {name}: <UP,LOWER_UP> mtu 1500 state UP\n    link/{kind} {mac}\n");
        for cidr in cidrs {
            text += &format!(
                "    {} {cidr} scope {} {name}\n       valid_lft forever preferred_lft forever\n",
                family(cidr),
                scope(name)
            );
        }
    }
    text
}

fn version_text(version: super::CloudInitVersion) -> &'static str {
    match version {
        super::CloudInitVersion::V22 => "22.4.2",
        super::CloudInitVersion::V25 => "25.1.4",
    }
}
