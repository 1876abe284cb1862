//! Patterns of hosts, as `--limit` takes them.
//!
//! ```text
//! web01  web*  web  ~web\d+     a host, a glob, a group, a regular expression
//! a,b  a:b                      both
//! a,&b                          those of a that are in b as well
//! a,!b                          those of a that are not in b
//! web[0]  web[-1]  web[1:3]     by position, the end included
//! @file                         each line of the file a pattern
//! ```
//!
//! First come the plain patterns, then the `&`, then the `!` (ansible-core `inventory/manager.py`). A pattern that
//! matches nothing is an error here; Ansible warns and goes on.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::groups::{ALL, Graph};
use super::host_pattern;
use crate::diagnose::{Diagnostic, Exit, Place, nearest};

/// The hosts that a pattern selects, in the order of the inventory's groups. `@file` is seen from `working_dir`.
pub(crate) fn select(graph: &Graph, pattern: &str, working_dir: &Path) -> Result<Vec<usize>, Diagnostic> {
    let mut parts = Vec::new();
    for part in split(pattern) {
        match part.strip_prefix('@') {
            Some(file) => parts.extend(lines_of(file, working_dir)?),
            None => parts.push(part),
        }
    }
    let (mut plain, mut and, mut not) = (Vec::new(), Vec::new(), Vec::new());
    for part in &parts {
        match part.chars().next() {
            Some('!') => not.push(&part[1..]),
            Some('&') => and.push(&part[1..]),
            _ => plain.push(part.as_str()),
        }
    }
    if plain.is_empty() {
        plain.push("all");
    }
    let mut hosts: Vec<usize> = Vec::new();
    let mut seen = HashSet::new();
    for part in plain {
        hosts.extend(one(graph, part, pattern)?.into_iter().filter(|host| seen.insert(*host)));
    }
    for part in and {
        let set: HashSet<usize> = one(graph, part, pattern)?.into_iter().collect();
        hosts.retain(|host| set.contains(host));
    }
    for part in not {
        let set: HashSet<usize> = one(graph, part, pattern)?.into_iter().collect();
        hosts.retain(|host| !set.contains(host));
    }
    Ok(hosts)
}

/// The patterns in a file, one a line.
fn lines_of(file: &str, working_dir: &Path) -> Result<Vec<String>, Diagnostic> {
    let text = std::fs::read_to_string(working_dir.join(file)).map_err(|error| {
        Diagnostic::error(
            "inventory/pattern-file",
            format!("the file of host patterns {file} cannot be read: {error}"),
        )
        .at(Place::whole(file))
        .rule("behind `@` stands a file that holds one host pattern a line")
        .help("check the path; it is seen from the working directory")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// Splits at commas; without commas at colons and blanks outside brackets, unless the whole is one name (an address, a
/// range). A bracket without its other half vanishes, as in Ansible.
fn split(pattern: &str) -> Vec<String> {
    let parts: Vec<&str> = if pattern.contains(',') {
        pattern.split(',').collect()
    } else if is_one_name(pattern) {
        vec![pattern]
    } else {
        PART.as_ref()
            .map(|part| part.find_iter(pattern).map(|found| found.as_str()).collect())
            .unwrap_or_default()
    };
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

static PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?:[^\s:\[\]]|\[[^\]]*\])+").ok());

fn is_one_name(pattern: &str) -> bool {
    match host_pattern::split_port(pattern) {
        Ok((host, Some(_))) => host_pattern::is_address(host),
        Ok((host, None)) => host_pattern::is_address(host),
        Err(_) => false,
    }
}

/// A position behind a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subscript {
    At(i64),
    Range(usize, Option<usize>),
}

fn subscript(pattern: &str) -> (&str, Option<Subscript>) {
    let parsed = || {
        let (name, inside) = pattern.strip_suffix(']')?.rsplit_once('[')?;
        if name.is_empty() {
            return None;
        }
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if digits(inside.strip_prefix('-').unwrap_or(inside)) {
            return inside.parse().ok().map(|at| (name, Subscript::At(at)));
        }
        let (from, to) = inside.split_once([':', '-'])?;
        if !digits(from) || !(to.is_empty() || digits(to)) {
            return None;
        }
        Some((name, Subscript::Range(from.parse().ok()?, to.parse().ok())))
    };
    match parsed() {
        Some((name, subscript)) => (name, Some(subscript)),
        None => (pattern, None),
    }
}

fn one(graph: &Graph, part: &str, whole: &str) -> Result<Vec<usize>, Diagnostic> {
    if let Some(host) = graph.host_index.get(part) {
        return Ok(vec![*host]);
    }
    let regex = part.strip_prefix('~');
    let (name, subscript) = if regex.is_some() { (part, None) } else { subscript(part) };
    let matcher = match regex {
        Some(regex) => Regex::new(&format!("^(?:{regex})")),
        None => Regex::new(&glob(name)),
    }
    .map_err(|error| {
        Diagnostic::error(
            "inventory/pattern",
            format!("`{part}` is not a pattern: {}", last_line(&error.to_string())),
        )
        .at(Place::whole("the host pattern"))
        .rule("a pattern is a name, a glob such as web*, or ~ and a regular expression")
        .help("quote it for the shell, and check the brackets")
    })?;
    let groups: Vec<usize> = (0..graph.groups.len())
        .filter(|group| matcher.is_match(&graph.groups[*group].name))
        .collect();
    // Positions count a host as often as it is in the groups: so does Ansible.
    let mut hosts = Vec::new();
    for group in &groups {
        hosts.extend(graph.hosts_of(*group));
    }
    if groups.is_empty() || regex.is_some() || name.contains(['.', '?', '*', '[']) {
        hosts.extend((0..graph.hosts.len()).filter(|host| matcher.is_match(&graph.hosts[*host].name)));
    }
    // An empty group is no mistake, an unknown name is.
    if hosts.is_empty() && groups.is_empty() && part != "all" {
        return Err(no_match(graph, part, whole));
    }
    let total = hosts.len();
    let picked = match subscript {
        None => Some(hosts),
        Some(Subscript::At(at)) => {
            let at = if at < 0 {
                at + i64::try_from(total).unwrap_or(0)
            } else {
                at
            };
            usize::try_from(at)
                .ok()
                .and_then(|at| hosts.get(at))
                .map(|host| vec![*host])
        }
        // A range that ends at 0 is the first element only, as in Ansible.
        Some(Subscript::Range(from, Some(0))) => hosts.get(from).map(|host| vec![*host]),
        Some(Subscript::Range(from, to)) => {
            let end = to.map_or(total, |to| (to + 1).min(total));
            Some(hosts.get(from..end).unwrap_or_default().to_vec())
        }
    };
    picked
        .filter(|hosts| !hosts.is_empty() || subscript.is_none())
        .ok_or_else(|| {
            Diagnostic::error(
                "inventory/no-match",
                format!("`{part}` selects no host: `{name}` has {total}"),
            )
            .at(Place::whole("the host pattern"))
            .rule("positions count from 0, and from the end when negative; both ends of a range are included")
            .help("choose a smaller position")
        })
}

fn no_match(graph: &Graph, part: &str, whole: &str) -> Diagnostic {
    let hosts = graph.hosts.iter().map(|host| &*host.name);
    let groups = graph.groups.iter().map(|group| &*group.name);
    let mut fault = Diagnostic::error("inventory/no-match", format!("`{part}` matches no host and no group"))
        .at(Place::whole("the host pattern"))
        .rule("a pattern names hosts, groups or globs of them; a name that matches nothing is taken for a mistake")
        .exit(Exit::Usage);
    if part != whole {
        fault = fault.note(None, format!("it is part of `{whole}`"));
    }
    match nearest(part, hosts.chain(groups)) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None if graph.hosts_of(ALL).is_empty() => fault.help("the inventory holds no hosts: check -i"),
        None => fault.help("list what there is: vmwright inventory --list"),
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

/// A glob as a regular expression: `*`, `?`, `[abc]`, `[!abc]`, all else literal; matches the whole name.
fn glob(pattern: &str) -> String {
    let mut out = String::from("^(?s:");
    let chars: Vec<char> = pattern.chars().collect();
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        i += 1;
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => {
                // The set ends at the first `]` that is not its first character.
                let first = i + usize::from(chars.get(i) == Some(&'!'));
                let end = (first + 1..chars.len()).find(|at| chars[*at] == ']');
                match end {
                    None => out.push_str("\\["),
                    Some(end) => {
                        out.push_str(&set(&chars[first..end], first > i));
                        i = end + 1;
                    }
                }
            }
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push_str(")$");
    out
}

/// A set of a glob. A range whose begin is after its end holds nothing, as in Python's `fnmatch`.
fn set(chars: &[char], negated: bool) -> String {
    let mut inside = String::new();
    let literal = |c: char| {
        if c.is_alphanumeric() {
            c.to_string()
        } else {
            regex::escape(&c.to_string())
        }
    };
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('-'), Some(end)) => {
                if c <= end {
                    inside.push_str(&format!("{}-{}", literal(*c), literal(*end)));
                }
                at += 3;
            }
            _ => {
                inside.push_str(&literal(*c));
                at += 1;
            }
        }
    }
    match (inside.is_empty(), negated) {
        (true, true) => ".".to_owned(),
        // Nothing matches it.
        (true, false) => "[^\\s\\S]".to_owned(),
        (false, true) => format!("[^{inside}]"),
        (false, false) => format!("[{inside}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph() -> Graph {
        let mut graph = Graph::new();
        crate::inventory::ini::read(
            "lone\n[web]\nw[1:4]\n[db]\nd1\nw2\n[prod:children]\nweb\n[empty]\n",
            &"h".into(),
            &"h".into(),
            &mut graph,
        )
        .unwrap();
        graph.settle().unwrap();
        graph
    }

    fn names(pattern: &str) -> String {
        let graph = graph();
        let hosts = select(&graph, pattern, Path::new(".")).unwrap();
        hosts
            .iter()
            .map(|host| &*graph.hosts[*host].name)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn patterns_select_as_in_ansible() {
        for (pattern, want) in [
            ("all", "lone d1 w2 w1 w3 w4"),
            ("*", "lone d1 w2 w1 w3 w4"),
            ("web", "w1 w2 w3 w4"),
            ("prod:&db", "w2"),
            ("web,!w[!14]", "w1 w4"),
            ("!web", "lone d1"),
            ("web[0]", "w1"),
            ("web[-1]", "w4"),
            ("web[1:2]", "w2 w3"),
            ("web[2:]", "w3 w4"),
            ("web[1-2]", "w2 w3"),
            ("~w[12]", "w1 w2"),
            ("d1:lone", "d1 lone"),
            ("w?", "w1 w2 w3 w4"),
            ("ungrouped", "lone"),
            ("w1,web", "w1 w2 w3 w4"),
            ("empty", ""),
        ] {
            assert_eq!(names(pattern), want, "{pattern}");
        }
    }

    fn refused(pattern: &str) -> Diagnostic {
        select(&graph(), pattern, Path::new(".")).unwrap_err()
    }

    #[test]
    fn a_file_holds_one_pattern_a_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("some.txt"), "\u{feff}w3\r\n\n  d1 \n!w4\n").unwrap();
        let graph = graph();
        let hosts = select(&graph, "w4,@some.txt", dir.path()).unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| &*graph.hosts[*host].name).collect();
        assert_eq!(names, ["w3", "d1"]);
        let fault = select(&graph, "@none", dir.path()).unwrap_err();
        assert_eq!(fault.code, "inventory/pattern-file");
    }

    #[test]
    fn a_name_that_matches_nothing_is_an_error_with_the_nearest() {
        let fault = refused("webb");
        assert_eq!(
            (fault.code, fault.help[0].as_str()),
            ("inventory/no-match", "did you mean `web`?")
        );
        assert_eq!(refused("web[9]").code, "inventory/no-match");
        assert_eq!(refused("~(").code, "inventory/pattern");
        assert_eq!(refused("web,!nope").code, "inventory/no-match");
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in "[~!&,:\\[\\]*?0-9a-dw-]{0,24}|\\PC{0,24}") {
            let _ = select(&graph(), &pattern, Path::new("."));
        }
    }
}
