//! Specifications of loads.

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

/// Prefix of the path of a Unix socket, instead of `host:port`.
pub const UNIX: &str = "unix:";

/// A load: the requests, their rate, the connections and the end. With a [`ShardSpec`] it is still the whole load, of
/// which this machine drives a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// `host:port`, or [`UNIX`] and the path of a Unix socket; resolved before the load starts.
    pub connect: String,
    /// The server name of TLS connections, if neither `tls` nor `domains` give another.
    #[serde(default)]
    pub host: String,
    /// Addresses that override name resolution.
    #[serde(default)]
    pub resolve: Vec<ResolveSpec>,
    /// Addresses that override all of these; connections use them in round robin.
    #[serde(default)]
    pub addresses: Vec<SocketAddr>,
    /// TLS configuration; `None` is plain TCP.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// Protocol of the connections.
    #[serde(default)]
    pub protocol: ProtocolSpec,
    /// HTTP/2: maximum in-flight requests per connection; the default is 1.
    #[serde(default)]
    pub streams: Option<u32>,
    /// Requests of the mix. Each arrival selects one by (seed, index), in proportion to the weights.
    pub requests: Vec<RequestSpec>,
    /// Additional requests from a file.
    #[serde(default)]
    pub request_file: Option<RequestFileSpec>,
    /// Values of `{domain}`. With TLS, each connection uses one of them in round robin, also as its server name.
    /// Otherwise each request does.
    #[serde(default)]
    pub domains: Vec<String>,
    /// Weights of the domains for TLS connections, which draw one whenever they open. If empty, each connection always
    /// uses the same one.
    #[serde(default)]
    pub domain_weights: Vec<f64>,
    /// Bearer tokens for the `Authorization` field, used by requests in round robin.
    #[serde(default)]
    pub tokens: Vec<String>,
    /// The arrival model.
    pub model: ModelSpec,
    /// Number of connections over all workers.
    pub connections: u32,
    /// Closed loop: number of connections at the start of the sustained phase. It changes linearly to `connections` at
    /// the end.
    #[serde(default)]
    pub connections_from: Option<u32>,
    /// Requests per connection, after which it is closed and reopened; 1 opens a connection per request.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Worker threads per machine. A shard with fewer connections has as many workers as connections.
    pub workers: u32,
    /// Duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// Maximum duration of the warm-up while latencies have not settled, in nanoseconds. It is not extended if this is
    /// at most `warmup_ns`. Ramps, bursts, steps, loads that end by a count, and shards are never extended: each
    /// machine would choose another duration, and their phases would differ.
    #[serde(default)]
    pub warmup_most_ns: u64,
    /// Duration of the sustained phase (of each step) in nanoseconds; this or `request_count`.
    pub duration_ns: Option<u64>,
    /// Requests of the sustained phase (of each step); this or `duration_ns`. Each shard ends with its share, so the
    /// rate of an open load falls at the end.
    pub request_count: Option<u64>,
    /// Steps, one after the other. If empty, the load has one step with the values above. The warm-up precedes the
    /// first.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
    /// Time-out of a request from its intended start, in nanoseconds.
    pub timeout_ns: u64,
    /// Seed of arrivals, of the choice of requests, and of template values.
    pub seed: u64,
    /// Number of earlier runs of the load against the same servers. UUIDs differ between runs; all other values repeat.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// File for the intended and the actual send times of the sustained phase, up to a million per worker.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Whether the record keeps only counts per second. Latencies need about 3 KiB per second, which long loads can
    /// omit if nobody plots them.
    #[serde(default)]
    pub counts_only: bool,
    /// Whether workers busy-wait, which needs a core each: less lateness for more CPU time.
    #[serde(default)]
    pub spin: bool,
    /// The part of the load that this machine drives; `None` is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardSpec>,
    /// Start of the warm-up on this machine's `CLOCK_MONOTONIC`, in nanoseconds; at most 10 minutes ahead. Connections
    /// are opened before. If they are not open by then, the load fails with [`EngineError::Late`] and sends nothing.
    /// Steps also start at planned times: a time-out and a second after the end of the step before. `None` starts as
    /// soon as connections are open.
    ///
    /// [`EngineError::Late`]: crate::EngineError::Late
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ns: Option<u64>,
}

/// An address that overrides name resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveSpec {
    /// The name.
    pub host: String,
    /// The port to which it applies.
    pub port: u16,
    /// The address to connect to.
    pub address: IpAddr,
}

/// Protocol of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolSpec {
    /// HTTP/1.1, one request at a time per connection.
    #[default]
    Http1,
    /// HTTP/2: by ALPN over TLS, else by prior knowledge.
    Http2,
}

/// The arrival model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
pub enum ModelSpec {
    /// Each connection (or stream) sends the next request after a response.
    Closed {
        /// Pause between a response and the next request.
        #[serde(default)]
        think: Option<Pause>,
    },
    /// Arrivals follow a schedule that is independent of responses.
    Open {
        /// Mean number of arrivals per second, over all workers.
        rate_per_s: f64,
        /// Rate at the end of the sustained phase; the rate changes linearly from `rate_per_s`.
        #[serde(default)]
        rate_to_per_s: Option<f64>,
        /// Bursts in addition to this rate.
        #[serde(default)]
        burst: Option<Burst>,
        /// Distribution of the gaps between arrivals.
        spacing: Spacing,
    },
}

/// Arrivals of an open load. A ramp, a burst or a step only changes the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Exponential gaps, like many independent clients.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
}

/// A step of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Connections, over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "those of the load"))]
    pub connections: Option<u32>,
    /// Arrival rate (open loop only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of the load"))]
    pub rate: Option<Rate>,
}

/// One request of the mix. Path, values of header fields and body may contain `{1..50}`, `{domain}`, `{seq}`, `{uuid}`
/// and `{pick:FILE}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The method, a token.
    pub method: String,
    /// Path and query, starting with `/`.
    pub path: String,
    /// Header fields in order, including `Host`; framing is added.
    pub headers: Vec<(String, String)>,
    /// The body. Content-Length is added if the body is not empty or the method requires it.
    pub body: Body,
    /// Name of its route in the results; `None` derives one from method and path.
    #[serde(default)]
    pub name: Option<String>,
    /// Weight in the mix.
    #[serde(default = "full_share")]
    pub weight: f64,
    /// Checks of its responses. Responses that fail them count as unexpected.
    #[serde(default)]
    pub checks: ChecksSpec,
}

/// Requests from a file. It is read when the load is prepared, so a list of a million URLs needs little more memory
/// than its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFileSpec {
    /// The file; see [`crate::request_file`] for the formats.
    pub path: PathBuf,
    /// Defaults for its requests.
    pub base: RequestSpec,
    /// Whether the base's method is configured. Otherwise a request with its own body is a POST.
    #[serde(default)]
    pub is_method_given: bool,
    /// Whether requests of a recorded session (HAR) are drawn at random. Otherwise each connection replays the session
    /// in order, and arrivals of an open loop share one pass through it. Other files are always drawn at random.
    #[serde(default)]
    pub shuffle: bool,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Text with templates.
    Text(String),
    /// Literal bytes in base64.
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
    /// `GET /` without any header field.
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
    /// A closed loop of ten seconds over one plain connection, without a target or requests.
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

/// Whether the load was not run before.
fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}
