//! `weir guard`.

use crate::failure::{Exit, Failure};

/// Arguments of `weir guard`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
