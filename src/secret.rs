//! Secrets: values that cannot be printed by accident.
//!
//! A [`Secret`] shows `***` in `Debug` and has no `Display` and no `Serialize`; the only way to its content is
//! [`Secret::expose`], which is easy to search for. [`Redactor`] is the second line of defence: everything that vmwright
//! writes for people or files passes it, so that a secret which an outside party echoed (a task log, a remote command's
//! standard error) is masked as well.

use std::borrow::Cow;
use std::fmt;

use zeroize::Zeroize;

/// The mask that stands where a secret would.
pub const MASK: &str = "***";

/// A text that must never be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one call that needs it (a header, a request body, a child's standard input).
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Masks known secrets in any text.
///
/// Texts shorter than [`Redactor::MIN_LEN`] bytes are not masked: they would hit ordinary words.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    /// The shortest secret that is masked, in bytes.
    pub const MIN_LEN: usize = 4;

    /// A redactor for these secrets; the longest is masked first, so that a secret inside another is no leak.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets
            .into_iter()
            .filter(|s| s.expose().len() >= Self::MIN_LEN)
            .collect();
        secrets.sort_by(|a, b| {
            b.expose()
                .len()
                .cmp(&a.expose().len())
                .then_with(|| a.expose().cmp(b.expose()))
        });
        secrets.dedup();
        Self { secrets }
    }

    /// `text` with every known secret replaced by [`MASK`].
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = Cow::Borrowed(text);
        for secret in &self.secrets {
            if out.contains(secret.expose()) {
                out = Cow::Owned(out.replace(secret.expose(), MASK));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_mask_only() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), MASK);
    }

    #[test]
    fn the_longest_secret_is_masked_first() {
        let redactor = Redactor::new([Secret::new("hunter"), Secret::new("hunter2-long"), Secret::new("abc")]);
        assert_eq!(redactor.mask("a hunter2-long, a hunter, abc"), "a ***, a ***, abc");
    }
}
