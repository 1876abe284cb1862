//! The lookup `password`: a password from a file, which is made with a random one where it is missing.
//!
//! ```text
//! "FILE length=20 chars=ascii_letters,digits encrypt=sha512_crypt seed=.." --> the file's password
//!     no file --> a new password --(written, 0600, unless nothing may be written)--> the password
//!     /dev/null --> a new password each time
//! ```
//!
//! The result is secret. Where nothing may be written (`--plan` and every verb but `provision`), a missing file's password
//! is made up, the same for the whole run, and forgotten. Of two runs that make one file at once, the first wins and both
//! get its password. Failures: options that do not exist, a file that can be neither read nor made, no random bytes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use minijinja::Error;
use minijinja::value::{Kwargs, Value as Jinja};

use super::filters::{display, wrong};
use super::random::Random;
use super::template::current;
use super::{Core, crypt};

const MAX_LENGTH: usize = 4096;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    path: String,
    length: usize,
    chars: Vec<String>,
    encrypt: Option<String>,
    seed: Option<String>,
}

/// What a password file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    password: String,
    salt: Option<String>,
}

/// The password of one term.
pub(crate) fn password(term: &str, kwargs: &Kwargs) -> Result<String, Error> {
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let request = parse(term, kwargs)?;
    run.touch_secret();
    let core = &run.session.core;
    let stored = stored(&request, core)?;
    let Some(encrypt) = &request.encrypt else {
        return Ok(stored.password);
    };
    let scheme = scheme(encrypt)?;
    let salt = match stored.salt {
        Some(salt) => salt,
        None => crypt::salt().map_err(wrong)?,
    };
    crypt::hash(scheme, stored.password.as_bytes(), &salt, None).map_err(|why| wrong(format!("password: {why}")))
}

fn scheme(encrypt: &str) -> Result<crypt::Scheme, Error> {
    crypt::Scheme::of(encrypt).ok_or_else(|| {
        wrong(format!(
            "password: encrypt=`{encrypt}` is not supported: sha512_crypt and sha256_crypt are"
        ))
    })
}

/// Splits `FILE key=value ..`; a blank in the file's name is none that an option follows.
fn parse(term: &str, kwargs: &Kwargs) -> Result<Request, Error> {
    const OPTIONS: [&str; 4] = ["length", "chars", "encrypt", "seed"];
    let mut words = term.split(' ');
    let mut path = words.next().unwrap_or_default().to_owned();
    let mut options: Vec<(String, String)> = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => options.push((key.to_owned(), value.to_owned())),
            None if options.is_empty() => {
                path.push(' ');
                path.push_str(word);
            }
            None if word.is_empty() => {}
            None => return Err(wrong(format!("password: `{word}` is no option: write key=value"))),
        }
    }
    if let Some((key, _)) = options.iter().find(|(key, _)| !OPTIONS.contains(&key.as_str())) {
        return Err(wrong(format!("password: there is no option `{key}`")));
    }
    let named = |name: &str| {
        options
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
    };
    let option = |name: &str| -> Result<Option<String>, Error> {
        match named(name) {
            Some(value) => Ok(Some(value)),
            None => kwargs
                .get::<Option<Jinja>>(name)?
                .filter(|value| !value.is_none())
                .map(|value| display(&value))
                .transpose(),
        }
    };
    let length = option("length")?.map_or(Ok(20), |length| length.parse());
    let length = length
        .ok()
        .filter(|length| (1..=MAX_LENGTH).contains(length))
        .ok_or_else(|| wrong(format!("password: the length is a number from 1 to {MAX_LENGTH}")))?;
    let chars = match (named("chars"), kwargs.get::<Option<Jinja>>("chars")?) {
        (Some(chars), _) => split_chars(&chars),
        (None, Some(list)) if list.as_str().is_none() && !list.is_none() => {
            let items = list.try_iter()?.checked();
            items.map(|item| display(&item?)).collect::<Result<_, _>>()?
        }
        (None, Some(text)) if !text.is_none() => split_chars(&display(&text)?),
        _ => vec!["ascii_letters".to_owned(), "digits".to_owned(), ".,:-_".to_owned()],
    };
    Ok(Request {
        path,
        length,
        chars,
        encrypt: option("encrypt")?,
        seed: option("seed")?,
    })
}

/// Names and characters between commas; two commas stand for the comma itself.
fn split_chars(text: &str) -> Vec<String> {
    let comma = text.contains(",,").then(|| ",".to_owned());
    let rest = text.replace(",,", ",");
    let parts = rest.split(',').filter(|part| !part.is_empty()).map(str::to_owned);
    parts.chain(comma).collect()
}

/// The characters that names and characters stand for, in the order of Python's module `string`.
fn candidates(chars: &[String]) -> Vec<char> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const DIGITS: &str = "0123456789";
    const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    let mut out = String::new();
    for part in chars {
        match part.as_str() {
            "ascii_letters" => out.extend([LOWER, UPPER]),
            "ascii_lowercase" => out.push_str(LOWER),
            "ascii_uppercase" => out.push_str(UPPER),
            "digits" => out.push_str(DIGITS),
            "hexdigits" => out.extend([DIGITS, "abcdefABCDEF"]),
            "octdigits" => out.push_str("01234567"),
            "punctuation" => out.push_str(PUNCTUATION),
            "whitespace" => out.push_str(" \t\n\r\u{b}\u{c}"),
            "printable" => out.extend([DIGITS, LOWER, UPPER, PUNCTUATION, " \t\n\r\u{b}\u{c}"]),
            other => out.push_str(other),
        }
    }
    out.chars().filter(|c| !matches!(c, '"' | '\'')).collect()
}

fn make(request: &Request) -> Result<Stored, Error> {
    let chars = candidates(&request.chars);
    if chars.is_empty() {
        return Err(wrong("password: there are no characters to choose from"));
    }
    let no_bytes = |error: std::io::Error| wrong(format!("password: there are no random bytes: {error}"));
    let mut random = match &request.seed {
        Some(seed) => Random::of_text(seed),
        None => Random::system().map_err(no_bytes)?,
    };
    let mut password = String::new();
    for _ in 0..request.length {
        let at = random.below(chars.len() as u64).map_err(no_bytes)?;
        password.extend(usize::try_from(at).ok().and_then(|at| chars.get(at)));
    }
    Ok(Stored {
        password,
        salt: request
            .encrypt
            .as_ref()
            .map(|_| crypt::salt())
            .transpose()
            .map_err(wrong)?,
    })
}

fn stored(request: &Request, core: &Core) -> Result<Stored, Error> {
    if let Some(encrypt) = &request.encrypt {
        scheme(encrypt)?;
    }
    if request.path == "/dev/null" {
        return make(request);
    }
    let path = core.working_dir.join(&request.path);
    let shown = &request.path;
    let mut known = core.passwords.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match read(&path).map_err(|why| wrong(format!("password: {shown} cannot be read: {why}")))? {
        Some(found) => found,
        None if !core.may_write => match known.get(&path) {
            Some(made_up) => made_up.clone(),
            None => make(request)?,
        },
        None => {
            let made = make(request)?;
            write(&path, &made).map_err(|why| wrong(format!("password: {shown} cannot be made: {why}")))?
        }
    };
    // A hash needs a salt that stays.
    let mut found = found;
    if request.encrypt.is_some() && found.salt.is_none() {
        found.salt = match known.get(&path).and_then(|known| known.salt.clone()) {
            Some(salt) => Some(salt),
            None => Some(crypt::salt().map_err(wrong)?),
        };
        if core.may_write {
            replace(&path, &found).map_err(|why| wrong(format!("password: {shown} cannot be written: {why}")))?;
        }
    }
    known.insert(path, found.clone());
    Ok(found)
}

fn read(path: &Path) -> std::io::Result<Option<Stored>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = text.trim_end();
    Ok(Some(match text.rsplit_once(" salt=") {
        Some((password, salt)) => Stored {
            password: password.to_owned(),
            salt: Some(salt.split(' ').next().unwrap_or_default().to_owned()),
        },
        None => Stored {
            password: text.to_owned(),
            salt: None,
        },
    }))
}

/// A file of its own beside the path, with the content, for its owner only.
fn beside(path: &Path, stored: &Stored) -> std::io::Result<PathBuf> {
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", uuid::Uuid::new_v4().simple()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let salt = stored
        .salt
        .as_ref()
        .map(|salt| format!(" salt={salt}"))
        .unwrap_or_default();
    let written = file
        .write_all(format!("{}{salt}\n", stored.password).as_bytes())
        .and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok(new)
}

/// Makes the file; if another run was faster, its password is taken.
fn write(path: &Path, stored: &Stored) -> std::io::Result<Stored> {
    let new = beside(path, stored)?;
    let linked = fs::hard_link(&new, path);
    let _ = fs::remove_file(&new);
    match linked {
        Ok(()) => Ok(stored.clone()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => read(path)?.ok_or(error),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, stored: &Stored) -> std::io::Result<()> {
    let new = beside(path, stored)?;
    fs::rename(&new, path).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_taken_apart() {
        let none = Kwargs::from_iter(Vec::<(String, Jinja)>::new());
        let request = parse("dir/my file length=8 chars=digits,,,ab seed=s", &none).unwrap();
        assert_eq!((request.path.as_str(), request.length), ("dir/my file", 8));
        assert_eq!(request.chars, ["digits", "ab", ","]);
        assert_eq!(request.seed.as_deref(), Some("s"));
        assert!(parse("f nope=1", &none).is_err());
        assert!(parse("f length=0", &none).is_err());
        assert_eq!(candidates(&["octdigits".into(), "'x\"".into()]).len(), 9);
    }

    #[test]
    fn of_two_that_make_a_file_the_first_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let stored = |password: &str| Stored {
            password: password.into(),
            salt: Some("s".into()),
        };
        assert_eq!(write(&path, &stored("one")).unwrap(), stored("one"));
        assert_eq!(write(&path, &stored("two")).unwrap(), stored("one"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one salt=s\n");
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
