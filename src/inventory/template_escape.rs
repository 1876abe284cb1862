//! Backslashes in templates: inside `{{ .. }}` a backslash in a quoted text is a backslash, as in Ansible.
//!
//! ```text
//! {{ x | regex_replace('(b)', '<\1>') }}  --(here)-->  {{ x | regex_replace('(b)', '<\\1>') }}  --(engine)--> <\1>
//! {% set x = 'a\nb' %}                   --(here)-->  the same: statements keep Jinja's escapes
//! ```
//!
//! Ansible has done this since its first versions, so that regular expressions in YAML need no second layer of
//! backslashes. Happy path: a text without backslashes is borrowed. There are no failures: what is no template is left to
//! the engine, which tells its fault.

use std::borrow::Cow;

/// The template with every backslash in a quoted text of an expression block doubled.
pub(crate) fn escape_backslashes(source: &str) -> Cow<'_, str> {
    if !source.contains('\\') {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("{{") {
            let end = expression(&rest[2..], &mut |part| out.push_str(part), "{{");
            rest = &rest[2 + end..];
            continue;
        } else if rest.starts_with("{#") {
            rest.find("#}").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("{%") {
            statement(rest)
        } else {
            1
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Writes an expression block, behind its opening braces, up to and with its closing ones; gives its length.
fn expression(text: &str, write: &mut impl FnMut(&str), open: &str) -> usize {
    write(open);
    let mut quote = None;
    let mut braces = 0usize;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let here = &text[at..at + c.len_utf8()];
        match (quote, c) {
            (Some(_), '\\') => {
                write("\\\\");
                // What follows is part of the escape: a quote does not end the text here.
                if let Some((at, next)) = chars.next() {
                    if matches!(next, '\\' | '\'' | '"') {
                        write("\\");
                    }
                    write(&text[at..at + next.len_utf8()]);
                }
                continue;
            }
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => braces += 1,
            (None, '}') if braces > 0 => braces -= 1,
            (None, '}') if text[at..].starts_with("}}") => {
                write("}}");
                return at + 2;
            }
            _ => {}
        }
        write(here);
    }
    text.len()
}

/// The length of a statement block; of `{% raw %}`, up to its end.
fn statement(text: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    let mut end = text.len();
    for (at, c) in text.char_indices().skip(2) {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '%') if text[at..].starts_with("%}") => {
                end = at + 2;
                break;
            }
            _ => {}
        }
    }
    let words = text[2..end].trim_matches(['-', '+', '%', '}', ' ', '\t', '\n', '\r']);
    if words != "raw" {
        return end;
    }
    let mut from = end;
    while let Some(at) = text[from..].find("{%") {
        let open = from + at;
        let inner = text[open + 2..].trim_start_matches(['-', '+']).trim_start();
        if inner.starts_with("endraw") {
            return open;
        }
        from = open + 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quoted_texts_of_expressions_are_changed() {
        for (source, want) in [
            (r"{{ 'a' }}", r"{{ 'a' }}"),
            (r"{{ '\1' }}", r"{{ '\\1' }}"),
            (r"{{ '\\1' }}", r"{{ '\\\\1' }}"),
            (r#"{{ "it\'s" }}"#, r#"{{ "it\\\'s" }}"#),
            (r"{% set a = '\n' %}{{ '\n' }}", r"{% set a = '\n' %}{{ '\\n' }}"),
            (r"a\nb {# '\n' #}", r"a\nb {# '\n' #}"),
            (
                r"{% raw %}{{ '\n' }}{% endraw %}{{ '\n' }}",
                r"{% raw %}{{ '\n' }}{% endraw %}{{ '\\n' }}",
            ),
            (r"{{ {'a': {'b': '\n'}} }}\n", r"{{ {'a': {'b': '\\n'}} }}\n"),
            (r"{{ '}}\n' }}", r"{{ '}}\\n' }}"),
            (r"{{ '\", r"{{ '\\"),
        ] {
            assert_eq!(escape_backslashes(source), want);
        }
    }
}
