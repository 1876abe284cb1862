//! The real binary against the simulated cluster: real HTTPS, real `ssh`.

mod happy;
mod input;
mod support;
mod weather;
mod weather_doors;
mod weather_guest;
mod weather_ready;
mod weather_tasks;
