//! What is asked of a machine: pairs of a script and the reading of its answer, all pure.
//!
//! A login shell may print a greeting before the script runs. So every script first prints [`MARK`] on a line of its own,
//! and only what follows it is read. Scripts are POSIX `sh`, need no Python, and may be run again at any time.

use std::time::Duration;

use super::cloud_init::Sample;
use super::remote::{Command, HostKeys, Output, Remote, SshError};
use crate::machine::SshTarget;

/// The line after which an answer begins.
pub const MARK: &str = "vmwright:answer";

/// A script and how its answer is read.
#[derive(Clone, Debug)]
pub struct Probe<T> {
    /// What it is for, for messages: "the boot id".
    pub what: &'static str,
    script: String,
    sudo: bool,
    read: fn(&Output) -> Result<T, String>,
}

/// Why a probe has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The script did not run to an end.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// It ran, and its answer is not what it should be.
    #[error("{what} cannot be read: {detail}")]
    Answer {
        /// What was asked for.
        what: &'static str,
        /// What came instead.
        detail: String,
    },
}

impl<T> Probe<T> {
    pub(super) fn new(what: &'static str, body: &str, sudo: bool, read: fn(&Output) -> Result<T, String>) -> Self {
        Self {
            what,
            script: format!("echo {MARK}\n{body}"),
            sudo,
            read,
        }
    }

    /// The command that asks.
    pub fn command(&self, timeout: Duration) -> Command {
        let command = Command::new(self.script.clone(), timeout);
        if self.sudo { command.sudo() } else { command }
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`ProbeError::Answer`] if it is not what it should be.
    pub fn read(&self, output: &Output) -> Result<T, ProbeError> {
        (self.read)(output).map_err(|detail| ProbeError::Answer {
            what: self.what,
            detail,
        })
    }

    /// Asks a machine.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn ask(
        &self,
        remote: &dyn Remote,
        target: &SshTarget,
        keys: &HostKeys,
        timeout: Duration,
    ) -> Result<T, ProbeError> {
        let output = remote.run(target, keys, &self.command(timeout)).await?;
        self.read(&output)
    }
}

/// A command that really ran on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The user that it ran as.
    pub user: String,
    /// The kernel's boot id: another one means that the machine booted again.
    pub boot_id: String,
    /// `uname -n`: what the machine calls itself.
    pub hostname: String,
}

/// The first command on a machine: proves a login and a shell, not only an open port.
pub fn first_command() -> Probe<Alive> {
    let script = "id -un && cat /proc/sys/kernel/random/boot_id && uname -n";
    Probe::new("the first command", script, false, |output| {
        let lines = lines(output)?;
        match lines.as_slice() {
            [user, boot_id, hostname] => Ok(Alive {
                user: user.clone(),
                boot_id: uuid_text(boot_id)?,
                hostname: hostname.clone(),
            }),
            other => Err(format!("three lines were expected, {} came", other.len())),
        }
    })
}

/// The kernel's boot id (`/proc/sys/kernel/random/boot_id`).
pub fn boot_id() -> Probe<String> {
    Probe::new(
        "the boot id",
        "cat /proc/sys/kernel/random/boot_id",
        false,
        |output| match lines(output)?.as_slice() {
            [id] => uuid_text(id),
            other => Err(format!("one line was expected, {} came", other.len())),
        },
    )
}

/// The public host keys as the machine has them on disk, `type base64` each, sorted: authenticated by the login.
pub fn host_keys() -> Probe<Vec<String>> {
    let script = r#"for f in /etc/ssh/ssh_host_*_key.pub; do [ -r "$f" ] && cat "$f"; done; true"#;
    Probe::new("the host keys", script, false, |output| {
        let mut keys: Vec<String> = lines(output)?.iter().filter_map(|l| public_key(l)).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Err("no key in /etc/ssh/ssh_host_*_key.pub".to_owned());
        }
        Ok(keys)
    })
}

/// How cloud-init was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchedOff {
    /// By this call.
    Now,
    /// It was off already.
    Before,
}

/// Switches cloud-init off for every later boot: `/etc/cloud/cloud-init.disabled` (cloud-init: "how to disable"), on disk
/// when the script ends. Needs root.
pub fn disable_cloud_init() -> Probe<SwitchedOff> {
    let script = "f=/etc/cloud/cloud-init.disabled\n\
                  if [ -f \"$f\" ]; then echo before; exit 0; fi\n\
                  mkdir -p /etc/cloud && echo 'Initialized once by vmwright.' > \"$f\" && { sync \"$f\" /etc/cloud 2>/dev/null || sync; } && [ -s \"$f\" ] && echo now";
    Probe::new(
        "whether cloud-init is switched off",
        script,
        true,
        |output| match lines(output)?.as_slice() {
            [word] if word == "before" => Ok(SwitchedOff::Before),
            [word] if word == "now" => Ok(SwitchedOff::Now),
            other => Err(format!("an unexpected answer: {other:?}")),
        },
    )
}

/// Waits on the guest until cloud-init left its result, at most `wait`, and asks for its status then.
///
/// The wait costs one command on this side and no Python on the guest: a shell loop looks for
/// `/run/cloud-init/result.json`, which cloud-init writes at its end and which a boot removes. Where there is no
/// `/run/cloud-init`, which its generator makes before anything else, that file will not come: the status is asked for at
/// once. The status call itself is bounded by `call`. Give the command [`cloud_init_budget`] as its time.
///
/// Releases before 22.3 do not know `--format`; they are asked again for plain text.
pub fn cloud_init_status(wait: Duration, call: Duration) -> Probe<Sample> {
    let wait = wait.as_secs();
    let call = call.as_secs().max(1);
    let script = format!(
        "cat /proc/sys/kernel/random/boot_id\n\
         command -v cloud-init >/dev/null 2>&1 || {{ echo result=no; echo shutdown=no; exit 127; }}\n\
         over() {{ [ -e /run/cloud-init/result.json ] || [ -e /run/cloud-init/disabled ]; }}\n\
         n={wait}\n\
         if [ $n -gt 0 ] && [ -d /run/cloud-init ] && ! over; then\n\
         s=1; if sleep 0.2 2>/dev/null; then s=0.2; n=$((n * 5 - 1)); fi\n\
         while [ $n -gt 0 ] && ! over; do sleep $s; n=$((n - 1)); done\n\
         fi\n\
         if [ -e /run/cloud-init/result.json ]; then echo result=yes; else echo result=no; fi\n\
         if [ -e /run/systemd/shutdown/scheduled ]; then echo shutdown=yes; else echo shutdown=no; fi\n\
         out=$(timeout -k 5 {call} cloud-init status --format=json); rc=$?\n\
         if [ $rc -eq 2 ] && [ -z \"$out\" ]; then out=$(timeout -k 5 {call} cloud-init status --long 2>/dev/null); rc=$?; fi\n\
         printf '%s\\n' \"$out\"; exit $rc"
    );
    Probe::new("the status of cloud-init", &script, false, |output| {
        let body = body_of_any(output)?;
        let mut parts = body.splitn(4, '\n');
        let mut next = || parts.next().unwrap_or("").trim().to_owned();
        let boot_id = uuid_text(&next())?;
        let result = flag(&next(), "result")?;
        let shutdown = flag(&next(), "shutdown")?;
        Ok(Sample {
            boot_id,
            result_present: result,
            shutdown_scheduled: shutdown,
            exit: output.code,
            stdout: next(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    })
}

/// The time that a [`cloud_init_status`] command may take: its wait, two bounded calls, and slack.
pub fn cloud_init_budget(wait: Duration, call: Duration) -> Duration {
    wait + wait / 2 + 2 * (call + Duration::from_secs(5)) + Duration::from_secs(5)
}

/// `type base64` of a public key line, without its comment; `None` if it is none.
pub fn public_key(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (kind, key) = (words.next()?, words.next()?);
    let is_kind = ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|p| kind.starts_with(p));
    let is_key = key.starts_with("AAAA")
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    (is_kind && is_key).then(|| format!("{kind} {key}"))
}

/// What follows the mark, of a script that must end well.
pub(super) fn body(output: &Output) -> Result<String, String> {
    if !output.success() {
        return Err(output.summary());
    }
    body_of_any(output)
}

/// What follows the mark.
fn body_of_any(output: &Output) -> Result<String, String> {
    let text = output.text();
    let mut rest = text.as_str();
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if line.trim_end() == MARK {
            return Ok(rest.to_owned());
        }
    }
    Err(format!("the script gave no answer ({})", output.summary()))
}

/// The lines after the mark that are not empty.
fn lines(output: &Output) -> Result<Vec<String>, String> {
    Ok(body(output)?
        .lines()
        .map(|l| l.trim().to_owned())
        .filter(|l| !l.is_empty())
        .collect())
}

fn uuid_text(text: &str) -> Result<String, String> {
    uuid::Uuid::parse_str(text)
        .map(|id| id.hyphenated().to_string())
        .map_err(|_| format!("{text:?} is no boot id"))
}

fn flag(line: &str, name: &str) -> Result<bool, String> {
    match line.split_once('=') {
        Some((key, "yes")) if key == name => Ok(true),
        Some((key, "no")) if key == name => Ok(false),
        _ => Err(format!("an unexpected line: {line:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cloud_init::Verdict;
    use super::*;

    const BOOT: &str = "8ab1ff29-56a1-4b3b-b4e0-1d1a0e8d6b0c";

    fn answer(code: i32, body: &str) -> Output {
        Output {
            code: Some(code),
            stdout: format!("Welcome!\n{MARK}\n{body}").into_bytes(),
            stderr: Vec::new(),
        }
    }

    #[test]
    fn a_greeting_of_the_shell_is_not_read() {
        assert_eq!(boot_id().read(&answer(0, &format!("{BOOT}\n"))), Ok(BOOT.to_owned()));
        let silent = Output {
            code: Some(0),
            stdout: format!("{BOOT}\n").into_bytes(),
            stderr: vec![],
        };
        assert!(boot_id().read(&silent).is_err(), "an answer without the mark is none");
    }

    #[test]
    fn the_first_command_tells_user_boot_and_name() {
        let alive = first_command()
            .read(&answer(0, &format!("debian\n{BOOT}\nweb1\n")))
            .expect("alive");
        assert_eq!(
            (alive.user.as_str(), alive.boot_id.as_str(), alive.hostname.as_str()),
            ("debian", BOOT, "web1")
        );
        assert!(
            first_command()
                .read(&answer(0, "debian\nnot-a-boot-id\nweb1\n"))
                .is_err()
        );
        assert!(first_command().read(&answer(1, "debian\n")).is_err());
    }

    #[test]
    fn host_keys_are_sorted_and_without_comments() {
        let body = "ssh-rsa AAAAB3 root@web1\necdsa-sha2-nistp256 AAAAE2 root@web1\nssh-ed25519 AAAAC3 x\nrubbish\n";
        assert_eq!(
            host_keys().read(&answer(0, body)),
            Ok(vec![
                "ecdsa-sha2-nistp256 AAAAE2".into(),
                "ssh-ed25519 AAAAC3".into(),
                "ssh-rsa AAAAB3".into()
            ])
        );
        assert!(host_keys().read(&answer(0, "")).is_err());
    }

    #[test]
    fn switching_off_says_whether_it_was_off() {
        assert_eq!(disable_cloud_init().read(&answer(0, "now\n")), Ok(SwitchedOff::Now));
        assert_eq!(
            disable_cloud_init().read(&answer(0, "before\n")),
            Ok(SwitchedOff::Before)
        );
        assert!(disable_cloud_init().read(&answer(1, "")).is_err());
        assert!(disable_cloud_init().command(Duration::from_secs(5)).sudo);
    }

    #[test]
    fn a_status_sample_keeps_exit_code_json_and_the_facts_beside_it() {
        let body = format!("{BOOT}\nresult=yes\nshutdown=no\n{{\n  \"status\": \"done\"\n}}\n");
        let probe = cloud_init_status(Duration::from_secs(10), Duration::from_secs(30));
        let sample = probe.read(&answer(2, &body)).expect("a sample");
        assert_eq!(sample.exit, Some(2));
        assert!(sample.result_present);
        assert!(!sample.shutdown_scheduled);
        assert!(sample.stdout.starts_with('{') && sample.stdout.ends_with('}'));
    }

    /// The scripts run in the shell of this machine, with the files of this machine.
    #[test]
    fn the_scripts_are_a_shells_language() {
        let run = |script: &str| {
            std::process::Command::new("sh")
                .args(["-c", script])
                .output()
                .map(|o| Output {
                    code: o.status.code(),
                    stdout: o.stdout,
                    stderr: o.stderr,
                })
        };
        let alive = first_command();
        let seen = alive
            .read(&run(&alive.script).expect("sh"))
            .expect("this machine is alive");
        assert_eq!(seen.boot_id.len(), 36);
        let status = cloud_init_status(Duration::ZERO, Duration::from_secs(5));
        let output = run(&status.script).expect("sh");
        let sample = status.read(&output).expect("a sample");
        assert_eq!(sample.boot_id, seen.boot_id);
    }

    #[test]
    fn without_a_run_directory_of_cloud_init_nobody_waits_for_its_result() {
        if std::path::Path::new("/run/cloud-init").exists() {
            eprintln!("SKIPPED: this machine has /run/cloud-init");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let write = format!(
            "printf '#!/bin/sh\\nexit 0\\n' > '{0}/cloud-init' && chmod 755 '{0}/cloud-init'",
            folder.path().display()
        );
        assert!(
            std::process::Command::new("sh")
                .args(["-c", &write])
                .status()
                .expect("sh")
                .success()
        );
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
        let begun = std::time::Instant::now();
        let probe = cloud_init_status(Duration::from_secs(60), Duration::from_secs(5));
        let ended = std::process::Command::new("sh")
            .args(["-c", &probe.script])
            .env("PATH", path)
            .output()
            .expect("sh");
        assert!(
            ended.status.success() && begun.elapsed() < Duration::from_secs(30),
            "{:?}",
            begun.elapsed()
        );
    }

    /// A release before 22.3 does not know `--format`; a later one answers at once.
    #[test]
    fn an_old_release_is_asked_for_plain_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let fake = folder.path().join("cloud-init");
        let script = cloud_init_status(Duration::ZERO, Duration::from_secs(5)).script;
        let sample = |answers: &str| {
            // Written by a child: a file that this process had open for writing may be busy when it is executed.
            let write = format!(
                "cat > '{0}' <<'END'\n#!/bin/sh\n{answers}\nEND\nchmod 755 '{0}'",
                fake.display()
            );
            assert!(
                std::process::Command::new("sh")
                    .args(["-c", &write])
                    .status()
                    .expect("sh")
                    .success()
            );
            let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .env("PATH", path)
                .output()
                .expect("sh");
            let output = Output {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: output.stderr,
            };
            cloud_init_status(Duration::ZERO, Duration::ZERO)
                .read(&output)
                .expect("a sample")
        };
        let old = sample("case $* in *format*) echo usage >&2; exit 2;; *) echo 'status: done'; echo 'detail:';; esac");
        assert_eq!((old.exit, old.verdict()), (Some(0), Verdict::Done { warnings: vec![] }));
        let new = sample("echo '{\"status\": \"error\", \"extended_status\": \"error - running\"}'; exit 1");
        assert_eq!(
            (new.exit, new.verdict()),
            (
                Some(1),
                Verdict::Error {
                    over: Some(false),
                    errors: vec![]
                }
            )
        );
        let broken = sample("echo Traceback >&2; exit 1");
        assert!(matches!(broken.verdict(), Verdict::Unreadable(_)));
    }
}
