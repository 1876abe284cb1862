//! Asking for a password at the terminal, without showing it.

use crate::secret::Secret;

/// Asks at the terminal of the process, whatever standard input is.
///
/// # Errors
///
/// Why nobody can be asked.
pub fn ask(text: &str) -> Result<Secret, String> {
    rpassword::prompt_password(text)
        .map(Secret::new)
        .map_err(|error| format!("there is no terminal ({error})"))
}
