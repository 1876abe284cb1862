//! The lookup `pipe`: what a command prints. Only where `--allow-pipe-lookup` allows it.
//!
//! ```text
//! allowed? --> no secret in the template so far? --> sh -c COMMAND in the working directory --> standard output
//! ```
//!
//! An inventory is data that one may have got from elsewhere, so it runs nothing unless its user says so. The command is a
//! command of the shell, as in Ansible, and everyone on the machine sees its words while it runs: one that holds a secret
//! is refused. Failures: not allowed, a secret, another exit code than 0, the time limit.

use std::process::Command;
use std::time::Duration;

use minijinja::{Error, ErrorKind};

use super::filters::wrong;
use super::lookup::REFUSED;
use super::script::{self, Failure};
use super::template::current;

/// How long a command may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What the command prints, without blanks at its end.
pub(crate) fn pipe(command: &str) -> Result<String, Error> {
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let core = &run.session.core;
    let refused = |why: &str| Error::new(ErrorKind::EvalBlock, format!("{REFUSED}{why}"));
    if !core.allow_pipe {
        return Err(refused(
            "the lookup `pipe` runs a command, which --allow-pipe-lookup has to allow",
        ));
    }
    if run.is_secret() {
        return Err(refused(
            "the lookup `pipe` would show a secret to everyone who lists processes: let the command read it itself",
        ));
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(&core.working_dir);
    shell.env_clear().envs(&core.env);
    let output = script::run(shell, TIME_LIMIT).map_err(|failure| {
        let said = match &failure {
            Failure::Exit(_, said) if !said.trim().is_empty() => {
                format!(" and said: {}", said.trim().lines().last().unwrap_or_default())
            }
            _ => String::new(),
        };
        wrong(format!("pipe: the command `{command}` gave nothing: {failure}{said}"))
    })?;
    let text = String::from_utf8(output.stdout).map_err(|_| wrong("pipe: the output is not UTF-8"))?;
    Ok(text.trim_end().to_owned())
}
