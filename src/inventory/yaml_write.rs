//! YAML as PyYAML dumps it: `to_yaml` and `to_nice_yaml` give what they give in Ansible, byte for byte.
//!
//! ```text
//! value --(one line, or block by block)--> scalars --(plain, else 'single', else "double")--> lines of at most 80
//! ```
//!
//! Which quotes a text gets depends on what stands in it; lines are broken at single blanks once they are longer than the
//! width. There are no failures. A key that is very long or has line breaks is written in double quotes, where PyYAML
//! writes `? key`.

use super::scalar;
use super::value::{Data, Value, float_text};

/// Which values stand in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Everything.
    One,
    /// Lists and mappings that hold neither.
    Leaves,
    /// Empty ones only.
    Block,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Blanks a level.
    pub indent: usize,
    /// Keys sorted.
    pub sort: bool,
    /// Where lines are broken.
    pub width: usize,
    /// Which values stand in one line.
    pub lines: Lines,
}

/// The YAML of a value, with a newline at the end.
pub(crate) fn write(value: &Value, style: &Style) -> String {
    let mut writer = Writer {
        style,
        out: String::new(),
        column: 0,
    };
    if writer.in_line(value) {
        writer.flow(value, style.indent, false);
    } else {
        writer.block(value, 0);
    }
    if !writer.out.ends_with('\n') {
        writer.out.push('\n');
    }
    writer.out
}

struct Writer<'s> {
    style: &'s Style,
    out: String,
    column: usize,
}

fn is_leaf(value: &Value) -> bool {
    !matches!(value.data, Data::List(_) | Data::Map(_))
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn newline(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Goes to a line of its own, `indent` blanks in.
    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.newline();
        }
        self.push(&" ".repeat(indent));
    }

    fn in_line(&self, value: &Value) -> bool {
        match (&value.data, self.style.lines) {
            (_, Lines::One) => true,
            (Data::List(list), Lines::Leaves) => list.iter().all(is_leaf),
            (Data::Map(map), Lines::Leaves) => map.values().all(|entry| is_leaf(&entry.value)),
            (Data::List(list), Lines::Block) => list.is_empty(),
            (Data::Map(map), Lines::Block) => map.is_empty(),
            _ => true,
        }
    }

    fn entries<'v>(&self, map: &'v indexmap::IndexMap<String, super::value::Entry>) -> Vec<(&'v String, &'v Value)> {
        let mut entries: Vec<_> = map.iter().map(|(key, entry)| (key, &entry.value)).collect();
        if self.style.sort {
            entries.sort_by(|a, b| a.0.cmp(b.0));
        }
        entries
    }

    /// Writes a value in one line, broken only where it grows too long; `indent` is that of broken lines.
    fn flow(&mut self, value: &Value, indent: usize, inside: bool) {
        let next = indent + self.style.indent;
        match &value.data {
            Data::List(list) => {
                self.push("[");
                for (i, item) in list.iter().enumerate() {
                    self.next_item(i, indent);
                    self.flow(item, next, true);
                }
                self.push("]");
            }
            Data::Map(map) => {
                self.push("{");
                for (i, (key, value)) in self.entries(map).into_iter().enumerate() {
                    self.next_item(i, indent);
                    self.scalar(key, indent, true, true);
                    self.push(": ");
                    self.flow(value, next, true);
                }
                self.push("}");
            }
            _ => self.leaf(value, indent, inside),
        }
    }

    fn next_item(&mut self, index: usize, indent: usize) {
        if index > 0 {
            self.push(",");
        }
        if self.column > self.style.width {
            self.line(indent);
        } else if index > 0 {
            self.push(" ");
        }
    }

    /// Writes a list or mapping over several lines; the first begins where the writer stands.
    fn block(&mut self, value: &Value, indent: usize) {
        let step = self.style.indent;
        match &value.data {
            Data::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        self.line(indent);
                    }
                    self.push("- ");
                    if self.in_line(item) {
                        self.flow(item, indent + step, false);
                        self.newline();
                    } else {
                        self.push(&" ".repeat(step.saturating_sub(2)));
                        self.block(item, indent + step);
                    }
                }
            }
            Data::Map(map) => {
                for (i, (key, value)) in self.entries(map).into_iter().enumerate() {
                    if i > 0 {
                        self.line(indent);
                    }
                    self.scalar(key, indent + step, false, true);
                    self.push(":");
                    if self.in_line(value) {
                        self.push(" ");
                        self.flow(value, indent + step, false);
                        self.newline();
                    } else {
                        // A list in a mapping stands at the mapping's own column.
                        let list = matches!(value.data, Data::List(_));
                        let inner = if list { indent } else { indent + step };
                        self.newline();
                        self.push(&" ".repeat(inner));
                        self.block(value, inner);
                    }
                }
            }
            _ => self.leaf(value, indent + step, false),
        }
    }

    fn leaf(&mut self, value: &Value, indent: usize, inside: bool) {
        match &value.data {
            Data::Str(text) | Data::Unsafe(text) => self.scalar(text, indent, inside, false),
            Data::Vault(text) => self.scalar(text, indent, inside, false),
            Data::Null => self.push("null"),
            Data::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Data::Float(value) if value.is_nan() => self.push(".nan"),
            Data::Float(value) if value.is_infinite() => self.push(if *value > 0.0 { ".inf" } else { "-.inf" }),
            Data::Float(value) => {
                let text = float_text(*value);
                // YAML 1.1 wants a point in a float.
                let text = if text.contains('.') {
                    text
                } else {
                    text.replacen('e', ".0e", 1)
                };
                self.push(&text);
            }
            Data::Int(value) => self.push(&value.to_string()),
            Data::List(_) | Data::Map(_) => {}
        }
    }

    /// Writes a text; `inside` brackets more has to be quoted, and a `key` stays in one line.
    fn scalar(&mut self, text: &str, indent: usize, inside: bool, key: bool) {
        let traits = Traits::of(text);
        let plain = if inside { traits.plain_inside } else { traits.plain };
        if plain && !text.is_empty() && is_text(text) {
            self.plain(text, indent, key);
        } else if traits.single && !(key && traits.breaks) {
            self.single(text, indent, key);
        } else {
            self.double(text, indent, key);
        }
    }

    fn plain(&mut self, text: &str, indent: usize, key: bool) {
        for (i, word) in Words::of(text).enumerate() {
            match word {
                Word::Blanks(1) if i > 0 && !key && self.column > self.style.width => self.line(indent),
                Word::Blanks(count) => self.push(&" ".repeat(count)),
                Word::Breaks(_) => {}
                Word::Text(text) => self.push(text),
            }
        }
    }

    fn single(&mut self, text: &str, indent: usize, key: bool) {
        self.push("'");
        let last = Words::of(text).count().saturating_sub(1);
        for (i, word) in Words::of(text).enumerate() {
            match word {
                Word::Blanks(1) if i > 0 && i < last && !key && self.column > self.style.width => self.line(indent),
                Word::Blanks(count) => self.push(&" ".repeat(count)),
                Word::Breaks(count) => {
                    // One newline in the text is an empty line in the file.
                    for _ in 0..=count {
                        self.newline();
                    }
                    self.push(&" ".repeat(indent));
                }
                Word::Text(text) => self.push(&text.replace('\'', "''")),
            }
        }
        self.push("'");
    }

    fn double(&mut self, text: &str, indent: usize, key: bool) {
        let chars: Vec<char> = text.chars().collect();
        self.push("\"");
        let mut pending = String::new();
        for (at, c) in chars.iter().enumerate() {
            let escape = escape(*c);
            // A line that is too long is broken before a blank or behind an escape.
            let here = self.column + pending.chars().count();
            if !key && at > 0 && at + 1 < chars.len() && *c == ' ' && here > self.style.width {
                pending.push('\\');
                self.push(&pending);
                pending.clear();
                self.line(indent);
                self.push("\\");
            }
            match escape {
                Some(escape) => pending.push_str(&escape),
                None => pending.push(*c),
            }
        }
        self.push(&pending);
        self.push("\"");
    }
}

/// A text in pieces: runs of blanks, of line breaks, and what is between.
enum Word<'t> {
    Blanks(usize),
    Breaks(usize),
    Text(&'t str),
}

struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    fn of(rest: &'t str) -> Self {
        Self { rest }
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = Word<'t>;

    fn next(&mut self) -> Option<Word<'t>> {
        let first = self.rest.chars().next()?;
        let same = |c: char| match first {
            ' ' | '\n' => c != first,
            _ => c == ' ' || c == '\n',
        };
        let end = self.rest.find(same).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(match first {
            ' ' => Word::Blanks(word.len()),
            '\n' => Word::Breaks(word.len()),
            _ => Word::Text(word),
        })
    }
}

/// What may be done with a text.
struct Traits {
    plain: bool,
    plain_inside: bool,
    single: bool,
    breaks: bool,
}

impl Traits {
    fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let blank = |at: usize| {
            chars
                .get(at)
                .is_none_or(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{85}'))
        };
        let mut outside = text.starts_with("---") || text.starts_with("...");
        let mut inside = outside;
        let (mut special, mut break_space, mut space_break) = (false, false, false);
        for (at, c) in chars.iter().enumerate() {
            let follows = blank(at + 1);
            let before = at == 0 || blank(at - 1);
            match c {
                '#' if before => (outside, inside) = (true, true),
                '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if at == 0 => {
                    (outside, inside) = (true, true)
                }
                ',' | '[' | ']' | '{' | '}' => {
                    inside = true;
                    outside |= at == 0;
                }
                '?' => {
                    inside = true;
                    outside |= at == 0 && follows;
                }
                ':' => {
                    inside = true;
                    outside |= follows;
                }
                '-' if at == 0 && follows => (outside, inside) = (true, true),
                _ => {}
            }
            special |= *c != '\n' && !printable(*c);
            if at > 0 {
                break_space |= *c == ' ' && chars[at - 1] == '\n';
                space_break |= *c == '\n' && chars[at - 1] == ' ';
            }
        }
        let breaks = text.contains('\n');
        let edge = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let never = edge || breaks || special || break_space || space_break;
        Self {
            plain: !never && !outside,
            plain_inside: !never && !inside,
            single: !special && !break_space && !space_break,
            breaks,
        }
    }
}

fn printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

fn escape(c: char) -> Option<String> {
    let short = match c {
        '\0' => "0",
        '\u{7}' => "a",
        '\u{8}' => "b",
        '\t' => "t",
        '\n' => "n",
        '\u{b}' => "v",
        '\u{c}' => "f",
        '\r' => "r",
        '\u{1b}' => "e",
        '"' => "\"",
        '\\' => "\\",
        '\u{85}' => "N",
        '\u{2028}' => "L",
        '\u{2029}' => "P",
        c if printable(c) => return None,
        c => {
            let code = c as u32;
            return Some(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{short}"))
}

/// Whether YAML 1.1 reads the bare text as text.
fn is_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let date = bytes.len() >= 8 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-';
    matches!(scalar::resolve(text), Some(Data::Str(_))) && !date && !matches!(text, "=" | "<<")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Place;

    fn yaml(json: serde_json::Value, lines: Lines, indent: usize) -> String {
        let value = Value::from_json(&json, &Place::whole("t"));
        let style = Style {
            indent,
            sort: true,
            width: 80,
            lines,
        };
        write(&value, &style)
    }

    #[test]
    fn yaml_is_dumped_as_pyyaml_does() {
        let json = serde_json::json!({"b": "yes", "a": [1, "x y", true, null], "c": {"d": {"e": "2"}}});
        assert_eq!(
            yaml(json.clone(), Lines::Leaves, 2),
            "a: [1, x y, true, null]\nb: 'yes'\nc:\n  d: {e: '2'}\n"
        );
        assert_eq!(
            yaml(json, Lines::Block, 4),
            "a:\n- 1\n- x y\n- true\n- null\nb: 'yes'\nc:\n    d:\n        e: '2'\n"
        );
    }

    #[test]
    fn long_lines_and_line_breaks_are_folded() {
        let long = "word ".repeat(20).trim().to_owned();
        let folded = yaml(serde_json::json!({ "k": long }), Lines::Block, 4);
        assert_eq!(folded.lines().count(), 2);
        assert_eq!(
            yaml(serde_json::json!({"k": "a\nb"}), Lines::Block, 4),
            "k: 'a\n\n    b'\n"
        );
        assert_eq!(yaml(serde_json::json!("a\tb"), Lines::Block, 4), "\"a\\tb\"\n");
    }
}
