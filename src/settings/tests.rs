//! Tests of the search; the file and durations have their own.

use std::fs;

use super::*;

/// A home, a working directory with an inventory, and an environment.
struct World {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["home/.config/vmwright", "work/inv", "work/lab"] {
            fs::create_dir_all(dir.path().join(sub)).unwrap();
        }
        let env = BTreeMap::from([("HOME".to_owned(), dir.path().join("home").display().to_string())]);
        Self { dir, env }
    }

    fn path(&self, sub: &str) -> PathBuf {
        self.dir.path().join(sub)
    }

    fn file(&self, sub: &str, text: &str) {
        fs::write(self.path(sub), text).unwrap();
    }

    fn var(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    fn load(&self, overrides: Overrides, inventories: &[&str]) -> Result<Settings, Vec<Diagnostic>> {
        let inventories: Vec<PathBuf> = inventories.iter().map(PathBuf::from).collect();
        Settings::load(&Sources {
            overrides,
            env: &self.env,
            inventories: &inventories,
            working_dir: &self.path("work"),
        })
    }
}

#[test]
fn the_defaults() {
    let world = World::new();
    let settings = world.load(Overrides::default(), &["inv"]).unwrap();
    assert_eq!(settings.state_dir.value, world.path("home/.local/state/vmwright"));
    assert_eq!(settings.state_dir.origin, Origin::Default);
    assert_eq!(settings.forks.value.get(), 8);
    assert_eq!(settings.clone_limit_per_storage.value.permits(), 2);
    assert_eq!(settings.migrate_limit_per_node.value.permits(), 1);
    assert_eq!(settings.known_hosts.value, world.path("home/.ssh/known_hosts"));
    assert_eq!(settings.templates_dir.value, None);
    assert_eq!(settings.vault_password_files.value, Vec::<PathBuf>::new());
    assert_eq!(settings.vault_ids.value, Vec::<String>::new());
    assert_eq!(settings.hash_behaviour.value, HashBehaviour::Replace);
    assert_eq!(settings.allow_pipe_lookup.value, Switch(false));
    assert_eq!(settings.output.value, OutputFormat::Human);
    assert_eq!(settings.log_format.value, LogFormat::Text);
    assert_eq!(settings.wait_lock.value, Duration::ZERO);
    assert_eq!((settings.files.len(), settings.warnings.len()), (0, 0));
}

#[test]
fn each_source_is_weaker_than_the_one_before() {
    let mut world = World::new();
    let cli = || Overrides {
        forks: Some("1".parse().unwrap()),
        state_dir: Some("here".into()),
        ..Overrides::default()
    };
    world.var("VMWRIGHT_FORKS", "2");
    world.var("VMWRIGHT_STATE_DIR", "there");
    world.file("work/inv/vmwright.yaml", "# ours\nforks: 3\nstate_dir: beside\n");
    world.file("home/.config/vmwright/vmwright.yaml", "forks: 4\nstate_dir: ~/xdg\n");
    let check = |world: &World, overrides: Overrides, forks: usize, dir: &str, origin: &str| {
        let found = world.load(overrides, &["inv"]).unwrap();
        assert_eq!(found.forks.value.get(), forks);
        assert_eq!(found.state_dir.value, world.path(dir));
        assert_eq!(found.forks.origin.to_string(), origin);
    };
    check(&world, cli(), 1, "work/here", "the command line");
    let none = Overrides::default;
    check(&world, none(), 2, "work/there", "the environment (VMWRIGHT_FORKS)");
    world.var("VMWRIGHT_FORKS", "");
    world.var("VMWRIGHT_STATE_DIR", "");
    check(&world, none(), 3, "work/inv/beside", "inv/vmwright.yaml:2:1");
    fs::remove_file(world.path("work/inv/vmwright.yaml")).unwrap();
    let xdg = world.path("home/.config/vmwright/vmwright.yaml").display().to_string();
    check(&world, none(), 4, "home/xdg", &format!("{xdg}:1:1"));
}

#[test]
fn the_files_complete_each_other() {
    let world = World::new();
    world.file("work/lab/vmwright.yaml", "forks: 3\n");
    world.file("work/inv/vmwright.yaml", "forks: 4\noutput: json\n");
    world.file("home/.config/vmwright/vmwright.yaml", "wait_lock: 5m\nforks: 5\n");
    // A file's directory counts, and of two sources the last is the stronger.
    let found = world.load(Overrides::default(), &["inv", "lab/hosts.ini"]).unwrap();
    assert_eq!(found.forks.value.get(), 3);
    assert_eq!(found.output.value, OutputFormat::Json);
    assert_eq!(found.wait_lock.value, Duration::from_secs(300));
    let names = ["work/lab", "work/inv", "home/.config/vmwright"];
    assert_eq!(found.files, names.map(|n| world.path(n).join("vmwright.yaml")));
}

#[test]
fn a_named_file_is_the_only_one() {
    let mut world = World::new();
    world.file("work/inv/vmwright.yaml", "forks: 4\n");
    world.file("work/my.yaml", "output: json\nknown_hosts: ./sub/kh\n");
    let named = || Overrides {
        config: Some("my.yaml".into()),
        ..Overrides::default()
    };
    let found = world.load(named(), &["inv"]).unwrap();
    assert_eq!((found.forks.value.get(), found.output.value), (8, OutputFormat::Json));
    assert_eq!(found.known_hosts.value, world.path("work/sub/kh"));
    world.var("VMWRIGHT_CONFIG", "nowhere.yaml");
    assert!(world.load(named(), &[]).is_ok(), "the command line is stronger");
    let problems = world.load(Overrides::default(), &[]).unwrap_err();
    assert_eq!(problems[0].code, "settings/unreadable-file");
    assert_eq!(problems[0].place, Some(Place::whole("VMWRIGHT_CONFIG")));
}

#[test]
fn the_inventory_is_weaker_than_all_but_the_default() {
    let mut world = World::new();
    let place = Place::new("inv/group_vars/all.yml", 3, 16);
    let mut found = world.load(Overrides::default(), &["inv"]).unwrap();
    found.take_state_dir_of_inventory("state", &world.path("work/inv"), None, place.clone());
    assert_eq!(found.state_dir.value, world.path("work/inv/state"));
    assert_eq!(found.state_dir.origin, Origin::Inventory(place.clone()));
    world.var("VMWRIGHT_STATE_DIR", "/srv/state");
    let mut found = world.load(Overrides::default(), &["inv"]).unwrap();
    found.take_state_dir_of_inventory("state", &world.path("work/inv"), None, place);
    assert_eq!(found.state_dir.value, Path::new("/srv/state"));
}

#[test]
fn vault_password_files_come_as_lists() {
    let mut world = World::new();
    world.file("work/inv/vmwright.yaml", "vault_password_files: ~/one\n");
    let found = |world: &World, overrides| world.load(overrides, &["inv"]).unwrap().vault_password_files;
    assert_eq!(found(&world, Overrides::default()).value, [world.path("home/one")]);
    world.var("ANSIBLE_VAULT_PASSWORD_FILE", "~/two");
    let two = found(&world, Overrides::default());
    assert_eq!(two.value, [world.path("home/two")]);
    assert_eq!(two.origin, Origin::Environment("ANSIBLE_VAULT_PASSWORD_FILE"));
    world.var("VMWRIGHT_VAULT_PASSWORD_FILES", "a:/b:");
    assert_eq!(
        found(&world, Overrides::default()).value,
        [world.path("work/a"), PathBuf::from("/b")]
    );
    let cli = Overrides {
        vault_password_files: vec!["c".into()],
        ..Overrides::default()
    };
    assert_eq!(found(&world, cli).value, [world.path("work/c")]);
}

#[test]
fn all_problems_are_told_at_once() {
    let mut world = World::new();
    world.var("VMWRIGHT_FORKS", "many");
    world.var("VMWRIGHT_WAIT_LOCK", "5");
    world.file("work/inv/vmwright.yaml", "frks: 3\n");
    world.file("home/.config/vmwright/vmwright.yaml", "output:\n  - json\n");
    let problems = world.load(Overrides::default(), &["inv"]).unwrap_err();
    let told: Vec<(&str, String)> = problems
        .iter()
        .map(|p| (p.code, p.place.as_ref().unwrap().to_string()))
        .collect();
    let xdg = world.path("home/.config/vmwright/vmwright.yaml").display().to_string();
    assert_eq!(told[0], ("settings/unknown-key", "inv/vmwright.yaml:1:1".to_owned()));
    assert_eq!(told[1].0, "settings/invalid");
    assert!(told[1].1.starts_with(&format!("{xdg}:2")), "{}", told[1].1);
    assert_eq!(told[2], ("settings/bad-environment", "VMWRIGHT_FORKS".to_owned()));
    assert_eq!(told[3], ("settings/bad-environment", "VMWRIGHT_WAIT_LOCK".to_owned()));
    assert_eq!(told.len(), 4);
    assert_eq!(
        problems[2].message,
        "VMWRIGHT_FORKS: \"many\" is no whole number from 1 to 1000"
    );
}

#[test]
fn without_a_home_only_what_needs_one_fails() {
    let mut world = World::new();
    world.env.clear();
    let problems = world.load(Overrides::default(), &["inv"]).unwrap_err();
    let keys: Vec<_> = problems.iter().map(|p| (p.code, p.key.as_deref().unwrap())).collect();
    assert_eq!(
        keys,
        [("settings/no-home", "state_dir"), ("settings/no-home", "known_hosts")]
    );
    world.var("XDG_STATE_HOME", "/var/lib/ci");
    world.var("VMWRIGHT_KNOWN_HOSTS", "kh");
    let found = world.load(Overrides::default(), &["inv"]).unwrap();
    assert_eq!(found.state_dir.value, Path::new("/var/lib/ci/vmwright"));
    world.var("XDG_STATE_HOME", "relative/is/ignored");
    assert!(world.load(Overrides::default(), &["inv"]).is_err());
}

#[test]
fn near_misses_are_warned_about() {
    let mut world = World::new();
    world.var("VMWRIGHT_FORK", "3");
    world.var("VMWRIGHT_SOMETHING_ELSE", "x");
    world.file("work/inv/vmwright.yml", "forks: 3\n");
    let warnings = world.load(Overrides::default(), &["inv"]).unwrap().warnings;
    let told: Vec<_> = warnings.iter().map(|w| (w.code, w.help[0].as_str())).collect();
    assert_eq!(
        told,
        [
            ("settings/unknown-variable", "did you mean VMWRIGHT_FORKS?"),
            ("settings/wrong-file-name", "rename it to vmwright.yaml")
        ]
    );
}

#[test]
fn every_key_of_the_file_has_a_variable_and_the_other_way_round() {
    for key in file::KEYS {
        let name = format!("VMWRIGHT_{}", key.to_uppercase());
        let variable = env::VARIABLES.iter().find(|v| v.name == name);
        assert_eq!(variable.map(|v| v.setting), Some(*key), "{key}");
    }
    for variable in env::VARIABLES {
        assert!(variable.setting.is_empty() || file::KEYS.contains(&variable.setting));
        assert!(!variable.meaning.ends_with('.') && !variable.meaning.is_empty());
    }
}

#[test]
fn paths_are_made_absolute() {
    let at = |path: &str| absolute(Path::new(path), Path::new("/base/./dir"), Some(Path::new("/home/bob")));
    assert_eq!(at("./a/../b"), Path::new("/base/dir/a/../b"));
    assert_eq!(at("~"), Path::new("/home/bob"));
    assert_eq!(at("~/x"), Path::new("/home/bob/x"));
    assert_eq!(at("~bob/x"), Path::new("/base/dir/~bob/x"));
    assert_eq!(at("/abs"), Path::new("/abs"));
}

#[test]
fn vault_ids_keep_their_labels_and_get_whole_paths() {
    let mut world = World::new();
    world.file(
        "work/inv/vmwright.yaml",
        "vault_ids: [dev@pw, prompt]\nallow_pipe_lookup: true\n",
    );
    let found = world.load(Overrides::default(), &["inv"]).unwrap();
    let pw = world.path("work/inv/pw").display().to_string();
    assert_eq!(found.vault_ids.value, [format!("dev@{pw}"), "prompt".to_owned()]);
    assert_eq!(found.allow_pipe_lookup.value, Switch(true));
    world.var("ANSIBLE_VAULT_IDENTITY_LIST", "qa@prompt, ~/v");
    let found = world.load(Overrides::default(), &["inv"]).unwrap();
    let v = world.path("home/v").display().to_string();
    assert_eq!(found.vault_ids.value, ["qa@prompt".to_owned(), format!("default@{v}")]);
    world.var("VMWRIGHT_HASH_BEHAVIOUR", "mix");
    let problems = world.load(Overrides::default(), &["inv"]).unwrap_err();
    assert_eq!(problems[0].code, "settings/bad-environment");
}
