//! The arguments, as clap reads them. What they mean is in the file of each verb.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::proxmox::ids::VmId;
use crate::settings::{Forks, HashBehaviour, Limit, LogFormat, OutputFormat, Overrides, duration};

/// Turns inventory lines into running, verified virtual machines on Proxmox VE.
#[derive(Debug, Parser)]
#[command(name = "vmwright", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 a host failed, 2 bad usage or inventory (nothing was touched), 3 locked, \
                        4 refused (ownership, ambiguity, confirmation), 130 interrupted."
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// Settings of the tool that every verb takes.
    #[command(flatten)]
    pub global: Global,
}

/// Settings of the tool that every verb takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Log more to standard error: -v what is done, -vv every call
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// How log lines are written: text or json
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<LogFormat>,
    /// The settings file to read instead of vmwright.yaml beside the inventory
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Where locks, records and journals are kept
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create and finalize the VMs of the inventory, or go on where an earlier run stopped
    Provision(Provision),
    /// Take VMs away with everything that belongs to them: DNS, snippets, known_hosts entries, record
    Remove(Remove),
    /// Take an existing VM in: show how it differs from the inventory, and write its record
    Adopt(Adopt),
    /// Drop the record of a VM that is gone
    Forget(Forget),
    /// List the runs so far, or tell what one of them did
    History(History),
    /// Show how far each host has come, who holds its lock, and what is unfinished
    Status(Status),
    /// Print the inventory as ansible-inventory does: JSON, YAML, TOML or a graph, secrets masked
    Inventory(Inventory),
    /// Tell where a host's variables come from, what they override and how templates became values, secrets masked
    Explain(Explain),
    /// Find what Ansible silently accepts in an inventory and people regret
    Lint(Lint),
    /// Print the cloud-init documents of a host, secrets masked
    Render(Render),
    /// Free a lock whose holder cannot be proven dead
    Unlock(Unlock),
    /// Provision three hosts on the embedded cluster, and run again to show that nothing changes
    Demo(Demo),
    /// Run the embedded cluster on its own, for tests and benchmarks
    Simulator(Simulator),
    /// Print the completions for a shell
    Completions(Completions),
}

/// Where hosts and variables come from.
#[derive(Clone, Debug, Args)]
pub struct Sources {
    /// An inventory: a file, a directory, a script, or a list of hosts with a comma in it; may be given several times
    #[arg(short, long = "inventory", value_name = "SOURCE", required = true)]
    pub inventory: Vec<String>,
    /// A variable that beats all others, as key=value; may be given several times
    #[arg(short, long = "extra-vars", value_name = "KEY=VALUE")]
    pub extra_vars: Vec<String>,
    /// A file with the password of encrypted inventory files; may be given several times
    #[arg(long, visible_alias = "vault-pass-file", value_name = "FILE")]
    pub vault_password_file: Vec<PathBuf>,
    /// A vault id and its password's source: a file, an executable or prompt; may be given several times
    #[arg(long, value_name = "LABEL@SOURCE")]
    pub vault_id: Vec<String>,
    /// Ask for the vault password at the terminal
    #[arg(short = 'J', long, visible_alias = "ask-vault-password")]
    pub ask_vault_pass: bool,
    /// Let templates run commands with the lookup pipe
    #[arg(long)]
    pub allow_pipe_lookup: bool,
    /// What becomes of a mapping that is defined at two levels: replace or merge [default: replace]
    #[arg(long, value_name = "HOW")]
    pub hash_behaviour: Option<HashBehaviour>,
}

/// Arguments of `provision`.
#[derive(Clone, Debug, Args)]
pub struct Provision {
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// Only these hosts: names, groups and patterns as Ansible's --limit takes them, or @FILE
    #[arg(short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// Tell what would be done, and write nothing
    #[arg(long)]
    pub plan: bool,
    /// How many hosts at once [default: 8]
    #[arg(short, long, value_name = "N")]
    pub forks: Option<Forks>,
    /// How many clones at once on one storage: a number or unlimited [default: 2]
    #[arg(long, value_name = "N")]
    pub clone_limit_per_storage: Option<Limit>,
    /// How many migrations at once on one node: a number or unlimited [default: 1]
    #[arg(long, value_name = "N")]
    pub migrate_limit_per_node: Option<Limit>,
    /// Begin no further host once one has failed
    #[arg(long)]
    pub fail_fast: bool,
    /// Wait for a locked VM this long, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub wait_lock: Option<Duration>,
    /// What standard output gets: human (the recap) or json (every event as a line)
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    /// The known_hosts file that the guests' host keys are written to
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
    /// A directory with cloud-init templates to use instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub templates_dir: Option<PathBuf>,
    /// Restart this VM (vms_name) though vmwright runs on it or it is declared as protected; may be given several times
    #[arg(long, value_name = "NAME")]
    pub override_protection: Vec<String>,
}

/// Arguments of `remove`.
#[derive(Clone, Debug, Args)]
pub struct Remove {
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// The hosts to remove: names, groups and patterns as Ansible's --limit takes them; all must be in group removable
    #[arg(short, long, value_name = "PATTERN", required_unless_present = "all")]
    pub limit: Option<String>,
    /// Instead of --limit: all hosts of group removable
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// The name (vms_name) of a VM that is to be removed, exactly; once for each VM. At a terminal it is asked for
    #[arg(long, value_name = "NAME")]
    pub confirm: Vec<String>,
    /// Tell what would be done, and write nothing
    #[arg(long)]
    pub plan: bool,
    /// Let the VMs' snapshots go too
    #[arg(long)]
    pub with_snapshots: bool,
    /// Remove this VM (vms_name) though vmwright runs on it or it is declared as protected; may be given several times
    #[arg(long, value_name = "NAME")]
    pub override_protection: Vec<String>,
    /// How many hosts at once [default: 8]
    #[arg(short, long, value_name = "N")]
    pub forks: Option<Forks>,
    /// Begin no further host once one has failed
    #[arg(long)]
    pub fail_fast: bool,
    /// Wait for a locked VM this long, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub wait_lock: Option<Duration>,
    /// What standard output gets: human (the recap) or json (every event as a line)
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    /// The known_hosts file that the guests' host keys are taken out of
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
}

/// Arguments of `adopt`.
#[derive(Clone, Debug, Args)]
pub struct Adopt {
    /// The host
    pub host: String,
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// The number of the VM in Proxmox
    #[arg(long, value_name = "N")]
    pub vmid: VmId,
    /// The VM's name (vms_name), to confirm that it is the one that is meant
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
}

/// Arguments of `forget`.
#[derive(Clone, Debug, Args)]
pub struct Forget {
    /// The host
    pub host: String,
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// The VM's name (vms_name), to confirm that its record is to be dropped
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
}

/// Arguments of `history`.
#[derive(Clone, Debug, Args)]
pub struct History {
    /// The run: its id, or as much of it as makes it the only one. Without it all runs are listed
    pub run: Option<String>,
    /// The inventory whose settings tell where the state directory is; may be given several times
    #[arg(short, long = "inventory", value_name = "SOURCE")]
    pub inventory: Vec<String>,
    /// What standard output gets: human (lines) or json (the events as they were written)
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
}

/// Arguments of `status`.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// Only these hosts
    #[arg(short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// What standard output gets: human (a table) or json
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    /// Do not ask the cluster: show what the records and locks say
    #[arg(long)]
    pub offline: bool,
}

/// Arguments of `inventory`.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub struct Inventory {
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// All groups, hosts and variables
    #[arg(long, group = "what")]
    pub list: bool,
    /// The variables of one host
    #[arg(long, value_name = "HOST", group = "what")]
    pub host: Option<String>,
    /// Groups and hosts as a tree
    #[arg(long, group = "what")]
    pub graph: bool,
    /// With --graph: the group to begin at [default: all]
    #[arg(requires = "graph", conflicts_with_all = ["list", "host"])]
    pub group: Option<String>,
    /// With --graph: the variables too
    #[arg(long, requires = "graph", conflicts_with_all = ["list", "host"])]
    pub vars: bool,
    /// With --list or --host: YAML instead of JSON
    #[arg(short, long, conflicts_with_all = ["graph", "toml"])]
    pub yaml: bool,
    /// With --list: TOML instead of JSON
    #[arg(long, requires = "list", conflicts_with_all = ["graph", "host"])]
    pub toml: bool,
    /// The variables of groups with their groups, and of hosts their own only: the inventory in one file
    #[arg(long)]
    pub export: bool,
    /// With --list: only these hosts
    #[arg(short, long, value_name = "PATTERN", conflicts_with_all = ["graph", "host"])]
    pub limit: Option<String>,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// The host
    pub host: String,
    /// A variable, or a place inside one: vms_config.nic0.bridge, global_dns_servers[1]. Without it all variables are told
    pub key: Option<String>,
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// What standard output gets: human (text) or json (one document)
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
}

/// Arguments of `lint`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing found, 1 something found, 2 the inventory cannot be read.")]
pub struct Lint {
    /// An inventory: a file, a directory, a script, or a list of hosts with a comma in it; may be given several times
    #[arg(
        short,
        long = "inventory",
        value_name = "SOURCE",
        required_unless_present = "list_rules"
    )]
    pub inventory: Vec<String>,
    /// A file with the password of encrypted inventory files; may be given several times
    #[arg(long, visible_alias = "vault-pass-file", value_name = "FILE")]
    pub vault_password_file: Vec<PathBuf>,
    /// A vault id and its password's source: a file, an executable or prompt; may be given several times
    #[arg(long, value_name = "LABEL@SOURCE")]
    pub vault_id: Vec<String>,
    /// Ask for the vault password at the terminal
    #[arg(short = 'J', long, visible_alias = "ask-vault-password")]
    pub ask_vault_pass: bool,
    /// Do not tell what this rule finds; may be given several times
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,
    /// List the rules: what each finds, and why it matters
    #[arg(long)]
    pub list_rules: bool,
    /// What standard output gets: human or json
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
}

/// Arguments of `render`.
#[derive(Clone, Debug, Args)]
pub struct Render {
    /// The host
    pub host: String,
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// A directory with cloud-init templates to use instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub templates_dir: Option<PathBuf>,
}

/// Arguments of `unlock`.
#[derive(Clone, Debug, Args)]
pub struct Unlock {
    /// The host
    pub host: String,
    /// Where hosts and variables come from.
    #[command(flatten)]
    pub sources: Sources,
    /// The VM's name (vms_name), to confirm that no run works on it any more
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
}

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// Keep the demo's inventory, cluster and state in this directory instead of a temporary one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Scale the cluster's durations: 1 is as real, 0 is at once
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
}

/// Arguments of `simulator`.
#[derive(Clone, Debug, Args)]
pub struct Simulator {
    /// The directory that keeps the cluster's world
    #[arg(long, value_name = "DIR")]
    pub world: PathBuf,
    /// A description of the cluster, in YAML
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Where the Proxmox API listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Scale the cluster's durations: 1 is as real, 0 is at once
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// The port of every guest's and node's sshd
    #[arg(long, value_name = "PORT", default_value_t = 2222)]
    pub ssh_port: u16,
    /// A file with public keys that log in to the nodes as root; may be given several times
    #[arg(long, value_name = "FILE")]
    pub node_key: Vec<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

impl Global {
    /// What the command line says about settings.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            config: self.config.clone(),
            state_dir: self.state_dir.clone(),
            log_format: self.log_format,
            ..Overrides::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
