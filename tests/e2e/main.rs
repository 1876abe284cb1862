//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails; figures and skipped tests are told on stderr"
)]

mod adopt;
mod again;
mod contention;
mod creation;
mod deliveries;
mod examples;
mod fleet;
mod guest;
mod happy;
mod hardware;
mod identity;
mod input;
mod plan;
mod protect;
mod remove;
mod resume;
mod secrets;
mod support;
mod transcripts;
mod verbs;
mod weather;
mod weather_doors;
mod weather_guest;
mod weather_owner;
mod weather_ready;
mod weather_state;
mod weather_tasks;
