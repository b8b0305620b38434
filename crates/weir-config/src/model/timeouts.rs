//! Timeouts of the gateway.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Time};

use super::bounds::check_time;

/// Timeouts of clients and upstreams, more than 0 and at most 30 days. The gateway checks them every 100 ms, so a
/// timeout can expire up to 200 ms late, but never early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Time from the first byte of a request to the end of its headers. If it expires, the client gets 408. It also
    /// limits a TLS handshake with a client.
    pub head: Time,
    /// Time without progress while reading a request body (408) or a response body (the response is cut).
    pub body: Time,
    /// Time without progress while writing to a client (the client is disconnected) or to an upstream (504).
    pub write: Time,
    /// Time to connect to an upstream, and the same time again for the TLS handshake. If it expires, the gateway tries
    /// the next endpoint; after the last endpoint, the client gets 504.
    pub connect: Time,
    /// Time from the end of the request, or from an interim response (1xx), to complete response headers. If it expires
    /// and no retry follows, the client gets 504.
    pub response: Time,
    /// Idle time of a client connection between two requests.
    pub idle: Time,
    /// Idle time of an upstream connection between two requests. Keep it below the idle timeout of the upstream.
    pub upstream_idle: Time,
    /// Idle time of an upgraded connection or of TLS passthrough. Data in either direction restarts it.
    pub upgraded: Time,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |s| Time(Duration::from_secs(s));
        Timeouts {
            head: seconds(10),
            body: seconds(30),
            write: seconds(30),
            connect: seconds(5),
            response: seconds(60),
            idle: seconds(75),
            upstream_idle: seconds(55),
            upgraded: seconds(3600),
        }
    }
}

/// Validates `timeouts`.
pub(crate) fn check(timeouts: &Timeouts) -> Result<(), Problem> {
    let all = [
        ("head", timeouts.head),
        ("body", timeouts.body),
        ("write", timeouts.write),
        ("connect", timeouts.connect),
        ("response", timeouts.response),
        ("idle", timeouts.idle),
        ("upstream_idle", timeouts.upstream_idle),
        ("upgraded", timeouts.upgraded),
    ];
    for (field, time) in all {
        check_time(
            &format!("timeouts.{field}"),
            time,
            "write a time in this range; this timeout cannot be turned off",
        )?;
    }
    Ok(())
}
