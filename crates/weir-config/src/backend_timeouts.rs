//! Bounds on what is waited for at one backend, in place of the gateway's: what a configuration says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

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
}

impl BackendTimeouts {
    /// Whether nothing is said of them.
    pub(crate) fn is_default(&self) -> bool {
        *self == BackendTimeouts::default()
    }
}

/// Whether what `timeouts`, of the backend `name`, says is right by itself.
pub(crate) fn check(name: &str, timeouts: &BackendTimeouts) -> Result<(), Problem> {
    let BackendTimeouts { connect, response, idle } = timeouts;
    for (field, time) in [("connect", connect), ("response", response), ("idle", idle)] {
        if let Some(time) = time {
            let place = format!("backends.{name}.timeouts.{field}");
            check_time(&place, *time, "leave it out for that of the gateway")?;
        }
    }
    Ok(())
}
