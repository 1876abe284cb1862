//! Secrets: values that cannot be printed by accident.
//!
//! A [`Secret`] shows `***` in `Debug` and has no `Display` and no `Serialize`; the only way to its content is
//! [`Secret::expose`], which is easy to search for. [`Redactor`] is the second line of defence: everything that vmwright
//! writes for people or files passes it, so that a secret which an outside party echoed (a task log, a remote command's
//! standard error) is masked as well.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
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

/// Masks known secrets in any text, as they are and as they look inside JSON, in a URL or a form, and line by line.
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
        let secrets = secrets
            .into_iter()
            .flat_map(|secret| disguises(secret.expose()))
            .filter(|s| s.expose().len() >= Self::MIN_LEN)
            .collect();
        Self { secrets }.in_order()
    }

    fn in_order(mut self) -> Self {
        self.secrets.sort_by(|a, b| {
            b.expose()
                .len()
                .cmp(&a.expose().len())
                .then_with(|| a.expose().cmp(b.expose()))
        });
        self.secrets.dedup();
        self
    }

    /// A redactor for further secrets too.
    #[must_use]
    pub fn and(self, secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut all = Self::new(secrets);
        all.secrets.extend(self.secrets);
        all.in_order()
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

    /// Masks every text inside `value`, keys too.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(map) => {
                if map.keys().any(|key| matches!(self.mask(key), Cow::Owned(_))) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, item)| (self.mask(&key).into_owned(), item))
                        .collect();
                }
                map.values_mut().for_each(|item| self.mask_json(item));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The shapes in which a secret may come back: itself, inside a JSON text, percent-encoded as in a URL or a form, and, of
/// a secret with several lines such as a key, each line that is long enough to be no ordinary word.
fn disguises(secret: &str) -> Vec<Secret> {
    const LONG_LINE: usize = 12;
    let encoded = |bare: &dyn Fn(u8) -> bool| -> String {
        secret
            .bytes()
            .map(|b| {
                if bare(b) {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect()
    };
    let url = encoded(&|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b));
    let form = encoded(&|b| b.is_ascii_alphanumeric() || b"-._* ".contains(&b)).replace(' ', "+");
    let json = Value::from(secret).to_string();
    let mut shapes = vec![secret.to_owned(), url, form, json[1..json.len() - 1].to_owned()];
    if secret.contains('\n') {
        let telling = |line: &&str| line.len() >= LONG_LINE && !line.starts_with("-----");
        shapes.extend(secret.lines().map(str::trim).filter(telling).map(str::to_owned));
    }
    shapes.sort();
    shapes.dedup();
    shapes.into_iter().map(Secret::new).collect()
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

    #[test]
    fn a_secret_is_known_in_its_disguises() {
        let redactor = Redactor::new([Secret::new("pa ss\"w/d*~")]);
        assert_eq!(redactor.mask("pw=pa ss\"w/d*~!"), "pw=***!");
        assert_eq!(redactor.mask(r#"{"pw":"pa ss\"w/d*~"}"#), r#"{"pw":"***"}"#);
        assert_eq!(redactor.mask("?pw=pa%20ss%22w%2Fd%2A~&x"), "?pw=***&x");
        assert_eq!(redactor.mask("pw=pa+ss%22w%2Fd*%7E&x"), "pw=***&x");
    }

    #[test]
    fn the_lines_of_a_key_are_masked_one_by_one() {
        let redactor = Redactor::new([Secret::new(
            "-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEE==\n-----END KEY-----",
        )]);
        assert_eq!(
            redactor.mask("-----BEGIN KEY-----\n  AAAABBBBCCCCDDDD"),
            "-----BEGIN KEY-----\n  ***"
        );
    }

    #[test]
    fn json_is_masked_in_values_and_keys() {
        let redactor = Redactor::new([Secret::new("hunter2")]);
        let mut value = serde_json::json!({"a": ["x hunter2", 7, null], "hunter2": {"b": "hunter2"}});
        redactor.mask_json(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x ***", 7, null], "***": {"b": "***"}}));
    }
}
