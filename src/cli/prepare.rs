//! What verbs have in common: settings, inventory, hosts and machines, read and checked before anything is touched.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::args::{Global, Sources};
use super::embedded::{self, Embedded};
use super::{Problems, logging, say};
use crate::diagnose::{Diagnostic, Place, chain, nearest};
use crate::guest::keys;
use crate::inventory::{Inventory, LoadOptions};
use crate::machine::{self, HostVariables, Machine, SecretsSeen, schema};
use crate::secret::{Redactor, Secret};
use crate::settings::{self, Overrides, Settings};

/// The group whose hosts are VMs, as the inventories have it.
pub const VM_GROUP: &str = "vms";

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

/// Reads settings and inventory.
pub fn load(global: &Global, sources: &Sources, overrides: Overrides) -> Result<Loaded, Problems> {
    let (settings, options) = options(global, sources, overrides)?;
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
        if problems.is_empty() {
            Ok(machines)
        } else {
            Err(problems)
        }
    }

    /// Takes the inventory's `vms_state_dir` as the state directory, unless settings name one.
    pub fn settle_state_dir(&mut self, host: &str) -> Result<(), Problems> {
        let value = self
            .inventory
            .scope(host)
            .get("vms_state_dir")
            .map_err(|problem| vec![problem])?;
        if let Some(value) = value
            && let Some(text) = value.as_str()
        {
            let base = Path::new(&*value.place.file)
                .parent()
                .unwrap_or(Path::new("."))
                .to_owned();
            self.settings
                .take_state_dir_of_inventory(text, &base, Some(&home()), value.place.clone());
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
