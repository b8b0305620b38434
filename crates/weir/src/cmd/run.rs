//! `weir run`.

use crate::failure::{Exit, Failure};

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
