//! Methods of values that templates call as in Python: those that the engine does not bring.
//!
//! ```text
//! 'a'.zfill(3) --(here, else the engine's own)--> '00a'
//! ```
//!
//! Methods that would change a value (`append`, `update`) are told apart: values of templates do not change.

use minijinja::value::{Value as Jinja, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::filters::wrong;

/// Most characters that padding adds.
const MAX_WIDTH: usize = 10_000;

/// Calls a method.
pub(crate) fn call(state: &mut State<'_, '_>, value: &Jinja, method: &str, args: &[Jinja]) -> Result<Jinja, Error> {
    let found = match value.kind() {
        ValueKind::String => value.as_str().and_then(|text| text_method(text, method, args)),
        ValueKind::Seq => list_method(value, method, args),
        ValueKind::Map => map_method(value, method),
        ValueKind::Number => number_method(value, method),
        _ => None,
    };
    match found {
        Some(found) => found,
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn text_arg<'a>(args: &'a [Jinja], position: usize, method: &str) -> Result<&'a str, Error> {
    args.get(position)
        .and_then(Jinja::as_str)
        .ok_or_else(|| wrong(format!("{method}: argument {} is text", position + 1)))
}

fn number_arg(args: &[Jinja], position: usize, default: Option<i64>, method: &str) -> Result<i64, Error> {
    match args.get(position) {
        Some(value) => value
            .as_i64()
            .ok_or_else(|| wrong(format!("{method}: argument {} is a number", position + 1))),
        None => default.ok_or_else(|| wrong(format!("{method} needs a number"))),
    }
}

fn pad(text: &str, method: &str, args: &[Jinja]) -> Result<Jinja, Error> {
    let width = usize::try_from(number_arg(args, 0, None, method)?)
        .unwrap_or(0)
        .min(MAX_WIDTH);
    let fill = match args.get(1) {
        Some(_) => text_arg(args, 1, method)?,
        None if method == "zfill" => "0",
        None => " ",
    };
    let missing = width.saturating_sub(text.chars().count());
    Ok(Jinja::from(match method {
        "ljust" => format!("{text}{}", fill.repeat(missing)),
        "rjust" => format!("{}{text}", fill.repeat(missing)),
        "zfill" => {
            let (sign, digits) = match text.chars().next() {
                Some(sign @ ('+' | '-')) => (sign.to_string(), &text[1..]),
                _ => (String::new(), text),
            };
            format!("{sign}{}{digits}", fill.repeat(missing))
        }
        _ => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
        }
    }))
}

fn rsplit(text: &str, args: &[Jinja]) -> Result<Jinja, Error> {
    let most = number_arg(args, 1, Some(-1), "rsplit")?;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let mut parts: Vec<&str> = match args.first().filter(|separator| !separator.is_none()) {
        Some(_) => text.rsplitn(most + 1, text_arg(args, 0, "rsplit")?).collect(),
        None if most >= text.len() => text.split_whitespace().rev().collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() && parts.len() < most {
                let at = rest
                    .rfind(char::is_whitespace)
                    .map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
                parts.push(&rest[at..]);
                rest = rest[..at].trim_end();
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    parts.reverse();
    Ok(Jinja::from(parts.into_iter().map(str::to_owned).collect::<Vec<_>>()))
}

/// Letters of another case than their neighbours ask for.
fn is_title(text: &str) -> bool {
    let mut before = false;
    let mut any = false;
    for c in text.chars() {
        if c.is_uppercase() && before || c.is_lowercase() && !before {
            return false;
        }
        before = c.is_alphabetic();
        any |= before;
    }
    any
}

fn text_method(text: &str, method: &str, args: &[Jinja]) -> Option<Result<Jinja, Error>> {
    let three = |found: Option<(&str, &str)>, separator: &str, last: bool| {
        Jinja::from(match (found, last) {
            (Some((before, after)), _) => vec![before.to_owned(), separator.to_owned(), after.to_owned()],
            (None, false) => vec![text.to_owned(), String::new(), String::new()],
            (None, true) => vec![String::new(), String::new(), text.to_owned()],
        })
    };
    Some(match method {
        "ljust" | "rjust" | "zfill" | "center" => pad(text, method, args),
        "rsplit" => rsplit(text, args),
        "partition" => text_arg(args, 0, method).map(|at| three(text.split_once(at), at, false)),
        "rpartition" => text_arg(args, 0, method).map(|at| three(text.rsplit_once(at), at, true)),
        "swapcase" => Ok(Jinja::from(
            text.chars()
                .flat_map(|c| {
                    if c.is_uppercase() {
                        c.to_lowercase().collect::<Vec<_>>()
                    } else {
                        c.to_uppercase().collect::<Vec<_>>()
                    }
                })
                .collect::<String>(),
        )),
        "casefold" => Ok(Jinja::from(text.to_lowercase().replace('ß', "ss"))),
        "removeprefix" => text_arg(args, 0, method).map(|part| Jinja::from(text.strip_prefix(part).unwrap_or(text))),
        "removesuffix" => text_arg(args, 0, method).map(|part| Jinja::from(text.strip_suffix(part).unwrap_or(text))),
        "istitle" => Ok(Jinja::from(is_title(text))),
        "isdecimal" => Ok(Jinja::from(
            !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()),
        )),
        "expandtabs" => number_arg(args, 0, Some(8), method).map(|width| {
            let width = usize::try_from(width).unwrap_or(0).min(MAX_WIDTH);
            let (mut out, mut column) = (String::new(), 0);
            for c in text.chars() {
                match c {
                    '\t' if width > 0 => {
                        let blanks = width - column % width;
                        out.extend(std::iter::repeat_n(' ', blanks));
                        column += blanks;
                    }
                    '\t' => {}
                    c => {
                        out.push(c);
                        column = if c == '\n' { 0 } else { column + 1 };
                    }
                }
            }
            Jinja::from(out)
        }),
        _ => return None,
    })
}

fn list_method(value: &Jinja, method: &str, args: &[Jinja]) -> Option<Result<Jinja, Error>> {
    Some(match method {
        "index" => value.try_iter().and_then(|mut items| {
            let wanted = args.first().ok_or_else(|| wrong("index needs a value"))?;
            let at = items.position(|item| item == *wanted);
            at.map(Jinja::from)
                .ok_or_else(|| wrong("index: the value is not in the list"))
        }),
        "copy" => Ok(value.clone()),
        "append" | "extend" | "insert" | "pop" | "remove" | "sort" | "reverse" | "clear" => Err(unchanging(method)),
        _ => return None,
    })
}

fn map_method(value: &Jinja, method: &str) -> Option<Result<Jinja, Error>> {
    Some(match method {
        "copy" if value.get_attr("copy").is_ok_and(|own| own.is_undefined()) => Ok(value.clone()),
        "update" | "pop" | "popitem" | "clear" | "setdefault" => Err(unchanging(method)),
        _ => return None,
    })
}

fn number_method(value: &Jinja, method: &str) -> Option<Result<Jinja, Error>> {
    Some(match method {
        "bit_length" if value.is_integer() => {
            i128::try_from(value.clone()).map(|number| Jinja::from(u128::BITS - number.unsigned_abs().leading_zeros()))
        }
        "is_integer" => f64::try_from(value.clone()).map(|number| Jinja::from(number.fract() == 0.0)),
        _ => return None,
    })
}

fn unchanging(method: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("`{method}` would change a value, and values of templates do not change: use + or combine"),
    )
}
