//! The world on disk: one file, written whole and renamed, by a thread of its own soon after a change.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::world::{SCHEMA, World};

const WORLD_FILE: &str = "world.json";
const LOCK_FILE: &str = "lock";

/// Why a world cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Another process has it.
    #[error("the world in {dir} is in use by another process (pid {pid})")]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// What the lock file says.
        pid: String,
    },
    /// The file is no world of this version.
    #[error("{path} is no world of this version: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The directory cannot be read or written.
    #[error("cannot use {path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Writes a file whole: a temporary one, renamed; readable by its owner only.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// The directory's lock, held while this lives.
#[derive(Debug)]
pub(crate) struct DirLock(#[expect(dead_code, reason = "the lock lives as long as the file")] std::fs::File);

/// Makes the directory and takes its lock.
pub(crate) fn lock(dir: &Path) -> Result<DirLock, KeepError> {
    let io_error = |source| KeepError::Io {
        path: dir.to_owned(),
        source,
    };
    std::fs::create_dir_all(dir).map_err(io_error)?;
    let path = dir.join(LOCK_FILE);
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io_error)?;
    if fs2::FileExt::try_lock(&file).is_err() {
        return Err(KeepError::InUse {
            dir: dir.to_owned(),
            pid: std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned(),
        });
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(io_error)?;
    Ok(DirLock(file))
}

/// The saved world of a directory, if there is one.
pub(crate) fn load(dir: &Path) -> Result<Option<World>, KeepError> {
    let path = dir.join(WORLD_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(KeepError::Io { path, source }),
    };
    let world: World = serde_json::from_slice(&bytes).map_err(|e| KeepError::Unreadable {
        path: path.clone(),
        why: e.to_string(),
    })?;
    if world.schema != SCHEMA {
        return Err(KeepError::Unreadable {
            path,
            why: format!("its schema is {}, not {SCHEMA}", world.schema),
        });
    }
    Ok(Some(world))
}

/// Saves a world.
pub(crate) fn save(dir: &Path, bytes: &[u8]) -> Result<(), KeepError> {
    let path = dir.join(WORLD_FILE);
    write_private(&path, bytes).map_err(|source| KeepError::Io { path, source })
}

/// Tells the saving thread that there is something to save, and that it shall end.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<(bool, bool)>,
    rung: Condvar,
}

impl Bell {
    /// There is something to save.
    pub(crate) fn ring(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.rung.notify_one();
    }

    /// The thread shall end.
    pub(crate) fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.rung.notify_one();
    }

    /// Waits for something to save and then a little, so that changes come together; false at the end.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.0 && !state.1 {
            state = self.rung.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.1 {
            return false;
        }
        let (mut state, _) = self
            .rung
            .wait_timeout_while(state, Duration::from_millis(250), |s| !s.1)
            .unwrap_or_else(PoisonError::into_inner);
        state.0 = false;
        !state.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::spec::WorldSpec;

    #[test]
    fn a_world_survives_its_file_and_a_directory_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).unwrap().is_none());
        let world = World::new(&WorldSpec::default(), 7).unwrap();
        save(dir.path(), &serde_json::to_vec(&world).unwrap()).unwrap();
        let back = load(dir.path()).unwrap().unwrap();
        assert_eq!(back.vms[&9000].config, world.vms[&9000].config);
        let held = lock(dir.path()).unwrap();
        let error = lock(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
        drop(held);
        lock(dir.path()).unwrap();
        std::fs::write(dir.path().join(WORLD_FILE), "{\"schema\": 99}").unwrap();
        assert!(matches!(load(dir.path()), Err(KeepError::Unreadable { .. })));
    }
}
