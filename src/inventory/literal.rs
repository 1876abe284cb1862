//! Python literals, by which Ansible reads the values of INI inventories (`ast.literal_eval`): numbers, quoted text,
//! lists, tuples, sets, dicts, `True`, `False`, `None`. What is not a literal stays text, so `false` is text and
//! `False` is a boolean.

use indexmap::IndexMap;

use super::number::{Number, equal, imaginary_part, number_length, python_number, real_part};
use super::scalar;
use super::value::{Data, Entry, Value};
use crate::diagnose::Place;

/// The value of a text: the literal that it is, else the text itself.
pub fn evaluate(text: &str, place: &Place) -> Value {
    if !might_be_literal(text) {
        return Value::text(text, place.clone());
    }
    let mut reader = Reader {
        rest: text.trim_start_matches([' ', '\t']),
        place,
        brackets: 0,
    };
    match reader.expression(0).filter(|_| reader.at_end()) {
        Some(value) => value,
        None => Value::text(text, place.clone()),
    }
}

fn might_be_literal(text: &str) -> bool {
    text.trim_start_matches([' ', '\t'])
        .starts_with(|c: char| c.is_ascii_digit() || "+-.'\"[({TFNrRbBuUs".contains(c))
}

const MAX_DEPTH: usize = 64;

struct Reader<'t> {
    rest: &'t str,
    place: &'t Place,
    brackets: usize,
}

impl<'t> Reader<'t> {
    /// Skips blanks and comments; newlines count as blanks inside brackets only.
    fn skip(&mut self) {
        loop {
            let before = self.rest;
            self.rest = self.rest.trim_start_matches([' ', '\t', '\u{c}']);
            if self.brackets > 0 {
                self.rest = self.rest.trim_start_matches(['\n', '\r']);
            }
            if self.rest.starts_with('#') {
                self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
            }
            if self.rest == before {
                return;
            }
        }
    }

    fn at_end(&mut self) -> bool {
        self.skip();
        self.rest.trim_start_matches(['\n', '\r', ' ', '\t']).is_empty()
    }

    fn eat(&mut self, token: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let after = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        match self.rest.strip_prefix(word) {
            Some(rest) if after(rest) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn value(&self, data: Data) -> Option<Value> {
        Some(Value::new(data, self.place.clone()))
    }

    fn expression(&mut self, depth: usize) -> Option<Value> {
        let first = self.single(depth)?;
        // A tuple without parentheses: `1, 2`.
        if depth == 0 && self.eat(',') {
            let mut items = vec![first];
            while !self.at_end() {
                items.push(self.single(1)?);
                if !self.eat(',') {
                    break;
                }
            }
            return self.value(Data::List(items));
        }
        Some(first)
    }

    fn single(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip();
        match self.rest.chars().next()? {
            '[' => self.list('[', ']', depth),
            '(' => self.list('(', ')', depth),
            '{' => self.braces(depth),
            '\'' | '"' => self.strings(),
            'r' | 'R' | 'b' | 'B' | 'u' | 'U' => self.strings(),
            'T' if self.word("True") => self.value(Data::Bool(true)),
            'F' if self.word("False") => self.value(Data::Bool(false)),
            'N' if self.word("None") => self.value(Data::Null),
            's' if self.word("set") => {
                self.brackets += 1;
                let empty = self.eat('(') && self.eat(')');
                self.brackets -= 1;
                if empty {
                    self.value(Data::List(Vec::new()))
                } else {
                    None
                }
            }
            '.' if self.rest.starts_with("...") => {
                self.rest = &self.rest[3..];
                self.value(Data::Str("...".to_owned()))
            }
            '+' | '-' | '.' | '0'..='9' => self.number(),
            _ => None,
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Value> {
        if !self.eat(open) {
            return None;
        }
        self.brackets += 1;
        let mut items = Vec::new();
        let mut commas = 0;
        while !self.eat(close) {
            if !items.is_empty() && commas < items.len() {
                return None;
            }
            items.push(self.single(depth + 1)?);
            if self.eat(',') {
                commas += 1;
            }
        }
        self.brackets -= 1;
        if open == '(' && items.len() == 1 && commas == 0 {
            return items.pop();
        }
        self.value(Data::List(items))
    }

    /// A dict or a set.
    fn braces(&mut self, depth: usize) -> Option<Value> {
        if !self.eat('{') {
            return None;
        }
        self.brackets += 1;
        let mut map = IndexMap::new();
        let mut keys: Vec<(Data, String)> = Vec::new();
        let mut set: Vec<Value> = Vec::new();
        let mut comma = true;
        while !self.eat('}') {
            if !comma {
                return None;
            }
            let key = self.single(depth + 1)?;
            if self.eat(':') {
                if !set.is_empty() {
                    return None;
                }
                let value = self.single(depth + 1)?;
                let entry = Entry {
                    key_place: self.place.clone(),
                    value,
                };
                // Python takes 1, 1.0 and True for one key, by its first name.
                let same = keys.iter().find(|(known, _)| equal(known, &key.data));
                let name = match same {
                    Some((_, name)) => name.clone(),
                    None => scalar::key_text(&key.data)?,
                };
                map.insert(name.clone(), entry);
                keys.push((key.data, name));
            } else if map.is_empty() && !matches!(key.data, Data::List(_) | Data::Map(_)) {
                if !set.iter().any(|item| equal(&item.data, &key.data)) {
                    set.push(key);
                }
            } else {
                return None;
            }
            comma = self.eat(',');
        }
        self.brackets -= 1;
        if set.is_empty() {
            self.value(Data::Map(map))
        } else {
            self.value(Data::List(set))
        }
    }

    /// One or more string literals in a row.
    fn strings(&mut self) -> Option<Value> {
        let mut text = String::new();
        let mut any = false;
        let mut bytes = None;
        loop {
            self.skip();
            let prefix: String = self.rest.chars().take_while(char::is_ascii_alphabetic).collect();
            let body = &self.rest[prefix.len()..];
            if !body.starts_with(['\'', '"']) {
                break;
            }
            let raw = match prefix.to_ascii_lowercase().as_str() {
                "" | "u" | "b" => false,
                "r" | "br" | "rb" => true,
                _ => return None,
            };
            let here = prefix.contains(['b', 'B']);
            if bytes.is_some_and(|before| before != here) {
                return None;
            }
            bytes = Some(here);
            self.rest = body;
            let part = self.string(raw)?;
            if here && !self.raw_ascii(body) {
                return None;
            }
            text.push_str(&part);
            any = true;
        }
        match (any, bytes == Some(true)) {
            (false, _) => None,
            // Ansible trusts no template in bytes.
            (true, true) => self.value(Data::Unsafe(text)),
            (true, false) => self.value(Data::Str(text)),
        }
    }

    /// Whether what was read since `from` is ASCII, as bytes must be.
    fn raw_ascii(&self, from: &str) -> bool {
        from[..from.len() - self.rest.len()].is_ascii()
    }

    fn string(&mut self, raw: bool) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let triple: String = [quote; 3].iter().collect();
        let end: &str = if self.rest.starts_with(&triple) {
            &triple
        } else {
            &triple[..1]
        };
        let mut rest = &self.rest[end.len()..];
        let mut out = String::new();
        loop {
            if let Some(after) = rest.strip_prefix(end) {
                self.rest = after;
                return Some(out);
            }
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '\n' if end.len() == 1 => return None,
                '\\' => {
                    let escaped = rest.chars().next()?;
                    if raw {
                        out.push('\\');
                        out.push(escaped);
                        rest = &rest[escaped.len_utf8()..];
                    } else {
                        rest = unescape(rest, &mut out)?;
                    }
                }
                c => out.push(c),
            }
        }
    }

    /// A number, perhaps with one sign, perhaps complex: `1`, `-1.5`, `-(1)`, `1+2j`.
    fn number(&mut self) -> Option<Value> {
        let negative = match self.rest.chars().next()? {
            '-' => Some(true),
            '+' => Some(false),
            _ => None,
        };
        if negative.is_some() {
            self.rest = &self.rest[1..];
            self.skip();
        }
        let (mut number, brackets) = self.unsigned(0)?;
        if let Some(negative) = negative {
            number = number.signed(negative);
        }
        // `1+2j`: of the two terms only the first may have a sign.
        let before = self.rest;
        self.skip();
        if let Number::Real(data) = &number
            && let Some(sign) = self.rest.chars().next().filter(|c| matches!(c, '+' | '-'))
            && !(brackets && negative.is_none())
        {
            let real = real_part(data)?;
            self.rest = &self.rest[1..];
            self.skip();
            let (Number::Complex(add, imaginary), _) = self.unsigned(0)? else {
                return None;
            };
            let sum = match sign {
                '-' => Number::Complex(real - add, 0.0 - imaginary),
                _ => Number::Complex(real + add, 0.0 + imaginary),
            };
            return self.value(sum.data());
        }
        self.rest = before;
        self.value(number.data())
    }

    /// A number without a sign, perhaps in parentheses.
    fn unsigned(&mut self, depth: usize) -> Option<(Number, bool)> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat('(') {
            self.brackets += 1;
            let inner = self.unsigned(depth + 1)?.0;
            let closed = self.eat(')');
            self.brackets -= 1;
            return closed.then_some((inner, true));
        }
        let end = number_length(self.rest);
        let (token, rest) = self.rest.split_at(end);
        if token.is_empty() || rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        self.rest = rest;
        let number = match token.strip_suffix(['j', 'J']) {
            Some(imaginary) if !imaginary.to_ascii_lowercase().starts_with("0x") => {
                Number::Complex(0.0, imaginary_part(imaginary)?)
            }
            Some(_) | None => Number::Real(python_number(token)?),
        };
        Some((number, false))
    }
}

fn unescape<'t>(rest: &'t str, out: &mut String) -> Option<&'t str> {
    let c = rest.chars().next()?;
    let after = &rest[c.len_utf8()..];
    let coded = |digits: usize| -> Option<(char, &'t str)> {
        let hex = after.get(..digits)?;
        let value = u32::from_str_radix(hex, 16).ok()?;
        Some((char::from_u32(value)?, &after[digits..]))
    };
    let simple = match c {
        '\n' => return Some(after),
        '\\' | '\'' | '"' => c,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' | 'u' | 'U' => {
            let (c, after) = coded(match c {
                'x' => 2,
                'u' => 4,
                _ => 8,
            })?;
            out.push(c);
            return Some(after);
        }
        '0'..='7' => {
            let digits = rest.bytes().take(3).take_while(|c| (b'0'..=b'7').contains(c)).count();
            out.push(char::from_u32(u32::from_str_radix(&rest[..digits], 8).ok()?)?);
            return Some(&rest[digits..]);
        }
        'N' => return None,
        other => {
            out.push('\\');
            other
        }
    };
    out.push(simple);
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> serde_json::Value {
        evaluate(text, &Place::whole("t")).to_json()
    }

    #[test]
    fn literals_are_evaluated_and_all_else_is_text() {
        for (source, want) in [
            ("1", json!(1)),
            ("-1", json!(-1)),
            ("+1", json!(1)),
            ("01", json!("01")),
            ("00", json!(0)),
            ("1_000", json!(1000)),
            ("1__0", json!("1__0")),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("1.5", json!(1.5)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("10.0.0.1", json!("10.0.0.1")),
            ("1j", json!("1j")),
            ("1+2j", json!("(1+2j)")),
            ("-1e5J", json!("(-0-100000j)")),
            ("2.5 - 1j", json!("(2.5-1j)")),
            ("1+2", json!("1+2")),
            ("--1", json!("--1")),
            ("-(1)", json!(-1)),
            ("{1: 'a', True: 'b', 1.0: 'c'}", json!({"1": "c"})),
            ("'a' b'b'", json!("'a' b'b'")),
            ("b'é'", json!("b'é'")),
            ("true", json!("true")),
            ("True", json!(true)),
            ("None", json!(null)),
            ("Nonesuch", json!("Nonesuch")),
            ("'a' 'b'", json!("ab")),
            ("'a", json!("'a")),
            ("'a\\tb\\q'", json!("a\tb\\q")),
            ("r'a\\n'", json!("a\\n")),
            ("[1, 'a', True, [2.0]]", json!([1, "a", true, [2.0]])),
            ("[1,]", json!([1])),
            ("[1 2]", json!("[1 2]")),
            ("[,]", json!("[,]")),
            ("[a]", json!("[a]")),
            ("(1)", json!(1)),
            ("(1,)", json!([1])),
            ("1, 2", json!([1, 2])),
            ("{'a': 1, 2: [3]}", json!({"a": 1, "2": [3]})),
            ("{\"a\": true}", json!("{\"a\": true}")),
            ("{1, 1, 2}", json!([1, 2])),
            ("{}", json!({})),
            ("set()", json!([])),
            ("5 # five", json!(5)),
            ("a # b", json!("a # b")),
            ("...", json!("...")),
            ("", json!("")),
            ("1 2", json!("1 2")),
            ("é'", json!("é'")),
        ] {
            assert_eq!(read(source), want, "{source:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-+.,:'\"\\\\\\[\\](){}0-9a-fTFNxu# \né]{0,60}") {
            let _ = read(&text);
        }
    }
}
