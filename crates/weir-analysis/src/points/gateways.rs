//! The gateways of a run as they were started, and failed cells.

use serde::Serialize;
use weir_results::CellKey;

/// A system under test as it was launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// Its name in the scenario, or [`DIRECT`].
    pub name: String,
    /// Its parts, from its first measured cell.
    pub parts: Vec<weir_results::Part>,
    /// Settings that could not be made equal to the other gateways.
    pub unequal: Vec<String>,
}

/// A failed cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct FailedCell {
    pub key: CellKey,
    pub cause: String,
    pub message: String,
    pub remedy: String,
    pub log_tail: String,
}
