//! The template engine, set up to answer as Ansible's does, and how it prints.
//!
//! Happy path: templates are compiled once, run with bounded fuel, and print what Python would print. Failures are the
//! engine's own; `template_fault` tells them.

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, value::Value as Jinja};

use super::template::current;
use super::{checks, filters, lookup, methods, text};
use crate::diagnose::Place;

/// Steps that one template may take.
const FUEL: u64 = 2_000_000;
/// Names of stored templates begin so; nothing a template can `include` does.
pub(super) const MARK: char = '\u{1}';

/// The two environments: undefined values may not be touched, or may be asked for attributes, which are undefined too.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) strict: Environment<'static>,
    pub(super) chained: Environment<'static>,
}

impl Engine {
    pub fn new() -> Self {
        let make = |behavior| {
            let mut env = Environment::new();
            env.set_undefined_behavior(behavior);
            env.set_debug(true);
            env.set_fuel(Some(FUEL));
            env.set_auto_escape_callback(|_| AutoEscape::None);
            env.set_unknown_method_callback(methods::call);
            env.set_loader(|name| Ok(name.strip_prefix(MARK).map(str::to_owned)));
            if let Ok(syntax) = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).build() {
                env.set_syntax(syntax);
            }
            minijinja_contrib::add_to_environment(&mut env);
            filters::add(&mut env);
            checks::add(&mut env);
            lookup::add(&mut env);
            env.set_formatter(emit);
            env
        };
        Self {
            strict: make(UndefinedBehavior::Strict),
            chained: make(UndefinedBehavior::Chainable),
        }
    }
}

/// Prints a value into the text of a template: as Python would, none as nothing, and never an undefined one.
fn emit(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Jinja,
) -> Result<(), minijinja::Error> {
    if value.is_undefined() {
        // In the strict environment this names the expression; an `if` without `else` prints nothing.
        minijinja::value::StringInput::new(state, value)?;
        if state.undefined_behavior() == UndefinedBehavior::Strict {
            if let Some((run, _)) = current() {
                run.top(|frame| frame.silent = true);
            }
            return Ok(());
        }
        return Err(minijinja::Error::from(ErrorKind::UndefinedError));
    }
    if value.is_none() || lookup::is_omit(value) {
        if let (true, Some((run, _))) = (lookup::is_omit(value), current()) {
            run.emitted(value, String::new());
        }
        return Ok(());
    }
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None => match current() {
            Some((run, _)) => match text::take(&run, value, &Place::whole(""), 0)? {
                Some(value) => {
                    if text::has_secret(&value) {
                        run.top(|frame| frame.printed_secret = true);
                    }
                    text::display(&value)
                }
                None => String::new(),
            },
            None => value.to_string(),
        },
    };
    std::fmt::Write::write_str(out, &text).map_err(|_| minijinja::Error::from(ErrorKind::WriteFailure))?;
    if let Some((run, _)) = current() {
        run.emitted(value, text);
    }
    Ok(())
}
