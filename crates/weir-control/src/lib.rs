//! Configuration sources. Each hands over batches of `weir-config` changes and learns what became of them; so far there
//! is one, a file.
//!
//! This crate knows nothing of the data plane: what to do with a new table is its caller's business.

mod authorities;
mod file;
mod refresh;
mod stamp;
mod watch;

pub use file::{FileSource, PlacedProblem, SourceError};
pub use refresh::Refreshed;
pub use stamp::{Stamp, Stamps};
pub use watch::Watch;
