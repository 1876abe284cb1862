//! The recap at the end of a run: what changed, what was already right, what failed, and how to go on.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::engine::event::{Event, EventKind, Listener, Outcome, StageName, Told};
use crate::ui::table::{table, wrap};
use crate::ui::{count, duration};

/// How one host ended.
#[derive(Clone, Debug)]
struct Row {
    host: String,
    name: String,
    outcome: Outcome,
    vmid: Option<u32>,
    node: Option<String>,
    address: Option<String>,
    changed: Vec<StageName>,
    stage: Option<StageName>,
    diagnostic: Option<Told>,
    next: Option<String>,
    took: Duration,
}

/// Collects the ends of hosts.
#[derive(Clone, Default)]
pub struct Recap {
    rows: Arc<Mutex<Vec<Row>>>,
}

impl Listener for Recap {
    fn on(&self, event: &Event) {
        let EventKind::HostDone {
            outcome,
            name,
            vmid,
            node,
            address,
            changed,
            stage,
            diagnostic,
            next,
            ms,
        } = &event.kind
        else {
            return;
        };
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(Row {
            host: event.host.clone().unwrap_or_default(),
            name: name.clone(),
            outcome: *outcome,
            vmid: *vmid,
            node: node.clone(),
            address: address.clone(),
            changed: changed.clone(),
            stage: *stage,
            diagnostic: diagnostic.clone(),
            next: next.clone(),
            took: Duration::from_millis(*ms),
        });
    }
}

impl Recap {
    /// The table and the failures in full, in the order of `hosts`.
    pub fn render(&self, hosts: &[String]) -> String {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rows.sort_by_key(|row| hosts.iter().position(|host| *host == row.host));
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.host.clone(),
                    match row.vmid {
                        Some(vmid) if row.name != row.host => format!("{vmid} {}", row.name),
                        Some(vmid) => vmid.to_string(),
                        None => "-".to_owned(),
                    },
                    dash(row.node.clone()),
                    dash(row.address.clone()),
                    result(row),
                    duration(row.took),
                ]
            })
            .collect();
        let mut out = table(&["HOST", "VM", "NODE", "ADDRESS", "RESULT", "TIME"], &cells);
        for row in rows.iter().filter(|row| !row.changed.is_empty()) {
            let stages: Vec<&str> = row.changed.iter().map(|stage| stage.as_str()).collect();
            let _ = writeln!(
                out,
                "{}",
                wrap(&format!("{}: changed {}", row.host, stages.join(", ")), 78, "  ")
            );
        }
        for row in &rows {
            if let Some(diagnostic) = &row.diagnostic {
                out.push('\n');
                out.push_str(&failure(row, diagnostic));
            } else if let Some(next) = &row.next {
                let _ = writeln!(out, "{}: go on with: {next}", row.host);
            }
        }
        out.push('\n');
        out.push_str(&summary(&rows));
        out
    }
}

fn result(row: &Row) -> String {
    let at = |word: &str| match row.stage {
        Some(stage) => format!("{word} at {stage}"),
        None => word.to_owned(),
    };
    match row.outcome {
        Outcome::Changed => "ready, changed".to_owned(),
        Outcome::Unchanged => "ready, unchanged".to_owned(),
        Outcome::Removed => "removed".to_owned(),
        Outcome::Absent => "nothing to remove".to_owned(),
        Outcome::Planned => "planned".to_owned(),
        Outcome::Failed => at("FAILED"),
        Outcome::Locked => "LOCKED".to_owned(),
        Outcome::Refused => at("REFUSED"),
        Outcome::Interrupted => at("interrupted"),
        Outcome::Skipped => "not begun".to_owned(),
    }
}

fn failure(row: &Row, told: &Told) -> String {
    let mut out = format!("{}: {} [{}]\n", row.host, told.message, told.code);
    let mut line = |label: &str, text: &str| {
        let mut lines = text.lines();
        let _ = writeln!(out, "  {label}: {}", lines.next().unwrap_or_default());
        for more in lines {
            let _ = writeln!(out, "  {:width$}  {more}", "", width = label.len());
        }
    };
    match (&told.place, &told.key) {
        (Some(place), Some(key)) => line("at", &format!("{place} ({key})")),
        (Some(at), None) | (None, Some(at)) => line("at", at),
        (None, None) => {}
    }
    for note in &told.notes {
        line("seen", note);
    }
    if let Some(rule) = &told.rule {
        line("rule", rule);
    }
    for help in &told.help {
        line("help", help);
    }
    let stages: Vec<&str> = row.changed.iter().map(|stage| stage.as_str()).collect();
    line(
        "changed so far",
        if stages.is_empty() { "nothing" } else { "see above" },
    );
    if let Some(next) = &row.next {
        line("go on with", next);
    }
    out
}

fn summary(rows: &[Row]) -> String {
    let number = |outcome: Outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let parts: Vec<String> = [
        (Outcome::Changed, "changed"),
        (Outcome::Unchanged, "unchanged"),
        (Outcome::Removed, "removed"),
        (Outcome::Absent, "with nothing to remove"),
        (Outcome::Planned, "planned"),
        (Outcome::Failed, "failed"),
        (Outcome::Locked, "locked"),
        (Outcome::Refused, "refused"),
        (Outcome::Interrupted, "interrupted"),
        (Outcome::Skipped, "not begun"),
    ]
    .into_iter()
    .filter_map(|(outcome, word)| match number(outcome) {
        0 => None,
        n => Some(format!("{n} {word}")),
    })
    .collect();
    format!("{}: {}\n", count(rows.len(), "host"), parts.join(", "))
}
