//! The gateways of a run, and the cells that failed.

use serde::Serialize;
use weir_results::CellKey;

/// A system under test as it was launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// The gateway's name in the scenario, or [`weir_results::DIRECT`].
    pub name: String,
    /// The gateway's parts in its first measured cell.
    pub parts: Vec<weir_results::Part>,
    /// Settings that could not be made equal to those of the other gateways.
    pub unequal: Vec<String>,
}

/// A cell that could not be measured, with the cause and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct FailedCell {
    pub key: CellKey,
    pub cause: String,
    pub message: String,
    pub remedy: String,
    pub log_tail: String,
}
