//! Tests of the YAML reader.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn read(text: &str) -> Value {
    parse(text, &"t.yml".into()).unwrap().value
}

fn fault(text: &str) -> Diagnostic {
    parse(text, &"t.yml".into()).unwrap_err()
}

#[test]
fn places_are_those_of_the_values_and_keys() {
    let value = read("a: 1\nb:\n  - x\n  - {c: d}\n");
    assert_eq!(
        value.get("b").unwrap().as_list().unwrap()[1]
            .get("c")
            .unwrap()
            .place
            .to_string(),
        "t.yml:4:9"
    );
    assert_eq!(value.as_map().unwrap()["b"].key_place.to_string(), "t.yml:2:1");
}

#[test]
fn a_duplicate_key_is_an_error_with_both_places() {
    let fault = fault("a: 1\nb: 2\na: 3\n");
    assert_eq!(
        (fault.code, fault.to_string().as_str()),
        (
            "inventory/yaml-duplicate-key",
            "t.yml:3:1: the key `a` stands here a second time"
        )
    );
    assert_eq!(fault.notes[0].0.as_ref().unwrap().to_string(), "t.yml:1:1");
}

#[test]
fn merge_keys_work_as_in_pyyaml() {
    let value =
        read("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\none: {<<: *x, b: 9}\ntwo: {<<: [*x, *y], d: 5}\nq: {'<<': 1}\n");
    assert_eq!(value.get("one").unwrap().to_json(), json!({"a": 1, "b": 9}));
    assert_eq!(
        value.get("two").unwrap().to_json(),
        json!({"a": 1, "b": 2, "c": 4, "d": 5})
    );
    assert_eq!(value.get("q").unwrap().to_json(), json!({"<<": 1}));
    assert_eq!(fault("a: {<<: 1}").code, "inventory/yaml-value");
}

#[test]
fn tags_are_kept_or_refused() {
    let value = read(
        "v: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  00\nu: !unsafe '{{ x }}'\nm: !unsafe {k: '{{ x }}'}\ni: !!int '3'\ns: !!str 3\n",
    );
    assert_eq!(
        value.get("v").unwrap().data,
        Data::Vault("$ANSIBLE_VAULT;1.1;AES256\n00\n".into())
    );
    assert_eq!(value.get("u").unwrap().data, Data::Unsafe("{{ x }}".into()));
    assert_eq!(
        value.get("m").unwrap().get("k").unwrap().data,
        Data::Unsafe("{{ x }}".into())
    );
    assert_eq!(value.get("i").unwrap().data, Data::Int(3));
    assert_eq!(value.get("s").unwrap().data, Data::Str("3".into()));
    assert_eq!(fault("a: !foo x").code, "inventory/yaml-tag");
    assert_eq!(fault("a: !!python/object:os.system x").code, "inventory/yaml-tag");
}

#[test]
fn json_is_read_as_json() {
    assert_eq!(
        read("{\"a\": 1e3, \"b\": \"yes\", \"c\": {\"__ansible_unsafe\": \"x\"}, \"d\": \"\\ud83d\\ude00\"}").to_json(),
        json!({"a": 1000.0, "b": "yes", "c": {"__ansible_unsafe": "x"}, "d": "😀"})
    );
    assert_eq!(read("{a: 1e3}").to_json(), json!({"a": "1e3"}));
}

#[test]
fn bombs_tabs_and_second_documents_are_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..9 {
        let list = vec![format!("*a{}", i - 1); 10].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{list}]\n"));
    }
    assert_eq!(fault(&bomb).code, "inventory/yaml-bound");
    assert_eq!(fault(&"[".repeat(5000)).place.unwrap().line, 1);
    assert_eq!(fault("a: &a [*a]\n").code, "inventory/yaml-syntax");
    assert_eq!(fault("a:\n\tb: 1\n").place.unwrap().line, 2);
    assert_eq!(fault("a: 1\n---\nb: 1\n").place.unwrap().to_string(), "t.yml:2:1");
    assert_eq!(fault("a: *nope\n").code, "inventory/yaml-syntax");
    assert_eq!(fault("a: {{ x }}\n").code, "inventory/yaml-value");
}

#[test]
fn keys_that_python_takes_for_one_are_duplicates() {
    for text in ["1: a\ntrue: b\n", "yes: a\non: b\n", "0: a\n0.0: b\n", "2.0: a\n2: b\n"] {
        assert_eq!(fault(text).code, "inventory/yaml-duplicate-key", "{text}");
    }
    assert_eq!(
        read("2: a\ntrue: b\n\"1\": c\n").to_json(),
        json!({"2": "a", "true": "b", "1": "c"})
    );
}

#[test]
fn marks_of_windows_do_no_harm() {
    assert_eq!(
        read("\u{feff}a: 1\r\nb: |\r\n  x\r\n  y\r\n").to_json(),
        json!({"a": 1, "b": "x\ny\n"})
    );
}

#[test]
fn a_number_in_base_60_is_warned_about() {
    let document = parse("mac: 12:30:45\n", &"t.yml".into()).unwrap();
    assert_eq!(document.warnings[0].code, "inventory/yaml-sexagesimal");
    assert_eq!(parse("2: x\nyes: y\n", &"t.yml".into()).unwrap().odd_keys.len(), 2);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse(&text, &"t.yml".into());
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "[-:{}\\[\\]&*!|>'\"%@#,?a<~0-9. \n\t\r]{0,120}") {
        let _ = parse(&text, &"t.yml".into());
    }
}
