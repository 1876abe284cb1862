//! A store with a gate in the doorway: tests decide the fate of every effect, and let the process "die" at any of them.
//!
//! After a death nothing passes any more, neither effects nor looks, just as for a process that is gone. What the dead
//! process held of OS locks is freed when its handles are dropped.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::filesystem::Filesystem;
use super::store::{Facts, Store, temp_path};

/// An effect on its way through the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'e> {
    /// [`Store::create_dir`].
    CreateDir(&'e Path),
    /// [`Store::write_atomic`].
    WriteAtomic(&'e Path),
    /// [`Store::append`].
    Append(&'e Path),
    /// [`Store::rename_dir`]: from, to.
    RenameDir(&'e Path, &'e Path),
    /// [`Store::remove_file`].
    RemoveFile(&'e Path),
    /// [`Store::remove_dir`].
    RemoveDir(&'e Path),
    /// [`Store::lock_file`].
    LockFile(&'e Path),
}

/// What becomes of it.
#[derive(Debug)]
pub enum Fate {
    /// It happens.
    Happens,
    /// It does not happen, and the caller is told why.
    Fails(io::Error),
    /// The process dies before it.
    DiesBefore,
    /// The process dies in the middle: of what was to be written the first half is on the disk. Like
    /// [`Fate::DiesBefore`] for effects that are atomic by nature.
    Torn,
    /// It happens, and the process dies before it hears of it.
    DiesAfter,
}

/// Decides the fate of each effect.
pub type Gate = dyn Fn(Effect<'_>) -> Fate + Send + Sync;

/// The store with the gate.
pub struct GatedStore {
    inner: Arc<dyn Store>,
    gate: Box<Gate>,
    filesystem: Option<Filesystem>,
    dead: AtomicBool,
}

impl fmt::Debug for GatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedStore")
            .field("inner", &self.inner)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

impl GatedStore {
    /// A gate before `inner`.
    pub fn new(inner: Arc<dyn Store>, gate: impl Fn(Effect<'_>) -> Fate + Send + Sync + 'static) -> Self {
        Self {
            inner,
            gate: Box::new(gate),
            filesystem: None,
            dead: AtomicBool::new(false),
        }
    }

    /// Says that the directory is on such a filesystem.
    #[must_use]
    pub fn on(mut self, filesystem: Filesystem) -> Self {
        self.filesystem = Some(filesystem);
        self
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn alive(&self) -> io::Result<&dyn Store> {
        if self.is_dead() {
            Err(io::Error::other("this process is dead"))
        } else {
            Ok(&*self.inner)
        }
    }

    fn die<T>(&self) -> io::Result<T> {
        self.dead.store(true, Ordering::SeqCst);
        Err(io::Error::other("this process dies"))
    }

    fn pass<T>(
        &self,
        effect: Effect<'_>,
        act: impl FnOnce(&dyn Store) -> io::Result<T>,
        half: impl FnOnce(&dyn Store),
    ) -> io::Result<T> {
        let inner = self.alive()?;
        match (self.gate)(effect) {
            Fate::Happens => act(inner),
            Fate::Fails(error) => Err(error),
            Fate::DiesBefore => self.die(),
            Fate::Torn => {
                half(inner);
                self.die()
            }
            Fate::DiesAfter => {
                // An effect that fails is heard of: only success can be lost.
                act(inner)?;
                self.die()
            }
        }
    }
}

impl Store for GatedStore {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.pass(Effect::CreateDir(path), |s| s.create_dir(path), |_| {})
    }

    fn write_atomic(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let half = |s: &dyn Store| {
            // Such a file is what a death between write and rename leaves.
            let _ = s.append(&temp_path(path), &content[..content.len() / 2], false);
        };
        self.pass(Effect::WriteAtomic(path), |s| s.write_atomic(path, content), half)
    }

    fn append(&self, path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
        let half = |s: &dyn Store| {
            let _ = s.append(path, &content[..content.len() / 2], sync);
        };
        self.pass(Effect::Append(path), |s| s.append(path, content, sync), half)
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Effect::RenameDir(from, to), |s| s.rename_dir(from, to), |_| {})
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.pass(Effect::RemoveFile(path), |s| s.remove_file(path), |_| {})
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.pass(Effect::RemoveDir(path), |s| s.remove_dir(path), |_| {})
    }

    fn lock_file(&self, path: &Path) -> io::Result<File> {
        self.pass(Effect::LockFile(path), |s| s.lock_file(path), |_| {})
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.alive()?.read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.alive()?.list(path)
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.alive()?.facts(path)
    }

    fn filesystem(&self, path: &Path) -> io::Result<Filesystem> {
        match self.filesystem {
            Some(filesystem) => Ok(filesystem),
            None => self.alive()?.filesystem(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;
    use uuid::Uuid;

    use super::super::record::tests::phases;
    use super::super::{DirectoryStore, Identity, Record, StateDir, StateError, VmKey};
    use super::*;
    use crate::secret::Redactor;

    /// Everything that a run does to the state of a VM, going on from what it finds.
    fn run(state: &StateDir) -> Result<(), Box<dyn std::error::Error>> {
        let key = VmKey::of("pve1", 8006, "web-0");
        let guard = state.lock(&key, state.owner(Uuid::new_v4(), "provision web-0"))?;
        let journal = state.open_journal(Redactor::default());
        journal.append(&json!({"event": "began"}))?;
        let steps = phases();
        let from = match state.read_record(&key)? {
            Some(record) => steps
                .iter()
                .position(|step| *step == record.phase)
                .map_or(0, |at| at + 1),
            None => 0,
        };
        for step in &steps[from..] {
            let record = match state.read_record(&key)? {
                Some(record) => record.with(step.clone()),
                None => Record::new("pve1", 8006, "web-0", "web-0", step.clone()),
            };
            state.write_record(&guard, &record)?;
            journal.note(&json!({"event": "wrote", "phase": step.name()}))?;
        }
        state.delete_record(&guard)?;
        guard.release()?;
        Ok(())
    }

    fn open(root: &Path, store: Arc<dyn Store>) -> Result<StateDir, StateError> {
        StateDir::open_with(root, store, Identity::current())
    }

    /// A store that lets one process live until effect number `last`, and then has `fate` for it.
    fn mortal(last: usize, fate: fn() -> Fate) -> (Arc<GatedStore>, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let gate = move |_: Effect<'_>| match counted.fetch_add(1, Ordering::SeqCst) {
            n if n == last => fate(),
            _ => Fate::Happens,
        };
        (Arc::new(GatedStore::new(Arc::new(DirectoryStore), gate)), count)
    }

    /// What must hold after the rerun, looked at without the code under test.
    fn nothing_is_left(root: &Path, point: &str) {
        let names = |dir: &str| -> Vec<String> {
            let entries = std::fs::read_dir(root.join(dir)).unwrap();
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(names("records"), Vec::<String>::new(), "{point}");
        let locks = names("locks");
        assert!(
            locks
                .iter()
                .all(|name| name.starts_with(".alive-") || name.starts_with(".guard-")),
            "{point}: {locks:?}"
        );
    }

    /// In memory where the machine has such a place: thousands of fsyncs add nothing here.
    fn quick_dir() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_rerun_finishes_after_a_death_at_any_one_or_two_effects() {
        let dir = quick_dir();
        let (store, count) = mortal(usize::MAX, || Fate::Happens);
        run(&open(&dir.path().join("whole"), store).unwrap()).unwrap();
        let effects = count.load(Ordering::SeqCst);
        assert!(effects > 25, "{effects}");
        let fates: [fn() -> Fate; 3] = [|| Fate::DiesBefore, || Fate::Torn, || Fate::DiesAfter];
        let mut points = 0;
        for first in 0..effects {
            for fate in fates {
                // The second death is at a few places of the rerun; none is the single death.
                for second in [usize::MAX, 5, 8, 11, 14] {
                    let point = format!("{first} {:?} then {second}", fate());
                    let root = dir.path().join(format!("{points}"));
                    for last in [first, second] {
                        let (store, _) = mortal(last, fate);
                        // It may or may not notice: a death in the clean-up comes after the success.
                        let _ = open(&root, store).map_err(Into::into).and_then(|state| run(&state));
                    }
                    let state = open(&root, Arc::new(DirectoryStore)).unwrap_or_else(|e| panic!("{point}: {e}"));
                    run(&state).unwrap_or_else(|e| panic!("{point}: {e}"));
                    nothing_is_left(&root, &point);
                    for file in state.runs().unwrap() {
                        assert_eq!(
                            state.read_run(file.run).unwrap().damaged,
                            Vec::<usize>::new(),
                            "{point}"
                        );
                    }
                    points += 1;
                }
            }
        }
        println!("{points} deaths of one process or two, {effects} effects each");
    }

    #[test]
    fn a_full_disk_at_any_effect_is_survived_by_a_rerun() {
        let dir = quick_dir();
        let (store, count) = mortal(usize::MAX, || Fate::Happens);
        run(&open(&dir.path().join("whole"), store).unwrap()).unwrap();
        for at in 0..count.load(Ordering::SeqCst) {
            let root = dir.path().join(format!("{at}"));
            let (store, _) = mortal(at, || Fate::Fails(rustix::io::Errno::NOSPC.into()));
            let _ = open(&root, store).map_err(Into::into).and_then(|state| run(&state));
            run(&open(&root, Arc::new(DirectoryStore)).unwrap()).unwrap_or_else(|e| panic!("effect {at}: {e}"));
            nothing_is_left(&root, &format!("effect {at}"));
        }
    }

    #[test]
    fn the_dead_do_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (store, _) = mortal(0, || Fate::Torn);
        assert!(store.append(&path, b"1234", true).is_err());
        assert!(store.is_dead());
        assert!(store.append(&path, b"56", true).is_err() && store.read(&path).is_err());
        assert_eq!(DirectoryStore.read(&path).unwrap(), b"12");
    }
}
