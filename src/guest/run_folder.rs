//! The private folder of one run: control sockets, configurations for `ssh`, keys that were learned. No secrets.
//!
//! ```text
//!   make vmw-XXXXXX (0700) ──> alive.new ──> flock ──> rename to alive ──> in use ──> drop: removed
//!                                                                            │ SIGKILL
//!                                                    next run: flock on alive is free ──> removed
//! ```
//!
//! A killed run cannot remove its folder, but its locks end with it: the next run sweeps what nobody holds. The mark gets
//! its name only when it is locked, so a folder without one belongs to a run that is just beginning, and is left alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs2::FileExt;
use tempfile::TempDir;

use super::remote::SshError;
use super::ssh_process::private_folder;

/// The longest base folder, in bytes, so that the path of a control socket stays below 104 bytes (the smallest limit).
const BASE_MAX: usize = 58;
const PREFIX: &str = "vmw-";
const ALIVE: &str = "alive";

/// A run's folder. Dropping it removes it.
pub struct RunFolder {
    folder: TempDir,
    /// Locked as long as the run lives.
    _alive: File,
}

impl RunFolder {
    /// A folder in `$XDG_RUNTIME_DIR`, or in the temporary folder. Folders of killed runs that are found there go.
    ///
    /// # Errors
    /// [`SshError::Setup`] if no such folder can be made.
    pub fn new() -> Result<Self, SshError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let bases = [runtime, Some(std::env::temp_dir()), Some(PathBuf::from("/tmp"))];
        let mut why = "no folder with a short path".to_owned();
        for base in bases.into_iter().flatten() {
            if !base.is_absolute() || base.as_os_str().len() > BASE_MAX {
                continue;
            }
            match Self::within(&base) {
                Ok(folder) => return Ok(folder),
                Err(e) => why = format!("no private folder in {}: {e}", base.display()),
            }
        }
        Err(SshError::Setup(why))
    }

    fn within(base: &Path) -> io::Result<Self> {
        let folder = private_folder(PREFIX, base)?;
        let unnamed = folder.path().join("alive.new");
        let alive = File::create_new(&unnamed)?;
        FileExt::lock(&alive)?;
        fs::rename(&unnamed, folder.path().join(ALIVE))?;
        // Only folders of the same user: in a shared /tmp others may call theirs the same.
        let owner = fs::metadata(folder.path())?.uid();
        sweep(base, owner);
        Ok(Self { folder, _alive: alive })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of runs that were killed. What cannot be removed harms nobody.
fn sweep(base: &Path, owner: u32) {
    let names = fs::read_dir(base).into_iter().flatten().flatten();
    for entry in names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let folder = entry.path();
        let ours = fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir() && meta.uid() == owner);
        if ours
            && let Ok(alive) = File::open(folder.join(ALIVE))
            && FileExt::try_lock(&alive).is_ok()
        {
            let _gone = fs::remove_dir_all(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_killed_run_goes_with_the_next_and_no_other() {
        let base = tempfile::tempdir().unwrap();
        let living = RunFolder::within(base.path()).unwrap();
        let killed = base.path().join("vmw-killed");
        fs::create_dir_all(killed.join("s-1")).unwrap();
        fs::write(killed.join(ALIVE), "").unwrap();
        let beginning = base.path().join("vmw-beginning");
        fs::create_dir(&beginning).unwrap();
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join(ALIVE), "").unwrap();
        std::os::unix::fs::symlink(&other, base.path().join("vmw-link")).unwrap();

        let next = RunFolder::within(base.path()).unwrap();

        assert!(!killed.exists());
        for kept in [living.path(), next.path(), &beginning, &other] {
            assert!(kept.is_dir(), "{}", kept.display());
        }
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
