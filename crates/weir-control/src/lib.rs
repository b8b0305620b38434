//! Configuration sources. Each hands over batches of `weir-config` changes and learns what became of them; so far there
//! is one, a file.
//!
//! This crate knows nothing of the data plane: what to do with a new table is its caller's business.

mod file;

pub use file::{FileSource, PlacedProblem, SourceError};
