//! The embedded cluster against the facts: its own behaviour, the published API schema, and recorded exchanges.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails; figures and skipped tests are told on stderr"
)]

mod behaviour;
mod contract;
mod pending;
mod recordings;
mod replay_spec;
mod replay_world;
mod support;
mod wire;
