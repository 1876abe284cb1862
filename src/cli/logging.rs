//! Logs to standard error through tracing, with secrets masked.

use std::io::{self, Write};
use std::sync::{OnceLock, PoisonError, RwLock};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::secret::Redactor;
use crate::settings::LogFormat;

/// What masks the log; it grows when the inventory's secrets are known.
fn redactor() -> &'static RwLock<Redactor> {
    static REDACTOR: OnceLock<RwLock<Redactor>> = OnceLock::new();
    REDACTOR.get_or_init(RwLock::default)
}

/// Masks these secrets in everything that is logged from now on.
pub fn mask(secrets: &Redactor) {
    redactor()
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .clone_from(secrets);
}

/// What masks the secrets that are known by now.
pub fn mask_of_now() -> Redactor {
    redactor().read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts logging: warnings by default, `-v` what is done, `-vv` every call of ours, `-vvv` everything.
pub fn start(verbose: u8, format: LogFormat) {
    let filter = match verbose {
        0 => "warn,openssh=error,russh=error",
        1 => "warn,vmwright=info,russh=error",
        2 => "info,vmwright=debug,russh=warn",
        _ => "debug",
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(Masked)
        .with_target(verbose > 1);
    // A second start (tests in one process) keeps the first.
    let _ = match format {
        LogFormat::Text => subscriber.with_ansi(false).try_init(),
        LogFormat::Json => subscriber.json().try_init(),
    };
}

/// Standard error behind the redactor.
struct Masked;

impl<'w> MakeWriter<'w> for Masked {
    type Writer = Line;

    fn make_writer(&'w self) -> Line {
        Line(Vec::new())
    }
}

/// One log line, written whole.
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        let masked = redactor()
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .mask(&text)
            .into_owned();
        // Standard error may be closed; nothing is to be done about that.
        let _ = io::stderr().lock().write_all(masked.as_bytes());
    }
}
