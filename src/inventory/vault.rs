//! Texts encrypted by `ansible-vault`: format 1.1 and 1.2, cipher AES256 (AES-CTR, HMAC-SHA-256, PBKDF2).
//!
//! ```text
//! $ANSIBLE_VAULT;1.2;AES256;label        hex( hex(salt) \n hex(hmac) \n hex(ciphertext) ), in lines of 80
//! ```
//!
//! The format has no mark by which a wrong password could be told from damaged bytes: both end in a wrong HMAC. So a
//! text whose form is intact counts as encrypted with another password, unless one of the passwords opens other texts
//! with the same label in the same run; then damage is the likelier cause, and the message says so.

use std::sync::Mutex;

use aes::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::LoadOptions;
use super::vault_source::{self, Password};
use crate::diagnose::{Diagnostic, Place};
use crate::secret::Secret;

/// How every encrypted text begins.
pub const HEADER: &str = "$ANSIBLE_VAULT";
const ITERATIONS: u32 = 10_000;

/// The passwords at hand.
#[derive(Debug, Default)]
pub struct Vault {
    passwords: Vec<Password>,
    /// Per password: the labels of texts that it opened, and where.
    opened: Mutex<Vec<(usize, String, Place)>>,
}

/// An encrypted text taken apart.
struct Envelope {
    label: String,
    salt: Vec<u8>,
    mac: Vec<u8>,
    body: Vec<u8>,
}

impl Vault {
    /// Reads the passwords that the options name.
    ///
    /// # Errors
    ///
    /// `inventory/vault-password-file` and `inventory/vault-prompt` for each source that gives no password.
    pub fn load(options: &LoadOptions) -> Result<Self, Vec<Diagnostic>> {
        Ok(Self {
            passwords: vault_source::load(options)?,
            opened: Mutex::default(),
        })
    }

    /// A vault with these passwords, for tests and callers that have them in hand.
    pub fn with_passwords(passwords: impl IntoIterator<Item = Secret>) -> Self {
        Self {
            passwords: passwords
                .into_iter()
                .map(|secret| Password {
                    shown: "a password".to_owned(),
                    label: None,
                    secret,
                })
                .collect(),
            opened: Mutex::default(),
        }
    }

    /// Whether the text is one for [`Vault::decrypt`].
    pub fn is_encrypted(text: &str) -> bool {
        text.trim_start_matches('\u{feff}').starts_with(HEADER)
    }

    /// The plain text.
    ///
    /// # Errors
    ///
    /// `inventory/vault-format` and `inventory/vault-damaged` for what is no intact text, `inventory/vault-no-password`
    /// and `inventory/vault-wrong-password` for one that no password opens.
    pub fn decrypt(&self, text: &str, place: &Place) -> Result<Zeroizing<String>, Diagnostic> {
        let envelope = open_envelope(text, place)?;
        if self.passwords.is_empty() {
            return Err(Diagnostic::error(
                "inventory/vault-no-password",
                "this is encrypted, and no vault password is given",
            )
            .at(place.clone())
            .rule("encrypted variables need the password that they were encrypted with")
            .help("give the file that holds it (--vault-password-file FILE), or --ask-vault-pass"));
        }
        // Passwords of the same label first.
        let mut order: Vec<usize> = (0..self.passwords.len()).collect();
        order.sort_by_key(|i| self.passwords[*i].label.as_deref() != Some(envelope.label.as_str()));
        for index in order {
            let Some(plain) = open(&envelope, self.passwords[index].secret.expose()) else {
                continue;
            };
            if let Ok(mut opened) = self.opened.lock()
                && !opened
                    .iter()
                    .any(|(i, label, _)| *i == index && *label == envelope.label)
            {
                opened.push((index, envelope.label.clone(), place.clone()));
            }
            return String::from_utf8(plain).map(Zeroizing::new).map_err(|error| {
                error.into_bytes().zeroize();
                damaged(place, "the decrypted text is not UTF-8")
            });
        }
        Err(self.refused(&envelope, place))
    }

    fn refused(&self, envelope: &Envelope, place: &Place) -> Diagnostic {
        let files: Vec<&str> = self.passwords.iter().map(|password| password.shown.as_str()).collect();
        let mut fault = Diagnostic::error(
            "inventory/vault-wrong-password",
            format!("none of the vault passwords opens this (tried {})", files.join(", ")),
        )
        .at(place.clone())
        .rule("the form of the text is intact, but its HMAC fits no password at hand");
        if !envelope.label.is_empty() {
            fault = fault.note(None, format!("its vault id is `{}`", envelope.label));
        }
        let other = self.opened.lock().ok().and_then(|opened| {
            let hit = opened.iter().find(|(_, label, _)| *label == envelope.label);
            hit.map(|(index, _, place)| (*index, place.clone()))
        });
        match other {
            Some((index, at)) => {
                let file = &self.passwords[index].shown;
                fault
                    .note(
                        at,
                        format!("{file} opens this one, so either this text is damaged or it has another password"),
                    )
                    .help("restore it from version control, or encrypt the value again: ansible-vault encrypt_string")
            }
            None => fault.help("add the right file: --vault-password-file FILE (may be given several times)"),
        }
    }
}

fn damaged(place: &Place, why: &str) -> Diagnostic {
    Diagnostic::error(
        "inventory/vault-damaged",
        format!("this encrypted text is damaged: {why}"),
    )
    .at(place.clone())
    .rule("an encrypted text holds a salt, an HMAC and whole cipher blocks, in hexadecimal")
    .help("restore it from version control, or encrypt the value again: ansible-vault encrypt_string")
}

fn open_envelope(text: &str, place: &Place) -> Result<Envelope, Diagnostic> {
    let format = |why: String| {
        Diagnostic::error("inventory/vault-format", why)
            .at(place.clone())
            .rule("a vault text begins with $ANSIBLE_VAULT;1.1;AES256 or $ANSIBLE_VAULT;1.2;AES256;label")
            .help("encrypt the value again: ansible-vault encrypt_string")
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let (head, body) = text.split_once('\n').unwrap_or((text, ""));
    let parts: Vec<&str> = head.trim().split(';').collect();
    let label = match parts.as_slice() {
        [HEADER, "1.1", "AES256", ..] => String::new(),
        [HEADER, "1.2", "AES256", label, ..] => (*label).to_owned(),
        [HEADER, "1.2", "AES256"] => String::new(),
        [HEADER, version, cipher, ..] => {
            return Err(format(format!(
                "the vault format {version} with {cipher} is not supported"
            )));
        }
        _ => return Err(format("this is no text of ansible-vault".to_owned())),
    };
    let outer = unhex(body.bytes().filter(|c| !c.is_ascii_whitespace())).map_err(|why| damaged(place, why))?;
    let mut parts = outer.split(|c| *c == b'\n').map(|part| unhex(part.iter().copied()));
    let (Some(Ok(salt)), Some(Ok(mac)), Some(Ok(body)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(damaged(
            place,
            "it is not salt, HMAC and ciphertext; perhaps lines are missing",
        ));
    };
    if mac.len() != 32 || salt.is_empty() || body.is_empty() || body.len() % 16 != 0 {
        return Err(damaged(place, "a part has the wrong length; perhaps lines are missing"));
    }
    Ok(Envelope { label, salt, mac, body })
}

fn unhex(text: impl Iterator<Item = u8>) -> Result<Vec<u8>, &'static str> {
    let digits: Option<Vec<u8>> = text
        .map(|c| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.ok_or("it holds characters that are not hexadecimal")?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return Err("it has an odd number of hexadecimal digits");
    };
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn open(envelope: &Envelope, password: &str) -> Option<Vec<u8>> {
    let mut keys = Zeroizing::new([0u8; 80]);
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &envelope.salt, ITERATIONS, &mut *keys);
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&keys[32..64]).ok()?;
    mac.update(&envelope.body);
    mac.verify_slice(&envelope.mac).ok()?;
    let mut plain = envelope.body.clone();
    ctr::Ctr128BE::<aes::Aes256>::new_from_slices(&keys[..32], &keys[64..80])
        .ok()?
        .apply_keystream(&mut plain);
    let padding = usize::from(*plain.last()?);
    if padding == 0 || padding > 16 || padding > plain.len() {
        return None;
    }
    plain.truncate(plain.len() - padding);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // ansible-vault encrypt_string --vault-password-file pw, password `pw`, text `sekrit`.
    const TEXT: &str = "$ANSIBLE_VAULT;1.1;AES256\n36653135383762373137633061336630666463646664396163383437323161326131383831343661\n3264316264366465653833646637363236346235623034610a336662333436306532313865303039\n38663639306238646562386336653535643136303261376534343462363237663539353335343738\n3832386435303436370a663065636331356535633833356233396237663436393537373737323337\n6266\n";

    fn vault(password: &str) -> Vault {
        Vault::with_passwords([Secret::new(password)])
    }

    fn code(vault: &Vault, text: &str) -> &'static str {
        vault.decrypt(text, &Place::whole("t")).unwrap_err().code
    }

    #[test]
    fn the_right_password_opens() {
        let two = Vault::with_passwords([Secret::new("other"), Secret::new("pw")]);
        assert_eq!(two.decrypt(TEXT, &Place::whole("t")).unwrap().as_str(), "sekrit");
        let windows = TEXT.replace('\n', "\r\n");
        assert_eq!(two.decrypt(&windows, &Place::whole("t")).unwrap().as_str(), "sekrit");
    }

    #[test]
    fn wrong_damaged_and_missing_are_told_apart() {
        assert_eq!(code(&vault("no"), TEXT), "inventory/vault-wrong-password");
        assert_eq!(code(&Vault::default(), TEXT), "inventory/vault-no-password");
        let short: String = TEXT.lines().take(5).map(|line| format!("{line}\n")).collect();
        assert_eq!(code(&vault("pw"), &short), "inventory/vault-damaged");
        assert_eq!(
            code(&vault("pw"), &TEXT.replace("6266", "626z")),
            "inventory/vault-damaged"
        );
        assert_eq!(
            code(&vault("pw"), "$ANSIBLE_VAULT;1.0;AES\n00"),
            "inventory/vault-format"
        );
        assert_eq!(code(&vault("pw"), "hello"), "inventory/vault-format");
    }

    #[test]
    fn a_password_that_opens_others_makes_damage_likely() {
        let vault = vault("pw");
        vault.decrypt(TEXT, &Place::new("good.yml", 1, 1)).unwrap();
        let broken = TEXT.replace("\n6266\n", "\n6166\n");
        let fault = vault.decrypt(&broken, &Place::whole("t")).unwrap_err();
        assert!(
            fault.notes.iter().any(|(_, text)| text.contains("damaged")),
            "{fault:?}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\$ANSIBLE_VAULT;1\\.[0-3];AES256(;[a-z]{0,3})?\n[0-9a-g\n]{0,200}") {
            let _ = vault("pw").decrypt(&text, &Place::whole("t"));
        }
    }
}
