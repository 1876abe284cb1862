//! The real `ssh` against a server on loopback.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::openssh::{OpenSsh, Options, UserConfig};
use super::remote::{Command, HostKeys, Remote, SshError};
use super::test_server::{TestServer, client_key};
use crate::machine::SshTarget;

const TIME: Duration = Duration::from_secs(20);

struct World {
    folder: tempfile::TempDir,
    server: TestServer,
    client: OpenSsh,
    target: SshTarget,
}

impl World {
    /// `None` where there is no `ssh`.
    async fn new() -> Option<Self> {
        if std::process::Command::new("ssh").arg("-V").output().is_err() {
            eprintln!("SKIPPED: there is no ssh program");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (key, public) = client_key(folder.path(), "id");
        let server = TestServer::start(public).await;
        let target = SshTarget {
            alias: "web1".into(),
            host: "127.0.0.1".into(),
            port: server.port,
            user: "debian".into(),
            key: Some(key),
            extra_args: vec![],
        };
        let client = OpenSsh::new(Options {
            user_config: UserConfig::Ignore,
            ..Options::default()
        })
        .expect("a client");
        Some(Self {
            folder,
            server,
            client,
            target,
        })
    }

    fn known(&self) -> HostKeys {
        HostKeys::Known(self.server.host_keys.clone())
    }

    async fn run(&self, command: Command) -> Result<super::remote::Output, SshError> {
        self.client.run(&self.target, &self.known(), &command).await
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_machine_share_one_connection() {
    let Some(world) = World::new().await else { return };
    let command = Command::new("cat; echo oops >&2; exit 7", TIME).stdin("it's $HOME\n");
    let output = world.run(command).await.expect("an output");
    assert_eq!(
        (output.code, output.text().as_str(), output.stderr.as_slice()),
        (Some(7), "it's $HOME\n", &b"oops\n"[..])
    );
    for code in [0, 127, 255] {
        let output = world
            .run(Command::new(format!("echo {code}; exit {code}"), TIME))
            .await
            .expect("an output");
        assert_eq!((output.code, output.text()), (Some(code), format!("{code}\n")));
    }
    // The first knock is a connection too.
    assert_eq!(world.server.connections.load(Ordering::SeqCst), 2);
    world.client.forget(&world.target);
    assert!(
        world
            .run(Command::new("true", TIME))
            .await
            .expect("an output")
            .success()
    );
    assert_eq!(world.server.connections.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn much_goes_through_in_both_directions() {
    let Some(world) = World::new().await else { return };
    let input = vec![b'x'; 3_000_000];
    let output = world
        .run(Command::new("cat", TIME).stdin(input.clone()))
        .await
        .expect("an output");
    assert!(output.stdout == input, "{} bytes came back", output.stdout.len());
    // A script that does not read its input is not disturbed by it.
    assert!(
        world
            .run(Command::new("exit 0", TIME).stdin(input))
            .await
            .expect("an output")
            .success()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_and_an_unknown_name_start_no_ssh() {
    let Some(world) = World::new().await else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    let target = SshTarget {
        port,
        ..world.target.clone()
    };
    let error = world
        .client
        .run(&target, &world.known(), &Command::new("true", TIME))
        .await
        .expect_err("refused");
    assert!(
        matches!(&error, SshError::NotReachable(text) if text.contains("refused")),
        "{error:?}"
    );
    assert!(error.nothing_ran());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strange_login_key_is_denied() {
    let Some(world) = World::new().await else { return };
    let (other, _) = client_key(world.folder.path(), "other");
    let target = SshTarget {
        key: Some(other),
        ..world.target.clone()
    };
    let error = world
        .client
        .run(&target, &world.known(), &Command::new("true", TIME))
        .await
        .expect_err("denied");
    assert!(
        matches!(&error, SshError::Denied(text) if text.contains("Permission denied")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_are_strict_or_learnt_once() {
    let Some(world) = World::new().await else { return };
    let (_, stranger) = client_key(world.folder.path(), "stranger");
    let stranger = stranger.to_openssh().expect("text");
    let run = async |keys: HostKeys| {
        world
            .client
            .run(&world.target, &keys, &Command::new("true", TIME))
            .await
    };

    let error = run(HostKeys::Known(vec![stranger.clone()]))
        .await
        .expect_err("another key");
    assert!(matches!(&error, SshError::HostKey { changed: true, .. }), "{error:?}");

    let empty = world.file("empty", "");
    let error = run(HostKeys::File(empty.clone())).await.expect_err("an unknown key");
    assert!(matches!(&error, SshError::HostKey { changed: false, .. }), "{error:?}");
    assert_eq!(
        std::fs::read_to_string(&empty).expect("read"),
        "",
        "strict learns nothing"
    );

    run(HostKeys::LearnInto(empty.clone())).await.expect("first contact");
    let learnt = std::fs::read_to_string(&empty).expect("read");
    assert!(learnt.starts_with("web1 "), "{learnt}");
    world.client.forget(&world.target);
    run(HostKeys::File(empty.clone())).await.expect("known by its name");

    let by_address = world.file(
        "address",
        &format!("[127.0.0.1]:{} {}\n", world.server.port, world.server.host_keys[1]),
    );
    run(HostKeys::File(by_address)).await.expect("known by its address");

    let changed = world.file("changed", &format!("web1 {stranger}\n"));
    let error = run(HostKeys::LearnInto(changed.clone())).await.expect_err("changed");
    assert!(matches!(&error, SshError::HostKey { changed: true, .. }), "{error:?}");
    assert_eq!(
        std::fs::read_to_string(changed).expect("read"),
        format!("web1 {stranger}\n")
    );

    let error = run(HostKeys::Known(vec![])).await.expect_err("nothing is known");
    assert!(matches!(error, SshError::Setup(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_contact_goes_on_under_known_keys_and_only_under_its_own() {
    let Some(world) = World::new().await else { return };
    let (_, stranger) = client_key(world.folder.path(), "stranger");
    let connections = || world.server.connections.load(Ordering::SeqCst);
    let run = async |keys: HostKeys| {
        world
            .client
            .run(&world.target, &keys, &Command::new("true", TIME))
            .await
    };
    let learned = HostKeys::LearnInto(world.file("learned", ""));
    run(learned.clone()).await.expect("first contact");
    let first = connections();
    run(world.known()).await.expect("the same connection");
    assert_eq!(connections(), first, "no second login");
    world.client.forget(&world.target);
    run(world.known()).await.expect("a new connection with the known keys");
    assert!(connections() > first);

    run(learned).await.expect("another contact");
    let other = HostKeys::Known(vec![stranger.to_openssh().expect("text")]);
    let error = run(other).await.expect_err("not the learned key");
    assert!(matches!(&error, SshError::HostKey { changed: true, .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_drops_is_lost_and_the_next_command_gets_a_new_one() {
    let Some(world) = World::new().await else { return };
    let error = world
        .run(Command::new("DROP-CONNECTION", TIME))
        .await
        .expect_err("lost");
    assert!(matches!(error, SshError::Lost(_)), "{error:?}");
    assert!(!error.nothing_ran());
    assert_eq!(
        world
            .run(Command::new("echo again", TIME))
            .await
            .expect("an output")
            .text(),
        "again\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_there_is_no_lost_connection() {
    let Some(world) = World::new().await else { return };
    // Ends `timeout` and the server's shell, so that no exit code comes back.
    let output = world
        .run(Command::new("kill -9 $PPID $(ps -o ppid= -p $PPID)", TIME))
        .await
        .expect("an output");
    assert!(matches!(output.code, None | Some(137)), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_ended_there() {
    let Some(world) = World::new().await else { return };
    let error = world
        .run(Command::new("sleep 30", Duration::from_secs(1)))
        .await
        .expect_err("too long");
    assert_eq!(error, SshError::TimedOut(Duration::from_secs(1)));
    // The connection is still good.
    assert!(
        world
            .run(Command::new("true", TIME))
            .await
            .expect("an output")
            .success()
    );
    assert_eq!(world.server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_host_of_the_inventorys_arguments_is_used() {
    let Some(world) = World::new().await else { return };
    let key = world.target.key.clone().expect("a key");
    let public = russh::keys::load_secret_key(&key, None)
        .expect("a key")
        .public_key()
        .clone();
    let jump = TestServer::start(public).await;
    let known: String = jump.host_keys.iter().map(|k| format!("bastion {k}\n")).collect();
    let known = world.file("jump_known", &known);
    let own = world.file(
        "own_config",
        &format!(
            "Host bastion\n HostName 127.0.0.1\n Port {}\n User j\n IdentityFile {}\n HostKeyAlias bastion\n \
             UserKnownHostsFile {}\n",
            jump.port,
            key.display(),
            known.display()
        ),
    );
    let target = SshTarget {
        extra_args: vec!["-F".into(), own.display().to_string(), "-J".into(), "bastion".into()],
        ..world.target.clone()
    };
    let output = world
        .client
        .run(&target, &world.known(), &Command::new("echo through", TIME))
        .await
        .expect("an output");
    assert_eq!(output.text(), "through\n");
    let wanted = format!("jump to 127.0.0.1:{}", world.server.port);
    assert_eq!(*jump.log.lock().expect("unpoisoned"), [wanted]);
    assert_eq!(
        world.client.scan(&target).await.expect("keys"),
        world.server.host_keys,
        "also scanned through the jump"
    );

    let unknown = SshTarget {
        extra_args: vec!["-J".into(), format!("j@127.0.0.1:{}", jump.port)],
        ..world.target.clone()
    };
    let error = world
        .client
        .run(&unknown, &world.known(), &Command::new("true", TIME))
        .await
        .expect_err("unknown jump");
    assert!(
        matches!(&error, SshError::HostKey { changed: false, text } if text.contains("jump host")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_sees_the_keys_of_all_types() {
    let Some(world) = World::new().await else { return };
    assert_eq!(
        world.client.scan(&world.target).await.expect("keys"),
        world.server.host_keys
    );
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = SshTarget {
        port: mute.local_addr().expect("an address").port(),
        ..world.target.clone()
    };
    let client = OpenSsh::new(Options {
        connect_timeout: Duration::from_secs(1),
        user_config: UserConfig::Ignore,
    });
    let error = client.expect("a client").scan(&target).await.expect_err("no keys");
    assert!(
        matches!(&error, SshError::NotReachable(text) if text.contains("no host key")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_that_ssh_does_not_know_is_a_fault_of_this_side() {
    let Some(world) = World::new().await else { return };
    let target = SshTarget {
        extra_args: vec!["-o".into(), "Bogus=yes".into()],
        ..world.target.clone()
    };
    let error = world
        .client
        .run(&target, &world.known(), &Command::new("true", TIME))
        .await
        .expect_err("bogus");
    assert!(
        matches!(&error, SshError::Setup(text) if text.contains("bogus")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let Some(world) = World::new().await else { return };
    world.run(Command::new("true", TIME)).await.expect("an output");
    let home = world.client.home().to_owned();
    assert!(home.is_dir());
    drop(world);
    assert!(!home.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_ended_by_itself_is_replaced() {
    let Some(world) = World::new().await else { return };
    world.run(Command::new("true", TIME)).await.expect("an output");
    let folders = std::fs::read_dir(world.client.home()).expect("a folder").flatten();
    let socket = folders
        .map(|e| e.path().join("master"))
        .find(|p| p.exists())
        .expect("a control socket");
    let ended = std::process::Command::new("ssh")
        .arg("-S")
        .arg(&socket)
        .args(["-O", "exit", "web1"])
        .output();
    assert!(ended.expect("ssh").status.success());
    assert!(
        world
            .run(Command::new("true", TIME))
            .await
            .expect("an output")
            .success()
    );
    assert_eq!(world.server.connections.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_share_the_connection() {
    let Some(world) = World::new().await else { return };
    let commands: Vec<Command> = (0..20).map(|i| Command::new(format!("echo {i}"), TIME)).collect();
    let outputs = futures_util::future::join_all(commands.iter().map(|c| world.run(c.clone()))).await;
    for (i, output) in outputs.into_iter().enumerate() {
        assert_eq!(output.expect("an output").text(), format!("{i}\n"));
    }
    assert_eq!(world.server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_answers_without_a_login_is_not_reachable() {
    let Some(world) = World::new().await else { return };
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = SshTarget {
        port: mute.local_addr().expect("an address").port(),
        ..world.target.clone()
    };
    let options = Options {
        connect_timeout: Duration::from_secs(1),
        user_config: UserConfig::Ignore,
    };
    let client = OpenSsh::new(options).expect("a client");
    let error = client
        .run(&target, &world.known(), &Command::new("true", TIME))
        .await
        .expect_err("mute");
    assert!(
        matches!(&error, SshError::NotReachable(text) if text.contains("timed out")),
        "{error:?}"
    );
}

/// A real `sshd` of this machine, for the user that runs the test; ended when dropped.
struct RealServer {
    child: std::process::Child,
    target: SshTarget,
    host_keys: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RealServer {
    fn start() -> Option<Self> {
        let skipped = |why: &str| eprintln!("SKIPPED: no real sshd ({why})");
        let program = PathBuf::from("/usr/sbin/sshd");
        if !program.exists() {
            skipped("/usr/sbin/sshd is missing");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut host_keys = vec![];
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let made = std::process::Command::new("ssh-keygen")
                .args(["-q", "-t", kind, "-N", "", "-C", "host", "-f", &at(kind)])
                .status();
            assert!(made.expect("ssh-keygen").success());
            let line = std::fs::read_to_string(at(&format!("{kind}.pub"))).expect("read");
            host_keys.extend(super::probes::public_key(&line));
        }
        host_keys.sort();
        let (key, public) = client_key(folder.path(), "id");
        std::fs::write(at("authorized"), public.to_openssh().expect("text")).expect("written");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("bound")
            .port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n",
            at("ed25519"),
            at("ecdsa"),
            at("rsa"),
            at("authorized")
        );
        std::fs::write(at("config"), config).expect("written");
        let log = std::fs::File::create(at("log")).expect("a log");
        let mut child = std::process::Command::new(program)
            .args(["-D", "-e", "-f", &at("config")])
            .stderr(log)
            .spawn()
            .expect("started");
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if child.try_wait().expect("asked").is_some() {
                skipped(&std::fs::read_to_string(at("log")).unwrap_or_default());
                return None;
            }
            std::thread::yield_now();
        }
        let user = std::process::Command::new("id").arg("-un").output().expect("id").stdout;
        let target = SshTarget {
            alias: "web1".into(),
            host: "127.0.0.1".into(),
            port,
            user: String::from_utf8_lossy(&user).trim().to_owned(),
            key: Some(key),
            extra_args: vec![],
        };
        Some(Self {
            child,
            target,
            host_keys,
            _folder: folder,
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_sshd_answers_the_probes() {
    let Some(server) = RealServer::start() else { return };
    let client = OpenSsh::new(Options {
        user_config: UserConfig::Ignore,
        ..Options::default()
    })
    .expect("a client");
    let keys = client.scan(&server.target).await.expect("keys");
    assert_eq!(keys, server.host_keys, "all types");
    let keys = HostKeys::Known(keys);
    let alive = super::probes::first_command()
        .ask(&client, &server.target, &keys, TIME)
        .await
        .expect("alive");
    assert_eq!(alive.user, server.target.user);
    let boot = super::probes::boot_id()
        .ask(&client, &server.target, &keys, TIME)
        .await
        .expect("a boot id");
    assert_eq!(boot, alive.boot_id);
    super::addresses::addresses()
        .ask(&client, &server.target, &keys, TIME)
        .await
        .expect("addresses");
    let commands: Vec<Command> = (0..16)
        .map(|i| Command::new(format!("sleep 0.1; echo {i}"), TIME))
        .collect();
    let runs = commands.iter().map(|c| client.run(&server.target, &keys, c));
    for (i, output) in futures_util::future::join_all(runs).await.into_iter().enumerate() {
        assert_eq!(
            output.expect("an output").text(),
            format!("{i}\n"),
            "not more sessions than sshd allows"
        );
    }
    let killed = client
        .run(&server.target, &keys, &Command::new("kill -9 $PPID", TIME))
        .await
        .expect("an output");
    assert!(!killed.success(), "{killed:?}");
}
