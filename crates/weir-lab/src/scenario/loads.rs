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

/// One load: what `weir load` takes as flags. `docs/load.md` has them side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The arrival model.
    pub model: ArrivalModel,
    /// Connections to the gateway, over all workers: a number, a ramp `1..60` over the duration (closed model only), or
    /// steps `1..60..5` or `[1, 10, 60]`.
    #[serde(default = "default_connections")]
    pub connections: Counts,
    /// Rate of arrivals (open model only): `5000/s`, a ramp `1000/s..5000/s` over the duration, or steps
    /// `1000/s..5000/s..1000/s` or `[100/s, 1000/s]`. A share like `30%` is of what the gateways carry here, which is
    /// measured at the start of the run; the run keeps the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<AskedRates>,
    /// Of what which gateway carries a rate is a share: that of the `least` (by default) or the `greatest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<ShareOf>,
    /// Rates that the load is put to one after the other (open model only), in place of `rate`: `[500/s, 1000/s]`, or
    /// `500/s..8000/s..8` for eight of them; or shares of what the gateways carry, `5%..120%..13`. Each is a load of its
    /// own, NAME-500 and on, against the same processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<RateList>,
    /// The load of whose rates this one has one: it is made when the scenario is read, and not written.
    #[serde(skip)]
    pub one_of: Option<String>,
    /// The load is a search for the capacity at these bounds (open model only); its rate is where it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// How arrivals are spaced (open model only); Poisson by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// Times of another rate that return (open model only): `5000/s:200ms/1s` is this rate for the first 200 ms of each
    /// second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Pause between an answer and the connection's next request (closed model only): `20ms`, or `exp:20ms` for
    /// exponentially distributed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Pause>,
    /// Steps of connections and rates together, one after the other; `duration` or `requests` is that of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    /// Sustained phase (of each step), where it is not the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Time>,
    /// Number of requests of the sustained phase (of each step), in place of a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// What is spoken on the connections; HTTP/1.1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolSpec>,
    /// HTTP/2: requests in flight on each connection; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Requests after which a connection is closed and opened anew; 1 is a connection for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_connection: Option<u64>,
    /// TLS on the connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// What is sent, each in proportion to its weight; by default each path of the topology at each domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<Request>,
    /// How often the domains and paths of the topology are asked for, the first of them most: `uniform`, `zipf` or
    /// `zipf:0.9`. Over TLS a connection draws its domain whenever it opens. By default paths are asked for evenly, and each
    /// connection keeps a domain, in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popularity: Option<Popularity>,
    /// A file of requests, in place of a mix: a list of URLs or paths, JSON lines, or a recorded session (HAR).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// A recorded session (HAR) is drawn from at random. By default each connection replays it in its order, and the
    /// arrivals of an open load go through it in its order. Other files are always drawn from, by weight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle: bool,
    /// A file of bearer tokens, one a line, that requests carry in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// What `{domain}` stands for, and the host of a mix; by default the topology's domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// What gateways have to keep at this load, over the scenario's objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Open loop: whether the generator waits for arrivals by spinning, which needs a core for each worker: less lateness for more CPU time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spin: bool,
}

/// Of whose throughput a rate is a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShareOf {
    /// That which carries the least, so that all of them carry the rate.
    #[default]
    Least,
    /// That which carries the most.
    Greatest,
    /// None: the upstream without a gateway.
    Direct,
}

impl Default for Load {
    /// A closed load over 32 connections.
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
