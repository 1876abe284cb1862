//! Filters that write and read JSON and YAML.

use minijinja::Error;
use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, engine, native, wrong};
use super::value::{Data, Value};
use super::{encode, text, yaml, yaml_write};
use crate::diagnose::Place;

pub(crate) fn to_json(call: &Call<'_>) -> Outcome {
    let indent = call
        .arg_int(usize::MAX, "indent")?
        .and_then(|indent| usize::try_from(indent).ok());
    let sort = call.arg_flag(usize::MAX, "sort_keys")?.unwrap_or(false);
    let ascii = call.arg_flag(usize::MAX, "ensure_ascii")?.unwrap_or(true);
    let separators = match call.arg(usize::MAX, "separators")?.filter(|pair| !pair.is_none()) {
        None => None,
        Some(pair) => match native(&pair)?.as_list() {
            Some([item, key]) => Some((text::display(item), text::display(key))),
            _ => return Err(wrong("to_json: separators are two texts")),
        },
    };
    let mut style = encode::JsonStyle::new(indent, sort, ascii);
    if let Some((item, key)) = separators {
        (style.item, style.key) = (item, key);
    }
    Ok(Jinja::from(style.write(&call.native()?)))
}

pub(crate) fn to_nice_json(call: &Call<'_>) -> Outcome {
    let indent = call
        .arg_int(0, "indent")?
        .and_then(|indent| usize::try_from(indent).ok())
        .unwrap_or(4);
    let sort = call.arg_flag(usize::MAX, "sort_keys")?.unwrap_or(true);
    let ascii = call.arg_flag(usize::MAX, "ensure_ascii")?.unwrap_or(true);
    Ok(Jinja::from(
        encode::JsonStyle::new(Some(indent), sort, ascii).write(&call.native()?),
    ))
}

pub(crate) fn from_json(call: &Call<'_>) -> Outcome {
    let json: serde_json::Value =
        serde_json::from_str(&call.text()?).map_err(|error| wrong(format!("from_json: {error}")))?;
    Ok(engine(&Value::from_json(&json, &Place::whole(""))))
}

pub(crate) fn to_yaml(call: &Call<'_>) -> Outcome {
    yaml_text(call, false, 2)
}

pub(crate) fn to_nice_yaml(call: &Call<'_>) -> Outcome {
    yaml_text(call, true, 4)
}

fn yaml_text(call: &Call<'_>, nice: bool, indent: usize) -> Outcome {
    let number = |position: usize, name: &str| -> Result<Option<usize>, Error> {
        Ok(call
            .arg_int(position, name)?
            .and_then(|number| usize::try_from(number).ok()))
    };
    let flow = call.arg_flag(usize::MAX, "default_flow_style")?;
    let style = yaml_write::Style {
        indent: number(0, "indent")?.unwrap_or(indent).clamp(2, 9),
        sort: call.arg_flag(usize::MAX, "sort_keys")?.unwrap_or(true),
        width: number(usize::MAX, "width")?.unwrap_or(80),
        lines: match flow {
            Some(true) => yaml_write::Lines::One,
            Some(false) => yaml_write::Lines::Block,
            None if nice => yaml_write::Lines::Block,
            None => yaml_write::Lines::Leaves,
        },
    };
    Ok(Jinja::from(yaml_write::write(&call.native()?, &style)))
}

pub(crate) fn from_yaml(call: &Call<'_>) -> Outcome {
    if call.value.as_str().is_none() {
        return Ok(call.value.clone());
    }
    let document = yaml::parse(&call.text()?, &"from_yaml".into()).map_err(|fault| wrong(fault.to_string()))?;
    Ok(engine(&document.value))
}

/// `from_yaml_all`: the documents of a text, as a list.
pub(crate) fn from_yaml_all(call: &Call<'_>) -> Outcome {
    let text = call.text()?;
    let mut documents: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut began = false;
    for line in text.lines() {
        let mark = |mark: &str| {
            line.strip_prefix(mark)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if mark("---") || mark("...") {
            if began || !current.trim().is_empty() {
                documents.push(std::mem::take(&mut current));
            }
            current.clear();
            began = mark("---");
            if began {
                current.push_str(&line[3..]);
                current.push('\n');
            }
        } else {
            current.push_str(line);
            current.push('\n');
        }
    }
    if began || !current.trim().is_empty() {
        documents.push(current);
    }
    let documents = documents.iter().map(|text| {
        let document = yaml::parse(text, &"from_yaml_all".into()).map_err(|fault| wrong(fault.to_string()))?;
        Ok(document.value)
    });
    let documents = documents.collect::<Result<_, Error>>()?;
    Ok(engine(&Value::new(Data::List(documents), Place::whole(""))))
}
