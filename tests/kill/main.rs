//! The real binary, killed: SIGKILL at the boundaries of every change that it asks of the API, over real HTTPS and `ssh`,
//! and twenty of it at once. The checkers are those of the crash tests in process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails; counts are told"
)]

#[path = "../crash/check.rs"]
mod check;
mod contenders;
#[path = "../e2e"]
mod e2e {
    #[expect(dead_code, unused_imports, reason = "other tests use more of it")]
    pub mod support;
}
mod ground;
mod moments;
#[path = "../crash/scene.rs"]
mod scene;
