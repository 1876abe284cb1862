//! The control node's own SSH key pair: whose public half goes into a new guest.
//!
//! ```text
//!   configured? ──yes──> that file
//!        │ no             │
//!        v                v
//!   ~/.ssh/id_ed25519, id_ecdsa, id_rsa: the first that exists
//!        │ none           │ exists: its .pub, checked against it where it needs no passphrase
//!        v                v missing
//!   ~/.ssh/id_ed25519 ── made by `ssh-keygen`, ed25519, without passphrase, 0600
//! ```
//!
//! An existing file is never overwritten: the new pair appears under its name by a link that fails if the name is taken.
//! A public half without a private one is taken as it is: the private one is in an agent.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::probes::public_key;

/// The names that `ssh` itself tries, in the order in which they are preferred here.
const DEFAULTS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// A key pair on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The private half's path.
    pub private: PathBuf,
    /// The public half, one line: type, base64, comment.
    pub public: String,
    /// It was made by this call.
    pub created: bool,
}

/// Why there is no key pair.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read`, `make`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `ssh-keygen` cannot be started, or failed.
    #[error("ssh-keygen failed for {}: {detail}", path.display())]
    Keygen {
        /// The private half's path.
        path: PathBuf,
        /// What it said.
        detail: String,
    },
    /// The public file holds no public key.
    #[error("{} holds no SSH public key", path.display())]
    NoPublicKey {
        /// The public half's path.
        path: PathBuf,
    },
    /// The public file belongs to another private key: who trusts it locks this machine out.
    #[error("{} is not the public half of {}", public.display(), private.display())]
    Mismatch {
        /// The private half's path.
        private: PathBuf,
        /// The public half's path.
        public: PathBuf,
    },
}

/// The configured key pair or the first default one, without making any. Blocks shortly.
///
/// # Errors
/// [`KeyError`] if one exists and cannot be used.
pub fn find(configured: Option<&Path>, home: &Path) -> Result<Option<KeyPair>, KeyError> {
    candidates(configured, home)
        .iter()
        .find_map(|path| read(path).transpose())
        .transpose()
}

/// The configured key pair or the first default one; made if there is none. Blocks shortly.
///
/// # Errors
/// [`KeyError`].
pub fn ensure(configured: Option<&Path>, home: &Path) -> Result<KeyPair, KeyError> {
    if let Some(pair) = find(configured, home)? {
        return Ok(pair);
    }
    let paths = candidates(configured, home);
    let path = paths
        .into_iter()
        .next()
        .unwrap_or_else(|| home.join(".ssh").join(DEFAULTS[0]));
    create(&path)?;
    match read(&path)? {
        Some(pair) => Ok(KeyPair { created: true, ..pair }),
        None => Err(KeyError::Keygen {
            path,
            detail: "it made no key".to_owned(),
        }),
    }
}

/// The private paths that come into question, best first; `~` is the home folder.
fn candidates(configured: Option<&Path>, home: &Path) -> Vec<PathBuf> {
    match configured {
        Some(path) => vec![match path.strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => path.to_owned(),
        }],
        None => DEFAULTS.iter().map(|name| home.join(".ssh").join(name)).collect(),
    }
}

/// The pair at a path; `None` if there is neither half.
fn read(private: &Path) -> Result<Option<KeyPair>, KeyError> {
    let public_path = public_path(private);
    let written = match fs::read_to_string(&public_path) {
        Ok(text) => {
            let line = text.lines().map(str::trim).find(|l| public_key(l).is_some());
            Some(line.map(str::to_owned).ok_or_else(|| KeyError::NoPublicKey {
                path: public_path.clone(),
            })?)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(failed("read", &public_path, source)),
    };
    let exists = private.try_exists().map_err(|e| failed("read", private, e))?;
    let derived = if exists { Some(derive(private)?) } else { None };
    let public = match (written, derived) {
        (None, None) => return Ok(None),
        (Some(line), None | Some(Err(_))) => line,
        (None, Some(derived)) => derived.map_err(|detail| KeyError::Keygen {
            path: private.to_owned(),
            detail,
        })?,
        (Some(line), Some(Ok(derived))) if public_key(&line) == public_key(&derived) => line,
        (Some(_), Some(Ok(_))) => {
            return Err(KeyError::Mismatch {
                private: private.to_owned(),
                public: public_path,
            });
        }
    };
    Ok(Some(KeyPair {
        private: private.to_owned(),
        public,
        created: false,
    }))
}

/// The public half as the private one gives it; the inner error is `ssh-keygen`'s, for example of a passphrase.
fn derive(private: &Path) -> Result<Result<String, String>, KeyError> {
    // An empty passphrase, so that nothing is asked at the terminal.
    let output = keygen(private, |c| {
        c.args(["-y", "-P", "", "-f"]).arg(private);
    })?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(match output.status.success() && public_key(&line).is_some() {
        true => Ok(line),
        false => Err(words(&output)),
    })
}

/// Makes a pair in a folder beside the path, and puts it in place; nothing that exists is replaced.
fn create(path: &Path) -> Result<(), KeyError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    if !folder.exists() {
        fs::create_dir_all(folder).map_err(|e| failed("make", folder, e))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|e| failed("make", folder, e))?;
    }
    let workshop = tempfile::Builder::new()
        .prefix(".vmwright-key-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(folder)
        .map_err(|e| failed("make", path, e))?;
    let made = workshop.path().join("key");
    let output = keygen(path, |c| {
        c.args(["-q", "-t", "ed25519", "-N", "", "-C", "vmwright", "-f"])
            .arg(&made);
    })?;
    if !output.status.success() {
        return Err(KeyError::Keygen {
            path: path.to_owned(),
            detail: words(&output),
        });
    }
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).map_err(|e| failed("make", path, e))?;
    for file in [&made, &public_path(&made)] {
        fs::File::open(file)
            .and_then(|f| f.sync_all())
            .map_err(|e| failed("make", path, e))?;
    }
    // The private half decides who was first; its public half can always be derived from it.
    match fs::hard_link(&made, path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) => return Err(failed("make", path, e)),
    }
    let public = public_path(path);
    fs::rename(public_path(&made), &public).map_err(|e| failed("make", &public, e))
}

fn keygen(path: &Path, args: impl FnOnce(&mut Command)) -> Result<Output, KeyError> {
    let mut command = Command::new("ssh-keygen");
    args(&mut command);
    command.stdin(Stdio::null()).output().map_err(|e| KeyError::Keygen {
        path: path.to_owned(),
        detail: match e.kind() {
            io::ErrorKind::NotFound => "it is not on the PATH: install the OpenSSH client".to_owned(),
            _ => e.to_string(),
        },
    })
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .map(str::trim)
        .rfind(|l| !l.is_empty())
        .unwrap_or("no reason given")
        .to_owned()
}

fn public_path(private: &Path) -> PathBuf {
    let mut name = private.as_os_str().to_owned();
    name.push(".pub");
    PathBuf::from(name)
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> KeyError {
    KeyError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `None` where there is no `ssh-keygen`.
    fn home() -> Option<tempfile::TempDir> {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            eprintln!("SKIPPED: there is no ssh-keygen");
            return None;
        }
        tempfile::tempdir().ok()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_missing_pair_is_made_once() {
        let Some(home) = home() else { return };
        assert_eq!(find(None, home.path()).expect("looked"), None);
        let made = ensure(None, home.path()).expect("made");
        assert!(made.created);
        assert_eq!(made.private, home.path().join(".ssh/id_ed25519"));
        assert!(
            made.public.starts_with("ssh-ed25519 AAAA") && made.public.ends_with(" vmwright"),
            "{}",
            made.public
        );
        assert_eq!((mode(&made.private), mode(&home.path().join(".ssh"))), (0o600, 0o700));
        let again = ensure(None, home.path()).expect("found");
        assert_eq!(again, KeyPair { created: false, ..made });
        let left = fs::read_dir(home.path().join(".ssh")).expect("a folder").count();
        assert_eq!(left, 2, "nothing but the pair");
    }

    #[test]
    fn the_configured_path_wins_and_is_made_too() {
        let Some(home) = home() else { return };
        ensure(None, home.path()).expect("made");
        let own = ensure(Some(Path::new("~/keys/deploy")), home.path()).expect("made");
        assert!(own.created);
        assert_eq!(own.private, home.path().join("keys/deploy"));
    }

    #[test]
    fn the_first_default_that_exists_is_taken() {
        let Some(home) = home() else { return };
        let ssh = home.path().join(".ssh");
        fs::create_dir(&ssh).expect("a folder");
        fs::write(ssh.join("id_rsa.pub"), "ssh-rsa AAAAB3 agent\n").expect("written");
        let pair = ensure(None, home.path()).expect("found");
        assert_eq!(
            (pair.created, pair.public.as_str()),
            (false, "ssh-rsa AAAAB3 agent"),
            "its private half is in an agent"
        );
    }

    #[test]
    fn a_missing_public_half_is_derived_and_a_wrong_one_is_refused() {
        let Some(home) = home() else { return };
        let made = ensure(None, home.path()).expect("made");
        let public = public_path(&made.private);
        fs::remove_file(&public).expect("removed");
        let derived = ensure(None, home.path()).expect("derived");
        assert!(!derived.created);
        assert_eq!(public_key(&derived.public), public_key(&made.public));
        assert!(!public.exists(), "nothing was written");
        fs::write(&public, "ssh-ed25519 AAAAother me\n").expect("written");
        assert!(matches!(ensure(None, home.path()), Err(KeyError::Mismatch { .. })));
        fs::write(&public, "rubbish\n").expect("written");
        assert!(matches!(ensure(None, home.path()), Err(KeyError::NoPublicKey { .. })));
    }

    #[test]
    fn a_key_with_a_passphrase_needs_its_public_half_and_asks_nothing() {
        let Some(home) = home() else { return };
        let path = home.path().join("locked");
        let run = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "passphrase", "-f"])
            .arg(&path)
            .output()
            .expect("started");
        assert!(run.status.success());
        assert!(find(Some(&path), home.path()).expect("read").is_some());
        fs::remove_file(public_path(&path)).expect("removed");
        assert!(matches!(find(Some(&path), home.path()), Err(KeyError::Keygen { .. })));
    }
}
