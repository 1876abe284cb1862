//! Secrets never appear: every verb is run with marked secrets, outside parties echo them, and everything that was written
//! or shown is searched for any piece of them.
//!
//! ```text
//!   watcher, while the binary runs ---> argument lists and environments of all processes, all files of the site
//!   afterwards -----------------------> standard output, standard error, all files of the site
//!   left out -------------------------> the inventory and the vault's password file (the user's), the world (the other side)
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::ssh::{SshEffect, SshFault};

use crate::support::{PIHOLE_PASSWORD, Run, Site};

const TOKEN: &str = "70c3a11e-5ec2-4e70-9d1b-c0ffee5ec2e7";
const API_PASSWORD: &str = "api-pass word/marked+4c1d%&=";
const HASH: &str = "$6$markedsalt7Qz$hAshMarkedQm8vT1xYz0Lk3WcR5uPnE7bJdF2gSaHoIiKlMnBvCxZaQwErTyUiOpLkJhGfDsAz";
/// The hash as the vault keeps it.
const HASH_IN_VAULT: &str = "global_vm_template_user_crypted_password: !vault |
  $ANSIBLE_VAULT;1.1;AES256
  64326136313264653532623735613361656239363464343262396639643439376663633339326665
  3032363933646337663532376432366465613930616336350a333530376639646437366332343164
  37396164616335306366663736336661313865393265343936316438343564343365383535373536
  3061636236373438360a346135646365613166646231396564353865323331333438396635653537
  34343935613537363536343864656639303537626531616562303833333265663037343364393038
  34653031613037636533313132363435656236666538316431643835306639323161633933393637
  64616137643036346164613463303062393330376333613538373934303834346338343662623137
  61363038626364646638643465663162653331393939633762396139383164653965336161643735
  6338
";
const VAULT_PASSWORD: &str = "OpenSesame-4Marked-Door";
/// How many characters of a secret in a row are a leak.
const PIECE: usize = 12;

/// The secrets' pieces, as they are and as a URL or form writes them, each with its secret.
fn pieces() -> HashMap<Vec<u8>, &'static str> {
    let mut all = HashMap::new();
    for secret in [TOKEN, API_PASSWORD, HASH, PIHOLE_PASSWORD, VAULT_PASSWORD] {
        let encoded: String = secret
            .bytes()
            .map(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        for shape in [secret.to_owned(), encoded] {
            for piece in shape.as_bytes().windows(PIECE) {
                all.insert(piece.to_vec(), secret);
            }
        }
    }
    all
}

/// Finds pieces of secrets, also where a line break was put into one.
struct Search(HashMap<Vec<u8>, &'static str>);

impl Search {
    fn new() -> Self {
        Self(pieces())
    }

    fn find(&self, text: &[u8]) -> Option<String> {
        let tight: Vec<u8> = text
            .iter()
            .copied()
            .filter(|byte| !matches!(byte, b'\n' | b'\r' | b'|'))
            .collect();
        for window in tight.windows(PIECE) {
            if let Some(secret) = self.0.get(window) {
                return Some(format!("{:?} of {secret:?}", String::from_utf8_lossy(window)));
            }
        }
        None
    }
}

/// What the watcher saw.
#[derive(Default)]
struct Seen {
    leaks: Vec<String>,
    ssh: usize,
    files: usize,
}

/// Looks at all processes and at the site's files until it is told to stop.
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    fn start(dir: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let search = Search::new();
            let mut seen = Seen::default();
            let mut known = std::collections::HashSet::new();
            while !stopped.load(Ordering::Relaxed) {
                for (what, text) in processes().into_iter().chain(files(&dir)) {
                    seen.ssh += usize::from(text.starts_with(b"ssh\0"));
                    seen.files += usize::from(what.starts_with('/') && !what.starts_with("/proc/"));
                    // The same text is searched once.
                    if known.insert(text.clone())
                        && let Some(leak) = search.find(&text)
                    {
                        seen.leaks.push(format!("{what}: {leak}"));
                    }
                }
                std::thread::sleep(Duration::from_millis(4));
            }
            seen
        });
        Self { stop, thread }
    }

    fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Argument lists and environments of all processes but this one.
fn processes() -> Vec<(String, Vec<u8>)> {
    let me = std::process::id().to_string();
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == me || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for part in ["cmdline", "environ"] {
            let path = entry.path().join(part);
            if let Ok(text) = std::fs::read(&path) {
                all.push((path.display().to_string(), text));
            }
        }
    }
    all
}

/// The site's files, but for the user's and the other side's. Names are searched too.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(folder) = todo.pop() {
        // Folders come and go while the binary runs.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_outside = ["world", "inventory", "opener"]
                .iter()
                .any(|name| path == dir.join(name));
            let Ok(kind) = entry.file_type() else { continue };
            if is_outside {
                continue;
            }
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file()
                && let Ok(mut text) = std::fs::read(&path)
            {
                text.extend(path.display().to_string().bytes());
                all.push((path.display().to_string(), text));
            }
        }
    }
    all
}

/// A site with marked secrets.
async fn marked(password_login: bool) -> Site {
    let site = Site::with(|plan| {
        plan.spec.tokens.get_mut("automation@pve!vmwright").unwrap().secret = TOKEN.to_owned();
        plan.spec.users.get_mut("automation@pve").unwrap().password = Some(API_PASSWORD.to_owned());
        plan.vms = match password_login {
            true => format!("global_proxmox_api_password: '{API_PASSWORD}'\n"),
            false => format!("global_proxmox_api_token: {TOKEN}\n"),
        };
        plan.vms += HASH_IN_VAULT;
        plan.vms += "issue_text: \"login {{ global_vm_template_user_crypted_password }}\"\n";
    })
    .await;
    if password_login {
        let all: String = site
            .read("inventory/group_vars/all.yml")
            .lines()
            .filter(|line| !line.starts_with("global_proxmox_api_token"))
            .map(|line| format!("{line}\n"))
            .collect();
        site.write("inventory/group_vars/all.yml", &all);
    }
    site.write("opener", VAULT_PASSWORD);
    std::fs::create_dir_all(site.path("t")).unwrap();
    site
}

/// Runs the binary with everything watched; nothing of a secret is to be found.
#[track_caller]
fn searched<'s>(site: &'s Site, args: &'s [&'s str]) -> impl Future<Output = Run> + 's {
    let place = std::panic::Location::caller();
    async move {
        let watcher = Watcher::start(site.path(""));
        let mut command = site.command(args);
        let password = site.path("opener");
        let output = command
            .arg("--vault-password-file")
            .arg(password)
            .env("TMPDIR", site.path("t"))
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let seen = watcher.stop();
        let run = Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        let search = Search::new();
        let mut leaks = seen.leaks;
        for (what, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
            leaks.extend(search.find(text.as_bytes()).map(|leak| format!("{what}: {leak}")));
        }
        for (what, text) in files(&site.path("")) {
            leaks.extend(search.find(&text).map(|leak| format!("{what}: {leak}")));
        }
        assert!(
            leaks.is_empty(),
            "{place}: {args:?} leaks\n{}\n{}",
            leaks.join("\n"),
            run.all()
        );
        if args.first() == Some(&"provision") {
            assert!(seen.files > 0, "the watcher saw no file");
        }
        run
    }
}

#[test]
fn the_search_finds_pieces_and_wrapped_ones() {
    let search = Search::new();
    assert!(search.find(format!("x{}y", &TOKEN[3..20]).as_bytes()).is_some());
    assert!(
        search
            .find(format!("{}\n{}", &HASH[20..27], &HASH[27..40]).as_bytes())
            .is_some()
    );
    assert!(search.find(b"api-pass%20word%2Fmarked").is_some());
    assert!(search.find(b"pihole-***, $6$***, nothing").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verb_shows_a_secret() {
    let site = marked(false).await;
    let log = ["-vvv", "--log-format", "json"];
    searched(&site, &["provision", "--limit", "web-0", "--plan", "-vvv"])
        .await
        .assert_code(0);
    let all = [&["provision", "--limit", "web-0", "--output", "json"][..], &log].concat();
    let made = searched(&site, &all).await;
    made.assert_code(0);
    assert!(made.stderr.contains("vmwright::"), "-vvv logs calls: {}", made.stderr);
    searched(&site, &["provision", "-vvv", "--limit", "web-0"])
        .await
        .assert_code(0);
    searched(&site, &["status", "-vvv"]).await.assert_code(0);
    searched(&site, &["status", "--output", "json"]).await.assert_code(0);
    let rendered = searched(&site, &["render", "web-0", "-vvv"]).await;
    rendered.assert_code(0);
    rendered.assert_says("***");
    for what in [&["inventory", "--list", "-vvv"][..], &["inventory", "--host", "web-0"]] {
        searched(&site, what).await.assert_code(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secrets_are_where_they_belong() {
    let site = marked(false).await;
    // The last step fails, so that the documents are still on the node.
    site.sim
        .faults()
        .add(Fault::on("POST", "/nodes/*/qemu/*/status/reboot", answer("no restart today")).always());
    searched(&site, &["provision", "--limit", "web-0"]).await.assert_code(1);
    let documents = site.tree("world");
    assert!(
        documents
            .iter()
            .any(|(path, _, text)| path.ends_with("web-0-user-data-ci.yml")
                && String::from_utf8_lossy(text).contains(HASH)),
        "{documents:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_login_shows_no_password() {
    let site = marked(true).await;
    searched(&site, &["provision", "--limit", "web-0", "-vvv", "--output", "json"])
        .await
        .assert_code(0);
    site.sim.faults().add(
        Fault::on(
            "POST",
            "/access/ticket",
            Action::Answer {
                status: 401,
                text: format!("authentication failure for automation@pve with {API_PASSWORD}"),
            },
        )
        .always(),
    );
    let refused = searched(&site, &["provision", "--limit", "web-1", "-vvv"]).await;
    refused.assert_code(1);
    refused.assert_says("***");
    searched(&site, &["status"]).await;
}

fn answer(text: &str) -> Action {
    Action::Answer {
        status: 500,
        text: text.to_owned(),
    }
}

/// What another party echoes, in an answer, a task's end, or a command's standard error, is masked wherever it is told.
#[tokio::test(flavor = "multi_thread")]
async fn what_outside_parties_echo_is_masked() {
    let echo = format!("rejected PVEAPIToken=automation@pve!vmwright={TOKEN} and {PIHOLE_PASSWORD}");
    let faults = [
        ("GET", "/cluster/resources", answer(&echo)),
        ("GET", "/nodes/*/qemu/9000/config", answer(&echo)),
        ("POST", "/nodes/*/qemu/*/clone", answer(&echo)),
        (
            "POST",
            "/nodes/*/qemu/*/clone",
            Action::FailTask(format!("clone failed: {echo} {HASH}")),
        ),
        (
            "PUT",
            "/nodes/*/qemu/*/config",
            answer(&format!("cipassword {HASH} is no password")),
        ),
        (
            "POST",
            "/nodes/*/qemu/*/status/start",
            Action::FailTask(format!("start failed: {HASH}")),
        ),
        (
            "POST",
            "/nodes/*/qemu/*/status/reboot",
            answer(&format!("{HASH}\n{TOKEN}")),
        ),
    ];
    for (index, (method, path, action)) in faults.into_iter().enumerate() {
        let site = marked(false).await;
        site.sim.faults().add(Fault::on(method, path, action).always());
        let args: &[&str] = match index % 2 {
            0 => &[
                "provision",
                "--limit",
                "web-0",
                "-vvv",
                "--log-format",
                "json",
                "--output",
                "json",
            ],
            _ => &["provision", "--limit", "web-0", "-vvv"],
        };
        let run = searched(&site, args).await;
        run.assert_code(1);
        run.assert_says("***");
        searched(&site, &["status", "-vvv"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_remote_command_echoes_is_masked() {
    // A word of the script that fails, on a node and on the guest.
    for part in ["mv ", "cloud-init.disabled", "ssh_host_"] {
        let site = marked(false).await;
        site.sim.ssh().unwrap().set_faults(vec![SshFault {
            machine: None,
            containing: Some(part.to_owned()),
            skip: 0,
            times: None,
            effect: SshEffect::Answer {
                code: 1,
                stderr: format!("sh: 3: cannot use {HASH} or {TOKEN}\n"),
            },
        }]);
        let run = searched(&site, &["provision", "--limit", "web-0", "-vvv", "--output", "json"]).await;
        if part != "ssh_host_" {
            run.assert_code(1);
            run.assert_says("***");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_templates_make_of_secrets_is_masked() {
    let site = Site::with(|plan| {
        plan.all.push_str(HASH_IN_VAULT);
        plan.all
            .push_str("made: 'a {{ global_vm_template_user_crypted_password[:20] }} b'\n");
        plan.vms.push_str("vms_description: '{{ made }}'\n");
    })
    .await;
    site.write("vault-password", VAULT_PASSWORD);
    let vault = site.path("vault-password").display().to_string();
    let cut = &HASH[..20];
    for args in [
        &["provision", "--limit", "web-0", "--plan"][..],
        &["provision", "--limit", "web-0", "--plan", "--output", "json"],
        &["provision", "--limit", "web-0", "--plan", "-e", "vms_os={{ made }}"],
        &["provision", "--limit", "web-0"],
    ] {
        let run = site
            .vmwright(&[args, &["--vault-password-file", &vault]].concat())
            .await;
        run.assert_silent_about(cut);
        run.assert_says("***");
    }
    let journals = site.path("state/runs").read_dir().unwrap().flatten();
    for journal in journals {
        assert!(!std::fs::read_to_string(journal.path()).unwrap().contains(cut));
    }
}
