//! Merges what the workers recorded into the record of the load. Sums are exact, and this work is not on the
//! request path.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram as Hdr;
use weir_io::CpuTime;
use weir_results::{
    ArrivalModel, BoundBy, Bytes, CpuSeconds, Distributions, GeneratorEvidence, Histogram, Http2Result,
    LoadRecord, LoadResult, LoadSecond, Protocol, RouteResult, SCHEMA_VERSION, TimesNs, TlsResult, Verdicts,
    new_histogram,
};

use crate::flow::Samples;
use crate::recording::books::Books;
use crate::recording::recorder::{Interval, OpenTimes, Send, add_histogram};
use crate::spec::{LoadSpec, ModelSpec, Part, ProtocolSpec};
use crate::timeline::Span;
use crate::worker::{Http2Books, Said, TlsBooks, WorkerReport};

/// Collects what workers report, and builds the record of a load.
#[derive(Debug)]
pub(crate) struct RecordBuilder {
    start_ns: u64,
    workers: u32,
    /// Whether the record keeps only counts per second. Latencies of a second are then removed when the next second is
    /// complete.
    counts_only: bool,
    /// Intervals that not all workers have reported yet, by their start. Each holds the workers that have reported,
    /// and the sum of their reports.
    open_intervals: BTreeMap<u64, (BTreeSet<u32>, Interval)>,
    seconds: BTreeMap<u64, LoadSecond>,
    /// Latency of the requests of the sustained phase.
    latency: Hdr<u64>,
    /// Number of responses that arrived within the sustained phase.
    completed_in_phase: u64,
    bytes: Bytes,
    reports: BTreeMap<u32, WorkerReport>,
}

/// An interval that all workers have reported.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) span: Span,
    pub(crate) second: LoadSecond,
    /// The lost requests that were sent and timed out.
    pub(crate) timed_out: u64,
    /// The lost requests that were never sent.
    pub(crate) dropped: u64,
}

/// Start, end and CPU use of the sustained phase, as the coordinator measured them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseFrame {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) cpu_start: CpuTime,
    pub(crate) cpu_end: CpuTime,
}

impl PhaseFrame {
    fn length_s(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}

impl RecordBuilder {
    pub(crate) fn new(start_ns: u64, workers: u32, counts_only: bool) -> Self {
        Self {
            start_ns,
            workers,
            counts_only,
            open_intervals: BTreeMap::new(),
            seconds: BTreeMap::new(),
            latency: new_histogram(),
            completed_in_phase: 0,
            bytes: Bytes::default(),
            reports: BTreeMap::new(),
        }
    }

    /// Adds what a worker recorded in an interval. Returns the sum of all workers once all running workers have
    /// reported the interval.
    pub(crate) fn interval(&mut self, worker: u32, share: Interval) -> Option<Closed> {
        let start_ns = share.span.start_ns;
        match self.open_intervals.get_mut(&start_ns) {
            Some((handed_in, sum)) => {
                sum.add(&share);
                handed_in.insert(worker);
            }
            None => {
                self.open_intervals.insert(start_ns, (BTreeSet::from([worker]), share));
            }
        }
        let (handed_in, _) = &self.open_intervals[&start_ns];
        let is_whole =
            (0..self.workers).all(|worker| handed_in.contains(&worker) || self.reports.contains_key(&worker));
        if is_whole { self.close(start_ns) } else { None }
    }

    /// Adds the final report of a worker. Returns the intervals that are complete now.
    pub(crate) fn report(&mut self, worker: u32, mut report: WorkerReport) -> Vec<Closed> {
        let intervals = std::mem::take(&mut report.flow.intervals);
        let closed = intervals.into_iter().filter_map(|interval| self.interval(worker, interval)).collect();
        self.reports.insert(worker, report);
        closed
    }

    /// Completes the intervals that no worker will report again, and returns them.
    pub(crate) fn close_all(&mut self) -> Vec<Closed> {
        let starts: Vec<u64> = self.open_intervals.keys().copied().collect();
        starts.into_iter().filter_map(|start_ns| self.close(start_ns)).collect()
    }

    /// Returns the end of the sustained phase as the workers reported it; `None` without reports.
    pub(crate) fn phase_end_ns(&self) -> Option<u64> {
        self.reports.values().map(|report| report.flow.timeline.end_ns).max()
    }

    /// Returns the send times that workers kept, in the order of the intended times.
    pub(crate) fn sends(&self) -> Vec<Send> {
        let mut sends: Vec<Send> =
            self.reports.values().flat_map(|report| report.flow.sends.iter().copied()).collect();
        sends.sort_unstable();
        sends
    }

    /// Builds the record of the load.
    pub(crate) fn build(mut self, part: Part<'_>, frame: PhaseFrame) -> LoadRecord {
        self.close_all();
        let (mut sustained, mut warmup) = (Books::default(), Books::default());
        for report in self.reports.values() {
            sustained.add(&report.flow.sustained);
            warmup.add(&report.flow.warmup);
        }
        let mut whole = sustained.requests;
        whole.add(&warmup.requests);
        // If counts do not balance, weir has a bug, and no result can be trusted.
        assert!(
            sustained.requests.balance() && whole.balance(),
            "request counts do not balance: sustained {sustained:?}, warm-up {warmup:?}"
        );
        let open = self.open_times();
        let wall_s = frame.length_s();
        let tls = self.tls_books();
        let generator = self.evidence(part, &sustained, open.as_ref(), wall_s);
        let result = self.result(part.spec, &sustained, open.as_ref(), &tls, &frame);
        // The distributions are needed only to merge the records of several machines, so a load on one machine does not
        // keep them.
        let distributions = (!part.shard.is_whole()).then(|| distributions(open.as_ref(), &tls));
        let service_time = open.as_ref().map_or(&self.latency, |open| &open.service_time);
        LoadRecord {
            result,
            whole,
            whole_uncertain: sustained.uncertain + warmup.uncertain,
            phase_start_mono_ns: frame.start_ns,
            phase_end_mono_ns: frame.end_ns,
            generator,
            latency: Histogram::encode(&self.latency),
            service_time: Histogram::encode(service_time),
            lateness: open.as_ref().map(|open| Histogram::encode(&open.lateness)),
            routes: self.routes(),
            seconds: self.seconds.into_values().collect(),
            steps: Vec::new(),
            shards: Vec::new(),
            distributions,
        }
    }

    fn close(&mut self, start_ns: u64) -> Option<Closed> {
        let (_, interval) = self.open_intervals.remove(&start_ns)?;
        if self.counts_only
            && let Some(mut previous) = self.seconds.last_entry()
        {
            previous.get_mut().latency = Histogram::encode(&new_histogram());
        }
        add_histogram(&mut self.latency, &interval.sustained);
        if interval.span.sustained {
            self.completed_in_phase += interval.completed;
            self.bytes.sent += interval.bytes_sent;
            self.bytes.received += interval.bytes_received;
        }
        let second = self.second(&interval);
        let Interval { span, timed_out, dropped, .. } = interval;
        let closed = Closed { span, second: second.clone(), timed_out, dropped };
        // A worker that ends early reports its last interval late. If the second of this interval is already complete,
        // the late values are added to this second.
        let merged = match self.seconds.remove(&start_ns) {
            Some(before) => merge_seconds(before, second),
            None => second,
        };
        self.seconds.insert(start_ns, merged);
        Some(closed)
    }

    fn second(&self, interval: &Interval) -> LoadSecond {
        LoadSecond {
            t_s: interval.span.start_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            length_s: (interval.span.end_ns - interval.span.start_ns) as f64 / 1e9,
            sustained: interval.span.sustained,
            sent: interval.sent,
            completed: interval.completed,
            unexpected: interval.unexpected,
            lost: interval.lost,
            latency: Histogram::encode(&interval.latency()),
        }
    }

    fn said(&self) -> BTreeMap<String, u64> {
        let mut sum = Said::default();
        self.reports.values().for_each(|report| sum.add_all(&report.said));
        sum.into_map()
    }

    fn tls_books(&self) -> TlsBooks {
        let mut sum = TlsBooks::default();
        self.reports.values().for_each(|report| sum.add(&report.tls));
        sum
    }

    fn http2(&self, streams: u32) -> Http2Result {
        let mut sum = Http2Books::default();
        self.reports.values().for_each(|report| sum.add(&report.http2));
        let Http2Books { streams_allowed_min, goaways, sent_again, streams_reset } = sum;
        Http2Result { streams, streams_allowed_min, goaways, sent_again, streams_reset }
    }

    fn routes(&self) -> Vec<RouteResult> {
        let mut shares = self.reports.values().filter_map(|report| report.flow.routes.as_ref());
        let Some(first) = shares.next() else { return Vec::new() };
        let mut sum = first.clone();
        shares.for_each(|share| sum.add(share));
        sum.results()
    }

    fn open_times(&self) -> Option<OpenTimes> {
        let mut shares = self.reports.values().filter_map(|report| report.flow.open.as_ref());
        let mut sum = shares.next()?.clone();
        shares.for_each(|share| sum.add(share));
        Some(sum)
    }

    fn evidence(
        &self,
        part: Part<'_>,
        sustained: &Books,
        open: Option<&OpenTimes>,
        wall_s: f64,
    ) -> GeneratorEvidence {
        let reports = || self.reports.values();
        let runqueue_ns: Option<Vec<u64>> = reports().map(|report| report.runqueue_ns).collect();
        let requests = &sustained.requests;
        GeneratorEvidence {
            workers: part.workers,
            connections: part.connections(),
            wall_s,
            worker_cpu_s: reports().map(|report| report.cpu_ns as f64 / 1e9).collect(),
            worker_runqueue_s: runqueue_ns
                .unwrap_or_default()
                .into_iter()
                .map(|ns| ns as f64 / 1e9)
                .collect(),
            unsent_with_free_connection: reports()
                .map(|report| report.flow.unsent_with_free_connection)
                .sum(),
            in_flight_mean: sum_of_means(reports().map(|report| report.flow.in_flight)),
            connections_missing_mean: sum_of_means(reports().map(|report| report.flow.missing)),
            connections_opened: reports().map(|report| report.connections_opened).sum(),
            connection_wait_ns: open
                .map(|open| TimesNs::of(&open.connection_wait, requests.scheduled - requests.sent)),
            warm_up: None,
            left_out: None,
        }
    }

    fn result(
        &self,
        spec: &LoadSpec,
        sustained: &Books,
        open: Option<&OpenTimes>,
        tls: &TlsBooks,
        frame: &PhaseFrame,
    ) -> LoadResult {
        let wall_s = frame.length_s();
        let requests = sustained.requests;
        let service_time = open.map_or(&self.latency, |open| &open.service_time);
        let is_open = matches!(spec.model, ModelSpec::Open { .. });
        LoadResult {
            schema_version: SCHEMA_VERSION,
            model: if is_open { ArrivalModel::Open } else { ArrivalModel::Closed },
            duration_s: wall_s,
            requests,
            rate_per_s: if wall_s > 0.0 { self.completed_in_phase as f64 / wall_s } else { 0.0 },
            latency_ns: TimesNs::of(&self.latency, requests.unanswered()),
            service_time_ns: TimesNs::of(service_time, requests.unanswered()),
            lateness_ns: open.map(|open| TimesNs::of(&open.lateness, requests.scheduled - requests.sent)),
            bytes: self.bytes,
            status: sustained.by_status().map(|(status, count)| (status.to_string(), count)).collect(),
            errors: sustained.errors,
            said: self.said(),
            protocol: match spec.protocol {
                ProtocolSpec::Http1 => Protocol::Http1,
                ProtocolSpec::Http2 => Protocol::Http2,
            },
            tls: spec.tls.as_ref().map(|_| tls_result(tls)),
            http2: match spec.protocol {
                ProtocolSpec::Http1 => None,
                ProtocolSpec::Http2 => Some(self.http2(spec.streams.unwrap_or(1))),
            },
            cpu_s: cpu_between(frame.cpu_start, frame.cpu_end),
            bound_by: if is_open { BoundBy::Rate } else { BoundBy::Concurrency },
            verdicts: Verdicts::default(),
        }
    }
}

fn tls_result(books: &TlsBooks) -> TlsResult {
    TlsResult {
        handshakes: books.handshakes,
        resumed: books.resumed,
        failed: books.failed,
        handshake_ns: books.times().map_or(TimesNs::default(), |times| TimesNs::of(times, 0)),
        negotiated: books.negotiated.clone(),
    }
}

fn distributions(open: Option<&OpenTimes>, tls: &TlsBooks) -> Distributions {
    Distributions {
        service_time: None,
        lateness: None,
        connection_wait: open.map(|open| Histogram::encode(&open.connection_wait)),
        handshakes_before: tls.opening.as_ref().map(Histogram::encode),
        handshakes_under_load: tls.later.as_ref().map(Histogram::encode),
    }
}

/// The sum of the workers' means. It equals the mean of their total, because all workers take samples at the same
/// times.
fn sum_of_means(samples: impl Iterator<Item = Samples>) -> Option<f64> {
    samples.map(|s| (s.count > 0).then(|| s.sum as f64 / s.count as f64)).sum()
}

fn cpu_between(start: CpuTime, end: CpuTime) -> CpuSeconds {
    CpuSeconds {
        user: end.user_ns.saturating_sub(start.user_ns) as f64 / 1e9,
        system: end.system_ns.saturating_sub(start.system_ns) as f64 / 1e9,
    }
}

fn merge_seconds(before: LoadSecond, late: LoadSecond) -> LoadSecond {
    let mut latency = before.latency.decode().expect("our own encoding");
    add_histogram(&mut latency, &late.latency.decode().expect("our own encoding"));
    LoadSecond {
        length_s: before.length_s.max(late.length_s),
        sent: before.sent + late.sent,
        completed: before.completed + late.completed,
        unexpected: before.unexpected + late.unexpected,
        lost: before.lost + late.lost,
        latency: Histogram::encode(&latency),
        ..before
    }
}
