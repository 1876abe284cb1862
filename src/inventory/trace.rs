//! What the evaluation of a template did, step by step, for `explain`.
//!
//! ```text
//! enter(template) -- used(variable) | magic(name) | missed(name) | enter(another) .. leave(result) -- leave(result)
//! ```
//!
//! A `Trace` records nothing until `Trace::start`; until then a hook costs one load. A template that was evaluated
//! before in the same run is not evaluated again: its user points at the step that did it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use minijinja::value::Value as Jinja;

use super::template::{Failure, is_template};
use super::value::{Data, Value};
use crate::diagnose::Place;

/// One template and what became of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The variable, or the path inside one, that holds the template.
    pub label: String,
    /// Where it stands.
    pub place: Place,
    /// The template's text.
    pub template: String,
    /// The text itself came from a vault.
    pub secret_text: bool,
    /// What it used, in order, each once.
    pub used: Vec<Used>,
    /// Its value (none for `omit`), or what is wrong.
    pub result: Result<Option<Value>, String>,
    host: usize,
    seen: HashSet<String>,
}

/// Something that a template used.
#[derive(Clone, Debug)]
pub struct Used {
    /// The variable, or the path inside one.
    pub label: String,
    /// What it is.
    pub what: What,
}

/// What was used.
#[derive(Clone, Debug)]
pub enum What {
    /// A value that is no template; it has its place.
    Value(Arc<Value>),
    /// A magic variable, which no source sets; none where it is more than a text or a number.
    Magic(Option<String>),
    /// Another template: the index of its step.
    Step(usize),
    /// Nothing: it is not defined.
    Missing,
}

/// Records steps.
#[derive(Debug, Default)]
pub(crate) struct Trace(OnceLock<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    steps: Vec<Step>,
    open: Vec<usize>,
}

impl Trace {
    /// From now on steps are recorded.
    pub fn start(&self) {
        self.0.get_or_init(Mutex::default);
    }

    /// All steps, in the order in which they began.
    pub fn steps(&self) -> Vec<Step> {
        self.with(|recording| recording.steps.clone()).unwrap_or_default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut Recording) -> T) -> Option<T> {
        let recording = self.0.get()?;
        Some(act(&mut recording.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A template begins.
    pub fn enter(&self, host: usize, source: &str, raw: &Value, label: &str) {
        self.with(|recording| {
            let index = recording.steps.len();
            recording.note(label, What::Step(index));
            recording.steps.push(Step {
                label: label.to_owned(),
                place: raw.place.clone(),
                template: source.to_owned(),
                secret_text: raw.secret,
                used: Vec::new(),
                result: Ok(None),
                host,
                seen: HashSet::new(),
            });
            recording.open.push(index);
        });
    }

    /// The innermost template has ended.
    pub fn leave(&self, result: Result<Option<&Value>, &Failure>) {
        self.with(|recording| {
            if let Some(step) = recording.open.pop() {
                recording.steps[step].result = match result {
                    Ok(value) => Ok(value.cloned()),
                    Err(Failure::Undefined(fault) | Failure::Fault(fault)) => Err(fault.message.clone()),
                };
            }
        });
    }

    /// The innermost template used a value.
    pub fn used(&self, host: usize, label: &str, raw: &Arc<Value>) {
        self.with(|recording| {
            let known = match &raw.data {
                Data::Str(text) if is_template(text) => recording
                    .steps
                    .iter()
                    .position(|step| step.host == host && step.template == *text),
                _ => None,
            };
            let what = known.map_or_else(|| What::Value(Arc::clone(raw)), What::Step);
            recording.note(label, what);
        });
    }

    /// The innermost template used a magic variable.
    pub fn magic(&self, label: &str, value: &Jinja) {
        use minijinja::value::ValueKind;
        self.with(|recording| {
            let text = match value.kind() {
                ValueKind::String => value.as_str().map(str::to_owned),
                ValueKind::Number | ValueKind::Bool => Some(value.to_string()),
                _ => None,
            };
            recording.note(label, What::Magic(text));
        });
    }

    /// The innermost template looked for something that is not there.
    pub fn missed(&self, label: &str) {
        self.with(|recording| recording.note(label, What::Missing));
    }
}

impl Recording {
    fn note(&mut self, label: &str, what: What) {
        let Some(step) = self.open.last().and_then(|open| self.steps.get_mut(*open)) else {
            return;
        };
        if !step.seen.insert(label.to_owned()) {
            return;
        }
        // Of `a`, `a.b`, `a.b.c` in a row only the last is what the template wanted.
        if let Some(last) = step.used.last()
            && let What::Value(_) | What::Magic(None) = last.what
            && let Some(rest) = label.strip_prefix(&*last.label)
            && rest.starts_with(['.', '['])
        {
            step.used.pop();
        }
        let label = label.to_owned();
        step.used.push(Used { label, what });
    }
}
