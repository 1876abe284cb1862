//! Locks: within one process, with made-up processes, hosts and boots, and with real processes that are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::Barrier;

use uuid::Uuid;

use super::super::identity::{Identity, Processes};
use super::super::owner::tests::somebody;
use super::super::owner::{Doubt, Proof};
use super::super::record::tests::phases;
use super::super::{DirectoryStore, Effect, Fate, GatedStore, Record, Store};
use super::*;
use crate::diagnose::Exit;

fn key() -> VmKey {
    VmKey::of("pve1", 8006, "web-0")
}

/// The directory as that process sees it.
fn seen_by(root: &Path, identity: &Identity) -> StateDir {
    StateDir::open_with(root, Arc::new(DirectoryStore), identity.clone()).unwrap()
}

fn take(state: &StateDir) -> Result<LockGuard, LockError> {
    state.lock(&key(), state.owner(Uuid::new_v4(), "provision web-0"))
}

/// Lets the holder die: its OS lock is freed, its directory stays.
fn die(mut guard: LockGuard) {
    guard.released = true;
}

fn refusal(outcome: Result<LockGuard, LockError>) -> (Option<Box<Owner>>, Verdict) {
    match outcome {
        Err(LockError::Held { owner, verdict, .. }) => (owner, verdict),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_holds_it_the_other_is_told_who_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let first = take(&state).unwrap();
    let before = fs::read(state.owner_path(&key())).unwrap();
    let error = take(&state).unwrap_err();
    let said = error.diagnostic("web-0.example.org", "web-0");
    assert_eq!((said.code, said.exit), ("state/locked", Exit::Locked));
    let me = Identity::current();
    assert!(
        said.message.starts_with(&format!(
            "web-0 is locked by `provision web-0` (pid {} on {}, user {}), since ",
            me.pid, me.host, me.user
        )),
        "{}",
        said.message
    );
    let (owner, verdict) = refusal(Err(error));
    assert_eq!(owner.unwrap().operation, first.owner().operation);
    assert_eq!(verdict, Verdict::Alive);
    assert_eq!(fs::read(state.owner_path(&key())).unwrap(), before);
    first.check().unwrap();
    first.release().unwrap();
    take(&state).unwrap().release().unwrap();
}

#[test]
fn other_vms_are_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let _one = take(&state).unwrap();
    for other in [VmKey::of("pve1", 8006, "web-1"), VmKey::of("pve2", 8006, "web-0")] {
        state.lock(&other, state.owner(Uuid::new_v4(), "x")).unwrap();
    }
}

#[test]
fn release_and_drop_leave_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    take(&state).unwrap().release().unwrap();
    assert_eq!(state.locked().unwrap(), []);
    {
        let _guard = take(&state).unwrap();
        assert_eq!(state.locked().unwrap(), [key()]);
    }
    assert_eq!(state.lock_holder(&key()).unwrap(), None);
    let left = state.list("locks").unwrap();
    assert_eq!(left, [format!(".alive-{}", key()), format!(".guard-{}", key())]);
}

#[test]
fn only_the_proven_dead_lose_their_lock() {
    let us = somebody("ctl", "boot-2", 500, 9000);
    let gone = somebody("ctl", "boot-2", 77, 100);
    let mut us_seeing_77 = us.clone();
    let seeing = |start: u64| Processes::Fixed(BTreeMap::from([(500, 9000), (77, start)]));
    us_seeing_77.processes = seeing(100);
    let mut us_seeing_reuse = us.clone();
    us_seeing_reuse.processes = seeing(4711);
    let cases = [
        (gone.clone(), &us, Ok(())),
        (gone.clone(), &us_seeing_reuse, Ok(())),
        (gone, &us_seeing_77, Err(Doubt::ProcessThere(77))),
        (somebody("ctl", "boot-1", 77, 100), &us_seeing_77, Ok(())),
        (us.clone(), &us, Ok(())),
        (
            somebody("laptop", "boot-9", 77, 100),
            &us,
            Err(Doubt::OtherHost("laptop".to_owned())),
        ),
    ];
    for (index, (holder, contender, outcome)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("state");
        let dead = take(&seen_by(&root, &holder)).unwrap();
        let operation = dead.owner().operation;
        let state = seen_by(&root, contender);
        // While the OS lock is held nothing else counts.
        assert_eq!(refusal(take(&state)).1, Verdict::Alive, "case {index}");
        die(dead);
        match outcome {
            Ok(()) => {
                let guard = take(&state).unwrap_or_else(|e| panic!("case {index}: {e}"));
                guard.check().unwrap();
                assert_ne!(guard.owner().operation, operation);
            }
            Err(doubt) => {
                let (owner, verdict) = refusal(take(&state));
                assert_eq!(verdict, Verdict::Unproven(doubt), "case {index}");
                assert_eq!(owner.unwrap().operation, operation, "case {index}");
                // Refused again: the attempt itself changed nothing.
                refusal(take(&state));
            }
        }
    }
}

#[test]
fn an_owner_file_that_cannot_be_read_needs_a_person() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    die(take(&state).unwrap());
    fs::write(state.owner_path(&key()), b"{\"operation\":").unwrap();
    let error = take(&state).unwrap_err();
    let said = error.diagnostic("web-0.example.org", "web-0");
    assert_eq!(said.message, "web-0 is locked by somebody unknown");
    assert_eq!(said.help[1], "then: vmwright unlock web-0.example.org --confirm web-0");
    assert!(matches!(
        refusal(Err(error)),
        (None, Verdict::Unproven(Doubt::NoOwner(_)))
    ));
    let seen = state.lock_holder(&key()).unwrap().unwrap();
    state.force_unlock(&key(), &seen).unwrap();
    take(&state).unwrap();
}

#[test]
fn a_death_at_each_step_of_taking_and_giving_back_frees_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let lock = state.lock_path(&key());
    let owner = state.owner_path(&key());
    let ready = |what: &str| {
        let guard = take(&state).unwrap_or_else(|e| panic!("{what}: {e}"));
        guard.check().unwrap();
        guard.release().unwrap();
        assert_eq!(
            state.list("locks").unwrap().len(),
            2,
            "{what}: only the two lock files stay"
        );
    };
    DirectoryStore.create_dir(&lock).unwrap();
    ready("after mkdir");
    DirectoryStore.create_dir(&lock).unwrap();
    fs::write(temp_path(&owner), b"{\"oper").unwrap();
    ready("while owner.json is written");
    die(take(&state).unwrap());
    ready("after owner.json");
    die(take(&state).unwrap());
    fs::write(temp_path(&owner), b"{\"oper").unwrap();
    ready("while a take-over is signed");
    die(take(&state).unwrap());
    fs::rename(&lock, state.aside_path(&key())).unwrap();
    ready("after the lock was renamed aside");
    die(take(&state).unwrap());
    fs::rename(&lock, state.aside_path(&key())).unwrap();
    fs::remove_file(state.aside_path(&key()).join("owner.json")).unwrap();
    ready("while the lock was deleted");
}

#[test]
fn the_new_holder_sweeps_what_a_torn_record_left() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let temp = temp_path(&state.record_path(&key()));
    fs::write(&temp, b"{\"sche").unwrap();
    let _guard = take(&state).unwrap();
    assert!(!temp.exists());
}

#[test]
fn of_twenty_contenders_over_a_dead_holder_exactly_one_wins() {
    for round in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("state");
        die(take(&seen_by(&root, &somebody("ctl", "boot-1", 77, 100))).unwrap());
        let barrier = Barrier::new(20);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let contenders: Vec<_> = (0..20)
                .map(|index| {
                    let (root, barrier) = (&root, &barrier);
                    scope.spawn(move || {
                        let state = seen_by(root, &somebody("ctl", "boot-2", 500 + index, 9000));
                        barrier.wait();
                        take(&state)
                    })
                })
                .collect();
            contenders.into_iter().map(|c| c.join().unwrap()).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 19), "round {round}");
        let winner = won.into_iter().next().unwrap().unwrap();
        winner.check().unwrap();
        for outcome in lost {
            let (owner, verdict) = refusal(outcome);
            assert_eq!(verdict, Verdict::Alive);
            assert_eq!(owner.unwrap().operation, winner.owner().operation);
        }
    }
}

#[test]
fn a_lock_that_was_taken_away_is_noticed_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let guard = take(&state).unwrap();
    let record = Record::new("pve1", 8006, "web-0", "web-0", phases().remove(0));
    // Somebody deletes the lock by hand: the OS lock still keeps others out.
    fs::remove_dir_all(state.lock_path(&key())).unwrap();
    assert_eq!(refusal(take(&state)).1, Verdict::Alive);
    let error = state.write_record(&guard, &record).unwrap_err();
    assert_eq!(error.kind, StateErrorKind::LockLost);
    assert_eq!(error.diagnostic().exit, Exit::Locked);
    assert!(state.delete_record(&guard).is_err());
    // And deletes the lock files too, and takes the lock.
    fs::remove_file(state.alive_path(&key())).unwrap();
    let other = take(&state).unwrap();
    assert_eq!(guard.release().unwrap_err().kind, StateErrorKind::LockLost);
    other.check().unwrap();
}

#[test]
fn lock_files_deleted_by_hand_do_not_open_the_lock_of_a_living_holder() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let holder = somebody("ctl", "boot-2", 77, 100);
    let guard = take(&seen_by(&root, &holder)).unwrap();
    let mut us = somebody("ctl", "boot-2", 500, 9000);
    us.processes = Processes::Fixed(BTreeMap::from([(500, 9000), (77, 100)]));
    let state = seen_by(&root, &us);
    fs::remove_file(state.alive_path(&key())).unwrap();
    assert_eq!(refusal(take(&state)).1, Verdict::Unproven(Doubt::ProcessThere(77)));
    guard.release().unwrap();
}

#[test]
fn status_tells_the_living_from_the_dead_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let guard = take(&state).unwrap();
    let seen = state.lock_holder(&key()).unwrap().unwrap();
    assert_eq!(
        (seen.owner.as_ref(), &seen.verdict),
        (Some(guard.owner()), &Verdict::Alive)
    );
    assert!(seen.age.unwrap() < Duration::from_secs(600));
    guard.check().unwrap();
    die(guard);
    let seen = state.lock_holder(&key()).unwrap().unwrap();
    assert_eq!(seen.verdict, Verdict::Dead(Proof::ThisProcess));
    assert!(state.lock_path(&key()).exists());
}

#[test]
fn unlocking_ends_what_was_shown_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let state = seen_by(&root, &somebody("ctl", "boot-2", 500, 9000));
    let far = seen_by(&root, &somebody("laptop", "boot-9", 77, 100));
    let living = take(&far).unwrap();
    let shown = state.lock_holder(&key()).unwrap().unwrap();
    let refused = state.force_unlock(&key(), &shown).unwrap_err();
    assert!(matches!(
        refused,
        LockError::Held {
            verdict: Verdict::Alive,
            ..
        }
    ));
    die(living);
    let shown = state.lock_holder(&key()).unwrap().unwrap();
    assert_eq!(shown.verdict, Verdict::Unproven(Doubt::OtherHost("laptop".to_owned())));
    state.force_unlock(&key(), &shown).unwrap();
    state.force_unlock(&key(), &shown).unwrap();
    // Another run has taken it, and died: it is not the one that was shown.
    die(take(&far).unwrap());
    assert!(matches!(
        state.force_unlock(&key(), &shown),
        Err(LockError::Held { .. })
    ));
    assert!(state.lock_path(&key()).exists());
}

/// A directory on NFS, where an OS lock must not even be tried.
fn nfs() -> Arc<dyn Store> {
    let gate = |effect: Effect<'_>| match effect {
        Effect::LockFile(path) => panic!("an OS lock on NFS: {}", path.display()),
        Effect::CreateDir(_)
        | Effect::WriteAtomic(_)
        | Effect::Append(_)
        | Effect::RenameDir(..)
        | Effect::RemoveFile(_)
        | Effect::RemoveDir(_) => Fate::Happens,
    };
    Arc::new(GatedStore::new(Arc::new(DirectoryStore), gate).on(Filesystem::Shared("NFS")))
}

#[test]
fn on_a_shared_filesystem_mkdir_alone_decides_and_nobody_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let on = |host: &str| StateDir::open_with(&root, nfs(), somebody(host, "boot", 77, 100)).unwrap();
    let (ctl, laptop) = (on("ctl"), on("laptop"));
    assert_eq!(ctl.warnings().unwrap()[0].code, "state/network-filesystem");
    let guard = take(&ctl).unwrap();
    assert_eq!(
        refusal(take(&laptop)).1,
        Verdict::Unproven(Doubt::SharedFilesystem("NFS"))
    );
    guard.release().unwrap();
    die(take(&laptop).unwrap());
    for state in [&ctl, &laptop] {
        assert_eq!(
            refusal(take(state)).1,
            Verdict::Unproven(Doubt::SharedFilesystem("NFS"))
        );
    }
    let shown = ctl.lock_holder(&key()).unwrap().unwrap();
    ctl.force_unlock(&key(), &shown).unwrap();
    take(&ctl).unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_lock_or_with_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let guard = take(&state).unwrap();
    let owner = state.owner(Uuid::new_v4(), "provision web-0");
    let begun = tokio::time::Instant::now();
    let patience = Duration::from_secs(300);
    let outcome = state.lock_waiting(&key(), owner.clone(), patience).await;
    assert_eq!(refusal(outcome).1, Verdict::Alive);
    assert_eq!(begun.elapsed(), patience);
    // No patience: one attempt, no time.
    let outcome = state.lock_waiting(&key(), owner.clone(), Duration::ZERO).await;
    assert_eq!(refusal(outcome).1, Verdict::Alive);
    assert_eq!(begun.elapsed(), patience);
    let wanted = key();
    let (late, got) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            guard.release()
        },
        state.lock_waiting(&wanted, owner.clone(), patience),
    );
    late.unwrap();
    assert_eq!(got.unwrap().owner().operation, owner.operation);
    let waited = begun.elapsed() - patience;
    assert!((60..65).contains(&waited.as_secs()), "{waited:?}");
}

#[test]
fn an_age_is_never_negative() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(
        age(at("2026-11-30T12:00:00Z"), at("2026-11-30T12:01:30Z")).as_secs(),
        90
    );
    assert_eq!(
        age(at("2026-11-30T12:01:30Z"), at("2026-11-30T12:00:00Z")),
        Duration::ZERO
    );
}

// Real processes: this test binary runs itself with the directory in the environment.

const CHILD: &str = "VMWRIGHT_TEST_LOCK_DIR";

/// Not a test by itself: a process that takes the lock, tells how it went, and holds it until its input ends.
#[test]
fn child() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    let state = StateDir::open(Path::new(&root)).unwrap();
    let mut input = std::io::stdin();
    input.read_exact(&mut [0]).unwrap();
    let outcome = take(&state);
    let told = match &outcome {
        Ok(_) => "won".to_owned(),
        Err(LockError::Held { owner, .. }) => format!("held by {}", owner.as_ref().map_or(0, |o| o.pid)),
        Err(LockError::State(e)) => format!("failed {e}"),
    };
    println!("\n=> {told}");
    let _ = input.read(&mut [0]);
}

struct Contender {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Contender {
    fn start(root: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "state::lock::tests::child", "--nocapture"])
            .env(CHILD, root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    fn go(&mut self) {
        self.input.write_all(b"g").unwrap();
    }

    fn told(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended without a word");
            if let Some(told) = line.strip_prefix("=> ") {
                return told.trim().to_owned();
            }
        }
    }

    fn end(mut self) {
        drop(self.input);
        self.process.wait().unwrap();
    }
}

#[test]
fn a_killed_process_is_succeeded_by_exactly_one_of_twenty() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let mut victim = Contender::start(&root);
    victim.go();
    assert_eq!(victim.told(), "won");
    let state = StateDir::open(&root).unwrap();
    let (owner, verdict) = refusal(take(&state));
    assert_eq!((owner.unwrap().pid, verdict), (victim.process.id(), Verdict::Alive));
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    let seen = state.lock_holder(&key()).unwrap().unwrap();
    assert_eq!(seen.verdict, Verdict::Dead(Proof::ProcessGone));

    let mut contenders: Vec<Contender> = (0..20).map(|_| Contender::start(&root)).collect();
    contenders.iter_mut().for_each(Contender::go);
    let told: Vec<String> = contenders.iter_mut().map(Contender::told).collect();
    let winner = told.iter().position(|t| t == "won").expect("somebody wins");
    let held = format!("held by {}", contenders[winner].process.id());
    for (index, told) in told.iter().enumerate() {
        let wanted = if index == winner { "won" } else { &held };
        assert_eq!(told, wanted, "contender {index}");
    }
    contenders.into_iter().for_each(Contender::end);
    take(&state).unwrap();
}
