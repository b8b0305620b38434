//! Configuration sources. Each hands over batches of `weir-config` changes and learns what became of them; so far there
//! is one, a file or a directory of files, in the compact form or as manifests of Gateway API.
//!
//! This crate knows nothing of the data plane: what to do with a new table is its caller's business.

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
