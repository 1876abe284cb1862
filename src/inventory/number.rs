//! Numbers as Python writes them in its source: `1_000`, `0x1F`, `.5`, `1e3`, `2j`.

use super::value::{Data, float_text};

/// Whether Python takes two keys for equal.
pub(crate) fn equal(a: &Data, b: &Data) -> bool {
    let number = |data: &Data| match data {
        Data::Bool(value) => Some(f64::from(u8::from(*value))),
        other => real_part(other),
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// A number while it is read.
pub(crate) enum Number {
    Real(Data),
    Complex(f64, f64),
}

impl Number {
    pub(crate) fn signed(self, negative: bool) -> Self {
        match self {
            Self::Real(Data::Int(value)) if negative => Self::Real(Data::Int(-value)),
            Self::Real(Data::Float(value)) if negative => Self::Real(Data::Float(-value)),
            Self::Complex(real, imaginary) if negative => Self::Complex(-real, -imaginary),
            other => other,
        }
    }

    /// A complex number becomes the text that Python makes of it.
    pub(crate) fn data(self) -> Data {
        let plain = |value: f64| {
            let text = float_text(value);
            text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
        };
        match self {
            Self::Real(data) => data,
            Self::Complex(real, imaginary) if real == 0.0 && real.is_sign_positive() => {
                Data::Str(format!("{}j", plain(imaginary)))
            }
            Self::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() {
                    ""
                } else {
                    "+"
                };
                Data::Str(format!("({}{sign}{}j)", plain(real), plain(imaginary)))
            }
        }
    }
}

/// A number as a float.
pub(crate) fn real_part(data: &Data) -> Option<f64> {
    match data {
        Data::Int(value) => Some(*value as f64),
        Data::Float(value) => Some(*value),
        _ => None,
    }
}

/// The digits before a `j`, which may begin with zeros.
pub(crate) fn imaginary_part(token: &str) -> Option<f64> {
    let clean = without_underscores(&token.to_ascii_lowercase())?;
    let form = clean
        .bytes()
        .all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'+' | b'-'));
    if form { clean.parse().ok() } else { None }
}

/// How long the number is that a text begins with; it may turn out to be none.
pub(crate) fn number_length(text: &str) -> usize {
    let mut end = 0;
    let bytes = text.as_bytes();
    let radix = bytes.len() > 1 && bytes[0] == b'0' && matches!(bytes[1].to_ascii_lowercase(), b'x' | b'o' | b'b');
    while let Some(c) = bytes.get(end) {
        let exponent_sign = matches!(c, b'+' | b'-') && end > 0 && !radix && matches!(bytes[end - 1], b'e' | b'E');
        if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.') || exponent_sign {
            end += 1;
        } else {
            break;
        }
    }
    end
}

/// The token without its underscores, which stand between digits only, or behind the prefix of a radix.
fn without_underscores(token: &str) -> Option<String> {
    let bytes = token.as_bytes();
    let radix = bytes.len() > 2 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'o' | b'b');
    let good = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_digit() || radix && c.is_ascii_alphanumeric());
    let stray = |(at, c): (usize, &u8)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        *c == b'_' && !(good(before) && good(bytes.get(at + 1)) && (!radix || at > 1))
    };
    if bytes.iter().enumerate().any(stray) {
        return None;
    }
    Some(token.replace('_', ""))
}

/// The number that a token is.
pub(crate) fn python_number(token: &str) -> Option<Data> {
    let clean = without_underscores(&token.to_ascii_lowercase())?;
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = clean.strip_prefix(prefix) {
            return i128::from_str_radix(digits, radix).ok().map(Data::Int);
        }
    }
    if clean.bytes().all(|c| c.is_ascii_digit()) {
        let leading_zero = clean.len() > 1 && clean.starts_with('0') && clean.bytes().any(|c| c != b'0');
        return if leading_zero {
            None
        } else {
            clean.parse().ok().map(Data::Int)
        };
    }
    let form = clean
        .bytes()
        .all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'+' | b'-'));
    if form {
        clean.parse().ok().map(Data::Float)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_python() {
        for (text, want) in [
            ("1_000", Some(Data::Int(1000))),
            ("1__0", None),
            ("0x_f", Some(Data::Int(15))),
            ("0o8", None),
            ("007", None),
            ("00", Some(Data::Int(0))),
            ("09.5", Some(Data::Float(9.5))),
            ("1e", None),
            ("26_e5", None),
            ("0_x1", None),
            ("0x1_f", Some(Data::Int(31))),
        ] {
            assert_eq!(python_number(text), want, "{text}");
        }
        assert_eq!(number_length("1e-3+2"), 4);
        assert_eq!(imaginary_part("0_049"), Some(49.0));
        assert_eq!(imaginary_part("0o7"), None);
        assert!(equal(&Data::Bool(true), &Data::Float(1.0)));
        assert!(!equal(&Data::Int(1), &Data::Str("1".into())));
        assert_eq!(Number::Complex(-0.0, -1.0).data(), Data::Str("(-0-1j)".into()));
    }
}
