//! A machine's root directory on the host's disk: the files that tell the truth about a guest, written so that a reader
//! never sees half of one.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use super::guest::{Guest, TruthFile};
use super::shell::Shell;

/// Writes a guest's files into its root directory, so far as they differ from what was written before. A directory left
/// by another guest of the same number is emptied first; `/run` and `/tmp` are empty after each boot.
///
/// # Errors
/// The directory cannot be written.
pub fn sync(guest: &mut Guest, root: &Path, shell: &Shell, now_ms: u64) -> io::Result<()> {
    if guest.written_revision == Some(guest.revision()) {
        return Ok(());
    }
    let marker = root.join(".sim/seed");
    let seed = guest.seed().to_string();
    if guest.written_revision.is_none() {
        if std::fs::read_to_string(&marker).ok().as_deref() != Some(&seed) {
            remove_tree(root)?;
        }
        for dir in [
            "",
            ".sim",
            "tmp",
            "run",
            "etc/cloud/cloud.cfg.d",
            "var/tmp",
            "root",
            "home",
            "usr/local/bin",
        ] {
            private_dir(&root.join(dir))?;
        }
        write(&marker, seed.as_bytes(), 0o600)?;
        guest.attach(root, shell);
    }
    let boot_marker = root.join(".sim/boot");
    let boot = guest.boot_id().unwrap_or_default().to_owned();
    if std::fs::read_to_string(&boot_marker).ok().as_deref() != Some(&boot) {
        for dir in ["run", "tmp"] {
            remove_tree(&root.join(dir))?;
            private_dir(&root.join(dir))?;
        }
        guest.written.retain(|path, _| !path.starts_with("run/"));
        write(&boot_marker, boot.as_bytes(), 0o600)?;
    }
    for file in guest.files(now_ms) {
        let mut hasher = DefaultHasher::new();
        (&file.content, file.mode).hash(&mut hasher);
        let hash = hasher.finish();
        let before = guest.written.insert(file.path.clone(), hash);
        if before != Some(hash) {
            place(root, &file, before.is_some())?;
        }
    }
    guest.written_revision = Some(guest.revision());
    Ok(())
}

fn place(root: &Path, file: &TruthFile, known: bool) -> io::Result<()> {
    let path = root.join(&file.path);
    if path
        .components()
        .any(|part| matches!(part, std::path::Component::ParentDir))
    {
        return Ok(());
    }
    match &file.content {
        Some(_) if !file.owned && !known && path.exists() => Ok(()),
        Some(content) => write(&path, content.as_bytes(), file.mode),
        None => match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

/// Replaces a file, so that a reader never sees half of it. The umask may take bits from its mode.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".sim-new");
    let temporary = path.with_file_name(name);
    let open = || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(mode).open(&temporary)
    };
    let mut file = match open() {
        // Left by a simulator that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(&temporary)?;
            open()?
        }
        // Only the first file of a directory has to make it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private_dir(path.parent().unwrap_or(Path::new("/")))?;
            open()?
        }
        opened => opened?,
    };
    file.write_all(content)?;
    std::fs::rename(&temporary, path)
}

/// Makes a directory with its parents, each for the owner alone.
pub(super) fn private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The path itself, or, where it has characters that mean something to a shell, a link to it under a plain name.
pub(super) fn plain_path(path: &Path) -> io::Result<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '%' | ',');
    if path.to_str().is_some_and(|text| text.chars().all(plain)) {
        return Ok(path.to_owned());
    }
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let link = std::env::temp_dir().join(format!("vmwright-simulator-{:016x}", hasher.finish()));
    match std::fs::read_link(&link) {
        Ok(target) if target == path => return Ok(link),
        Ok(_) => std::fs::remove_file(&link)?,
        Err(_) => {}
    }
    symlink(path, &link)?;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_get_a_plain_link() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a b'c");
        std::fs::create_dir(&odd).unwrap();
        let link = plain_path(&odd).unwrap();
        assert!(!link.to_string_lossy().contains(' '));
        assert_eq!(std::fs::read_link(&link).unwrap(), odd);
        assert_eq!(plain_path(&odd).unwrap(), link);
        std::fs::remove_file(link).unwrap();
    }
}
