//! `weir burn`: uses extra CPU time, as a fixed share of the CPU time of a program. `weir run --control` makes a
//! gateway slower with it.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Arguments of `weir burn`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Extra CPU time, as a share of the program's CPU time; 0.1 is 10 %
    #[arg(long, value_name = "SHARE")]
    share: f64,
    /// File for the CPU times of the program and of `weir burn`
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// PID of a program that already runs: burn CPU time until it exits. It must be the parent of `weir burn`
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    of: Option<i32>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "of")]
    command: Vec<String>,
}

/// With `--of PID`, uses extra CPU time until the process `PID` exits. Without `--of`, starts a child that uses the
/// extra CPU time, then replaces this process with the program.
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
