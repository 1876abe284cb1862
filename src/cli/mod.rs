//! The command line: one file a verb.

/// Parses the arguments, runs the verb and returns its exit code.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
