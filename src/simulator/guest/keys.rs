//! SSH host keys that follow from a seed: a guest keeps only a number, and its keys are the same after a restart of the
//! simulator. They guard nothing but loopback.

use std::convert::Infallible;

use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::rand_core::{TryCryptoRng, TryRng};
use russh::keys::{Algorithm, EcdsaCurve, PrivateKey};
use sha2::{Digest, Sha256};

/// SHA-256 in counter mode over a label: reproducible key material.
struct Stream {
    label: String,
    counter: u64,
    rest: Vec<u8>,
}

impl Stream {
    fn new(label: String) -> Self {
        Self {
            label,
            counter: 0,
            rest: Vec::new(),
        }
    }

    fn byte(&mut self) -> u8 {
        loop {
            if let Some(byte) = self.rest.pop() {
                return byte;
            }
            let mut hash = Sha256::new();
            hash.update(self.label.as_bytes());
            hash.update(self.counter.to_be_bytes());
            self.counter += 1;
            self.rest = hash.finalize().to_vec();
        }
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_be_bytes(std::array::from_fn(|_| self.byte())))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_be_bytes(std::array::from_fn(|_| self.byte())))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for byte in dst {
            *byte = self.byte();
        }
        Ok(())
    }
}

impl TryCryptoRng for Stream {}

/// The host keys of generation `generation` of the machine called `label`: ed25519 and ecdsa, as Debian images of the
/// lab have them. Generation 0 has none: the template's disk.
pub fn host_keys(label: &str, generation: u32, comment: &str) -> Vec<PrivateKey> {
    if generation == 0 {
        return Vec::new();
    }
    let kinds = [
        ("ed25519", Algorithm::Ed25519),
        (
            "ecdsa",
            Algorithm::Ecdsa {
                curve: EcdsaCurve::NistP256,
            },
        ),
    ];
    kinds
        .into_iter()
        .filter_map(|(name, algorithm)| {
            let mut stream = Stream::new(format!("vmwright simulator {label} {generation} {name}"));
            let mut key = PrivateKey::random(&mut stream, algorithm).ok()?;
            key.set_comment(comment);
            Some(key)
        })
        .collect()
}

/// `type base64`, without a comment.
pub fn public_line(key: &PrivateKey) -> String {
    let text = key.public_key().to_openssh().unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Files below `/etc/ssh`: name and text.
pub fn files(keys: &[PrivateKey]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for key in keys {
        let kind = match key.algorithm() {
            Algorithm::Ed25519 => "ed25519",
            Algorithm::Ecdsa { .. } => "ecdsa",
            _ => "rsa",
        };
        let name = format!("ssh_host_{kind}_key");
        if let Ok(private) = key.to_openssh(LineEnding::LF) {
            files.push((name.clone(), private.to_string()));
        }
        let comment = key.comment().as_str().unwrap_or_default().to_owned();
        files.push((
            format!("{name}.pub"),
            format!("{} {comment}\n", public_line(key)).replace(" \n", "\n"),
        ));
    }
    files
}

/// Whether a line of authorized_keys (options and comment allowed) holds the key `type base64`.
pub fn line_has_key(line: &str, public: &str) -> bool {
    let Some(blob) = public.split_whitespace().find(|word| word.starts_with("AAAA")) else {
        return false;
    };
    let line = line.trim();
    !line.starts_with('#') && line.split_whitespace().any(|word| word == blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_the_seed_and_differ_by_generation() {
        let first: Vec<String> = host_keys("7", 1, "root@a").iter().map(public_line).collect();
        let again: Vec<String> = host_keys("7", 1, "root@b").iter().map(public_line).collect();
        let second: Vec<String> = host_keys("7", 2, "").iter().map(public_line).collect();
        let other: Vec<String> = host_keys("8", 1, "").iter().map(public_line).collect();
        assert_eq!(first, again);
        assert_eq!(first.len(), 2);
        assert!(first[0].starts_with("ssh-ed25519 AAAA") && first[1].starts_with("ecdsa-sha2-nistp256 AAAA"));
        assert!(first[0] != second[0] && first[0] != other[0]);
        assert!(host_keys("7", 0, "").is_empty());
    }

    #[test]
    fn authorized_lines_may_have_options_and_comments() {
        assert!(line_has_key("no-pty ssh-ed25519 AAAAx me@here", "ssh-ed25519 AAAAx"));
        assert!(!line_has_key("# ssh-ed25519 AAAAx", "ssh-ed25519 AAAAx"));
        assert!(!line_has_key("ssh-ed25519 AAAAy", "ssh-ed25519 AAAAx"));
    }
}
