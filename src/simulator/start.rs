//! Starting and stopping the simulator: directory, world, doors.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::clock::{Clock, Durations};
use super::fault::Faults;
use super::spec::WorldSpec;
use super::world::World;
use super::{Handle, Inner, KeepError, http, keep, pihole, ssh, tls};

/// How a simulator is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the world is kept. A saved world in it goes on.
    pub dir: PathBuf,
    /// What a new world is made from.
    pub spec: WorldSpec,
    /// How long things take.
    pub durations: Durations,
    /// Where the API listens; port 0 takes a free one.
    pub api_bind: SocketAddr,
    /// Whether nodes and guests are reachable over SSH.
    pub ssh: bool,
    /// The port of every guest's and node's sshd.
    pub ssh_port: u16,
    /// The public keys (lines of authorized_keys) that log in to nodes as root.
    pub node_keys: Vec<String>,
    /// The first three bytes of the loopback network in which nodes without an address of their own get one:
    /// `127.0.10` makes them 127.0.10.1, .2, ...; see [`free_loopback_net`].
    pub net: [u8; 3],
    /// Where the Pi-hole listens; none: there is none.
    pub pihole_bind: Option<SocketAddr>,
    /// The Pi-hole's password.
    pub pihole_password: String,
    /// Whether the API listens; without, only [`Handle::handle`] reaches it, and no certificate is made.
    pub sockets: bool,
    /// Whether the world is saved while it runs; without, only [`Simulator::stop`] and dropping it save it.
    pub keep: bool,
    /// Whether every change is saved before anybody hears of it, as a real cluster does: for one that lives and dies with
    /// its client. Costs a file a change.
    pub keep_at_once: bool,
}

impl Options {
    /// The demo cluster in a directory, all doors on free ports of loopback, real durations.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            dir: dir.into(),
            spec: WorldSpec::default(),
            durations: Durations::default(),
            api_bind: any,
            ssh: true,
            ssh_port: 2222,
            node_keys: Vec::new(),
            net: [127, 0, 10],
            pihole_bind: Some(any),
            pihole_password: "pihole".to_owned(),
            sockets: true,
            keep: true,
            keep_at_once: false,
        }
    }

    /// Only the API, which is all that a test of the API needs.
    pub fn api_only(dir: impl Into<PathBuf>) -> Self {
        Self {
            ssh: false,
            pihole_bind: None,
            ..Self::new(dir)
        }
    }
}

/// A loopback network (its first three bytes) that no other simulator of this machine uses now: nothing listens at its
/// first address on the port, and the choice is random.
pub fn free_loopback_net(port: u16) -> [u8; 3] {
    for _ in 0..200 {
        let [a, b, ..] = uuid::Uuid::new_v4().into_bytes();
        let net = [127, 16 + a % 180, b];
        if std::net::TcpListener::bind((Ipv4Addr::new(net[0], net[1], net[2], 1), port)).is_ok() {
            return net;
        }
    }
    [127, 0, 10]
}

/// Why a simulator does not start.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The directory or the saved world.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The description of the world.
    #[error("the description of the cluster is wrong: {0}")]
    Spec(String),
    /// A door.
    #[error("the simulator cannot open its {door}")]
    Door {
        /// Which one.
        door: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A running simulator. [`Simulator::stop`] saves the world; so does dropping it, as far as it can.
#[derive(Debug)]
pub struct Simulator {
    handle: Handle,
    api: Option<http::Door>,
    api_address: SocketAddr,
    fingerprint: String,
    ssh: Option<ssh::Doors>,
    pihole: Option<pihole::Door>,
    saver: Option<JoinHandle<()>>,
    _lock: keep::DirLock,
}

impl Simulator {
    /// Starts one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// See [`SimulatorError`].
    pub async fn start(options: Options) -> Result<Self, SimulatorError> {
        let dir = std::path::absolute(&options.dir).map_err(|source| KeepError::Io {
            path: options.dir.clone(),
            source,
        })?;
        let lock = keep::lock(&dir)?;
        let door = |door: &'static str| move |source: io::Error| SimulatorError::Door { door, source };
        let saved = keep::load(&dir)?;
        let clock = Clock::start(saved.as_ref().map_or(0, World::now_ms));
        let mut world = match saved {
            Some(world) => world,
            None => World::new(&with_addresses(&options), clock.now_ms()).map_err(SimulatorError::Spec)?,
        };
        let mut names = world.node_names();
        names.extend(world.nodes.values().map(|node| node.ip.clone()));
        names.push(options.api_bind.ip().to_string());
        let identity = match options.sockets {
            true => Some(tls::identity(&dir, &names).map_err(door("certificates"))?),
            false => None,
        };
        let fingerprint = identity
            .as_ref()
            .map(|known| known.fingerprint.clone())
            .unwrap_or_default();
        world.durations = options.durations.clone();
        world.dir.clone_from(&dir);
        world.fingerprint.clone_from(&fingerprint);
        world.make_directories().map_err(door("directories"))?;
        let nodes: Vec<ssh::NodeDoor> = world
            .nodes
            .iter()
            .map(|(name, node)| ssh::NodeDoor {
                name: name.clone(),
                address: SocketAddr::new(
                    node.ip.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                    options.ssh_port,
                ),
                root: world.node_root(name),
                authorized_keys: options.node_keys.clone(),
            })
            .collect();
        let handle = Handle(Arc::new(Inner {
            world: Mutex::new(world),
            clock,
            faults: Faults::default(),
            requests: Mutex::new(VecDeque::new()),
            warnings: Mutex::new(Vec::new()),
            bell: keep::Bell::default(),
            at_once: options.keep_at_once,
            changes: watch::channel(0).0,
            dir: dir.clone(),
        }));
        let api = match identity {
            Some(identity) => {
                let tls = TlsAcceptor::from(identity.config);
                Some(
                    http::start(handle.clone(), options.api_bind, tls)
                        .await
                        .map_err(door("API"))?,
                )
            }
            None => None,
        };
        let ssh = if options.ssh {
            let mut below = ssh::Options::below(&dir);
            below.guest_port = options.ssh_port;
            below.nodes = nodes;
            Some(
                ssh::start(Arc::new(handle.clone()), below)
                    .await
                    .map_err(door("SSH doors"))?,
            )
        } else {
            None
        };
        let pihole = match options.pihole_bind {
            Some(bind) => {
                let mut hole = pihole::Options::new(bind, options.pihole_password.clone());
                hole.file = Some(dir.join("pihole.json"));
                Some(pihole::start(hole, clock).await.map_err(door("Pi-hole"))?)
            }
            None => None,
        };
        let saver = match options.keep {
            true => Some(save_in_background(handle.clone()).map_err(door("saving thread"))?),
            false => None,
        };
        handle.0.bell.ring();
        Ok(Self {
            api_address: api.as_ref().map_or(options.api_bind, |api| api.address),
            handle,
            api,
            fingerprint,
            ssh,
            pihole,
            saver,
            _lock: lock,
        })
    }

    /// The cluster.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Uses the world; see [`Handle::with`].
    pub fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        self.handle.with(f)
    }

    /// The scripted faults of the API.
    pub fn faults(&self) -> &Faults {
        self.handle.faults()
    }

    /// Every request to the API so far.
    pub fn requests(&self) -> Vec<super::RequestRecord> {
        self.handle.requests()
    }

    /// Where the API listens.
    pub fn api_address(&self) -> SocketAddr {
        self.api_address
    }

    /// `https://127.0.0.1:port`
    pub fn api_url(&self) -> String {
        format!("https://{}", self.api_address)
    }

    /// The certificate of the cluster's CA.
    pub fn ca_file(&self) -> PathBuf {
        self.handle.dir().join(tls::CA_FILE)
    }

    /// SHA-256 of the API's certificate, `AA:BB:...`.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A token of the world: its id and secret. The first of root's, else the first.
    pub fn token(&self) -> Option<(String, String)> {
        self.handle.look(|world| {
            let tokens = &world.access.tokens;
            let of_root = tokens.iter().find(|(id, _)| id.starts_with("root@pam!"));
            of_root
                .or_else(|| tokens.iter().next())
                .map(|(id, token)| (id.clone(), token.secret.clone()))
        })
    }

    /// The SSH doors.
    pub fn ssh(&self) -> Option<&ssh::Doors> {
        self.ssh.as_ref()
    }

    /// The Pi-hole.
    pub fn pihole(&self) -> Option<&pihole::Door> {
        self.pihole.as_ref()
    }

    /// `http://127.0.0.1:port`
    pub fn pihole_url(&self) -> Option<String> {
        self.pihole.as_ref().map(|door| format!("http://{}", door.address()))
    }

    /// The world's directory.
    pub fn dir(&self) -> &Path {
        self.handle.dir()
    }

    /// Closes the doors and saves the world.
    ///
    /// # Errors
    ///
    /// The world could not be saved.
    pub async fn stop(mut self) -> Result<(), KeepError> {
        if let Some(api) = self.api.take() {
            api.stop().await;
        }
        if let Some(ssh) = self.ssh.take() {
            ssh.stop().await;
        }
        if let Some(pihole) = self.pihole.take() {
            pihole.stop().await;
        }
        self.end_saver();
        self.save()
    }

    fn end_saver(&mut self) {
        self.handle.0.bell.end();
        if let Some(saver) = self.saver.take()
            && saver.join().is_err()
        {
            tracing::warn!("simulator: the saving thread ended badly");
        }
    }

    fn save(&self) -> Result<(), KeepError> {
        keep::save(self.handle.dir(), &self.handle.serialised())
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        if self.saver.is_some() {
            self.end_saver();
            if let Err(error) = self.save() {
                tracing::warn!("simulator: {error}");
            }
        }
    }
}

/// Nodes without an address get one of the loopback network.
fn with_addresses(options: &Options) -> WorldSpec {
    let mut spec = options.spec.clone();
    let [a, b, c] = options.net;
    for (number, node) in spec.nodes.values_mut().enumerate() {
        if node.ip.is_none() {
            let last = u8::try_from(number + 1).unwrap_or(u8::MAX);
            node.ip = Some(Ipv4Addr::new(a, b, c, last).to_string());
        }
    }
    spec
}

impl Handle {
    pub(in crate::simulator) fn serialised(&self) -> Vec<u8> {
        let world = self.0.world.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_vec(&*world).unwrap_or_default()
    }
}

fn save_in_background(handle: Handle) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("simulator-save".to_owned())
        .spawn(move || {
            while handle.0.bell.wait() {
                if let Err(error) = keep::save(handle.dir(), &handle.serialised()) {
                    tracing::warn!("simulator: {error}");
                }
            }
        })
}
