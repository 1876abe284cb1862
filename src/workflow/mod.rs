//! The workflows, one page each. They read aloud; stages do the work.

pub mod provision;
pub mod remove;
