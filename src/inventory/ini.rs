//! Reads INI inventories by the rules of ansible-core (`plugins/inventory/ini.py`).
//!
//! ```text
//! host lines, before any section: hosts without a group
//! [web]           hosts: name, optional range and port, then key=value words
//! [web:children]  groups, which must be declared somewhere in this file
//! [web:vars]      key = value; the group must be declared somewhere in this file
//! ```
//!
//! Values are Python literals where they are ones, else text. All faults of a file are found at once.

use std::sync::Arc;

use indexmap::IndexMap;

use super::groups::Graph;
use super::value::Value;
use super::{host_pattern, literal, words};
use crate::diagnose::{Diagnostic, Place, nearest};

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Section {
    Hosts,
    Children,
    Vars,
}

/// A group that was used before it was declared.
struct Pending {
    place: Place,
    /// The parents that wait for it; empty when `[name:vars]` came first.
    parents: Vec<(usize, Place)>,
}

struct Reader<'g> {
    graph: &'g mut Graph,
    file: Arc<str>,
    source: Arc<str>,
    pending: IndexMap<String, Pending>,
    faults: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

/// Reads an INI inventory into the graph. `file` names it in places, `source` is its path.
///
/// # Errors
///
/// Everything wrong in the file, with codes `inventory/ini-...`, `inventory/host-name` and `inventory/group-cycle`.
pub(crate) fn read(
    text: &str,
    file: &Arc<str>,
    source: &Arc<str>,
    graph: &mut Graph,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut reader = Reader {
        graph,
        file: Arc::clone(file),
        source: Arc::clone(source),
        pending: IndexMap::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    let mut group = super::groups::UNGROUPED;
    let mut section = Some(Section::Hosts);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1u32..).zip(lines(text)) {
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let column = u32::try_from(indent).unwrap_or(u32::MAX).saturating_add(1);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let place = Place::new(Arc::clone(&reader.file), number, column);
        if let Some((name, kind)) = header(line) {
            match kind {
                "" | "hosts" => section = Some(Section::Hosts),
                "children" => section = Some(Section::Children),
                "vars" => section = Some(Section::Vars),
                other => {
                    reader.faults.push(unknown_kind(name, other, place));
                    section = None;
                    continue;
                }
            }
            if let Some(section) = section {
                group = reader.open(name, section, place);
            }
            continue;
        }
        if line.starts_with('[') && line.ends_with(']') {
            reader.faults.push(
                Diagnostic::error("inventory/ini-section", format!("`{line}` is not a section"))
                    .at(place)
                    .rule("a section is [group], [group:children] or [group:vars], without blanks inside")
                    .help("correct the header"),
            );
            section = None;
            continue;
        }
        let done = match section {
            // Lines under a broken header are not reported again.
            None => Ok(()),
            Some(Section::Hosts) => reader.host_line(line, group, &place),
            Some(Section::Vars) => reader.var_line(line, group, &place),
            Some(Section::Children) => reader.child_line(line, group, &place),
        };
        if let Err(fault) = done {
            reader.faults.push(fault);
        }
    }
    reader.undeclared();
    if reader.faults.is_empty() {
        Ok(reader.warnings)
    } else {
        Err(reader.faults)
    }
}

/// The lines, ended as Python's `splitlines` ends them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = |c: char| {
            matches!(
                c,
                '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        };
        let Some(at) = rest.find(ends) else {
            return Some(std::mem::take(&mut rest));
        };
        let (line, after) = rest.split_at(at);
        let length = after.chars().next().map_or(0, char::len_utf8);
        let length = if after.starts_with("\r\n") { 2 } else { length };
        rest = &after[length..];
        Some(line)
    })
}

/// The group and the kind of a section header, if the line is one.
pub(crate) fn header(line: &str) -> Option<(&str, &str)> {
    let (inside, after) = line.strip_prefix('[')?.split_once(']')?;
    let after = after.trim_start();
    if !after.is_empty() && !after.starts_with('#') {
        return None;
    }
    let (name, kind) = match inside.split_once(':') {
        Some((_, "")) => return None,
        Some((name, kind)) => (name, kind),
        None => (inside, ""),
    };
    let word = kind.chars().all(|c| c.is_alphanumeric() || c == '_');
    (!name.is_empty() && !name.contains(char::is_whitespace) && word).then_some((name, kind))
}

fn unknown_kind(name: &str, kind: &str, place: Place) -> Diagnostic {
    let known = ["children", "vars", "hosts"];
    let mut fault = Diagnostic::error(
        "inventory/ini-section",
        format!("the section [{name}:{kind}] is of the unknown kind `{kind}`"),
    )
    .at(place)
    .rule("a section is [group], [group:children] or [group:vars]");
    fault = match nearest(kind, known) {
        Some(near) => fault.help(format!("did you mean [{name}:{near}]?")),
        None => fault.help("use `children` or `vars`, or no kind for hosts"),
    };
    fault
}

impl Reader<'_> {
    /// Opens a section.
    fn open(&mut self, name: &str, section: Section, place: Place) -> usize {
        let known = self.graph.group_index.contains_key(name);
        let group = self.graph.add_group(name);
        if section == Section::Vars {
            if !known && !self.pending.contains_key(name) {
                let parents = Vec::new();
                self.pending.insert(name.to_owned(), Pending { place, parents });
            }
        } else if let Some(pending) = self.pending.shift_remove(name) {
            for (parent, at) in pending.parents {
                if let Err(fault) = self.graph.add_child(parent, group, &at) {
                    self.faults.push(fault);
                }
            }
        }
        group
    }

    fn host_line(&mut self, line: &str, group: usize, place: &Place) -> Result<(), Diagnostic> {
        let at = |column: u32| Place::new(Arc::clone(&place.file), place.line, column);
        let words = words::split(line, place.column).map_err(|fault| {
            Diagnostic::error("inventory/ini-quotes", fault.message)
                .at(at(fault.column))
                .rule("words of a host line are split as by a shell")
                .help("close the quote, or put a backslash before a quote that is meant as such")
        })?;
        let Some((name, variables)) = words.split_first() else {
            return Ok(());
        };
        let bad_name = |why: String| host_pattern::fault(&name.text, &why, &at(name.column));
        let (names, port) = host_pattern::expand(&name.text).map_err(bad_name)?;
        if name.text.ends_with(':') && port.is_none() {
            return Err(bad_name("it ends in a colon, which stands before a port".to_owned()));
        }
        if names.iter().any(|name| name == "---") {
            return Err(bad_name(
                "`---` begins a YAML file; give it the extension .yml".to_owned(),
            ));
        }
        let mut values: Vec<(Arc<str>, Arc<Value>)> = Vec::with_capacity(variables.len());
        for word in variables {
            let Some((key, text)) = word.text.split_once('=') else {
                return Err(
                    Diagnostic::error("inventory/ini-assignment", format!("`{}` is not key=value", word.text))
                        .at(at(word.column))
                        .rule("behind the name of a host stand key=value words, without blanks around the `=`")
                        .help(if word.text.starts_with(';') {
                            "`;` begins a comment only at the start of a line; use ` #` here".to_owned()
                        } else {
                            format!(
                                "write `{}=..`; a value with blanks needs quotes: key=\"a b\"",
                                word.text
                            )
                        }),
                );
            };
            let length = u32::try_from(key.chars().count()).unwrap_or(0);
            let value = literal::evaluate(text, &at(word.column.saturating_add(length).saturating_add(1)));
            if word.cut {
                self.warnings.push(
                    Diagnostic::warning(
                        "inventory/ini-comment",
                        format!("a `#` cuts the value of `{key}` short"),
                    )
                    .at(value.place.clone())
                    .key(key)
                    .rule("`#` begins a comment even inside a word, as in Ansible")
                    .help(format!("quote it: {key}='..#..'")),
                );
            }
            values.push((Arc::from(key), Arc::new(value)));
        }
        for name in names {
            self.graph
                .declare_host(&name, group, &self.source, port, place, &values)?;
        }
        Ok(())
    }

    fn var_line(&mut self, line: &str, group: usize, place: &Place) -> Result<(), Diagnostic> {
        let Some((key, text)) = line.split_once('=') else {
            return Err(
                Diagnostic::error("inventory/ini-assignment", format!("`{line}` is not key = value"))
                    .at(place.clone())
                    .rule("a [group:vars] section holds one variable a line")
                    .help("write `key = value`"),
            );
        };
        let blanks = text.chars().take_while(|c| c.is_whitespace()).count();
        let column = place.column as usize + key.chars().count() + 1 + blanks;
        let at = Place::new(Arc::clone(&place.file), place.line, u32::try_from(column).unwrap_or(0));
        let value = literal::evaluate(text.trim(), &at);
        self.graph.set_group_var(group, key.trim(), value)
    }

    fn child_line(&mut self, line: &str, group: usize, place: &Place) -> Result<(), Diagnostic> {
        let end = line
            .find(|c: char| c.is_whitespace() || matches!(c, ':' | ']'))
            .unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let rest = rest.trim_start();
        if name.is_empty() || !(rest.is_empty() || rest.starts_with('#')) {
            return Err(Diagnostic::error(
                "inventory/ini-group-name",
                format!("`{line}` is not the name of a group"),
            )
            .at(place.clone())
            .rule("a [group:children] section holds one group name a line")
            .help("write the name alone; hosts belong under [group]"));
        }
        match self.graph.group_index.get(name) {
            Some(child) => self.graph.add_child(group, *child, place),
            None => {
                let pending = self.pending.entry(name.to_owned()).or_insert_with(|| Pending {
                    place: place.clone(),
                    parents: Vec::new(),
                });
                pending.parents.push((group, place.clone()));
                Ok(())
            }
        }
    }

    /// Groups that were used and never declared.
    fn undeclared(&mut self) {
        for (name, pending) in std::mem::take(&mut self.pending) {
            let known = self
                .graph
                .groups
                .iter()
                .map(|group| &*group.name)
                .filter(|group| *group != name);
            let near = nearest(&name, known).map(str::to_owned);
            let what = match pending.parents.last() {
                Some((parent, _)) => format!(
                    "[{}:children] names the group `{name}`, which is not declared",
                    self.graph.groups[*parent].name
                ),
                None => format!("[{name}:vars] is for the group `{name}`, which is not declared"),
            };
            let mut fault = Diagnostic::error("inventory/ini-undeclared-group", what)
                .at(pending.place)
                .rule("a group is declared by [name] or [name:children] in the same file");
            fault = match near {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault.help(format!("add a section [{name}]")),
            };
            self.faults.push(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Data;
    use super::*;
    use proptest::prelude::*;

    fn graph(text: &str) -> Graph {
        let mut graph = Graph::new();
        read(text, &"hosts.ini".into(), &"hosts.ini".into(), &mut graph).unwrap();
        graph
    }

    fn faults(text: &str) -> Vec<String> {
        let mut graph = Graph::new();
        let faults = read(text, &"h.ini".into(), &"h.ini".into(), &mut graph).unwrap_err();
        faults.iter().map(|fault| format!("{} {fault}", fault.code)).collect()
    }

    #[test]
    fn values_of_hosts_are_literals_and_know_their_place() {
        let graph = graph("[vms]\n  web vms_vmid=128 vms_clone=false l=\"['a', 1]\" # c=1\n");
        let vars = &graph.hosts[0].vars;
        assert_eq!(vars["vms_vmid"].data, Data::Int(128));
        assert_eq!(vars["vms_vmid"].place.to_string(), "hosts.ini:2:16");
        assert_eq!(vars["vms_clone"].data, Data::Str("false".into()));
        assert_eq!(vars["l"].type_name(), "list");
    }

    #[test]
    fn a_group_may_be_declared_after_its_use() {
        let graph = graph("[all_web:children]\nweb\n[web:vars]\na = 5 # x\n[web]\nh\n");
        let web = graph.group_index["web"];
        assert_eq!(graph.groups[web].parents, [graph.group_index["all_web"]]);
        assert_eq!(graph.groups[web].vars["a"].data, Data::Int(5));
    }

    #[test]
    fn all_faults_are_found_with_places() {
        let found = faults("[web:childs]\n[x y]\n[a:children]\nbb\n[b]\nh k\nh2 a='b\nw[1:\n[c:vars]\nx\n");
        assert_eq!(
            found,
            [
                "inventory/ini-section h.ini:1:1: the section [web:childs] is of the unknown kind `childs`",
                "inventory/ini-section h.ini:2:1: `[x y]` is not a section",
                "inventory/ini-assignment h.ini:6:3: `k` is not key=value",
                "inventory/ini-quotes h.ini:7:6: a quote is opened here and not closed",
                "inventory/host-name h.ini:8:1: `w[1:` is not a host: the `[` of a range has no `]`",
                "inventory/ini-assignment h.ini:10:1: `x` is not key = value",
                "inventory/ini-undeclared-group h.ini:4:1: [a:children] names the group `bb`, which is not declared",
                "inventory/ini-undeclared-group h.ini:9:1: [c:vars] is for the group `c`, which is not declared",
            ]
        );
    }

    #[test]
    fn a_cycle_has_a_place() {
        assert_eq!(
            faults("[a:children]\nb\n[b:children]\na\n"),
            ["inventory/group-cycle h.ini:4:1: the group `a` would contain itself: a > b > a"]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[[a-c]{1,2}(:children|:vars)?\\]|[a-c\\[:0-9\\]='\" #;\\\\é-]{0,12}|\n){0,20}") {
            let mut graph = Graph::new();
            let _ = read(&text, &"h".into(), &"h".into(), &mut graph);
            let _ = graph.settle();
        }
    }
}
