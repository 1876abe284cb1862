//! Password hashes of crypt(3): SHA-256 (`$5$`) and SHA-512 (`$6$`), as "Unix crypt using SHA-256 and SHA-512" by Ulrich
//! Drepper specifies them.
//!
//! ```text
//! password, salt, rounds --> $6$rounds=656000$salt$hash        (5000 rounds are not written)
//! ```
//!
//! Failures: a salt with characters that crypt(3) does not know or that is too long, rounds outside 1000 to 999999999.

use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use super::random::Random;

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const MAX_SALT: usize = 16;
/// Rounds that are meant where none are written.
const UNWRITTEN: u32 = 5000;

/// Which hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// `$5$`
    Sha256,
    /// `$6$`
    Sha512,
}

impl Scheme {
    /// As `password_hash` and the lookup `password` name it.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "sha256" | "sha256_crypt" => Some(Self::Sha256),
            "sha512" | "sha512_crypt" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The rounds that Ansible takes where none are asked for.
    fn default_rounds(self) -> u32 {
        match self {
            Self::Sha256 => 535_000,
            Self::Sha512 => 656_000,
        }
    }

    fn digest(self, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        fn all<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
            let mut hash = D::new();
            parts.iter().for_each(|part| hash.update(part));
            hash.finalize().to_vec()
        }
        Zeroizing::new(match self {
            Self::Sha256 => all::<Sha256>(parts),
            Self::Sha512 => all::<Sha512>(parts),
        })
    }
}

/// A new salt.
///
/// # Errors
///
/// The system gives no random bytes.
pub(crate) fn salt() -> Result<String, String> {
    let told = |error: std::io::Error| format!("there are no random bytes: {error}");
    let mut random = Random::system().map_err(told)?;
    (0..MAX_SALT)
        .map(|_| Ok(char::from(ALPHABET[random.below(64).map_err(told)? as usize & 63])))
        .collect()
}

/// The hash of a password.
///
/// # Errors
///
/// What is wrong with salt or rounds.
pub(crate) fn hash(scheme: Scheme, password: &[u8], salt: &str, rounds: Option<u32>) -> Result<String, String> {
    if !salt.bytes().all(|c| ALPHABET.contains(&c)) {
        return Err("the salt may hold letters, digits, `.` and `/` only".to_owned());
    }
    if salt.len() > MAX_SALT {
        return Err(format!("the salt is longer than {MAX_SALT} characters"));
    }
    let rounds = rounds.unwrap_or(scheme.default_rounds());
    if !(1000..=999_999_999).contains(&rounds) {
        return Err("rounds are from 1000 to 999999999".to_owned());
    }
    let salted = salt.as_bytes();
    let b = scheme.digest(&[password, salted, password]);
    let mut first: Vec<&[u8]> = vec![password, salted];
    let cut = |block: &[u8], length: usize| -> Zeroizing<Vec<u8>> {
        Zeroizing::new(block.iter().copied().cycle().take(length).collect())
    };
    let tail = cut(&b, password.len());
    first.push(&tail);
    let mut length = password.len();
    while length > 0 {
        first.push(if length & 1 == 1 { &b } else { password });
        length >>= 1;
    }
    let mut round = scheme.digest(&first);
    let p = cut(&scheme.digest(&vec![password; password.len()]), password.len());
    let s = cut(&scheme.digest(&vec![salted; 16 + usize::from(round[0])]), salted.len());
    for i in 0..rounds {
        let odd = i % 2 == 1;
        let mut parts: [&[u8]; 4] = [if odd { &p } else { &round }, &[], &[], if odd { &round } else { &p }];
        if i % 3 != 0 {
            parts[1] = &s;
        }
        if i % 7 != 0 {
            parts[2] = &p;
        }
        round = scheme.digest(&parts);
    }
    let mut out = String::from(match scheme {
        Scheme::Sha256 => "$5$",
        Scheme::Sha512 => "$6$",
    });
    if rounds != UNWRITTEN {
        out.push_str(&format!("rounds={rounds}$"));
    }
    out.push_str(salt);
    out.push('$');
    encode(scheme, &round, &mut out);
    Ok(out)
}

/// Crypt's own base 64, over bytes in crypt's own order.
fn encode(scheme: Scheme, digest: &[u8], out: &mut String) {
    let mut group = |bytes: [u8; 3], digits: u32| {
        let word = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        out.extend((0..digits).map(|i| char::from(ALPHABET[(word >> (6 * i) & 63) as usize])));
    };
    match scheme {
        Scheme::Sha256 => {
            let (mut a, mut b, mut c) = (0, 10, 20);
            for _ in 0..10 {
                group([digest[a], digest[b], digest[c]], 4);
                (a, b, c) = (c + 1, a + 1, b + 1);
            }
            group([0, digest[31], digest[30]], 3);
        }
        Scheme::Sha512 => {
            let (mut a, mut b, mut c) = (0, 21, 42);
            for _ in 0..21 {
                group([digest[a], digest[b], digest[c]], 4);
                (a, b, c) = (b + 1, c + 1, a + 1);
            }
            group([0, 0, digest[63]], 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors of the specification.
    #[test]
    fn hashes_are_those_of_the_specification() {
        for (scheme, password, salt, rounds, want) in [
            (
                Scheme::Sha256,
                "Hello world!",
                "saltstring",
                5000,
                "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
            ),
            (
                Scheme::Sha512,
                "Hello world!",
                "saltstring",
                5000,
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            ),
            (
                Scheme::Sha256,
                "Hello world!",
                "saltstringsaltst",
                10000,
                "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
            ),
        ] {
            assert_eq!(hash(scheme, password.as_bytes(), salt, Some(rounds)).unwrap(), want);
        }
        assert!(hash(Scheme::Sha512, b"x", "a:b", None).is_err());
        assert!(hash(Scheme::Sha512, b"x", "a", Some(999)).is_err());
        assert_eq!(salt().unwrap().len(), 16);
    }
}
