//! Bounds on what is waited for at one backend, in place of the gateway's: what a configuration says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

use crate::backend_limits::BackendLimits;
use crate::problem::Problem;
use crate::validate::check_time;

/// Bounds on what is waited for at a backend; the gateway's `timeouts` where one is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendTimeouts {
    /// For a connection, and for a TLS handshake over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Time>,
    /// From the whole request sent to the head of its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Time>,
    /// Between two requests of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Time>,
    /// For a place at the backend, where `limits.pending` has requests wait; as `connect` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Time>,
}

impl BackendTimeouts {
    /// Whether nothing is said of them.
    pub(crate) fn is_default(&self) -> bool {
        *self == BackendTimeouts::default()
    }
}

/// Whether what `timeouts`, of the backend `name` with these limits, says is right.
pub(crate) fn check(name: &str, timeouts: &BackendTimeouts, limits: &BackendLimits) -> Result<(), Problem> {
    let BackendTimeouts { connect, response, idle, pending } = timeouts;
    if pending.is_some() && limits.pending == 0 {
        let message = "without `limits.pending` no request waits for a place";
        return Err(Problem::new(format!("backends.{name}.timeouts.pending"), message)
            .help("say in `limits.pending` how many may wait, or leave it out"));
    }
    for (field, time) in [("connect", connect), ("response", response), ("idle", idle), ("pending", pending)]
    {
        if let Some(time) = time {
            let place = format!("backends.{name}.timeouts.{field}");
            check_time(&place, *time, "leave it out for that of the gateway")?;
        }
    }
    Ok(())
}
