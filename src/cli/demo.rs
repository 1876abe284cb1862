//! `demo`.
use super::Problems;
use super::args::{Demo, Global};
use crate::diagnose::Exit;
/// Demo.
pub async fn run(_global: &Global, _args: &Demo) -> Result<Exit, Problems> {
    Ok(Exit::Done)
}
