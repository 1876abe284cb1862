//! Loading: what is refused, where, and what is warned about.

use super::template_tests::load;
use super::*;

/// Code and place of each fault.
fn faults(files: &[(&str, &str)], source: &str) -> Vec<String> {
    let (dir, _) = load(files);
    let options = LoadOptions {
        sources: vec![source.into()],
        working_dir: dir.path().to_owned(),
        ..LoadOptions::default()
    };
    let faults = Inventory::load(&options).unwrap_err();
    for fault in &faults {
        assert!(fault.rule.is_some() && !fault.help.is_empty(), "{fault:?}");
    }
    let told = faults
        .iter()
        .map(|fault| format!("{} {}", fault.code, fault.place.as_ref().unwrap()));
    told.collect()
}

#[test]
fn every_unreadable_source_is_an_error_with_a_place() {
    assert_eq!(faults(&[], "nope.ini"), ["inventory/source-missing nope.ini"]);
    assert_eq!(
        faults(&[("a.toml", "")], "a.toml"),
        ["inventory/toml-structure a.toml:1:1"]
    );
    assert_eq!(
        faults(&[("a.yml", "plugin: x\n")], "a.yml"),
        ["inventory/yaml-plugin a.yml:1:1"]
    );
    assert_eq!(
        faults(&[("a.yml", "---\n")], "a.yml"),
        ["inventory/yaml-structure a.yml:1:4"]
    );
    // An INI inventory of that name is read, as Ansible does; if it is neither, the extension tells what was meant.
    assert_eq!(
        faults(&[("a.yml", "[web]\nh1\nh2 x\n")], "a.yml"),
        ["inventory/yaml-syntax a.yml:2:1"]
    );
    assert_eq!(
        faults(&[("a", "---\nall:\n\thosts:\n")], "a"),
        ["inventory/yaml-syntax a:3:2"]
    );
    assert_eq!(
        faults(&[("d/a.ini", "h x\n"), ("d/b.yml", "- 1\n")], "d"),
        [
            "inventory/ini-assignment d/a.ini:1:3",
            "inventory/yaml-structure d/b.yml:1:1"
        ]
    );
    assert_eq!(
        faults(&[("a.ini", "$ANSIBLE_VAULT;1.1;AES256\n00\n")], "a.ini"),
        ["inventory/vault-damaged a.ini:1:1"]
    );
}

#[test]
fn bytes_that_are_not_utf8_have_a_place() {
    let (dir, _) = load(&[]);
    std::fs::write(dir.path().join("a.ini"), b"h1\nh2 n=Zo\xeb\n").unwrap();
    let options = LoadOptions {
        sources: vec!["a.ini".into()],
        working_dir: dir.path().to_owned(),
        ..LoadOptions::default()
    };
    let faults = Inventory::load(&options).unwrap_err();
    assert_eq!(
        (faults[0].code, faults[0].place.as_ref().unwrap().to_string().as_str()),
        ("inventory/not-utf8", "a.ini:2:8")
    );
}

#[test]
fn extra_vars_and_password_files_are_checked() {
    let (dir, _) = load(&[("hosts.ini", "h\n"), ("empty", "")]);
    let options = |extra: &str, password: Option<&str>| LoadOptions {
        sources: vec!["hosts.ini".into()],
        extra_vars: vec![extra.into()],
        vault_password_files: password.into_iter().map(PathBuf::from).collect(),
        working_dir: dir.path().to_owned(),
        ..LoadOptions::default()
    };
    let code = |options: LoadOptions| Inventory::load(&options).unwrap_err()[0].code;
    assert_eq!(code(options("./vars.yml", None)), "inventory/extra-vars");
    assert_eq!(code(options("a='b", None)), "inventory/extra-vars");
    assert_eq!(code(options("[1]", None)), "inventory/extra-vars");
    assert_eq!(code(options("{a: 1, a: 2}", None)), "inventory/yaml-duplicate-key");
    assert_eq!(code(options("@nope.yml", None)), "inventory/unreadable");
    assert_eq!(code(options("", Some("nope"))), "inventory/vault-password-file");
    assert_eq!(code(options("", Some("empty"))), "inventory/vault-password-file");
}

#[test]
fn mistakes_that_ansible_passes_over_are_warned_about() {
    let (_dir, loaded) = load(&[
        ("hosts.ini", "[web]\nw1 pass=a#b\nweb\n"),
        ("group_vars/webs.yml", "a: 1\n"),
        ("group_vars/all.yml", "t: 12:30\n"),
        ("group_vars/all.yaml", "t: 1\n"),
        ("host_vars", "not a directory"),
    ]);
    let mut codes: Vec<&str> = loaded.unwrap().warnings.iter().map(|warning| warning.code).collect();
    codes.sort_unstable();
    assert_eq!(
        codes,
        [
            "inventory/host-and-group",
            "inventory/ini-comment",
            "inventory/vars-for-nobody",
            "inventory/vars-not-a-directory",
            "inventory/vars-shadowed",
            "inventory/yaml-sexagesimal",
        ]
    );
}

#[test]
fn groups_and_selection_are_answered() {
    let (_dir, loaded) = load(&[("hosts.ini", "lone\n[web]\nw1\n[prod:children]\nweb\n")]);
    let inventory = loaded.unwrap().inventory;
    assert_eq!(inventory.hosts().collect::<Vec<_>>(), ["lone", "w1"]);
    assert_eq!(inventory.groups_of("w1"), ["prod", "web"]);
    assert!(inventory.in_group("w1", "prod") && inventory.in_group("w1", "all") && !inventory.in_group("lone", "web"));
    assert_eq!(inventory.hosts_of_group("prod"), ["w1"]);
    assert_eq!(inventory.select("all,!web").unwrap(), ["lone"]);
    assert_eq!(inventory.select("webb").unwrap_err().help, ["did you mean `web`?"]);
    assert!(inventory.scope("nobody").get("a").unwrap().is_none());
}

#[test]
fn files_are_looked_up_below_the_working_directory() {
    let (_dir, loaded) = load(&[
        ("hosts.ini", "h\n"),
        ("files/key.pub", "ssh-ed25519 AAAA\n"),
        ("other.pub", "x\n"),
        (
            "group_vars/all.yml",
            "k: \"{{ lookup('file', 'key.pub') }}\"\nn: \"{{ lookup('file', 'nope') }}\"\ni: \"{{ lookup('file', 'nope', errors='ignore') }}\"\nf: \"{{ lookup('first_found', ['nope', 'key.pub', 'other.pub']) | basename }}\"\n",
        ),
    ]);
    let inventory = loaded.unwrap().inventory;
    let scope = inventory.scope("h");
    assert_eq!(scope.get("k").unwrap().unwrap().as_str(), Some("ssh-ed25519 AAAA"));
    assert_eq!(scope.get("i").unwrap().unwrap().data, Data::Null);
    assert_eq!(scope.get("f").unwrap().unwrap().as_str(), Some("other.pub"));
    let fault = scope.get("n").unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        ("inventory/template", "the template fails: the file nope does not exist")
    );
}

#[test]
fn every_fault_of_every_file_is_told_at_once() {
    let (_dir, loaded) = load(&[
        ("hosts.ini", "[web]\nh a\n"),
        ("group_vars/all.yml", "a: 1\na: 2\n"),
        ("group_vars/ungrouped.yml", "- a\n"),
    ]);
    let told: Vec<String> = loaded
        .unwrap_err()
        .iter()
        .map(|fault| format!("{} {}", fault.code, fault.place.as_ref().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            "inventory/ini-assignment hosts.ini:2:3",
            "inventory/yaml-duplicate-key group_vars/all.yml:2:1",
            "inventory/vars-structure group_vars/ungrouped.yml:1:1",
        ]
    );
}

#[test]
fn mappings_of_two_levels_are_replaced_or_merged() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("group_vars")).unwrap();
    std::fs::write(dir.path().join("hosts.ini"), "[web]\nh\n").unwrap();
    std::fs::write(dir.path().join("group_vars/all.yml"), "m: {a: 1, d: {x: 1, l: [1]}}\n").unwrap();
    std::fs::write(dir.path().join("group_vars/web.yml"), "m: {b: 2, d: {y: 2, l: [2]}}\n").unwrap();
    let get = |merge: Merge| {
        let options = LoadOptions {
            sources: vec!["hosts.ini".into()],
            extra_vars: vec!["{m: {a: 9}}".into()],
            working_dir: dir.path().to_owned(),
            merge,
            ..LoadOptions::default()
        };
        let inventory = Inventory::load(&options).unwrap().inventory;
        inventory.scope("h").get("m").unwrap().unwrap().to_json()
    };
    assert_eq!(get(Merge::Replace), serde_json::json!({"a": 9}));
    // ANSIBLE_HASH_BEHAVIOUR=merge ansible -i hosts.ini h -m debug -a var=m -e '{m: {a: 9}}'
    assert_eq!(
        get(Merge::Merge),
        serde_json::json!({"a": 9, "b": 2, "d": {"x": 1, "y": 2, "l": [2]}})
    );
}

#[test]
fn the_lookup_password_is_secret_and_writes_only_where_it_may() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("hosts.ini"),
        "h p=\"{{ lookup('password', 'pw/a') }}\"\ni\n",
    )
    .unwrap();
    let load = |may_write: bool| {
        let options = LoadOptions {
            sources: vec!["hosts.ini".into()],
            working_dir: dir.path().to_owned(),
            may_write,
            ..LoadOptions::default()
        };
        Inventory::load(&options).unwrap().inventory
    };
    let planned = load(false);
    let get = |inventory: &Inventory| inventory.scope("h").get("p").unwrap().unwrap();
    let made_up = get(&planned);
    assert!(made_up.secret);
    assert_eq!(get(&planned).as_str(), made_up.as_str());
    assert!(!dir.path().join("pw").exists());
    let made = get(&load(true));
    let written = std::fs::read_to_string(dir.path().join("pw/a")).unwrap();
    assert_eq!(Some(written.trim_end()), made.as_str());
    assert_eq!(get(&load(false)).as_str(), made.as_str());
}
