//! Filters over lists and mappings.

use indexmap::IndexMap;
use minijinja::Error;
use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, engine, native, wrong};
use super::template::current;
use super::text;
use super::value::{Data, Entry, Value};
use crate::diagnose::Place;

type Map = IndexMap<String, Entry>;

fn nowhere() -> Place {
    Place::whole("")
}

fn entry(value: Value) -> Entry {
    Entry {
        key_place: nowhere(),
        value,
    }
}

fn list(value: Value, what: &str) -> Result<Vec<Value>, Error> {
    match value.data {
        Data::List(list) => Ok(list),
        // Python iterates over the keys of a mapping.
        Data::Map(map) => Ok(map.into_iter().map(|(key, _)| Value::text(key, nowhere())).collect()),
        _ => Err(wrong(format!("{what} needs a list, not a {}", value.type_name()))),
    }
}

fn map(value: Value, what: &str) -> Result<Map, Error> {
    match value.data {
        Data::Map(map) => Ok(map),
        _ => Err(wrong(format!("{what} needs a mapping, not a {}", value.type_name()))),
    }
}

fn seq(values: Vec<Value>) -> Jinja {
    engine(&Value::new(Data::List(values), nowhere()))
}

/// Equal as Python has it: 1 and 1.0 and True are the same.
fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match &value.data {
        Data::Bool(value) => Some(f64::from(u8::from(*value))),
        Data::Int(value) => Some(*value as f64),
        Data::Float(value) => Some(*value),
        _ => None,
    };
    match (&a.data, &b.data) {
        (Data::Int(a), Data::Int(b)) => a == b,
        (Data::List(a), Data::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Data::Map(a), Data::Map(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(&a.value, &b.value)))
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => match (a.as_str(), b.as_str()) {
                (Some(a), Some(b)) => a == b,
                _ => matches!((&a.data, &b.data), (Data::Null, Data::Null)),
            },
        },
    }
}

fn has(list: &[Value], value: &Value) -> bool {
    list.iter().any(|item| same(item, value))
}

fn unique(values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for value in values {
        if !has(&out, &value) {
            out.push(value);
        }
    }
    out
}

pub(crate) fn combine(call: &Call<'_>) -> Outcome {
    let recursive = call.arg_flag(usize::MAX, "recursive")?.unwrap_or(false);
    let merge = call
        .arg_text(usize::MAX, "list_merge")?
        .unwrap_or_else(|| "replace".to_owned());
    if !matches!(
        merge.as_str(),
        "replace" | "keep" | "append" | "prepend" | "append_rp" | "prepend_rp"
    ) {
        return Err(wrong(format!("combine: list_merge `{merge}` is unknown")));
    }
    call.no_other_names()?;
    let mut maps = Vec::new();
    for value in std::iter::once(&call.value).chain(call.args()) {
        let value = native(value)?;
        match value.data {
            Data::List(list) => {
                for item in list {
                    maps.push(self::map(item, "combine")?);
                }
            }
            // As in Ansible, nothing adds nothing.
            Data::Null => {}
            _ => maps.push(self::map(value, "combine")?),
        }
    }
    let mut out = Map::new();
    for map in maps {
        merge_maps(&mut out, map, recursive, &merge);
    }
    Ok(engine(&Value::new(Data::Map(out), nowhere())))
}

fn merge_maps(into: &mut Map, from: Map, recursive: bool, merge: &str) {
    for (key, new) in from {
        let Some(old) = into.get_mut(&key) else {
            into.insert(key, new);
            continue;
        };
        match (&mut old.value.data, new.value.data) {
            (Data::Map(old), Data::Map(new)) if recursive => merge_maps(old, new, recursive, merge),
            (Data::List(old), Data::List(new)) => match merge {
                "keep" => {}
                "append" => old.extend(new),
                "prepend" => *old = new.into_iter().chain(old.drain(..)).collect(),
                "append_rp" => {
                    old.retain(|item| !has(&new, item));
                    old.extend(new);
                }
                "prepend_rp" => {
                    let kept: Vec<Value> = old.drain(..).filter(|item| !has(&new, item)).collect();
                    *old = new.into_iter().chain(kept).collect();
                }
                _ => *old = new,
            },
            (old, new) => *old = new,
        }
    }
}

pub(crate) fn dict2items(call: &Call<'_>) -> Outcome {
    let key_name = call.arg_text(0, "key_name")?.unwrap_or_else(|| "key".to_owned());
    let value_name = call.arg_text(1, "value_name")?.unwrap_or_else(|| "value".to_owned());
    let items = map(call.native()?, "dict2items")?.into_iter().map(|(key, value)| {
        let item = Map::from([
            (key_name.clone(), entry(Value::text(key, nowhere()))),
            (value_name.clone(), value),
        ]);
        Value::new(Data::Map(item), nowhere())
    });
    Ok(seq(items.collect()))
}

pub(crate) fn items2dict(call: &Call<'_>) -> Outcome {
    let key_name = call.arg_text(0, "key_name")?.unwrap_or_else(|| "key".to_owned());
    let value_name = call.arg_text(1, "value_name")?.unwrap_or_else(|| "value".to_owned());
    let mut out = Map::new();
    for item in list(call.native()?, "items2dict")? {
        let mut item = map(item, "items2dict")?;
        let (Some(key), Some(value)) = (item.shift_remove(&key_name), item.shift_remove(&value_name)) else {
            return Err(wrong(format!(
                "items2dict needs mappings with `{key_name}` and `{value_name}`"
            )));
        };
        let key =
            super::scalar::key_text(&key.value.data).ok_or_else(|| wrong("items2dict: a key is a list or mapping"))?;
        out.insert(key, value);
    }
    Ok(engine(&Value::new(Data::Map(out), nowhere())))
}

pub(crate) fn flatten(call: &Call<'_>) -> Outcome {
    let levels = call.arg_int(0, "levels")?.unwrap_or(i64::MAX);
    let skip = call.arg_flag(1, "skip_nulls")?.unwrap_or(true);
    let mut out = Vec::new();
    flat(list(call.native()?, "flatten")?, levels, skip, &mut out);
    Ok(seq(out))
}

fn flat(list: Vec<Value>, levels: i64, skip: bool, out: &mut Vec<Value>) {
    for item in list {
        match item.data {
            Data::Null if skip => {}
            Data::Str(text) if skip && matches!(text.as_str(), "None" | "null") => {}
            Data::List(inner) if levels > 0 => flat(inner, levels - 1, skip, out),
            _ => out.push(item),
        }
    }
}

/// The value and the first argument, as lists.
fn two(call: &Call<'_>) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let other = call
        .args()
        .first()
        .ok_or_else(|| wrong(format!("{} needs a second list", call.name)))?;
    Ok((list(call.native()?, call.name)?, list(native(other)?, call.name)?))
}

pub(crate) fn union(call: &Call<'_>) -> Outcome {
    let (a, b) = two(call)?;
    Ok(seq(unique(a.into_iter().chain(b))))
}

pub(crate) fn intersect(call: &Call<'_>) -> Outcome {
    let (a, b) = two(call)?;
    Ok(seq(unique(a.into_iter().filter(|item| has(&b, item)))))
}

pub(crate) fn difference(call: &Call<'_>) -> Outcome {
    let (a, b) = two(call)?;
    Ok(seq(unique(a.into_iter().filter(|item| !has(&b, item)))))
}

pub(crate) fn symmetric_difference(call: &Call<'_>) -> Outcome {
    let (a, b) = two(call)?;
    let left: Vec<Value> = a.iter().filter(|item| !has(&b, item)).cloned().collect();
    let right = b.into_iter().filter(|item| !has(&a, item));
    Ok(seq(unique(left.into_iter().chain(right))))
}

pub(crate) fn extract(call: &Call<'_>) -> Outcome {
    let container = call.args().first().ok_or_else(|| wrong("extract needs a container"))?;
    let get = |container: &Jinja, key: &Jinja| -> Outcome {
        let found = match (super::text::key(key), container.kind()) {
            (Some(name), minijinja::value::ValueKind::Map) => container.get_item(&Jinja::from(name))?,
            _ => container.get_item(key)?,
        };
        let found = if found.is_undefined() {
            container.get_item(key)?
        } else {
            found
        };
        // A `default` behind it may still help.
        if found.is_undefined()
            && let Some((run, _)) = current()
        {
            run.miss(format!("extract: {key}"));
        }
        Ok(found)
    };
    let mut found = get(container, &call.value)?;
    if let Some(more) = call.arg(1, "morekeys")? {
        let keys: Vec<Jinja> = match more.as_str() {
            Some(_) => vec![more],
            None => more.try_iter()?.checked().collect::<Result<_, _>>()?,
        };
        for key in keys {
            call.defined(&found)?;
            found = get(&found, &key)?;
        }
    }
    Ok(found)
}

fn all_lists(call: &Call<'_>) -> Result<Vec<Vec<Value>>, Error> {
    std::iter::once(&call.value)
        .chain(call.args())
        .map(|value| list(native(value)?, call.name))
        .collect()
}

pub(crate) fn zip_longest(call: &Call<'_>) -> Outcome {
    let fill = match call.arg(usize::MAX, "fillvalue")? {
        Some(value) => native(&value)?,
        None => Value::new(Data::Null, nowhere()),
    };
    let lists = all_lists(call)?;
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let rows = (0..longest).map(|i| {
        let row = lists.iter().map(|list| list.get(i).unwrap_or(&fill).clone());
        Value::new(Data::List(row.collect()), nowhere())
    });
    Ok(seq(rows.collect()))
}

const MAX_PRODUCT: usize = 100_000;

pub(crate) fn product(call: &Call<'_>) -> Outcome {
    let lists = all_lists(call)?;
    let size = lists.iter().try_fold(1usize, |size, list| size.checked_mul(list.len()));
    if size.is_none_or(|size| size > MAX_PRODUCT) {
        return Err(wrong(format!("product: more than {MAX_PRODUCT} combinations")));
    }
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for list in lists {
        rows = rows
            .into_iter()
            .flat_map(|row| {
                list.iter().map(move |item| {
                    let mut row = row.clone();
                    row.push(item.clone());
                    row
                })
            })
            .collect();
    }
    Ok(seq(rows
        .into_iter()
        .map(|row| Value::new(Data::List(row), nowhere()))
        .collect()))
}

pub(crate) fn combinations(call: &Call<'_>) -> Outcome {
    let size = call.arg_int(0, "set_size")?.unwrap_or(0);
    let size = usize::try_from(size).map_err(|_| wrong("combinations: negative size"))?;
    let items = list(call.native()?, "combinations")?;
    let mut rows = Vec::new();
    let mut chosen = Vec::new();
    choose(&items, size, 0, &mut chosen, &mut rows)?;
    Ok(seq(rows))
}

fn choose(
    items: &[Value],
    size: usize,
    from: usize,
    chosen: &mut Vec<Value>,
    rows: &mut Vec<Value>,
) -> Result<(), Error> {
    if chosen.len() == size {
        if rows.len() >= MAX_PRODUCT {
            return Err(wrong(format!("combinations: more than {MAX_PRODUCT}")));
        }
        rows.push(Value::new(Data::List(chosen.clone()), nowhere()));
        return Ok(());
    }
    for i in from..items.len() {
        if items.len() - i < size - chosen.len() {
            break;
        }
        chosen.push(items[i].clone());
        choose(items, size, i + 1, chosen, rows)?;
        chosen.pop();
    }
    Ok(())
}

pub(crate) fn subelements(call: &Call<'_>) -> Outcome {
    let path = call.args().first().ok_or_else(|| wrong("subelements needs a path"))?;
    let keys: Vec<String> = match native(path)?.data {
        Data::Str(text) => text.split('.').map(str::to_owned).collect(),
        Data::List(list) => list.iter().map(text::display).collect(),
        _ => return Err(wrong("subelements: the path is text or a list of texts")),
    };
    let skip = call.arg_flag(1, "skip_missing")?.unwrap_or(false);
    let value = call.native()?;
    let items = match value.data {
        Data::Map(map) => map.into_iter().map(|(_, entry)| entry.value).collect(),
        _ => list(value, "subelements")?,
    };
    let mut rows = Vec::new();
    for item in items {
        let mut inner = Some(&item);
        for key in &keys {
            inner = inner.and_then(|value| value.get(key));
        }
        match inner.map(|inner| &inner.data) {
            Some(Data::List(inner)) => {
                for sub in inner {
                    rows.push(Value::new(Data::List(vec![item.clone(), sub.clone()]), nowhere()));
                }
            }
            None if skip => {}
            _ => {
                return Err(wrong(format!(
                    "subelements: `{}` is not a list in every item",
                    keys.join(".")
                )));
            }
        }
    }
    Ok(seq(rows))
}

pub(crate) fn is_subset(a: &Jinja, b: &Jinja) -> Result<bool, Error> {
    let (a, b) = (list(native(a)?, "subset")?, list(native(b)?, "subset")?);
    Ok(a.iter().all(|item| has(&b, item)))
}

pub(crate) fn contains(a: &Jinja, b: &Jinja) -> Result<bool, Error> {
    let (a, b) = (native(a)?, native(b)?);
    Ok(match (&a.data, b.as_str()) {
        (Data::Str(text), Some(part)) => text.contains(part),
        (Data::Map(map), Some(key)) => map.contains_key(key),
        (Data::List(list), _) => has(list, &b),
        _ => false,
    })
}
