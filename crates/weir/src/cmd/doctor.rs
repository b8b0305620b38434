//! `weir doctor`.

use crate::failure::{Exit, Failure};

/// Arguments of `weir doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
