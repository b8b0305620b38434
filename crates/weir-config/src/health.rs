//! Which endpoints of a backend are left out for a while: what a configuration says of it, and whether that is right.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Share, Time};

use crate::model::Backend;
use crate::problem::Problem;
use crate::validate::{check_path_of, check_time};

/// How far a share of errors may look back. Its tenths are no shorter than the clock of the workers is exact.
const WINDOW: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Checks of each endpoint, whether there are requests or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthCheck {
    /// The path, with its query, that is asked for by GET, over TLS where the backend has it; 200 to 399 is well. When
    /// absent, an endpoint is well that takes a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The host that is asked for; the endpoint's address when absent, `localhost` for a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Between the end of one check and the next, a tenth more or less.
    pub interval: Time,
    /// For one check, from the connection to the head of the answer.
    pub timeout: Time,
    /// How many good checks in a row bring an endpoint back.
    pub healthy: u32,
    /// How many bad checks in a row take an endpoint out.
    pub unhealthy: u32,
}

/// When what requests come to takes an endpoint out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ejection {
    /// How many errors in a row take an endpoint out; 0, which needs a `share`, is any number.
    pub errors: u32,
    /// Which share of errors takes an endpoint out, in a row or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "errors": "50%" }))]
    pub share: Option<ErrorShare>,
    /// For how long, the first time; the next time twice as long, then three times, to ten times.
    pub time: Time,
    /// The greatest share of the endpoints that is taken out by it, those that checks have taken out counted too.
    pub most: Share,
}

/// Which share of errors among its requests takes an endpoint out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorShare {
    /// The share, more than 0; it is looked at with each error.
    #[schemars(example = "50%")]
    pub errors: Share,
    /// The time that is looked back over, up to a tenth less; 1s to 1h.
    #[serde(default = "window")]
    pub window: Time,
    /// The requests in this time that it takes at least to judge by.
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

/// Whether what `backend`, called `name`, says of them is right by itself.
pub(crate) fn check(name: &str, backend: &Backend) -> Result<(), Problem> {
    if let Some(health) = &backend.health {
        check_health(&format!("backends.{name}.health"), health)?;
    }
    if let Some(ejection) = &backend.ejection {
        let place = format!("backends.{name}.ejection");
        match &ejection.share {
            Some(share) => check_share(&format!("{place}.share"), share)?,
            None => check_count(&format!("{place}.errors"), ejection.errors, 5)?,
        }
        check_time(&format!("{place}.time"), ejection.time, "leave it out for 30s")?;
    }
    Ok(())
}

fn check_health(place: &str, health: &HealthCheck) -> Result<(), Problem> {
    if let Some(path) = &health.path {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        check_path_of(&format_args!("{place}.path"), path)?;
        if !query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            let message = format!("`{}` is not a query that a request could carry", query.escape_debug());
            return Err(Problem::new(format!("{place}.path"), message).help("percent-encode it"));
        }
    }
    if let Some(host) = &health.host {
        let place = format!("{place}.host");
        if health.path.is_none() {
            return Err(Problem::new(place, "without a `path` nothing is asked for")
                .help("say a `path`, or leave it out"));
        }
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("`{}` is not a host", host.escape_debug());
            return Err(Problem::new(place, message).help("write a name like `example.com`"));
        }
    }
    check_time(&format!("{place}.interval"), health.interval, "leave it out for 10s")?;
    check_time(&format!("{place}.timeout"), health.timeout, "leave it out for 2s")?;
    check_count(&format!("{place}.healthy"), health.healthy, 2)?;
    check_count(&format!("{place}.unhealthy"), health.unhealthy, 3)
}

fn check_share(place: &str, share: &ErrorShare) -> Result<(), Problem> {
    if share.errors.0 <= 0.0 {
        return Err(Problem::new(format!("{place}.errors"), "every endpoint has such a share")
            .help("write a share above 0, like 50%"));
    }
    if !WINDOW.contains(&share.window.0) {
        let message = format!("{} is not within 1s and 1h", share.window);
        return Err(Problem::new(format!("{place}.window"), message).help("leave it out for 10s"));
    }
    check_count(&format!("{place}.requests"), share.requests, requests_least())
}

fn check_count(place: &str, count: u32, default: u32) -> Result<(), Problem> {
    match count {
        0 => Err(Problem::new(place, "nothing is decided by 0").help(format!("leave it out for {default}"))),
        _ => Ok(()),
    }
}
