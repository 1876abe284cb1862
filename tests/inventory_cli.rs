//! `explain` and `inventory` of the real binary, on inventories that need no cluster; and the outputs of `inventory`
//! against recordings of `ansible-inventory` (ansible-core 2.19.14), which `tests/inventory/refresh_outputs.sh` makes anew.

#![expect(clippy::unwrap_used, reason = "a test: what cannot be read is a failure")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use vmwright::inventory::export::{self, Shape, Shown};
use vmwright::inventory::{Inventory, LoadOptions};

/// What one run said.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }
}

fn vmwright(dir: &Path, args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_vmwright"))
        .args(args)
        .env_clear()
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn site(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

const VAULTED: &str = "vaulted: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n@VAULT@";

/// A site with everything that `explain` tells of.
fn layers() -> TempDir {
    site(&[
        (
            "hosts.ini",
            "[vms]\nweb-0 vms_os=debian_12\nweb-0 vms_os=debian_13\n[web]\nweb-0\n[web:vars]\nregion=eu\n",
        ),
        (
            "group_vars/all.yml",
            "domain: home.example\nregion: nowhere\nservers: [10.0.0.1, '{{ gateway }}']\ngateway: 10.0.0.254\n",
        ),
        (
            "group_vars/web.yml",
            "fqdn: '{{ inventory_hostname }}.{{ domain }}'\nurl: 'https://{{ fqdn }}/{{ region }}'\nregion: us\n\
             vms_config: {cores: 2, nic0: {bridge: vmbr0}}\nbroken: '{{ url }}{{ regoin }}'\n\
             loop_a: '{{ loop_b }}'\nloop_b: '{{ loop_a }}'\n",
        ),
        ("host_vars/web-0.yml", "vms_config: {cores: 4}\n"),
        ("pass", "homelab-example\n"),
    ])
}

#[test]
fn explain_a_key_tells_every_definition_in_order() {
    let dir = layers();
    let run = vmwright(
        dir.path(),
        &["explain", "web-0", "region", "-i", "hosts.ini", "-e", "region=mars"],
    )
    .ok();
    assert_eq!(
        run.stdout,
        "region = \"mars\"\n    # string, --extra-vars, for web-0\n\nDefinitions, strongest first\n  \
         wins        \"mars\"\n              # -e\n  \
         overridden  \"us\"\n              # group_vars/web, group_vars/web.yml:3:9\n  \
         overridden  \"nowhere\"\n              # group_vars/all, group_vars/all.yml:2:9\n  \
         overridden  \"eu\"\n              # inventory vars of group web, hosts.ini:7:8\n"
    );
    let json = vmwright(
        dir.path(),
        &["explain", "web-0", "vms_os", "-i", "hosts.ini", "-o", "json"],
    )
    .ok()
    .json();
    assert_eq!(
        (&json["value"], &json["type"], &json["place"]),
        (
            &json!("debian_13"),
            &json!("string"),
            &json!({"file": "hosts.ini", "line": 3, "column": 14})
        )
    );
    let told: Vec<(&str, &str, u64)> = json["definitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap();
            (text("role"), text("layer"), one["place"]["line"].as_u64().unwrap())
        })
        .collect();
    let host = "inventory vars of host web-0";
    assert_eq!(told, [("wins", host, 3), ("overridden", host, 2)]);
}

#[test]
fn explain_leads_into_mappings_and_lists() {
    let dir = layers();
    let explain = |key: &str| vmwright(dir.path(), &["explain", "web-0", key, "-i", "hosts.ini", "-o", "json"]);
    let cores = explain("vms_config.cores").ok().json();
    assert_eq!((&cores["value"], &cores["type"]), (&json!(4), &json!("integer")));
    assert_eq!(cores["definitions"][1]["value"], 2);
    assert_eq!(explain("servers[1]").ok().json()["value"], "10.0.0.254");
    // What a definition that wins as a whole takes away is told.
    let bridge = explain("vms_config.nic0.bridge").ok().json();
    assert_eq!(bridge["definitions"][0]["without"], "vms_config.nic0");
    assert_eq!(bridge["definitions"][1]["value"], "vmbr0");
    assert_eq!(
        bridge.get("value"),
        None,
        "there is no card that the default could be for"
    );
    assert_eq!(bridge["default"]["text"], "vmbr0");
    let card = ["-e", "{vms_config: {nic0: {}}}"];
    let args = [
        "explain",
        "web-0",
        "vms_config.nic0.bridge",
        "-i",
        "hosts.ini",
        "-o",
        "json",
    ];
    let own = vmwright(dir.path(), &[&args[..], &card[..]].concat()).ok().json();
    assert_eq!(
        (&own["value"], &own["default_applies"]),
        (&json!("vmbr0"), &json!(true))
    );
    let lost = explain("servers[7]");
    assert_eq!(lost.code, 2);
    assert!(
        lost.stderr.contains("`servers` is a list of 2 without index 7"),
        "{}",
        lost.stderr
    );
    let near = explain("vms_config.coers");
    assert_eq!(near.code, 2);
    assert!(near.stderr.contains("did you mean `cores`?"), "{}", near.stderr);
}

#[test]
fn explain_shows_templates_step_by_step() {
    let dir = layers();
    let run = vmwright(dir.path(), &["explain", "web-0", "url", "-i", "hosts.ini"]).ok();
    let (_, steps) = run.stdout.split_once("How the template became a value\n").unwrap();
    assert_eq!(
        steps,
        "  url: https://{{ fqdn }}/{{ region }}\n      # group_vars/web.yml:2:6\n      \
         fqdn: {{ inventory_hostname }}.{{ domain }}\n          # group_vars/web.yml:1:7\n          \
         inventory_hostname = \"web-0\"\n          \
         domain = \"home.example\"\n              # group_vars/all.yml:1:9\n          \
         -> \"web-0.home.example\"\n      \
         region = \"us\"\n          # group_vars/web.yml:3:9\n      \
         -> \"https://web-0.home.example/us\"\n"
    );
}

#[test]
fn explain_tells_what_is_undefined_and_what_loops_as_a_chain() {
    let dir = layers();
    let explain = |key: &str| vmwright(dir.path(), &["explain", "web-0", key, "-i", "hosts.ini"]);
    let undefined = explain("broken");
    assert_eq!(undefined.code, 2);
    assert!(
        undefined
            .stdout
            .contains("broken = (cannot be evaluated: `regoin` is not defined)")
    );
    assert!(
        undefined.stdout.contains("regoin = (not defined)"),
        "{}",
        undefined.stdout
    );
    assert!(
        undefined.stderr.contains("did you mean `region`?"),
        "{}",
        undefined.stderr
    );
    let looped = explain("loop_a");
    assert_eq!(looped.code, 2);
    assert!(looped.stderr.contains("loop_a > loop_b > loop_a"), "{}", looped.stderr);
    let unknown = explain("regoin");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
    assert!(unknown.stderr.contains("did you mean `region`?"), "{}", unknown.stderr);
    assert_eq!(explain("a..b").code, 2);
    // Of all variables the broken ones are told, and the others too.
    let all = vmwright(dir.path(), &["explain", "web-0", "-i", "hosts.ini"]).ok();
    assert!(all.stdout.contains("gateway = \"10.0.0.254\""), "{}", all.stdout);
    assert!(all.stdout.contains("loop_a = (cannot be evaluated"), "{}", all.stdout);
}

#[test]
fn explain_a_host_tells_groups_in_order_and_every_variable() {
    let dir = layers();
    let json = vmwright(dir.path(), &["explain", "web-0", "-i", "hosts.ini", "-o", "json"])
        .ok()
        .json();
    let names = |key: &str| -> Vec<String> {
        let list = json[key].as_array().unwrap().iter();
        list.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("groups"), ["all", "vms", "web"]);
    let variables = names("variables");
    let mut sorted = variables.clone();
    sorted.sort();
    assert_eq!(variables, sorted);
    let of = |name: &str| {
        json["variables"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
    };
    assert_eq!(
        (&of("region")["overrides"], &of("region")["value"]),
        (&json!(2), &json!("us"))
    );
    assert_eq!(of("url")["value"], "https://web-0.home.example/us");
    assert_eq!(of("servers")["value"], json!(["10.0.0.1", "10.0.0.254"]));
    assert_eq!(of("broken")["error"], "`regoin` is not defined");
    assert!(names("defaults").contains(&"ansible_port".to_owned()));
    let text = vmwright(dir.path(), &["explain", "web-0", "-i", "hosts.ini"])
        .ok()
        .stdout;
    assert!(text.contains("groups, weakest first: all < vms < web\n"), "{text}");
    assert!(
        text.contains("region = \"us\"\n    # string, group_vars/web.yml:3:9, overrides 2\n"),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80 || !line.contains(' '), "{line}");
    }
    let unknown = vmwright(dir.path(), &["explain", "web-O", "-i", "hosts.ini"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean web-0?"), "{}", unknown.stderr);
}

#[test]
fn vmwrights_own_defaults_are_told() {
    let dir = layers();
    let explain = |key: &str| {
        vmwright(dir.path(), &["explain", "web-0", key, "-i", "hosts.ini"])
            .ok()
            .stdout
    };
    let port = explain("global_proxmox_api_port");
    assert!(
        port.starts_with("global_proxmox_api_port = \"8006\"\n    # whole number, vmwright's own default"),
        "{port}"
    );
    assert!(explain("vms_name").contains("vms_name is not set"));
    assert!(explain("vms_name").contains("`name` if that is set, else the inventory's host name"));
}

/// Secrets of every kind, each marked, and everything that templates make of them.
#[test]
fn no_secret_is_ever_shown() {
    let dir = layers();
    let vaulted = format!(
        "{}derived: 'x-{{{{ vaulted }}}}-y'\nencoded: '{{{{ vaulted | b64encode }}}}'\nlength: '{{{{ vaulted | length }}}}'\n\
         inside: {{list: ['{{{{ vaulted }}}}'], plain: 1}}\nwhole: '{{{{ inside }}}}'\n\
         pihole_password: marked-by-name\nfrom_name: '{{{{ pihole_password | upper }}}}'\n\
         deep: '{{{{ from_name }}}}!'\nansible_become_pass: abc\nshort: '<{{{{ ansible_become_pass }}}}>'\n\
         other: {{ansible_password: marked-inside, ansible_ssh_pass: !unsafe 'marked{{{{'}}\nansible_password: !unsafe 'marked{{%'\nof_other: '{{{{ other }}}}'\n\
         via: \"{{{{ hostvars['web-0'].from_name }}}}\"\nlooked: \"<{{{{ lookup('vars', 'ansible_become_pass') }}}}>\"\nfails: '{{{{ vaulted | int + nothing }}}}'\n",
        VAULTED.replace("@VAULT@", include_str!("inventory/vaulted.txt"))
    );
    std::fs::write(dir.path().join("group_vars/vms.yml"), vaulted).unwrap();
    std::fs::write(
        dir.path().join("group_vars/all.yml"),
        "pihole_password: marked-overridden\n",
    )
    .unwrap();
    let with = |more: &[&str]| -> String {
        let mut args = vec![
            "-i",
            "hosts.ini",
            "--vault-password-file",
            "pass",
            "-e",
            "ansible_ssh_pass=marked-extra",
        ];
        args.splice(0..0, more.iter().copied());
        let run = vmwright(dir.path(), &args);
        format!("{}{}", run.stdout, run.stderr)
    };
    let keys = [
        "vaulted",
        "derived",
        "encoded",
        "length",
        "inside",
        "inside.list[0]",
        "whole",
        "pihole_password",
        "from_name",
        "deep",
        "ansible_become_pass",
        "short",
        "other",
        "other.ansible_password",
        "of_other",
        "via",
        "looked",
        "fails",
        "ansible_ssh_pass",
    ];
    let mut said = Vec::new();
    for output in ["human", "json"] {
        said.push(with(&["explain", "web-0", "-o", output]));
        said.extend(keys.iter().map(|key| with(&["explain", "web-0", key, "-o", output])));
    }
    for text in &said {
        for secret in ["marked", "MARKED", "bWFya2Vk", "<abc>", "\"abc\"", "ANSIBLE_VAULT"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert!(
        said[0].contains("derived = ***") && said[0].contains("short = ***"),
        "{}",
        said[0]
    );
    assert!(said[0].contains("length = ***"), "{}", said[0]);
    assert!(said[0].contains("plain: 1"), "{}", said[0]);
    // Where it comes from is told.
    let derived = with(&["explain", "web-0", "derived"]);
    assert!(
        derived.contains("x-{{ vaulted }}-y") && derived.contains("vaulted = ***"),
        "{derived}"
    );
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("inventory-examples")
        .join(name)
}

#[test]
fn the_examples_are_explained_within_eighty_columns() {
    let dir = layers();
    let inventory = example("homelab");
    let source = inventory.to_str().unwrap();
    for key in [
        None,
        Some("vms_config"),
        Some("global_proxmox_api_token"),
        Some("vms_config.network.nic0.bridge"),
    ] {
        let mut args = vec!["explain", "media-0"];
        args.extend(key);
        args.extend(["-i", source, "--vault-password-file", "pass"]);
        let run = vmwright(dir.path(), &args).ok();
        assert_eq!(run.stderr, "");
        // The path of this checkout is long: only what has no path in it is measured.
        for line in run.stdout.lines().filter(|line| !line.contains(source)) {
            assert!(line.chars().count() <= 80 || line.contains("fingerprint"), "{line}");
        }
        assert!(!run.stdout.contains("3f0c9a52"), "{}", run.stdout);
    }
}

/// The options of a case of `tests/inventory/cases`.
fn options(case: &Path) -> LoadOptions {
    let default = if case.join("hosts.yml").exists() {
        "hosts.yml"
    } else {
        "hosts.ini"
    };
    let arguments = std::fs::read_to_string(case.join("cmd")).unwrap_or_else(|_| format!("-i\n{default}\n"));
    let lines: Vec<&str> = arguments.lines().collect();
    let of = |option: &str| -> Vec<String> {
        let pairs = lines.chunks(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].to_owned()).collect()
    };
    LoadOptions {
        sources: of("-i"),
        extra_vars: of("-e"),
        vault_password_files: of("--vault-password-file").into_iter().map(PathBuf::from).collect(),
        working_dir: case.to_owned(),
        ..LoadOptions::default()
    }
}

/// A recorded YAML document as data, in the form in which vmwright has it.
fn yaml(text: &str) -> Value {
    vmwright::inventory::yaml::parse(text, &"recorded".into())
        .unwrap()
        .value
        .to_json()
}

/// Where `--graph --vars` differs, because values do: dates are text and keys of mappings are text; pairs of `!!omap` are
/// lists; the keys that `<<` brings come behind the mapping's own.
const ON_PURPOSE: [&str; 3] = ["yaml-scalars", "yaml-tags", "yaml-merge"];

/// Every shape, for every recorded inventory: graphs byte for byte, the others as data.
/// The list, as data.
fn list(inventory: &Inventory, shape: &Shape) -> Value {
    serde_json::to_value(inventory.list(shape, &|_| {})).unwrap()
}

#[test]
fn every_output_is_that_of_ansible() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory");
    let mut names: Vec<PathBuf> = std::fs::read_dir(root.join("outputs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert!(names.len() >= 30, "only {} cases", names.len());
    let (mut compared, mut failed) = (0, String::new());
    for dir in names {
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let inventory = Inventory::load(&options(&root.join("cases").join(&name)))
            .unwrap()
            .inventory;
        let limit = std::fs::read_to_string(dir.join("limit")).ok();
        let limit = limit.map(|pattern| inventory.select(&pattern).unwrap());
        let shape = |export: bool, limit: Option<Vec<String>>| Shape {
            masked: false,
            export,
            limit,
        };
        let plain = |mut json: Value| {
            export::drop_unsafe(&mut json);
            json
        };
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap().to_owned();
            let recorded = std::fs::read_to_string(&path).unwrap();
            let json = || -> Value { serde_json::from_str(&recorded.replace(": Infinity", ": \"Infinity\"")).unwrap() };
            let raw: Shown<'_> = &|_, value| value.clone();
            let (got, want) = match file.as_str() {
                "graph.txt" => (
                    inventory.graph("all", false, None).unwrap().into(),
                    Value::from(recorded),
                ),
                // Encrypted values would be shown.
                "vars.txt" if name.contains("vault") => continue,
                "vars.txt" if ON_PURPOSE.contains(&&*name) => continue,
                "vars.txt" => (
                    inventory.graph("all", false, Some(raw)).unwrap().into(),
                    Value::from(recorded),
                ),
                "tree.yml" => (plain(inventory.tree(&shape(false, None))), yaml(&recorded)),
                "export.yml" => (plain(inventory.tree(&shape(true, None))), yaml(&recorded)),
                "limit.yml" => (plain(inventory.tree(&shape(false, limit.clone()))), yaml(&recorded)),
                "export.json" => (list(&inventory, &shape(true, None)), json()),
                "limit.json" => (list(&inventory, &shape(false, limit.clone())), json()),
                "tables.json" => (plain(inventory.tables(&shape(false, None))), json()),
                "limit" | "no-toml" => continue,
                other => panic!("{name}: what is {other}?"),
            };
            compared += 1;
            if got != want {
                let text = |json: &Value| {
                    json.as_str()
                        .map_or_else(|| serde_json::to_string_pretty(json).unwrap(), str::to_owned)
                };
                let (got, want) = (text(&got), text(&want));
                failed.push_str(&format!("== {name}/{file}\n"));
                for line in got.lines().filter(|line| !want.lines().any(|other| other == *line)) {
                    failed.push_str(&format!("  got  {line}\n"));
                }
                for line in want.lines().filter(|line| !got.lines().any(|other| other == *line)) {
                    failed.push_str(&format!("  want {line}\n"));
                }
            }
            // And YAML is read back as what was written.
            if matches!(file.as_str(), "tree.yml" | "export.yml") {
                let json = plain(inventory.tree(&shape(file == "export.yml", None)));
                if !json.to_string().contains("__ansible_vault") {
                    assert_eq!(yaml(&export::to_yaml(&json)), json, "{name}");
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(compared > 150, "only {compared} outputs");
}

#[test]
fn the_inventory_is_printed_in_every_shape_without_secrets() {
    let dir = layers();
    let all = format!(
        "{}pihole_password: marked-by-name\nansible_become_pass: abc\nplain: [1, null, 'it''s']\n\
         nested: {{ansible_password: 4711, ansible_ssh_pass: !unsafe 'marked{{{{'}}\nansible_password: !unsafe 'marked{{%'\nlink: 'https://x:marked-by-name@y'\ntoken: '{{{{ pihole_password }}}}'\n",
        VAULTED.replace("@VAULT@", include_str!("inventory/vaulted.txt"))
    );
    std::fs::write(dir.path().join("group_vars/all.yml"), all).unwrap();
    let run = |args: &[&str]| {
        let mut all = vec!["inventory", "-i", "hosts.ini", "--vault-password-file", "pass"];
        all.extend(args);
        let run = vmwright(dir.path(), &all);
        for secret in ["marked", "abc", "4711", "ANSIBLE_VAULT"] {
            assert!(!run.stdout.contains(secret), "{secret} in {}", run.stdout);
            assert!(!run.stderr.contains(secret), "{secret} in {}", run.stderr);
        }
        run
    };
    let graph = run(&["--graph", "web", "--vars"]).ok().stdout;
    assert!(
        graph.starts_with("@web:\n  |--web-0\n  |  |--{ansible_become_pass = ***}\n"),
        "{graph}"
    );
    for line in [
        "  |  |--{nested = {'ansible_password': '***', 'ansible_ssh_pass': '***'}}",
        "  |  |--{plain = [1, None, \"it's\"]}",
        "  |  |--{token = {{ pihole_password }}}",
        "  |  |--{link = https://x:***@y}",
        "  |  |--{vaulted = ***}",
        "  |--{region = us}",
    ] {
        assert!(graph.lines().any(|given| given == line), "{line} is not in {graph}");
    }
    let export = run(&["--list", "--export"]).ok().json();
    assert_eq!(export["all"]["vars"]["vaulted"], "***");
    assert_eq!(export["web"]["vars"]["region"], "us");
    assert_eq!(
        export["_meta"]["hostvars"]["web-0"],
        json!({"vms_config": {"cores": 4}, "vms_os": "debian_13"})
    );
    let tree = yaml(&run(&["--list", "--yaml", "--export"]).ok().stdout);
    assert_eq!(tree["all"]["vars"]["pihole_password"], "***");
    assert_eq!(
        tree["all"]["children"]["web"]["hosts"]["web-0"],
        json!({}),
        "it stands in vms already"
    );
    let one = yaml(&run(&["--host", "web-0", "-y"]).ok().stdout);
    assert_eq!((&one["vms_os"], &one["plain"][1]), (&json!("debian_13"), &Value::Null));
    let own = run(&["--host", "web-0", "--export"]).ok().json();
    assert_eq!(own, json!({"vms_config": {"cores": 4}, "vms_os": "debian_13"}));
    let toml = run(&["--list", "--toml", "--export"]);
    assert_eq!(toml.code, 2);
    assert!(toml.stderr.contains("`all.vars.plain.1` is null"), "{}", toml.stderr);
    let none = run(&["--graph", "wob"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("did you mean web?"), "{}", none.stderr);
    for wrong in [
        &["--graph", "--limit", "x"][..],
        &["--list", "--vars"],
        &["--list", "web"],
        &["--yaml"],
        &["--host", "x", "--toml"],
    ] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn the_list_can_be_limited_and_written_as_toml() {
    let dir = site(&[("hosts.ini", "[web]\na x=1\nb\n[db]\nc\n[web:vars]\n\"odd key\"=2\n")]);
    let run = |args: &[&str]| {
        let mut all = vec!["inventory", "-i", "hosts.ini"];
        all.extend(args);
        vmwright(dir.path(), &all)
    };
    let list = run(&["--list", "--limit", "b"]).ok().json();
    assert_eq!((&list["web"]["hosts"], &list["db"]), (&json!(["b"]), &Value::Null));
    assert_eq!(list["all"]["children"], json!(["ungrouped", "web", "db"]));
    assert_eq!(run(&["--list", "--limit", "nobody"]).code, 2);
    let toml = run(&["--list", "--toml"]).ok().stdout;
    assert_eq!(
        toml,
        "[db.hosts.c]\n\n[web.hosts.a]\n\"\\\"odd key\\\"\" = 2\nx = 1\n\n[web.hosts.b]\n\"\\\"odd key\\\"\" = 2\n"
    );
}
