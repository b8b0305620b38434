//! `weir slow`: clients that take their time, as a process of its own, for the lab. A specification in, counts out.

use std::path::PathBuf;

use weir_engine::{SlowSpec, run_slow};

use super::generate::{read_spec, until_signalled, write_whole};
use crate::failure::{Exit, Failure};

/// Arguments of `weir slow`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the clients do, JSON
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// Where the counts are written, JSON; they are there whole or not at all
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
}

/// Runs them until SIGINT or SIGTERM, and writes what became of them.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: SlowSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let counts = run_slow(&spec, &stop)
        .map_err(|error| Failure::environment(format!("cannot run slow clients: {error}"), error.remedy()))?;
    write_whole(&args.record, &counts)?;
    Ok(Exit::Good)
}
