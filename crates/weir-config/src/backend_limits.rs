//! Bounds on what one backend gets of the gateway's work: what a configuration says of them, and whether that is right.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Share;

use crate::problem::Problem;

/// Bounds on what a backend has at one time, counted over all workers of the process. What is over them waits, as far as
/// `pending` says, or is answered 503.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendLimits {
    /// Connections; the gateway's `limits.upstream_connections` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Requests that wait: for a place among `connections` or `requests`, or for a connection that is being made. With 0
    /// none waits for a place, but for that of an idle connection, and any number for connections.
    #[schemars(extend("x-unit" = "requests"))]
    pub pending: u32,
    /// Requests in flight; any number when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Retries in flight, as a share of the requests in flight; three are always let through.
    pub retries: Share,
}

impl Default for BackendLimits {
    fn default() -> Self {
        BackendLimits { connections: None, pending: 0, requests: None, retries: Share(0.2) }
    }
}

impl BackendLimits {
    /// Whether nothing is said of them.
    pub(crate) fn is_default(&self) -> bool {
        *self == BackendLimits::default()
    }
}

/// Whether what `limits`, of the backend `name`, says is right by itself.
pub(crate) fn check(name: &str, limits: &BackendLimits) -> Result<(), Problem> {
    let BackendLimits { connections, pending: _, requests, retries: _ } = limits;
    for (field, most) in [("connections", connections), ("requests", requests)] {
        if *most == Some(0) {
            return Err(Problem::new(format!("backends.{name}.limits.{field}"), "0 would serve nobody")
                .help("leave it out for none of the backend's own"));
        }
    }
    Ok(())
}
