//! One command on a kept master: what is sent, and what comes back.

use std::io;
use std::time::Duration;

use futures_util::future::join3;
use openssh::Session;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::remote::{Command, Output, SshError, shell_word};

/// How long a remote command may outlive its time before this side gives up: `timeout -k 5`, and the way back.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// What the far side's login shell gets.
pub(super) fn remote_line(user: &str, command: &Command) -> String {
    let sudo = match command.sudo && user != "root" {
        true => "sudo -n ",
        false => "",
    };
    let seconds = whole_seconds(command).as_secs();
    format!("{sudo}timeout -k 5 {seconds} sh -c {}", shell_word(&command.script))
}

pub(super) fn whole_seconds(command: &Command) -> Duration {
    Duration::from_secs(command.timeout.as_secs() + u64::from(command.timeout.subsec_nanos() > 0))
        .max(Duration::from_secs(1))
}

/// Whether the exit code is `timeout`'s own: 124, or 137 after the kill.
pub(super) fn is_timeout(output: &Output, command: &Command, took: Duration) -> bool {
    matches!(output.code, Some(124 | 137)) && took >= whole_seconds(command)
}

/// Runs a line on a master.
pub(super) async fn execute(session: &Session, line: &str, command: &Command) -> Result<Output, SshError> {
    let input = match command.stdin {
        Some(_) => openssh::Stdio::piped(),
        None => openssh::Stdio::null(),
    };
    let mut child = session
        .raw_command(line)
        .stdin(input)
        .stdout(openssh::Stdio::piped())
        .stderr(openssh::Stdio::piped())
        .spawn()
        .await
        .map_err(lost)?;
    let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let write = async {
        if let (Some(mut pipe), Some(bytes)) = (stdin, &command.stdin) {
            // A script need not read its input; its exit code tells whether it should have.
            let _ = pipe.write_all(bytes).await;
            let _ = pipe.shutdown().await;
        }
    };
    let (_, stdout, stderr) = join3(write, drain(stdout), drain(stderr)).await;
    let code = match child.wait().await {
        Ok(status) => status.code(),
        // The library's word for exit code 127.
        Err(openssh::Error::Remote(e)) if e.kind() == io::ErrorKind::NotFound => Some(127),
        // A signal there, or the end of the connection: only another command tells which.
        Err(openssh::Error::RemoteProcessTerminated) if answers(session).await => None,
        Err(e) => return Err(lost(e)),
    };
    Ok(Output {
        code,
        stdout: stdout.map_err(|e| SshError::Lost(e.to_string()))?,
        stderr: stderr.map_err(|e| SshError::Lost(e.to_string()))?,
    })
}

async fn drain(pipe: Option<impl AsyncReadExt + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

async fn answers(session: &Session) -> bool {
    let mut command = session.raw_command("true");
    let status = timeout(GRACE, command.status()).await;
    status.is_ok_and(|s| s.is_ok_and(|s| s.success()))
}

fn lost(error: openssh::Error) -> SshError {
    let source = std::error::Error::source(&error)
        .map(|s| format!(": {s}"))
        .unwrap_or_default();
    SshError::Lost(format!("{error}{source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_side_gets_a_bounded_command_and_sudo_only_where_it_helps() {
        let command = Command::new("echo 'a'", Duration::from_millis(1500)).sudo();
        assert_eq!(
            remote_line("debian", &command),
            r"sudo -n timeout -k 5 2 sh -c 'echo '\''a'\'''"
        );
        assert_eq!(remote_line("root", &command), r"timeout -k 5 2 sh -c 'echo '\''a'\'''");
    }

    #[test]
    fn a_scripts_own_124_is_no_timeout() {
        let command = Command::new("exit 124", Duration::from_secs(5));
        let output = Output {
            code: Some(124),
            ..Output::default()
        };
        assert!(!is_timeout(&output, &command, Duration::from_secs(1)));
        assert!(is_timeout(&output, &command, Duration::from_secs(5)));
    }
}
