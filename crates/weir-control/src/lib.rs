//! Configuration sources. A source passes batches of changes to `weir-config` and gets the rejected ones back.
//! Currently there is one source: a file or a directory, in the compact form or as Gateway API manifests.
//!
//! This crate does not depend on the data plane: the caller decides what to do with a new table.

mod assembly;
mod authorities;
mod check;
mod documents;
mod file;
mod parts;
mod places;
mod problem;
mod refresh;
mod stamp;
mod watch;
mod watched;

pub use check::{Report, check};
pub use file::FileSource;
pub use problem::{Place, PlacedProblem, Severity, SourceError};
pub use refresh::Refreshed;
pub use stamp::{Stamp, Stamps};
pub use watch::Watch;
