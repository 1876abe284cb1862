//! Standard output and standard error, for verbs.

use std::io::{IsTerminal, Write};

use crate::diagnose::{Diagnostic, Exit};
use crate::secret::Redactor;
use crate::ui::diagnostic::{Style, render};

/// Whether standard error may be coloured: a terminal, and NO_COLOR is not set.
fn style() -> Style {
    Style {
        colour: anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
    }
}

/// Whether standard error is a terminal that can show live lines.
pub fn is_live() -> bool {
    std::io::stderr().is_terminal() && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Prints problems and returns the exit code of the gravest.
pub fn problems(problems: &[Diagnostic]) -> Exit {
    diagnostics(problems, &Redactor::default());
    problems
        .iter()
        .map(|problem| problem.exit)
        .max()
        .unwrap_or(Exit::HostFailed)
}

/// Prints diagnostics to standard error, each once.
pub fn diagnostics(diagnostics: &[Diagnostic], redactor: &Redactor) {
    let mut err = anstream::stderr().lock();
    let style = style();
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        if diagnostics[..index].contains(diagnostic) {
            continue;
        }
        // Standard error may be closed; nothing is to be done about that.
        let _ = writeln!(err, "{}", render(diagnostic, style, redactor));
    }
}

/// Prints a line of talk to standard error.
pub fn talk(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints data to standard output. A reader that went away ends the output, not the verb.
pub fn data(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
