//! Logging in to machines: nodes and guests, through the system's `ssh`.
//!
//! ```text
//!              pure                                        does
//!   probes, cloud_init, ssh_config, ssh_stderr     openssh, keys, known_hosts, node
//!                    \                                  /
//!                     remote::Remote  (the door: run a script, get code and output)
//! ```
//!
//! Happy path: [`openssh::OpenSsh`] keeps one master connection per machine, a [`probes::Probe`] says what to run and how
//! to read the answer, [`cloud_init::judge`] turns `cloud-init status` into a verdict.
//!
//! Failures are told apart by what the caller can do ([`remote::SshError`]): wait (not reachable), stop (the host key is
//! not the one that was seen), fix the login (denied), look again (the connection was lost and the command may have run).
//!
//! This module knows nothing of Proxmox and of stages. It must never put a secret into an argument of a process, and
//! never accept a host key that the caller did not allow.

pub mod addresses;
pub mod cloud_init;
pub mod keys;
pub mod known_hosts;
pub mod node;
mod node_scripts;
pub mod openssh;
pub mod probes;
pub mod remote;
mod run_folder;
mod ssh_config;
mod ssh_exec;
mod ssh_process;
mod ssh_stderr;

#[cfg(test)]
mod cloud_init_recordings;
#[cfg(test)]
mod openssh_tests;
#[cfg(test)]
mod test_server;
