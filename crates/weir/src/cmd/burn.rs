//! `weir burn`: uses CPU time in addition to that of a program. `weir run --control` uses it to make a gateway
//! slower by a known share.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Arguments of `weir burn`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Extra CPU time, as share of the CPU time of the program
    #[arg(long, value_name = "SHARE")]
    share: f64,
    /// File for the record of its CPU time
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// Burn for this process, which must be the parent
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    of: Option<i32>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "of")]
    command: Vec<String>,
}

/// Uses CPU time for an existing process, or starts a process that does so and then executes the program.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| {
        let program = args.command.first().map_or("weir burn", String::as_str);
        Failure::environment(format!("{program}: {error}"), "check whether the program starts without weir")
    };
    match args.of {
        Some(pid) => weir_rig::burn(args.share, &args.record, pid).map(|()| Exit::Good).map_err(failed),
        None => Err(failed(weir_rig::exec_with_burner(args.share, &args.record, &args.command))),
    }
}
