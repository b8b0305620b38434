//! What can go wrong with an export.

use weir_results::{Cell, HistogramError};

/// A run that cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A histogram of the run cannot be decoded.
    #[error("cell {cell}, load `{load}`: {source}")]
    Histogram {
        /// The cell's place in the plan.
        cell: u32,
        /// The load's name.
        load: String,
        /// Why.
        source: HistogramError,
    },
    /// The Parquet file cannot be made, which is a defect of weir.
    #[error("cannot create the Parquet file: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

impl ExportError {
    /// Names the place of a histogram.
    pub(crate) fn histogram<'a>(cell: &'a Cell, load: &'a str) -> impl Fn(HistogramError) -> Self + 'a {
        move |source| Self::Histogram { cell: cell.key.index, load: load.to_owned(), source }
    }
}
