//! The door to the disk: the handful of effects that the state directory consists of.
//!
//! Everything durable that vmwright does to its state passes one method of [`Store`], so that a test can stand in the
//! doorway and let the process "die" before an effect, after it, or in the middle of a file. [`DirectoryStore`] is the
//! real one:
//!
//! ```text
//! write_atomic: temporary file beside the target (0600) -> write -> fsync -> rename over the target -> fsync(directory)
//! append:       open with O_APPEND (0600) -> one write -> fdatasync      (the first time also fsync(directory))
//! create_dir:   mkdir (0700) -> fsync(parent)                            (fails if it exists: this is what a lock is)
//! rename_dir, remove_file, remove_dir: the call -> fsync(parent)
//! ```
//!
//! Modes are set after creation, so that they hold whatever the umask is. The temporary file has one fixed name per target
//! ([`temp_path`]): targets are only written by the holder of the VM's lock, so there is never a second writer, and what a
//! crash left behind is replaced by the next write instead of piling up.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::filesystem::{self, Filesystem};

/// Mode of every directory.
pub const DIRECTORY_MODE: u32 = 0o700;
/// Mode of every file.
pub const FILE_MODE: u32 = 0o600;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Directory, file or something else; a symbolic link is something else.
    pub kind: Kind,
    /// Permission bits, without the file type.
    pub mode: u32,
    /// The owner's user id.
    pub owner: u32,
    /// Size in bytes.
    pub size: u64,
}

/// The kinds of path that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A link, a socket, a device.
    Other,
}

/// The durable effects, and the looks that go with them. Paths are absolute.
pub trait Store: Send + Sync + fmt::Debug {
    /// Makes one directory, 0700; `AlreadyExists` if there is anything of that name. Atomic.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Puts `content` in place of the file, 0600: afterwards, and after any crash, it is either the old or the new one.
    fn write_atomic(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Adds to the end of the file in one write, making it (0600) if needed; with `sync` it is on the disk afterwards.
    fn append(&self, path: &Path, content: &[u8], sync: bool) -> io::Result<()>;
    /// Moves a directory aside. Atomic; an empty directory of the new name is replaced.
    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens (and makes, 0600) a file that is only there to be locked. It is never removed: two processes could hold
    /// locks on two files of one name.
    fn lock_file(&self, path: &Path) -> io::Result<File>;
    /// The whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// What the path is, links not followed.
    fn facts(&self, path: &Path) -> io::Result<Facts>;
    /// What kind of filesystem the path is on.
    fn filesystem(&self, path: &Path) -> io::Result<Filesystem>;
}

/// The temporary file that [`Store::write_atomic`] uses for a target.
pub fn temp_path(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".new");
    target.with_file_name(name)
}

/// The real directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryStore;

impl Store for DirectoryStore {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
        // The umask can only have taken bits away.
        fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))?;
        sync_parent(path)
    }

    fn write_atomic(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temp = temp_path(path);
        let written = write_new(&temp, content).and_then(|()| fs::rename(&temp, path));
        if let Err(error) = written {
            // Best effort: what stays is replaced by the next write.
            let _ = fs::remove_file(&temp);
            return Err(error);
        }
        sync_parent(path)
    }

    fn append(&self, path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
        let (mut file, new) = open_or_make(path, OpenOptions::new().append(true))?;
        file.write_all(content)?;
        if sync {
            waiting(|| file.sync_data())?;
        }
        if new { sync_parent(path) } else { Ok(()) }
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_parent(to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        sync_parent(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)?;
        sync_parent(path)
    }

    fn lock_file(&self, path: &Path) -> io::Result<File> {
        Ok(open_or_make(path, OpenOptions::new().read(true).write(true))?.0)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(path)?
            .map(|entry| entry.map(|e| e.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        let meta = fs::symlink_metadata(path)?;
        let kind = if meta.is_dir() {
            Kind::Directory
        } else if meta.is_file() {
            Kind::File
        } else {
            Kind::Other
        };
        Ok(Facts {
            kind,
            mode: meta.mode() & 0o7777,
            owner: meta.uid(),
            size: meta.len(),
        })
    }

    fn filesystem(&self, path: &Path) -> io::Result<Filesystem> {
        filesystem::of(path)
    }
}

/// A file of exactly this content and mode, on the disk.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .custom_flags(nofollow())
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(content)?;
    waiting(|| file.sync_all())
}

/// Opens a file, and tells whether it had to be made.
fn open_or_make(path: &Path, how: &mut OpenOptions) -> io::Result<(File, bool)> {
    let made = how
        .clone()
        .create_new(true)
        .mode(FILE_MODE)
        .custom_flags(nofollow())
        .open(path);
    match made {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
            Ok((file, true))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((how.custom_flags(nofollow()).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// The flag that keeps `open` from following a symbolic link.
fn nofollow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// Waits for the disk. The other hosts of the run go on meanwhile, and their syncs join this one.
fn waiting<T>(sync: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(sync),
        _ => sync(),
    }
}

/// Puts the directory entry of `path` on the disk.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            let parent = File::open(parent)?;
            waiting(|| parent.sync_all())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        DirectoryStore.write_atomic(&path, b"a longer first text").unwrap();
        DirectoryStore.write_atomic(&path, b"second").unwrap();
        assert_eq!(DirectoryStore.read(&path).unwrap(), b"second");
        assert_eq!(DirectoryStore.list(dir.path()).unwrap(), ["a.json"]);
        let facts = DirectoryStore.facts(&path).unwrap();
        assert_eq!((facts.kind, facts.mode, facts.size), (Kind::File, 0o600, 6));
    }

    #[test]
    fn a_torn_temporary_file_of_a_crash_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(temp_path(&path), b"half of a much longer text than the next one").unwrap();
        DirectoryStore.write_atomic(&path, b"whole").unwrap();
        assert_eq!(DirectoryStore.read(&path).unwrap(), b"whole");
        assert_eq!(DirectoryStore.list(dir.path()).unwrap(), ["a.json"]);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_removes_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("in-it"), b"").unwrap();
        assert!(DirectoryStore.write_atomic(&path, b"text").is_err());
        assert_eq!(DirectoryStore.list(dir.path()).unwrap(), ["a"]);
    }

    #[test]
    fn a_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, b"precious").unwrap();
        let path = dir.path().join("log");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(DirectoryStore.append(&path, b"x", true).is_err());
        std::os::unix::fs::symlink(&victim, temp_path(&dir.path().join("a"))).unwrap();
        assert!(DirectoryStore.write_atomic(&dir.path().join("a"), b"x").is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(DirectoryStore.facts(&path).unwrap().kind, Kind::Other);
    }

    #[test]
    fn append_adds_and_create_dir_refuses_the_second() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        DirectoryStore.append(&log, b"one\n", true).unwrap();
        DirectoryStore.append(&log, b"two\n", false).unwrap();
        assert_eq!(DirectoryStore.read(&log).unwrap(), b"one\ntwo\n");
        assert_eq!(DirectoryStore.facts(&log).unwrap().mode, 0o600);
        let lock = dir.path().join("lock");
        DirectoryStore.create_dir(&lock).unwrap();
        assert_eq!(DirectoryStore.facts(&lock).unwrap().mode, 0o700);
        let again = DirectoryStore.create_dir(&lock).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
