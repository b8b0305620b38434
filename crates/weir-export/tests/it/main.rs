//! Every export format, tested with a run of made-up values, and the descriptions of the columns.

// In tests, an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

#[path = "../../../weir-report/tests/it/fixture.rs"]
#[allow(dead_code, reason = "only the reports draw sweeps")]
mod fixture;

mod columns;
mod foreign;
mod forms;
mod logs;
mod odd;
