//! The local programs `ssh` and `ssh-keyscan`: started silently, bounded, and out of the terminal's process group.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process;
use tokio::time::timeout;

use super::remote::SshError;

/// A login after the connection stands: key exchange, and what PAM does.
pub(super) const LOGIN: Duration = Duration::from_secs(20);

/// Whether no jump or proxy stands between, by `ssh`'s own reading of the configuration (`ssh -G`).
pub(super) async fn is_direct(config: &Path, alias: &str) -> Result<bool, SshError> {
    let mut ssh = ssh(config);
    ssh.arg("-G").arg(alias).stderr(Stdio::piped());
    let output = bounded("ssh", &mut ssh, LOGIN).await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(SshError::Setup(words.trim().replace('\n', "; ")));
    }
    Ok(!String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|l| l.split_once(' '))
        .any(|(key, value)| matches!(key, "proxyjump" | "proxycommand") && value != "none"))
}

/// `ssh` with a configuration, silent, out of the terminal's process group: Ctrl-C is for this process to handle.
pub(super) fn ssh(config: &Path) -> process::Command {
    let mut ssh = process::Command::new("ssh");
    ssh.arg("-F").arg(config);
    quiet(&mut ssh);
    ssh
}

pub(super) fn quiet(command: &mut process::Command) {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
}

/// Runs a local program to its end.
pub(super) async fn bounded(
    name: &str,
    command: &mut process::Command,
    limit: Duration,
) -> Result<std::process::Output, SshError> {
    command.stdout(Stdio::piped());
    match timeout(limit, command.output()).await {
        Ok(output) => output.map_err(|e| no_program(name, &e)),
        Err(_) => Err(SshError::NotReachable(format!(
            "{name} did not end within {} s",
            limit.as_secs()
        ))),
    }
}

pub(super) fn no_program(name: &str, error: &io::Error) -> SshError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            SshError::Setup(format!("there is no `{name}` on the PATH: install the OpenSSH client"))
        }
        _ => SshError::Setup(format!("`{name}` cannot be started: {error}")),
    }
}

pub(super) fn setup(path: &Path, error: &io::Error) -> SshError {
    SshError::Setup(format!("{}: {error}", path.display()))
}

pub(super) fn private_folder(prefix: &str, base: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(base)
}
