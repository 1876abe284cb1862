//! Progress for people, on standard error.
//!
//! In a pipe or a log: one line an event, each readable alone. On a terminal: one live line a host under way, and a
//! finished line above when it ends. Words tell everything; colour repeats it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::engine::event::{Event, EventKind, Listener, Outcome, StageName, Told};
use crate::ui::{count, duration};

/// Plain lines.
pub struct Lines<W: Write + Send> {
    out: Mutex<W>,
    width: usize,
    waits: bool,
}

impl<W: Write + Send> Lines<W> {
    /// Lines for these hosts; `waits` also tells what is waited for.
    pub fn new(out: W, hosts: &[String], waits: bool) -> Self {
        let width = hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0);
        Self {
            out: Mutex::new(out),
            width,
            waits,
        }
    }
}

impl<W: Write + Send> Listener for Lines<W> {
    fn on(&self, event: &Event) {
        let host = event.host.as_deref().unwrap_or("");
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        for (stage, text) in lines(&event.kind, self.waits) {
            let stage = stage.map_or("", StageName::as_str);
            // Standard error may be closed; the run goes on.
            let _ = writeln!(out, "{host:<width$}  {stage:<10}  {text}", width = self.width);
        }
        let _ = out.flush();
    }
}

/// An event as lines: the stage it belongs to, and the words.
fn lines(kind: &EventKind, waits: bool) -> Vec<(Option<StageName>, String)> {
    match kind {
        EventKind::Changing {
            stage,
            changes,
            planned,
        } => changes
            .iter()
            .map(|change| {
                let word = if *planned { "would change" } else { "change" };
                (Some(*stage), format!("{word}  {change}"))
            })
            .collect(),
        EventKind::Waiting { stage, what } if waits => vec![(Some(*stage), format!("wait    {what}"))],
        EventKind::Retrying { stage, why, .. } => vec![(Some(*stage), format!("again   {why}"))],
        EventKind::StageDone {
            stage,
            changed,
            detail,
            ms,
        } => {
            let word = if *changed { "done" } else { "ok" };
            let took = Duration::from_millis(*ms);
            let time = if took >= Duration::from_millis(100) {
                format!(" ({})", duration(took))
            } else {
                String::new()
            };
            vec![(Some(*stage), format!("{word:<6}  {detail}{time}"))]
        }
        EventKind::Warning { diagnostic } => vec![(None, format!("warning {}", warning(diagnostic)))],
        EventKind::HostDone {
            outcome,
            stage,
            diagnostic,
            ms,
            ..
        } => {
            let what = match diagnostic {
                Some(told) => format!(": {}", told.message),
                None => String::new(),
            };
            vec![(
                *stage,
                format!(
                    "{}{what} ({})",
                    outcome_word(*outcome),
                    duration(Duration::from_millis(*ms))
                ),
            )]
        }
        EventKind::RunStarted { .. }
        | EventKind::HostStarted { .. }
        | EventKind::StageStarted { .. }
        | EventKind::Waiting { .. }
        | EventKind::Task { .. }
        | EventKind::RunDone { .. } => Vec::new(),
    }
}

fn warning(told: &Told) -> String {
    let mut text = format!("{} [{}]", told.message, told.code);
    if let Some(help) = told.help.first() {
        text.push_str("; ");
        text.push_str(help);
    }
    text
}

/// The outcome as a word.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Changed => "ready",
        Outcome::Unchanged => "ready, nothing changed",
        Outcome::Removed => "removed",
        Outcome::Absent => "nothing to remove",
        Outcome::Planned => "planned",
        Outcome::Failed => "FAILED",
        Outcome::Locked => "LOCKED",
        Outcome::Refused => "REFUSED",
        Outcome::Interrupted => "interrupted",
        Outcome::Skipped => "not begun",
    }
}

/// Live lines on a terminal.
pub struct Live {
    multi: MultiProgress,
    bars: Mutex<HashMap<String, Bar>>,
    stages: &'static [StageName],
    width: usize,
}

struct Bar {
    bar: ProgressBar,
    stages: &'static [StageName],
    stage: StageName,
}

impl Live {
    /// Live lines for these hosts, which go through these stages, on standard error.
    pub fn new(hosts: &[String], stages: &'static [StageName]) -> Self {
        let width = hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0);
        Self {
            multi: MultiProgress::new(),
            bars: Mutex::new(HashMap::new()),
            stages,
            width,
        }
    }
}

impl Listener for Live {
    fn on(&self, event: &Event) {
        let Some(host) = event.host.as_deref() else { return };
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let padded = format!("{host:<width$}", width = self.width);
        match &event.kind {
            EventKind::HostStarted { .. } => {
                let bar = self.multi.add(ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("{spinner} {prefix} {wide_msg} {elapsed:>4}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
                bar.set_style(style);
                bar.set_prefix(padded);
                bar.enable_steady_tick(Duration::from_millis(120));
                bars.insert(
                    host.to_owned(),
                    Bar {
                        bar,
                        stages: self.stages,
                        stage: StageName::Lock,
                    },
                );
            }
            EventKind::StageStarted { stage } => {
                if let Some(bar) = bars.get_mut(host) {
                    bar.stage = *stage;
                    bar.say(stage.as_str());
                }
            }
            EventKind::Waiting { what, .. } => {
                if let Some(bar) = bars.get(host) {
                    bar.say(&format!("{}: {what}", bar.stage));
                }
            }
            EventKind::Task { what, .. } => {
                if let Some(bar) = bars.get(host) {
                    bar.say(&format!("{}: {what}", bar.stage));
                }
            }
            EventKind::Changing { planned: true, .. } | EventKind::Warning { .. } | EventKind::Retrying { .. } => {
                for (stage, text) in lines(&event.kind, false) {
                    let stage = stage.map_or("", StageName::as_str);
                    let _ = self.multi.println(format!("  {padded}  {stage:<10}  {text}"));
                }
            }
            EventKind::StageDone {
                stage,
                changed: true,
                detail,
                ms,
            } => {
                let took = duration(Duration::from_millis(*ms));
                let _ = self
                    .multi
                    .println(format!("  {padded}  {stage:<10}  {detail} ({took})"));
            }
            EventKind::HostDone {
                outcome, changed, ms, ..
            } => {
                if let Some(Bar { bar, .. }) = bars.remove(host) {
                    bar.finish_and_clear();
                }
                let took = duration(Duration::from_millis(*ms));
                let stages = if changed.is_empty() {
                    String::new()
                } else {
                    format!(", {} changed", count(changed.len(), "stage"))
                };
                let _ = self
                    .multi
                    .println(format!("* {padded}  {}{stages} ({took})", outcome_word(*outcome)));
            }
            EventKind::Changing { .. }
            | EventKind::StageDone { .. }
            | EventKind::RunStarted { .. }
            | EventKind::RunDone { .. } => {}
        }
    }
}

impl Bar {
    fn say(&self, text: &str) {
        let position = self.stages.iter().position(|known| *known == self.stage);
        let number = position.map_or(0, |index| index + 1);
        self.bar.set_message(format!("[{number}/{}] {text}", self.stages.len()));
    }
}
