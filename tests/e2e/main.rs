//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

mod happy;
mod stages;
mod support;
