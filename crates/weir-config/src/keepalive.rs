//! How long one connection to a backend is used: what a configuration says of it, and whether that is right.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

use crate::problem::Problem;
use crate::validate::check_time;

/// Bounds on the life of a connection. Each has up to a tenth less of them by chance, so that those that were made
/// together do not end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keepalive {
    /// Requests that it serves; any number when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// From when it was made to when it serves its last request; any time when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

impl Keepalive {
    /// Whether nothing is said of it.
    pub(crate) fn is_default(&self) -> bool {
        *self == Keepalive::default()
    }
}

/// Whether what `keepalive`, of the backend `name`, says is right by itself.
pub(crate) fn check(name: &str, keepalive: &Keepalive) -> Result<(), Problem> {
    if keepalive.requests == Some(0) {
        return Err(Problem::new(format!("backends.{name}.keepalive.requests"), "0 would serve nobody")
            .help("write 1 for a connection for each request, or leave it out"));
    }
    let place = format!("backends.{name}.keepalive.time");
    keepalive.time.map_or(Ok(()), |time| check_time(&place, time, "leave it out for any time"))
}
