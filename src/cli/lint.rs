//! `lint`: what Ansible silently accepts in an inventory and people regret.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{Global, Lint, Sources};
use super::{Problems, logging, prepare, say};
use crate::diagnose::{Diagnostic, Exit, Place, count, nearest};
use crate::inventory::lint::{Finding, Known, Options, check, rules};
use crate::machine::schema;
use crate::secret::Redactor;
use crate::settings::OutputFormat;
use crate::ui::diagnostic::{Style, render};

/// The group whose hosts `remove` may take away.
const REMOVABLE: &str = "removable";

/// Prints what is found.
pub fn run(global: &Global, args: &Lint) -> Result<Exit, Problems> {
    let allow = allowed(&args.allow)?;
    let json = args.output == Some(OutputFormat::Json);
    if args.list_rules {
        say::data(&if json { rules_json()? } else { rules_text() });
        return Ok(Exit::Done);
    }
    let sources = Sources {
        inventory: args.inventory.clone(),
        extra_vars: Vec::new(),
        vault_password_file: args.vault_password_file.clone(),
        vault_id: args.vault_id.clone(),
        ask_vault_pass: args.ask_vault_pass,
        allow_pipe_lookup: false,
        hash_behaviour: None,
    };
    let (_, load) = prepare::options(global, &sources, global.overrides())?;
    let report = check(&Options {
        load: &load,
        known: known(),
        vm_group: prepare::VM_GROUP,
        removable_group: REMOVABLE,
        allow,
    });
    let secrets = report
        .inventory
        .as_ref()
        .map(prepare::secret_variables)
        .unwrap_or_default();
    let redactor = Redactor::new(secrets);
    logging::mask(&redactor);
    if json {
        say::data(&findings_json(&report.findings, &redactor)?);
    } else {
        let style = Style {
            colour: say::is_coloured(),
        };
        let told = report.findings.iter();
        say::data(&told.map(|finding| text(finding, style, &redactor)).collect::<String>());
        match report.findings.len() {
            0 => {}
            number => say::talk(&count(number, "finding")),
        }
    }
    if !report.faults.is_empty() {
        return Err(report.faults);
    }
    Ok(if report.findings.is_empty() {
        Exit::Done
    } else {
        Exit::HostFailed
    })
}

/// The variables of vmwright that stand at the top.
fn known() -> Vec<Known<'static>> {
    let top = schema::variables().filter(|variable| !variable.name.contains('.'));
    top.map(|variable| Known {
        name: variable.name,
        kind: variable.kind,
        secret: variable.secret,
    })
    .collect()
}

fn allowed(names: &[String]) -> Result<HashSet<&'static str>, Problems> {
    let mut problems = Vec::new();
    let mut allowed = HashSet::new();
    for name in names {
        if let Some(rule) = rules::find(name) {
            allowed.insert(rule.code);
            continue;
        }
        let mut problem = Diagnostic::error("cli/lint-rule", format!("there is no rule `{name}`"))
            .at(Place::whole("--allow"))
            .help("`vmwright lint --list-rules` lists them");
        let short = rules::RULES.iter().filter_map(|rule| rule.code.strip_prefix("lint/"));
        if let Some(near) = nearest(name.trim_start_matches("lint/"), short) {
            problem = problem.help(format!("did you mean `{near}`?"));
        }
        problems.push(problem);
    }
    if problems.is_empty() {
        Ok(allowed)
    } else {
        Err(problems)
    }
}

/// A finding for people.
fn text(finding: &Finding, style: Style, redactor: &Redactor) -> String {
    let mut diagnostic = finding.diagnostic.clone();
    if let Some(rewrite) = &finding.rewrite {
        diagnostic.help.insert(0, format!("write: {rewrite}"));
    }
    format!("{}\n", render(&diagnostic, style, redactor).trim_end_matches('\n')) + "\n"
}

fn place(place: Option<&Place>) -> Value {
    match place {
        Some(place) if place.line > 0 => json!({ "file": &*place.file, "line": place.line, "column": place.column }),
        Some(place) => json!({ "file": &*place.file }),
        None => Value::Null,
    }
}

/// One document: `{"findings": [..]}`.
fn findings_json(findings: &[Finding], redactor: &Redactor) -> Result<String, Problems> {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let told = &finding.diagnostic;
            let notes = told.notes.iter();
            let notes: Vec<Value> = notes
                .map(|(at, text)| json!({ "place": place(at.as_ref()), "text": text }))
                .collect();
            json!({
                "code": told.code,
                "message": told.message,
                "place": place(told.place.as_ref()),
                "key": told.key,
                "why": told.rule,
                "rewrite": finding.rewrite,
                "help": told.help,
                "notes": notes,
            })
        })
        .collect();
    let mut document = json!({ "findings": findings });
    redactor.mask_json(&mut document);
    pretty(&document)
}

fn rules_json() -> Result<String, Problems> {
    let rules = rules::RULES.iter();
    let rules: Vec<Value> = rules
        .map(|rule| json!({ "code": rule.code, "finds": rule.finds, "why": rule.why }))
        .collect();
    pretty(&json!({ "rules": rules }))
}

fn rules_text() -> String {
    let mut text = String::new();
    for rule in rules::RULES {
        let _ = writeln!(
            text,
            "{}\n    finds: {}\n    why:   {}",
            rule.code, rule.finds, rule.why
        );
    }
    text
}

fn pretty(document: &Value) -> Result<String, Problems> {
    match serde_json::to_string_pretty(document) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(vec![Diagnostic::error(
            "cli/json",
            format!("the findings cannot be printed: {error}"),
        )]),
    }
}
