//! Active and passive health checks of endpoints.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Problem, Share, Time};

use crate::model::bounds::check_time;
use crate::path::check_path_of;

/// Allowed time windows of an error rate. A window has ten parts and workers read their clock every 100 ms, so the
/// minimum is 1 s.
const WINDOW: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Active health checks of each endpoint. Each check uses its own connection; at most 64 run at the same time. The
/// first check starts when the configuration takes effect. An endpoint is healthy until checks fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthCheck {
    /// Path and query of a GET request, over TLS if the backend has `tls`. Statuses 200 to 399 are healthy. If not
    /// set, the gateway only checks that it can connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Host header of the check. Default: the address of the endpoint, or `localhost` for a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Time from the end of a check to the next one, varied randomly by up to 10 %.
    pub interval: Time,
    /// Time limit of one check, from connecting to the response headers.
    pub timeout: Time,
    /// Number of successful checks in a row that make an endpoint healthy.
    pub healthy: u32,
    /// Number of failed checks in a row that make an endpoint unhealthy.
    pub unhealthy: u32,
}

/// Passive health checks: eject endpoints with too many errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ejection {
    /// Number of errors in a row that eject an endpoint: failed, broken or stalled connections, malformed responses,
    /// and the statuses 502, 503 and 504. Errors of clients do not count, nor does a reused connection that the
    /// endpoint has closed. 0 turns this check off and requires `share`.
    pub errors: u32,
    /// Error rate that ejects an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "errors": "50%" }))]
    pub share: Option<ErrorShare>,
    /// Duration of the first ejection. The second one lasts twice as long, the third one three times, up to ten times.
    /// After ten times this duration without an ejection, the next one counts as the first.
    pub time: Time,
    /// Maximum share of endpoints that can be ejected, rounded down: at 50 %, a single endpoint is never ejected.
    /// Endpoints that failed health checks count as ejected.
    pub most: Share,
}

/// Error rate that ejects an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorShare {
    /// Share of failed requests that ejects the endpoint, more than 0 %; checked after each error. The requests of all
    /// workers count together. An endpoint that returns from ejection starts without errors.
    #[schemars(example = "50%")]
    pub errors: Share,
    /// Time window of the error rate, 1s to 1h. It moves in steps of a tenth of its length, so the measured time can be
    /// up to 10 % shorter.
    #[serde(default = "window")]
    pub window: Time,
    /// Minimum number of requests in the window; with fewer, the error rate ejects no endpoint.
    #[serde(default = "requests_least")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    pub requests: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        HealthCheck {
            path: None,
            host: None,
            interval: Time(Duration::from_secs(10)),
            timeout: Time(Duration::from_secs(2)),
            healthy: 2,
            unhealthy: 3,
        }
    }
}

impl Default for Ejection {
    fn default() -> Self {
        Ejection { errors: 5, share: None, time: Time(Duration::from_secs(30)), most: Share(0.5) }
    }
}

fn window() -> Time {
    Time(Duration::from_secs(10))
}

fn requests_least() -> u32 {
    20
}

/// Validates `ejection`. `place` is the path of its field, for messages.
pub(crate) fn check_ejection(place: &str, ejection: &Ejection) -> Result<(), Problem> {
    match &ejection.share {
        Some(share) => check_share(&format!("{place}.share"), share)?,
        None => check_count(&format!("{place}.errors"), ejection.errors, 5)?,
    }
    check_time(&format!("{place}.time"), ejection.time, "remove the field to use the default, 30s")
}

/// Validates `health`. `place` is the path of its field, for messages.
pub(crate) fn check_health(place: &str, health: &HealthCheck) -> Result<(), Problem> {
    if let Some(path) = &health.path {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        check_path_of(&format_args!("{place}.path"), path)?;
        if !query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            let message = format!("`{}` is not a valid query", query.escape_debug());
            return Err(Problem::of(format!("{place}.path"), message)
                .help("percent-encode the query, for example a space as %20"));
        }
    }
    if let Some(host) = &health.host {
        let place = format!("{place}.host");
        if health.path.is_none() {
            return Err(Problem::of(place, "no effect without `path`").help("add `path`, or remove `host`"));
        }
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("`{}` is not a host name", host.escape_debug());
            return Err(Problem::of(place, message).help("write a name like `example.com`"));
        }
    }
    check_time(&format!("{place}.interval"), health.interval, "remove the field to use the default, 10s")?;
    check_time(&format!("{place}.timeout"), health.timeout, "remove the field to use the default, 2s")?;
    check_count(&format!("{place}.healthy"), health.healthy, 2)?;
    check_count(&format!("{place}.unhealthy"), health.unhealthy, 3)
}

fn check_share(place: &str, share: &ErrorShare) -> Result<(), Problem> {
    if share.errors.0 <= 0.0 {
        return Err(Problem::of(format!("{place}.errors"), "0% would eject every endpoint")
            .help("write a share above 0%, for example 50%"));
    }
    if !WINDOW.contains(&share.window.0) {
        let message = format!("{} is out of range; allowed: 1s to 1h", share.window);
        return Err(
            Problem::of(format!("{place}.window"), message).help("remove the field to use the default, 10s")
        );
    }
    check_count(&format!("{place}.requests"), share.requests, requests_least())
}

fn check_count(place: &str, count: u32, default: u32) -> Result<(), Problem> {
    match count {
        0 => Err(Problem::of(place, "must be at least 1")
            .help(format!("remove the field to use the default, {default}"))),
        _ => Ok(()),
    }
}
