//! `weir origin`.

use crate::failure::{Exit, Failure};

/// Arguments of `weir origin`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
