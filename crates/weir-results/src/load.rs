//! What one load gave: the JSON of `weir load`, and the record behind it.

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

/// What is spoken on the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    #[default]
    #[serde(rename = "HTTP/1.1")]
    Http1,
    /// HTTP/2, many streams on a connection.
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
    /// Handshakes that failed; why stands in [`LoadResult::said`].
    pub failed: u64,
    /// From the established TCP connection to the finished handshake: of connections that were opened under load, unless
    /// there were none. Before it all are opened at one time, and wait for each other.
    pub handshake_ns: TimesNs,
    /// Finished handshakes by version, cipher suite and ALPN protocol.
    pub negotiated: BTreeMap<String, u64>,
}

/// HTTP/2 over the whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Result {
    /// Streams asked for on each connection.
    pub streams: u32,
    /// Least MAX_CONCURRENT_STREAMS that a peer allowed; `None` where none set a limit.
    pub streams_allowed_min: Option<u32>,
    /// GOAWAY frames received.
    pub goaways: u64,
    /// Requests that a GOAWAY left unprocessed and that were sent again on another connection.
    pub sent_again: u64,
    /// Streams that the peer reset, refusals included.
    pub streams_reset: u64,
}

/// One route of a load: a request of the mix, or those whose paths are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteResult {
    /// Its name, given or derived.
    pub name: String,
    /// The books of its requests in the sustained phase.
    pub requests: Requests,
    /// Latency of its responses in the sustained phase, by class of their status (`2xx`).
    pub by_class: BTreeMap<String, RouteTimes>,
}

/// Latency of the responses of one route and status class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTimes {
    /// Quantiles over what was answered with this class.
    pub latency_ns: TimesNs,
    /// The distribution itself.
    pub latency: Histogram,
}

/// One step of a load that goes in steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Connections of the step.
    pub connections: u32,
    /// Rate of arrivals asked for; `None` in closed loop.
    pub rate_per_s: Option<f64>,
    /// The figures of the step's sustained phase.
    pub result: LoadResult,
    /// Latency over the step's sustained phase.
    pub latency: Histogram,
    /// `CLOCK_MONOTONIC` at the start of the step's sustained phase, nanoseconds.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at its end.
    pub phase_end_mono_ns: u64,
    /// What a merge over machines needs beside that; only in the record of a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}

/// The books of a load: `scheduled = completed + failed + timed_out + dropped + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Requests whose (intended) start lies in the phase.
    pub scheduled: u64,
    /// Of those, requests of which at least one byte was written to a connection.
    pub sent: u64,
    /// Whole responses, with any status.
    pub completed: u64,
    /// Of the completed, those with a status of 400 or more or a failed check.
    pub unexpected: u64,
    /// No whole response: the connection broke or the response was no HTTP.
    pub failed: u64,
    /// Sent, and not answered within the time-out from the intended start.
    pub timed_out: u64,
    /// Never sent within the time-out from the intended start.
    pub dropped: u64,
    /// Neither answered nor given up when the drain ended.
    pub in_flight: u64,
}

impl Requests {
    /// Adds the counts of `other`, column by column.
    pub fn add(&mut self, other: &Self) {
        // All columns are named, so that a new one cannot be forgotten here.
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

    /// Whether the books balance.
    pub fn balance(&self) -> bool {
        let ends = [self.completed, self.failed, self.timed_out, self.dropped, self.in_flight];
        u128::from(self.scheduled) == ends.into_iter().map(u128::from).sum()
    }

    /// Scheduled requests that never got a whole response; these rank last in every quantile.
    pub fn unanswered(&self) -> u64 {
        self.scheduled.saturating_sub(self.completed)
    }

    /// (unexpected + failed + timed_out + dropped) / scheduled; `None` where nothing was scheduled.
    pub fn error_share(&self) -> Option<f64> {
        let bad: u128 =
            [self.unexpected, self.failed, self.timed_out, self.dropped].into_iter().map(u128::from).sum();
        (self.scheduled > 0).then(|| bad as f64 / self.scheduled as f64)
    }
}

/// Summary of a distribution of times in nanoseconds.
///
/// Quantiles take the nearest rank, rounded up, over everything scheduled; what was never answered
/// ranks last, and a quantile that falls there is `None` (printed `> timeout`).
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

/// Bytes as the generator wrote and read them; over TLS those within it, without handshakes.
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

    /// The same, with counts that can be changed.
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
    /// User and system together.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}

/// The JSON of `weir load --json`: figures of the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Version of the result schema.
    pub schema_version: u32,
    /// The arrival model.
    pub model: ArrivalModel,
    /// Length of the sustained phase, without warm-up and drain.
    pub duration_s: f64,
    /// The books of the sustained phase.
    pub requests: Requests,
    /// Whole responses that came within the phase, per second of it; those of the drain don't count, or the rate
    /// of an overloaded gateway would be the one asked for.
    pub rate_per_s: f64,
    /// From the intended start (open loop) or the send (closed loop) to the last byte of the response.
    pub latency_ns: TimesNs,
    /// From the actual send to the last byte of the response.
    pub service_time_ns: TimesNs,
    /// Actual send minus intended start; `None` in closed loop. The part of it that was a wait for a free connection
    /// stands in the evidence.
    pub lateness_ns: Option<TimesNs>,
    /// Bytes written and read within the phase; over TLS those within it.
    pub bytes: Bytes,
    /// Completed responses by status code.
    pub status: BTreeMap<String, u64>,
    /// Failures by cause.
    pub errors: Errors,
    /// Messages of the system, TLS, HTTP or failed checks, each with its count; at most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, u64>,
    /// The protocol that was spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// TLS, where it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsResult>,
    /// HTTP/2, where it was spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Result>,
    /// CPU time of the generator's process in the phase.
    pub cpu_s: CpuSeconds,
    /// What bounds it, as far as the generator alone can tell.
    pub bound_by: BoundBy,
    /// Reasons per metric, as far as the generator alone can tell.
    pub verdicts: Verdicts,
}

/// What the generator knows about itself, for the verdicts of `docs/method.md#bottleneck`. All of the sustained phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorEvidence {
    /// Worker threads.
    pub workers: u32,
    /// Connections asked for, over all workers.
    pub connections: u32,
    /// Wall time of the phase.
    pub wall_s: f64,
    /// CPU time per worker thread, in order of worker.
    pub worker_cpu_s: Vec<f64>,
    /// Run-queue delay per worker thread from the kernel's schedstat; empty where the kernel has none.
    pub worker_runqueue_s: Vec<f64>,
    /// Open loop: arrivals that were due in the phase and found a free connection, but were not sent in it.
    pub unsent_with_free_connection: u64,
    /// Mean number of requests in flight, sampled independently of the books, and the number of samples.
    pub in_flight_mean: Option<f64>,
    /// Mean number of connections that were missing: an attempt to open them failed and none succeeded after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_missing_mean: Option<f64>,
    /// Connections opened over the whole load.
    pub connections_opened: u64,
    /// Wait for a free connection (open loop): intended start to the moment a connection was assigned.
    pub connection_wait_ns: Option<TimesNs>,
    /// How the warm-up went, where it could grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What a recorded session (HAR) has that was not sent.
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
    /// Whether it lies in the sustained phase (an interval never spans the border).
    pub sustained: bool,
    /// Requests sent in this second.
    pub sent: u64,
    /// Whole responses in this second.
    pub completed: u64,
    /// Of these, status 400 or more.
    pub unexpected: u64,
    /// Failed, timed out or dropped in this second.
    pub lost: u64,
    /// Latency of the responses completed in this second.
    pub latency: Histogram,
}

/// A warm-up that could grow (`docs/method.md#warm-up`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Length that was asked for, nanoseconds.
    pub asked_ns: u64,
    /// Length that it took, nanoseconds.
    pub taken_ns: u64,
    /// Whether latencies had settled at its end (MSER-5), as far as that could be told.
    pub has_settled: bool,
}

/// All that a load gave: the result, the books of the whole load, histograms and series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRecord {
    /// The figures of the sustained phase.
    pub result: LoadResult,
    /// The books of warm-up, sustained phase and drain together; `sent` is what peers' counters must agree with.
    pub whole: Requests,
    /// Requests that may or may not have reached the peer: sent ones whose connection broke or which timed out.
    /// A peer's count lies within `whole.sent - whole_uncertain ..= whole.sent`.
    pub whole_uncertain: u64,
    /// `CLOCK_MONOTONIC` at the start of the sustained phase, nanoseconds: aligns the rig's samples.
    pub phase_start_mono_ns: u64,
    /// `CLOCK_MONOTONIC` at the end of the sustained phase (before the drain), nanoseconds.
    pub phase_end_mono_ns: u64,
    /// What the generator knows about itself.
    pub generator: GeneratorEvidence,
    /// Latency over the sustained phase.
    pub latency: Histogram,
    /// Service time over the sustained phase.
    pub service_time: Histogram,
    /// Lateness over the sustained phase; `None` in closed loop.
    pub lateness: Option<Histogram>,
    /// Per second, from the start of the warm-up.
    pub seconds: Vec<LoadSecond>,
    /// Per route and status class; bounded, what is beyond the bound is called `other`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteResult>,
    /// The steps, where the load went in steps; the figures above are then of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// The shards, where several machines carried the load; the figures above are then of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardResult>,
    /// What a merge over machines needs beside the above; only in the record of a shard, and never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributions: Option<Distributions>,
}
