//! Reads an archive: first the versions, then line by line. Each line is checked against the lines before it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};

use super::limits::{self, TooLarge, Unpacked};
use super::{ARCHIVE_VERSION, Archive, ArchiveError, Line, Versions};
use crate::{Cell, CellOutcome, Histogram, HistogramError, LoadRecord, Run, SCHEMA_VERSION};

/// Maximum length of a line in bytes. A cell with ten hours of per-second results needs less than a tenth of it.
const LINE_BYTES_MAX: u64 = 1 << 30;
/// The first bytes of every gzip file.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The start of the first line of an archive.
const FIRST_LINE: &[u8] = b"{\"weir\":";
/// Maximum length of a run id in bytes.
const ID_BYTES_MAX: usize = 100;

/// Reads an archive; `name` is the file name for errors, as the user gave it.
///
/// The result is consistent: the run id is valid as a folder name, each cell is in the plan and occurs once, and every
/// histogram can be decoded.
///
/// # Errors
/// When the input cannot be read, is not an archive, has a newer version, or is truncated or damaged.
pub fn read_archive(name: &str, input: impl Read) -> Result<Archive, ArchiveError> {
    let input = unpacked(name, input)?;
    let mut lines = Lines { name, line: 0, input: BufReader::new(input) };
    let versions = match lines.next()? {
        Line::Weir(versions) => versions,
        _ => return Err(ArchiveError::Foreign { name: name.into() }),
    };
    check_versions(name, versions)?;
    let Line::Run(run) = lines.next()? else { return Err(lines.damaged("expected the run")) };
    check_run(&run).map_err(|detail| lines.damaged(detail))?;
    let mut cells: Vec<Cell> = Vec::new();
    let mut seen = BTreeSet::new();
    loop {
        match lines.next()? {
            Line::Cell(cell) => {
                check_cell(&run, &cell, &mut seen).map_err(|detail| lines.damaged(detail))?;
                cells.push(*cell);
            }
            Line::End { cells: expected } if expected == cells.len() => break,
            Line::End { cells: expected } => {
                return Err(lines.damaged(format!("expected {expected} cells, found {}", cells.len())));
            }
            _ => return Err(lines.damaged("expected a cell, or the last line of the archive")),
        }
    }
    // Read to the end of the file, so that the decoder also verifies the checksums.
    if !lines.text()?.is_empty() {
        return Err(lines.damaged("unexpected data after the last line of the archive"));
    }
    // Sort the cells in the order of the plan, as the store does.
    cells.sort_by_key(|cell| cell.key.index);
    Ok(Archive { run: *run, cells })
}

/// Returns a reader of the decompressed content. Rejects files that are not gzip.
fn unpacked(name: &str, mut input: impl Read) -> Result<impl Read, ArchiveError> {
    let mut start = Vec::new();
    let read = input.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start);
    read.map_err(|source| ArchiveError::Unreadable { name: name.into(), source })?;
    if start != GZIP_MAGIC {
        return Err(ArchiveError::Foreign { name: name.into() });
    }
    Ok(Unpacked::new(GZIP_MAGIC.chain(input)))
}

/// Reads, counts and parses the lines of an archive.
struct Lines<'a, R> {
    name: &'a str,
    line: usize,
    input: R,
}

impl<R: BufRead> Lines<'_, R> {
    fn next(&mut self) -> Result<Line<Box<Run>, Box<Cell>>, ArchiveError> {
        let text = self.text()?;
        if self.line == 1 && !text.starts_with(FIRST_LINE) {
            return Err(ArchiveError::Foreign { name: self.name.into() });
        }
        if !text.ends_with(b"\n") {
            return Err(ArchiveError::Cut { name: self.name.into(), line: self.line });
        }
        limits::check_line(&text).map_err(|detail| self.damaged(detail))?;
        // Each line is parsed on its own, so the line number of serde is always 1.
        serde_json::from_slice(&text)
            .map_err(|error| self.damaged(error.to_string().replace(" at line 1 column ", " at column ")))
    }

    /// The next line with its line break; empty after the last one.
    fn text(&mut self) -> Result<Vec<u8>, ArchiveError> {
        self.line += 1;
        let mut text = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
        let (name, line) = (self.name.to_owned(), self.line);
        match read.map_err(|error| (error.kind(), error)) {
            Ok(read) if read as u64 == LINE_BYTES_MAX => Err(self.damaged("the line is too long")),
            Ok(_) => Ok(text),
            Err((_, error)) if error.get_ref().is_some_and(|inner| inner.is::<TooLarge>()) => {
                Err(ArchiveError::TooLarge { name })
            }
            Err((io::ErrorKind::UnexpectedEof, _)) => Err(ArchiveError::Cut { name, line }),
            Err((io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData, error)) => {
                Err(self.damaged(error.to_string()))
            }
            Err((_, source)) => Err(ArchiveError::Unreadable { name, source }),
        }
    }

    fn damaged(&self, detail: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { name: self.name.into(), line: self.line, detail: detail.into() }
    }
}

fn check_versions(name: &str, versions: Versions) -> Result<(), ArchiveError> {
    let check = |what, found, known| match found > known {
        true => {
            let weir_version = versions.weir_version.clone();
            Err(ArchiveError::Newer { name: name.into(), what, found, known, weir_version })
        }
        false => Ok(()),
    };
    check("archive", versions.archive_version, ARCHIVE_VERSION)?;
    check("result schema", versions.schema_version, SCHEMA_VERSION)
}

fn check_run(run: &Run) -> Result<(), String> {
    let id = &run.id;
    let letters = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    // Reports use the ID as a folder name, so its characters are restricted. `last` is reserved as the alias of the
    // latest run.
    if !letters || id.is_empty() || id.len() > ID_BYTES_MAX || id == "last" {
        return Err(format!("`{}` is not a run id", id.escape_debug()));
    }
    // Names are printed on terminals, so they must not contain control characters.
    let names = std::iter::once(&run.name).chain(run.plan.iter().map(|key| &key.gateway));
    if let Some(name) = names.into_iter().find(|name| name.contains(char::is_control)) {
        return Err(format!("`{}` is not a valid name", name.escape_debug()));
    }
    let mut places = BTreeSet::new();
    match run.plan.iter().find(|key| !places.insert(key.index)) {
        Some(twice) => Err(format!("the plan has cell {} twice", twice.index)),
        None => Ok(()),
    }
}

fn check_cell(run: &Run, cell: &Cell, seen: &mut BTreeSet<u32>) -> Result<(), String> {
    let index = cell.key.index;
    if !run.plan.contains(&cell.key) {
        return Err(format!("cell {index} is not in the run's plan"));
    }
    if !seen.insert(index) {
        return Err(format!("duplicate cell {index}"));
    }
    let CellOutcome::Measured { measurements } = &cell.outcome else { return Ok(()) };
    for measurement in measurements {
        check_histograms(&measurement.record)
            .map_err(|error| format!("cell {index}, load `{}`: {error}", measurement.load))?;
    }
    Ok(())
}

fn check_histograms(record: &LoadRecord) -> Result<(), HistogramError> {
    let of_load = [Some(&record.latency), Some(&record.service_time), record.lateness.as_ref()];
    let of_seconds = record.seconds.iter().map(|second| &second.latency);
    let of_steps = record.steps.iter().map(|step| &step.latency);
    let of_routes =
        record.routes.iter().flat_map(|route| route.by_class.values()).map(|times| &times.latency);
    let mut all = of_load.into_iter().flatten().chain(of_seconds).chain(of_steps).chain(of_routes);
    all.try_for_each(|histogram: &Histogram| histogram.decode().map(drop))
}
