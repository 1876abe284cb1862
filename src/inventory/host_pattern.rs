//! The names of hosts in inventories: `web01`, `web[01:10:2].example.com`, `db[a:f]`, `10.0.0.5:2222`, `[::1]:22`.
//!
//! By the rules of ansible-core (`parsing/utils/addresses.py`, `plugins/inventory/__init__.py`): a text that is no
//! address with ranges is taken as it is, without a port.

use std::sync::LazyLock;

use regex::Regex;

use crate::diagnose::{Diagnostic, Place};

/// How many hosts one name with ranges may stand for.
pub const MAX_HOSTS: usize = 100_000;

/// Host names and the port that was written behind them.
///
/// # Errors
///
/// What is wrong with a range, one sentence.
pub fn expand(text: &str) -> Result<(Vec<String>, Option<u16>), String> {
    let (name, port) = split_port(text)?;
    let mut names = Vec::new();
    expand_ranges(name, &mut names)?;
    Ok((names, port))
}

/// What is told of a name that [`expand`] refuses.
pub(crate) fn fault(name: &str, why: &str, place: &Place) -> Diagnostic {
    Diagnostic::error("inventory/host-name", format!("`{name}` is not a host: {why}"))
        .at(place.clone())
        .rule("a host is a name or address, perhaps with ranges such as web[01:10] and a :port")
        .help("correct the name or the range")
}

/// Splits the port off, if the whole is an address with a port.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (mut host, mut port) = (text, None);
    // Of `[web:22]:33` the inner port counts.
    for parse in [bracketed, trailing_port] {
        if let Some((inner, digits)) = parse(host) {
            (host, port) = (inner, Some(digits));
        }
    }
    if !is_address(host) {
        return Ok((text, None));
    }
    match port {
        None => Ok((host, None)),
        Some(port) => match port.parse() {
            Ok(port) => Ok((host, Some(port))),
            Err(_) => Err(format!("the port {port} is not between 0 and 65535")),
        },
    }
}

/// Whether the text, without a port, is a host name or an address; ranges count as one character.
pub fn is_address(text: &str) -> bool {
    is_hostname(text) || is_ipv6(text)
}

/// `[host]:port`.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.strip_prefix('[')?.rsplit_once("]:")?;
    (!host.is_empty() && !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit())).then_some((host, port))
}

/// `host:port`, where `host` holds no colon outside ranges.
fn trailing_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    if port.is_empty() || !port.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let mut inside = false;
    for c in host.chars() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            (':' | ']', false) => return None,
            _ => {}
        }
    }
    (!inside).then_some((host, port))
}

fn is_hostname(text: &str) -> bool {
    let mut rest = text;
    let mut label = 0usize;
    let mut last = '.';
    while let Some(c) = rest.chars().next() {
        if c == '[' {
            let Some((range, after)) = rest[1..].split_once(']') else {
                return false;
            };
            if !is_range(range) {
                return false;
            }
            rest = after;
            last = 'x';
            label += 1;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '.' => {
                if label == 0 || matches!(last, '-' | '_') {
                    return false;
                }
                label = 0;
            }
            '-' if label == 0 => return false,
            '-' | '_' => label += 1,
            _ if c.is_alphanumeric() => label += 1,
            _ => return false,
        }
        last = c;
    }
    label > 0 && !matches!(last, '-' | '_')
}

/// The inside of a range that may stand in a name: `a:f`, `01:10`, `1:9:2`.
fn is_range(range: &str) -> bool {
    let parts: Vec<&str> = range.split(':').collect();
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let letter = |part: &str| part.len() == 1 && part.as_bytes()[0].is_ascii_alphabetic();
    match parts.as_slice() {
        [from, to] | [from, to, _] if !(letter(from) && letter(to) || digits(from) && digits(to)) => false,
        [_, _] => true,
        [_, _, step] => digits(step),
        _ => false,
    }
}

/// An IPv6 address, where a part may be a range of hexadecimal numbers.
static IPV6: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"(?:[0-9a-f]{1,4}|\[[0-9a-f]+:[0-9a-f]+(?::[0-9]+)?\])";
    let mut forms = vec![
        format!("(?:{part}:){{7}}{part}"),
        format!("(?:{part}:){{1,6}}:"),
        format!(":(?::{part}){{1,6}}"),
        format!("{part}?::"),
        format!(r"(?:(?:0:){{6}}|::(?:ffff:)?|(?:0:){{5}}ffff:)(?:{part}\.){{3}}{part}"),
    ];
    forms.extend((1..=6).map(|before| format!("(?:{part}:){{{before}}}(?::{part}){{1,{}}}", 7 - before)));
    Regex::new(&format!("^(?i:{})$", forms.join("|"))).ok()
});

fn is_ipv6(text: &str) -> bool {
    text.contains(':') && IPV6.as_ref().is_some_and(|ipv6| ipv6.is_match(text))
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn expand_ranges(text: &str, out: &mut Vec<String>) -> Result<(), String> {
    let Some((head, rest)) = text.split_once('[') else {
        if out.len() >= MAX_HOSTS {
            return Err(format!("it stands for more than {MAX_HOSTS} hosts"));
        }
        out.push(text.to_owned());
        return Ok(());
    };
    let Some((range, tail)) = rest.split_once(']') else {
        return Err("the `[` of a range has no `]`".to_owned());
    };
    if head.contains([']', '|']) || range.contains('|') || tail.contains('|') {
        return Err("beside a range there may be neither `|` nor a `]` of its own".to_owned());
    }
    let parts: Vec<&str> = range.split(':').collect();
    let (from, to, step) = match parts.as_slice() {
        [from, to] => (*from, *to, "1"),
        [from, to, step] => (*from, *to, *step),
        _ => return Err(format!("the range [{range}] is not begin:end or begin:end:step")),
    };
    let from = if from.is_empty() { "0" } else { from };
    if to.is_empty() {
        return Err(format!("the range [{range}] has no end"));
    }
    let step: usize = step
        .parse()
        .map_err(|_| format!("the step of the range [{range}] is not a number"))?;
    if step == 0 {
        return Err(format!("the step of the range [{range}] is 0"));
    }
    let width = if from.len() > 1 && from.starts_with('0') {
        from.len()
    } else {
        0
    };
    if width > 0 && to.len() != width {
        return Err(format!(
            "the begin and the end of the range [{range}] must be equally long, because the begin has a leading zero"
        ));
    }
    if let (Some(first), Some(last)) = (letter(from), letter(to)) {
        if first > last {
            return Err(format!("the begin of the range [{range}] is after its end"));
        }
        for c in LETTERS[first..=last].chars().step_by(step) {
            expand_ranges(&format!("{head}{c}{tail}"), out)?;
        }
        return Ok(());
    }
    let number = |part: &str| {
        part.parse::<u64>()
            .map_err(|_| format!("`{part}` in the range [{range}] is neither a number nor a letter"))
    };
    let (first, last) = (number(from)?, number(to)?);
    if first > last {
        return Err(format!("the begin of the range [{range}] is after its end"));
    }
    for i in (first..=last).step_by(step) {
        expand_ranges(&format!("{head}{i:0width$}{tail}"), out)?;
    }
    Ok(())
}

fn letter(part: &str) -> Option<usize> {
    // Ansible takes `bc` for `b`: it looks for the text among the letters.
    if part.is_empty() { None } else { LETTERS.find(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text).unwrap().0
    }

    #[test]
    fn ranges_expand_as_in_ansible() {
        assert_eq!(names("web[01:10:4]"), ["web01", "web05", "web09"]);
        assert_eq!(names("w[8:10]"), ["w8", "w9", "w10"]);
        assert_eq!(
            names("d[a:c]-[1:2].x"),
            ["da-1.x", "da-2.x", "db-1.x", "db-2.x", "dc-1.x", "dc-2.x"]
        );
        assert_eq!(names("d[y:B]"), ["dy", "dz", "dA", "dB"]);
        assert_eq!(names("d[:2]"), ["d0", "d1", "d2"]);
    }

    #[test]
    fn ports_are_split_off_addresses_only() {
        assert_eq!(expand("a.b:22").unwrap(), (vec!["a.b".into()], Some(22)));
        assert_eq!(expand("w[1:2]:22").unwrap(), (vec!["w1".into(), "w2".into()], Some(22)));
        assert_eq!(expand("[a:22]:33").unwrap(), (vec!["a".into()], Some(22)));
        assert_eq!(expand("::ffff:1.2.3.4").unwrap(), (vec!["::ffff:1.2.3.4".into()], None));
        assert_eq!(expand("[::1]:22").unwrap(), (vec!["::1".into()], Some(22)));
        assert_eq!(expand("fe80::1").unwrap(), (vec!["fe80::1".into()], None));
        assert_eq!(expand("a b:22").unwrap(), (vec!["a b:22".into()], None));
        assert!(expand("a:99999").is_err());
    }

    #[test]
    fn bad_ranges_are_refused() {
        for text in [
            "a[",
            "a[1:]",
            "a[01:100]",
            "a[1:2:0]",
            "a[1:x]",
            "a[3:1]",
            "a[1]",
            "a[0:999999]",
            "a[é:z]",
            "a]b[1:2]",
            "a|b[1:2]",
        ] {
            assert!(expand(text).is_err(), "{text}");
        }
    }
}
