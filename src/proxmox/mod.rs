//! The Proxmox door: typed calls of the REST API for what the workflow needs, and nothing else.
//!
//! ```text
//!   stage --> client::Client --> transport::Transport (the door) --> https::HttpsTransport --> pveproxy
//!                 |                        \--> the simulator, or a fake in a test
//!                 +--> typed answer, or error::ApiError, which answers kind(): what the caller can do about it
//! ```
//!
//! * [`client`]: the calls; they stand by subject in [`cluster`], [`vm`], [`power`], [`task`], [`storage`], [`network`], [`agent`].
//! * [`error`]: what went wrong, classified by what can be done about it.
//! * [`transport`]: one request, one answer. [`https`] is the real one, with [`tls`], [`login`] and [`form`] below it.
//! * [`config`] and its neighbours: the grammar of a VM's configuration, pure.
//!
//! This module knows the API's facts (paths, encodings, error texts). It never decides what a VM should look like, never
//! repeats a change that may have been executed, and prints nothing.

pub mod agent;
pub mod boot;
pub mod client;
pub mod cluster;
pub mod config;
pub mod dependents;
pub mod drive;
pub mod error;
pub mod form;
pub mod https;
pub mod ids;
mod json;
pub mod login;
pub mod network;
pub mod nic;
pub mod power;
pub mod property;
pub mod size;
pub mod storage;
pub mod task;
pub mod tls;
pub mod transport;
pub mod vm;
