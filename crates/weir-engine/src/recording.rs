//! What workers record: counts, causes of failures, latencies.

pub(crate) mod books;
pub(crate) mod recorder;
pub(crate) mod routes;
mod usage;

pub(crate) use usage::PhaseUsage;
