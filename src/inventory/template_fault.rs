//! What an error of the template engine is told as: the thing that is undefined, the nearest name, the chain of templates.

use std::sync::Arc;

use minijinja::ErrorKind;

use super::scope::HostScope;
use super::template::{Failure, Frame, Run};
use super::{facts, filters, lazy, lookup};
use crate::diagnose::{Diagnostic, nearest};

impl Run {
    /// What a fault of a nested evaluation becomes when a value of the engine needs it.
    pub fn nested_error(&self, failure: Failure) -> minijinja::Error {
        match failure {
            Failure::Undefined(fault) => {
                let told = fault.message.clone();
                self.top(|frame| {
                    frame.raised.get_or_insert(fault);
                });
                minijinja::Error::new(ErrorKind::UndefinedError, told)
            }
            Failure::Fault(fault) => {
                let told = fault.message.clone();
                self.top(|frame| {
                    frame.fault.get_or_insert(fault);
                });
                minijinja::Error::new(ErrorKind::InvalidOperation, told)
            }
        }
    }

    /// The failure that an error of the engine stands for, with the chain of templates.
    pub(super) fn failure(&self, error: &minijinja::Error, scope: &Arc<HostScope>) -> Failure {
        let mut frames = self.frames();
        let Some(frame) = frames.last_mut() else {
            let fault = Diagnostic::error("inventory/template", error.to_string());
            return Failure::Fault(Box::new(fault));
        };
        if let Some(fault) = frame.fault.take() {
            return Failure::Fault(Box::new(needed_by(*fault, frame)));
        }
        if let (ErrorKind::UndefinedError, Some(fault)) = (error.kind(), frame.raised.take()) {
            return Failure::Undefined(Box::new(needed_by(*fault, frame)));
        }
        let secret = frame.secret;
        let place = frame.place.clone();
        let detail = error.detail().unwrap_or_default().to_owned();
        let at_line = |fault: Diagnostic| match error.line() {
            Some(line) if frame.source.trim_end().contains('\n') => {
                fault.note(None, format!("in line {line} of the template"))
            }
            _ => fault,
        };
        match error.kind() {
            ErrorKind::UndefinedError => {
                let expression = detail.split('`').nth(1).map(str::to_owned);
                let expression = expression.or_else(|| frame.misses.last().cloned());
                // The value exists, but something below it is undefined: that is the fault.
                let deeper = frame
                    .deeper
                    .iter()
                    .rposition(|(name, _)| {
                        expression.as_deref().is_none_or(|expression| {
                            expression == name
                                || expression.starts_with(&format!("{name}."))
                                || name.starts_with(expression)
                        })
                    })
                    .map(|at| frame.deeper.swap_remove(at).1);
                if let Some(fault) = deeper {
                    return Failure::Undefined(Box::new(needed_by(*fault, frame)));
                }
                let named = expression.clone().unwrap_or_else(|| "a value".to_owned());
                let root = named.split(['.', '[', '(']).next().unwrap_or(&named).to_owned();
                let absent = if scope.vars.contains_key(&*root) {
                    None
                } else {
                    facts::absent(&root)
                };
                let mut fault = match &absent {
                    Some(why) => Diagnostic::error("inventory/facts-not-gathered", why.clone())
                        .at(place)
                        .rule("a template may use only what the inventory itself says"),
                    None => Diagnostic::error("inventory/undefined-variable", format!("`{named}` is not defined"))
                        .at(place)
                        .rule("a template may use only variables that the host has"),
                };
                if !frame.label.is_empty() {
                    fault = fault.key(frame.label.clone());
                }
                fault = at_line(fault);
                let known = scope.vars.keys().map(|name| &**name).chain(lazy::MAGIC);
                let near = if absent.is_some() || scope.vars.contains_key(&*root) {
                    None
                } else {
                    nearest(&root, known)
                };
                fault = match near {
                    Some(near) => fault.help(format!("did you mean `{near}`?")),
                    None if absent.is_some() => fault.help(format!(
                        "write the value into the inventory, or give a default: {{{{ {named} | default(..) }}}}"
                    )),
                    None => fault.help(format!(
                        "define it, or give it a default: {{{{ {named} | default(..) }}}}"
                    )),
                };
                Failure::Undefined(Box::new(fault))
            }
            ErrorKind::SyntaxError => Failure::Fault(Box::new(at_line(
                Diagnostic::error("inventory/template-syntax", format!("not a template: {detail}"))
                    .at(place)
                    .rule("templates are written in the language of Jinja")
                    .help("if the braces are meant as text, mark the value !unsafe, or write {{ '{{' }}"),
            ))),
            ErrorKind::OutOfFuel => Failure::Fault(Box::new(
                Diagnostic::error(
                    "inventory/template-bound",
                    "the template takes too many steps or gives too long a text",
                )
                .at(place)
                .rule("the work of a template is bounded")
                .help("make the loop shorter"),
            )),
            ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
                let name = detail.split_whitespace().nth(1).unwrap_or_default();
                let known = filters::NAMES.iter().copied().chain(lookup::NAMES);
                let mut fault = Diagnostic::error("inventory/template", detail.clone())
                    .at(place)
                    .rule("vmwright knows the filters and tests of Jinja and the usual ones of Ansible");
                fault = match nearest(name, known) {
                    Some(near) => fault.help(format!("did you mean `{near}`?")),
                    None => fault.help("write the value another way, or compute it outside and pass it with -e"),
                };
                Failure::Fault(Box::new(at_line(fault)))
            }
            ErrorKind::EvalBlock if detail.starts_with(lookup::REFUSED) => Failure::Fault(Box::new(
                Diagnostic::error("inventory/template-refused", detail.trim_start_matches(lookup::REFUSED))
                    .at(place)
                    .rule("a template may run commands only where its user allows it, and never with a secret in them")
                    .help("keep the value in an encrypted variable, pass it with -e, or allow it: --allow-pipe-lookup"),
            )),
            _ => {
                let told = if secret {
                    "a secret is involved, so the details are withheld".to_owned()
                } else if detail.is_empty() {
                    error.kind().to_string()
                } else {
                    detail
                };
                Failure::Fault(Box::new(at_line(
                    Diagnostic::error("inventory/template", format!("the template fails: {told}"))
                        .at(place)
                        .rule("filters and operators need values of the right type")
                        .help("check the types of what it uses: vmwright explain HOST"),
                )))
            }
        }
    }
}

/// Adds the running template to the chain of a fault.
pub(super) fn needed_by(fault: Diagnostic, frame: &Frame) -> Diagnostic {
    let text = if frame.label.is_empty() {
        "needed here".to_owned()
    } else {
        format!("needed by `{}`", frame.label)
    };
    // The frame that met the fault may have told it already.
    let note = (Some(frame.place.clone()), text);
    if fault.notes.last() == Some(&note) {
        return fault;
    }
    fault.note(note.0, note.1)
}
