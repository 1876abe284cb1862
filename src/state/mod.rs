//! The state directory: who works on a VM (lock), whose it is and how far it came (record), what a run did (journal).
//!
//! ```text
//! <state>/                       0700, ours; nothing in it is ever secret
//!   locks/<key>/owner.json       the lock of a VM is this directory, made by one atomic mkdir; see `lock`
//!   locks/.guard-<key>           held for moments while a lock is taken, judged or given back; never deleted
//!   locks/.alive-<key>           held by the lock's holder while it lives; never deleted
//!   records/<key>.json           ownership, intent and checkpoint in one; see `record`
//!   runs/<uuid v7>.jsonl         the journal of one run; see `journal`
//! ```
//!
//! The happy path: [`StateDir::open`] once, [`StateDir::lock`] per VM, then [`StateDir::read_record`], and
//! [`StateDir::write_record`] before everything that cannot be repeated; [`LockGuard::release`] at the end.
//!
//! Failures are [`StateError`]s, typed by what can be done. This module never repairs a mode, an owner or a file, never
//! deletes a record by itself, and takes a lock over only from a holder that is proven dead. All effects pass [`Store`].

pub mod error;
pub mod filesystem;
pub mod gated;
pub mod identity;
pub mod journal;
pub mod lock;
pub mod owner;
pub mod record;
pub mod store;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

pub use error::{StateError, StateErrorKind};
pub use filesystem::Filesystem;
pub use gated::{Effect, Fate, GatedStore};
pub use identity::Identity;
pub use journal::{Journal, RunFile, RunLog};
pub use lock::{LockError, LockGuard, LockState};
pub use owner::{Doubt, Owner, Proof, Verdict};
pub use record::{Delivery, FinalizeStep, Phase, Record, RemoveStep, VmKey};
pub use store::{DirectoryStore, Store};

use crate::diagnose::{Diagnostic, Place};
use error::READ_RECORD;
use store::{DIRECTORY_MODE, FILE_MODE, Facts, Kind, temp_path};

/// A state directory. Cheap to clone; all methods may be called from many threads.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
    store: Arc<dyn Store>,
    identity: Arc<Identity>,
}

/// An address that a record tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The address.
    pub address: IpAddr,
    /// The VM's key.
    pub key: VmKey,
    /// The VM's host in the inventory.
    pub host: String,
    /// The VM's name.
    pub name: String,
}

impl StateDir {
    /// Opens the directory for work, making what is missing of it and of the way to it.
    ///
    /// # Errors
    /// A directory that is none, that lets other users in, or that belongs to somebody else; whatever the system reports.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        Self::open_with(root, Arc::new(DirectoryStore), Identity::current())
    }

    /// [`StateDir::open`] with another disk and another process: for tests.
    ///
    /// # Errors
    /// As [`StateDir::open`].
    pub fn open_with(root: &Path, store: Arc<dyn Store>, identity: Identity) -> Result<Self, StateError> {
        let state = Self::unchecked(root, store, identity)?;
        state.create_layout()?;
        Ok(state)
    }

    /// Opens the directory for looking only (`status`, `--plan`): nothing is made, and where nothing is, nothing is seen.
    ///
    /// # Errors
    /// As [`StateDir::open`], for what is there.
    pub fn peek(root: &Path) -> Result<Self, StateError> {
        Self::peek_with(root, Arc::new(DirectoryStore), Identity::current())
    }

    /// [`StateDir::peek`] with another disk and another process: for tests.
    ///
    /// # Errors
    /// As [`StateDir::peek`].
    pub fn peek_with(root: &Path, store: Arc<dyn Store>, identity: Identity) -> Result<Self, StateError> {
        let state = Self::unchecked(root, store, identity)?;
        for dir in state.layout() {
            match state.check_directory(&dir) {
                Err(e) if is_missing(&e) => {}
                other => other?,
            }
        }
        Ok(state)
    }

    fn unchecked(root: &Path, store: Arc<dyn Store>, identity: Identity) -> Result<Self, StateError> {
        let root = std::path::absolute(root).map_err(|e| StateError::io(e, "find", root))?;
        Ok(Self {
            root,
            store,
            identity: Arc::new(identity),
        })
    }

    /// The directory's path, absolute.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// This process as the owner of a lock. `command` is for people: the verb and the host, never arguments as typed.
    pub fn owner(&self, operation: Uuid, command: impl Into<String>) -> Owner {
        Owner::new(operation, command, &self.identity)
    }

    /// What kind of filesystem the directory is on; local while there is none.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn filesystem(&self) -> Result<Filesystem, StateError> {
        match self.store.filesystem(&self.root) {
            Ok(kind) => Ok(kind),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Filesystem::Local),
            Err(e) => Err(StateError::io(e, "look at the filesystem of", &self.root)),
        }
    }

    /// What the user should know about the directory before it is relied on.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn warnings(&self) -> Result<Vec<Diagnostic>, StateError> {
        Ok(match self.filesystem()? {
            Filesystem::Local => Vec::new(),
            Filesystem::Shared(name) => vec![
                Diagnostic::warning(
                    "state/network-filesystem",
                    format!("the state directory is on a filesystem that other hosts may share ({name})"),
                )
                .at(Place::path(&self.root))
                .rule("OS locks prove nothing there: the lock of a run that died is never taken over by itself")
                .help("after such a death: `vmwright unlock HOST --confirm NAME`")
                .help("or keep the state on a local disk, see --state-dir"),
            ],
        })
    }

    /// The record of a VM; none if there is none.
    ///
    /// # Errors
    /// A record that cannot be trusted: see [`StateErrorKind`]. Nothing is changed then.
    pub fn read_record(&self, key: &VmKey) -> Result<Option<Record>, StateError> {
        let path = self.record_path(key);
        let facts = match self.store.facts(&path) {
            Ok(facts) => facts,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StateError::io(e, "read", &path)),
        };
        if facts.kind != Kind::File {
            return Err(StateError::new(StateErrorKind::NotAFile, READ_RECORD, &path));
        }
        self.check_owner_and_mode(&path, facts, FILE_MODE, READ_RECORD)?;
        let bytes = self.store.read(&path).map_err(|e| StateError::io(e, "read", &path))?;
        Record::from_bytes(&bytes, key)
            .map(Some)
            .map_err(|kind| StateError::new(kind, READ_RECORD, &path))
    }

    /// Replaces the record of the locked VM. On success it is on the disk.
    ///
    /// # Errors
    /// The lock is lost, the record is another VM's, the step is none that a record can make, the former record cannot be
    /// trusted, or the disk refuses. The former record is still there then.
    pub fn write_record(&self, guard: &LockGuard, record: &Record) -> Result<(), StateError> {
        const TRIED: &str = "write the record";
        guard.check()?;
        let path = self.record_path(guard.key());
        record
            .check(guard.key())
            .map_err(|kind| StateError::new(kind, TRIED, &path))?;
        let former = self.read_record(guard.key())?;
        let (allowed, from) = match &former {
            Some(former) => (former.phase.may_become(&record.phase), former.phase.name()),
            None => (record.phase.may_begin(), "none"),
        };
        if !allowed {
            let kind = StateErrorKind::IllegalTransition {
                from: from.to_owned(),
                to: record.phase.name().to_owned(),
            };
            return Err(StateError::new(kind, TRIED, &path));
        }
        let bytes = record.to_bytes().map_err(|kind| StateError::new(kind, TRIED, &path))?;
        self.store
            .write_atomic(&path, &bytes)
            .map_err(|e| StateError::io(e, TRIED, &path))
    }

    /// Removes the record of the locked VM, the last step of a removal. It is no error if there is none.
    ///
    /// # Errors
    /// The lock is lost, or the disk refuses.
    pub fn delete_record(&self, guard: &LockGuard) -> Result<(), StateError> {
        guard.check()?;
        let path = self.record_path(guard.key());
        match self.store.remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StateError::io(e, "delete the record", &path)),
            _ => Ok(()),
        }
    }

    /// The keys of all records, sorted.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub fn records(&self) -> Result<Vec<VmKey>, StateError> {
        let names = self.list("records")?;
        let key = |name: &String| VmKey::try_from(name.strip_suffix(".json")?.to_owned()).ok();
        Ok(names.iter().filter_map(key).collect())
    }

    /// The addresses in all records. A record that cannot be read is told when its own VM is worked on.
    pub fn recorded(&self) -> Vec<Recorded> {
        let keys = self.records().unwrap_or_default();
        let records = keys.iter().filter_map(|key| self.read_record(key).ok().flatten());
        records
            .flat_map(|record| {
                let addresses: Vec<IpAddr> = record.phase.addresses().collect();
                addresses.into_iter().map(move |address| Recorded {
                    address,
                    key: record.key.clone(),
                    host: record.host.clone(),
                    name: record.name.clone(),
                })
            })
            .collect()
    }

    /// Where the record of a VM is: for messages.
    pub fn record_path(&self, key: &VmKey) -> PathBuf {
        self.root.join("records").join(format!("{key}.json"))
    }

    /// The names in one of our directories; none where there is no directory.
    fn list(&self, dir: &str) -> Result<Vec<String>, StateError> {
        let path = self.root.join(dir);
        match self.store.list(&path) {
            Ok(names) => Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(StateError::io(e, "list", &path)),
        }
    }

    fn layout(&self) -> [PathBuf; 4] {
        let sub = |name| self.root.join(name);
        [self.root.clone(), sub("locks"), sub("records"), sub("runs")]
    }

    /// Makes what is missing of the directories and checks what is there.
    fn create_layout(&self) -> Result<(), StateError> {
        for dir in self.layout() {
            self.ensure_directory(&dir)?;
            self.check_directory(&dir)?;
        }
        Ok(())
    }

    /// Makes a directory and the way to it.
    fn ensure_directory(&self, path: &Path) -> Result<(), StateError> {
        match self.store.create_dir(path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    self.ensure_directory(parent)?;
                }
                match self.store.create_dir(path) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                        Err(StateError::io(e, "create the directory", path))
                    }
                    _ => Ok(()),
                }
            }
            Err(e) => Err(StateError::io(e, "create the directory", path)),
        }
    }

    /// Whether a directory is one, ours, and closed to others. The state directory itself may be reached by a link.
    fn check_directory(&self, path: &Path) -> Result<(), StateError> {
        const TRIED: &str = "use the state directory";
        let looked = if path == self.root {
            std::fs::canonicalize(path).and_then(|real| self.store.facts(&real))
        } else {
            self.store.facts(path)
        };
        let facts = looked.map_err(|e| StateError::io(e, TRIED, path))?;
        if facts.kind != Kind::Directory {
            return Err(StateError::new(StateErrorKind::NotADirectory, TRIED, path));
        }
        self.check_owner_and_mode(path, facts, DIRECTORY_MODE, TRIED)
    }

    fn check_owner_and_mode(
        &self,
        path: &Path,
        facts: Facts,
        wanted: u32,
        tried: &'static str,
    ) -> Result<(), StateError> {
        let us = self.identity.uid;
        if facts.owner != us {
            let kind = StateErrorKind::ForeignOwner { owner: facts.owner, us };
            return Err(StateError::new(kind, tried, path));
        }
        if facts.mode & 0o077 != 0 {
            let kind = StateErrorKind::LooseMode {
                mode: facts.mode & 0o777,
                wanted,
            };
            return Err(StateError::new(kind, tried, path));
        }
        Ok(())
    }

    /// Removes what a crash left of this VM's files. Called by the lock's new holder.
    fn sweep(&self, key: &VmKey) {
        let temp = temp_path(&self.record_path(key));
        if self.store.facts(&temp).is_ok() {
            let _ = self.store.remove_file(&temp);
        }
    }
}

/// Whether the error says that the path is not there.
fn is_missing(error: &StateError) -> bool {
    error
        .source
        .as_ref()
        .is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
