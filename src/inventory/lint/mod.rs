//! What Ansible silently accepts and people regret.
//!
//! ```text
//! files --(document)--> how it is written --(scalars, names, twice, secrets)--+
//! Inventory::load ----> the graph, what the loader warns of ------------------+--> findings --(allow)--> Report
//!                  \--> faults: what cannot be read at all ------------------------------------------> Report
//! ```
//!
//! Every rule is a pure function over a `Document`, its text or the graph; `files` alone reads the disk. What
//! is encrypted as a whole, and what scripts answer, is not looked at: nobody wrote it by hand as it is read.

mod allow;
mod document;
mod files;
mod ini_scalars;
mod names;
pub mod rules;
mod scalars;
mod secrets;
mod text;
mod tree;
mod twice;

use std::collections::{HashMap, HashSet};

use super::{Inventory, LoadOptions};
use crate::diagnose::{Diagnostic, Place};

/// A variable that vmwright knows.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// Its name.
    pub name: &'k str,
    /// Its type, in words.
    pub kind: &'k str,
    /// Whether its value may never be shown.
    pub secret: bool,
}

/// What to look at and what is known beforehand.
#[derive(Debug)]
pub struct Options<'o> {
    /// The inventory.
    pub load: &'o LoadOptions,
    /// The variables that vmwright knows.
    pub known: Vec<Known<'o>>,
    /// The group whose hosts are VMs.
    pub vm_group: &'o str,
    /// The group whose hosts may be removed.
    pub removable_group: &'o str,
    /// Codes of rules that are not to be told.
    pub allow: HashSet<&'static str>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What, where and why.
    pub diagnostic: Diagnostic,
    /// The exact corrected text, where there is one.
    pub rewrite: Option<String>,
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// By file, line and column.
    pub findings: Vec<Finding>,
    /// Why the inventory cannot be read, beyond the findings.
    pub faults: Vec<Diagnostic>,
    /// The inventory, if it can be read.
    pub inventory: Option<Inventory>,
}

/// A finding of a rule.
fn finding(code: &'static str, message: impl Into<String>) -> Finding {
    let mut diagnostic = Diagnostic::warning(code, message);
    if let Some(rule) = rules::find(code) {
        diagnostic = diagnostic.rule(rule.why);
    }
    Finding {
        diagnostic,
        rewrite: None,
    }
}

impl Finding {
    fn at(mut self, place: Place) -> Self {
        self.diagnostic = self.diagnostic.at(place);
        self
    }

    fn key(mut self, key: &str) -> Self {
        self.diagnostic = self.diagnostic.key(key);
        self
    }

    fn note(mut self, place: Place, text: &str) -> Self {
        self.diagnostic = self.diagnostic.note(place, text);
        self
    }

    fn help(mut self, text: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.help(text);
        self
    }

    /// The corrected text.
    fn rewrite(mut self, text: impl Into<String>) -> Self {
        self.rewrite = Some(text.into());
        self
    }
}

/// What the rules know beside the documents.
struct Context<'o> {
    known: HashMap<&'o str, Known<'o>>,
}

impl Context<'_> {
    fn kind(&self, name: &str) -> &str {
        self.known.get(name).map_or("", |known| known.kind)
    }

    /// Whether the value of a variable, or of a key inside it, may not be shown.
    fn is_secret(&self, path: &str) -> bool {
        path.split('.')
            .any(|name| self.known.get(name).is_some_and(|known| known.secret) || secrets::sounds_secret(name))
    }

    /// A text as it may be shown.
    fn shown<'t>(&self, path: &str, text: &'t str) -> &'t str {
        if self.is_secret(path) {
            crate::secret::MASK
        } else {
            text
        }
    }
}

/// Looks at an inventory.
pub fn check(options: &Options<'_>) -> Report {
    let context = Context {
        known: options.known.iter().map(|known| (known.name, *known)).collect(),
    };
    let (mut documents, mut findings) = (Vec::new(), Vec::new());
    let loaded = Inventory::load(options.load);
    files::sources(options.load, &mut documents, &mut findings);
    let (mut groups, mut hosts): (HashSet<String>, HashSet<String>) = (HashSet::new(), HashSet::new());
    for document in &documents {
        groups.extend(document.groups.iter().map(|(name, _)| name.clone()));
        hosts.extend(document.hosts.iter().map(|(name, _)| name.clone()));
    }
    groups.extend(["all".to_owned(), "ungrouped".to_owned()]);
    if let Ok(loaded) = &loaded {
        groups.extend(loaded.inventory.groups().map(str::to_owned));
        hosts.extend(loaded.inventory.hosts().map(str::to_owned));
    }
    files::variables(
        options.load,
        (&groups, &hosts),
        loaded.is_ok(),
        &mut documents,
        &mut findings,
    );

    for document in &documents {
        text::check(document, &mut findings);
        for assignment in &document.assignments {
            scalars::check(document, assignment, &context, &mut findings);
            ini_scalars::check(assignment, &context, &mut findings);
            secrets::check(assignment, &context, &mut findings);
        }
    }
    twice::check(&documents, &mut findings);
    names::check(&documents, &groups, &hosts, &mut findings);
    names::unknown(&documents, &context, &mut findings);

    let (inventory, faults) = match loaded {
        Ok(loaded) => {
            names::removable(&loaded.inventory, options, &documents, &mut findings);
            for found in loaded.warnings.into_iter().filter_map(of_loader) {
                let told = |known: &Finding| {
                    known.diagnostic.code == found.diagnostic.code && known.diagnostic.place == found.diagnostic.place
                };
                if !findings.iter().any(told) {
                    findings.push(found);
                }
            }
            (Some(loaded.inventory), Vec::new())
        }
        Err(faults) => (None, beyond(faults, &findings)),
    };
    allow::apply(&documents, &options.allow, &mut findings);
    let order = |finding: &Finding| {
        let place = finding.diagnostic.place.clone();
        (place, finding.diagnostic.code, finding.diagnostic.message.clone())
    };
    findings.sort_by_key(order);
    findings.dedup();
    Report {
        findings,
        faults,
        inventory,
    }
}

/// A warning of the loader as a finding; `None` for those that a rule here finds itself.
fn of_loader(mut warning: Diagnostic) -> Option<Finding> {
    let code = match warning.code {
        "inventory/ini-comment" | "inventory/yaml-sexagesimal" | "inventory/host-and-group" => return None,
        "inventory/vars-for-nobody" => "lint/vars-for-nobody",
        "inventory/vars-shadowed" => "lint/vars-shadowed",
        "inventory/yaml-ignored" => "lint/ignored-key",
        other => other,
    };
    warning.code = code;
    Some(Finding {
        diagnostic: warning,
        rewrite: None,
    })
}

/// The faults that no finding tells of: a file with a key twice is read by Ansible, and the finding says it better.
fn beyond(faults: Vec<Diagnostic>, findings: &[Finding]) -> Vec<Diagnostic> {
    let told = |fault: &Diagnostic| {
        findings.iter().any(|finding| {
            let (Some(of_fault), Some(of_finding)) = (&fault.place, &finding.diagnostic.place) else {
                return false;
            };
            let fits = matches!(
                (fault.code, finding.diagnostic.code),
                ("inventory/yaml-duplicate-key", "lint/duplicate-key")
                    | (
                        "inventory/yaml-syntax" | "inventory/yaml-value",
                        "lint/unquoted-template"
                    )
            );
            fits && of_fault.file == of_finding.file && of_fault.line.abs_diff(of_finding.line) <= 1
        })
    };
    faults.into_iter().filter(|fault| !told(fault)).collect()
}
