//! Templates against what ansible-core 2.19.14 answers: each expected value was recorded from its template engine.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;

/// A directory with these files, and the inventory in it.
pub(super) fn load(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Loaded, Vec<Diagnostic>>) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let options = LoadOptions {
        sources: vec!["hosts.ini".into()],
        vault_password_files: files
            .iter()
            .filter(|(name, _)| *name == "pw")
            .map(|(name, _)| name.into())
            .collect(),
        working_dir: dir.path().to_owned(),
        env: BTreeMap::from([("HOME".into(), "/root".into())]),
        ..LoadOptions::default()
    };
    let loaded = Inventory::load(&options);
    (dir, loaded)
}

fn inventory(vars: &str) -> Inventory {
    let hosts = "h.example.com\n[web]\nw1 own=5\nw2\n";
    let (_dir, loaded) = load(&[("hosts.ini", hosts), ("group_vars/all.yml", vars)]);
    loaded.unwrap().inventory
}

const VARS: &str = "
l: [1, 2]
d: {a: 1, b: '{{ nope }}', c: '{{ l }}'}
n: null
u: '{{ nope }}'
u2: 'x {{ nope }}'
s: hello
t: true
f: 1.5
m: '{{ l }}'
";

fn render(inventory: &Inventory, template: &str) -> Result<Json, Diagnostic> {
    let value = inventory
        .scope("h.example.com")
        .render(template, &Place::new("t", 1, 1))?;
    Ok(value.to_json())
}

#[test]
fn templates_give_what_ansible_gives() {
    let inventory = inventory(VARS);
    for (template, want) in [
        ("{{ l }}", json!([1, 2])),
        ("{{ l }}\n", json!([1, 2])),
        (" {{ l }}", json!(" [1, 2]")),
        ("{{ l }}{{ l }}", json!("[1, 2][1, 2]")),
        ("{% if true %}{{ l }}{% endif %}", json!([1, 2])),
        ("{% if false %}{{ l }}{% endif %}", json!(null)),
        ("{{ none }}", json!(null)),
        ("{{ none }}x", json!("x")),
        ("a {{ n }} b", json!("a  b")),
        ("{{ t }} x", json!("True x")),
        ("{{ u | default('z') }}", json!("z")),
        ("{{ u2 | default('z') }}", json!("z")),
        ("{{ d.a }}", json!(1)),
        ("{{ d.b | default('z') }}", json!("z")),
        ("{{ d.nope.deeper | default('z') }}", json!("z")),
        ("{{ nope.a.b | default('z') }}", json!("z")),
        ("{{ d.c }}", json!([1, 2])),
        ("{{ d['c'][1] }}", json!(2)),
        ("{{ '1' }}", json!("1")),
        ("{{ '[1,2]' }}", json!("[1,2]")),
        ("{{ 1 }}2", json!("12")),
        ("{{ f }}x", json!("1.5x")),
        ("{{ l }}x", json!("[1, 2]x")),
        ("{{ {'a': omit} }}", json!({})),
        ("x{{ omit }}", json!("x")),
        ("{{ [1, omit] }}", json!([1])),
        ("{{ 'yes' | bool }} {{ 'false'|bool }}", json!("True False")),
        ("{{ (1,2) }}", json!([1, 2])),
        ("{{ l | map('string') }}", json!(["1", "2"])),
        ("{{ lookup('env','HOME') }}", json!("/root")),
        ("{{ lookup('env','NOPE_X') }}", json!("")),
        ("{{ lookup('vars','s') }}", json!("hello")),
        ("{{ query('vars','s','t') }}", json!(["hello", true])),
        ("{{ lookup('vars','nope', default='q') }}", json!("q")),
        ("{{ '{{ l }}' }}", json!("{{ l }}")),
        (
            "{{ s is defined }} {{ nope is defined }} {{ u is defined }} {{ d.b is defined }}",
            json!("True False False False"),
        ),
        ("{{ true and l }}", json!([1, 2])),
        ("{{ 'a' if l == [1,2] }}", json!("a")),
        ("{{ l + [3] }}", json!([1, 2, 3])),
        ("{{ 'abc' | regex_replace('(b)','\\1X') }}", json!("abXc")),
        ("{{ 'abc' | regex_search('b(c)') }}", json!("bc")),
        ("{{ 'abc' | regex_search('z') }}", json!(null)),
        ("{{ 'abc' | regex_search('(b)(c)', '\\1', '\\2') }}", json!(["b", "c"])),
        ("{{ d.a | ternary('y','n') }}", json!("y")),
        ("{{ 'x' | mandatory('msg') }}", json!("x")),
        (
            "{{ {'a':1} | to_json }} {{ {'a':1} | to_nice_json }}",
            json!("{\"a\": 1} {\n    \"a\": 1\n}"),
        ),
        (
            "{{ {'a':[1,'x y',true,none], 'b': 'yes'} | to_yaml }}",
            json!("a: [1, x y, true, null]\nb: 'yes'\n"),
        ),
        (
            "{{ {'a':[1,'x y',true,none], 'b': 'yes'} | to_nice_yaml }}",
            json!("a:\n- 1\n- x y\n- true\n- null\nb: 'yes'\n"),
        ),
        (
            "{{ [1,2] | to_yaml }}|{{ {'a':1,'b':{'c':2}} | to_nice_yaml(indent=2) }}",
            json!("[1, 2]\n|a: 1\nb:\n  c: 2\n"),
        ),
        (
            "{{ 'a b' | quote }} {{ 'a' | hash('sha1') }} {{ 'a' | checksum }}",
            json!("'a b' 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ),
        (
            "{{ {'a':{'x':1}} | combine({'a':{'y':2}}, recursive=True) }}",
            json!({"a": {"x": 1, "y": 2}}),
        ),
        ("{{ {'a':1} | dict2items }}", json!([{"key": "a", "value": 1}])),
        (
            "{{ [{'n':'a','v':1}] | items2dict(key_name='n', value_name='v') }}",
            json!({"a": 1}),
        ),
        ("{{ [1,[2,[3]]] | flatten(levels=1) }}", json!([1, 2, [3]])),
        (
            "{{ [1,none,2] | flatten }} {{ [1,[2,none]] | flatten(skip_nulls=False) }}",
            json!("[1, 2] [1, 2, None]"),
        ),
        (
            "{{ [1,2,3] | union([3,4]) }} {{ [1,2,3] | difference([1]) }} {{ [1,2]|symmetric_difference([2,3]) }}",
            json!("[1, 2, 3, 4] [2, 3] [1, 3]"),
        ),
        (
            "{{ 'a/b.c' | splitext }} {{ ['a','b'] | path_join }}",
            json!("['a/b', '.c'] a/b"),
        ),
        ("{{ 5 | int }} {{ '5' | int }} {{ 'x' | int }}", json!("5 5 0")),
        ("{{ 1 == 1.0 }} {{ 7/2 }} {{ 6/2 }}", json!("True 3.5 3.0")),
        ("{{ '1.10' is version('1.9','>=') }}", json!(true)),
        ("{# c #}{{ l }}", json!([1, 2])),
        ("{# only #}", json!(null)),
        ("{{ l[5] | default('q') }}", json!("q")),
        ("x {{ s }}\n", json!("x hello\n")),
        ("x {{ s }}\n\n", json!("x hello\n\n")),
        ("{{ s }}\n", json!("hello\n")),
        ("{% if true %}a{% endif %}\nb", json!("ab")),
        ("{{ '1' | int + 1 }}", json!(2)),
        ("{{ 'a: 1' | from_yaml }}", json!({"a": 1})),
        ("{{ s | b64encode | b64decode }}", json!("hello")),
        (
            "{{ 'abc' | regex_findall('[ab]') }} {{ 'a.b' | regex_escape }}",
            json!("['a', 'b'] a\\.b"),
        ),
        ("{{ 'abc' | regex_replace('(?P<x>b)', '\\g<x>Y') }}", json!("abYc")),
        (
            "{{ 1.0 }} {{ 1e20 }} {{ 100000000000000000000 }}",
            json!("1.0 1e+20 100000000000000000000"),
        ),
        ("{{ d.keys() | list }}", json!(["a", "b", "c"])),
        (
            "{{ 'x' is string }} {{ 1 is number }} {{ l is sequence }} {{ d is mapping }}",
            json!("True True True True"),
        ),
        ("{{ ['a'] | first }} {{ [] | first | default('e') }}", json!("a e")),
        (
            "{{ [3,1] | sort }} {{ [1,1] | unique }} {{ [1,2] | zip([3,4]) | list }}",
            json!("[1, 3] [1] [[1, 3], [2, 4]]"),
        ),
        ("{{ 'a=b' | split('=') }}", json!(["a", "b"])),
        ("{{ ('a' ~ none) }} {{ none ~ 'x' }}", json!("aNone Nonex")),
        ("{{ [none] }} {{ {'a': none} }}x", json!("[None] {'a': None}x")),
        ("{{ '' }}", json!("")),
        ("{{ true }}{{ none }}", json!(true)),
        ("{{ s.upper() }} {{ s[0:2] }}", json!("HELLO he")),
        (
            "{{ 'true' | bool }} {{ 1 | bool }} {{ 'on'|bool }} {{ 'off'|bool }} {{ none | bool }}",
            json!("True True True False False"),
        ),
        (
            "{{ {'b':1,'a':2} | to_json }} {{ {'b':1,'a':2} | to_nice_json(indent=2) }} {{ {'b':'é'} | to_json }}",
            json!("{\"b\": 1, \"a\": 2} {\n  \"a\": 2,\n  \"b\": 1\n} {\"b\": \"\\u00e9\"}"),
        ),
        (
            "{{ 5 // 2 }} {{ 2 ** 3 }} {{ -7 // 2 }} {{ -7 % 3 }}",
            json!("2 8 -4 2"),
        ),
        ("{{ {'a': 1}.items() }}", json!([["a", 1]])),
        ("{{ l is contains(1) }} {{ 1 is in l }}", json!("True True")),
        ("{{ [\"it's\", 'q\"'] }}x", json!("[\"it's\", 'q\"']x")),
        ("{{ '1' * 3 }}", json!("111")),
        ("{{ 'a' | to_uuid }}", json!("9b6d1a0c-51b1-5093-93fc-cf09a700edff")),
        (
            "{{ 1024 | human_readable }} {{ '1K' | human_to_bytes }}",
            json!("1.00 KB 1024"),
        ),
        (
            "{{ ['a','b'] | product([1,2]) | list }}",
            json!([["a", 1], ["a", 2], ["b", 1], ["b", 2]]),
        ),
        (
            "{{ [1,2,3] | combinations(2) | list }}",
            json!([[1, 2], [1, 3], [2, 3]]),
        ),
        (
            "{{ '/a/b/c.txt' | basename }} {{ '/a/b/c.txt' | dirname }} {{ '~/x' | expanduser }} {{ '/a/b' | relpath('/a') }}",
            json!("c.txt /a/b /root/x b"),
        ),
        ("{{ '{\"a\": 1e3}' | from_json }}", json!({"a": 1000.0})),
        ("{{ 'x' | comment }}", json!("#\n# x\n#")),
        ("{{ dict([['a',1]]) }} {{ dict(a=1) }}", json!("{'a': 1} {'a': 1}")),
        (
            "{{ 'web01' is match('web') }} {{ 'xweb' is search('web') }} {{ 'web' is regex('^w') }}",
            json!("True True True"),
        ),
        (
            "{{ 'foo' | ansible.builtin.regex_replace('^f(o+)$', 'g\\1') }}",
            json!("goo"),
        ),
        (
            "{{ [{'a':{'b':[1,2]}}] | subelements('a.b') }}",
            json!([[{"a": {"b": [1, 2]}}, 1], [{"a": {"b": [1, 2]}}, 2]]),
        ),
        (
            "{{ ['x','y'] | zip_longest([1], fillvalue='-') | list }}",
            json!([["x", 1], ["y", "-"]]),
        ),
        (
            "{{ 'a b c'.split() }} {{ 'abc'.find('c') }}",
            json!("['a', 'b', 'c'] 2"),
        ),
        (
            "{{ 10 | log(10) }} {{ 9 | root }} {{ 2 | pow(3) }}",
            json!("1.0 3.0 8.0"),
        ),
        ("{{ 'x' | extract({'x': 5}) }} {{ 0 | extract([7]) }}", json!("5 7")),
        ("{{ l | map('extract', {1: 'a', 2: 'b'}) | list }}", json!(["a", "b"])),
        (
            "{{ 3.7 | int }} {{ '3.7' | float }} {{ 3 | float }}",
            json!("3 3.7 3.0"),
        ),
        ("{{ '08' | int }} {{ '0x1f' | int(base=16) }}", json!("8 31")),
        (
            "{{ none | default('x') }} {{ none | default('x', true) }} {{ '' | default('y', boolean=true) }}",
            json!(" x y"),
        ),
        ("{{ 'a' | ternary(1,2) }} {{ none | ternary(1,2,3) }}", json!("1 3")),
        (
            "{{ [{'k':2},{'k':1}] | sort(attribute='k') | map(attribute='k') | list }}",
            json!([1, 2]),
        ),
        (
            "{{ [{'k':2},{}] | map(attribute='k', default=0) | list }}",
            json!([2, 0]),
        ),
        ("{% set a = nope %}b", json!("b")),
        ("{{ '%s' | format(1) }}", json!("1")),
        (
            "{{ d.get('q', 'zz') }} {{ 'a' in d }} {{ 'q' in d }}",
            json!("zz True False"),
        ),
        (
            "{{ groups.web | join(',') }} {{ groups['all'] | length }}",
            json!("w1,w2 3"),
        ),
        (
            "{{ hostvars['w1'].own }} {{ hostvars.w2.inventory_hostname }}",
            json!("5 w2"),
        ),
        (
            "{{ inventory_hostname }} {{ inventory_hostname_short }}",
            json!("h.example.com h"),
        ),
        ("{{ group_names }}", json!(["ungrouped"])),
        (
            "{% for h in groups.web %}{{ h }}={{ hostvars[h].own | default('-') }};{% endfor %}",
            json!("w1=5;w2=-;"),
        ),
        (
            "{{ '10.0.0.5/24' | ansible.utils.ipaddr('address') }}",
            json!("10.0.0.5"),
        ),
        ("{{ 'web' ~ '%02d' | format(3) }}", json!("web03")),
        (
            "{{ l | length }} {{ m | sum }} {{ m[0] }} {{ m[-1] }}",
            json!("2 3 1 2"),
        ),
    ] {
        match render(&inventory, template) {
            Ok(value) => assert_eq!(value, want, "{template}"),
            Err(fault) => panic!("{template}: {fault:?}"),
        }
    }
}

#[test]
fn what_ansible_refuses_is_refused_with_a_name() {
    let inventory = inventory(VARS);
    for (template, code, told) in [
        ("{{ d }}", "inventory/undefined-variable", "`nope` is not defined"),
        (
            "{{ d | combine({'x': 1}) }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope.deeper }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        ("{{ u }}", "inventory/undefined-variable", "`nope` is not defined"),
        ("{{ l[5] }}", "inventory/undefined-variable", "`l[5]` is not defined"),
        (
            "{{ d['zz'] }}",
            "inventory/undefined-variable",
            "`d['zz']` is not defined",
        ),
        ("{{ d.zz.y }}", "inventory/undefined-variable", "`d.zz` is not defined"),
        (
            "{{ 'a' if nope else 'b' }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope == 1 }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope ~ 'x' }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope | upper }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        ("{{ [nope] }}", "inventory/undefined-variable", "`nope` is not defined"),
        (
            "{{ nope | mandatory }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope | ternary(1,2) }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ nope | length }}",
            "inventory/undefined-variable",
            "`nope` is not defined",
        ),
        (
            "{{ d.x.y | default('z') ~ nope }}",
            "inventory/undefined-variable",
            "`d.x` is not defined",
        ),
        ("{{ 'a' + 1 }}", "inventory/template", ""),
        ("{{ 'maybe' | bool }}", "inventory/template", ""),
        (
            "{{ 'x' | frobnicate }}",
            "inventory/template",
            "filter frobnicate is unknown",
        ),
        ("{{ lookup('pipe', 'echo hi') }}", "inventory/template-refused", ""),
        (
            "{{ lookup('password', '/x nope=1') }}",
            "inventory/template",
            "there is no option `nope`",
        ),
        (
            "{{ 'x' | password_hash('md5') }}",
            "inventory/template",
            "`md5` is not supported",
        ),
        (
            "{{ ansible_hostname }}",
            "inventory/facts-not-gathered",
            "`ansible_hostname` is a fact",
        ),
        (
            "{{ ansible_facts['distribution'] }}",
            "inventory/facts-not-gathered",
            "`ansible_facts` is a fact",
        ),
        (
            "{{ ansible_default_ipv4.address }}",
            "inventory/facts-not-gathered",
            "facts are not gathered",
        ),
        (
            "{{ ansible_play_hosts | first }}",
            "inventory/facts-not-gathered",
            "exists only while a playbook runs",
        ),
        ("{{ lookup('nope') }}", "inventory/template", ""),
        ("{{ x", "inventory/template-syntax", ""),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
            "inventory/template-bound",
            "",
        ),
        ("{% include 'x' %}", "inventory/template", ""),
    ] {
        match render(&inventory, template) {
            Ok(value) => panic!("{template}: {value}"),
            Err(fault) => {
                assert_eq!(fault.code, code, "{template}: {fault:?}");
                assert!(fault.message.contains(told), "{template}: {}", fault.message);
            }
        }
    }
}

#[test]
fn an_undefined_variable_names_the_nearest_and_the_chain() {
    let inventory = inventory("a: '{{ b }}'\nb:\n  - '{{ domain_nam }}'\ndomain_name: x\n");
    let fault = inventory.scope("w1").get("a").unwrap_err();
    assert_eq!(fault.message, "`domain_nam` is not defined");
    assert_eq!(fault.help, ["did you mean `domain_name`?"]);
    assert_eq!(fault.place.unwrap().to_string(), "group_vars/all.yml:3:5");
    assert_eq!(fault.host.as_deref(), Some("w1"));
    assert!(
        fault.notes.iter().any(|(_, text)| text == "needed by `a`"),
        "{:?}",
        fault.notes
    );
}

#[test]
fn loops_are_reported_with_their_chain() {
    let inventory = inventory("a: '{{ b }}'\nb: 'x{{ c.k }}'\nc: {k: '{{ a }}'}\nself: '{{ self }}'\n");
    let scope = inventory.scope("w1");
    let fault = scope.get("a").unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        ("inventory/template-loop", "`a` needs its own value: a > b > c.k > a")
    );
    assert!(fault.notes.len() >= 3);
    assert_eq!(scope.get("c").unwrap_err().code, "inventory/template-loop");
}

#[test]
fn results_keep_places_and_vars_are_lazy() {
    let inventory = inventory("a: {x: '{{ nope }}', y: 1}\nb: '{{ a.y }}'\nc: '{{ d }}'\nd: [1]\n");
    let scope = inventory.scope("w1");
    assert_eq!(scope.get("b").unwrap().unwrap().data, Data::Int(1));
    let c = scope.get("c").unwrap().unwrap();
    assert_eq!(c.place.to_string(), "group_vars/all.yml:3:4");
    assert_eq!(c.as_list().unwrap()[0].place.to_string(), "group_vars/all.yml:4:5");
    assert_eq!(scope.get("nope").unwrap(), None);
    assert_eq!(scope.get("inventory_hostname").unwrap().unwrap().as_str(), Some("w1"));
    assert_eq!(scope.get("group_names").unwrap().unwrap().to_json(), json!(["web"]));
    assert_eq!(scope.names(), ["a", "b", "c", "d", "own"]);
}

#[test]
fn a_long_chain_ends_in_a_fault_and_not_in_the_stack() {
    let mut vars = String::from("v0: end\n");
    for i in 1..60 {
        vars.push_str(&format!("v{i}: '{{{{ v{} }}}}'\n", i - 1));
    }
    let inventory = inventory(&vars);
    let scope = inventory.scope("w1");
    assert_eq!(scope.get("v20").unwrap().unwrap().as_str(), Some("end"));
    assert_eq!(
        inventory.scope("w1").get("v59").unwrap_err().code,
        "inventory/template-bound"
    );
}
