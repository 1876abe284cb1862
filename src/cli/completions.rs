//! `completions`: what a shell needs to complete arguments.

use super::args::Completions;
use super::{Problems, command, say};
use crate::diagnose::Exit;

/// Prints the completions.
pub fn run(args: &Completions) -> Result<Exit, Problems> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "vmwright", &mut text);
    say::data(&String::from_utf8_lossy(&text));
    Ok(Exit::Done)
}
