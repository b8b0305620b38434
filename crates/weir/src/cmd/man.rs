//! `weir man DIR`: writes the man pages that packages contain.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::failure::{Exit, Failure};

/// Arguments of `weir man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for the pages
    dir: PathBuf,
}

/// Writes one page per command.
pub fn run(args: Args) -> Result<Exit, Failure> {
    weir_reference::man_pages(crate::Cli::command(), &args.dir).map_err(|error| {
        let message = format!("cannot write man pages to {}: {error}", args.dir.display());
        Failure::environment(message, "use a writable directory")
    })?;
    Ok(Exit::Good)
}
