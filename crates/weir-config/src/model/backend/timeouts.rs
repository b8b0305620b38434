//! Timeouts of a backend, which override the timeouts of the gateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Time};

use super::limits::BackendLimits;
use crate::model::bounds::check_time;

/// Timeouts of a backend. Default: `timeouts` of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendTimeouts {
    /// Time to connect, and the same time again for the TLS handshake. If it expires, the gateway tries the next
    /// endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Time>,
    /// Time from the complete request to the response headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Time>,
    /// Idle time of a connection between two requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Time>,
    /// Maximum time of a request in the queue; after that it gets 503. Requires `limits.pending`. Without a
    /// queue, a request at the connection limit waits only if another worker can close an idle connection, and at most
    /// for `connect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`connect`"))]
    pub pending: Option<Time>,
}

impl BackendTimeouts {
    /// Whether no timeout is set.
    pub(crate) fn is_default(&self) -> bool {
        *self == BackendTimeouts::default()
    }
}

/// Validates `timeouts` of the backend `name`; `limits` are the limits of the same backend.
pub(crate) fn check(name: &str, timeouts: &BackendTimeouts, limits: &BackendLimits) -> Result<(), Problem> {
    let BackendTimeouts { connect, response, idle, pending } = timeouts;
    if pending.is_some() && limits.pending == 0 {
        let message = "no effect without `limits.pending`: no request waits in a queue";
        return Err(Problem::of(format!("backends.{name}.timeouts.pending"), message)
            .help("set `limits.pending`, or remove this timeout"));
    }
    for (field, time) in [("connect", connect), ("response", response), ("idle", idle), ("pending", pending)]
    {
        if let Some(time) = time {
            let place = format!("backends.{name}.timeouts.{field}");
            check_time(&place, *time, "remove the field to use the value of the gateway")?;
        }
    }
    Ok(())
}
