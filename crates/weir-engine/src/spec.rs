//! What is asked of the engine.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Burst, Pause, Rate};

mod bounds;
mod check;
mod checks;
mod files;
mod part;
mod requests;
mod shape;
mod shard;
mod tls;

pub use bounds::REQUESTS_MAX;
pub(crate) use bounds::{ROUTE_NAME_BYTES_MAX, TOKEN_FIELD};
pub use check::{CONNECTIONS_MAX, RATE_MAX_PER_S, WORKERS_MAX};
pub use checks::{Check, ChecksSpec, StatusPattern};
pub use shape::{STEPS_MAX, STREAMS_MAX};
pub use shard::{SHARDS_MAX, ShardSpec};
pub use tls::{Resumption, TlsSpec, TlsVersion};

pub(crate) use check::{invalid, out_of_range};
pub(crate) use checks::status_class;
pub(crate) use part::Part;
pub(crate) use requests::is_token_byte;
pub(crate) use shard::{check_start_ahead, share};

/// What the path of a Unix socket begins with in place of `host:port`.
pub const UNIX: &str = "unix:";

/// A load: what to send, how often, over how many connections, and when to stop. With a [`ShardSpec`] it is still the
/// whole load, of which this machine carries a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// `host:port`, or the path of a Unix socket behind [`UNIX`]; resolved before the load starts.
    pub connect: String,
    /// The server name of TLS connections, if neither `tls` nor `domains` give another.
    #[serde(default)]
    pub host: String,
    /// Addresses in place of what names resolve to.
    #[serde(default)]
    pub resolve: Vec<ResolveSpec>,
    /// Where to connect in place of all that; connections take them in turn.
    #[serde(default)]
    pub addresses: Vec<SocketAddr>,
    /// TLS; `None` is plain TCP.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// What is spoken on the connections.
    #[serde(default)]
    pub protocol: ProtocolSpec,
    /// HTTP/2: requests in flight on each connection; 1 by default.
    #[serde(default)]
    pub streams: Option<u32>,
    /// What is sent: each arrival takes one of them by (seed, index), in the proportion of their weights.
    pub requests: Vec<RequestSpec>,
    /// Requests of a file, beside those.
    #[serde(default)]
    pub request_file: Option<RequestFileSpec>,
    /// What `{domain}` stands for: over TLS each connection has one of them in turn, also as its server name; else each
    /// request.
    #[serde(default)]
    pub domains: Vec<String>,
    /// How often TLS connections take each of the domains: they draw one anew whenever they open, in proportion to these
    /// weights. Empty gives each connection one for good.
    #[serde(default)]
    pub domain_weights: Vec<f64>,
    /// Bearer tokens, one a request in turn, as an `Authorization` field.
    #[serde(default)]
    pub tokens: Vec<String>,
    /// The arrival model.
    pub model: ModelSpec,
    /// Connections over all workers.
    pub connections: u32,
    /// Closed loop: connections at the start of the sustained phase, from where they grow or shrink linearly to
    /// `connections` at its end.
    #[serde(default)]
    pub connections_from: Option<u32>,
    /// Requests after which a connection is closed and opened anew; 1 is a connection for each request.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Worker threads, of each machine; a shard with fewer connections has as many workers as connections.
    pub workers: u32,
    /// Length of the warm-up, nanoseconds.
    pub warmup_ns: u64,
    /// Length to which the warm-up may grow while latencies have not settled, nanoseconds; up to `warmup_ns` it cannot.
    /// Nor can it before ramps, bursts, steps, and loads that end by a count, or on shards: each machine would choose
    /// another length, and their phases would not be the same.
    #[serde(default)]
    pub warmup_most_ns: u64,
    /// Length of the sustained phase (of each step), nanoseconds; this or `request_count`.
    pub duration_ns: Option<u64>,
    /// Requests of the sustained phase (of each step); this or `duration_ns`. Shards end when each has its share, so an
    /// open load thins out at the end.
    pub request_count: Option<u64>,
    /// Steps, one after the other; empty is one step of what stands above. The warm-up comes before the first.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
    /// Time-out of a request from its intended start, nanoseconds.
    pub timeout_ns: u64,
    /// Seed of arrivals, of the choice of requests, and of what templates draw.
    pub seed: u64,
    /// How often the load was run before against the same servers: UUIDs are new each time, everything else is drawn alike.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// File for the intended and the actual time of every request that is sent in the sustained phase, up to a million a
    /// worker.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Whether the record keeps seconds by their counts alone. The latency of each takes some 3 KiB a second, which a
    /// load of hours that nobody draws can do without.
    #[serde(default)]
    pub counts_only: bool,
    /// Whether workers wait by spinning, which needs a core for each: less lateness for more CPU time.
    #[serde(default)]
    pub spin: bool,
    /// The part of the load that this machine carries; `None` is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardSpec>,
    /// When the warm-up starts, on this machine's `CLOCK_MONOTONIC`, nanoseconds; at most 10 minutes ahead. Connections
    /// are opened before. If they are not open by then, the load fails with [`EngineError::Late`] and sends nothing.
    /// Steps then start at planned times too: a time-out and a second after the end of the step before. `None` starts
    /// as soon as connections are open.
    ///
    /// [`EngineError::Late`]: crate::EngineError::Late
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ns: Option<u64>,
}

/// An address in place of what a name resolves to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveSpec {
    /// The name.
    pub host: String,
    /// The port that it is for.
    pub port: u16,
    /// The address to connect to.
    pub address: IpAddr,
}

/// What is spoken on the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolSpec {
    /// HTTP/1.1, one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: by ALPN over TLS, else by prior knowledge.
    Http2,
}

/// The arrival model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
pub enum ModelSpec {
    /// Each connection (or stream) sends when it has been answered.
    Closed {
        /// Pause between an answer and the next request.
        #[serde(default)]
        think: Option<Pause>,
    },
    /// Arrivals follow a schedule that waits for nobody.
    Open {
        /// Arrivals per second on the mean, over all workers.
        rate_per_s: f64,
        /// Rate at the end of the sustained phase, where it is to grow or shrink linearly from `rate_per_s`.
        #[serde(default)]
        rate_to_per_s: Option<f64>,
        /// Bursts on top of it.
        #[serde(default)]
        burst: Option<Burst>,
        /// How they are spaced.
        spacing: Spacing,
    },
}

/// How the arrivals of an open load are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Exponential gaps, as many independent clients make them.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
}

/// A step of a load: what differs from the load's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Connections, over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Rate of arrivals (open model only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// One request of the mix. Path, values of header fields and body may hold `{1..50}`, `{domain}`, `{seq}`, `{uuid}` and
/// `{pick:FILE}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The method, a token.
    pub method: String,
    /// Path and query, from `/` on.
    pub path: String,
    /// Fields in their order, `Host` among them; framing is added.
    pub headers: Vec<(String, String)>,
    /// The body; a Content-Length is added where it is not empty or the method wants one.
    pub body: Body,
    /// Name of its route in the results; `None` derives one from method and path.
    #[serde(default)]
    pub name: Option<String>,
    /// How often it is taken, in proportion to the others' weights.
    #[serde(default = "full_share")]
    pub weight: f64,
    /// What its answers must be, or else they are counted as unexpected.
    #[serde(default)]
    pub checks: ChecksSpec,
}

/// Requests of a file, which is read when the load is prepared: a list of a million URLs takes little more memory so
/// than its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFileSpec {
    /// The file; see [`crate::request_file`] for what it may be.
    pub path: PathBuf,
    /// What its requests don't say themselves.
    pub base: RequestSpec,
    /// Whether the base's method was asked for; else a request with a body of its own is a POST.
    #[serde(default)]
    pub is_method_given: bool,
    /// Whether a recorded session (HAR) is drawn from at random; else each connection replays it in its order, and an
    /// open loop's arrivals go through it in its order. Other files are always drawn from.
    #[serde(default)]
    pub shuffle: bool,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Text, in which templates are filled in.
    Text(String),
    /// Bytes as they are, in base64.
    Base64(String),
}

fn full_share() -> f64 {
    1.0
}

impl ModelSpec {
    /// An open loop of a constant rate.
    pub fn open(rate_per_s: f64, spacing: Spacing) -> Self {
        Self::Open { rate_per_s, rate_to_per_s: None, burst: None, spacing }
    }
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self::Closed { think: None }
    }
}

impl Default for RequestSpec {
    /// `GET /` without any field.
    fn default() -> Self {
        Self {
            method: "GET".into(),
            path: "/".into(),
            headers: Vec::new(),
            body: Body::Text(String::new()),
            name: None,
            weight: 1.0,
            checks: ChecksSpec::default(),
        }
    }
}

impl Default for LoadSpec {
    /// A closed loop of ten seconds over one plain connection; where to and what for is still to be said.
    fn default() -> Self {
        Self {
            connect: String::new(),
            host: String::new(),
            resolve: Vec::new(),
            addresses: Vec::new(),
            tls: None,
            protocol: ProtocolSpec::Http1,
            streams: None,
            requests: Vec::new(),
            request_file: None,
            domains: Vec::new(),
            domain_weights: Vec::new(),
            tokens: Vec::new(),
            model: ModelSpec::default(),
            connections: 1,
            connections_from: None,
            requests_per_connection: None,
            workers: 1,
            warmup_ns: 0,
            warmup_most_ns: 0,
            duration_ns: Some(10_000_000_000),
            request_count: None,
            steps: Vec::new(),
            timeout_ns: 10_000_000_000,
            seed: 1,
            attempt: 0,
            trace: None,
            counts_only: false,
            spin: false,
            shard: None,
            start_at_ns: None,
        }
    }
}

/// Whether a load was not run before.
fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}
