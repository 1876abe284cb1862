//! Durations as people write them: `30s`, `5m`, `1h30m`.

use std::time::Duration;

/// The units, the largest first, in milliseconds.
const UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// A text that is no duration, and the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration: {rule}")]
pub struct InvalidDuration {
    /// The text.
    pub text: String,
    /// The rule.
    pub rule: &'static str,
}

/// Reads a duration: whole numbers, each with a unit (`d`, `h`, `m`, `s`, `ms`), the larger unit first; or a plain `0`.
///
/// # Errors
/// Anything else, with the rule that it breaks. A number without a unit is an error: nobody can tell what was meant.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let err = |rule| InvalidDuration {
        text: text.to_owned(),
        rule,
    };
    let mut rest = text.trim();
    match rest {
        "0" => return Ok(Duration::ZERO),
        "" => return Err(err("it is empty; write for example 30s, 5m or 1h30m")),
        _ => {}
    }
    let mut total: u64 = 0;
    let mut larger = UNITS;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        if number.is_empty() {
            return Err(err("write whole numbers with units, for example 30s, 5m or 1h30m"));
        }
        if unit.is_empty() {
            return Err(err("a number needs a unit: d, h, m, s or ms"));
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(err("the units are d, h, m, s and ms"));
        }
        let Some(at) = larger.iter().position(|(name, _)| *name == unit) else {
            return Err(err("each unit stands once, the larger before the smaller"));
        };
        let milliseconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(larger[at].1));
        total = milliseconds
            .and_then(|ms| total.checked_add(ms))
            .ok_or_else(|| err("it is too long"))?;
        larger = &larger[at + 1..];
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration as [`parse`] reads it; what is below a millisecond is left out.
pub fn show(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, size) in UNITS {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// [`show`] in whole seconds, for ages.
pub fn show_seconds(duration: Duration) -> String {
    show(Duration::from_secs(duration.as_secs()))
}

/// The longest prefix of such characters, and the rest.
fn split(text: &str, is: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_durations_like_this() {
        let secs = |text: &str| parse(text).unwrap().as_secs_f64();
        assert_eq!(secs("30s"), 30.0);
        assert_eq!(secs("5m"), 300.0);
        assert_eq!(secs("1h30m"), 5400.0);
        assert_eq!(secs("2d1s"), 172_801.0);
        assert_eq!(secs("1s500ms"), 1.5);
        assert_eq!(secs(" 0 "), 0.0);
    }

    #[test]
    fn anything_else_tells_its_rule() {
        let rule = |text: &str| parse(text).unwrap_err().rule;
        assert!(rule("").starts_with("it is empty"));
        assert!(rule("30").contains("needs a unit"));
        assert!(rule("1h30").contains("needs a unit"));
        assert!(rule("5 m").contains("needs a unit"));
        assert!(rule("5w").contains("the units are"));
        assert!(rule("5M").contains("the units are"));
        assert!(rule("30m1h").contains("the larger before the smaller"));
        assert!(rule("1m1m").contains("each unit stands once"));
        assert!(rule("-5s").contains("whole numbers"));
        assert!(rule("1.5h").contains("needs a unit"));
        assert!(rule("99999999999999999999s").contains("too long"));
        assert!(rule("18446744073709551615d").contains("too long"));
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for text in ["30s", "5m", "1h30m", "2d3h4m5s6ms", "0s"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
        assert_eq!(show_seconds(Duration::from_millis(61_700)), "1m1s");
        assert_eq!(show_seconds(Duration::from_millis(300)), "0s");
    }
}
