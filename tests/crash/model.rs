//! What the scripts of probes and of the snippet folder do, told from the guest's model and done in the node's folder.
//!
//! It is a second, independent reading of those scripts: quick enough for tens of thousands of runs. That it reads them
//! rightly is not believed but compared with a real shell (`the_model_answers_as_the_shell_does`).

use std::fs;
use std::path::PathBuf;

use vmwright::guest::probes::MARK;
use vmwright::guest::remote::{Command, Output};
use vmwright::simulator::Handle;
use vmwright::simulator::guest::{Guest, keys};
use vmwright::simulator::shell::Machine;

use crate::scene::names;

fn said(code: i32, text: &[u8]) -> Output {
    let mut stdout = format!("{MARK}\n").into_bytes();
    stdout.extend_from_slice(text);
    Output {
        code: Some(code),
        stdout,
        stderr: Vec::new(),
    }
}

fn failed(code: i32) -> Output {
    Output {
        code: Some(code),
        ..Output::default()
    }
}

/// Answers a command and does what it does.
pub fn run(cluster: &Handle, machine: &Machine, user: &str, command: &Command, stdin: &[u8]) -> Output {
    act(cluster, machine, user, command, stdin, true)
}

/// What the command would answer; nothing is done.
pub fn look(cluster: &Handle, machine: &Machine, user: &str, command: &Command, stdin: &[u8]) -> Output {
    act(cluster, machine, user, command, stdin, false)
}

fn act(cluster: &Handle, machine: &Machine, user: &str, command: &Command, stdin: &[u8], really: bool) -> Output {
    match machine {
        Machine::Node(name) => on_node(cluster, name, &command.script, stdin, really),
        Machine::Guest(vmid) => {
            let now = cluster.now_ms();
            let sudo = command.sudo;
            let mut answer = failed(255);
            let mut act = |guest: &mut Guest, really: bool| {
                if sudo && !guest.has_sudo(user) {
                    answer = failed(1);
                    return;
                }
                answer = on_guest(guest, now, &command.script, really);
            };
            if really && command.script.contains("cloud-init.disabled") {
                cluster.with(|world| world.guest_mut(*vmid).map(|guest| act(guest, true)));
            } else {
                cluster.look(|world| {
                    if let Some(vm) = world.vms.get(vmid) {
                        let mut guest = vm.guest.clone();
                        act(&mut guest, false);
                    }
                });
            }
            answer
        }
    }
}

/// A file of the guest, as the simulator says that it stands there.
fn file(guest: &Guest, now: u64, path: &str) -> Option<String> {
    guest.files(now).into_iter().find(|file| file.path == path)?.content
}

fn section(text: &str, name: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('@') {
            inside = line == format!("@{name}");
        } else if inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn on_guest(guest: &mut Guest, now: u64, script: &str, really: bool) -> Output {
    let boot_id = guest.boot_id().unwrap_or_default().to_owned();
    let body = script.strip_prefix(&format!("echo {MARK}\n")).unwrap_or(script);
    if body == "cat /proc/sys/kernel/random/boot_id" {
        return said(0, format!("{boot_id}\n").as_bytes());
    }
    if body.contains("ssh_host_*_key.pub") {
        let mut files = keys::files(&guest.host_keys());
        files.sort();
        let text: String = files
            .into_iter()
            .filter(|(name, _)| name.ends_with(".pub"))
            .map(|(_, text)| text)
            .collect();
        return said(0, text.as_bytes());
    }
    if body.contains("ip -j addr show") {
        let json = section(&file(guest, now, ".sim/ip").unwrap_or_default(), "json");
        return said(0, format!("ip\n{json}").as_bytes());
    }
    if body.contains("f=/etc/cloud/cloud-init.disabled") {
        let off = serde_json::to_value(&*guest).unwrap()["disk"]["cloud_init_disabled"] == true;
        if off {
            return said(0, b"before\n");
        }
        if really {
            guest.set_switches(true, false);
        }
        return said(0, b"now\n");
    }
    if body.contains("cloud-init status --format=json") {
        let Some(printed) = guest.cloud_init() else {
            return said(127, format!("{boot_id}\nresult=no\nshutdown=no\n").as_bytes());
        };
        let result = file(guest, now, "run/cloud-init/result.json").is_some();
        let result = if result { "yes" } else { "no" };
        let json = printed.json.trim_end_matches('\n');
        let text = format!("{boot_id}\nresult={result}\nshutdown=no\n{json}\n");
        return said(printed.exit, text.as_bytes());
    }
    panic!("the model does not know this script for guests:\n{script}");
}

/// The text between two others.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let rest = &text[text.find(start)? + start.len()..];
    Some(&rest[..rest.find(end)?])
}

fn on_node(cluster: &Handle, node: &str, script: &str, stdin: &[u8], really: bool) -> Output {
    let path = between(script, "d='", "'\n").expect("a folder");
    let folder = PathBuf::from(format!("{}{path}", cluster.node_root(node).display()));
    if script.contains("ls -1 \"$d\"") {
        let mut text = "list\n".to_owned();
        for name in names(&folder).iter().filter(|name| !name.starts_with('.')) {
            text += &format!("{name}\n");
        }
        return said(0, text.as_bytes());
    }
    let name = between(script, "f=\"$d/\"'", "'").expect("a file");
    let file = folder.join(name);
    let there = file.exists();
    if script.contains("cat > \"$t\"") {
        if !folder.exists() {
            if !folder.parent().is_some_and(|parent| parent.is_dir()) {
                return failed(71);
            }
            if really {
                fs::create_dir(&folder).unwrap();
            }
        }
        let word = match fs::read(&file) {
            Ok(old) if old == stdin => "unchanged",
            Ok(_) => "replaced",
            Err(_) => "created",
        };
        if really && word != "unchanged" {
            let temporary = folder.join(format!(".vmwright-1-{name}"));
            fs::write(&temporary, stdin).unwrap();
            fs::rename(&temporary, &file).unwrap();
        }
        let mut text = format!("{word}\n").into_bytes();
        text.extend_from_slice(stdin);
        return said(0, &text);
    }
    if script.contains("rm -f \"$f\"") {
        if really && there {
            fs::remove_file(&file).unwrap();
        }
        return said(0, if there { b"removed\n" } else { b"absent\n" });
    }
    if script.contains("echo there; cat") {
        return match fs::read(&file) {
            Ok(content) => said(0, &[b"there\n", content.as_slice()].concat()),
            Err(_) => said(0, b"absent\n"),
        };
    }
    panic!("the model does not know this script for nodes:\n{script}");
}
