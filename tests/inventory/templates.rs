//! Templates against recordings of ansible-core 2.19: `templates.json` holds templates, variables, files and answers;
//! `templates.py` records the answers anew. A difference that is meant stands beside the answer, with its reason.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::Value as Json;
use vmwright::diagnose::Place;
use vmwright::inventory::{Inventory, LoadOptions};

/// `<DIR>` for the directory, as the recordings have it.
fn without_dir(value: Json, dir: &str) -> Json {
    match value {
        Json::String(text) => Json::String(text.replace(dir, "<DIR>")),
        Json::Array(list) => list.into_iter().map(|item| without_dir(item, dir)).collect(),
        Json::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key.replace(dir, "<DIR>"), without_dir(value, dir)))
            .collect(),
        other => other,
    }
}

fn answer(group: &Json, template: &str) -> Json {
    let dir = tempfile::tempdir().unwrap();
    let no_files = serde_json::Map::new();
    for (name, text) in group["files"].as_object().unwrap_or(&no_files) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
    let base = dir.path().display().to_string();
    let mut options = LoadOptions {
        sources: vec!["h,".into()],
        working_dir: dir.path().to_owned(),
        env: BTreeMap::from([
            ("VMW_SET".into(), "from the environment".into()),
            ("VMW_EMPTY".into(), String::new()),
            ("HOME".into(), "/root".into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
        ]),
        allow_pipe_lookup: true,
        may_write: true,
        ..LoadOptions::default()
    };
    if let Some(vars) = group["vars"].as_object() {
        options.extra_vars.push(serde_json::to_string(vars).unwrap());
    }
    let loaded = Inventory::load(&options).unwrap();
    match loaded.inventory.scope("h").render(template, &Place::whole("t")) {
        Ok(value) => serde_json::json!({ "is": without_dir(value.to_json(), &base) }),
        Err(fault) => serde_json::json!({ "error": true, "told": fault.message }),
    }
}

#[test]
fn every_template_gives_what_ansible_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory/templates.json");
    let groups: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut failed, mut count, mut meant) = (String::new(), 0, 0);
    for group in &groups {
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let template = case["t"].as_str().unwrap();
            let got = answer(group, template);
            let theirs = if case.get("error").is_some() {
                serde_json::json!({ "error": true })
            } else {
                serde_json::json!({ "is": case["is"] })
            };
            let want = case.get("ours").unwrap_or(&theirs);
            meant += usize::from(case.get("ours").is_some());
            assert_eq!(
                case.get("ours").is_some(),
                case.get("why").is_some(),
                "{template}: `ours` needs `why`"
            );
            assert_ne!(case.get("ours"), Some(&theirs), "{template}: `ours` is no difference");
            let same = match want.get("error") {
                Some(_) => got.get("error").is_some(),
                None => got.get("is") == want.get("is") && got.get("is").is_some(),
            };
            if !same {
                writeln!(failed, "{template:?}\n  got  {got}\n  want {want}").unwrap();
            }
        }
    }
    assert!(count >= 900, "only {count} templates");
    assert!(meant * 10 < count, "{meant} of {count} differ");
    assert!(failed.is_empty(), "{failed}");
}
