//! An SSH server on loopback for tests: runs what it is told with `sh`, or misbehaves as told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey, PublicKey, ssh_key::LineEnding};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Server as _, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelMsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// A running server; it ends with the test's runtime.
pub(super) struct TestServer {
    pub(super) port: u16,
    pub(super) host_keys: Vec<String>,
    /// What it was asked to do.
    pub(super) log: Arc<Mutex<Vec<String>>>,
    /// How many connections came.
    pub(super) connections: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Handler {
    channels: Arc<Mutex<HashMap<ChannelId, Channel<Msg>>>>,
    log: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    allowed: PublicKey,
}

/// A new key pair in a folder: the private half's path, and the public key.
pub(super) fn client_key(folder: &Path, name: &str) -> (PathBuf, PublicKey) {
    let key = private_key(Algorithm::Ed25519);
    let path = folder.join(name);
    key.write_openssh_file(&path, LineEnding::LF).expect("a key file");
    (path, key.public_key().clone())
}

fn private_key(algorithm: Algorithm) -> PrivateKey {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), algorithm).expect("a key")
}

impl TestServer {
    pub(super) async fn start(allowed: PublicKey) -> Self {
        let ecdsa = Algorithm::Ecdsa {
            curve: russh::keys::EcdsaCurve::NistP256,
        };
        let keys = vec![private_key(Algorithm::Ed25519), private_key(ecdsa)];
        let mut host_keys: Vec<String> = keys
            .iter()
            .map(|k| k.public_key().to_openssh().expect("text").trim().to_owned())
            .collect();
        host_keys.sort();
        let config = Arc::new(server::Config {
            auth_rejection_time: Duration::from_millis(1),
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys,
            ..Default::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut handler = Handler {
            channels: Arc::default(),
            log: Arc::default(),
            connections: Arc::default(),
            allowed,
        };
        let (log, connections) = (Arc::clone(&handler.log), Arc::clone(&handler.connections));
        tokio::spawn(async move { handler.run_on_socket(config, &listener).await });
        Self {
            port,
            host_keys,
            log,
            connections,
        }
    }
}

impl server::Server for Handler {
    type Handler = Self;
    fn new_client(&mut self, _: Option<std::net::SocketAddr>) -> Self {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Self {
            channels: Arc::default(),
            ..self.clone()
        }
    }
}

impl server::Handler for Handler {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        match key.public_key.key_data() == self.allowed.key_data() {
            true => Ok(Auth::Accept),
            false => Ok(Auth::reject()),
        }
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.lock().expect("unpoisoned").insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.log
            .lock()
            .expect("unpoisoned")
            .push(format!("jump to {host}:{port}"));
        let host = host.to_owned();
        reply.accept().await;
        tokio::spawn(async move {
            let port = u16::try_from(port).expect("a port");
            if let Ok(mut tcp) = TcpStream::connect((host.as_str(), port)).await {
                let _ = tokio::io::copy_bidirectional(&mut tcp, &mut channel.into_stream()).await;
            }
        });
        Ok(())
    }

    async fn exec_request(&mut self, id: ChannelId, data: &[u8], session: &mut Session) -> Result<(), Self::Error> {
        let line = String::from_utf8_lossy(data).into_owned();
        self.log.lock().expect("unpoisoned").push(line.clone());
        session.channel_success(id)?;
        if line.contains("DROP-CONNECTION") {
            return Err(russh::Error::Disconnect);
        }
        let channel = self
            .channels
            .lock()
            .expect("unpoisoned")
            .remove(&id)
            .expect("an open channel");
        let handle = session.handle();
        tokio::spawn(async move {
            let mut child = Command::new("sh")
                .arg("-c")
                .arg(&line)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("sh");
            let mut input = child.stdin.take().expect("piped");
            let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
            let (mut reader, writer) = channel.split();
            let pump = tokio::spawn(async move {
                while let Some(message) = reader.wait().await {
                    match message {
                        ChannelMsg::Data { data } if input.write_all(&data).await.is_ok() => {}
                        ChannelMsg::Data { .. } | ChannelMsg::Eof | ChannelMsg::Close => break,
                        _ => {}
                    }
                }
            });
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let _ = tokio::join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr));
            let status = child.wait().await.expect("an end");
            pump.abort();
            let _ = writer.data(&stdout[..]).await;
            let _ = writer.extended_data(1, &stderr[..]).await;
            if let Some(code) = status.code() {
                let _ = handle.exit_status_request(id, u32::try_from(code).unwrap_or(255)).await;
            }
            let _ = writer.eof().await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }
}
