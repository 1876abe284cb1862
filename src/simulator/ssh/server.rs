//! One SSH server: russh's handler, logins by public key, commands and TCP forwarding for jump hosts. No password, no
//! terminal, no file transfer subsystem.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use russh::keys::ssh_key;
use russh::server::{self, Auth, ChannelOpenHandle, Msg, PublicKeyOffer, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelOpenFailure, MethodKind, MethodSet, Pty};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::super::shell::Machine;
use super::{Inner, run};

/// Takes connections until the task is aborted.
pub(super) async fn accept(inner: Arc<Inner>, listener: TcpListener, machine: Machine, boot: u32) {
    let mut methods = MethodSet::empty();
    methods.push(MethodKind::PublicKey);
    let config = Arc::new(server::Config {
        server_id: russh::SshId::Standard("SSH-2.0-OpenSSH_9.2p1-simulated".into()),
        methods,
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys: inner.keys_of(&machine),
        inactivity_timeout: None,
        nodelay: true,
        ..server::Config::default()
    });
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Out of file descriptors, perhaps: not at once again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let life = inner.life(&machine, boot);
        let handler = Handler {
            inner: Arc::clone(&inner),
            machine: machine.clone(),
            boot,
            user: String::new(),
            channels: HashMap::new(),
            connection: life.child_token(),
        };
        tokio::spawn(serve(Arc::clone(&config), socket, handler));
    }
}

/// One connection, until it ends or its machine goes down.
async fn serve(config: Arc<server::Config>, socket: TcpStream, handler: Handler) {
    let connection = handler.connection.clone();
    let _guard = connection.clone().drop_guard();
    let Ok((socket, cutter)) = cuttable(socket) else { return };
    let session = async {
        if let Ok(session) = server::run_stream(config, socket, handler).await {
            // How it ended is the client's to see.
            let _ended = session.await;
        }
    };
    tokio::pin!(session);
    tokio::select! {
        () = &mut session => return,
        () = connection.cancelled() => {}
    }
    let _closed = cutter.shutdown(std::net::Shutdown::Both);
    session.await;
}

/// The socket, and a second handle with which it can be cut.
fn cuttable(socket: TcpStream) -> std::io::Result<(TcpStream, std::net::TcpStream)> {
    socket.set_nodelay(true)?;
    let socket = socket.into_std()?;
    let cutter = socket.try_clone()?;
    Ok((TcpStream::from_std(socket)?, cutter))
}

struct Handler {
    inner: Arc<Inner>,
    machine: Machine,
    boot: u32,
    user: String,
    channels: HashMap<ChannelId, Channel<Msg>>,
    /// Cancelled when the connection ends, and cuts it.
    connection: CancellationToken,
}

impl Handler {
    fn judge(&self, user: &str, key: &ssh_key::PublicKey) -> Auth {
        let text = key.to_openssh().unwrap_or_default();
        let public: Vec<&str> = text.split(' ').take(2).collect();
        if self.inner.accepts(&self.machine, user, &public.join(" ")) {
            Auth::Accept
        } else {
            Auth::reject()
        }
    }
}

impl server::Handler for Handler {
    type Error = russh::Error;

    async fn auth_publickey_offered(&mut self, user: &str, offer: PublicKeyOffer<'_>) -> Result<Auth, Self::Error> {
        Ok(self.judge(user, offer.public_key))
    }

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        user.clone_into(&mut self.user);
        Ok(self.judge(user, key.public_key))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(&mut self, id: ChannelId, data: &[u8], session: &mut Session) -> Result<(), Self::Error> {
        let Some(channel) = self.channels.remove(&id) else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        let command = String::from_utf8_lossy(data).into_owned();
        let task = run::for_channel(
            Arc::clone(&self.inner),
            run::Context {
                machine: self.machine.clone(),
                boot: self.boot,
                user: self.user.clone(),
                connection: self.connection.clone(),
            },
            command,
            channel,
        );
        tokio::spawn(task);
        Ok(())
    }

    async fn channel_close(&mut self, id: ChannelId, _session: &mut Session) -> Result<(), Self::Error> {
        self.channels.remove(&id);
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        session.channel_success(id)?;
        session.extended_data(
            id,
            1,
            b"The simulated machine has no terminal: give a command.\n".to_vec(),
        )?;
        session.exit_status_request(id, 1)?;
        session.eof(id)?;
        session.close(id)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        _name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        _name: &str,
        _value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let target = u16::try_from(port)
            .ok()
            .and_then(|port| Some(SocketAddr::new(self.inner.resolve(host)?, port)));
        let connection = self.connection.clone();
        tokio::spawn(async move {
            let Some(target) = target else {
                reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await;
                return;
            };
            let Ok(mut socket) = TcpStream::connect(target).await else {
                reply.reject(ChannelOpenFailure::ConnectFailed).await;
                return;
            };
            reply.accept().await;
            let mut stream = channel.into_stream();
            tokio::select! {
                // Either side may hang up; there is nothing more to do then.
                _ended = tokio::io::copy_bidirectional(&mut socket, &mut stream) => {}
                () = connection.cancelled() => {}
            }
        });
        Ok(())
    }
}

impl Inner {
    /// A forwarding's target: a loopback address, or the name of a guest that runs.
    fn resolve(&self, host: &str) -> Option<IpAddr> {
        let mut found = host.parse::<IpAddr>().ok();
        if host == "localhost" {
            found = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
        }
        if found.is_none() {
            let now = self.world.clock().now_ms();
            self.world.each_guest(&mut |_, guest| {
                let named = guest.host_name() == host || guest.fqdn() == host;
                if found.is_none() && named {
                    found = guest.addresses(now).iter().find_map(|a| a.parse().ok());
                }
            });
        }
        found.filter(IpAddr::is_loopback)
    }
}
