//! A YAML file as it is written: every scalar with its style and its place, nothing resolved, nothing refused.
//!
//! `yaml::parse` gives values; what people regret is in how they were written, which values no longer tell.

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, StructureStyle};

use super::super::yaml::MAX_DEPTH;

/// Line and column, from 1.
pub(super) type At = (u32, u32);

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub at: At,
    /// Where it ends; of scalars only.
    pub end: At,
    pub tag: Option<String>,
    pub body: Body,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Scalar(String, Style),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Alias,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Quoted,
    Block,
}

/// What was read of a file.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// `None` for an empty file and one that is no YAML.
    pub root: Option<Node>,
    /// Where mappings in braces begin, as far as the file could be read.
    pub braces: Vec<At>,
    /// Where it stops being YAML.
    pub broken: Option<At>,
}

/// Reads the first document of a text.
pub(super) fn read(text: &str) -> Tree {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        tree: Tree::default(),
    };
    while let Some((event, span)) = reader.next() {
        match event {
            Event::StreamEnd | Event::DocumentEnd => break,
            event => {
                if let Some(node) = reader.node(event, span, 0) {
                    reader.tree.root = Some(node);
                    break;
                }
            }
        }
    }
    // What comes behind, for errors only.
    while reader.tree.broken.is_none() && reader.next().is_some_and(|(event, _)| event != Event::StreamEnd) {}
    if reader.tree.broken.is_some() {
        reader.tree.root = None;
    }
    reader.tree
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    tree: Tree,
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        match self.events.next_event()? {
            Ok(found) => Some(found),
            Err(error) => {
                let marker = error.marker();
                self.tree.broken = Some((number(marker.line()), number(marker.col() + 1)));
                None
            }
        }
    }

    /// The node that begins with this event; `None` for events that begin none, at an error and too deep inside.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Option<Node> {
        let at = (number(span.start.line()), number(span.start.col() + 1));
        if depth > MAX_DEPTH {
            self.tree.broken = Some(at);
            return None;
        }
        let mut end = at;
        let (body, tag) = match event {
            Event::Scalar(text, style, _, tag) => {
                end = (number(span.end.line()), number(span.end.col() + 1));
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                // The parser writes `~` where nothing stands.
                let text = if end == at { String::new() } else { text.into_owned() };
                (Body::Scalar(text, style), tag)
            }
            Event::SequenceStart(_, _, tag) => {
                let mut list = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    list.push(self.node(event, span, depth + 1)?);
                }
                (Body::List(list), tag)
            }
            Event::MappingStart(style, _, tag) => {
                if style == StructureStyle::Flow {
                    self.tree.braces.push(at);
                }
                let mut map = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::MappingEnd {
                        break;
                    }
                    let key = self.node(event, span, depth + 1)?;
                    let (event, span) = self.next()?;
                    map.push((key, self.node(event, span, depth + 1)?));
                }
                (Body::Map(map), tag)
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => (Body::Alias, None),
            _ => return None,
        };
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        Some(Node { at, end, tag, body })
    }
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Scalar(text, _) => Some(text),
            Body::List(_) | Body::Map(_) | Body::Alias => None,
        }
    }

    /// Whether it is a scalar without quotes and without a tag.
    pub fn is_plain(&self) -> bool {
        self.tag.is_none() && matches!(self.body, Body::Scalar(_, Style::Plain))
    }

    /// Whether two nodes are written alike, wherever they stand.
    pub fn same(&self, other: &Node) -> bool {
        self.tag == other.tag
            && match (&self.body, &other.body) {
                (Body::Scalar(a, style), Body::Scalar(b, other)) => a == b && style == other,
                (Body::List(a), Body::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
                (Body::Map(a), Body::Map(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0.same(&b.0) && a.1.same(&b.1))
                }
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_style_and_place() {
        let tree = read("a: 'x'\nb: [no, {c: d}]\n");
        let Some(Body::Map(map)) = tree.root.map(|root| root.body) else {
            panic!("no mapping")
        };
        assert!(matches!(&map[0].1.body, Body::Scalar(text, Style::Quoted) if text == "x"));
        assert_eq!(map[1].0.at, (2, 1));
        assert_eq!(tree.braces, [(2, 9)]);
    }

    #[test]
    fn what_is_no_yaml_says_where() {
        let tree = read("a: {{ b }}/c\n");
        assert!(tree.root.is_none());
        assert_eq!(tree.broken.map(|at| at.0), Some(1));
        assert!(read("").root.is_none());
        assert!(read(&"[".repeat(10_000)).root.is_none());
    }
}
