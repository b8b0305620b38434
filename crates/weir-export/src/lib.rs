//! Exports of runs: tables as CSV and Parquet, JSON, HdrHistogram logs, and summaries of k6 and Locust.
//! `docs/reference/columns.md` describes every column.
//!
//! This crate neither measures nor judges: an export contains the values of the run. A missing measurement is missing
//! in the export, never 0. Of all formats, only archives (`weir_results::write_archive`) can be imported again.
//! [`read_foreign`] reads results of other programs, for comparisons.

mod columns;
mod csv;
mod entry;
mod error;
mod findings;
mod foreign;
mod hdr;
mod json;
mod k6;
mod locust;
mod parquet;
mod selection;
mod table;

use weir_analysis::Summary;
use weir_results::{Cell, Run};

pub use error::ExportError;
pub use foreign::{ForeignError, ForeignFile, read_foreign};
pub use selection::{Selection, SelectionError};
pub use table::ColumnDescription;

/// Returns the run as a CSV table, with one row per load of each cell, and one per step and route of a load.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn csv(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    Ok(csv::draw(&table::table(run, cells)?))
}

/// Returns the table of [`csv`] as a Parquet file, with typed columns.
///
/// # Errors
/// When a histogram of the run cannot be decoded, or the file cannot be created.
pub fn parquet(run: &Run, cells: &[Cell]) -> Result<Vec<u8>, ExportError> {
    parquet::draw(&table::table(run, cells)?)
}

/// Returns the findings of a run as a CSV table, with one row per value of each finding.
pub fn findings_csv(summary: &Summary) -> String {
    csv::draw(&findings::table(summary))
}

/// Returns the table of [`findings_csv`] as a Parquet file, with typed columns.
///
/// # Errors
/// When the file cannot be created.
pub fn findings_parquet(summary: &Summary) -> Result<Vec<u8>, ExportError> {
    parquet::draw(&findings::table(summary))
}

/// Returns the findings of a run as JSON, in the form of the summary that `weir run --json` prints.
pub fn findings_json(summary: &Summary) -> String {
    serde_json::to_string_pretty(&summary.findings).unwrap_or_default()
}

/// Returns the whole run as JSON. Each histogram comes with its quantiles.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn json(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    json::draw(run, cells)
}

/// Returns the latency of every second of every load as an HdrHistogram interval log.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn hdr(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    hdr::draw(run, cells)
}

/// Returns every load as k6's end-of-test summary, one line of JSON each.
pub fn k6(run: &Run, cells: &[Cell]) -> String {
    k6::draw(run, cells)
}

/// Returns every load as Locust's request statistics, in CSV.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn locust(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    locust::draw(run, cells)
}

/// Describes the columns of [`csv`] and [`parquet`]. `axis.PATH` stands for the columns of the axes, which depend on
/// the run.
pub fn columns() -> Vec<ColumnDescription> {
    table::descriptions()
}

/// Describes the columns of [`findings_csv`] and [`findings_parquet`]. `axis.PATH` stands for the columns of all axes.
pub fn findings_columns() -> Vec<ColumnDescription> {
    findings::descriptions()
}
