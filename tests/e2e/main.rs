//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contention;
mod creation;
mod guest;
mod happy;
mod hardware;
mod input;
mod resume;
mod secrets;
mod support;
mod weather;
