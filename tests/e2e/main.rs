//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

mod contention;
mod creation;
mod examples;
mod fleet;
mod guest;
mod happy;
mod hardware;
mod plan;
mod resume;
mod support;
mod transcripts;
mod verbs;
