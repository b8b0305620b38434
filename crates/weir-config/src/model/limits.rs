//! Limits of the gateway on sizes and connections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Size};

const HEAD_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 20;
/// Allowed values of `fields`. The upper limit keeps the stack small: the parser has a slot on it for each header
/// field.
const FIELDS: std::ops::RangeInclusive<u32> = 8..=128;

/// Limits on sizes and connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum size of request or response headers, including the start line; 1KiB to 1MiB.
    pub head: Size,
    /// Maximum number of header fields.
    #[schemars(range(min = *FIELDS.start(), max = *FIELDS.end()), extend("x-unit" = "fields"))]
    pub fields: u32,
    /// Maximum size of a request body; 0 allows no body.
    pub body: Size,
    /// Maximum number of client connections, per process. At the limit, a worker closes its connection with the longest
    /// idle time to accept a new one. It closes no connection that has been idle for less than 1 s.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub connections: u32,
    /// Maximum number of client connections per client address (IPv6: per /64 network), per process. Connections that
    /// were open before the limit was set do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 100, extend("x-unit" = "connections", "x-default" = "no limit"))]
    pub connections_per_address: Option<u32>,
    /// Maximum number of connections per backend, per process. `limits.pending` of a backend sets how many requests can
    /// wait for a connection.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub upstream_connections: u32,
    /// Maximum number of idle upstream connections per worker and endpoint.
    #[schemars(extend("x-unit" = "connections"))]
    pub idle_upstream_connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: Size(32 << 10),
            fields: 100,
            body: Size(1 << 30),
            connections: 10_000,
            connections_per_address: None,
            upstream_connections: 8_192,
            idle_upstream_connections: 512,
        }
    }
}

/// Validates `limits`.
pub(crate) fn check(limits: &Limits) -> Result<(), Problem> {
    let wrong = |field: &str, message: String, default: &dyn std::fmt::Display| {
        let problem = Problem::of(format!("limits.{field}"), message);
        Err(problem.help(format!("remove the field to use the default, {default}")))
    };
    let default = Limits::default();
    if !HEAD_BYTES.contains(&limits.head.0) {
        return wrong(
            "head",
            format!("{} is out of range; allowed: 1KiB to 1MiB", limits.head),
            &default.head,
        );
    }
    if !FIELDS.contains(&limits.fields) {
        let message =
            format!("{} is out of range; allowed: {} to {}", limits.fields, FIELDS.start(), FIELDS.end());
        return wrong("fields", message, &default.fields);
    }
    for (field, value, default) in [
        ("connections", limits.connections, default.connections),
        ("upstream_connections", limits.upstream_connections, default.upstream_connections),
    ] {
        if value == 0 {
            return wrong(field, "0 would reject every request".to_owned(), &default);
        }
    }
    if limits.connections_per_address == Some(0) {
        return wrong("connections_per_address", "0 would reject every request".to_owned(), &"no limit");
    }
    Ok(())
}
