//! The filters that Ansible adds to Jinja, and those of the engine that answer differently.

use minijinja::value::{Kwargs, Rest, StringInput, Value as Jinja, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State};

use super::template::current;
use super::value::{Data, Value};
use super::{
    filters_basic, filters_data, filters_encode, filters_lines, filters_net, filters_path, filters_random,
    filters_regex, filters_text, text,
};
use crate::diagnose::Place;

/// A call of a filter.
pub(crate) struct Call<'c> {
    pub name: &'static str,
    pub value: Jinja,
    args: Vec<Jinja>,
    kwargs: Kwargs,
    pub state: &'c State<'c, 'c>,
}

pub(crate) type Outcome = Result<Jinja, Error>;
type Filter = fn(&Call<'_>) -> Outcome;

/// All filters that are added here.
const FILTERS: &[(&str, Filter)] = &[
    ("default", filters_basic::default),
    ("d", filters_basic::default),
    ("mandatory", filters_basic::mandatory),
    ("bool", filters_basic::boolean),
    ("int", filters_basic::int),
    ("float", filters_basic::float),
    ("string", |call| Ok(Jinja::from(call.text()?))),
    ("ternary", filters_basic::ternary),
    ("type_debug", filters_basic::type_debug),
    ("combine", filters_data::combine),
    ("dict2items", filters_data::dict2items),
    ("items2dict", filters_data::items2dict),
    ("flatten", filters_data::flatten),
    ("union", filters_data::union),
    ("intersect", filters_data::intersect),
    ("difference", filters_data::difference),
    ("symmetric_difference", filters_data::symmetric_difference),
    ("extract", filters_data::extract),
    ("zip_longest", filters_data::zip_longest),
    ("product", filters_data::product),
    ("combinations", filters_data::combinations),
    ("subelements", filters_data::subelements),
    ("to_json", filters_encode::to_json),
    ("to_nice_json", filters_encode::to_nice_json),
    ("from_json", filters_encode::from_json),
    ("to_yaml", filters_encode::to_yaml),
    ("to_nice_yaml", filters_encode::to_nice_yaml),
    ("from_yaml", filters_encode::from_yaml),
    ("regex_replace", filters_regex::regex_replace),
    ("regex_search", filters_regex::regex_search),
    ("regex_findall", filters_regex::regex_findall),
    ("regex_escape", filters_regex::regex_escape),
    ("b64encode", filters_text::b64encode),
    ("b64decode", filters_text::b64decode),
    ("basename", filters_path::basename),
    ("dirname", filters_path::dirname),
    ("splitext", filters_path::splitext),
    ("path_join", filters_path::path_join),
    ("expanduser", filters_path::expanduser),
    ("normpath", filters_path::normpath),
    ("relpath", filters_path::relpath),
    ("quote", filters_text::quote),
    ("hash", filters_text::hash),
    ("md5", |call| filters_text::hash_with(call, "md5")),
    ("sha1", |call| filters_text::hash_with(call, "sha1")),
    ("checksum", |call| filters_text::hash_with(call, "sha1")),
    ("to_uuid", filters_text::to_uuid),
    ("human_to_bytes", filters_text::human_to_bytes),
    ("human_readable", filters_text::human_readable),
    ("center", filters_text::center),
    ("wordcount", filters_text::wordcount),
    ("comment", filters_text::comment),
    ("pow", filters_text::pow),
    ("log", filters_text::log),
    ("root", filters_text::root),
    ("password_hash", filters_text::password_hash),
    ("from_yaml_all", filters_encode::from_yaml_all),
    ("commonpath", filters_path::commonpath),
    ("realpath", filters_path::realpath),
    ("expandvars", filters_path::expandvars),
    ("random", filters_random::random),
    ("shuffle", filters_random::shuffle),
    ("permutations", filters_random::permutations),
    ("indent", filters_lines::indent),
    ("truncate", filters_lines::truncate),
    ("wordwrap", filters_lines::wordwrap),
    ("pprint", filters_lines::pprint),
    ("strftime", filters_lines::strftime),
    ("urlencode", filters_lines::urlencode),
    ("urldecode", filters_lines::urldecode),
    ("urlsplit", filters_lines::urlsplit),
    ("ipaddr", filters_net::ipaddr),
    ("ipv4", filters_net::ipv4),
    ("ipv6", filters_net::ipv6),
    ("ipmath", filters_net::ipmath),
    ("ipsubnet", filters_net::ipsubnet),
    ("nthhost", filters_net::nthhost),
    ("ipwrap", filters_net::ipwrap),
];

/// Names to compare a mistyped one with: those above and the engine's.
pub(crate) const NAMES: &[&str] = &[
    "default",
    "mandatory",
    "bool",
    "int",
    "float",
    "string",
    "ternary",
    "type_debug",
    "combine",
    "dict2items",
    "items2dict",
    "flatten",
    "union",
    "intersect",
    "difference",
    "symmetric_difference",
    "extract",
    "zip_longest",
    "product",
    "combinations",
    "subelements",
    "to_json",
    "to_nice_json",
    "from_json",
    "to_yaml",
    "to_nice_yaml",
    "from_yaml",
    "regex_replace",
    "regex_search",
    "regex_findall",
    "regex_escape",
    "b64encode",
    "b64decode",
    "basename",
    "dirname",
    "splitext",
    "path_join",
    "expanduser",
    "normpath",
    "relpath",
    "quote",
    "hash",
    "checksum",
    "to_uuid",
    "human_to_bytes",
    "human_readable",
    "center",
    "wordcount",
    "comment",
    "password_hash",
    "from_yaml_all",
    "commonpath",
    "realpath",
    "expandvars",
    "random",
    "shuffle",
    "permutations",
    "truncate",
    "wordwrap",
    "strftime",
    "urldecode",
    "urlsplit",
    "ipaddr",
    "ipv4",
    "ipv6",
    "ipmath",
    "ipsubnet",
    "nthhost",
    "ipwrap",
    "lower",
    "upper",
    "title",
    "capitalize",
    "replace",
    "length",
    "count",
    "dictsort",
    "items",
    "reverse",
    "trim",
    "join",
    "split",
    "lines",
    "round",
    "abs",
    "first",
    "last",
    "min",
    "max",
    "sort",
    "list",
    "batch",
    "slice",
    "sum",
    "indent",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "map",
    "groupby",
    "unique",
    "chain",
    "zip",
    "pprint",
    "format",
    "tojson",
    "urlencode",
    "match",
    "search",
    "regex",
    "version",
    "subset",
    "superset",
    "contains",
    "any",
    "all",
    "truthy",
    "falsy",
    "exists",
    "directory",
];

/// Adds the filters.
pub(crate) fn add(env: &mut Environment<'static>) {
    for (name, filter) in FILTERS {
        let call = move |state: &State, value: Jinja, args: Rest<ValueOrKwargs>| -> Outcome {
            let args = args.into_values();
            let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
            let call = Call {
                name,
                value,
                args: positional.to_vec(),
                kwargs,
                state,
            };
            let takes_undefined = matches!(*name, "default" | "d" | "mandatory");
            if !takes_undefined {
                call.defined(&call.value)?;
                for arg in &call.args {
                    call.defined(arg)?;
                }
            }
            filter(&call)
        };
        let prefixes: &[&str] = if name.starts_with("ip") || *name == "nthhost" {
            &["", "ansible.utils.", "ansible.netcommon."]
        } else {
            &["", "ansible.builtin."]
        };
        for prefix in prefixes {
            env.add_filter(format!("{prefix}{name}"), call);
        }
    }
}

/// A fault of a filter.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

impl Call<'_> {
    /// Fails for an undefined value, naming the expression.
    pub fn defined(&self, value: &Jinja) -> Result<(), Error> {
        if value.is_undefined() {
            StringInput::new(self.state, value)?;
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        Ok(())
    }

    /// The argument by position, else by name.
    pub fn arg(&self, position: usize, name: &str) -> Result<Option<Jinja>, Error> {
        match self.args.get(position) {
            Some(value) => Ok(Some(value.clone())),
            None => self.kwargs.get(name),
        }
    }

    /// The argument as text.
    pub fn arg_text(&self, position: usize, name: &str) -> Result<Option<String>, Error> {
        Ok(match self.arg(position, name)? {
            None => None,
            Some(value) => Some(display(&value)?),
        })
    }

    /// The argument as a number.
    pub fn arg_int(&self, position: usize, name: &str) -> Result<Option<i64>, Error> {
        match self.arg(position, name)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(value) => Ok(Some(value)),
                None => Err(wrong(format!(
                    "{}: `{name}` is a {}, not an integer",
                    self.name,
                    value.kind()
                ))),
            },
        }
    }

    /// The argument as a switch.
    pub fn arg_flag(&self, position: usize, name: &str) -> Result<Option<bool>, Error> {
        Ok(self.arg(position, name)?.map(|value| value.is_true()))
    }

    /// Fails for an argument by name that the filter does not know.
    pub fn no_other_names(&self) -> Result<(), Error> {
        self.kwargs.assert_all_used()
    }

    /// All positional arguments.
    pub fn args(&self) -> &[Jinja] {
        &self.args
    }

    /// The value as text.
    pub fn text(&self) -> Result<String, Error> {
        display_python(&self.value)
    }

    /// The value as plain data. A secret in it makes the result secret.
    pub fn native(&self) -> Result<Value, Error> {
        native(&self.value)
    }
}

/// A value of the engine as plain data. A secret in it makes the result of the template secret.
pub(crate) fn native(value: &Jinja) -> Result<Value, Error> {
    let (run, _) = current().ok_or_else(|| wrong("no host"))?;
    let value = text::take(&run, value, &Place::whole(""), 0)?;
    let value = value.unwrap_or_else(|| Value::new(Data::Null, Place::whole("")));
    if text::has_secret(&value) {
        run.touch_secret();
    }
    Ok(value)
}

/// A value as text, none as nothing.
pub(crate) fn display(value: &Jinja) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Ok(text::display(&native(value)?)),
    }
}

/// A value as Python's `str` gives it: none as `None`.
fn display_python(value: &Jinja) -> Result<String, Error> {
    if value.is_none() {
        Ok("None".to_owned())
    } else {
        display(value)
    }
}

/// Plain data as a value of the engine.
pub(crate) fn engine(value: &Value) -> Jinja {
    match &value.data {
        Data::Null => Jinja::from(()),
        Data::Bool(value) => Jinja::from(*value),
        Data::Int(value) => match i64::try_from(*value) {
            Ok(value) => Jinja::from(value),
            Err(_) => Jinja::from(*value),
        },
        Data::Float(value) => Jinja::from(*value),
        Data::Str(text) | Data::Unsafe(text) => Jinja::from(text.as_str()),
        Data::Vault(text) => Jinja::from(&**text),
        Data::List(list) => Jinja::from(list.iter().map(engine).collect::<Vec<_>>()),
        Data::Map(map) => Jinja::from_pairs(
            map.iter()
                .map(|(key, entry)| (Jinja::from(key.as_str()), engine(&entry.value))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_here_is_among_the_names() {
        for (name, _) in FILTERS {
            let known = NAMES.contains(name) || matches!(*name, "d" | "md5" | "sha1" | "pow" | "log" | "root");
            assert!(known, "{name}");
        }
    }
}
