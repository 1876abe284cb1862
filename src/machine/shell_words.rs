//! Splitting a line of arguments as a POSIX shell would, without any expansion.

/// Why a line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    /// A quote without its end.
    #[error("a {0} quote is not closed")]
    Unclosed(char),
    /// A backslash with nothing after it.
    #[error("a backslash ends the line")]
    DanglingBackslash,
}

/// The words of a line: blanks separate, quotes and backslashes protect.
pub(super) fn split(line: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(SplitError::Unclosed('\'')),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err(SplitError::Unclosed('"')),
                        },
                        Some(c) => word.push(c),
                        None => return Err(SplitError::Unclosed('"')),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(SplitError::DanglingBackslash),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let table: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("  -J  jump.example.org ", &["-J", "jump.example.org"]),
            (
                r#"-o ProxyCommand="ssh -W %h:%p -q bastion""#,
                &["-o", "ProxyCommand=ssh -W %h:%p -q bastion"],
            ),
            ("-o 'A B'\\ C", &["-o", "A B C"]),
            (r#""a\"b\n""#, &["a\"b\\n"]),
            ("''", &[""]),
            ("a'b'\"c\"d", &["abcd"]),
        ];
        for (line, want) in table {
            assert_eq!(split(line).unwrap(), want, "{line:?}");
        }
        assert_eq!(split("a 'b"), Err(SplitError::Unclosed('\'')));
        assert_eq!(split("a \"b\\"), Err(SplitError::Unclosed('"')));
        assert_eq!(split("a \\"), Err(SplitError::DanglingBackslash));
    }
}
