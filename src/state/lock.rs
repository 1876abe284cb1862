//! The lock of a VM: one directory, one holder, and a proof before it changes hands without being given.
//!
//! ```text
//!             take the guard   (locks/.guard-<key>, an OS lock held for moments, waited for up to 10 s)
//!                   |
//!        OS lock on locks/.alive-<key> -- held by another --> Held: it lives, fail at once
//!                   | ours, kept until release or death
//!            mkdir locks/<key> ---------- exists --> read owner.json, judge (see `owner`)
//!                   | made                                  | dead             | anything else
//!            write owner.json <-----------------------------+                  +--> Held: `unlock` it by hand
//!                   |
//!             free the guard
//! ```
//!
//! Released in the opposite order, under the guard: the directory is renamed aside (this one step frees the lock), then
//! deleted, then the OS lock is freed.
//!
//! Deaths: before `mkdir` nothing is there. Between `mkdir` and `owner.json` an empty directory stays; since the OS lock is
//! taken *before* `mkdir`, a free one proves that its maker is dead. With `owner.json` the pid, its start time and the boot
//! must agree that the holder is gone. Between rename and deletion `.gone-<key>` stays, which the next holder sweeps away.
//! The guard makes judging and taking over one step, so of any number of contenders exactly one wins; it dies with its
//! process, and lock files are never deleted, so nobody can hold a lock on a file that is no longer the file of that name.
//!
//! On a filesystem that other hosts share OS locks prove nothing and may block: there `mkdir` alone is the lock, and only
//! its holder or a person ([`StateDir::force_unlock`]) ends it.
//!
//! A holder looks whether the lock is still its own before each write ([`LockGuard::check`]), and never removes a lock that
//! has another operation id in it.

mod held;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs2::{FileExt, TryLockError};
use jiff::Timestamp;

use held::age;
pub use held::{LockError, LockState};

use super::StateDir;
use super::error::{StateError, StateErrorKind};
use super::filesystem::Filesystem;
use super::identity::Process;
use super::owner::{Doubt, Evidence, Owner, OwnerFile, Verdict, judge};
use super::record::VmKey;
use super::store::temp_path;

/// How long the guard is waited for. It is held for a few file operations, so only a stopped process can need more.
const GUARD_PATIENCE: Duration = Duration::from_secs(10);

/// The right to work on one VM. Dropping it gives the lock back.
#[derive(Debug)]
pub struct LockGuard {
    state: StateDir,
    key: VmKey,
    owner: Owner,
    /// The OS lock that tells others that we live; none on a shared filesystem.
    alive: Option<OsLock>,
    released: bool,
}

/// An OS lock that is ours. It is freed explicitly: closing the file is not enough while a child that another thread is just
/// starting still has a copy of the handle, until its `exec` closes that.
#[derive(Debug)]
struct OsLock(File);

impl Drop for OsLock {
    fn drop(&mut self) {
        // Closing the file follows in any case.
        let _ = FileExt::unlock(&self.0);
    }
}

impl StateDir {
    /// Takes the lock of a VM, or fails at once. Blocks for a few file operations.
    ///
    /// # Errors
    /// [`LockError::Held`] if somebody has it who is not proven dead; [`LockError::State`] if the directory fails.
    pub fn lock(&self, key: &VmKey, owner: Owner) -> Result<LockGuard, LockError> {
        self.create_layout()?;
        let alive = match self.filesystem()? {
            Filesystem::Local => {
                let Some(_guard) = self.guard(key)? else {
                    return Err(self.held(key, Verdict::Alive));
                };
                let Some(alive) = self.try_os_lock(&self.alive_path(key))? else {
                    return Err(self.held(key, Verdict::Alive));
                };
                self.occupy(key, &owner)?;
                Some(alive)
            }
            Filesystem::Shared(_) => {
                self.occupy(key, &owner)?;
                None
            }
        };
        self.remove_aside(key);
        self.sweep(key);
        Ok(LockGuard {
            state: self.clone(),
            key: key.clone(),
            owner,
            alive,
            released: false,
        })
    }

    /// [`StateDir::lock`] that tries again while somebody holds it, for at most `patience`, without blocking the runtime.
    ///
    /// # Errors
    /// As [`StateDir::lock`]; [`LockError::Held`] once the time is up.
    pub async fn lock_waiting(&self, key: &VmKey, owner: Owner, patience: Duration) -> Result<LockGuard, LockError> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut pause = Duration::from_millis(100);
        loop {
            let (state, tried_key) = (self.clone(), key.clone());
            let mut tried_owner = owner.clone();
            tried_owner.since = Timestamp::now();
            let tried = tokio::task::spawn_blocking(move || state.lock(&tried_key, tried_owner)).await;
            let outcome = tried.unwrap_or_else(|e| {
                let error = StateError::io(io::Error::other(e), "take", &self.lock_path(key));
                Err(error.into())
            });
            match outcome {
                Err(LockError::Held { .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep_until(deadline.min(tokio::time::Instant::now() + pause)).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                decided => return decided,
            }
        }
    }

    /// Who holds the lock of a VM now; none if nobody does. Changes nothing.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn lock_holder(&self, key: &VmKey) -> Result<Option<LockState>, StateError> {
        if !self.exists(&self.lock_path(key))? {
            return Ok(None);
        }
        let verdict = match self.filesystem()? {
            Filesystem::Shared(name) => Verdict::Unproven(Doubt::SharedFilesystem(name)),
            Filesystem::Local => match self.guard(key)? {
                Some(_guard) => self.examine(key)?,
                None => Verdict::Alive,
            },
        };
        // It may have been given back while we looked.
        if !self.exists(&self.lock_path(key))? {
            return Ok(None);
        }
        Ok(Some(self.lock_state(key, verdict)))
    }

    /// The keys of all VMs that are locked, sorted.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn locked(&self) -> Result<Vec<VmKey>, StateError> {
        Ok(self
            .list("locks")?
            .into_iter()
            .filter_map(|name| VmKey::try_from(name).ok())
            .collect())
    }

    /// Ends the lock of a holder that a person has found to be dead. `seen` is what that person was shown: if somebody else
    /// holds it by now, or the holder is seen to live on this host, nothing is changed.
    ///
    /// # Errors
    /// [`LockError::Held`] if it is not the lock that was shown or its holder lives; [`LockError::State`] if the directory fails.
    pub fn force_unlock(&self, key: &VmKey, seen: &LockState) -> Result<(), LockError> {
        let local = self.filesystem()? == Filesystem::Local;
        let _guard = if local {
            match self.guard(key)? {
                Some(guard) => Some(guard),
                None => return Err(self.held(key, Verdict::Alive)),
            }
        } else {
            None
        };
        if !self.exists(&self.lock_path(key))? {
            return Ok(());
        }
        let now = self.lock_state(key, seen.verdict.clone());
        if now.owner.as_ref().map(|o| o.operation) != seen.owner.as_ref().map(|o| o.operation) {
            return Err(self.held(key, Verdict::Alive));
        }
        if local && self.examine(key)? == Verdict::Alive {
            return Err(self.held(key, Verdict::Alive));
        }
        Ok(self.vacate(key)?)
    }

    /// The directory that is the lock: for messages.
    pub fn lock_path(&self, key: &VmKey) -> PathBuf {
        self.path().join("locks").join(key.as_str())
    }

    fn owner_path(&self, key: &VmKey) -> PathBuf {
        self.lock_path(key).join("owner.json")
    }

    fn alive_path(&self, key: &VmKey) -> PathBuf {
        self.path().join("locks").join(format!(".alive-{key}"))
    }

    fn aside_path(&self, key: &VmKey) -> PathBuf {
        self.path().join("locks").join(format!(".gone-{key}"))
    }

    /// Makes the lock's directory, or takes it over from a dead holder, and writes our name into it. Under the guard and
    /// with the OS lock ours, where there are such.
    fn occupy(&self, key: &VmKey, owner: &Owner) -> Result<(), LockError> {
        let dir = self.lock_path(key);
        let made = match self.store.create_dir(&dir) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                match self.verdict(key, false)? {
                    verdict @ Verdict::Dead(_) => {
                        tracing::warn!(lock = %dir.display(), "taking the lock over: {}", verdict.reason());
                    }
                    verdict => return Err(self.held(key, verdict)),
                }
                false
            }
            Err(e) => return Err(StateError::io(e, "create the lock", &dir).into()),
        };
        let path = self.owner_path(key);
        let written = serde_json::to_vec_pretty(owner)
            .map_err(io::Error::from)
            .and_then(|bytes| self.store.write_atomic(&path, &bytes));
        if let Err(e) = written {
            if made {
                // Best effort: an empty directory with a free OS lock is a proven death as well.
                let _ = self.store.remove_file(&temp_path(&path));
                let _ = self.store.remove_dir(&dir);
            }
            return Err(StateError::io(e, "write the owner of the lock", &path).into());
        }
        Ok(())
    }

    /// Ends the lock in one step, then deletes what is left of it.
    fn vacate(&self, key: &VmKey) -> Result<(), StateError> {
        let dir = self.lock_path(key);
        self.remove_aside(key);
        self.store
            .rename_dir(&dir, &self.aside_path(key))
            .map_err(|e| StateError::io(e, "give back the lock", &dir))?;
        self.remove_aside(key);
        Ok(())
    }

    /// Deletes a former lock that was renamed aside. Best effort: it blocks nobody, and the next holder tries again.
    fn remove_aside(&self, key: &VmKey) {
        let aside = self.aside_path(key);
        let Ok(names) = self.store.list(&aside) else {
            return;
        };
        for name in names {
            let _ = self.store.remove_file(&aside.join(name));
        }
        let _ = self.store.remove_dir(&aside);
    }

    /// Takes the guard; none if another process holds it for longer than any of them should.
    fn guard(&self, key: &VmKey) -> Result<Option<OsLock>, StateError> {
        let path = self.path().join("locks").join(format!(".guard-{key}"));
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(file) = self.try_os_lock(&path)? {
                return Ok(Some(file));
            }
            if begun.elapsed() > GUARD_PATIENCE {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Takes an OS lock; none if it is held.
    fn try_os_lock(&self, path: &Path) -> Result<Option<OsLock>, StateError> {
        let file = self
            .store
            .lock_file(path)
            .map_err(|e| StateError::io(e, "open the lock file", path))?;
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(Some(OsLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(StateError::io(e, "lock", path)),
        }
    }

    /// Looks whether the holder lives, under the guard. The OS lock is let go of at once.
    fn examine(&self, key: &VmKey) -> Result<Verdict, StateError> {
        let held = self.try_os_lock(&self.alive_path(key))?.is_none();
        self.verdict(key, held)
    }

    fn verdict(&self, key: &VmKey, os_lock_held: bool) -> Result<Verdict, StateError> {
        let owner = self.owner_file(key);
        let process = match &owner {
            OwnerFile::Read(owner) => self.identity.processes.look(owner.pid),
            OwnerFile::Missing | OwnerFile::Unreadable(_) => Process::Unknown,
        };
        Ok(judge(&Evidence {
            filesystem: self.filesystem()?,
            os_lock_held,
            owner: &owner,
            us: &self.identity,
            process,
        }))
    }

    fn owner_file(&self, key: &VmKey) -> OwnerFile {
        match self.store.read(&self.owner_path(key)) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(owner) => OwnerFile::Read(Box::new(owner)),
                Err(e) => OwnerFile::Unreadable(e.to_string()),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => OwnerFile::Missing,
            Err(e) => OwnerFile::Unreadable(e.to_string()),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool, StateError> {
        match self.store.facts(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(StateError::io(e, "look at the lock", path)),
        }
    }

    fn lock_state(&self, key: &VmKey, verdict: Verdict) -> LockState {
        let owner = match self.owner_file(key) {
            OwnerFile::Read(owner) => Some(*owner),
            OwnerFile::Missing | OwnerFile::Unreadable(_) => None,
        };
        LockState {
            path: self.lock_path(key),
            age: owner.as_ref().map(|o| age(o.since, Timestamp::now())),
            owner,
            verdict,
        }
    }

    fn held(&self, key: &VmKey, verdict: Verdict) -> LockError {
        LockError::from(self.lock_state(key, verdict))
    }
}

impl LockGuard {
    /// The VM.
    pub fn key(&self) -> &VmKey {
        &self.key
    }

    /// Who we said we are.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Whether the lock is still ours. Asked before each write of a record.
    ///
    /// # Errors
    /// [`StateErrorKind::LockLost`] if it was taken away.
    pub fn check(&self) -> Result<(), StateError> {
        match self.state.owner_file(&self.key) {
            OwnerFile::Read(owner) if owner.operation == self.owner.operation => Ok(()),
            OwnerFile::Read(_) | OwnerFile::Missing | OwnerFile::Unreadable(_) => Err(StateError::new(
                StateErrorKind::LockLost,
                "go on under the lock",
                &self.state.lock_path(&self.key),
            )),
        }
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// The lock was taken away (and is left alone), or the disk refuses; then the lock stays, and can be taken over once
    /// this process has ended.
    pub fn release(mut self) -> Result<(), StateError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), StateError> {
        if self.released {
            return Ok(());
        }
        self.released = true;
        // Without patience left it goes on unguarded: as long as we hold the OS lock nobody can take the lock over.
        let guard = match &self.alive {
            Some(_) => self.state.guard(&self.key)?,
            None => None,
        };
        let outcome = self.check().and_then(|()| self.state.vacate(&self.key));
        // The OS lock before the guard, so that the next in line finds the lock free in every respect.
        self.alive = None;
        drop(guard);
        outcome
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::warn!(%error, "the lock was not given back");
        }
    }
}

#[cfg(test)]
mod tests;
