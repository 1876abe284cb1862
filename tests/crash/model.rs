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
use vmwright::simulator::shell::{Machine, map};

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

/// The names after `for n in`, which are single-quoted words.
fn listed(script: &str) -> Option<Vec<&str>> {
    let words = between(script, "for n in ", "; do")?;
    words
        .split(' ')
        .map(|word| word.strip_prefix('\'')?.strip_suffix('\''))
        .collect()
}

fn on_node(cluster: &Handle, node: &str, script: &str, stdin: &[u8], really: bool) -> Output {
    let known = known_on_node(cluster, node, script, stdin, really);
    // A script that nobody has taught to the model is run; there is no guest behind a node's files.
    known.unwrap_or_else(|| really_on_node(cluster, node, script, stdin))
}

fn known_on_node(cluster: &Handle, node: &str, script: &str, stdin: &[u8], really: bool) -> Option<Output> {
    let path = between(script, "d='", "'\n")?;
    let folder = PathBuf::from(format!("{}{path}", cluster.node_root(node).display()));
    if script.contains("ls -1 \"$d\"") {
        let mut text = "list\n".to_owned();
        for name in names(&folder).iter().filter(|name| !name.starts_with('.')) {
            text += &format!("{name}\n");
        }
        return Some(said(0, text.as_bytes()));
    }
    if script.contains("echo files\nfor n in ") {
        let mut text = b"files\n".to_vec();
        for name in listed(script)? {
            match fs::read(folder.join(name)) {
                Ok(content) => {
                    text.extend_from_slice(format!("{}\n", content.len()).as_bytes());
                    text.extend(content);
                }
                Err(_) => text.extend_from_slice(b"absent\n"),
            }
        }
        return Some(said(0, &text));
    }
    if script.contains("w=absent; for n in ") {
        let mut word = "absent\n";
        for name in listed(script)? {
            let file = folder.join(name);
            if file.exists() {
                word = "removed\n";
                if really {
                    fs::remove_file(&file).unwrap();
                }
            }
        }
        return Some(said(0, word.as_bytes()));
    }
    if script.contains("cat > \"$t\"") {
        let name = between(script, "f=\"$d/\"'", "'")?;
        let file = folder.join(name);
        if !folder.exists() {
            if !folder.parent().is_some_and(|parent| parent.is_dir()) {
                return Some(failed(71));
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
        return Some(said(0, &text));
    }
    None
}

fn really_on_node(cluster: &Handle, node: &str, script: &str, stdin: &[u8]) -> Output {
    use std::io::Write as _;
    let root = cluster.node_root(node).display().to_string();
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", &map(script, &root, "/nowhere")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The script need not read it.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
    }
}
