//! Exports of runs: tables as CSV and Parquet, JSON, HdrHistogram logs, and summaries of k6 and Locust.
//! `docs/reference/columns.md` describes every column.
//!
//! This crate neither measures nor judges: an export has the values of the run. A missing measurement is missing in the
//! export, never 0. Only archives of `weir_results::write_archive` can be imported. [`read_foreign`] reads results of
//! other programs, for comparisons.

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

/// The run as a table in CSV: a row per load of each cell, and per step and route of a load.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn csv(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    Ok(csv::draw(&table::table(run, cells)?))
}

/// The rows of [`csv`] with their types, as a Parquet file.
///
/// # Errors
/// When a histogram of the run cannot be decoded, or the file cannot be created.
pub fn parquet(run: &Run, cells: &[Cell]) -> Result<Vec<u8>, ExportError> {
    parquet::draw(&table::table(run, cells)?)
}

/// The findings of a run in CSV: a row per value of each finding.
pub fn findings_csv(summary: &Summary) -> String {
    csv::draw(&findings::table(summary))
}

/// The rows of [`findings_csv`] with their types, as a Parquet file.
///
/// # Errors
/// When the file cannot be created.
pub fn findings_parquet(summary: &Summary) -> Result<Vec<u8>, ExportError> {
    parquet::draw(&findings::table(summary))
}

/// The findings of a run as JSON, as in the summary of `weir run --json`.
pub fn findings_json(summary: &Summary) -> String {
    serde_json::to_string_pretty(&summary.findings).unwrap_or_default()
}

/// The whole run as JSON: histograms with their quantiles.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn json(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    json::draw(run, cells)
}

/// The latency of every second of every load as an HdrHistogram interval log.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn hdr(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    hdr::draw(run, cells)
}

/// k6's end-of-test summary of every load, one line of JSON each.
pub fn k6(run: &Run, cells: &[Cell]) -> String {
    k6::draw(run, cells)
}

/// Locust's request statistics of every load as CSV.
///
/// # Errors
/// When a histogram of the run cannot be decoded.
pub fn locust(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    locust::draw(run, cells)
}

/// The columns of [`csv`] and [`parquet`]. `axis.PATH` stands for the columns of the axes, which depend on the run.
pub fn columns() -> Vec<ColumnDescription> {
    table::descriptions()
}

/// The columns of [`findings_csv`] and [`findings_parquet`]. `axis.PATH` stands for the columns of all axes.
pub fn findings_columns() -> Vec<ColumnDescription> {
    findings::descriptions()
}
