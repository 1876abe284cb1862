//! Splits a line into words as Python's `shlex` does with comments on: the rule for host lines of INI inventories.
//!
//! Quotes group and vanish, a backslash quotes the next character outside single quotes, and `#` begins a comment even
//! in the middle of a word (`pass=ab#cd` is `pass=ab`), which is why it deserves quotes.

/// A word and the column, from 1, where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The text without its quotes.
    pub text: String,
    /// The column in characters.
    pub column: u32,
    /// A comment cut this word short.
    pub cut: bool,
}

/// What is wrong with the line, and the column where.
#[derive(Clone, Debug, PartialEq)]
pub struct Unbalanced {
    /// One sentence.
    pub message: &'static str,
    /// Where the quote or backslash stands.
    pub column: u32,
}

/// Splits the line; `first_column` is the column of its first character.
///
/// # Errors
///
/// A quote that is not closed, a backslash at the end.
pub fn split(line: &str, first_column: u32) -> Result<Vec<Word>, Unbalanced> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut chars = line.chars().zip(first_column..).peekable();
    while let Some((c, column)) = chars.next() {
        let started = |word: &mut Option<Word>| {
            word.get_or_insert_with(|| Word {
                text: String::new(),
                column,
                cut: false,
            });
        };
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' => {
                if let Some(word) = &mut word {
                    word.cut = true;
                }
                break;
            }
            '\'' | '"' => {
                started(&mut word);
                loop {
                    let Some((inner, _)) = chars.next() else {
                        return Err(Unbalanced {
                            message: "a quote is opened here and not closed",
                            column,
                        });
                    };
                    let Some(word) = &mut word else { break };
                    match inner {
                        _ if inner == c => break,
                        '\\' if c == '"' => match chars.next() {
                            Some((escaped @ ('"' | '\\'), _)) => word.text.push(escaped),
                            Some((escaped, _)) => word.text.extend(['\\', escaped]),
                            None => {
                                return Err(Unbalanced {
                                    message: "a quote is opened here and not closed",
                                    column,
                                });
                            }
                        },
                        inner => word.text.push(inner),
                    }
                }
            }
            '\\' => {
                started(&mut word);
                let Some((escaped, _)) = chars.next() else {
                    return Err(Unbalanced {
                        message: "the line ends in a backslash",
                        column,
                    });
                };
                if let Some(word) = &mut word {
                    word.text.push(escaped);
                }
            }
            c => {
                started(&mut word);
                if let Some(word) = &mut word {
                    word.text.push(c);
                }
            }
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line, 1).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_those_of_shlex() {
        assert_eq!(
            texts(r#"h a="b c" d='e "f' g=h\ i # x"#),
            ["h", "a=b c", "d=e \"f", "g=h i"]
        );
        assert_eq!(texts(r#"h a="b\"c\d" e=''"#), ["h", "a=b\"c\\d", "e="]);
        assert_eq!(texts("h a=b#c d=e"), ["h", "a=b"]);
        assert!(split("h a=b#c", 1).unwrap()[1].cut);
        assert_eq!(split("h  a=b", 3).unwrap()[1].column, 6);
    }

    #[test]
    fn open_quotes_have_a_place() {
        assert_eq!(split("h a='b", 1).unwrap_err().column, 5);
        assert!(split("h\\", 1).is_err());
        assert!(split("h \"a\\", 1).is_err());
    }
}
