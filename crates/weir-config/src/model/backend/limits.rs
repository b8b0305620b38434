//! Connection and request limits of a backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Share};

/// Limits of a backend, over all workers of the process. Requests above a limit wait in a queue of size `pending`,
/// or get 503.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendLimits {
    /// Maximum number of connections, including idle ones. At the limit, the gateway closes an idle one, of any
    /// endpoint and worker, for a request that needs a connection. Default: `limits.upstream_connections` of the
    /// gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Maximum number of pending requests, which wait for `connections` or `requests`, or for a new connection. With
    /// 0, requests wait only for idle connections to be released and for new connections, without a limit.
    #[schemars(extend("x-unit" = "requests"))]
    pub pending: u32,
    /// Maximum number of in-flight requests, from complete request headers to the end of the response; tunnels to their
    /// end. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Maximum number of in-flight retries, as a share of in-flight requests. Three are always allowed.
    pub retries: Share,
}

impl Default for BackendLimits {
    fn default() -> Self {
        BackendLimits { connections: None, pending: 0, requests: None, retries: Share(0.2) }
    }
}

impl BackendLimits {
    /// Whether they are the default.
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
            .help("remove it to set no limit for this backend"));
        }
    }
    Ok(())
}
