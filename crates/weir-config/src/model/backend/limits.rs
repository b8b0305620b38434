//! Connection and request limits of a backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Share};

/// Limits of a backend, for all workers of the process together. Requests above a limit wait in a queue of size
/// `pending`; if it is full, they get 503.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendLimits {
    /// Maximum number of connections, including idle ones. If a request needs a new connection at the limit, the
    /// gateway first closes an idle connection of any worker to any endpoint. Default: `limits.upstream_connections` of
    /// the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Maximum number of pending requests: requests that wait because of `connections` or `requests`, or until a new
    /// connection opens. With 0 there is no queue: at the connection limit, a request waits only if another worker has
    /// an idle connection to close; otherwise it gets 503. Below the connection limit, any number of requests can still
    /// wait until their new connections open.
    #[schemars(extend("x-unit" = "requests"))]
    pub pending: u32,
    /// Maximum number of in-flight requests. A request is in flight from the time when its headers are complete until
    /// its response ends. A tunnel is in flight until it closes. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Maximum number of in-flight retries, as a share of in-flight requests. Three retries are always allowed.
    pub retries: Share,
}

impl Default for BackendLimits {
    fn default() -> Self {
        BackendLimits { connections: None, pending: 0, requests: None, retries: Share(0.2) }
    }
}

impl BackendLimits {
    /// Whether all limits have their defaults.
    pub(crate) fn is_default(&self) -> bool {
        *self == BackendLimits::default()
    }
}

/// Validates `limits` of the backend `name`.
pub(crate) fn check(name: &str, limits: &BackendLimits) -> Result<(), Problem> {
    let BackendLimits { connections, pending: _, requests, retries: _ } = limits;
    for (field, most) in [("connections", connections), ("requests", requests)] {
        if *most == Some(0) {
            return Err(Problem::of(
                format!("backends.{name}.limits.{field}"),
                "0 would reject every request",
            )
            .help("remove the field to set no limit for this backend"));
        }
    }
    Ok(())
}
