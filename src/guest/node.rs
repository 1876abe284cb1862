//! Files in a folder of a Proxmox node: the snippets of cloud-init.
//!
//! ```text
//!   write: folder there? ─> temporary name in it ─> on disk ─> same as before? ──yes──> left as it is
//!                                                                    │ no
//!                                                                    └─> renamed ─> read back, compared
//! ```
//!
//! A [`Folder`] is reached over SSH, or is mounted on this machine. Either way a reader sees the old file or the new one,
//! never a part; the file's mode is 0600, since only root (pvedaemon) reads it, and it may hold a password hash. On a mounted
//! folder another mode can be asked for (`vms_snippets_mode`): over NFS with root_squash the node's root is not the file's
//! owner. The content goes over standard input. The folder itself is made if only it is missing; a missing parent means that the storage is
//! not there.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node_scripts::{MISSING, NOT_A_FOLDER, NOT_WRITABLE, list_script, read_script, remove_script, write_script};
use super::probes::MARK;
use super::remote::{Command, HostKeys, Output, Remote, SshError};
use crate::machine::SshTarget;

/// Bounds one command on the node.
const TIME: Duration = Duration::from_secs(30);

/// Why a file could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The node could not be asked.
    #[error("the node cannot be asked")]
    Ssh(#[from] SshError),
    /// The folder's parent does not exist: the storage is not there, or not mounted.
    #[error("{0} does not exist, nor does the folder above it")]
    Missing(String),
    /// There is something else of this name.
    #[error("{0} is not a folder")]
    NotAFolder(String),
    /// The login may not write there.
    #[error("{0} cannot be written to by this user")]
    NotWritable(String),
    /// No space, or no inodes, or a quota.
    #[error("no space left in {0}")]
    Full(String),
    /// What was read back is not what was written.
    #[error("{0} was written, and reads back otherwise")]
    ReadBack(String),
    /// A name that is not a plain file name.
    #[error("{0:?} is no file name")]
    Name(String),
    /// Anything else.
    #[error("{place}: {detail}")]
    Failed {
        /// The folder or file.
        place: String,
        /// What the system said.
        detail: String,
    },
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content was there already.
    Unchanged,
    /// There was no such file.
    Created,
    /// There was another content.
    Replaced,
}

/// A folder of a node.
#[derive(Clone, Copy)]
pub enum Folder<'a> {
    /// Over SSH.
    Node {
        /// The door.
        remote: &'a dyn Remote,
        /// The login.
        target: &'a SshTarget,
        /// The node's host keys.
        keys: &'a HostKeys,
        /// An absolute path there.
        path: &'a str,
    },
    /// Mounted on this machine.
    Local {
        /// Where.
        path: &'a Path,
        /// The mode that files have to have; `None` makes them 0600, and leaves what is there as it is.
        mode: Option<u32>,
    },
}

impl Folder<'_> {
    /// Writes a file atomically unless it has this content, and reads it back.
    ///
    /// # Errors
    /// [`FolderError`].
    pub async fn write(&self, name: &str, content: &[u8]) -> Result<Written, FolderError> {
        file_name(name)?;
        match self {
            Self::Node { path, .. } => {
                let output = self.sh(&write_script(path, name), Some(content)).await?;
                let (word, text) = answer(path, &output)?;
                if text != content {
                    return Err(FolderError::ReadBack(format!("{path}/{name}")));
                }
                match word.as_str() {
                    "unchanged" => Ok(Written::Unchanged),
                    "created" => Ok(Written::Created),
                    "replaced" => Ok(Written::Replaced),
                    other => Err(failed(path, format!("an unexpected answer: {other:?}"))),
                }
            }
            Self::Local { path, mode } => write_locally(path, name, content, *mode),
        }
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// [`FolderError`].
    pub async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        Ok(self.read_all(&[name]).await?.pop().flatten())
    }

    /// Reads files at one go, in their order; `None` for one that is not there.
    ///
    /// # Errors
    /// [`FolderError`].
    pub async fn read_all(&self, names: &[&str]) -> Result<Vec<Option<Vec<u8>>>, FolderError> {
        names.iter().try_for_each(|name| file_name(name))?;
        match self {
            Self::Node { path, .. } => {
                let output = self.sh(&read_script(path, names), None).await?;
                let (_, text) = answer(path, &output)?;
                contents(&text, names.len()).ok_or_else(|| failed(path, "an answer of another length".to_owned()))
            }
            Self::Local { path, .. } => names
                .iter()
                .map(|name| match fs::read(path.join(name)) {
                    Ok(content) => Ok(Some(content)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(local(&path.join(name), &e)),
                })
                .collect(),
        }
    }

    /// Whether a file that is there has the mode that it has to have.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn has_mode(&self, name: &str) -> Result<bool, FolderError> {
        match self {
            Self::Local {
                path,
                mode: Some(wanted),
            } => mode_of(&path.join(name)).map(|mode| mode == *wanted),
            Self::Local { mode: None, .. } | Self::Node { .. } => Ok(true),
        }
    }

    /// The names in the folder, sorted, without hidden ones; none if there is no folder.
    ///
    /// # Errors
    /// [`FolderError`].
    pub async fn list(&self) -> Result<Vec<String>, FolderError> {
        let mut names: Vec<String> = match self {
            Self::Node { path, .. } => {
                let output = self.sh(&list_script(path), None).await?;
                let (_, text) = answer(path, &output)?;
                String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
            }
            Self::Local { path, .. } => match fs::read_dir(path) {
                Ok(entries) => entries
                    .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                    .collect::<io::Result<_>>()
                    .map_err(|e| local(path, &e))?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(e) => return Err(local(path, &e)),
            },
        };
        names.retain(|name| !name.is_empty() && !name.starts_with('.'));
        names.sort();
        Ok(names)
    }

    /// Removes files at one go. Answers whether one of them was there.
    ///
    /// # Errors
    /// [`FolderError`].
    pub async fn remove(&self, names: &[&str]) -> Result<bool, FolderError> {
        names.iter().try_for_each(|name| file_name(name))?;
        match self {
            Self::Node { path, .. } => {
                let output = self.sh(&remove_script(path, names), None).await?;
                let (word, _) = answer(path, &output)?;
                Ok(word == "removed")
            }
            Self::Local { path, .. } => {
                let mut there = false;
                for name in names {
                    match fs::remove_file(path.join(name)) {
                        Ok(()) => there = true,
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        Err(e) => return Err(local(&path.join(name), &e)),
                    }
                }
                Ok(there)
            }
        }
    }

    async fn sh(&self, script: &str, stdin: Option<&[u8]>) -> Result<Output, FolderError> {
        match self {
            Self::Node {
                remote, target, keys, ..
            } => {
                let mut command = Command::new(script, TIME).sudo();
                command.stdin = stdin.map(<[u8]>::to_vec);
                Ok(remote.run(target, keys, &command).await?)
            }
            Self::Local { .. } => Ok(Output::default()),
        }
    }
}

/// The word after the mark, and everything after its line.
fn answer(path: &str, output: &Output) -> Result<(String, Vec<u8>), FolderError> {
    let place = path.to_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.code {
        Some(0) => {}
        Some(MISSING) => return Err(FolderError::Missing(place)),
        Some(NOT_A_FOLDER) => return Err(FolderError::NotAFolder(place)),
        Some(NOT_WRITABLE) => return Err(FolderError::NotWritable(place)),
        // strerror's words in the C locale, which the script sets.
        Some(_) if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") => {
            return Err(FolderError::Full(place));
        }
        Some(_) | None => return Err(failed(path, output.summary())),
    }
    let mark = format!("{MARK}\n");
    let start = output
        .stdout
        .windows(mark.len())
        .position(|w| w == mark.as_bytes())
        .map(|at| at + mark.len());
    let rest = start
        .and_then(|at| output.stdout.get(at..))
        .ok_or_else(|| failed(path, "the script gave no answer".to_owned()))?;
    let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    let (word, text) = rest.split_at(end);
    Ok((
        String::from_utf8_lossy(word).into_owned(),
        text.get(1..).unwrap_or_default().to_vec(),
    ))
}

/// The contents in the answer of [`read_script`]: each a line with its size, and so many bytes. `None` if they do not fit.
fn contents(mut text: &[u8], count: usize) -> Option<Vec<Option<Vec<u8>>>> {
    let mut found = Vec::new();
    while found.len() < count {
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = (text.get(..end)?, text.get(end + 1..)?);
        text = rest;
        if line == b"absent" {
            found.push(None);
            continue;
        }
        let size: usize = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
        found.push(Some(text.get(..size)?.to_vec()));
        text = text.get(size..)?;
    }
    text.is_empty().then_some(found)
}

fn write_locally(folder: &Path, name: &str, content: &[u8], mode: Option<u32>) -> Result<Written, FolderError> {
    let path = folder.join(name);
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        Err(e) => return Err(local(folder, &e)),
    }
    let before = match fs::read(&path) {
        Ok(before) => Some(before),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(local(&path, &e)),
    };
    let same_mode = || mode.is_none_or(|mode| mode_of(&path).is_ok_and(|seen| seen == mode));
    if before.as_deref() == Some(content) && same_mode() {
        return Ok(Written::Unchanged);
    }
    let write = || -> io::Result<()> {
        let mut temporary = tempfile::Builder::new()
            .prefix(".vmwright-")
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        if let Some(mode) = mode {
            // Not at the creation: the umask would have its say.
            temporary.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        }
        temporary.write_all(content)?;
        temporary.as_file().sync_all()?;
        temporary.persist(&path).map_err(|e| e.error)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|e| local(folder, &e))?;
    match fs::read(&path) {
        Ok(read) if read == content => {}
        Ok(_) => return Err(FolderError::ReadBack(path.display().to_string())),
        Err(e) => return Err(local(&path, &e)),
    }
    if !same_mode() {
        let place = path.display().to_string();
        let detail = "this filesystem does not keep the mode of its files: leave vms_snippets_mode out";
        return Err(failed(&place, detail.to_owned()));
    }
    Ok(match before {
        Some(_) => Written::Replaced,
        None => Written::Created,
    })
}

/// The permission bits of a file.
fn mode_of(path: &Path) -> Result<u32, FolderError> {
    let found = fs::metadata(path).map_err(|e| local(path, &e))?;
    Ok(found.permissions().mode() & 0o777)
}

fn local(path: &Path, error: &io::Error) -> FolderError {
    let place = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => FolderError::Missing(place),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => FolderError::NotAFolder(place),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FolderError::NotWritable(place),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FolderError::Full(place),
        _ => failed(&place, error.to_string()),
    }
}

fn failed(place: &str, detail: String) -> FolderError {
    FolderError::Failed {
        place: place.to_owned(),
        detail,
    }
}

/// A plain, visible file name that Proxmox takes in a volume id.
fn file_name(name: &str) -> Result<(), FolderError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    if name.is_empty() || name.starts_with(['.', '-']) || name.len() > 200 || !name.chars().all(plain) {
        return Err(FolderError::Name(name.to_owned()));
    }
    Ok(())
}

/// The path of a folder as text, for [`Folder::Node`].
///
/// # Errors
/// [`FolderError::Failed`] if it is not absolute.
pub fn absolute(path: &str) -> Result<&str, FolderError> {
    let trimmed = path.trim_end_matches('/');
    if !PathBuf::from(trimmed).is_absolute() || trimmed.contains(['\n', '\0']) {
        return Err(failed(path, "not an absolute path".to_owned()));
    }
    Ok(trimmed)
}

#[cfg(test)]
mod tests;
