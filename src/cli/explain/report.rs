//! What `explain` tells, as JSON: gathered and masked, not yet laid out.

use serde_json::{Value as Json, json};

use super::masks::Masks;
use super::own;
use crate::cli::inventory::is_template;
use crate::cli::prepare::VM_GROUP;
use crate::diagnose::{Diagnostic, Place, nearest};
use crate::inventory::explain::{Definition, Explained, Inside, KeyPath, Part, inside, is_merged};
use crate::inventory::trace::{Step, What};
use crate::inventory::value::{Data, Value};
use crate::inventory::{Inventory, Scope};
use crate::machine::schema::{self, Fallback};
use crate::secret::MASK;

/// The most uses of one template that are told one by one: a loop may have thousands.
const USES: usize = 24;

/// A place for programs; lines and columns only where there are any.
fn place(place: &Place) -> Json {
    match (place.line, place.column) {
        (0, _) => json!({"file": &*place.file}),
        (line, 0) => json!({"file": &*place.file, "line": line}),
        (line, column) => json!({"file": &*place.file, "line": line, "column": column}),
    }
}

fn whole(name: &str) -> KeyPath {
    KeyPath {
        name: name.to_owned(),
        inside: Vec::new(),
    }
}

/// All variables of a host, and what is wrong with some.
pub(super) fn host(inventory: &Inventory, host: &str, masks: &Masks) -> (Json, Vec<Diagnostic>) {
    let scope = inventory.scope(host);
    let definitions = inventory.definitions(host);
    let mut problems: Vec<Diagnostic> = Vec::new();
    let variables = definitions.iter().map(|(name, list)| {
        let explained = scope.explain(&whole(name));
        let raw = scope.raw(name);
        let at = list.last().map(|last| &last.value.place);
        let mut told = json!({
            "name": &**name,
            "place": at.map(place),
            "layer": list.last().map(|last| last.layer.to_string()),
            "overrides": list.len().saturating_sub(1),
        });
        if raw.is_some_and(|raw| is_merged(raw, list)) {
            told["merged"] = Json::from(true);
        }
        outcome(&mut told, name, &explained, masks);
        if let Err(problem) = explained.value {
            problems.push(*problem);
        }
        told
    });
    let variables: Vec<Json> = variables.collect();
    let groups: Vec<Json> = inventory
        .ranks(host)
        .into_iter()
        .map(|rank| json!({"name": rank.name, "depth": rank.depth, "priority": i64::try_from(rank.priority).ok()}))
        .collect();
    // Of a host that is no VM vmwright asks little.
    let vm = inventory.in_group(host, VM_GROUP);
    let defaults: Vec<Json> = schema::variables()
        .filter(|variable| vm && !variable.name.contains('.') && scope.raw(variable.name).is_none())
        .filter_map(|variable| match variable.fallback {
            Fallback::Text(text) => Some(json!({"name": variable.name, "value": text, "type": variable.kind})),
            Fallback::Required | Fallback::Nothing | Fallback::Derived(_) => None,
        })
        .collect();
    let told = json!({"host": host, "groups": groups, "variables": variables, "defaults": defaults});
    (told, problems)
}

/// Adds the value, or what is wrong.
fn outcome(told: &mut Json, label: &str, explained: &Explained, masks: &Masks) {
    match &explained.value {
        Ok(Some(value)) => {
            told["value"] = masks.show(label, value, false);
            told["type"] = Json::from(value.type_name());
        }
        Ok(None) => told["omitted"] = Json::from(true),
        Err(problem) => told["error"] = Json::from(problem.message.as_str()),
    }
    if !explained.steps.is_empty() {
        told["template"] = Json::from(true);
    }
}

/// One variable or a place in one, and what is wrong with it.
pub(super) fn key(
    inventory: &Inventory,
    host: &str,
    path: &KeyPath,
    masks: &Masks,
) -> Result<(Json, Vec<Diagnostic>), Box<Diagnostic>> {
    let scope = inventory.scope(host);
    let label = path.to_string();
    let explained = scope.explain(path);
    let definitions = inventory.definitions(host);
    let list = definitions.get(&*path.name).map(Vec::as_slice).unwrap_or_default();
    let default = default_of(path);
    let missing = matches!(explained.value, Ok(None)) && explained.steps.is_empty();
    if missing && default.is_none() {
        return Err(Box::new(unknown(inventory, host, path, list)));
    }
    let mut told = json!({"host": host, "key": &label});
    if !missing {
        outcome(&mut told, &label, &explained, masks);
        let at = explained.value.as_ref().ok().and_then(Option::as_ref);
        told["place"] = at.map_or(Json::Null, |value| place(&value.place));
        if list.is_empty() {
            told["magic"] = Json::from(true);
        }
    } else if let Some(Fallback::Text(text)) = own(path).map(|own| own.fallback)
        && has_parent(&scope, path)
    {
        told["value"] = Json::from(text);
        told["type"] = Json::from(own(path).map(|own| own.kind));
        told["default_applies"] = Json::from(true);
    }
    let merged = scope.raw(&path.name).is_some_and(|raw| is_merged(raw, list));
    told["definitions"] = list
        .iter()
        .enumerate()
        .rev()
        .map(|(at, definition)| self::definition(definition, path, at + 1 == list.len(), merged, masks))
        .collect();
    if let Some(default) = default {
        told["default"] = default;
    }
    if let Some(own) = own(path) {
        told["meaning"] = Json::from(own.meaning);
    }
    let steps = &explained.steps;
    if !steps.is_empty() {
        told["steps"] = steps.iter().map(|step| self::step(step, steps, masks)).collect();
    }
    let problems = explained.value.err().map(|problem| *problem);
    Ok((told, problems.into_iter().collect()))
}

/// Whether what a path leads into is there: the default of a card's bridge counts only where there is a card.
fn has_parent(scope: &Scope<'_>, path: &KeyPath) -> bool {
    let mut parent = path.clone();
    parent.inside.pop().is_none() || matches!(scope.explain(&parent).value, Ok(Some(_)))
}

/// What vmwright takes where nobody sets a variable of its own.
fn default_of(path: &KeyPath) -> Option<Json> {
    let own = own(path)?;
    Some(match own.fallback {
        Fallback::Text(text) => json!({"kind": "value", "text": text}),
        Fallback::Derived(how) => json!({"kind": "derived", "text": how}),
        Fallback::Required => json!({"kind": "required", "text": "none: it has to be set"}),
        Fallback::Nothing => json!({"kind": "nothing", "text": "none: left to the template, the image or Proxmox"}),
    })
}

/// One definition: what it says at the path, or why it says nothing there.
fn definition(definition: &Definition, path: &KeyPath, wins: bool, merged: bool, masks: &Masks) -> Json {
    let mut told = json!({
        "layer": definition.layer.to_string(),
        "place": place(&definition.value.place),
        "role": match (wins, merged) {
            (_, true) => "merged",
            (true, false) => "wins",
            (false, false) => "overridden",
        },
    });
    let upto = |done: usize| KeyPath {
        name: path.name.clone(),
        inside: path.inside[..done].to_vec(),
    };
    let (value, label) = match inside(&definition.value, &path.inside) {
        Inside::There(value) => (value, path.to_string()),
        Inside::Template(value, done) => (value, upto(done).to_string()),
        Inside::Absent(value, done) => {
            told["without"] = Json::from(upto(done + 1).to_string());
            told["place"] = place(&value.place);
            return told;
        }
    };
    told["place"] = place(&value.place);
    told["value"] = masks.show(&label, value, true);
    told["type"] = Json::from(value.type_name());
    if matches!(&value.data, Data::Str(text) if is_template(text)) {
        told["template"] = Json::from(true);
    }
    told
}

fn step(step: &Step, steps: &[Step], masks: &Masks) -> Json {
    let used = step.used.iter().take(USES).map(|used| {
        let mut told = json!({"name": &used.label});
        match &used.what {
            What::Value(value) => {
                told["value"] = masks.show(&used.label, value, true);
                told["type"] = Json::from(value.type_name());
                told["place"] = place(&value.place);
            }
            What::Magic(text) => {
                told["magic"] = Json::from(true);
                if let Some(text) = text {
                    told["value"] = Json::from(text.as_str());
                }
            }
            What::Step(index) => {
                told["step"] = Json::from(*index);
                if let Some(step) = steps.get(*index) {
                    told["place"] = place(&step.place);
                }
            }
            What::Missing => told["undefined"] = Json::from(true),
        }
        told
    });
    let mut told = json!({
        "name": &step.label,
        "place": place(&step.place),
        "template": if step.secret_text { MASK } else { &step.template },
        "used": used.collect::<Vec<_>>(),
    });
    if step.used.len() > USES {
        told["more"] = Json::from(step.used.len() - USES);
    }
    match &step.result {
        Ok(Some(value)) => {
            told["value"] = masks.show(&step.label, value, false);
            told["type"] = Json::from(value.type_name());
        }
        Ok(None) => told["omitted"] = Json::from(true),
        Err(message) => told["error"] = Json::from(message.as_str()),
    }
    told
}

/// There is no such variable, or nothing at that place in it.
fn unknown(inventory: &Inventory, host: &str, path: &KeyPath, list: &[Definition]) -> Diagnostic {
    let scope = inventory.scope(host);
    let problem = |message: String| Diagnostic::error("cli/no-such-variable", message).host(host);
    let Some(last) = list.last().filter(|_| !path.inside.is_empty()) else {
        let message = format!("`{}` is not defined for {host}", path.name);
        let known = scope.names();
        let ours = schema::variables()
            .map(|own| own.name)
            .filter(|name| !name.contains('.'));
        return match nearest(&path.name, known.into_iter().chain(ours)) {
            Some(near) => problem(message).help(format!("did you mean `{near}`?")),
            None => problem(message).help(format!("see all that are: vmwright explain {host}")),
        };
    };
    // How far the value has the path: a template is evaluated for that.
    let mut upto = whole(&path.name);
    let mut at: Option<Value> = None;
    for part in &path.inside {
        match scope.explain(&upto).value {
            Ok(Some(value)) => at = Some(value),
            Ok(None) | Err(_) => break,
        }
        upto.inside.push(part.clone());
    }
    upto.inside.pop();
    while !upto.inside.is_empty() && !matches!(scope.explain(&upto).value, Ok(Some(_))) {
        upto.inside.pop();
    }
    let part = path.inside.get(upto.inside.len());
    let at = scope.explain(&upto).value.ok().flatten().or(at);
    let Some((value, part)) = at.zip(part) else {
        return problem(format!("`{path}` is not defined for {host}")).at(last.value.place.clone());
    };
    let what = match (&value.data, part) {
        (Data::List(list), Part::Index(_)) => format!("a list of {}", list.len()),
        _ => format!("a {}", value.type_name()),
    };
    let missing = match part {
        Part::Key(key) => format!("key `{key}`"),
        Part::Index(index) => format!("index {index}"),
    };
    let mut told = problem(format!("`{upto}` is {what} without {missing}"))
        .key(path.to_string())
        .at(value.place.clone());
    for definition in list.iter().rev().skip(1) {
        if let Inside::There(lost) = inside(&definition.value, &path.inside) {
            let lost = lost.place.clone();
            told = told.note(
                lost,
                format!("{} has it, and is overridden as a whole", definition.layer),
            );
        }
    }
    let near = match (&value.data, part) {
        (Data::Map(map), Part::Key(key)) => nearest(key, map.keys().map(String::as_str)).map(str::to_owned),
        _ => None,
    };
    match near {
        Some(near) => told.help(format!("did you mean `{near}`?")),
        None => told.help(format!("see what is there: vmwright explain {host} {upto}")),
    }
}
