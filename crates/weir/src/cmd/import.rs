//! `weir import`: imports a run from an archive of `weir export`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_results::{ArchiveError, Imported, read_archive};

use super::database::Database;
use super::hint::with_database;
use super::output::print;
use crate::failure::{Exit, Failure};

/// Arguments of `weir import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Archive from `weir export --format weir`; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    database: Database,
}

/// Reads an archive, and stores its run completely or not at all.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let name = args.file.display().to_string();
    let unreadable = |source| ArchiveError::Unreadable { name: name.clone(), source };
    let input: Box<dyn Read> = match args.file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(&args.file).map_err(unreadable)?),
    };
    let archive = read_archive(&name, input)?;
    // The database is opened after reading, so that a rejected archive does not create one.
    let mut store = args.database.open_or_make()?;
    let (run, there) = (&archive.run, store.path().display().to_string());
    match store.import(run, &archive.cells)? {
        Imported::New => {
            let done = archive.cells.len();
            let planned = weir_results::words::counted(run.plan.len() as u64, "cell");
            print(format_args!("imported run {} ({}, {done} of {planned}) into {there}", run.id, run.name));
            print(with_database(&format!("`weir report {}` prints its report", run.id)));
        }
        Imported::Present => {
            print(format_args!("run {} is already in {there}, with the same content", run.id))
        }
    }
    Ok(Exit::Good)
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        super::database::reported(error.is_wrong_use(), &error, error.remedy())
    }
}
