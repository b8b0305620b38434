//! Specifications of loads: which requests are sent, when, and on which connections.

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

/// Prefix of [`LoadSpec::connect`] before the path of a Unix socket.
pub const UNIX: &str = "unix:";

/// A load: its requests, their rate, its connections and its end condition. If [`LoadSpec::shard`] is set, this is
/// still the whole load, but this machine drives only a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The server: `host:port`, or [`UNIX`] and the path of a Unix socket. The name is resolved before the load
    /// starts.
    pub connect: String,
    /// The server name (SNI) of TLS connections, unless `tls` or `domains` set another.
    #[serde(default)]
    pub host: String,
    /// Addresses to use for a host and port instead of resolving the name.
    #[serde(default)]
    pub resolve: Vec<ResolveSpec>,
    /// Addresses to connect to, instead of the addresses from `connect` and `resolve`. Connections use them in round
    /// robin.
    #[serde(default)]
    pub addresses: Vec<SocketAddr>,
    /// TLS configuration; `None` for plain text.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// Protocol of the connections.
    #[serde(default)]
    pub protocol: ProtocolSpec,
    /// HTTP/2: maximum number of in-flight requests per connection. The default is 1.
    #[serde(default)]
    pub streams: Option<u32>,
    /// The requests of the mix. Each arrival chooses one at random by weight, depending on (seed, index).
    pub requests: Vec<RequestSpec>,
    /// A file with further requests of the mix.
    #[serde(default)]
    pub request_file: Option<RequestFileSpec>,
    /// Values of `{domain}`, used in round robin. With TLS, each connection has one of them, which is also its
    /// server name. Without TLS, each request has one.
    #[serde(default)]
    pub domains: Vec<String>,
    /// Weights of `domains` for TLS connections. A connection then chooses a domain at random each time it opens.
    /// If empty, each connection always uses the same domain.
    #[serde(default)]
    pub domain_weights: Vec<f64>,
    /// Bearer tokens for the `Authorization` header field. Requests use them in round robin.
    #[serde(default)]
    pub tokens: Vec<String>,
    /// When requests are sent: after responses (closed loop), or by a schedule (open loop).
    pub model: ModelSpec,
    /// Number of connections of the whole load.
    pub connections: u32,
    /// Closed loop: number of connections at the start of the sustained phase. From there it changes linearly to
    /// `connections` at the end of the phase.
    #[serde(default)]
    pub connections_from: Option<u32>,
    /// Number of requests after which a connection is closed and reopened. With 1, each request has its own
    /// connection.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Number of worker threads per machine. A machine with fewer connections uses one worker per connection.
    pub workers: u32,
    /// Duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// Maximum duration of the warm-up in nanoseconds. The warm-up is extended up to this duration while latencies have
    /// not settled. A value of at most `warmup_ns` turns the extension off. The warm-up is never extended if the load
    /// has ramps, bursts or steps, or if it ends after a number of requests. It is not extended either if several
    /// machines share the load: each machine would choose another duration, and their phases would differ.
    #[serde(default)]
    pub warmup_most_ns: u64,
    /// Duration of the sustained phase, or of each step, in nanoseconds. Either this or `request_count` is set.
    pub duration_ns: Option<u64>,
    /// Number of requests of the sustained phase, or of each step. Either this or `duration_ns` is set. If several
    /// machines share the load, each stops after its own part, so the rate of an open loop falls at the end.
    pub request_count: Option<u64>,
    /// Steps that are driven one after the other. The warm-up is before the first one. If empty, the load has one
    /// step with the values above.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
    /// Time-out of a request, measured from its intended start, in nanoseconds.
    pub timeout_ns: u64,
    /// Seed of all random choices: arrivals, requests and the values of templates.
    pub seed: u64,
    /// Number of earlier runs of this load against the same servers. The values of `{uuid}` differ between runs;
    /// all other values repeat.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// File to which the intended and the actual send times of the sustained phase are written, up to a million per
    /// worker.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Whether the record keeps only counts per second, and no latencies per second. This saves about 3 KiB per second,
    /// for long loads whose latencies over time are not plotted.
    #[serde(default)]
    pub counts_only: bool,
    /// Whether workers busy-wait instead of sleeping. Requests are then less late, but each worker uses a whole
    /// core.
    #[serde(default)]
    pub spin: bool,
    /// Which part of the load this machine drives; `None` for the whole load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardSpec>,
    /// Planned start of the warm-up, as a time of this machine's `CLOCK_MONOTONIC` in nanoseconds; at most 10 minutes
    /// ahead. Connections are opened before. If the load is not ready by then, it fails with [`EngineError::Late`] and
    /// sends nothing. Each later step also has a planned start: the end of the step before, plus the request time-out
    /// and one second. With `None`, the load starts as soon as its connections are open.
    ///
    /// [`EngineError::Late`]: crate::EngineError::Late
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ns: Option<u64>,
}

/// An address to use instead of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveSpec {
    /// The host name.
    pub host: String,
    /// The port. The address is not used for other ports of `host`.
    pub port: u16,
    /// The IP address to which weir connects without resolving `host`.
    pub address: IpAddr,
}

/// HTTP version on the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolSpec {
    /// HTTP/1.1, one request at a time per connection.
    #[default]
    Http1,
    /// HTTP/2. It is negotiated by ALPN with TLS, and used with prior knowledge without TLS.
    Http2,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
pub enum ModelSpec {
    /// Closed loop: each connection (HTTP/2: each stream) sends its next request after the previous response.
    Closed {
        /// Think time between a response and the next request.
        #[serde(default)]
        think: Option<Pause>,
    },
    /// Open loop: requests are sent by a schedule that does not depend on responses.
    Open {
        /// Mean number of requests per second over all machines. With a ramp, this is the rate at its start.
        rate_per_s: f64,
        /// Rate at the end of the sustained phase. The rate changes linearly from `rate_per_s` to it. `None` without a
        /// ramp.
        #[serde(default)]
        rate_to_per_s: Option<f64>,
        /// Periodic bursts. During a burst, another rate replaces `rate_per_s`.
        #[serde(default)]
        burst: Option<Burst>,
        /// How the gaps between requests are distributed.
        spacing: Spacing,
    },
}

/// How arrivals are spaced in an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Random, exponentially distributed gaps, as from many independent clients.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
}

/// One step of a load. Unset fields default to the load's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Number of connections of the whole load in this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "those of the load"))]
    pub connections: Option<u32>,
    /// Arrival rate; for an open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of the load"))]
    pub rate: Option<Rate>,
}

/// One request of the mix. The path, the values of header fields and a text body may contain the placeholders
/// `{1..50}`, `{domain}`, `{seq}`, `{uuid}` and `{pick:FILE}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The method, like `GET`.
    pub method: String,
    /// Path and query, starting with `/`.
    pub path: String,
    /// Header fields in order, including `Host`. Content-Length is added.
    pub headers: Vec<(String, String)>,
    /// The body. Content-Length is added if the body is not empty, or if requests with this method usually have a
    /// body.
    pub body: Body,
    /// Name of the route under which the results of the request are reported; `None` derives a name from method and
    /// path.
    #[serde(default)]
    pub name: Option<String>,
    /// Weight in the mix: how often this request is sent, relative to the weights of the others.
    #[serde(default = "full_share")]
    pub weight: f64,
    /// Checks of the responses. A response that fails a check counts as unexpected.
    #[serde(default)]
    pub checks: ChecksSpec,
}

/// A file with requests. It is read when the load is prepared, so a list of a million URLs needs little more memory
/// than the size of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFileSpec {
    /// Path of the file; see [`crate::request_file`] for the formats.
    pub path: PathBuf,
    /// Values for requests of the file that do not set their own.
    pub base: RequestSpec,
    /// Whether the method of `base` was configured by the user. If not, a request with its own body and without a
    /// method is a POST.
    #[serde(default)]
    pub is_method_given: bool,
    /// Whether the requests of a recorded session (HAR) are drawn at random. If not, each connection of a closed
    /// loop replays the session in order, and the arrivals of an open loop share one pass through it. Requests of
    /// other files are always drawn at random.
    #[serde(default)]
    pub shuffle: bool,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Text, which may contain placeholders.
    Text(String),
    /// Constant bytes, encoded as base64.
    Base64(String),
}

fn full_share() -> f64 {
    1.0
}

impl ModelSpec {
    /// An open loop with a constant rate.
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
    /// `GET /` without header fields.
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
    /// A closed loop of ten seconds with one connection in plain text, but without a server and without requests.
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

/// Whether the load runs for the first time.
fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}
