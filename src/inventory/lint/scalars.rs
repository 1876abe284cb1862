//! Plain scalars of YAML that are read as something else than they look like.

use super::super::scalar;
use super::super::value::{Data, float_text};
use super::document::{Assignment, Document, Written};
use super::tree::{Body, Node};
use super::{Context, Finding, finding};

/// Checks a variable that is written in YAML.
pub(super) fn check(document: &Document, assignment: &Assignment, context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Written::Yaml(key, value) = &assignment.written else {
        return;
    };
    if document.json {
        return;
    }
    let mut walk = Walk {
        document,
        context,
        findings,
    };
    walk.key(key, value, &assignment.name);
    walk.value(value, &assignment.name, Some(key));
}

struct Walk<'w, 'o> {
    document: &'w Document,
    context: &'w Context<'o>,
    findings: &'w mut Vec<Finding>,
}

impl Walk<'_, '_> {
    fn push(&mut self, found: Finding, node: &Node, path: &str) {
        self.findings.push(found.at(self.document.place(node.at)).key(path));
    }

    fn value(&mut self, node: &Node, path: &str, key: Option<&Node>) {
        match &node.body {
            Body::Scalar(..) if node.is_plain() => self.plain(node, path, key),
            Body::Scalar(..) | Body::Alias => {}
            Body::List(list) => list.iter().for_each(|item| self.value(item, path, None)),
            Body::Map(map) => {
                for (key, value) in map {
                    let name = key.text().unwrap_or("?");
                    let path = format!("{path}.{name}");
                    self.key(key, value, &path);
                    self.value(value, &path, Some(key));
                }
            }
        }
    }

    fn key(&mut self, key: &Node, value: &Node, path: &str) {
        let Some(text) = key.text().filter(|text| key.is_plain() && *text != "<<") else {
            return;
        };
        let becomes = match scalar::resolve(text) {
            Some(Data::Bool(true)) => "True".to_owned(),
            Some(Data::Bool(false)) => "False".to_owned(),
            Some(Data::Null) => "None".to_owned(),
            Some(Data::Int(number)) if number.to_string() != text => number.to_string(),
            Some(Data::Float(number)) if float_text(number) != text => float_text(number),
            _ => return,
        };
        let rewrite = match value.text() {
            Some(value) if !value.is_empty() && !value.contains('\n') && !self.context.is_secret(path) => {
                format!("\"{text}\": {value}")
            }
            _ => format!("\"{text}\":"),
        };
        let found = finding("lint/key-not-text", format!("the key `{text}` is read as {becomes}")).rewrite(rewrite);
        self.push(found, key, path);
    }

    fn plain(&mut self, node: &Node, path: &str, key: Option<&Node>) {
        let Some(text) = node.text() else { return };
        self.cut(node, path, key, text);
        let name = key.and_then(Node::text);
        let write = |value: &str| match name {
            Some(name) => format!("{name}: {value}"),
            None => value.to_owned(),
        };
        let quoted = write(&format!("\"{text}\""));
        let shown = self.context.shown(path, text);
        let quoted_shown = if shown == text { quoted } else { write("\"..\"") };
        let kind = self.context.kind(path);
        let found = match scalar::resolve(text) {
            Some(Data::Bool(value)) if !matches!(text.to_ascii_lowercase().as_str(), "true" | "false") => {
                let found = finding("lint/bool-word", format!("`{text}` is read as the boolean {value}"));
                if kind.contains("yes or no") || kind.is_empty() {
                    found
                        .rewrite(write(&value.to_string()))
                        .help(format!("if the word is meant, quote it: {quoted_shown}"))
                } else {
                    found.rewrite(quoted_shown)
                }
            }
            Some(Data::Int(number)) if scalar::is_sexagesimal(text) => finding(
                "lint/sexagesimal",
                format!("`{shown}` is read as the number {}", self.hide(path, number)),
            )
            .rewrite(quoted_shown),
            Some(Data::Float(number)) if scalar::is_sexagesimal(text) => {
                let number = self.hide(path, float_text(number));
                finding("lint/sexagesimal", format!("`{shown}` is read as the number {number}")).rewrite(quoted_shown)
            }
            Some(Data::Int(number)) if is_octal(text) => {
                let number = self.hide(path, number);
                finding("lint/octal", format!("`{shown}` is read as the number {number}")).rewrite(quoted_shown)
            }
            Some(Data::Int(number)) if text.contains('_') => finding(
                "lint/underscore",
                format!("`{shown}` is read as the number {}", self.hide(path, number)),
            )
            .rewrite(write(&self.hide(path, number)))
            .help(format!("if the text is meant, quote it: {quoted_shown}")),
            Some(Data::Float(number)) if loses_zero(text) => {
                let number = self.hide(path, float_text(number));
                finding("lint/float", format!("`{shown}` is read as the number {number}")).rewrite(quoted_shown)
            }
            Some(Data::Str(_)) if matches!(text, "y" | "Y" | "n" | "N") => {
                let value = matches!(text, "y" | "Y");
                finding(
                    "lint/bool-word",
                    format!("`{text}` is text for Ansible, and a boolean for other readers of YAML"),
                )
                .rewrite(write(&value.to_string()))
                .help(format!("if the letter is meant, quote it: {quoted_shown}"))
            }
            Some(Data::Str(_)) if is_exponent(text) => {
                let found = finding("lint/scientific", format!("`{shown}` is text in YAML, not a number"));
                found.rewrite(quoted_shown).help("if a number is meant, write it out")
            }
            Some(Data::Str(_)) if has_leading_zero(text) => {
                finding("lint/leading-zero", format!("`{shown}` is read as text")).rewrite(quoted_shown)
            }
            Some(Data::Str(_)) if is_date(text) => {
                finding("lint/date", format!("`{shown}` is a date for Ansible")).rewrite(quoted_shown)
            }
            _ => return,
        };
        self.push(found, node, path);
    }

    /// What a number of a secret is shown as.
    fn hide(&self, path: &str, number: impl ToString) -> String {
        if self.context.is_secret(path) {
            return crate::secret::MASK.to_owned();
        }
        number.to_string()
    }

    /// A ` #` right behind a value: a comment, and perhaps a part of the value.
    fn cut(&mut self, node: &Node, path: &str, key: Option<&Node>, text: &str) {
        // An empty value has no place of its own: what stands behind the key counts.
        let rest = match (text.is_empty(), key) {
            (false, _) => self.document.rest(node.end),
            (true, Some(key)) => match self.document.rest(key.end).trim_start().strip_prefix(':') {
                Some(rest) => rest,
                None => return,
            },
            (true, None) => return,
        };
        let comment = rest.trim();
        let secret = self.context.is_secret(path);
        let glued = |comment: &str| {
            let next = comment.strip_prefix('#').and_then(|after| after.chars().next());
            next.is_some_and(|c| c.is_alphanumeric()) && !comment.contains("vmwright-lint:")
        };
        if !glued(comment) || node.end.0 != node.at.0 {
            return;
        }
        let blanks: String = rest.chars().take_while(|c| c.is_whitespace()).collect();
        let whole = if text.is_empty() {
            comment.to_owned()
        } else {
            format!("{text}{blanks}{comment}")
        };
        let quote = if whole.contains(['"', '\\']) { '\'' } else { '"' };
        let whole = if quote == '\'' {
            whole.replace('\'', "''")
        } else {
            whole
        };
        let name = key
            .and_then(Node::text)
            .map_or_else(String::new, |name| format!("{name}: "));
        let found = match text {
            "" => finding(
                "lint/value-cut",
                format!("`{path}` is null: what stands behind it is a comment"),
            ),
            _ => finding("lint/value-cut", format!("the value of `{path}` ends before ` #`")),
        };
        let found = if secret {
            found.rewrite(format!("{name}{quote}..{quote}"))
        } else {
            found.rewrite(format!("{name}{quote}{whole}{quote}"))
        };
        let found = found.help("if a comment is meant, write a blank behind the `#`");
        let at = if text.is_empty() { key.unwrap_or(node) } else { node };
        self.push(found, at, path);
    }
}

fn digits(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

/// A number with a leading zero; `0` is none.
fn is_octal(text: &str) -> bool {
    let digits = digits(text);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|c| c.is_ascii_digit() || c == b'_')
}

fn has_leading_zero(text: &str) -> bool {
    let digits = digits(text);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|c| c.is_ascii_digit())
}

/// `1.10`: two digits or more behind the point, the last a zero.
pub(super) fn loses_zero(text: &str) -> bool {
    let Some((whole, fraction)) = digits(text).split_once('.') else {
        return false;
    };
    let all = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    all(whole) && all(fraction) && fraction.len() > 1 && fraction.ends_with('0')
}

/// `1e3`, `1.5e3`, `12E-4`.
pub(super) fn is_exponent(text: &str) -> bool {
    let Some((mantissa, exponent)) = digits(text).split_once(['e', 'E']) else {
        return false;
    };
    let all = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let mut parts = mantissa.splitn(2, '.');
    all(parts.next().unwrap_or(""))
        && parts.next().is_none_or(|part| part.is_empty() || all(part))
        && all(digits(exponent))
}

/// A date or a time stamp, as the resolver of PyYAML has them.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, time) = rest.split_at(end);
    let number =
        |part: &str, lengths: &[usize]| lengths.contains(&part.len()) && part.bytes().all(|c| c.is_ascii_digit());
    if !number(year, &[4]) {
        return false;
    }
    if time.is_empty() {
        return number(month, &[2]) && number(day, &[2]);
    }
    let time = time.trim_start_matches(['T', 't', ' ', '\t']);
    let mut clock = time.split(':');
    number(month, &[1, 2])
        && number(day, &[1, 2])
        && number(clock.next().unwrap_or(""), &[1, 2])
        && number(clock.next().unwrap_or(""), &[2])
        && clock
            .next()
            .is_some_and(|second| second.get(..2).is_some_and(|two| number(two, &[2])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart() {
        for (text, octal, zero, exponent, date) in [
            ("0644", true, false, false, false),
            ("0", false, false, false, false),
            ("1.10", false, true, false, false),
            ("1.0", false, false, false, false),
            ("1.25", false, false, false, false),
            ("1e3", false, false, true, false),
            ("1.5e3", false, false, true, false),
            ("abe3", false, false, false, false),
            ("2024-01-02", false, false, false, true),
            ("2024-1-2 10:00:00", false, false, false, true),
            ("2024-1-2", false, false, false, false),
            ("2024-01-02x", false, false, false, false),
        ] {
            assert_eq!(
                (is_octal(text), loses_zero(text), is_exponent(text), is_date(text)),
                (octal, zero, exponent, date),
                "{text}"
            );
        }
    }
}
