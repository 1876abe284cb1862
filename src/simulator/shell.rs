//! The commands of a session, really run with `sh -c` in a machine's root directory.
//!
//! ```text
//!   command text --map--> absolute paths point below the root --sh -c--> output, exit status
//!                             PATH begins with shims (cloud-init, sudo, reboot, ip ...)
//!   reboot, poweroff, cloud-init clean --> one named pipe --> [`Request`] for the model
//! ```
//!
//! **It is no sandbox.** A command has the rights of the simulator's own user; the shims and the mapping keep honest
//! commands off the host (`reboot` reaches the model, `/etc/x` is the machine's), not hostile ones. Only clients with an
//! authorized key get here, on loopback. Mapped are [`MAPPED`] where they stand as words in the command text, so also
//! inside `sh -c '...'` and after `=`, `>` or a quote; not mapped is what a command reads from standard input.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::guest::ExecResult;
use super::rootfs::{plain_path, private_dir, remove_tree, write};

/// Directories of a machine that commands may name by their absolute path.
pub const MAPPED: &[&str] = &[
    "/etc",
    "/proc/sys/kernel",
    "/run",
    "/var",
    "/root",
    "/home",
    "/mnt/pve",
    "/usr/local",
    "/tmp",
    "/srv",
    "/opt",
];

/// Commands that are the simulator's, on every machine.
const SHIMS: &[&str] = &[
    "apt",
    "apt-get",
    "chgrp",
    "chown",
    "cloud-id",
    "cloud-init",
    "dpkg",
    "dpkg-query",
    "getent",
    "growpart",
    "halt",
    "hostname",
    "hostnamectl",
    "id",
    "init",
    "install",
    "ip",
    "mount",
    "netplan",
    "poweroff",
    "pveversion",
    "python",
    "python3",
    "reboot",
    "resize2fs",
    "service",
    "shutdown",
    "sudo",
    "sync",
    "systemctl",
    "telinit",
    "timedatectl",
    "umount",
    "uname",
    "useradd",
    "userdel",
    "usermod",
    "whoami",
];

/// The script behind them.
const SHIM_SCRIPT: &str = include_str!("shims.sh");

/// A machine with a door.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// A guest, by the vmid of its VM.
    Guest(u32),
    /// A node, by name.
    Node(String),
}

/// What a command inside a machine asked of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `reboot`, `systemctl reboot`, `shutdown -r`.
    Reboot(Machine),
    /// `poweroff`, `shutdown`.
    Poweroff(Machine),
    /// `cloud-init clean`.
    Clean(Machine),
}

impl Request {
    /// Reads a line of the pipe: `guest 101 reboot`, `node pve1 poweroff`.
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, id, verb] = words.as_slice() else {
            return None;
        };
        let machine = match *kind {
            "guest" => Machine::Guest(id.parse().ok()?),
            "node" => Machine::Node((*id).to_owned()),
            _ => return None,
        };
        match *verb {
            "reboot" => Some(Self::Reboot(machine)),
            "poweroff" => Some(Self::Poweroff(machine)),
            "clean" => Some(Self::Clean(machine)),
            _ => None,
        }
    }
}

/// Who runs a command, and where.
#[derive(Clone, Debug)]
pub struct Login {
    /// The machine.
    pub machine: Machine,
    /// Its root directory.
    pub root: PathBuf,
    /// The user.
    pub user: String,
    /// Whether `sudo` works.
    pub sudo: bool,
    /// Whether `python3` is missing.
    pub no_python: bool,
    /// Whether `cloud-init` is missing.
    pub no_cloud_init: bool,
}

/// The shims and the pipe of one world.
#[derive(Clone, Debug)]
pub struct Shell {
    dir: PathBuf,
}

impl Shell {
    /// Makes the directory of shims and the pipe below `dir` (they are made anew, whatever is there).
    ///
    /// # Errors
    /// The directory cannot be written, or its file system has no named pipes.
    pub fn new(dir: &Path) -> io::Result<Self> {
        private_dir(dir)?;
        let dir = plain_path(&dir.canonicalize()?)?;
        // `bare` is for machines without cloud-init.
        for (name, left_out) in [("bin", None), ("bare", Some("cloud-init"))] {
            let bin = dir.join(name);
            remove_tree(&bin)?;
            private_dir(&bin)?;
            write(&bin.join(".shim"), SHIM_SCRIPT.as_bytes(), 0o755)?;
            for name in SHIMS.iter().filter(|name| Some(**name) != left_out) {
                symlink(".shim", bin.join(name))?;
            }
        }
        let pipe = dir.join("ctl");
        match std::fs::remove_file(&pipe) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )?;
        Ok(Self { dir })
    }

    /// The pipe that shims write [`Request`]s to.
    pub fn pipe(&self) -> PathBuf {
        self.dir.join("ctl")
    }

    /// The command, ready to be spawned: all three streams piped, a clean environment, its own process group.
    ///
    /// # Errors
    /// The user's home cannot be made.
    pub fn command(&self, login: &Login, text: &str) -> io::Result<Command> {
        let root = plain_path(&login.root)?;
        let bin = self.dir.join(if login.no_cloud_init { "bare" } else { "bin" });
        let home = match login.user.as_str() {
            "root" => root.join("root"),
            user => root.join("home").join(user),
        };
        private_dir(&home)?;
        private_dir(&root.join("tmp"))?;
        let mapped = map(text, &root.to_string_lossy(), &bin.to_string_lossy());
        let who = match &login.machine {
            Machine::Guest(vmid) => format!("guest {vmid}"),
            Machine::Node(name) => format!("node {name}"),
        };
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(mapped)
            .current_dir(&home)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", &home)
            .env("USER", &login.user)
            .env("LOGNAME", &login.user)
            .env("SHELL", "/bin/sh")
            .env("LANG", "C.UTF-8")
            .env("TMPDIR", root.join("tmp"))
            .env("SIM_ROOT", &root)
            .env("SIM_WHO", who)
            .env("SIM_USER", &login.user)
            .env("SIM_SUDO", if login.sudo { "1" } else { "0" })
            .env("SIM_FLAGS", if login.no_python { "no-python" } else { "" })
            .env("SIM_CTL", self.pipe())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }
}

/// Runs a program (words, not a shell text) and waits for it, five seconds at most.
///
/// # Errors
/// It cannot be started.
pub fn run_blocking(shell: &Shell, login: &Login, words: &[String], input: &[u8]) -> io::Result<ExecResult> {
    use std::io::Write;
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    let text = format!("exec timeout -k 1 5 {}", quoted.join(" "));
    let mut child = shell.command(login, &text)?.into_std().spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The program may not want its input.
        let _written = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    Ok(ExecResult {
        code: output.status.code().unwrap_or(255),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Ends a command and everything that it started.
pub fn kill_tree(pid: u32) {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        next += 1;
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        all.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
    }
    for pid in all {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ended = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Rewrites the absolute paths of a command so that they lie below `root`, and absolute paths of shims to `bin`.
pub fn map(text: &str, root: &str, bin: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut before: Option<char> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '/' && starts_word(before) {
            if rest.starts_with(root) {
                // The client learnt it from an earlier command's output.
                out.push_str(root);
                rest = &rest[root.len()..];
                before = out.chars().next_back();
                continue;
            }
            if let Some(name) = shim_at(rest) {
                out.push_str(bin);
                out.push('/');
                out.push_str(name);
                let skip = rest.find(name).map_or(0, |at| at + name.len());
                rest = &rest[skip..];
                before = name.chars().next_back();
                continue;
            }
            if MAPPED.iter().any(|dir| rest.strip_prefix(dir).is_some_and(ends_word)) {
                out.push_str(root);
            }
        }
        out.push(c);
        before = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Whether a path may begin after this character.
fn starts_word(before: Option<char>) -> bool {
    before.is_none_or(|c| {
        !(c.is_alphanumeric()
            || matches!(
                c,
                '/' | '.' | '_' | '-' | '~' | '$' | '}' | ')' | '*' | '%' | '@' | '+' | '\\'
            ))
    })
}

/// Whether a path's first part ends before this rest.
fn ends_word(rest: &str) -> bool {
    rest.chars()
        .next()
        .is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-')))
}

fn shim_at(rest: &str) -> Option<&'static str> {
    let below = ["/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"]
        .iter()
        .find_map(|dir| rest.strip_prefix(dir))?;
    SHIMS
        .iter()
        .copied()
        .find(|name| below.strip_prefix(name).is_some_and(ends_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(text: &str) -> String {
        map(text, "/w/root", "/w/bin")
    }

    #[test]
    fn absolute_paths_are_the_machines() {
        assert_eq!(mapped("cat /etc/hostname"), "cat /w/root/etc/hostname");
        assert_eq!(
            mapped("sh -c 'touch \"/etc/cloud/x\"'"),
            "sh -c 'touch \"/w/root/etc/cloud/x\"'"
        );
        assert_eq!(
            mapped("d=/var/lib/vz; ls $d/snippets>/run/x"),
            "d=/w/root/var/lib/vz; ls $d/snippets>/w/root/run/x"
        );
        assert_eq!(
            mapped("cat /proc/sys/kernel/random/boot_id"),
            "cat /w/root/proc/sys/kernel/random/boot_id"
        );
        assert_eq!(mapped("ls /etc"), "ls /w/root/etc");
        assert_eq!(mapped("ls /mnt/pve/nfs"), "ls /w/root/mnt/pve/nfs");
    }

    #[test]
    fn other_paths_and_parts_of_paths_are_left() {
        for text in [
            "cat x >/dev/null 2>&1",
            "/usr/bin/env true",
            "ls /etcetera",
            "ls ./etc/x",
            "ls $HOME/run",
            "ls a/var/b",
            "/bin/sh -c true",
            "cat /w/root/etc/x",
            "ls /usr/localhost",
        ] {
            assert_eq!(mapped(text), text);
        }
    }

    #[test]
    fn absolute_shims_are_the_simulators() {
        assert_eq!(mapped("/sbin/reboot"), "/w/bin/reboot");
        assert_eq!(
            mapped("exec /usr/bin/cloud-init status"),
            "exec /w/bin/cloud-init status"
        );
        assert_eq!(mapped("/usr/bin/python3 -c 1"), "/w/bin/python3 -c 1");
        assert_eq!(mapped("/usr/bin/ipcs"), "/usr/bin/ipcs");
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(
            Request::parse("guest 101 reboot\n"),
            Some(Request::Reboot(Machine::Guest(101)))
        );
        assert_eq!(
            Request::parse("node pve1 poweroff"),
            Some(Request::Poweroff(Machine::Node("pve1".to_owned())))
        );
        assert_eq!(Request::parse("guest x reboot"), None);
        assert_eq!(Request::parse("guest 1 dance"), None);
    }
}
