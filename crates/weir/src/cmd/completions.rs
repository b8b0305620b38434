//! `weir completions`: prints a shell's completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use super::output::print;
use crate::failure::{Exit, Failure};

/// Arguments of `weir completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    shell: Shell,
}

/// Prints the completion script to standard output.
pub fn run(args: Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "weir", &mut script);
    print(String::from_utf8_lossy(&script).trim_end());
    Ok(Exit::Good)
}
