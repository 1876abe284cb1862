//! Comments that allow a finding: `# vmwright-lint: allow RULE, RULE` behind the line, or alone in the line above.

use std::collections::HashSet;

use super::document::Document;
use super::{Finding, finding, rules};
use crate::diagnose::nearest;

const MARK: &str = "vmwright-lint:";

/// Takes away what is allowed, and tells of comments that allow nothing.
pub(super) fn apply(documents: &[Document], allowed: &HashSet<&'static str>, findings: &mut Vec<Finding>) {
    for document in documents {
        for (number, line) in (1u32..).zip(&document.lines) {
            // The comment alone: what stands before it may be a secret.
            let comment = line.find(MARK).map_or("", |at| line[at..].trim_end());
            for name in names(line) {
                if rules::find(name).is_none() {
                    let mut found = finding("lint/unknown-rule", format!("there is no rule `{name}`"))
                        .at(document.place((number, 1)))
                        .help("`vmwright lint --list-rules` lists them");
                    let known = rules::RULES.iter().filter_map(|rule| rule.code.strip_prefix("lint/"));
                    if let Some(near) = nearest(name.trim_start_matches("lint/"), known) {
                        found = found
                            .help(format!("did you mean `{near}`?"))
                            .rewrite(format!("# {}", comment.replace(name, near)));
                    }
                    findings.push(found);
                }
            }
        }
    }
    findings.retain(|finding| {
        let code = finding.diagnostic.code;
        let Some(place) = &finding.diagnostic.place else {
            return !allowed.contains(code);
        };
        let document = documents.iter().find(|document| document.file == place.file);
        let by_comment = document.is_some_and(|document| {
            let line = place.line.max(1);
            let above = document.line(line - 1).trim_start();
            let allows = |line: &str| names(line).any(|name| rules::find(name).is_some_and(|rule| rule.code == code));
            allows(document.line(line)) || above.starts_with(['#', ';']) && allows(above)
        });
        !allowed.contains(code) && !by_comment
    });
}

/// The rules that a comment in this line allows.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.split_once(MARK).and_then(|(before, after)| {
        let is_comment = before.trim_end().ends_with(['#', ';']);
        after.trim_start().strip_prefix("allow ").filter(|_| is_comment)
    });
    let parts = comment.unwrap_or_default().split([',', ' ']);
    parts.map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_rules() {
        let of = |line: &'static str| names(line).collect::<Vec<_>>();
        assert_eq!(
            of("a: no # vmwright-lint: allow bool-word, lint/date"),
            ["bool-word", "lint/date"]
        );
        assert_eq!(of("; vmwright-lint: allow octal"), ["octal"]);
        assert!(of("a: vmwright-lint: allow octal").is_empty());
        assert!(of("# vmwright-lint: octal").is_empty());
    }
}
