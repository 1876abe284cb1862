//! Crash proof: processes die at every boundary of every workflow, one process after the other, and a clean run must end
//! well every time; checkers that are not the code under test look at the world then.
//!
//! A stage that is added to a workflow is covered by construction: nothing here knows the stages. A workflow is added by
//! one `impl` in [`workflows`].

#![expect(
    clippy::print_stdout,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; counts are told"
)]

mod check;
mod closure;
mod deaths;
mod door;
mod faults;
mod fingerprint;
mod life;
mod model;
mod planted;
mod points;
mod scene;
mod ssh;
mod switch;
mod workflows;
mod world;
