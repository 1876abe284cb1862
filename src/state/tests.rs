//! Tests of the directory and of records; locks and journals have their own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::record::tests::phases;
use super::*;
use crate::diagnose::Exit;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn key() -> VmKey {
    VmKey::of("pve1", 8006, "web-0")
}

fn record(phase: usize) -> Record {
    Record::new("PVE1", 8006, "web-0.example.org", "web-0", phases().remove(phase))
}

fn locked(state: &StateDir) -> LockGuard {
    state
        .lock(&key(), state.owner(Uuid::new_v4(), "provision web-0"))
        .unwrap()
}

#[test]
fn a_record_is_written_read_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("a/b/state")).unwrap();
    assert_eq!(state.read_record(&key()).unwrap(), None);
    let guard = locked(&state);
    let first = record(0);
    state.write_record(&guard, &first).unwrap();
    assert_eq!(state.read_record(&key()).unwrap().as_ref(), Some(&first));
    let second = first.with(phases().remove(1));
    state.write_record(&guard, &second).unwrap();
    assert_eq!(state.read_record(&key()).unwrap().as_ref(), Some(&second));
    assert_eq!(second.created, first.created);
    assert_eq!(state.records().unwrap(), [key()]);
    state.delete_record(&guard).unwrap();
    state.delete_record(&guard).unwrap();
    assert_eq!(state.read_record(&key()).unwrap(), None);
    assert_eq!(state.records().unwrap(), []);
}

#[test]
fn everything_is_for_the_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("way/state")).unwrap();
    let guard = locked(&state);
    state.write_record(&guard, &record(0)).unwrap();
    let journal = state.open_journal(crate::secret::Redactor::default());
    journal.append(&"event").unwrap();
    let mut seen = 0;
    let mut todo = vec![dir.path().join("way")];
    while let Some(path) = todo.pop() {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        seen += 1;
    }
    assert_eq!(
        seen, 11,
        "way, state, locks, records, runs, lock, owner, guard, alive, record, journal"
    );
}

/// Runs a test of this file as a process of its own under another umask.
#[test]
fn modes_hold_whatever_the_umask_is() {
    for umask in ["000", "022", "077", "0277"] {
        let ran = Command::new("sh")
            .args([
                "-c",
                "umask $1; exec \"$0\" --exact state::tests::everything_is_for_the_owner_only",
            ])
            .arg(std::env::current_exe().unwrap())
            .arg(umask)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && told.contains("1 passed"),
            "umask {umask}: {told}"
        );
    }
}

#[test]
fn a_directory_that_lets_others_in_is_an_error_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    StateDir::open(&root).unwrap();
    for (path, loose) in [
        (root.clone(), 0o755),
        (root.join("records"), 0o710),
        (root.join("locks"), 0o701),
    ] {
        chmod(&path, loose);
        for error in [StateDir::open(&root).unwrap_err(), StateDir::peek(&root).unwrap_err()] {
            let kind = StateErrorKind::LooseMode {
                mode: loose,
                wanted: 0o700,
            };
            assert_eq!((error.kind.clone(), &error.path), (kind, &path));
            let said = error.diagnostic();
            assert!(
                said.help
                    .iter()
                    .any(|h| h.ends_with(&format!("chmod 700 {}", path.display())))
            );
            assert_eq!((said.code, said.exit), ("state/loose-mode", Exit::Usage));
        }
        assert_eq!(mode(&path), loose);
        chmod(&path, 0o700);
    }
    StateDir::open(&root).unwrap();
}

#[test]
fn what_belongs_to_somebody_else_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let state = StateDir::open(&root).unwrap();
    state.write_record(&locked(&state), &record(0)).unwrap();
    let mut stranger = Identity::current();
    let us = stranger.uid;
    stranger.uid = us + 1;
    let error = StateDir::open_with(&root, Arc::new(DirectoryStore), stranger).unwrap_err();
    assert_eq!(error.kind, StateErrorKind::ForeignOwner { owner: us, us: us + 1 });
    assert_eq!(error.diagnostic().exit, Exit::Usage);
    assert_eq!(
        error.diagnostic().help[0],
        format!("if it is yours: sudo chown {} {}", us + 1, root.display())
    );
    if us != 0 {
        eprintln!("SKIPPED: only root can give a record away");
        return;
    }
    std::os::unix::fs::chown(state.record_path(&key()), Some(1000), None).unwrap();
    let error = state.read_record(&key()).unwrap_err();
    assert_eq!(error.kind, StateErrorKind::ForeignOwner { owner: 1000, us: 0 });
    assert_eq!(error.diagnostic().exit, Exit::Refused);
}

#[test]
fn something_else_in_the_way_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    assert_eq!(StateDir::open(&file).unwrap_err().kind, StateErrorKind::NotADirectory);
    let below = StateDir::open(&file.join("state")).unwrap_err();
    assert_eq!(below.kind, StateErrorKind::NotADirectory);
    let root = dir.path().join("state");
    StateDir::open(&root).unwrap();
    fs::remove_dir(root.join("records")).unwrap();
    symlink("/tmp", root.join("records")).unwrap();
    assert_eq!(StateDir::open(&root).unwrap_err().kind, StateErrorKind::NotADirectory);
}

#[test]
fn the_state_directory_may_be_reached_by_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    StateDir::open(&real).unwrap();
    let link = dir.path().join("link");
    symlink(&real, &link).unwrap();
    StateDir::open(&link).unwrap();
    chmod(&real, 0o750);
    let error = StateDir::open(&link).unwrap_err();
    assert!(matches!(error.kind, StateErrorKind::LooseMode { .. }));
}

#[test]
fn looking_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let state = StateDir::peek(&root).unwrap();
    assert_eq!(state.read_record(&key()).unwrap(), None);
    assert_eq!(state.records().unwrap(), []);
    assert_eq!(state.locked().unwrap(), []);
    assert_eq!(state.lock_holder(&key()).unwrap(), None);
    assert_eq!(state.runs().unwrap(), []);
    assert_eq!(state.warnings().unwrap(), []);
    assert!(!root.exists());
}

#[test]
fn a_record_that_cannot_be_trusted_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let guard = locked(&state);
    state.write_record(&guard, &record(1)).unwrap();
    let path = state.record_path(&key());
    let good = fs::read(&path).unwrap();
    let refused = |wanted: &str| {
        let before = fs::symlink_metadata(&path).unwrap().len();
        let error = state.read_record(&key()).unwrap_err();
        assert_eq!(
            (error.diagnostic().code, error.diagnostic().exit),
            (wanted, Exit::Refused)
        );
        assert!(!error.diagnostic().help.is_empty());
        // Writing does not get past it either.
        let write = state.write_record(&guard, &record(2)).unwrap_err();
        assert_eq!(write.diagnostic().code, wanted);
        assert_eq!(fs::symlink_metadata(&path).unwrap().len(), before);
    };
    let put = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        chmod(&path, 0o600);
    };
    put(&good[..good.len() / 2]);
    refused("state/corrupt-record");
    put(b"");
    refused("state/corrupt-record");
    put(String::from_utf8_lossy(&good)
        .replace("\"schema\": 1", "\"schema\": 9")
        .as_bytes());
    refused("state/future-version");
    put(&Record::new("pve2", 8006, "web-0", "web-0", phases().remove(1))
        .to_bytes()
        .unwrap());
    refused("state/wrong-key");
    put(&good);
    chmod(&path, 0o640);
    refused("state/loose-mode");
    fs::remove_file(&path).unwrap();
    symlink("/dev/null", &path).unwrap();
    refused("state/not-a-file");
    fs::remove_file(&path).unwrap();
    put(&good);
    assert_eq!(
        state.read_record(&key()).unwrap().map(|r| r.phase),
        Some(record(1).phase)
    );
}

#[test]
fn a_step_that_the_machine_does_not_have_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let guard = locked(&state);
    let refused = |record: &Record, from: &str, to: &str| {
        let kind = StateErrorKind::IllegalTransition {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        assert_eq!(state.write_record(&guard, record).unwrap_err().kind, kind);
    };
    refused(&record(5), "none", "removing");
    state.write_record(&guard, &record(0)).unwrap();
    refused(&record(4), "cloning", "complete");
    assert_eq!(
        state.read_record(&key()).unwrap().map(|r| r.phase),
        Some(record(0).phase)
    );
    let other = Record::new("pve1", 8006, "db-0", "db-0", phases().remove(1));
    let error = state.write_record(&guard, &other).unwrap_err();
    assert!(matches!(error.kind, StateErrorKind::WrongKey { .. }));
}

/// A disk that is full for every file that is replaced.
fn full_disk() -> Arc<dyn Store> {
    let no_space = || Fate::Fails(rustix::io::Errno::NOSPC.into());
    Arc::new(GatedStore::new(Arc::new(DirectoryStore), move |effect| match effect {
        Effect::WriteAtomic(_) => no_space(),
        Effect::Append(_)
        | Effect::CreateDir(_)
        | Effect::RenameDir(..)
        | Effect::RemoveFile(_)
        | Effect::RemoveDir(_)
        | Effect::LockFile(_) => Fate::Happens,
    }))
}

#[test]
fn a_full_disk_is_told_and_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let state = StateDir::open(&root).unwrap();
    let full = StateDir::open_with(&root, full_disk(), Identity::current()).unwrap();
    let guard = locked(&state);
    state.write_record(&guard, &record(0)).unwrap();
    let error = full.write_record(&guard, &record(1)).unwrap_err();
    assert_eq!(
        (error.diagnostic().code, error.diagnostic().exit),
        ("state/disk-full", Exit::HostFailed)
    );
    assert!(error.diagnostic().help[0].contains("df -h"));
    assert_eq!(
        state.read_record(&key()).unwrap().map(|r| r.phase),
        Some(record(0).phase)
    );
    guard.release().unwrap();
    // A lock that cannot be signed is not taken, and nothing of it stays.
    let refused = full
        .lock(&key(), full.owner(Uuid::new_v4(), "provision web-0"))
        .unwrap_err();
    assert!(matches!(refused, LockError::State(e) if e.kind == StateErrorKind::DiskFull));
    assert!(!state.lock_path(&key()).exists());
}

#[test]
fn a_journal_goes_on_after_an_append_that_failed_half_way() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let short = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_short = short.clone();
    let store = GatedStore::new(Arc::new(DirectoryStore), move |effect| match effect {
        Effect::Append(path) if is_short.swap(false, std::sync::atomic::Ordering::SeqCst) => {
            DirectoryStore.append(path, b"{\"event\":\"lo", false).unwrap();
            Fate::Fails(rustix::io::Errno::NOSPC.into())
        }
        _ => Fate::Happens,
    });
    let state = StateDir::open_with(&root, Arc::new(store), Identity::current()).unwrap();
    let journal = state.open_journal(crate::secret::Redactor::default());
    let error = journal.append(&serde_json::json!({"event": "lost"})).unwrap_err();
    assert_eq!(error.kind, StateErrorKind::DiskFull);
    journal.append(&serde_json::json!({"event": "kept"})).unwrap();
    let log = state.read_run(journal.run()).unwrap();
    assert_eq!(log.events, [serde_json::json!({"event": "kept"})]);
    assert_eq!((log.torn, log.damaged), (false, vec![1]));
}
