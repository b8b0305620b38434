//! A request of a load's mix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Named;
use weir_engine::ChecksSpec;

/// One request. Path, values of header fields and body may hold `{1..50}`, `{domain}`, `{seq}`, `{uuid}` and
/// `{pick:FILE}`, which each request fills in anew, by the load's seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Path and query, from `/` on.
    pub path: String,
    /// The method; GET by default, POST with a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Header fields; `Host` replaces the topology's.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub headers: Named<String>,
    /// The body: a text, or `@FILE` for what a file holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How often it is taken, in proportion to the others' weights; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Name of its route in the results; by default made of method and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its answers must be, or else they count as unexpected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksSpec>,
}
