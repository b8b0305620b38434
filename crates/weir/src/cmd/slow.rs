//! `weir slow`: a process of the lab with slow clients. Input is a specification, output are counts.

use weir_engine::{SlowSpec, run_slow};

use super::generate::{Args, read_spec, until_signalled, write_whole};
use crate::failure::{Exit, Failure};

/// Runs them until SIGINT or SIGTERM, and writes their outcomes.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: SlowSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let counts = run_slow(&spec, &stop)
        .map_err(|error| Failure::environment(format!("cannot run slow clients: {error}"), error.remedy()))?;
    write_whole(&args.record, &counts)?;
    Ok(Exit::Good)
}
