//! Slow clients during loads.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Size, Time};

/// Slow clients during loads: each sends a request or reads a response piece by piece, then opens another connection.
/// They request the first path of the first domain, without TLS. They start before the load and stop after it. Direct
/// cells have no slow clients. In loads with slow clients, weir does not compare the request counters of gateway and
/// upstream with the load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowClients {
    /// Number of clients that slowly send the request headers of a GET, about 1 KiB.
    #[serde(default)]
    pub heads: u32,
    /// Number of clients that send the headers of a POST without delay, and then its body slowly.
    #[serde(default)]
    pub bodies: u32,
    /// Number of clients that send a whole POST without delay, and read its response slowly, with a receive buffer of 4
    /// KiB.
    #[serde(default)]
    pub responses: u32,
    /// Size of a piece that is sent or read.
    #[serde(default = "default_piece")]
    pub piece: Size,
    /// Time from one piece to the next.
    #[serde(default = "default_every")]
    pub every: Time,
    /// Length of the request bodies of `bodies` and `responses`. With `origin: { echo: true }`, response bodies have
    /// the same length.
    #[serde(default = "default_body")]
    pub body: Size,
    /// Names of the loads with slow clients. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl SlowClients {
    /// Whether the slow clients run during `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }

    /// Number of slow clients.
    pub(crate) fn connections(&self) -> u64 {
        [self.heads, self.bodies, self.responses].into_iter().map(u64::from).sum()
    }
}

fn default_piece() -> Size {
    Size(16)
}

fn default_every() -> Time {
    Time(Duration::from_secs(1))
}

fn default_body() -> Size {
    Size(64 << 10)
}
