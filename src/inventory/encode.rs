//! Encodings that filters need: base64, SHA-1, MD5, and JSON as Python writes it.
//!
//! SHA-1 and MD5 are for names and checksums (`hash`, `to_uuid`), not for security.

use super::value::{Data, Value, float_text};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// The bytes of a base64 text; blanks are skipped.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut word = 0u32;
    let mut bits = 0;
    let mut digits = 0;
    let mut padding = 0;
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace()) {
        if c == b'=' {
            padding += 1;
            continue;
        }
        let value = match c {
            b'-' => 62,
            b'_' => 63,
            c => ALPHABET.iter().position(|a| *a == c)?,
        };
        if padding > 0 {
            return None;
        }
        digits += 1;
        word = word << 6 | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits & 0xff) as u8);
        }
    }
    ((digits + padding) % 4 == 0 && padding <= 2).then_some(out)
}

fn padded(bytes: &[u8], length: [u8; 8]) -> Vec<u8> {
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend(length);
    message
}

fn hex(words: impl IntoIterator<Item = u8>) -> String {
    words.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-1 (RFC 3174).
pub(crate) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut h: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded(bytes, (bytes.len() as u64 * 8).to_be_bytes()).chunks(64) {
        let mut w = [0u32; 80];
        for (i, word) in block.chunks(4).enumerate() {
            w[i] = word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for i in 16..80 {
            w[i] = (w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = h;
        for (i, word) in w.iter().enumerate() {
            let (f, k) = match i {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(f)
                .wrapping_add(e)
                .wrapping_add(k)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (into, add) in h.iter_mut().zip([a, b, c, d, e]) {
            *into = into.wrapping_add(add);
        }
    }
    let mut out = [0; 20];
    for (into, word) in out.chunks_mut(4).zip(h) {
        into.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// MD5 (RFC 1321).
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut h: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded(bytes, (bytes.len() as u64 * 8).to_le_bytes()).chunks(64) {
        let mut m = [0u32; 16];
        for (into, word) in m.iter_mut().zip(block.chunks(4)) {
            *into = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        let [mut a, mut b, mut c, mut d] = h;
        for i in 0..64usize {
            let (f, g) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let k = (f64::from(u32::try_from(i + 1).unwrap_or(0)).sin().abs() * 4_294_967_296.0) as u32;
            let turned = a
                .wrapping_add(f)
                .wrapping_add(k)
                .wrapping_add(m[g])
                .rotate_left(SHIFTS[i / 16][i % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
        }
        for (into, add) in h.iter_mut().zip([a, b, c, d]) {
            *into = into.wrapping_add(add);
        }
    }
    let mut out = [0; 16];
    for (into, word) in out.chunks_mut(4).zip(h) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// The hash of a text in hexadecimal; `None` for an unknown algorithm.
pub(crate) fn digest(text: &str, algorithm: &str) -> Option<String> {
    use sha2::Digest;
    let bytes = text.as_bytes();
    Some(match algorithm {
        "md5" => hex(md5(bytes)),
        "sha1" => hex(sha1(bytes)),
        "sha224" => hex(sha2::Sha224::digest(bytes)),
        "sha256" => hex(sha2::Sha256::digest(bytes)),
        "sha384" => hex(sha2::Sha384::digest(bytes)),
        "sha512" => hex(sha2::Sha512::digest(bytes)),
        _ => return None,
    })
}

/// JSON as Python's `json.dumps` writes it.
pub(crate) struct JsonStyle {
    /// Blanks a level; `None`: all in one line.
    pub indent: Option<usize>,
    /// Keys sorted.
    pub sort: bool,
    /// Other characters than those of ASCII as `\uXXXX`.
    pub ascii: bool,
    /// What stands between items.
    pub item: String,
    /// What stands behind a key.
    pub key: String,
}

impl JsonStyle {
    /// With Python's separators.
    pub fn new(indent: Option<usize>, sort: bool, ascii: bool) -> Self {
        Self {
            indent,
            sort,
            ascii,
            item: if indent.is_some() { "," } else { ", " }.to_owned(),
            key: ": ".to_owned(),
        }
    }

    /// The JSON of a value.
    pub fn write(&self, value: &Value) -> String {
        let mut out = String::new();
        self.into(value, 0, &mut out);
        out
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn into(&self, value: &Value, depth: usize, out: &mut String) {
        match &value.data {
            Data::Null => out.push_str("null"),
            Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Data::Int(value) => out.push_str(&value.to_string()),
            Data::Float(value) if value.is_nan() => out.push_str("NaN"),
            Data::Float(value) if value.is_infinite() => {
                out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
            }
            Data::Float(value) => out.push_str(&float_text(*value)),
            Data::Str(text) | Data::Unsafe(text) => json_text(text, self.ascii, out),
            Data::Vault(text) => json_text(text, self.ascii, out),
            Data::List(list) if list.is_empty() => out.push_str("[]"),
            Data::List(list) => {
                out.push('[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push_str(&self.item);
                    }
                    self.line(depth + 1, out);
                    self.into(item, depth + 1, out);
                }
                self.line(depth, out);
                out.push(']');
            }
            Data::Map(map) if map.is_empty() => out.push_str("{}"),
            Data::Map(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                if self.sort {
                    entries.sort_by(|a, b| a.0.cmp(b.0));
                }
                out.push('{');
                for (i, (key, entry)) in entries.into_iter().enumerate() {
                    if i > 0 {
                        out.push_str(&self.item);
                    }
                    self.line(depth + 1, out);
                    json_text(key, self.ascii, out);
                    out.push_str(&self.key);
                    self.into(&entry.value, depth + 1, out);
                }
                self.line(depth, out);
                out.push('}');
            }
        }
    }
}

pub(crate) fn json_text(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_right() {
        assert_eq!(digest("a", "sha1").unwrap(), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
        assert_eq!(digest("abc", "md5").unwrap(), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(digest(&"x".repeat(200), "md5").unwrap().len(), 32);
        assert_eq!(
            digest("", "sha256").unwrap(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn base64_goes_both_ways() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(unbase64(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(unbase64("Zg="), None);
        assert_eq!(unbase64("Z!=="), None);
    }
}
