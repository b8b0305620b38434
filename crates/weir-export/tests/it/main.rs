//! Every form of a run that never happened, and what the documents say of them.

// In tests an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

#[path = "../../../weir-report/tests/it/fixture.rs"]
#[allow(dead_code, reason = "only the reports draw sweeps")]
mod fixture;

mod columns;
mod foreign;
mod forms;
mod logs;
mod odd;
