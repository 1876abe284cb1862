//! What verbs have in common: settings, inventory, hosts and machines, read and checked before anything is touched.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::args::{Global, Sources};
use super::embedded::{self, Embedded};
use super::{Problems, logging, password, say};
use crate::diagnose::{Diagnostic, Place, chain, nearest};
use crate::guest::keys;
use crate::inventory::{Inventory, LoadOptions, Merge, Value};
use crate::machine::{self, HostVariables, Machine, SecretsSeen, SshTarget, schema};
use crate::secret::{Redactor, Secret};
use crate::settings::{self, HashBehaviour, Origin, Overrides, Settings, Switch};

/// The group whose hosts are VMs, as the inventories have it.
pub const VM_GROUP: &str = "vms";

/// How many hosts a warning names.
const NAMED: usize = 5;

/// Settings and inventory.
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The inventory.
    pub inventory: Inventory,
    /// What is worth saying.
    pub warnings: Vec<Diagnostic>,
    /// Secret values that were looked at.
    secrets: SecretsSeen,
    /// The values of all variables that hold secrets, of every host, used or not.
    secret_variables: Vec<Secret>,
}

/// The environment; names and values that are no text are left out.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The home directory, where there is one.
pub fn home() -> PathBuf {
    environment()
        .get("HOME")
        .map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// Reads settings and inventory. The lookup `password` makes no files.
pub fn load(global: &Global, sources: &Sources, overrides: Overrides) -> Result<Loaded, Problems> {
    load_for(global, sources, overrides, false)
}

/// Reads settings and inventory; with `may_write` the lookup `password` makes the files that are missing.
pub fn load_for(global: &Global, sources: &Sources, overrides: Overrides, may_write: bool) -> Result<Loaded, Problems> {
    let (settings, mut options) = options(global, sources, overrides)?;
    options.may_write = may_write;
    let loaded = Inventory::load(&options)?;
    let mut warnings = settings.warnings.clone();
    warnings.extend(loaded.warnings);
    let loaded = Loaded {
        settings,
        secret_variables: secret_variables(&loaded.inventory),
        inventory: loaded.inventory,
        warnings,
        secrets: SecretsSeen::default(),
    };
    // What goes wrong from here on is told with them masked.
    loaded.secrets(&[]);
    Ok(loaded)
}

/// Reads settings, and tells what is to be loaded.
pub fn options(global: &Global, sources: &Sources, overrides: Overrides) -> Result<(Settings, LoadOptions), Problems> {
    let env = environment();
    let working_dir = std::env::current_dir().map_err(|error| {
        vec![Diagnostic::error(
            "cli/working-directory",
            format!("the working directory cannot be read: {error}"),
        )]
    })?;
    let inventories: Vec<PathBuf> = sources
        .inventory
        .iter()
        .filter(|source| !source.contains(','))
        .map(PathBuf::from)
        .collect();
    let overrides = Overrides {
        vault_password_files: sources.vault_password_file.clone(),
        vault_ids: sources.vault_id.clone(),
        allow_pipe_lookup: sources.allow_pipe_lookup.then_some(Switch(true)),
        hash_behaviour: sources.hash_behaviour,
        ..overrides
    };
    let settings = Settings::load(&settings::Sources {
        overrides,
        env: &env,
        inventories: &inventories,
        working_dir: &working_dir,
    })?;
    if global.log_format.is_none() {
        logging::start(global.verbose, settings.log_format.value);
    }
    let load = LoadOptions {
        sources: sources.inventory.clone(),
        extra_vars: sources.extra_vars.clone(),
        vault_password_files: settings.vault_password_files.value.clone(),
        working_dir,
        env,
        vault_ids: settings.vault_ids.value.clone(),
        ask_vault_pass: sources.ask_vault_pass,
        ask_password: Some(password::ask),
        allow_pipe_lookup: settings.allow_pipe_lookup.value.0,
        may_write: false,
        merge: match settings.hash_behaviour.value {
            HashBehaviour::Replace => Merge::Replace,
            HashBehaviour::Merge => Merge::Merge,
        },
    };
    Ok((settings, load))
}

/// The values of all variables that hold secrets, of every host, used or not.
pub fn secret_variables(inventory: &Inventory) -> Vec<Secret> {
    let secret = schema::variables().filter(|variable| variable.secret && !variable.name.contains('.'));
    let names: Vec<&str> = secret.map(|variable| variable.name).collect();
    let mut seen = HashSet::new();
    for host in inventory.hosts() {
        let scope = inventory.scope(host);
        for name in &names {
            // A value that cannot be evaluated is told where it is used.
            if let Ok(Some(value)) = scope.get(name)
                && let Some(text) = value.as_str()
                && !seen.contains(text)
            {
                seen.insert(text.to_owned());
            }
        }
    }
    seen.into_iter().map(Secret::new).collect()
}

/// A `vms_state_dir`.
struct NamedDir {
    text: String,
    /// What a relative path is relative to: the folder of the file that names it.
    base: PathBuf,
    path: PathBuf,
    place: Place,
}

impl NamedDir {
    fn of(value: &Value, home: &Path) -> Option<Self> {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let base = Path::new(&*value.place.file).parent().unwrap_or(Path::new("."));
        Some(Self {
            text: text.to_owned(),
            base: base.to_owned(),
            path: settings::absolute(Path::new(text), base, Some(home)),
            place: value.place.clone(),
        })
    }

    fn same(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(|dir| &dir.path) == other.map(|dir| &dir.path)
    }
}

fn differing(one: (&str, Option<&NamedDir>), other: (&str, Option<&NamedDir>)) -> Diagnostic {
    let shown = |dir: Option<&NamedDir>| dir.map_or_else(|| "none".to_owned(), |dir| dir.path.display().to_string());
    let place = |dir: Option<&NamedDir>| dir.map(|dir| dir.place.clone());
    Diagnostic::error(
        "cli/state-dirs",
        format!(
            "hosts of group {VM_GROUP} name several state directories: {} and {}",
            one.0, other.0
        ),
    )
    .key("vms_state_dir")
    .note(place(one.1), format!("{}: {}", one.0, shown(one.1)))
    .note(place(other.1), format!("{}: {}", other.0, shown(other.1)))
    .rule("a lock or a record in one state directory is not seen by a run that looks into another")
    .help(format!(
        "set vms_state_dir once, for all hosts of group {VM_GROUP}, or name the directory with --state-dir"
    ))
}

impl Loaded {
    /// The hosts that a pattern selects; without one all hosts of group `vms`. Every one must be in that group.
    pub fn hosts(&self, limit: Option<&str>) -> Result<Vec<String>, Problems> {
        let vms: Vec<String> = self
            .inventory
            .hosts_of_group(VM_GROUP)
            .into_iter()
            .map(str::to_owned)
            .collect();
        if vms.is_empty() {
            return Err(vec![
                Diagnostic::error("cli/no-vms", format!("the inventory has no hosts in group {VM_GROUP}"))
                    .rule(format!("the hosts of group {VM_GROUP} are virtual machines")),
            ]);
        }
        let Some(limit) = limit else { return Ok(vms) };
        let selected = self.inventory.select(limit).map_err(|problem| vec![problem])?;
        // In the inventory's order, whatever the pattern's: as a playbook with --limit goes through its hosts.
        let hosts: Vec<String> = vms.iter().filter(|host| selected.contains(host)).cloned().collect();
        if hosts.is_empty() {
            let mut problem = Diagnostic::error(
                "cli/not-a-vm",
                format!("--limit {limit} selects no host of group {VM_GROUP}"),
            )
            .rule(format!("the hosts of group {VM_GROUP} are virtual machines"));
            if let Some(near) = nearest(limit, vms.iter().map(String::as_str)) {
                problem = problem.help(format!("did you mean {near}?"));
            }
            return Err(vec![problem]);
        }
        Ok(hosts)
    }

    /// Everything that must never be shown: the machines' secrets, what came from a vault, and the values of all variables
    /// that hold secrets.
    pub fn secrets(&self, machines: &[Machine]) -> Redactor {
        let mut secrets: Vec<Secret> = machines.iter().flat_map(Machine::secrets).collect();
        secrets.extend(self.secret_variables.iter().cloned());
        secrets.extend(self.secrets.all());
        let redactor = Redactor::new(secrets);
        logging::mask(&redactor);
        redactor
    }

    /// Tells the warnings so far.
    pub fn tell_warnings(&mut self, redactor: &Redactor) {
        say::diagnostics(&self.warnings, redactor);
        self.warnings.clear();
    }

    /// Starts the embedded cluster if the hosts' inventory asks for one.
    pub async fn embedded(&self, hosts: &[String]) -> Result<Option<Embedded>, Problems> {
        embedded::start(&self.inventory, hosts).await
    }

    /// The machines of these hosts, with every rule checked; all problems of all hosts at once.
    pub fn machines(&mut self, hosts: &[String]) -> Result<Vec<Machine>, Problems> {
        let (mut machines, mut problems) = (Vec::new(), Vec::new());
        for host in hosts {
            match machine::build(&HostVariables::new(&self.inventory, host, Some(home()), &self.secrets)) {
                Ok(built) => {
                    self.warnings.extend(built.warnings);
                    machines.push(built.machine);
                }
                Err(found) => problems.extend(found),
            }
        }
        for found in machine::check_run(&machines) {
            match found.severity {
                crate::diagnose::Severity::Warning => self.warnings.push(found),
                crate::diagnose::Severity::Error => problems.push(found),
            }
        }
        // What was looked at may have been made from a vault's secrets, and stands in the problems.
        self.secrets(&machines);
        if problems.is_empty() {
            Ok(machines)
        } else {
            Err(problems)
        }
    }

    /// Compares the machines of a run with what all other hosts of group `vms` claim: a name, number or address that two
    /// hosts have is found out whichever of them is selected.
    pub fn compare_with_others(&mut self, machines: &[Machine]) -> Result<(), Problems> {
        let selected: HashSet<&str> = machines.iter().map(|machine| machine.host.as_str()).collect();
        let (mut others, mut skipped) = (Vec::new(), Vec::new());
        for host in self.inventory.hosts_of_group(VM_GROUP) {
            if selected.contains(host) {
                continue;
            }
            match machine::claims(&HostVariables::new(&self.inventory, host, Some(home()), &self.secrets)) {
                Ok(claims) => others.push(claims),
                Err(problems) => skipped.push((host.to_owned(), problems)),
            }
        }
        if !skipped.is_empty() {
            let mut warning = Diagnostic::warning(
                "machine/not-compared",
                format!(
                    "{} of group {VM_GROUP} not compared with the hosts of this run",
                    if skipped.len() == 1 {
                        "one host is"
                    } else {
                        "several hosts are"
                    }
                ),
            )
            .rule("whether they have the same name, number or address is not known");
            for (host, problems) in skipped.iter().take(NAMED) {
                let first = problems.first();
                let why = first.map_or_else(|| "it cannot be read".to_owned(), |problem| problem.message.clone());
                warning = warning.note(
                    first.and_then(|problem| problem.place.clone()),
                    format!("{host}: {why}"),
                );
            }
            if let Some(more) = skipped.len().checked_sub(NAMED).filter(|more| *more > 0) {
                warning = warning.note(None, format!("and {more} more"));
            }
            self.warnings.push(warning);
        }
        let problems = machine::check_claims(machines, &others);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// How the hosts that are no VMs are logged in to, nodes among them. One whose variables do not tell is left out.
    pub fn other_hosts(&self) -> BTreeMap<String, SshTarget> {
        let mut others = BTreeMap::new();
        for host in self.inventory.hosts() {
            if !self.inventory.in_group(host, VM_GROUP) {
                let vars = HostVariables::new(&self.inventory, host, Some(home()), &self.secrets);
                others.extend(machine::node_target(&vars, host).map(|target| (host.to_owned(), target)));
            }
        }
        others
    }

    /// Takes the inventory's `vms_state_dir` as the state directory, unless settings name one. All hosts of group `vms` must
    /// have the same, selected or not: a lock or a record in one directory is not seen by a run that looks into another.
    pub fn settle_state_dir(&mut self, selected: &[String]) -> Result<(), Problems> {
        if self.settings.state_dir.origin != Origin::Default {
            return Ok(());
        }
        let home = home();
        let mut first: Option<(&str, Option<NamedDir>)> = None;
        for host in self.inventory.hosts_of_group(VM_GROUP) {
            let own = match self.inventory.scope(host).get("vms_state_dir") {
                Ok(value) => value.and_then(|value| NamedDir::of(&value, &home)),
                Err(problem) if selected.iter().any(|name| name == host) => return Err(vec![problem]),
                // A host that is not selected does not stop the others; selected, it cannot be run.
                Err(_) => continue,
            };
            match &first {
                None => first = Some((host, own)),
                Some((_, known)) if NamedDir::same(known.as_ref(), own.as_ref()) => {}
                Some((known_host, known)) => {
                    return Err(vec![differing((known_host, known.as_ref()), (host, own.as_ref()))]);
                }
            }
        }
        if let Some((_, Some(dir))) = first {
            self.settings
                .take_state_dir_of_inventory(&dir.text, &dir.base, Some(&home), dir.place);
        }
        Ok(())
    }

    /// Gives every machine the public keys that may log in to it: the control node's, made if it has none (`make`).
    pub fn authorize(&self, machines: &mut [Machine], make: bool) -> Result<(), Problems> {
        let home = home();
        for machine in machines {
            let configured = machine.ssh.key.as_deref();
            let pair = if make {
                keys::ensure(configured, &home).map(Some)
            } else {
                keys::find(configured, &home)
            };
            match pair {
                Ok(Some(pair)) => {
                    if pair.created {
                        say::talk(&format!("made the key pair {} for the guests", pair.private.display()));
                    }
                    if !machine.guest.authorized_keys.contains(&pair.public) {
                        machine.guest.authorized_keys.push(pair.public);
                    }
                }
                Ok(None) => machine
                    .guest
                    .authorized_keys
                    .push("ssh-ed25519 (made at the first provision)".to_owned()),
                Err(error) => {
                    return Err(vec![
                        Diagnostic::error("cli/key-pair", chain(&error))
                            .host(&machine.host)
                            .key("ansible_ssh_private_key_file")
                            .at(Some(Place::whole("the key pair of the control node")))
                            .help("name a key pair that can be read, or a path where one can be made"),
                    ]);
                }
            }
        }
        Ok(())
    }
}
