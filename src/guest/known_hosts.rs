//! The user's `known_hosts`: what is known of some names, and setting it right.
//!
//! Only entries of the names that are asked about change; every other line stays byte for byte as it is: comments,
//! `@cert-authority` and `@revoked` lines, patterns, and hashed entries of other names. A line that lists one of our names
//! among others keeps the others. Nothing is written when everything is right.
//!
//! A change happens under a lock file beside the file (hosts run in parallel), into a temporary file that replaces it.
//! `ssh` itself appends to the file without any lock; so vmwright never lets `ssh` learn into the file that it writes.
//!
//! Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::probes::public_key;

/// Why the file could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KnownHostsError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read`, `lock`, `write`, `replace`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A name or key that cannot stand in the file.
    #[error("{0:?} cannot stand in a known_hosts file")]
    Unfit(String),
}

/// The names under which a machine's keys are entered.
///
/// The alias is entered as it is, since vmwright looks it up without a port, and as plain `ssh -p` looks it up. Other names
/// and addresses get the form of the port only: with another port than 22 the plain name may be another machine's.
pub fn names(alias: &str, others: &[String], port: u16) -> Vec<String> {
    let with_port = |name: &str| match port {
        22 => name.to_ascii_lowercase(),
        port => format!("[{}]:{port}", name.to_ascii_lowercase()),
    };
    let mut names = vec![alias.to_ascii_lowercase(), with_port(alias)];
    names.extend(others.iter().map(|name| with_port(name)));
    let mut seen = BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    names
}

/// The keys that a file's text has for a name, `type base64` each, sorted. Patterns and marked lines do not count.
pub fn lookup(text: &[u8], name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let keys: BTreeSet<String> = split(text)
        .filter_map(Line::parse)
        .filter(|line| line.names.iter().any(|entry| is_name(entry, &name)))
        .filter_map(|line| line.key)
        .collect();
    keys.into_iter().collect()
}

/// The text with exactly these keys for these names; `None` if it has them already.
///
/// # Errors
/// [`KnownHostsError::Unfit`] for a name or a key that cannot stand in the file.
pub fn replaced(text: &[u8], names: &[String], keys: &[String]) -> Result<Option<Vec<u8>>, KnownHostsError> {
    let names: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
    for name in &names {
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || ",*?!|#@".contains(c)) {
            return Err(KnownHostsError::Unfit(name.clone()));
        }
    }
    let mut wanted = Vec::new();
    for key in keys {
        wanted.push(public_key(key).ok_or_else(|| KnownHostsError::Unfit(key.clone()))?);
    }
    wanted.sort();
    wanted.dedup();
    if names.iter().all(|name| lookup(text, name) == wanted) {
        return Ok(None);
    }
    let mut out = without(text, &names, None);
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    for key in &wanted {
        out.extend_from_slice(format!("{} {key}\n", names.join(",")).as_bytes());
    }
    Ok((out != text).then_some(out))
}

/// The text without the entries of these names, of whatever key or only of these.
fn without(text: &[u8], names: &[String], keys: Option<&[String]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for raw in split(text) {
        let Some(line) = Line::parse(raw) else {
            out.extend_from_slice(raw);
            continue;
        };
        let ours = |entry: &&str| names.iter().any(|name| is_name(entry, name));
        if keys.is_some_and(|keys| line.key.as_ref().is_none_or(|key| !keys.contains(key))) {
            out.extend_from_slice(raw);
            continue;
        }
        let kept: Vec<&str> = line.names.iter().filter(|entry| !ours(entry)).copied().collect();
        if kept.len() == line.names.len() {
            out.extend_from_slice(raw);
        } else if !kept.is_empty() {
            out.extend_from_slice(kept.join(",").as_bytes());
            out.extend_from_slice(line.rest);
        }
    }
    out
}

/// An entry without a marker.
struct Line<'t> {
    /// The first field, at its commas.
    names: Vec<&'t str>,
    /// `type base64`, if it is one.
    key: Option<String>,
    /// Everything from the first blank on.
    rest: &'t [u8],
}

impl<'t> Line<'t> {
    /// `None` for comments, blank and marked lines, and those with a negated name, whose meaning is the whole list.
    fn parse(raw: &'t [u8]) -> Option<Self> {
        let blank = raw.iter().position(|b| matches!(b, b' ' | b'\t'))?;
        let field = std::str::from_utf8(raw.get(..blank)?).ok()?;
        if field.is_empty() || field.starts_with(['#', '@']) {
            return None;
        }
        let rest = raw.get(blank..)?;
        let names: Vec<&str> = field.split(',').collect();
        if names.iter().any(|name| name.starts_with('!')) {
            return None;
        }
        Some(Self {
            names,
            key: public_key(&String::from_utf8_lossy(rest)),
            rest,
        })
    }
}

/// Lines with their ends.
fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|b| *b == b'\n')
}

/// Whether an entry of the file is this (lower-case) name, plain or hashed.
fn is_name(entry: &str, name: &str) -> bool {
    match entry.strip_prefix("|1|") {
        None => entry.eq_ignore_ascii_case(name),
        Some(hashed) => is_hashed(hashed, name).unwrap_or(false),
    }
}

/// `salt|hash`: HMAC-SHA1 of the name under the salt, both base64 (OpenSSH: `HashKnownHosts`).
fn is_hashed(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let salt = STANDARD.decode(salt).ok()?;
    let hash = STANDARD.decode(hash).ok()?;
    let mut mac = Hmac::<Sha1>::new_from_slice(&salt).ok()?;
    mac.update(name.as_bytes());
    Some(mac.verify_slice(&hash).is_ok())
}

/// Sets the keys of these names in a file. Answers whether it was changed.
///
/// The file is made if it does not exist (mode 0600, its folder 0700); otherwise its mode stays.
///
/// # Errors
/// [`KnownHostsError`].
pub async fn replace(path: &Path, names: &[String], keys: &[String]) -> Result<bool, KnownHostsError> {
    let (path, names, keys) = (path.to_owned(), names.to_owned(), keys.to_owned());
    blocking(move || change(&path, |text| replaced(text, &names, &keys))).await
}

/// Removes the entries of these names from a file: with `keys` only those of one of them, so that what another machine of
/// that name or address shows stays; without, all. Answers whether it was changed.
///
/// # Errors
/// [`KnownHostsError`].
pub async fn remove(path: &Path, names: &[String], keys: Option<&[String]>) -> Result<bool, KnownHostsError> {
    let (path, keys) = (path.to_owned(), keys.map(<[String]>::to_vec));
    let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    blocking(move || {
        change(&path, |text| {
            let out = without(text, &names, keys.as_deref());
            Ok((out != text).then_some(out))
        })
    })
    .await
}

/// The keys that a file has for a name; none if there is no such file.
///
/// # Errors
/// [`KnownHostsError::Io`] if it cannot be read.
pub fn read(path: &Path, name: &str) -> Result<Vec<String>, KnownHostsError> {
    Ok(lookup(&content(path)?, name))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KnownHostsError> + Send + 'static,
) -> Result<T, KnownHostsError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(join) => Err(KnownHostsError::Io {
            action: "change",
            path: PathBuf::new(),
            source: io::Error::other(join),
        }),
    }
}

/// Reads, decides and writes under the lock.
fn change(
    path: &Path,
    decide: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, KnownHostsError>,
) -> Result<bool, KnownHostsError> {
    // A link to the file of somebody's dotfiles stays a link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| KnownHostsError::Io { action, path, source }
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    if !folder.exists() {
        fs::create_dir_all(folder).map_err(failed("make the folder", folder))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed("protect", folder))?;
    }
    let mut lock_name = std::ffi::OsString::from(".");
    lock_name.push(path.file_name().unwrap_or_default());
    lock_name.push(".vmwright-lock");
    let lock_path = folder.join(lock_name);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&lock_path)
        .map_err(failed("open", &lock_path))?;
    lock.lock().map_err(failed("lock", &lock_path))?;

    let before = content(path)?;
    let Some(after) = decide(&before)? else {
        return Ok(false);
    };
    let mode = fs::metadata(path).map_or(0o600, |m| m.permissions().mode() & 0o7777);
    let mut temporary = tempfile::Builder::new()
        .prefix(".known_hosts-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failed("write in", folder))?;
    temporary.write_all(&after).map_err(failed("write", path))?;
    let file = temporary.as_file();
    file.set_permissions(fs::Permissions::from_mode(mode))
        .and_then(|()| file.sync_all())
        .map_err(failed("write", path))?;
    temporary.persist(path).map_err(|e| failed("replace", path)(e.error))?;
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(failed("write", folder))?;
    Ok(true)
}

fn content(path: &Path) -> Result<Vec<u8>, KnownHostsError> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(KnownHostsError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEd25519";
    const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB";

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|s| (*s).to_owned()).collect()
    }

    fn set(text: &str, names: &[&str], keys: &[&str]) -> Option<String> {
        let out = replaced(text.as_bytes(), &list(names), &list(keys)).expect("fit");
        out.map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    /// A hashed entry of a name, with a fixed salt.
    fn hashed(name: &str) -> String {
        let mut mac = Hmac::<Sha1>::new_from_slice(b"0123456789abcdefghij").expect("any length");
        mac.update(name.as_bytes());
        let hash = STANDARD.encode(mac.finalize().into_bytes());
        format!("|1|{}|{hash}", STANDARD.encode(b"0123456789abcdefghij"))
    }

    #[test]
    fn the_port_is_part_of_a_name_unless_it_is_22() {
        let others = list(&["web1.lan", "10.0.0.5", "Web1"]);
        assert_eq!(names("web1", &others, 22), ["web1", "web1.lan", "10.0.0.5"]);
        assert_eq!(
            names("web1", &others, 2222),
            ["web1", "[web1]:2222", "[web1.lan]:2222", "[10.0.0.5]:2222"],
            "the plain address may be a gateway's"
        );
    }

    #[test]
    fn new_names_are_added_and_all_other_lines_stay() {
        let before = "# mine\n\n@revoked web1 ssh-rsa AAAAold\n*.lan ssh-rsa AAAApattern\nother ssh-rsa AAAAx comment\n!web1,* ssh-rsa AAAAn";
        let after = set(before, &["web1", "10.0.0.5"], &[RSA, ED]).expect("a change");
        assert_eq!(after, format!("{before}\nweb1,10.0.0.5 {ED}\nweb1,10.0.0.5 {RSA}\n"));
        assert_eq!(
            set(&after, &["web1", "10.0.0.5"], &[ED, RSA]),
            None,
            "a repeated run writes nothing"
        );
    }

    #[test]
    fn old_keys_of_our_names_go_and_neighbours_in_the_same_line_stay() {
        let before =
            format!("web1,gate ssh-rsa AAAAold  a comment\r\nWEB1 {RSA}\n10.0.0.5 ssh-dss AAAAdss\ngate2 {RSA}\n");
        let after = set(&before, &["web1", "10.0.0.5"], &[ED]).expect("a change");
        assert_eq!(
            after,
            format!("gate ssh-rsa AAAAold  a comment\r\ngate2 {RSA}\nweb1,10.0.0.5 {ED}\n")
        );
    }

    #[test]
    fn hashed_entries_of_our_names_are_recognised() {
        let stranger = hashed("other");
        let before = format!("{} ssh-rsa AAAAold\n{stranger} {RSA}\n", hashed("web1"));
        assert_eq!(lookup(before.as_bytes(), "web1"), ["ssh-rsa AAAAold"]);
        assert_eq!(
            set(&before, &["web1"], &[ED]),
            Some(format!("{stranger} {RSA}\nweb1 {ED}\n"))
        );
        let right = format!("{} {ED}\n", hashed("web1"));
        assert_eq!(set(&right, &["web1"], &[ED]), None, "a right hashed entry is right");
    }

    #[test]
    fn the_hash_is_that_of_ssh_keygen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("known_hosts");
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEu0gdz9n1k0wnGLk5SbBXEvZ0MKpl8pTsnM2MHkwlzB";
        fs::write(&path, format!("web1 {key}\n[10.0.0.5]:2222 {key}\n")).expect("written");
        let run = std::process::Command::new("ssh-keygen").arg("-Hf").arg(&path).output();
        if !run.is_ok_and(|o| o.status.success()) {
            eprintln!("SKIPPED: ssh-keygen is missing");
            return;
        }
        let text = fs::read(&path).expect("read");
        assert!(text.starts_with(b"|1|"));
        assert_eq!(lookup(&text, "web1"), [key]);
        assert_eq!(lookup(&text, "[10.0.0.5]:2222"), [key]);
        assert!(lookup(&text, "10.0.0.5").is_empty());
    }

    #[test]
    fn removing_leaves_nothing_of_the_names() {
        let before = format!("web1,[web1]:2222 {ED}\nother {ED}\n");
        assert_eq!(
            set(&before, &["web1", "[web1]:2222"], &[]),
            Some(format!("other {ED}\n"))
        );
        assert_eq!(set(&format!("other {ED}\n"), &["web1"], &[]), None);
    }

    #[test]
    fn what_cannot_stand_in_the_file_is_refused() {
        for name in ["", "a b", "*", "a,b", "#x", "@revoked"] {
            assert!(replaced(b"", &list(&[name]), &list(&[ED])).is_err(), "{name:?}");
        }
        assert!(replaced(b"", &list(&["web1"]), &list(&["ssh-ed25519 AAAA\nevil ssh-rsa AAAA"])).is_ok());
        assert_eq!(
            set("", &["a"], &["ssh-ed25519 AAAA\nevil ssh-rsa AAAA"]),
            Some("a ssh-ed25519 AAAA\n".into())
        );
        assert!(replaced(b"", &list(&["web1"]), &list(&["not a key"])).is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hosts_in_parallel_lose_nothing_and_the_mode_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ssh/known_hosts");
        assert!(replace(&path, &list(&["first"]), &list(&[ED])).await.expect("written"));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        let tasks: Vec<_> = (0..16)
            .map(|i| {
                let path = path.clone();
                tokio::spawn(async move { replace(&path, &[format!("host{i}")], &list(&[ED, RSA])).await })
            })
            .collect();
        for task in tasks {
            assert!(task.await.expect("no panic").expect("written"));
        }
        for i in 0..16 {
            assert_eq!(read(&path, &format!("host{i}")).expect("read"), [ED, RSA], "host{i}");
        }
        assert_eq!(mode(&path), 0o644);
        assert!(
            !replace(&path, &list(&["host3"]), &list(&[RSA, ED]))
                .await
                .expect("read")
        );
        assert!(remove(&path, &list(&["host3"]), None).await.expect("written"));
        assert!(read(&path, "host3").expect("read").is_empty());
        assert_eq!(read(&path, "first").expect("read"), [ED]);
    }
}
