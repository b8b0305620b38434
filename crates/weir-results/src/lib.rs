//! The versioned schema of results, and the store for them.
//!
//! The load engine, the lab, the analysis and the reports share these types. The types describe what was measured; they
//! contain no code for measurement or presentation. Every duration names its unit. A missing sample is `None`, never
//! zero.

#[cfg(feature = "store")]
mod archive;
mod cell;
mod cold_start;
mod event;
mod fault;
mod hist;
mod host;
mod left_out;
mod load;
mod pilot;
mod route_change;
mod run;
mod search;
mod shards;
mod slow;
#[cfg(feature = "store")]
mod store;
mod verdict;
pub mod words;

#[cfg(feature = "store")]
pub use archive::*;
pub use cell::*;
pub use cold_start::*;
pub use event::*;
pub use fault::*;
pub use hist::*;
pub use host::*;
pub use left_out::*;
pub use load::*;
pub use pilot::*;
pub use route_change::*;
pub use run::*;
pub use search::*;
pub use shards::*;
pub use slow::*;
#[cfg(feature = "store")]
pub use store::*;
pub use verdict::*;

/// Version of all JSON documents and database rows that contain these types.
///
/// A reader accepts this version and older ones, and rejects newer ones.
pub const SCHEMA_VERSION: u32 = 1;
