//! What workers record: counts of requests, causes of failures, latencies, CPU time.

pub(crate) mod books;
pub(crate) mod recorder;
pub(crate) mod routes;
mod usage;

pub(crate) use usage::PhaseUsage;
