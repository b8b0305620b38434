//! The result of one load: the JSON of `weir load`, and the full record.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BoundBy, Distributions, Histogram, LeftOut, ShardResult, Verdicts};

mod sums;

pub use sums::{add_counts, add_routes};

/// The arrival model (`docs/method.md#arrival-model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalModel {
    /// Closed loop: each connection sends its next request after the response.
    Closed,
    /// Open loop: requests follow a schedule that does not wait for responses.
    Open,
}

/// The protocol of the connections.
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

/// TLS over the whole load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsResult {
    /// Finished handshakes.
    pub handshakes: u64,
    /// Of these, resumed ones.
    pub resumed: u64,
    /// Handshakes that failed; [`LoadResult::said`] has the errors.
    pub failed: u64,
    /// From the established TCP connection to the finished handshake, of connections that were opened under load. If
    /// there were none, of those opened before the load: they are opened at the same time, and delay each other.
    pub handshake_ns: TimesNs,
    /// Finished handshakes by version, cipher suite and ALPN protocol.
    pub negotiated: BTreeMap<String, u64>,
}

/// HTTP/2 over the whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Result {
    /// Requested streams per connection.
    pub streams: u32,
    /// Minimum MAX_CONCURRENT_STREAMS of the peers; `None` if none set a limit.
    pub streams_allowed_min: Option<u32>,
    /// GOAWAY frames received.
    pub goaways: u64,
    /// Requests that a GOAWAY left unprocessed and that weir retried on another connection.
    pub sent_again: u64,
    /// Streams that the peer reset, including refused streams.
    pub streams_reset: u64,
}

/// One route of a load: a request of the mix, or requests with similar paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteResult {
    /// Name, given or derived.
    pub name: String,
    /// Request counts of the sustained phase.
    pub requests: Requests,
    /// Latency of its responses in the sustained phase, by class of their status (`2xx`).
    pub by_class: BTreeMap<String, RouteTimes>,
}

/// Latency of the responses of one route and status class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTimes {
    /// Quantiles over the responses of this class.
    pub latency_ns: TimesNs,
    /// The distribution.
    pub latency: Histogram,
}

/// One step of a load with steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Connections of the step.
    pub connections: u32,
    /// Offered rate; `None` in closed loop.
    pub rate_per_s: Option<f64>,
    /// Results of the step's sustained phase.
    pub result: LoadResult,
    /// Latency over the step's sustained phase.
    pub latency: Histogram,
    /// `CLOCK_MONOTONIC` at the start of the step's sustained phase, nanoseconds.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at the end of that phase, nanoseconds.
    pub phase_end_mono_ns: u64,
    /// Further distributions for a merge over machines; only in the record of a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}

/// The request counts of a load: `scheduled = completed + failed + timed_out + dropped + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Requests with an (intended) start in the phase.
    pub scheduled: u64,
    /// Scheduled requests of which at least one byte was written to a connection.
    pub sent: u64,
    /// Whole responses, with any status.
    pub completed: u64,
    /// Completed responses with a status of 400 or more, or a failed check.
    pub unexpected: u64,
    /// Requests without a whole response: the connection broke, or the response was not HTTP.
    pub failed: u64,
    /// Sent requests without a response within the timeout from the intended start.
    pub timed_out: u64,
    /// Requests that were not sent within the timeout from the intended start.
    pub dropped: u64,
    /// Requests that still waited for a response when the drain ended.
    pub in_flight: u64,
}

impl Requests {
    /// Adds the counts of `other`, field by field.
    pub fn add(&mut self, other: &Self) {
        // All fields are named, so that a new one cannot be forgotten here.
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

    /// Scheduled requests without a whole response. They rank last in every quantile.
    pub fn unanswered(&self) -> u64 {
        self.scheduled.saturating_sub(self.completed)
    }

    /// (unexpected + failed + timed_out + dropped) / scheduled; `None` if nothing was scheduled.
    pub fn error_share(&self) -> Option<f64> {
        let bad: u128 =
            [self.unexpected, self.failed, self.timed_out, self.dropped].into_iter().map(u128::from).sum();
        (self.scheduled > 0).then(|| bad as f64 / self.scheduled as f64)
    }
}

/// Summary of a distribution of times in nanoseconds.
///
/// Quantiles use the nearest rank, rounded up, over everything scheduled. Requests without a response rank last. A
/// quantile that falls among them is `None` (printed `> timeout`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesNs {
    /// Minimum.
    pub min: Option<u64>,
    /// Mean of the answered requests.
    pub mean: Option<f64>,
    /// Standard deviation of the answered requests.
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

/// Bytes that the generator wrote and read; with TLS, the plaintext without handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// Failures by cause. Failed, timed-out and dropped requests count, and also failed connection attempts and
/// connections lost without a request, so the sum can exceed `failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// The name did not resolve.
    pub dns: u64,
    /// A connection could not be opened: the server is unreachable or timed out, or this host has no free port or
    /// file descriptor.
    pub connect: u64,
    /// A connection attempt was refused.
    pub refused: u64,
    /// The server reset the connection before the response was complete.
    pub reset: u64,
    /// The server closed the connection before the response was complete.
    pub closed: u64,
    /// A TLS handshake or record failed, or the server does not use TLS.
    pub tls: u64,
    /// The response is not valid HTTP/1.1, is ambiguous (two lengths, or a length and chunks), or belongs to no
    /// request.
    pub parse: u64,
    /// The response headers exceed 32 KiB or 100 fields.
    pub too_large: u64,
    /// HTTP/2: the server does not support it, violates the protocol, or floods the connection with PING or SETTINGS
    /// without reading the replies.
    #[serde(default)]
    pub http2: u64,
    /// HTTP/2: the server refused the stream (REFUSED_STREAM), so it did not process the request.
    #[serde(default)]
    pub refused_stream: u64,
    /// HTTP/2: the server reset the stream with another code.
    #[serde(default)]
    pub stream_reset: u64,
    /// HTTP/2: the server sent GOAWAY with an error. After a GOAWAY without an error, weir resends unprocessed
    /// requests on another connection; they count here only if no connection accepts them before the time-out.
    #[serde(default)]
    pub goaway: u64,
}

impl Errors {
    /// Number of causes.
    pub const CAUSES: usize = 12;

    /// Every cause: its name in JSON and exports, and its count. It is the only list of the causes.
    pub fn by_cause(&self) -> [(&'static str, u64); Self::CAUSES] {
        let mut copy = *self;
        copy.by_cause_mut().map(|(name, count)| (name, *count))
    }

    /// The same, with mutable counts.
    pub fn by_cause_mut(&mut self) -> [(&'static str, &mut u64); Self::CAUSES] {
        // Without `..`, so that a new cause cannot be forgotten.
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
    /// In user mode.
    pub user: f64,
    /// In system mode.
    pub system: f64,
}

impl CpuSeconds {
    /// Sum of user and system time.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}

/// The JSON of `weir load --json`: results of the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Version of the result schema.
    pub schema_version: u32,
    /// The arrival model.
    pub model: ArrivalModel,
    /// Length of the sustained phase, without warm-up and drain.
    pub duration_s: f64,
    /// Request counts of the sustained phase.
    pub requests: Requests,
    /// Whole responses within the phase, per second. Responses of the drain are excluded, because otherwise an
    /// overloaded gateway would show the offered rate.
    pub rate_per_s: f64,
    /// From the intended start (open loop) or the send (closed loop) to the last byte of the response.
    pub latency_ns: TimesNs,
    /// From the actual send to the last byte of the response.
    pub service_time_ns: TimesNs,
    /// Actual send minus intended start; `None` in closed loop. [`GeneratorEvidence::connection_wait_ns`] has the part
    /// that was a wait for a free connection.
    pub lateness_ns: Option<TimesNs>,
    /// Bytes written and read within the phase; with TLS, the plaintext.
    pub bytes: Bytes,
    /// Completed responses by status code.
    pub status: BTreeMap<String, u64>,
    /// Failures by cause.
    pub errors: Errors,
    /// Messages of the system, TLS, HTTP or failed checks, each with its count; at most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, u64>,
    /// The protocol that the load used.
    #[serde(default)]
    pub protocol: Protocol,
    /// TLS, if it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsResult>,
    /// HTTP/2, if it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Result>,
    /// CPU time of the generator's process in the phase.
    pub cpu_s: CpuSeconds,
    /// The bottleneck, as far as the generator alone can determine it.
    pub bound_by: BoundBy,
    /// Reasons per metric, as far as the generator alone can determine them.
    pub verdicts: Verdicts,
}

/// Measurements of the generator itself over the sustained phase, for the verdicts of `docs/method.md#bottleneck`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorEvidence {
    /// Worker threads.
    pub workers: u32,
    /// Requested connections, over all workers.
    pub connections: u32,
    /// Wall time of the phase.
    pub wall_s: f64,
    /// CPU time per worker thread, in the order of workers.
    pub worker_cpu_s: Vec<f64>,
    /// Run-queue delay per worker thread from schedstat; empty if the kernel does not report it.
    pub worker_runqueue_s: Vec<f64>,
    /// Open loop: requests that were due in the phase and had a free connection, but were not sent in it.
    pub unsent_with_free_connection: u64,
    /// Mean number of in-flight requests, sampled independently of the request counts.
    pub in_flight_mean: Option<f64>,
    /// Mean number of missing connections: an attempt to open them failed, and no later one succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_missing_mean: Option<f64>,
    /// Connections opened over the whole load.
    pub connections_opened: u64,
    /// Open loop: time from the intended start until a connection was assigned.
    pub connection_wait_ns: Option<TimesNs>,
    /// The warm-up, if it could grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Entries of a recorded session (HAR) that were not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// One second of a load; `t_s` counts from the start of the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSecond {
    /// Start of the second, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Length of the interval (the last may be shorter than 1).
    pub length_s: f64,
    /// Whether it lies in the sustained phase. No interval spans the boundary of the phase.
    pub sustained: bool,
    /// Requests sent in this second.
    pub sent: u64,
    /// Whole responses in this second.
    pub completed: u64,
    /// Completed responses with status 400 or more.
    pub unexpected: u64,
    /// Requests that failed, timed out or were dropped in this second.
    pub lost: u64,
    /// Latency of the responses completed in this second.
    pub latency: Histogram,
}

/// A warm-up that could grow (`docs/method.md#warm-up`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Requested length, nanoseconds.
    pub asked_ns: u64,
    /// Actual length, nanoseconds.
    pub taken_ns: u64,
    /// Whether latencies had settled at its end (MSER-5), as far as that can be determined.
    pub has_settled: bool,
}

/// The full record of a load: the result, the request counts of the whole load, histograms and series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRecord {
    /// Results of the sustained phase.
    pub result: LoadResult,
    /// Request counts of warm-up, sustained phase and drain; counters of peers must agree with `sent`.
    pub whole: Requests,
    /// Requests that may or may not have reached the peer: they were sent, and the connection broke or they timed out.
    /// A peer's count lies within `whole.sent - whole_uncertain ..= whole.sent`.
    pub whole_uncertain: u64,
    /// `CLOCK_MONOTONIC` at the start of the sustained phase, nanoseconds: aligns the rig's samples.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at the end of the sustained phase (before the drain), nanoseconds.
    pub phase_end_mono_ns: u64,
    /// Measurements of the generator itself.
    pub generator: GeneratorEvidence,
    /// Latency over the sustained phase.
    pub latency: Histogram,
    /// Service time over the sustained phase.
    pub service_time: Histogram,
    /// Lateness over the sustained phase; `None` in closed loop.
    pub lateness: Option<Histogram>,
    /// Per second, from the start of the warm-up.
    pub seconds: Vec<LoadSecond>,
    /// Per route and status class. Routes beyond the limit are summed up as `other`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteResult>,
    /// The steps, if the load has steps; the fields above then cover all steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// The shards, if several machines carried the load; the fields above then cover all shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardResult>,
    /// Further distributions for a merge over machines; only in the record of a shard, and never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}
