//! Routes that a running gateway was given, or that were taken from it, while load ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of the routes of a running gateway.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChange {
    /// When it was applied, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// Routes that came with it; negative where they went.
    pub routes_added: i64,
    /// Routes after it.
    pub routes: u64,
    /// From its application to the first request that found it in force: one to a route that came was answered 200, or
    /// one to a route that went was answered 404. Nanoseconds.
    pub seen_after_ns: u64,
}
