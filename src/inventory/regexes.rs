//! Regular expressions as templates use them: Python's, as far as they go.
//!
//! ```text
//! pattern --(regex: linear time)--> groups
//!         --(look-around or a backreference: fancy-regex, bounded backtracking)--> groups
//! ```
//!
//! Happy path: one search gives the byte ranges of all groups of all hits, whichever engine found them. Failures: a
//! pattern that does not parse, and one that backtracks beyond its bound.

use std::ops::Range;

use minijinja::Error;

use super::filters::wrong;

/// Steps that a backtracking search may take.
const BACKTRACKS: usize = 500_000;

/// A compiled pattern.
pub(crate) struct Pattern {
    engine: Engine,
    names: Vec<Option<String>>,
}

enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// One hit: the byte ranges of its groups, the whole first.
pub(crate) struct Hit(Vec<Option<Range<usize>>>);

/// `ignorecase`, `multiline`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    pub ignore_case: bool,
    pub multiline: bool,
}

impl Pattern {
    /// Compiles a pattern.
    pub fn new(pattern: &str, flags: Flags) -> Result<Self, Error> {
        // Python's `\Z` is the end, which Rust calls `\z`.
        let pattern = pattern.replace("\\Z", "\\z");
        let build = |unicode: bool| {
            regex::RegexBuilder::new(&pattern)
                .case_insensitive(flags.ignore_case)
                .multi_line(flags.multiline)
                .unicode(unicode)
                .build()
        };
        let error = match build(true).or_else(|first| build(false).map_err(|_| first)) {
            Ok(regex) => {
                let names = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
                return Ok(Self {
                    engine: Engine::Linear(regex),
                    names,
                });
            }
            Err(error) => error,
        };
        let marks = match (flags.ignore_case, flags.multiline) {
            (false, false) => "",
            (true, false) => "(?i)",
            (false, true) => "(?m)",
            (true, true) => "(?im)",
        };
        let built = fancy_regex::RegexBuilder::new(&format!("{marks}{pattern}"))
            .backtrack_limit(BACKTRACKS)
            .build();
        match built {
            Ok(regex) => {
                let names = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
                Ok(Self {
                    engine: Engine::Backtracking(Box::new(regex)),
                    names,
                })
            }
            Err(_) => {
                let told = error.to_string();
                let last = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Err(wrong(format!("the regular expression does not parse: {last}")))
            }
        }
    }

    /// The hits in a text, at most `limit`; 0 means all.
    pub fn hits(&self, text: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let groups = self.names.len();
        match &self.engine {
            Engine::Linear(regex) => Ok(regex
                .captures_iter(text)
                .take(limit)
                .map(|found| Hit((0..groups).map(|i| found.get(i).map(|hit| hit.range())).collect()))
                .collect()),
            Engine::Backtracking(regex) => regex
                .captures_iter(text)
                .take(limit)
                .map(|found| {
                    let found = found.map_err(|_| wrong("the regular expression takes too many steps"))?;
                    Ok(Hit((0..groups).map(|i| found.get(i).map(|hit| hit.range())).collect()))
                })
                .collect(),
        }
    }

    /// Whether the text has a hit.
    pub fn is_match(&self, text: &str) -> Result<bool, Error> {
        Ok(!self.hits(text, 1)?.is_empty())
    }

    /// How many groups it has, the whole counted.
    pub fn groups(&self) -> usize {
        self.names.len()
    }

    /// The group of a number or a name.
    pub fn group(&self, name: &str) -> Option<usize> {
        match name.parse::<usize>() {
            Ok(index) => (index < self.names.len()).then_some(index),
            Err(_) => self.names.iter().position(|known| known.as_deref() == Some(name)),
        }
    }

    /// The text with its hits replaced, and how many there were.
    pub fn replace(&self, text: &str, replacement: &str, limit: usize) -> Result<(String, usize), Error> {
        let hits = self.hits(text, limit)?;
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for hit in &hits {
            let whole = hit.0.first().cloned().flatten().unwrap_or(from..from);
            out.push_str(text.get(from..whole.start).unwrap_or_default());
            self.expand(text, hit, replacement, &mut out)?;
            from = whole.end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        Ok((out, hits.len()))
    }

    /// Python's replacement: `\1`, `\g<name>`, `\n`, `\t`, `\\`.
    fn expand(&self, text: &str, hit: &Hit, template: &str, out: &mut String) -> Result<(), Error> {
        let mut rest = template;
        while let Some(at) = rest.find('\\') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let mut add = |name: &str| {
                let group = self
                    .group(name)
                    .ok_or_else(|| wrong(format!("the replacement names group {name}, which there is not")))?;
                out.push_str(hit.text(text, group).unwrap_or_default());
                Ok::<(), Error>(())
            };
            match rest.chars().next() {
                Some('g') if rest[1..].starts_with('<') && rest.contains('>') => {
                    let (name, after) = rest[2..].split_once('>').unwrap_or((&rest[2..], ""));
                    add(name)?;
                    rest = after;
                }
                Some('0') => {
                    out.push('\0');
                    rest = &rest[1..];
                }
                Some(c) if c.is_ascii_digit() => {
                    let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                    add(&rest[..digits])?;
                    rest = &rest[digits..];
                }
                Some('n') => {
                    out.push('\n');
                    rest = &rest[1..];
                }
                Some('t') => {
                    out.push('\t');
                    rest = &rest[1..];
                }
                Some(c) => {
                    if c != '\\' {
                        out.push('\\');
                    }
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
                None => out.push('\\'),
            }
        }
        out.push_str(rest);
        Ok(())
    }
}

impl Hit {
    /// The text of a group; `None` where the group took no part.
    pub fn text<'t>(&self, text: &'t str, group: usize) -> Option<&'t str> {
        text.get(self.0.get(group).cloned().flatten()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_replace_as_python_does() {
        let replace = |pattern: &str, text: &str, with: &str| {
            let pattern = Pattern::new(pattern, Flags::default()).unwrap();
            pattern.replace(text, with, 0).unwrap()
        };
        assert_eq!(replace("(f)(o)", "foo", r"\2\1"), ("ofo".into(), 1));
        assert_eq!(replace("foo(?=bar)", "foobar foo", "x"), ("xbar foo".into(), 1));
        assert_eq!(replace(r"(ab)\1", "abab", r"<\1>"), ("<ab>".into(), 1));
        assert_eq!(replace("", "ab", "-"), ("-a-b-".into(), 3));
    }

    #[test]
    fn backtracking_is_bounded() {
        let evil = Pattern::new(r"(?=(a+)+$)(a|aa)+\1b", Flags::default()).unwrap();
        let _ = evil.is_match(&"a".repeat(60));
        assert!(Pattern::new("(", Flags::default()).is_err());
    }
}
