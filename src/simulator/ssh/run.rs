//! Running one command: for a session's channel, or in process.
//!
//! A command ends with its own exit status. When its machine goes down it is killed; when only the client goes away it runs
//! on to its end, as under a real sshd.

use std::sync::Arc;
use std::time::Duration;

use russh::server::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::shell::{self, Machine};
use super::{Inner, LoggedCommand, Output, Refusal, SshEffect, lock};

/// Whose command it is.
pub(super) struct Context {
    pub(super) machine: Machine,
    pub(super) boot: u32,
    pub(super) user: String,
    pub(super) connection: CancellationToken,
}

/// What is known before the command runs.
enum Start {
    Run { then_drop: bool },
    Answer(Output),
    Drop,
}

impl Inner {
    /// Writes the log, asks the faults.
    async fn begin(&self, machine: &Machine, user: &str, command: &str) -> Start {
        lock(&self.log).push(LoggedCommand {
            machine: machine.clone(),
            user: user.to_owned(),
            command: command.to_owned(),
        });
        match self.fault(machine, Some(command)) {
            None | Some(SshEffect::RefuseLogin | SshEffect::RefuseConnection) => Start::Run { then_drop: false },
            Some(SshEffect::DropBefore) => Start::Drop,
            Some(SshEffect::DropAfter) => Start::Run { then_drop: true },
            Some(SshEffect::Answer { code, stderr }) => Start::Answer(Output {
                code: Some(code),
                stdout: Vec::new(),
                stderr: stderr.into_bytes(),
            }),
            Some(SshEffect::Delay { ms }) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Start::Run { then_drop: false }
            }
        }
    }

    fn spawn(&self, machine: &Machine, user: &str, command: &str) -> std::io::Result<Child> {
        let login = self.login(machine, user).ok_or(std::io::ErrorKind::NotConnected)?;
        self.shell.command(&login, command)?.spawn()
    }
}

/// Runs a command without a connection.
pub(super) async fn in_process(
    inner: &Inner,
    machine: &Machine,
    boot: u32,
    user: &str,
    command: &str,
    stdin: &[u8],
) -> Result<Output, Refusal> {
    let then_drop = match inner.begin(machine, user, command).await {
        Start::Drop => return Err(Refusal::Lost),
        Start::Answer(output) => return Ok(output),
        Start::Run { then_drop } => then_drop,
    };
    let life = inner.life(machine, boot);
    let mut child = inner.spawn(machine, user, command).map_err(|_| Refusal::Lost)?;
    let pid = child.id();
    let pipe = child.stdin.take();
    let feed = async {
        if let Some(mut pipe) = pipe {
            // The command may not want its input.
            let _written = pipe.write_all(stdin).await;
        }
    };
    let work = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = tokio::select! {
        output = work => output.map_err(|_| Refusal::Lost)?,
        () = life.cancelled() => {
            if let Some(pid) = pid {
                shell::kill_tree(pid);
            }
            return Err(Refusal::Lost);
        }
    };
    inner.after_command(machine);
    if then_drop {
        return Err(Refusal::Lost);
    }
    Ok(Output {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
    })
}

/// Runs a session's command and streams what it says.
pub(super) async fn for_channel(inner: Arc<Inner>, context: Context, command: String, channel: Channel<Msg>) {
    let Context {
        machine,
        boot,
        user,
        connection,
    } = context;
    let (reader, writer) = channel.split();
    let then_drop = match inner.begin(&machine, &user, &command).await {
        Start::Drop => {
            connection.cancel();
            return;
        }
        Start::Answer(output) => {
            let _sent = writer.extended_data_bytes(1, output.stderr).await;
            finish(&writer, output.code).await;
            return;
        }
        Start::Run { then_drop } => then_drop,
    };
    let life = inner.life(&machine, boot);
    let mut child = match inner.spawn(&machine, &user, &command) {
        Ok(child) => child,
        Err(error) => {
            let _sent = writer
                .extended_data_bytes(1, format!("simulator: {error}\n").into_bytes())
                .await;
            finish(&writer, Some(126)).await;
            return;
        }
    };
    let pid = child.id();
    tokio::spawn(feed(reader, child.stdin.take()));
    let work = async {
        let silent = then_drop.then_some(());
        let stdout = pump(child.stdout.take(), &writer, None, &connection, silent);
        let stderr = pump(child.stderr.take(), &writer, Some(1), &connection, silent);
        tokio::join!(stdout, stderr);
        child.wait().await
    };
    let status = tokio::select! {
        status = work => status,
        () = life.cancelled() => {
            if let Some(pid) = pid {
                shell::kill_tree(pid);
            }
            return;
        }
    };
    inner.after_command(&machine);
    if then_drop {
        connection.cancel();
        return;
    }
    finish(&writer, status.ok().and_then(|status| status.code())).await;
}

/// Exit status, end of file, close. The client may be gone: then nobody misses them.
async fn finish(writer: &ChannelWriteHalf<Msg>, code: Option<i32>) {
    let code = code.and_then(|code| u32::try_from(code).ok()).unwrap_or(255);
    let _sent = writer.exit_status(code).await;
    let _sent = writer.eof().await;
    let _sent = writer.close().await;
}

/// Standard input: the session's data until its end of file. The queue between keeps the session from waiting for the
/// command.
async fn feed(mut reader: ChannelReadHalf, stdin: Option<ChildStdin>) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let write = async move {
        let Some(mut stdin) = stdin else { return };
        while let Some(data) = receiver.recv().await {
            if stdin.write_all(&data).await.is_err() {
                break;
            }
        }
    };
    let read = async move {
        let mut sender = Some(sender);
        while let Some(message) = reader.wait().await {
            match message {
                ChannelMsg::Data { data } => {
                    if let Some(sender) = &sender {
                        // The command may have closed its input.
                        let _queued = sender.send(data.to_vec());
                    }
                }
                ChannelMsg::Eof => sender = None,
                ChannelMsg::Close => break,
                _ => {}
            }
        }
    };
    tokio::join!(read, write);
}

/// One of the command's outputs. Goes on reading when the client is gone, so that the command can end.
async fn pump(
    source: Option<impl AsyncRead + Unpin>,
    writer: &ChannelWriteHalf<Msg>,
    kind: Option<u32>,
    connection: &CancellationToken,
    silent: Option<()>,
) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 16 * 1024];
    let mut gone = silent.is_some();
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        if gone {
            continue;
        }
        let data = buffer[..count].to_vec();
        let send = async {
            match kind {
                None => writer.data_bytes(data).await,
                Some(kind) => writer.extended_data_bytes(kind, data).await,
            }
        };
        tokio::select! {
            sent = send => gone = sent.is_err(),
            () = connection.cancelled() => gone = true,
        }
    }
}
