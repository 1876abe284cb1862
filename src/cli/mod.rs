//! The command line: one file a verb.
//!
//! Every verb gets what it needs from `prepare`, says what it has to say through [`crate::ui`], and returns the process's
//! exit code.

mod adopt;
mod again;
mod args;
mod completions;
mod confirm;
mod demo;
mod doors;
mod embedded;
mod explain;
mod forget;
mod history;
mod inventory;
mod lint;
mod logging;
mod one;
mod password;
mod prepare;
mod provision;
mod remove;
mod render;
mod run;
mod say;
mod simulator;
mod status;
mod unlock;

use std::process::ExitCode;

use clap::Parser as _;

use crate::diagnose::{Diagnostic, Exit};
use crate::settings::LogFormat;
use args::{Cli, Verb};

/// Why a verb ended early: everything that is to be told.
pub type Problems = Vec<Diagnostic>;

/// The whole command line, for the man page and the documentation's tests.
pub fn command() -> clap::Command {
    use clap::CommandFactory as _;
    Cli::command()
}

/// Parses the arguments, runs the verb and returns its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output with code 0, everything else to standard error with code 2.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return ExitCode::from(code.code());
        }
    };
    logging::start(cli.global.verbose, cli.global.log_format.unwrap_or(LogFormat::Text));
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let problem = Diagnostic::error("cli/runtime", format!("the runtime cannot be started: {error}"))
                .exit(Exit::HostFailed);
            return ExitCode::from(say::problems(&[problem]).code());
        }
    };
    let exit = runtime.block_on(dispatch(&cli));
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    let exit = match exit {
        Exit::Done if say::lost() => Exit::HostFailed,
        exit => exit,
    };
    ExitCode::from(exit.code())
}

async fn dispatch(cli: &Cli) -> Exit {
    let done = match &cli.verb {
        Verb::Provision(args) => provision::run(&cli.global, args).await,
        Verb::Remove(args) => remove::run(&cli.global, args).await,
        Verb::Adopt(args) => adopt::run(&cli.global, args).await,
        Verb::Forget(args) => forget::run(&cli.global, args).await,
        Verb::History(args) => history::run(&cli.global, args),
        Verb::Status(args) => status::run(&cli.global, args).await,
        Verb::Inventory(args) => inventory::run(&cli.global, args),
        Verb::Explain(args) => explain::run(&cli.global, args),
        Verb::Lint(args) => lint::run(&cli.global, args),
        Verb::Render(args) => render::run(&cli.global, args).await,
        Verb::Unlock(args) => unlock::run(&cli.global, args).await,
        Verb::Demo(args) => demo::run(&cli.global, args).await,
        Verb::Simulator(args) => simulator::run(args).await,
        Verb::Completions(args) => completions::run(args),
    };
    done.unwrap_or_else(|problems| say::problems(&problems))
}
