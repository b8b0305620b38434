//! The result of one load: the JSON of `weir load`, and the full record with histograms.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BoundBy, Distributions, Histogram, LeftOut, ShardResult, Verdicts};

mod sums;

pub use sums::{add_counts, add_routes};

/// How requests arrive (`docs/method.md#arrival-model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalModel {
    /// Closed loop: each connection sends its next request after the response.
    Closed,
    /// Open loop: requests follow a schedule that does not wait for responses.
    Open,
}

/// The protocol between generator and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time per connection.
    #[default]
    #[serde(rename = "HTTP/1.1")]
    Http1,
    /// HTTP/2, many streams per connection.
    #[serde(rename = "HTTP/2")]
    Http2,
}

/// TLS handshakes during the whole load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsResult {
    /// Finished handshakes.
    pub handshakes: u64,
    /// Number of handshakes that resumed a session.
    pub resumed: u64,
    /// Failed handshakes; `result.said` has the error messages.
    pub failed: u64,
    /// Time from the established TCP connection to the finished handshake, for connections that weir opened under load.
    /// If there are none, for connections that weir opened before the load. Connections before the load are opened at
    /// the same time, so their handshakes delay each other.
    pub handshake_ns: TimesNs,
    /// Finished handshakes by version, cipher suite and ALPN protocol.
    pub negotiated: BTreeMap<String, u64>,
}

/// HTTP/2 statistics of the whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Result {
    /// Number of concurrent streams that the load requested per connection.
    pub streams: u32,
    /// Minimum MAX_CONCURRENT_STREAMS that a server set; `None` if no server set a limit.
    pub streams_allowed_min: Option<u32>,
    /// GOAWAY frames received.
    pub goaways: u64,
    /// Requests that weir retried on another connection, because a GOAWAY left them unprocessed.
    pub sent_again: u64,
    /// Streams that the server reset, including refused streams.
    pub streams_reset: u64,
}

/// The result of one route of a load. A route is a request of the mix, or all requests with similar paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteResult {
    /// Name, given in the scenario or derived from method and path.
    pub name: String,
    /// Request counts of the sustained phase.
    pub requests: Requests,
    /// Latency of the route's responses in the sustained phase, one entry per status class, such as `2xx`.
    pub by_class: BTreeMap<String, RouteTimes>,
}

/// Latency of the responses of one route and status class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTimes {
    /// Quantiles of the latency of the responses, nanoseconds.
    pub latency_ns: TimesNs,
    /// The distribution of the latency of the responses.
    pub latency: Histogram,
}

/// The record of one step of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Number of connections in the step.
    pub connections: u32,
    /// Offered rate; `None` in closed loop.
    pub rate_per_s: Option<f64>,
    /// Results of the sustained phase of the step.
    pub result: LoadResult,
    /// Distribution of the latency in the sustained phase of the step.
    pub latency: Histogram,
    /// `CLOCK_MONOTONIC` at the start of the sustained phase of the step, nanoseconds.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at the end of the sustained phase of the step, nanoseconds.
    pub phase_end_mono_ns: u64,
    /// Distributions that weir needs to merge the shards of a load. Only the record of a shard has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}

/// Request counts. They add up: `scheduled = completed + failed + timed_out + dropped + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Requests that were due in the phase: their intended send time (open loop) or their start (closed loop) is in the
    /// phase.
    pub scheduled: u64,
    /// Scheduled requests of which at least one byte was written.
    pub sent: u64,
    /// Requests with a complete response, with any status.
    pub completed: u64,
    /// Completed responses with a status of 400 or more, or a failed check.
    pub unexpected: u64,
    /// Requests without a complete response, because the connection broke or the response was not HTTP.
    pub failed: u64,
    /// Requests that were sent, but got no complete response before the timeout. The timeout starts at the intended
    /// send time.
    pub timed_out: u64,
    /// Requests that could not be sent before the timeout. The timeout starts at the intended send time.
    pub dropped: u64,
    /// Requests that still waited for a response at the end of the drain.
    pub in_flight: u64,
}

impl Requests {
    /// Adds the counts of `other`, field by field.
    pub fn add(&mut self, other: &Self) {
        // All fields are named here, so that the compiler reports a new field.
        let Self { scheduled, sent, completed, unexpected, failed, timed_out, dropped, in_flight } = *other;
        self.scheduled += scheduled;
        self.sent += sent;
        self.completed += completed;
        self.unexpected += unexpected;
        self.failed += failed;
        self.timed_out += timed_out;
        self.dropped += dropped;
        self.in_flight += in_flight;
    }

    /// Whether the counts add up to `scheduled`.
    pub fn balance(&self) -> bool {
        let ends = [self.completed, self.failed, self.timed_out, self.dropped, self.in_flight];
        u128::from(self.scheduled) == ends.into_iter().map(u128::from).sum()
    }

    /// Scheduled requests without a complete response. They rank last in every quantile.
    pub fn unanswered(&self) -> u64 {
        self.scheduled.saturating_sub(self.completed)
    }

    /// Error share: (unexpected + failed + timed_out + dropped) / scheduled; `None` if nothing was scheduled.
    pub fn error_share(&self) -> Option<f64> {
        let bad: u128 =
            [self.unexpected, self.failed, self.timed_out, self.dropped].into_iter().map(u128::from).sum();
        (self.scheduled > 0).then(|| bad as f64 / self.scheduled as f64)
    }
}

/// Summary of a distribution of times in nanoseconds.
///
/// Quantiles use the nearest rank, rounded up, among all scheduled requests. Requests without a response rank last. If
/// a quantile falls on such a request, it is `None` (printed `> timeout`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesNs {
    /// Minimum.
    pub min: Option<u64>,
    /// Mean time of the requests with a response.
    pub mean: Option<f64>,
    /// Standard deviation of the times of requests with a response.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 66th percentile.
    pub p66: Option<u64>,
    /// 75th percentile.
    pub p75: Option<u64>,
    /// 80th percentile.
    pub p80: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 98th percentile.
    pub p98: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// 99.99th percentile.
    pub p9999: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

/// Bytes that the generator sent and received; with TLS, the plaintext without handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// Failures by cause. They include failed, timed-out and dropped requests, failed connection attempts, and connections
/// that were lost soon after they opened, before any request. So the sum can exceed `failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// The host name did not resolve.
    pub dns: u64,
    /// A connection could not be opened: the server is unreachable or did not respond in time, or this host has no free
    /// port or file descriptor.
    pub connect: u64,
    /// A connection attempt was refused.
    pub refused: u64,
    /// The server reset the connection before the response was complete.
    pub reset: u64,
    /// The server closed the connection before the response was complete.
    pub closed: u64,
    /// A TLS handshake or record failed, or the server does not use TLS.
    pub tls: u64,
    /// The response is not valid HTTP/1.1, is ambiguous (more than one Content-Length, or both Content-Length and
    /// Transfer-Encoding), or belongs to no request.
    pub parse: u64,
    /// The response headers exceed 32 KiB or 100 fields.
    pub too_large: u64,
    /// HTTP/2 errors: the server does not support HTTP/2, violates the protocol, or floods the connection with PING or
    /// SETTINGS without reading the replies.
    #[serde(default)]
    pub http2: u64,
    /// HTTP/2: the server refused the stream (REFUSED_STREAM), so it did not process the request.
    #[serde(default)]
    pub refused_stream: u64,
    /// HTTP/2: the server reset the stream with an error code other than REFUSED_STREAM.
    #[serde(default)]
    pub stream_reset: u64,
    /// HTTP/2: the server sent GOAWAY with an error. After a GOAWAY without an error, weir resends unprocessed requests
    /// on another connection; they count here only if no connection accepts them before the timeout.
    #[serde(default)]
    pub goaway: u64,
}

impl Errors {
    /// Number of causes.
    pub const CAUSES: usize = 12;

    /// All causes, each with its count, and its name in JSON and exports. No other code lists the causes.
    pub fn by_cause(&self) -> [(&'static str, u64); Self::CAUSES] {
        let mut copy = *self;
        copy.by_cause_mut().map(|(name, count)| (name, *count))
    }

    /// As [`Self::by_cause`], with mutable counts.
    pub fn by_cause_mut(&mut self) -> [(&'static str, &mut u64); Self::CAUSES] {
        // The pattern has no `..`, so that the compiler reports a new cause.
        let Self {
            dns,
            connect,
            refused,
            reset,
            closed,
            tls,
            parse,
            too_large,
            http2,
            refused_stream,
            stream_reset,
            goaway,
        } = self;
        [
            ("dns", dns),
            ("connect", connect),
            ("refused", refused),
            ("reset", reset),
            ("closed", closed),
            ("tls", tls),
            ("parse", parse),
            ("too_large", too_large),
            ("http2", http2),
            ("refused_stream", refused_stream),
            ("stream_reset", stream_reset),
            ("goaway", goaway),
        ]
    }

    /// Adds the counts of `other`, cause by cause.
    pub fn add(&mut self, other: &Self) {
        let counts = self.by_cause_mut().into_iter().zip(other.by_cause());
        counts.for_each(|((_, sum), (_, count))| *sum += count);
    }
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSeconds {
    /// CPU time in user mode.
    pub user: f64,
    /// CPU time in system mode.
    pub system: f64,
}

impl CpuSeconds {
    /// Sum of user and system time.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}

/// The JSON of `weir load --json`: the results of the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Version of the result schema.
    pub schema_version: u32,
    /// The arrival model.
    pub model: ArrivalModel,
    /// Length of the sustained phase in seconds, without warm-up and drain.
    pub duration_s: f64,
    /// Request counts of the sustained phase.
    pub requests: Requests,
    /// Throughput: complete responses within the sustained phase, per second. Responses during the drain are excluded,
    /// because otherwise an overloaded gateway would show the offered rate.
    pub rate_per_s: f64,
    /// Latency: time from the intended (open loop) or actual (closed loop) send time to the last byte of the response.
    pub latency_ns: TimesNs,
    /// Service time: from the actual send time to the last byte of the response.
    pub service_time_ns: TimesNs,
    /// Lateness: time from the intended send time to the actual send; `None` in closed loop. It includes
    /// [`GeneratorEvidence::connection_wait_ns`], the time in which the request waited for a free connection.
    pub lateness_ns: Option<TimesNs>,
    /// Bytes sent and received in the sustained phase; with TLS, the plaintext.
    pub bytes: Bytes,
    /// Completed responses by status code.
    pub status: BTreeMap<String, u64>,
    /// Failures by cause.
    pub errors: Errors,
    /// Error messages of the operating system, TLS, HTTP and failed checks, each with its count; at most 16 different
    /// messages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, u64>,
    /// The protocol that the load used.
    #[serde(default)]
    pub protocol: Protocol,
    /// TLS handshakes; `None` for plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsResult>,
    /// HTTP/2 statistics; `None` for HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Result>,
    /// CPU time of the generator's process in the sustained phase.
    pub cpu_s: CpuSeconds,
    /// The bottleneck, as far as the load generator can determine it without data about the gateway.
    pub bound_by: BoundBy,
    /// For each metric, the reasons why its values are not *valid*; an empty list if there are none. The load generator
    /// has no data about the gateway, so reasons about the gateway are missing here.
    pub verdicts: Verdicts,
}

/// Measurements about the load generator itself in the sustained phase. The verdicts use them
/// (`docs/method.md#bottleneck`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorEvidence {
    /// Number of worker threads.
    pub workers: u32,
    /// Configured number of connections, over all workers.
    pub connections: u32,
    /// Wall time of the sustained phase, seconds.
    pub wall_s: f64,
    /// CPU time of each worker thread, seconds.
    pub worker_cpu_s: Vec<f64>,
    /// Run-queue delay of each worker thread from schedstat, seconds; empty if the kernel does not report it.
    pub worker_runqueue_s: Vec<f64>,
    /// Open loop: requests that were due in the sustained phase and had a free connection, but were not sent in the
    /// phase.
    pub unsent_with_free_connection: u64,
    /// Mean number of in-flight requests, sampled independently of the request counts.
    pub in_flight_mean: Option<f64>,
    /// Mean number of connections that are missing because their last connection attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_missing_mean: Option<f64>,
    /// Number of connections opened during the whole load.
    pub connections_opened: u64,
    /// Open loop: time from the intended send time of a request until it got a connection.
    pub connection_wait_ns: Option<TimesNs>,
    /// The length of the warm-up; `None` if the warm-up was not allowed to grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Entries of a recorded session (HAR) that were not sent; `None` for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// Results of one second of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSecond {
    /// Start of the second, in seconds since the start of the warm-up.
    pub t_s: f64,
    /// Length of the interval in seconds. The last one may be shorter than 1.
    pub length_s: f64,
    /// Whether the interval is in the sustained phase. No interval contains a boundary of the phase.
    pub sustained: bool,
    /// Requests sent in this second.
    pub sent: u64,
    /// Complete responses in this second.
    pub completed: u64,
    /// Completed responses with status 400 or more.
    pub unexpected: u64,
    /// Requests that failed, timed out or were dropped in this second.
    pub lost: u64,
    /// Latency of the responses completed in this second.
    pub latency: Histogram,
}

/// The length of a warm-up that was allowed to grow (`docs/method.md#warm-up`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Requested length, nanoseconds.
    pub asked_ns: u64,
    /// Actual length, nanoseconds.
    pub taken_ns: u64,
    /// Whether latencies had settled at the end of the warm-up (MSER-5). Also true if the warm-up was too short to
    /// decide.
    pub has_settled: bool,
}

/// The full record of a load: the result, request counts of the whole load, histograms and series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRecord {
    /// Results of the sustained phase.
    pub result: LoadResult,
    /// Request counts of warm-up, sustained phase and drain together. weir compares `sent` with the counter of the
    /// gateway or upstream.
    pub whole: Requests,
    /// Requests that may not have reached the server: they were sent, but the connection broke or they timed out. So
    /// the counter of the server is at least `whole.sent` minus `whole_uncertain`, and at most `whole.sent`.
    pub whole_uncertain: u64,
    /// `CLOCK_MONOTONIC` at the start of the sustained phase, nanoseconds. Use it to align the samples of processes
    /// (CPU, memory) with the load.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at the end of the sustained phase (before the drain), nanoseconds.
    pub phase_end_mono_ns: u64,
    /// Measurements about the load generator itself.
    pub generator: GeneratorEvidence,
    /// Distribution of the latency in the sustained phase.
    pub latency: Histogram,
    /// Distribution of the service time in the sustained phase.
    pub service_time: Histogram,
    /// Distribution of the lateness in the sustained phase; `None` in closed loop.
    pub lateness: Option<Histogram>,
    /// Results per second, from the start of the warm-up.
    pub seconds: Vec<LoadSecond>,
    /// Results per route. If a load has too many routes, the rest are summed up as `other`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteResult>,
    /// The steps of a load with steps; the other fields then cover all steps together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// The shards, if several machines generated the load; the other fields then cover all shards together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardResult>,
    /// Distributions that weir needs to merge the shards of a load. Only the record of a shard has them, and weir never
    /// stores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}
