//! Archives: a whole run in one file, to keep or to share. `Store::import` adds it to another database.
//!
//! An archive is gzipped JSON lines: a header with versions, the run, each finished cell, and an end line. The end line
//! contains the number of cells, so that a reader detects a file that was truncated between two lines.

mod error;
mod limits;
mod read;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

pub use error::ArchiveError;
pub use read::read_archive;

use crate::{Cell, Run, SCHEMA_VERSION};

/// Version of the archive format: the kinds of lines and their names.
///
/// The runs and cells in the lines have their own version, [`SCHEMA_VERSION`]. A reader rejects an archive if one of
/// the two versions is newer than the reader supports.
pub const ARCHIVE_VERSION: u32 = 1;

/// The content of an archive: a run and its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// The run.
    pub run: Run,
    /// Finished cells. An unfinished run has fewer cells than its plan.
    pub cells: Vec<Cell>,
}

/// A line of an archive.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line<R, C> {
    /// The first line: the file type and its versions.
    Weir(Versions),
    /// The second line: the run.
    Run(R),
    /// A finished cell.
    Cell(C),
    /// The last line, which ends a complete archive.
    End {
        /// Number of cells in the archive.
        cells: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Versions {
    archive_version: u32,
    schema_version: u32,
    /// The version of weir that wrote the file.
    weir_version: String,
}

/// Writes a run with its finished cells.
///
/// # Errors
/// When `output` cannot be written.
pub fn write_archive(run: &Run, cells: &[Cell], output: impl Write) -> io::Result<()> {
    let mut output = GzEncoder::new(output, Compression::default());
    let mut put = |line: &Line<&Run, &Cell>| {
        serde_json::to_writer(&mut output, line)?;
        output.write_all(b"\n")
    };
    put(&Line::Weir(Versions {
        archive_version: ARCHIVE_VERSION,
        schema_version: SCHEMA_VERSION,
        weir_version: env!("CARGO_PKG_VERSION").into(),
    }))?;
    put(&Line::Run(run))?;
    for cell in cells {
        put(&Line::Cell(cell))?;
    }
    put(&Line::End { cells: cells.len() })?;
    output.finish()?.flush()
}
