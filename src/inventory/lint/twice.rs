//! Variables that one level defines twice, differently: the last one wins, and which is last is seldom meant.

use std::collections::{HashMap, HashSet};

use super::document::{Assignment, Document, Written};
use super::{Finding, finding};
use crate::diagnose::Place;

/// Checks all files together.
pub(super) fn check(documents: &[Document], findings: &mut Vec<Finding>) {
    // A key that stands twice in one mapping has its own rule.
    let told = findings.iter().map(|finding| &finding.diagnostic);
    let duplicates: HashSet<Place> = told
        .filter(|told| told.code == "lint/duplicate-key")
        .filter_map(|told| told.place.clone())
        .collect();
    let mut first: HashMap<(&str, &str), &Assignment> = HashMap::new();
    for assignment in documents.iter().flat_map(|document| &document.assignments) {
        let mut told = false;
        for level in &assignment.levels {
            let key = (level.as_str(), assignment.name.as_str());
            let Some(before) = first.insert(key, assignment) else {
                continue;
            };
            if told || same(before, assignment) || duplicates.contains(&assignment.place) {
                continue;
            }
            told = true;
            findings.push(
                finding(
                    "lint/defined-twice",
                    format!(
                        "`{}` of {} is defined a second time, differently",
                        assignment.name,
                        whose(level)
                    ),
                )
                .at(assignment.place.clone())
                .key(&assignment.name)
                .note(before.place.clone(), "it is defined here first")
                .help("remove one of the two"),
            );
        }
    }
}

fn whose(level: &str) -> String {
    match level.split_once(' ') {
        Some((kind @ ("group" | "host"), name)) => format!("the {kind} `{name}`"),
        _ => level.to_owned(),
    }
}

fn same(a: &Assignment, b: &Assignment) -> bool {
    match (&a.written, &b.written) {
        (Written::Yaml(_, a), Written::Yaml(_, b)) => a.same(b),
        (Written::Ini(a), Written::Ini(b)) => a.value.data == b.value.data,
        _ => false,
    }
}
