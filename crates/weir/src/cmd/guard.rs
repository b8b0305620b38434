//! `weir guard`: cleans up if the process of a run dies. Each run starts a guard; users do not start it.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Arguments of `weir guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run's ledger
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
}

/// Waits for the end of the run's process, and cleans up if needed.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    weir_rig::run_guard(&args.ledger);
    Ok(Exit::Good)
}
