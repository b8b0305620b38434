//! The loads of a scenario.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{AskedRates, Burst, Counts, Levels, Named, Pause, Time};
use weir_engine::{ProtocolSpec, Spacing, StepSpec, TlsSpec};
use weir_results::ArrivalModel;

use super::ObjectiveSpec;
use super::popularity::Popularity;
use super::rate_list::RateList;
use super::request::Request;
use super::search::Search;

/// The loads by name, in the order in which they run.
pub type Loads = Named<Load>;

/// One load. Its fields are the flags of `weir load`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Arrival model: `open` or `closed` loop.
    pub model: ArrivalModel,
    /// Connections to the gateway, over all workers: `32`. Or a ramp `1..60` or `60..1` over the duration (closed
    /// loop), or steps `1..60..5` or `[1, 10, 60]`. 1 to 1,000,000, and at least one per worker and per agent.
    /// (`weir load --connections`)
    #[serde(default = "default_connections")]
    pub connections: Counts,
    /// Arrival rate of an open load (required): `5000/s`, a ramp `1000/s..5000/s` over the duration, or steps
    /// `1000/s..5000/s..1000/s` or `[100/s, 1000/s]`. At most 10,000,000/s. A share like `30%` refers to the throughput
    /// of the gateways on this host. A pilot measures this throughput first, and the run stores the resulting rate.
    /// (`weir load --rate`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<AskedRates>,
    /// Which throughput is 100 %, if the rate is a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`least`"))]
    pub of: Option<ShareOf>,
    /// Several rates of an open load instead of `rate`: `[500/s, 1000/s]`, `500/s..8000/s..8` for 8 rates,
    /// `500/s..8000/s..500/s` for every 500/s, or shares like `5%..120%..13`. At most 100 rates. Each rate is a load of
    /// its own, named `NAME-500` and so on, against the same processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<RateList>,
    /// If weir made this load from the `rates` of another load: the name of that load. Not set in the scenario's text.
    #[serde(skip)]
    pub one_of: Option<String>,
    /// Search for the highest rate of an open load that meets these limits. `rate` is then the rate of the first
    /// trial (`100/s` by default), and `duration` the length of a trial (`2s` by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// How the arrivals of an open load are spaced in time. (`weir load --even`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`poisson`"))]
    pub spacing: Option<Spacing>,
    /// Open loop: another rate at regular intervals. `5000/s:200ms/1s` sets the rate to 5000/s for the first 200 ms of
    /// each second. The interval is at least `1ms`. (`weir load --burst`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Closed loop: pause between a response and the next request of the connection: `20ms`, or `exp:20ms` for
    /// exponentially distributed pauses. A lost connection does not shorten the pause. (`weir load --think`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Pause>,
    /// Steps of connections and rate together, like
    /// `[{ connections: 10, rate: 500/s }, { connections: 20, rate: 1000/s }]`. `duration` or `requests` applies to
    /// each step. At most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    /// Length of the sustained phase, or of each step. (`weir load --duration`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the scenario's `duration`"))]
    pub duration: Option<Time>,
    /// Number of requests of the sustained phase, or of each step, instead of a duration. (`weir load --requests`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Protocol of the connections. Gateways that weir starts listen for HTTP/1.1 only; remote gateways can use
    /// HTTP/2. (`weir load --http2`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`http1`"))]
    pub protocol: Option<ProtocolSpec>,
    /// HTTP/2: requests in flight on each connection, 1 to 10,000. (`weir load --streams`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`1`"))]
    pub streams: Option<u32>,
    /// Reconnect after this number of requests; 1 opens a connection per request. (`weir load --per-connection`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "no limit"))]
    pub per_connection: Option<u64>,
    /// TLS of the connections. If the gateways accept TLS (`topology.tls`), weir provides CA and client certificate,
    /// and a load can set only `version` and `resumption`. Remote gateways have their own `tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// The requests and their weights. Each path must be one of `topology.paths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "every path on every domain"))]
    pub mix: Vec<Request>,
    /// How often each domain and path of the topology is requested: `uniform`, `zipf`, or `zipf:0.9` with an exponent
    /// from 0 to 10. With `zipf`, the first domains and paths get the most requests. Over TLS, each connection draws
    /// its domain when it opens; without `popularity`, connections use the domains in turn. Not with `mix` or `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "all equally often"))]
    pub popularity: Option<Popularity>,
    /// File of requests instead of `mix`: a list of URLs or paths (`# comment`, `METHOD URL`), JSON lines (`method`,
    /// `path` or `url`, `headers`, `body`, `name`, `weight`, `checks`), or a recorded session (HAR). The path is
    /// relative to the working directory. (`weir load --file`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Draw the requests of a HAR file at random. By default, each connection of a closed load replays the session in
    /// order. In an open load, all connections share one replay. Lists and JSON lines are always drawn at random, by
    /// weight. (`weir load --shuffle`)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle: bool,
    /// File of bearer tokens, one per line, used in turn; at most 1,000,000. Not with `topology.bearer`.
    /// (`weir load --tokens`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Values of `{domain}` and of `Host` in `mix`, used in turn. With TLS, each connection uses one domain, which is
    /// also its server name (SNI). (`weir load --domain`)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "the domains of the topology"))]
    pub domains: Vec<String>,
    /// What the gateways must achieve at this load. It overrides the objective of the scenario, limit by limit. The
    /// objective of a closed load cannot limit latency if the scenario has open loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Open loop: the generator busy-waits for arrivals. Lateness decreases, but each worker takes a whole core.
    /// (`weir load --spin`)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spin: bool,
}

/// Which throughput is 100 %, if the rate of a load is a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShareOf {
    /// The lowest throughput of all gateways, so that every gateway can carry the rate.
    #[default]
    Least,
    /// The gateway with the highest throughput.
    Greatest,
    /// The upstream without a gateway.
    Direct,
}

impl Default for Load {
    /// A closed load with 32 connections.
    fn default() -> Self {
        Self {
            model: ArrivalModel::Closed,
            connections: default_connections(),
            rate: None,
            search: None,
            of: None,
            rates: None,
            one_of: None,
            spacing: None,
            burst: None,
            think: None,
            steps: Vec::new(),
            duration: None,
            requests: None,
            protocol: None,
            streams: None,
            per_connection: None,
            tls: None,
            mix: Vec::new(),
            popularity: None,
            file: None,
            shuffle: false,
            tokens: None,
            domains: Vec::new(),
            objective: None,
            spin: false,
        }
    }
}

fn default_connections() -> Counts {
    Levels::Constant(32)
}
