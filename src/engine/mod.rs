//! The engine: runs a stage, tells what happens, runs many hosts at once.
//!
//! It knows the doors and the record, but no particular stage. It never prints: readers of [`event::Event`] do.

pub mod cluster;
pub mod deliveries;
pub mod event;
pub mod failure;
pub mod fleet;
pub mod guest;
pub mod host;
pub mod limits;
pub mod locked;
pub mod ourselves;
pub mod pace;
pub mod stage;
mod task;
#[cfg(test)]
pub(crate) mod testing;
pub mod whereabouts;
