//! Confirmation: the VM's own name, one for each VM, given with `--confirm` or typed at the prompt. Anything else means no.

use std::io::{BufRead, IsTerminal, Write};

use super::Problems;
use super::again::Again;
use crate::diagnose::{Diagnostic, Exit};

/// What is to be confirmed.
pub struct Question<'q> {
    /// The verb, and what it does: `removed`.
    pub done: &'q str,
    /// The VMs' names (`vms_name`).
    pub names: &'q [String],
    /// What `--confirm` gave.
    pub given: &'q [String],
    /// Why it matters.
    pub rule: &'q str,
    /// The command, up to `--confirm`.
    pub command: Again,
}

/// Whether every VM was confirmed by its own name. At a terminal the names that were not given are asked for.
pub fn confirm(question: &Question<'_>) -> Result<(), Problems> {
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if asks {
        decide(question, Some(&mut std::io::stdin().lock()), &mut std::io::stderr())
    } else {
        decide(question, None::<&mut std::io::Empty>, &mut std::io::sink())
    }
}

fn decide(
    question: &Question<'_>,
    mut answers: Option<&mut impl BufRead>,
    out: &mut impl Write,
) -> Result<(), Problems> {
    let mut given: Vec<String> = question.given.to_vec();
    if let Some(stray) = given.iter().find(|name| !question.names.contains(name)) {
        return Err(refused(
            question,
            &format!("{stray:?} is the name of no VM that was selected"),
        ));
    }
    for name in question.names {
        if given.contains(name) {
            continue;
        }
        let Some(answers) = answers.as_mut() else {
            return Err(refused(question, &format!("the name {name} was not given")));
        };
        // A closed terminal is an answer too: no.
        let _ = write!(out, "{name} will be {}. Type its name to confirm: ", question.done).and_then(|()| out.flush());
        let mut answer = String::new();
        let typed = answers.read_line(&mut answer).is_ok_and(|bytes| bytes > 0);
        let answer = answer.trim_end_matches(['\r', '\n']);
        if !typed || answer != name {
            return Err(refused(question, &format!("{answer:?} is not {name}")));
        }
        given.push(name.clone());
    }
    Ok(())
}

fn refused(question: &Question<'_>, why: &str) -> Problems {
    let names = question.names.iter();
    let command = names.fold(question.command.clone(), |command, name| {
        command.with("--confirm", name)
    });
    vec![
        Diagnostic::error(
            "cli/not-confirmed",
            format!("{} was not {}: {why}", question.names.join(", "), question.done),
        )
        .rule(question.rule.to_owned())
        .help(format!("if it is meant: {}", command.line()))
        .exit(Exit::Refused),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Verb};

    fn verdict(names: &[&str], given: &[&str], typed: Option<&str>) -> bool {
        let own = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
        let (names, given) = (own(names), own(given));
        let cli = Cli::try_parse_from(["vmwright", "forget", "web-0", "-i", "hosts"]).unwrap();
        let Verb::Forget(args) = &cli.verb else { panic!() };
        let question = Question {
            done: "removed",
            names: &names,
            given: &given,
            rule: "it does not come back",
            command: Again::one("forget", &args.host, &cli.global, &args.sources),
        };
        let mut input = typed.map(|text| std::io::Cursor::new(text.as_bytes().to_vec()));
        match decide(&question, input.as_mut(), &mut std::io::sink()) {
            Ok(()) => true,
            Err(problems) => {
                assert_eq!(
                    (problems[0].code, problems[0].exit),
                    ("cli/not-confirmed", Exit::Refused)
                );
                false
            }
        }
    }

    #[test]
    fn only_the_exact_name_of_each_vm_confirms() {
        assert!(verdict(&["web-0"], &["web-0"], None));
        assert!(verdict(&["web-0", "web-1"], &["web-1", "web-0"], None));
        assert!(verdict(&["web-0"], &[], Some("web-0\n")));
        assert!(verdict(&["web-0", "web-1"], &["web-0"], Some("web-1\r\n")));
        for typed in [
            "", "\n", "y\n", "yes\n", "YES\n", "web-0 \n", "Web-0\n", "web-\n", "*\n",
        ] {
            assert!(!verdict(&["web-0"], &[], Some(typed)), "{typed:?}");
        }
        assert!(!verdict(&["web-0"], &[], None), "nobody to ask");
        for given in ["", "y", "yes", "true", "web-0,web-1", "all", "web-1"] {
            assert!(!verdict(&["web-0"], &[given], Some("web-0\n")), "{given:?}");
        }
        assert!(!verdict(&["web-0", "web-1"], &["web-0"], Some("web-0\n")));
        assert!(
            !verdict(&["web-0"], &["web-0", "web-1"], None),
            "a name too many is a doubt"
        );
    }
}
