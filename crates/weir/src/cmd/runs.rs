//! `weir runs`.

use crate::failure::{Exit, Failure};

/// Arguments of `weir runs`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
