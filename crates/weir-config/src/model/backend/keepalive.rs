//! Limits on the lifetime of connections to a backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Time};

use crate::model::bounds::check_time;

/// Limits on the lifetime of upstream connections. The gateway lowers each limit of a connection by a random share of
/// up to 10 %, so that connections do not all close at the same time. A connection closes between requests, never
/// during one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keepalive {
    /// Maximum number of requests on one connection. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Maximum age of a connection; an older one gets no new request. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

impl Keepalive {
    /// Whether neither limit is set, which is the default.
    pub(crate) fn is_default(&self) -> bool {
        *self == Keepalive::default()
    }
}

/// Validates `keepalive` of the backend `name`.
pub(crate) fn check(name: &str, keepalive: &Keepalive) -> Result<(), Problem> {
    if keepalive.requests == Some(0) {
        return Err(Problem::of(format!("backends.{name}.keepalive.requests"), "must be at least 1")
            .help("write 1 for one request per connection, or remove `requests`"));
    }
    let place = format!("backends.{name}.keepalive.time");
    keepalive.time.map_or(Ok(()), |time| check_time(&place, time, "remove the field to set no time limit"))
}
