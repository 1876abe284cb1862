//! `simulator`.
use super::Problems;
use super::args::Simulator;
use crate::diagnose::Exit;
/// Simulator.
pub async fn run(_args: &Simulator) -> Result<Exit, Problems> {
    Ok(Exit::Done)
}
