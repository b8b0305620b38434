//! `weir guard`: cleans up after a dead lab. The rig starts it; users do not.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Arguments of `weir guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run's ledger
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    weir_rig::run_guard(&args.ledger);
    Ok(Exit::Good)
}
