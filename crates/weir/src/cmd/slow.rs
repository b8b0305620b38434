//! `weir slow`: a process that a run starts for slow clients. It reads a specification and writes counts.

use weir_engine::{SlowSpec, run_slow};

use super::generate::{Args, read_spec, until_signalled, write_whole};
use crate::failure::{Exit, Failure};

/// Runs slow clients until SIGINT or SIGTERM, and writes the counts of their outcomes.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: SlowSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let counts = run_slow(&spec, &stop)
        .map_err(|error| Failure::environment(format!("cannot run slow clients: {error}"), error.remedy()))?;
    write_whole(&args.record, &counts)?;
    Ok(Exit::Good)
}
