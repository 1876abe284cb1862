//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

mod contention;
mod creation;
mod guest;
mod happy;
mod hardware;
mod resume;
mod support;
