//! One value as YAML on one line, such that YAML 1.1 and 1.2 readers get exactly that value.
//!
//! cloud-init reads with PyYAML, YAML 1.1: a bare `yes` is true, `0644` is 420, `12:30:45` is 45045 and `2024-01-02` a
//! date. The emitter crate quotes those; texts with characters that PyYAML refuses or would fold are written with
//! escapes here. Lists and mappings are written in flow form with every text quoted.

use std::fmt::Write as _;

use minijinja::value::{Value, ValueKind};

/// Why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be written as YAML")]
pub struct NotYaml(pub String);

/// A value on one line.
///
/// # Errors
///
/// What no document can hold: an undefined value, bytes, a macro.
pub fn yaml(value: &Value) -> Result<String, NotYaml> {
    let mut out = String::new();
    write(&mut out, value, false)?;
    Ok(out)
}

/// A text on one line; `flow` is inside `[]` or `{}`, where commas and brackets end a bare text.
pub fn text(text: &str, flow: bool) -> Result<String, NotYaml> {
    if text.chars().all(is_plain_printable) {
        let mut options = serde_saphyr::SerializerOptions::default();
        options.prefer_block_scalars = false;
        options.quote_all = flow;
        let written = serde_saphyr::to_string_with_options(&text, options).map_err(|err| NotYaml(err.to_string()))?;
        return Ok(written.trim_end_matches('\n').to_owned());
    }
    let mut out = String::with_capacity(text.len() + 8);
    out.push('"');
    for c in text.chars() {
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            c if is_plain_printable(c) => out.write_char(c),
            c if u32::from(c) <= 0xFF => write!(out, "\\x{:02X}", u32::from(c)),
            c if u32::from(c) <= 0xFFFF => write!(out, "\\u{:04X}", u32::from(c)),
            c => write!(out, "\\U{:08X}", u32::from(c)),
        };
    }
    out.push('"');
    Ok(out)
}

/// Printable for PyYAML and no break of any kind: what needs no escape for its own sake.
fn is_plain_printable(c: char) -> bool {
    match c {
        '\u{20}'..='\u{7E}' => true,
        // Line and paragraph separator break lines in YAML 1.1; the byte order mark starts a document.
        '\u{2028}' | '\u{2029}' | '\u{FEFF}' => false,
        '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}' => true,
        _ => false,
    }
}

fn write(out: &mut String, value: &Value, flow: bool) -> Result<(), NotYaml> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool | ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => {
            let content = value.as_str().ok_or_else(|| NotYaml("a text".to_owned()))?;
            out.push_str(&text(content, flow)?);
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in items(value)?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(out, &item, true)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in items(value)?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(out, &key, true)?;
                out.push_str(": ");
                let item = value.get_item(&key).map_err(|err| NotYaml(err.to_string()))?;
                write(out, &item, true)?;
            }
            out.push('}');
        }
        kind => return Err(NotYaml(format!("a value of the kind {kind}"))),
    }
    Ok(())
}

fn items(value: &Value) -> Result<minijinja::value::ValueIter, NotYaml> {
    value.try_iter().map_err(|err| NotYaml(err.to_string()))
}

/// A truth value or a number. A float has a dot, and a sign in its exponent: YAML 1.1 takes nothing else for one.
fn number(value: &Value) -> Result<String, NotYaml> {
    if value.kind() == ValueKind::Bool {
        return Ok(value.is_true().to_string());
    }
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let float = f64::try_from(value.clone()).map_err(|err| NotYaml(err.to_string()))?;
    if !float.is_finite() {
        return Err(NotYaml(format!("the number {float}")));
    }
    let text = format!("{float:?}");
    Ok(match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => {
            let mantissa = if mantissa.contains('.') {
                mantissa.to_owned()
            } else {
                format!("{mantissa}.0")
            };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{mantissa}e{sign}{exponent}")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minijinja::value::Serde;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::inventory::yaml;

    /// Texts that YAML readers like to take for something else.
    const HARD: &[&str] = &[
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "n",
        "Y",
        "0644",
        "0o644",
        "0b101",
        "0x1F",
        "12:30:45",
        "1_000",
        "1e3",
        "1.5e+3",
        "1.",
        "-.5",
        "+.inf",
        ".nan",
        "2024-01-02",
        "2024-01-02T03:04:05Z",
        "~",
        "null",
        "",
        "#x",
        " lead",
        "trail ",
        "a: b",
        "- a",
        "!x",
        "&a",
        "*a",
        "%x",
        "@x",
        "`x",
        "{a",
        "[a",
        "multi\nline",
        "multi\nline\n",
        "\ttab",
        "é",
        "\u{85}x",
        "a\u{2028}b",
        "true",
        "True",
        "1",
        "-0",
        "+1",
        "190:20:30",
        "---",
        "...",
        "? x",
        "key:",
        "'q'",
        "\"q\"",
        "\\n",
        "x #c",
        "\u{feff}bom",
        "$ANSIBLE_VAULT;1.1",
        "=",
        "<<",
        "11:22:33:44:55:06",
        "a, b",
        "a]",
        "a}",
        "::/0",
        "0.0.0.0/0",
        "\r\n",
        "\u{7f}",
        "\u{0}",
        "\u{fffe}",
        "\u{1f600}",
        "ALL=(ALL) NOPASSWD:ALL",
        "%ansible ALL=(ALL) NOPASSWD:ALL\n",
        "-",
        "?",
        ":",
        "...x",
        "--- x",
        "a\u{a0}b",
        "\u{200b}",
        "x:y",
        "x :y",
        "1:2",
        "0:0",
        "685_230.15",
        "0.",
        "00",
        "+",
        "|",
        ">",
        "| x",
    ];

    fn document(texts: &[String]) -> String {
        let mut out = String::new();
        for (i, value) in texts.iter().enumerate() {
            let block = text(value, false).unwrap();
            let flow = yaml(&Value::from(Serde(json!({"k": [value, {value.as_str(): value}]})))).unwrap();
            assert!(
                !block.contains('\n') && !flow.contains('\n'),
                "{value:?} takes more than one line"
            );
            out.push_str(&format!(
                "b{i}: {block}\nf{i}: {flow}\nl{i}:\n  - {block}\nm{i}:\n  {block}: 1\n"
            ));
        }
        out
    }

    fn expected(texts: &[String]) -> Json {
        let mut map = serde_json::Map::new();
        for (i, value) in texts.iter().enumerate() {
            map.insert(format!("b{i}"), json!(value));
            map.insert(format!("f{i}"), json!({"k": [value, {value.as_str(): value}]}));
            map.insert(format!("l{i}"), json!([value]));
            map.insert(format!("m{i}"), json!({value.as_str(): 1}));
        }
        Json::Object(map)
    }

    fn read_back(document: &str) -> Json {
        let name: Arc<str> = "test".into();
        yaml::parse(document, &name)
            .unwrap_or_else(|err| panic!("{err}\n{document}"))
            .value
            .to_json()
    }

    fn hard() -> Vec<String> {
        HARD.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn hard_texts_survive_our_own_reader() {
        let mut want = expected(&hard());
        want.sort_all_objects();
        assert_eq!(read_back(&document(&hard())), want);
    }

    /// The reader that counts: PyYAML's safe loader, as in cloud-init. Many random texts in one go.
    #[test]
    fn any_text_survives_pyyaml() {
        let probe = std::process::Command::new("python3")
            .args(["-c", "import yaml"])
            .output();
        if !probe.is_ok_and(|out| out.status.success()) {
            eprintln!("SKIPPED: python3 with PyYAML is not here: emission is not tested against it");
            return;
        }
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let pieces =
            "([ -~]|[yYnN0-9:._+eE-]{1,8}|\\PC|[\u{0}-\u{1f}\u{7f}-\u{a0}\u{2028}\u{2029}\u{feff}\u{fffe}]){0,12}";
        let strategy = proptest::string::string_regex(pieces).unwrap();
        let mut texts = hard();
        for _ in 0..1500 {
            texts.push(strategy.new_tree(&mut runner).unwrap().current());
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("doc.yml"), document(&texts)).unwrap();
        std::fs::write(dir.path().join("want.json"), expected(&texts).to_string()).unwrap();
        let script = "import yaml, json, io, sys\n\
                      got = yaml.safe_load(io.open('doc.yml', encoding='utf-8', newline='').read())\n\
                      want = json.load(io.open('want.json', encoding='utf-8'))\n\
                      bad = [(k, want[k], got.get(k)) for k in want if got.get(k) != want[k] or type(got.get(k)) != type(want[k])]\n\
                      print(ascii(bad[:5])); sys.exit(bool(bad))";
        let out = std::process::Command::new("python3")
            .args(["-c", script])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }

    #[test]
    fn ordinary_texts_are_written_bare() {
        for value in [
            "web-0",
            "web-0.lab.test",
            "Etc/UTC",
            "/bin/bash",
            "10.0.20.31/24",
            "users,admin",
        ] {
            assert_eq!(text(value, false).unwrap(), value);
        }
    }

    #[test]
    fn other_values() {
        let table = [
            (json!(null), "null"),
            (json!(true), "true"),
            (json!(12), "12"),
            (json!(-3), "-3"),
            (json!(1.5), "1.5"),
            (json!(1e300), "1.0e+300"),
            (json!(1e-7), "1.0e-7"),
            (json!([]), "[]"),
            (json!({}), "{}"),
        ];
        for (value, want) in table {
            assert_eq!(yaml(&Value::from(Serde(value))).unwrap(), want);
        }
        assert!(yaml(&Value::from(f64::NAN)).is_err());
        assert!(yaml(&Value::UNDEFINED).is_err());
    }

    proptest! {
        #[test]
        fn any_text_survives_our_own_reader(texts in proptest::collection::vec(any::<String>(), 1..4)) {
            let mut want = expected(&texts);
            want.sort_all_objects();
            prop_assert_eq!(read_back(&document(&texts)), want);
        }
    }
}
