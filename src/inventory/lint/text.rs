//! Rules over the text and the tree of a YAML file: keys that stand twice, templates without quotes, tabs.

use std::collections::HashMap;

use super::super::scalar;
use super::document::Document;
use super::tree::{At, Body, Node, Tree};
use super::{Finding, finding};

/// Checks a file.
pub(super) fn check(document: &Document, findings: &mut Vec<Finding>) {
    let Some(tree) = &document.tree else { return };
    if let Some(root) = &tree.root {
        duplicates(document, root, findings);
    }
    if !document.json {
        templates(document, tree, findings);
        tabs(document, tree, findings);
    }
}

fn duplicates(document: &Document, node: &Node, findings: &mut Vec<Finding>) {
    match &node.body {
        Body::Map(map) => {
            let mut first: HashMap<String, At> = HashMap::new();
            for (key, value) in map {
                duplicates(document, value, findings);
                let Some(text) = key.text().filter(|text| *text != "<<") else {
                    continue;
                };
                let resolved = scalar::resolve(text).filter(|_| key.is_plain());
                let name = resolved.and_then(|data| scalar::key_text(&data));
                let name = name.unwrap_or_else(|| text.to_owned());
                match first.get(&name) {
                    Some(at) => findings.push(
                        finding(
                            "lint/duplicate-key",
                            format!("the key `{name}` stands here a second time"),
                        )
                        .at(document.place(key.at))
                        .key(&name)
                        .note(document.place(*at), "it stands here first")
                        .help("remove one of the two"),
                    ),
                    None => {
                        first.insert(name, key.at);
                    }
                }
            }
        }
        Body::List(list) => list.iter().for_each(|item| duplicates(document, item, findings)),
        Body::Scalar(..) | Body::Alias => {}
    }
}

fn templates(document: &Document, tree: &Tree, findings: &mut Vec<Finding>) {
    for at in &tree.braces {
        let rest = document.rest(*at);
        let value = rest.trim_end();
        if !value.starts_with("{{") {
            continue;
        }
        // The rest of the line is the value, without its comment.
        let value = value.split_once(" #").map_or(value, |(value, _)| value.trim_end());
        let line = document.line(at.0);
        let before = &line[..line.len() - rest.len()];
        let quote = if value.contains('"') { '\'' } else { '"' };
        let value = if quote == '\'' {
            value.replace('\'', "''")
        } else {
            value.to_owned()
        };
        findings.push(
            finding(
                "lint/unquoted-template",
                "a template begins here without a quote before it",
            )
            .at(document.place(*at))
            .rewrite(format!("{}{quote}{value}{quote}", before.trim_start())),
        );
    }
}

/// Tabs that separate, in lines outside of quoted and block scalars.
fn tabs(document: &Document, tree: &Tree, findings: &mut Vec<Finding>) {
    let mut inside: Vec<(At, At)> = Vec::new();
    if let Some(root) = &tree.root {
        scalars(root, &mut inside);
    }
    for (number, line) in (1u32..).zip(&document.lines) {
        let tab = line.chars().position(|c| c == '\t');
        let comment = line.trim_start().starts_with('#') || line.trim().is_empty();
        let Some(tab) = tab.filter(|_| !comment) else { continue };
        let at = (number, u32::try_from(tab + 1).unwrap_or(u32::MAX));
        // Scalars stand in the order of the text: the last that begins before the tab is the one.
        let before = inside.partition_point(|(begin, _)| *begin <= at);
        let quoted = before > 0 && inside.get(before - 1).is_some_and(|(_, end)| at < *end);
        // Behind a ` #` stands a comment.
        let commented = line
            .find(" #")
            .is_some_and(|hash| line.find('\t').is_some_and(|tab| hash < tab));
        let trailing = line.trim_end().chars().count() <= tab;
        if !quoted && !commented && !trailing {
            findings.push(
                finding("lint/tab", "a tab stands between the words of this line")
                    .at(document.place(at))
                    .help("replace it by a blank"),
            );
        }
    }
}

/// Where scalars stand: inside of them a tab is data.
fn scalars(node: &Node, inside: &mut Vec<(At, At)>) {
    match &node.body {
        Body::Scalar(..) => inside.push((node.at, node.end)),
        Body::List(list) => list.iter().for_each(|item| scalars(item, inside)),
        Body::Map(map) => {
            for (key, value) in map {
                scalars(key, inside);
                scalars(value, inside);
            }
        }
        Body::Alias => {}
    }
}
