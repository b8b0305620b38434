//! Archives: a whole run in one file, to keep or to give away. `Store::import` takes it into another database.
//!
//! An archive is gzip over lines of JSON: a header with versions, the run, each finished cell, and an end with the
//! number of cells, by which a file that was cut at a line's end is known.

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

/// Version of the archive's own form: its lines and what they are called.
///
/// What stands inside the lines has [`SCHEMA_VERSION`]. A reader takes both up to its own and refuses newer ones.
pub const ARCHIVE_VERSION: u32 = 1;

/// A run as an archive holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// The run.
    pub run: Run,
    /// Its finished cells; fewer than its plan has where it is unfinished.
    pub cells: Vec<Cell>,
}

/// A line of an archive.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line<R, C> {
    /// The first: whose file this is, and of which versions.
    Weir(Versions),
    /// The second.
    Run(R),
    /// A finished cell.
    Cell(C),
    /// The last.
    End {
        /// Lines with a cell.
        cells: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Versions {
    archive_version: u32,
    schema_version: u32,
    /// The weir that wrote the file.
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
