//! Errors of exports.

use weir_results::{Cell, HistogramError};

/// A run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A histogram of the run cannot be decoded.
    #[error("cell {cell}, load `{load}`: {source}")]
    Histogram {
        /// The number of the cell, from 1, as `weir run --plan` and the report show it.
        cell: u32,
        /// The load's name.
        load: String,
        /// Why the histogram cannot be decoded.
        source: HistogramError,
    },
    /// The Parquet file cannot be created: a bug in weir.
    #[error("cannot create the Parquet file: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

impl ExportError {
    /// Adds the cell and the load to the error of a histogram.
    pub(crate) fn histogram<'a>(cell: &'a Cell, load: &'a str) -> impl Fn(HistogramError) -> Self + 'a {
        move |source| Self::Histogram { cell: cell.key.index + 1, load: load.to_owned(), source }
    }
}
