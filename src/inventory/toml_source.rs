//! Reads TOML inventories by the rules of ansible-core (`plugins/inventory/toml.py`).
//!
//! ```text
//! [web]            children = ["eu", "us"]     names of groups
//! [web.hosts]      "w[1:3]:22" = {a = 1}       hosts, perhaps with ranges and a port, and their variables
//! [web.vars]       b = 2
//! text --(toml_edit)--> Value with places --(Reader)--> graph; all faults of a file at once
//! ```
//!
//! Dates and times become text as Python prints them (`isoformat`).

use std::sync::Arc;

use indexmap::IndexMap;
use toml_edit::{Datetime, Document, Item, Offset, TableLike};

use super::groups::Graph;
use super::host_pattern;
use super::value::{Data, Entry, Value};
use crate::diagnose::{Diagnostic, Place, nearest};

/// Finds line and column of a position in a text.
struct Lines<'t> {
    text: &'t str,
    file: Arc<str>,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str, file: &Arc<str>) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        Self {
            text,
            file: Arc::clone(file),
            starts: starts.collect(),
        }
    }

    fn place(&self, at: usize) -> Place {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count());
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place::new(Arc::clone(&self.file), number(line), number(column + 1))
    }
}

/// Reads a TOML text into a value with places.
///
/// # Errors
///
/// `inventory/toml-syntax`, with the place where the text stops being TOML.
pub(crate) fn parse(text: &str, file: &Arc<str>) -> Result<Value, Diagnostic> {
    // As Python does; a bare carriage return is an error in TOML.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let text = text.as_str();
    let lines = Lines::new(text, file);
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        Diagnostic::error("inventory/toml-syntax", format!("this is not TOML: {message}"))
            .at(lines.place(at))
            .rule("a file that ends in .toml is TOML")
            .help("texts stand in quotes, a table's header is [name], and a key stands once in a table")
    })?;
    let place = lines.place(0);
    Ok(Value::new(Data::Map(table(document.as_table(), &place, &lines)), place))
}

fn table(table: &dyn TableLike, place: &Place, lines: &Lines<'_>) -> IndexMap<String, Entry> {
    let mut map = IndexMap::new();
    for (name, item) in table.iter() {
        let key = table.key(name).and_then(toml_edit::Key::span);
        let key_place = key.map_or_else(|| place.clone(), |span| lines.place(span.start));
        if let Some(value) = value(item, &key_place, lines) {
            map.insert(name.to_owned(), Entry { key_place, value });
        }
    }
    map
}

fn value(item: &Item, key: &Place, lines: &Lines<'_>) -> Option<Value> {
    let span = item.span().map(|span| lines.place(span.start));
    let place = span.unwrap_or_else(|| key.clone());
    let data = match item {
        Item::None => return None,
        Item::Table(inner) => Data::Map(table(inner, key, lines)),
        Item::ArrayOfTables(list) => {
            let tables = list.iter().map(|inner| {
                let place = inner.span().map_or_else(|| key.clone(), |span| lines.place(span.start));
                Value::new(Data::Map(table(inner, &place, lines)), place)
            });
            Data::List(tables.collect())
        }
        Item::Value(value) => scalar(value, &place, lines),
    };
    Some(Value::new(data, place))
}

fn scalar(value: &toml_edit::Value, place: &Place, lines: &Lines<'_>) -> Data {
    match value {
        toml_edit::Value::String(text) => Data::Str(text.value().clone()),
        toml_edit::Value::Integer(number) => Data::Int((*number.value()).into()),
        toml_edit::Value::Float(number) => Data::Float(*number.value()),
        toml_edit::Value::Boolean(truth) => Data::Bool(*truth.value()),
        toml_edit::Value::Datetime(date) => Data::Str(python_date(date.value())),
        toml_edit::Value::Array(list) => {
            let items = list.iter().map(|item| {
                let at = item
                    .span()
                    .map_or_else(|| place.clone(), |span| lines.place(span.start));
                Value::new(scalar(item, &at, lines), at)
            });
            Data::List(items.collect())
        }
        toml_edit::Value::InlineTable(inner) => Data::Map(table(inner, place, lines)),
    }
}

/// A date as Python's `isoformat` prints it.
fn python_date(date: &Datetime) -> String {
    let mut text = String::new();
    if let Some(day) = date.date {
        text.push_str(&format!("{:04}-{:02}-{:02}", day.year, day.month, day.day));
    }
    if let Some(time) = date.time {
        if !text.is_empty() {
            text.push('T');
        }
        let second = time.second.unwrap_or(0);
        text.push_str(&format!("{:02}:{:02}:{second:02}", time.hour, time.minute));
        let micros = time.nanosecond.unwrap_or(0) / 1000;
        if micros > 0 {
            text.push_str(&format!(".{micros:06}"));
        }
    }
    match date.offset {
        None => {}
        Some(Offset::Z) => text.push_str("+00:00"),
        Some(Offset::Custom { minutes }) => {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.unsigned_abs();
            text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
    }
    text
}

struct Reader<'g> {
    graph: &'g mut Graph,
    source: Arc<str>,
    faults: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

/// Reads a TOML inventory into the graph.
///
/// # Errors
///
/// Everything wrong in the file: `inventory/toml-syntax`, `inventory/toml-structure`, `inventory/toml-plugin`,
/// `inventory/host-name`, `inventory/group-cycle`, `inventory/group-priority`.
pub(crate) fn read(
    text: &str,
    file: &Arc<str>,
    source: &Arc<str>,
    graph: &mut Graph,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let document = parse(text, file).map_err(|fault| vec![fault])?;
    let Data::Map(root) = &document.data else {
        return Ok(Vec::new());
    };
    if root.is_empty() {
        return Err(vec![structure("the file holds nothing", &document.place)]);
    }
    if let Some(plugin) = root.get("plugin")
        && !matches!(&plugin.value.data, Data::Map(map) if map.is_empty())
    {
        return Err(vec![
            Diagnostic::error(
                "inventory/toml-plugin",
                "this file configures an inventory plugin of Ansible, which vmwright does not run",
            )
            .at(plugin.key_place.clone())
            .rule("sources are INI, YAML and TOML inventories, directories of them, and executables that answer --list")
            .help("put the plugin's result into a file: ansible-inventory -i FILE --list --export > hosts.json"),
        ]);
    }
    let mut reader = Reader {
        graph,
        source: Arc::clone(source),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    for (name, entry) in root {
        reader.group(name, entry);
    }
    if reader.faults.is_empty() {
        Ok(reader.warnings)
    } else {
        Err(reader.faults)
    }
}

fn structure(message: impl Into<String>, place: &Place) -> Diagnostic {
    Diagnostic::error("inventory/toml-structure", message)
        .at(place.clone())
        .rule("a TOML inventory is tables of groups; a group holds the tables hosts and vars, and the list children")
        .help("write for example: [web.hosts] and below it: web01 = {ansible_host = \"10.0.0.5\"}")
}

impl Reader<'_> {
    fn ignored(&mut self, message: String, place: &Place) -> &mut Diagnostic {
        let warning = Diagnostic::warning("inventory/toml-ignored", message)
            .at(place.clone())
            .rule("the top of a TOML inventory holds groups only, and a group hosts, children and vars");
        self.warnings.push(warning);
        let last = self.warnings.len() - 1;
        &mut self.warnings[last]
    }

    fn group(&mut self, name: &str, entry: &Entry) {
        let Data::Map(sections) = &entry.value.data else {
            let what = format!("`{name}` is a {} and no group: ignored", entry.value.type_name());
            let warning = self.ignored(what, &entry.key_place);
            warning
                .help
                .push("variables belong under a group: [all.vars]".to_owned());
            return;
        };
        if name.is_empty() {
            self.faults.push(structure("a group has no name", &entry.key_place));
            return;
        }
        let group = self.graph.add_group(name);
        for (key, section) in sections {
            let wrong = |kind: &str| {
                let message = format!(
                    "`{key}` of the group `{name}` is a {}, not a {kind}",
                    section.value.type_name()
                );
                structure(message, &section.value.place)
            };
            match (key.as_str(), &section.value.data) {
                ("vars", Data::Map(vars)) => {
                    for (variable, entry) in vars {
                        if let Err(fault) = self.graph.set_group_var(group, variable, entry.value.clone()) {
                            self.faults.push(fault);
                        }
                    }
                }
                ("children", Data::List(children)) => self.children(group, name, children),
                ("hosts", Data::Map(hosts)) => {
                    for (pattern, entry) in hosts {
                        self.host(group, pattern, entry);
                    }
                }
                ("vars" | "hosts", _) => self.faults.push(wrong("table")),
                ("children", _) => self.faults.push(wrong("list").help("write children = [\"name\"]")),
                _ => {
                    let near = nearest(key, ["hosts", "children", "vars"]);
                    let message = format!("`{key}` in the group `{name}` is ignored");
                    let help = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("a variable belongs under [{name}.vars]"),
                    };
                    self.ignored(message, &section.key_place).help.push(help);
                }
            }
        }
    }

    fn children(&mut self, group: usize, name: &str, children: &[Value]) {
        for child in children {
            match child.as_str() {
                Some(text) if !text.is_empty() => {
                    let index = self.graph.add_group(text);
                    if let Err(fault) = self.graph.add_child(group, index, &child.place) {
                        self.faults.push(fault);
                    }
                }
                Some(_) | None => {
                    let message = format!("a child of the group `{name}` is no name");
                    self.faults.push(structure(message, &child.place));
                }
            }
        }
    }

    fn host(&mut self, group: usize, pattern: &str, entry: &Entry) {
        let Data::Map(variables) = &entry.value.data else {
            let message = format!(
                "the variables of the host `{pattern}` are a {}, not a table",
                entry.value.type_name()
            );
            let fault = structure(message, &entry.value.place);
            self.faults
                .push(fault.help("a host without variables is written: name = {}"));
            return;
        };
        let (names, port) = match host_pattern::expand(pattern) {
            Ok(expanded) => expanded,
            Err(why) => {
                self.faults.push(host_pattern::fault(pattern, &why, &entry.key_place));
                return;
            }
        };
        let variables: Vec<(Arc<str>, Arc<Value>)> = variables
            .iter()
            .map(|(key, entry)| (key.as_str().into(), Arc::new(entry.value.clone())))
            .collect();
        for name in names {
            let done = self
                .graph
                .declare_host(&name, group, &self.source, port, &entry.key_place, &variables);
            if let Err(fault) = done {
                self.faults.push(fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(text: &str) -> (Graph, Result<Vec<Diagnostic>, Vec<Diagnostic>>) {
        let mut graph = Graph::new();
        let done = read(text, &"h.toml".into(), &"h.toml".into(), &mut graph);
        (graph, done)
    }

    #[test]
    fn groups_hosts_and_variables_are_read_with_places() {
        let (graph, done) = load(
            "[web]\nchildren = [\"eu\"]\n[web.hosts]\n\"w[1:2]:22\" = {a = 1}\nw2.b = [true]\n[web.vars]\n  \"é\".x = 'y'\n[eu.hosts]\nw1 = {}\n",
        );
        assert_eq!(done.unwrap(), []);
        assert_eq!(graph.hosts[0].vars["ansible_port"].data, Data::Int(22));
        assert_eq!(graph.hosts[0].vars["a"].place.to_string(), "h.toml:4:20");
        assert_eq!(graph.hosts[1].vars["b"].type_name(), "list");
        let web = graph.group_index["web"];
        assert_eq!(graph.groups[web].children, [graph.group_index["eu"]]);
        let inner = graph.groups[web].vars["é"].get("x").unwrap();
        assert_eq!(inner.place.to_string(), "h.toml:7:11");
    }

    #[test]
    fn dates_are_text_as_python_prints_them() {
        let (graph, _) = load(
            "[all.vars]\na = 2020-01-02\nb = 1979-05-27T07:32:00Z\nc = 1979-05-27 00:32:00.5-07:30\nd = 07:32:00.000001\n",
        );
        let vars = &graph.groups[0].vars;
        let texts = ["a", "b", "c", "d"].map(|name| vars[name].as_str().unwrap_or_default());
        let want = [
            "2020-01-02",
            "1979-05-27T07:32:00+00:00",
            "1979-05-27T00:32:00.500000-07:30",
            "07:32:00.000001",
        ];
        assert_eq!(texts, want);
    }

    #[test]
    fn faults_have_places() {
        let (_, done) =
            load("x = 1\n[web]\nchildren = {a = 1}\nhosts = [\"a\"]\nhost = 1\n[db.hosts]\na = 1\n\"w[1:\" = {}\n");
        let told: Vec<String> = done.unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "h.toml:3:12: `children` of the group `web` is a mapping, not a list",
                "h.toml:4:9: `hosts` of the group `web` is a list, not a table",
                "h.toml:7:5: the variables of the host `a` are a integer, not a table",
                "h.toml:8:1: `w[1:` is not a host: the `[` of a range has no `]`",
            ]
        );
        let fault = &load("[a\n").1.unwrap_err()[0];
        assert_eq!(
            (fault.code, fault.place.as_ref().map(|p| p.line)),
            ("inventory/toml-syntax", Some(1))
        );
        assert_eq!(load("plugin = 'x'\n").1.unwrap_err()[0].code, "inventory/toml-plugin");
        assert_eq!(load("").1.unwrap_err()[0].message, "the file holds nothing");
        let (_, done) = load("x = 1\n[web]\nhost = 1\n");
        assert_eq!(done.unwrap()[1].help, ["did you mean `hosts`?"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[[a-c.]{1,5}\\]\n|[a-c]{1,2}(\\.hosts|\\.vars)?=|[0-9a-c\"'\\[\\]{},=\\. :T-]{0,12}|\n|é){0,20}") {
            let _ = load(&text);
        }
    }
}
