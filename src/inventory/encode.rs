//! Encodings that filters need: base64, SHA-1, MD5, and JSON and YAML as Python writes them.
//!
//! SHA-1 and MD5 are for names and checksums (`hash`, `to_uuid`), not for security.

use super::scalar;
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

/// JSON as Python's `json.dumps` writes it: ASCII only, `, ` and `: ` between.
pub(crate) fn json(value: &Value, indent: Option<usize>, sort: bool, ascii: bool) -> String {
    let mut out = String::new();
    json_into(value, indent, sort, ascii, 0, &mut out);
    out
}

fn json_into(value: &Value, indent: Option<usize>, sort: bool, ascii: bool, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match &value.data {
        Data::Null => out.push_str("null"),
        Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::Int(value) => out.push_str(&value.to_string()),
        Data::Float(value) if value.is_nan() => out.push_str("NaN"),
        Data::Float(value) if value.is_infinite() => out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" }),
        Data::Float(value) => out.push_str(&float_text(*value)),
        Data::Str(text) | Data::Unsafe(text) => json_text(text, ascii, out),
        Data::Vault(text) => json_text(text, ascii, out),
        Data::List(list) if list.is_empty() => out.push_str("[]"),
        Data::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                line(depth + 1, out);
                json_into(item, indent, sort, ascii, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Data::Map(map) if map.is_empty() => out.push_str("{}"),
        Data::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            if sort {
                entries.sort_by(|a, b| a.0.cmp(b.0));
            }
            out.push('{');
            for (i, (key, entry)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                line(depth + 1, out);
                json_text(key, ascii, out);
                out.push_str(": ");
                json_into(&entry.value, indent, sort, ascii, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
    }
}

fn json_text(text: &str, ascii: bool, out: &mut String) {
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

/// YAML as PyYAML dumps it; `nice` puts every list and mapping into block style, else the innermost are in one line.
pub(crate) fn yaml(value: &Value, nice: bool, indent: usize, sort: bool) -> String {
    let mut out = String::new();
    let style = YamlStyle { nice, indent, sort };
    if style.flow(value) {
        flow(value, &style, &mut out);
    } else {
        block(value, &style, 0, &mut out);
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    if !matches!(value.data, Data::List(_) | Data::Map(_))
        && !out.ends_with("...\n")
        && matches!(&value.data, Data::Str(text) if is_plain(text))
    {
        out.push_str("...\n");
    }
    out
}

struct YamlStyle {
    nice: bool,
    indent: usize,
    sort: bool,
}

impl YamlStyle {
    /// Whether a value stands in one line.
    fn flow(&self, value: &Value) -> bool {
        let leaf = |value: &Value| !matches!(value.data, Data::List(_) | Data::Map(_));
        match &value.data {
            Data::List(list) => list.is_empty() || !self.nice && list.iter().all(leaf),
            Data::Map(map) => map.is_empty() || !self.nice && map.values().all(|entry| leaf(&entry.value)),
            _ => true,
        }
    }

    fn entries<'v>(&self, map: &'v indexmap::IndexMap<String, super::value::Entry>) -> Vec<(&'v String, &'v Value)> {
        let mut entries: Vec<_> = map.iter().map(|(key, entry)| (key, &entry.value)).collect();
        if self.sort {
            entries.sort_by(|a, b| a.0.cmp(b.0));
        }
        entries
    }
}

fn flow(value: &Value, style: &YamlStyle, out: &mut String) {
    match &value.data {
        Data::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                flow(item, style, out);
            }
            out.push(']');
        }
        Data::Map(map) => {
            out.push('{');
            for (i, (key, value)) in style.entries(map).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                yaml_text(key, out);
                out.push_str(": ");
                flow(value, style, out);
            }
            out.push('}');
        }
        _ => leaf(value, out),
    }
}

fn block(value: &Value, style: &YamlStyle, depth: usize, out: &mut String) {
    let pad = |depth: usize, out: &mut String| out.extend(std::iter::repeat_n(' ', style.indent * depth));
    match &value.data {
        Data::List(list) => {
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    pad(depth, out);
                }
                out.push_str("- ");
                if style.flow(item) {
                    flow(item, style, out);
                    out.push('\n');
                } else {
                    out.extend(std::iter::repeat_n(' ', style.indent.saturating_sub(2)));
                    block(item, style, depth + 1, out);
                }
            }
        }
        Data::Map(map) => {
            for (i, (key, value)) in style.entries(map).into_iter().enumerate() {
                if i > 0 {
                    pad(depth, out);
                }
                yaml_text(key, out);
                out.push(':');
                if style.flow(value) {
                    out.push(' ');
                    flow(value, style, out);
                    out.push('\n');
                } else {
                    // A list in a mapping stands at the mapping's own column.
                    let list = matches!(value.data, Data::List(_));
                    let inner = if list { depth } else { depth + 1 };
                    out.push('\n');
                    pad(inner, out);
                    block(value, style, inner, out);
                }
            }
        }
        _ => leaf(value, out),
    }
}

fn leaf(value: &Value, out: &mut String) {
    match &value.data {
        Data::Str(text) | Data::Unsafe(text) => yaml_text(text, out),
        Data::Null => out.push_str("null"),
        Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::Float(value) if value.is_nan() => out.push_str(".nan"),
        Data::Float(value) if value.is_infinite() => out.push_str(if *value > 0.0 { ".inf" } else { "-.inf" }),
        Data::Float(value) => out.push_str(&float_text(*value)),
        Data::Int(value) => out.push_str(&value.to_string()),
        Data::Vault(text) => yaml_text(text, out),
        Data::List(_) | Data::Map(_) => {}
    }
}

fn is_plain(text: &str) -> bool {
    const FIRST: &str = "-?:,[]{}#&*!|>'\"%@`=<";
    let typed = !matches!(scalar::resolve(text), Some(Data::Str(_))) || is_date(text);
    !text.is_empty()
        && !typed
        && !text.starts_with(|c: char| FIRST.contains(c) || c.is_whitespace())
        && !text.ends_with(|c: char| c.is_whitespace() || c == ':')
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(['\n', '\t', '[', ']', '{', '}', ','])
        && !text.chars().any(char::is_control)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

fn yaml_text(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
    } else if text
        .chars()
        .any(|c| c.is_control() || !c.is_ascii() && c.is_whitespace())
    {
        json_text(text, false, out);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Place;

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

    #[test]
    fn yaml_is_dumped_as_pyyaml_does() {
        let value = Value::from_json(
            &serde_json::json!({"b": "yes", "a": [1, "x y", true, null], "c": {"d": {"e": "2"}}}),
            &Place::whole("t"),
        );
        assert_eq!(
            yaml(&value, false, 2, true),
            "a: [1, x y, true, null]\nb: 'yes'\nc:\n  d: {e: '2'}\n"
        );
        assert_eq!(
            yaml(&value, true, 4, true),
            "a:\n- 1\n- x y\n- true\n- null\nb: 'yes'\nc:\n    d:\n        e: '2'\n"
        );
    }
}
