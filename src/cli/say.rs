//! Standard output and standard error, for verbs.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::logging;
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

/// Whether standard output may be coloured.
pub fn is_coloured() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Prints problems and returns the exit code of the gravest.
pub fn problems(problems: &[Diagnostic]) -> Exit {
    diagnostics(problems, &logging::mask_of_now());
    problems
        .iter()
        .map(|problem| problem.exit)
        .max()
        .unwrap_or(Exit::HostFailed)
}

/// Prints diagnostics to standard error, each once: one about several hosts names them all.
pub fn diagnostics(diagnostics: &[Diagnostic], redactor: &Redactor) {
    let mut err = anstream::stderr().lock();
    let style = style();
    for diagnostic in together(diagnostics) {
        // Standard error may be closed; nothing is to be done about that.
        let _ = writeln!(err, "{}", render(&diagnostic, style, redactor));
    }
}

/// The most hosts that are named one by one.
const NAMED: usize = 6;

/// Equal diagnostics of several hosts as one: a mistake in a group's variables is one mistake.
fn together(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let mut merged: Vec<(Diagnostic, Vec<&str>)> = Vec::new();
    for diagnostic in diagnostics {
        let mut same = diagnostic.clone();
        same.host = None;
        let host = diagnostic.host.as_deref();
        match merged.iter_mut().find(|(known, _)| *known == same) {
            Some((_, hosts)) => hosts.extend(host.filter(|host| !hosts.contains(host))),
            None => merged.push((same, host.into_iter().collect())),
        }
    }
    merged
        .into_iter()
        .map(|(diagnostic, hosts)| match hosts.as_slice() {
            [] => diagnostic,
            few if few.len() <= NAMED => diagnostic.host(few.join(", ")),
            many => diagnostic.host(format!("{} and {} more", many[..NAMED].join(", "), many.len() - NAMED)),
        })
        .collect()
}

/// Prints a line of talk to standard error.
pub fn talk(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints data to standard output. A reader that went away ends the output, not the verb.
pub fn data(text: &str) {
    let mut out = Output;
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Standard output. What is lost there for another reason than that its reader went away, on a full disk, is told once and
/// remembered ([`lost`]): whoever saves the output must not take it for complete.
pub struct Output;

static LOST: AtomicBool = AtomicBool::new(false);

/// Whether output was lost.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

fn noted<T>(done: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &done
        && error.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        talk(&format!("standard output cannot be written: {error}"));
    }
    done
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stdout().flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mistake_of_many_hosts_is_told_once() {
        let about = |host: &str| Diagnostic::error("machine/scsihw", "no controller").host(host);
        let other = Diagnostic::error("machine/windows", "a Windows guest").host("a");
        let told = together(&[about("a"), other.clone(), about("b"), about("a")]);
        assert_eq!(told, [about("a, b"), other]);
        let many: Vec<Diagnostic> = (0..8).map(|number| about(&format!("h{number}"))).collect();
        assert_eq!(
            together(&many)[0].host.as_deref(),
            Some("h0, h1, h2, h3, h4, h5 and 2 more")
        );
        let none = Diagnostic::error("cli/no-vms", "no VMs");
        assert_eq!(together(&[none.clone(), none.clone()]), [none]);
    }
}
