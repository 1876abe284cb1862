//! Evaluates templates as Ansible 2.19 does, on MiniJinja.
//!
//! ```text
//! Scope::get(a) -> "{{ b }}-x" -> b -> "{{ c.d | default('z') }}" -> c (a mapping, its values only when touched)
//! ```
//!
//! A variable is evaluated when a template touches it, so one broken variable harms only those who use it. A template
//! that is one expression gives that expression's value, not its text. Nothing printed may be undefined: the fault names
//! the expression, the nearest known name and the chain of templates. A template that needs its own result is a loop and
//! is reported with its chain. Work is bounded by fuel, by the depth of the chain and by the size of results. What a
//! template made of a secret is secret.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::{ErrorKind, value::Value as Jinja};

use super::lazy::{self, Context};
use super::scope::{HostScope, Session};
use super::template_engine::MARK;
use super::template_fault::needed_by;
use super::trace::Trace;
use super::value::{Data, Entry, Value};
use super::{lookup, template_escape, text};
use crate::diagnose::{Diagnostic, Place};

/// How many templates may wait for each other.
const MAX_CHAIN: usize = 32;
/// The longest text that a template may give, in bytes.
const MAX_TEXT: usize = 8 << 20;

/// Why a value cannot be had.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Something in it is undefined: a `default` further out may still help.
    Undefined(Box<Diagnostic>),
    /// Anything else.
    Fault(Box<Diagnostic>),
}

/// Whether a text is a template at all.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// A template that is being evaluated.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) host: usize,
    pub(super) source: Arc<str>,
    /// The variable, or the path of the value inside one; empty for a text that no variable holds.
    pub(super) label: String,
    pub(super) place: Place,
    /// A secret was touched.
    pub(super) secret: bool,
    /// What it printed: how many values other than none, and the last of them with its text.
    pub(super) emitted: usize,
    pub(super) last: Option<(Jinja, String)>,
    /// An `if` without `else` was printed as nothing.
    pub(super) silent: bool,
    /// One of the printed values holds a secret.
    pub(super) printed_secret: bool,
    /// Names that were looked for and not found.
    pub(super) misses: Vec<String>,
    /// Undefined values that `default` or a test dealt with.
    pub(super) handled: usize,
    /// Values that were undefined because of something deeper.
    pub(super) deeper: Vec<(String, Box<Diagnostic>)>,
    /// The first fault below.
    pub(super) fault: Option<Box<Diagnostic>>,
    /// A value that was used, and turned out to be undefined further down.
    pub(super) raised: Option<Box<Diagnostic>>,
}

/// One evaluation from the outside, with all that it leads to.
#[derive(Debug)]
pub(crate) struct Run {
    pub session: Arc<Session>,
    frames: Mutex<Vec<Frame>>,
    /// Templates that failed, by host and text: asked for again, they are not tried again.
    failed: Mutex<HashMap<(usize, Arc<str>), Failure>>,
    /// What it did, for `explain`.
    pub(super) trace: Trace,
}

thread_local! {
    /// The evaluations that run on this thread, innermost last: the formatter and filters have no other way to them.
    static CURRENT: RefCell<Vec<(Arc<Run>, Arc<HostScope>)>> = const { RefCell::new(Vec::new()) };
}

/// The innermost evaluation on this thread.
pub(crate) fn current() -> Option<(Arc<Run>, Arc<HostScope>)> {
    CURRENT.with_borrow(|stack| stack.last().cloned())
}

/// Ends the innermost evaluation when dropped, also by a panic.
struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Vec::pop);
    }
}

impl Run {
    pub fn new(session: &Arc<Session>) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            frames: Mutex::default(),
            failed: Mutex::default(),
            trace: Trace::default(),
        })
    }

    pub(super) fn frames(&self) -> MutexGuard<'_, Vec<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn top<T>(&self, act: impl FnOnce(&mut Frame) -> T) -> Option<T> {
        self.frames().last_mut().map(act)
    }

    /// The running template touched a secret.
    pub fn touch_secret(&self) {
        self.top(|frame| frame.secret = true);
    }

    /// Whether the running template touched a secret.
    pub fn is_secret(&self) -> bool {
        self.top(|frame| frame.secret || frame.printed_secret).unwrap_or(false)
    }

    /// The running template looked for something that is not there.
    pub fn miss(&self, name: String) {
        self.top(|frame| frame.misses.push(name));
    }

    /// The running template dealt with an undefined value.
    pub fn handle(&self) {
        self.top(|frame| frame.handled += 1);
    }

    /// Resolves a raw value all the way down. `None` stands for `omit`.
    pub fn resolve(
        self: &Arc<Self>,
        scope: &Arc<HostScope>,
        raw: &Value,
        label: &str,
    ) -> Result<Option<Value>, Failure> {
        let with = |data: Data| {
            Ok(Some(Value {
                data,
                place: raw.place.clone(),
                secret: raw.secret,
            }))
        };
        match &raw.data {
            Data::Str(source) if is_template(source) => {
                let result = self.evaluate(scope, source, raw, label)?;
                Ok(result.map(Arc::unwrap_or_clone))
            }
            Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Str(_) => Ok(Some(raw.clone())),
            Data::Unsafe(text) => with(Data::Str(text.clone())),
            Data::Vault(text) => {
                let plain = self.decrypt(text, raw, label)?;
                let mut value = Value::text(&*plain, raw.place.clone());
                value.secret = true;
                Ok(Some(value))
            }
            Data::List(list) => {
                let mut out = Vec::with_capacity(list.len());
                for (i, item) in list.iter().enumerate() {
                    out.extend(self.resolve(scope, item, &format!("{label}[{i}]"))?);
                }
                with(Data::List(out))
            }
            Data::Map(map) => {
                let mut out = indexmap::IndexMap::with_capacity(map.len());
                for (key, entry) in map {
                    if let Some(value) = self.resolve(scope, &entry.value, &format!("{label}.{key}"))? {
                        let key_place = entry.key_place.clone();
                        out.insert(key.clone(), Entry { key_place, value });
                    }
                }
                with(Data::Map(out))
            }
        }
    }

    /// A raw value for a template: texts are evaluated, lists and mappings wait until they are touched.
    ///
    /// What is undefined further down comes back undefined, what is broken as an invalid value.
    pub fn engine_value(self: &Arc<Self>, scope: &Arc<HostScope>, raw: &Arc<Value>, label: &str) -> Jinja {
        let outcome = match &raw.data {
            Data::Str(source) if is_template(source) => match self.evaluate(scope, source, raw, label) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => return lookup::omit(),
                Err(failure) => Err(failure),
            },
            Data::Vault(text) => self.decrypt(text, raw, label).map(|plain| {
                let mut value = Value::text(&*plain, raw.place.clone());
                value.secret = true;
                Arc::new(value)
            }),
            Data::List(_) | Data::Map(_) => return lazy::container(self, scope, raw, label, false),
            _ => Ok(Arc::clone(raw)),
        };
        match outcome {
            Ok(value) => lazy::plain(self, scope, &value, label),
            Err(Failure::Undefined(fault)) => {
                self.top(|frame| frame.deeper.push((label.to_owned(), fault)));
                Jinja::UNDEFINED
            }
            Err(Failure::Fault(fault)) => {
                let told = fault.message.clone();
                self.top(|frame| {
                    frame.fault.get_or_insert(fault);
                });
                Jinja::from(minijinja::Error::new(ErrorKind::BadInclude, told))
            }
        }
    }

    fn decrypt(&self, text: &Arc<str>, raw: &Value, label: &str) -> Result<Arc<str>, Failure> {
        self.session
            .core
            .decrypt(text, &raw.place)
            .map_err(|fault| Failure::Fault(Box::new(self.with_chain(fault.key(label)))))
    }

    /// The value of a variable that no source sets.
    pub fn magic_value(self: &Arc<Self>, scope: &Arc<HostScope>, name: &str) -> Result<Option<Value>, Failure> {
        let place = Place::whole("the inventory");
        let Some(value) = Context::new(self, scope).magic(name) else {
            return Ok(None);
        };
        text::take(self, &value, &place, 0).map_err(|error| self.failure(&error, scope))
    }

    /// Evaluates a template. `None` stands for `omit`.
    pub fn evaluate(
        self: &Arc<Self>,
        scope: &Arc<HostScope>,
        source: &str,
        raw: &Value,
        label: &str,
    ) -> Result<Option<Arc<Value>>, Failure> {
        let results = || scope.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = results().get(source) {
            let mut value = Arc::clone(known);
            if value.place != raw.place || raw.secret && !value.secret {
                let value = Arc::make_mut(&mut value);
                value.place = raw.place.clone();
                if raw.secret {
                    value.make_secret();
                }
            }
            return Ok(Some(value));
        }
        let failed = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let key: (usize, Arc<str>) = (scope.host, source.into());
        if let Some(failure) = failed().get(&key) {
            return Err(failure.clone());
        }
        self.trace.enter(scope.host, source, raw, label);
        if let Err(failure) = self.enter(scope, source, raw, label) {
            self.trace.leave(Err(&failure));
            return Err(failure);
        }
        CURRENT.with_borrow_mut(|stack| stack.push((Arc::clone(self), Arc::clone(scope))));
        let entered = Entered;
        let outcome = self.run_template(scope, source, raw);
        drop(entered);
        let outcome = outcome.map_err(|error| self.failure(&error, scope));
        let frame = self.frames().pop();
        let value = match outcome {
            Ok(value) => value,
            Err(failure) => {
                self.trace.leave(Err(&failure));
                failed().insert(key, failure.clone());
                return Err(failure);
            }
        };
        let Some(mut value) = value else {
            self.trace.leave(Ok(None));
            return Ok(None);
        };
        if raw.secret || frame.is_some_and(|frame| frame.secret) {
            value.make_secret();
        }
        self.trace.leave(Ok(Some(&value)));
        let value = Arc::new(value);
        results().insert(key.1, Arc::clone(&value));
        Ok(Some(value))
    }

    fn enter(&self, scope: &Arc<HostScope>, source: &str, raw: &Value, label: &str) -> Result<(), Failure> {
        let mut frames = self.frames();
        let again = frames
            .iter()
            .position(|frame| frame.host == scope.host && *frame.source == *source);
        if let Some(first) = again {
            // The template that is met again may stand in another variable, with the same text: that one is in the loop.
            let mut labels = vec![label];
            labels.extend(frames[first + 1..].iter().map(|frame| frame.label.as_str()));
            let chain = format!("{} > {label}", labels.join(" > "));
            let mut fault = Diagnostic::error(
                "inventory/template-loop",
                format!("`{label}` needs its own value: {chain}"),
            )
            .at(raw.place.clone())
            .rule("a variable cannot be made of itself")
            .help("give one of these variables a value of its own");
            fault = fault.note(raw.place.clone(), format!("`{label}` is made here"));
            for frame in &frames[first + 1..] {
                fault = fault.note(frame.place.clone(), format!("`{}` is made here", frame.label));
            }
            return Err(Failure::Fault(Box::new(fault)));
        }
        if frames.len() >= MAX_CHAIN {
            let fault = Diagnostic::error(
                "inventory/template-bound",
                format!("more than {MAX_CHAIN} templates need each other in a row"),
            )
            .at(raw.place.clone())
            .rule("the chain of templates is bounded")
            .help("make the chain shorter");
            drop(frames);
            return Err(Failure::Fault(Box::new(self.with_chain(fault))));
        }
        frames.push(Frame {
            host: scope.host,
            source: source.into(),
            label: label.to_owned(),
            place: raw.place.clone(),
            secret: false,
            emitted: 0,
            last: None,
            silent: false,
            printed_secret: false,
            misses: Vec::new(),
            handled: 0,
            deeper: Vec::new(),
            fault: None,
            raised: None,
        });
        Ok(())
    }

    fn run_template(
        self: &Arc<Self>,
        scope: &Arc<HostScope>,
        source: &str,
        raw: &Value,
    ) -> Result<Option<Value>, minijinja::Error> {
        let engine = &self.session.core.engine;
        let name = format!("{MARK}{}", template_escape::escape_backslashes(source));
        let context = || Jinja::from_object(Context::new(self, scope));
        let mut output = engine.strict.get_template(&name)?.render(context());
        // `a.b.c | default(x)` where `a.b` is undefined: once more, with undefined attributes of undefined values.
        // Sound only if every miss was dealt with by a `default` or a test.
        if let Err(error) = &output
            && error.kind() == ErrorKind::UndefinedError
            && (source.contains("default") || source.contains("defined") || source.contains("d("))
            && self.top(|frame| frame.fault.is_none()).unwrap_or(false)
        {
            self.top(|frame| {
                frame.emitted = 0;
                frame.last = None;
                frame.misses.clear();
                frame.handled = 0;
                frame.deeper.clear();
                frame.raised = None;
            });
            let again = engine.chained.get_template(&name)?.render(context());
            let sound = self.top(|frame| frame.handled >= frame.misses.len()).unwrap_or(false);
            if again.is_ok() && sound {
                output = again;
            }
        }
        let output = output?;
        if output.len() > MAX_TEXT {
            return Err(minijinja::Error::new(ErrorKind::OutOfFuel, "the text is too long"));
        }
        let (emitted, last) = self
            .top(|frame| (frame.emitted, frame.last.take()))
            .unwrap_or((0, None));
        // Alone, an `if` without `else` whose condition is false gives no value at all.
        if emitted == 0 && output.is_empty() && self.top(|frame| frame.silent).unwrap_or(false) {
            return Err(minijinja::Error::from(ErrorKind::UndefinedError));
        }
        // A template that is one expression gives that expression's value.
        let mut value = match last {
            _ if emitted == 0 && output.is_empty() => Some(Value::new(Data::Null, raw.place.clone())),
            Some((value, text)) if emitted == 1 && text == output => text::take(self, &value, &raw.place, 0)?,
            _ => {
                self.top(|frame| frame.secret |= frame.printed_secret);
                Some(Value::text(output, raw.place.clone()))
            }
        };
        // The engine drops one newline at the end; a text gets as many as the template has, as in Ansible.
        if let Some(Value {
            data: Data::Str(text), ..
        }) = &mut value
        {
            let newlines = |text: &str| text.len() - text.trim_end_matches('\n').len();
            let missing = newlines(source).saturating_sub(newlines(text));
            text.extend(std::iter::repeat_n('\n', missing));
        }
        Ok(value)
    }

    fn with_chain(&self, mut fault: Diagnostic) -> Diagnostic {
        if let Some(frame) = self.frames().last() {
            fault = needed_by(fault, frame);
        }
        fault
    }

    /// A value was printed by the running template.
    pub(super) fn emitted(&self, value: &Jinja, text: String) {
        self.top(|frame| {
            frame.emitted += 1;
            frame.last = Some((value.clone(), text));
        });
    }
}
