//! Keeps the totals of one load, and creates the samples of its series. Reads no clock: the caller passes every time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hdrhistogram::Histogram;

use crate::buckets::Buckets;
use crate::family::{
    COMPLETED, CONNECTIONS, CPU_CORES, DURATION, ERRORS, Family, Kind, MEMORY, OFFERED, SENT, VALID,
};
use crate::labels::{Labels, Target};
use crate::series::{Batch, Growth, Sample, Series, Value};

/// Minimum time between two samples of a verdict's series, in milliseconds; the last two may be closer.
const VERDICT_STEP_MS: u64 = 1_000;
/// Maximum number of samples of a verdict. For a long load, the time between samples is longer.
const VERDICT_SAMPLES_MAX: u64 = 600;
/// Maximum age of the samples of a verdict. Prometheus rejects samples that are more than an hour older than its
/// newest one.
const VERDICT_AGE_MAX_MS: u64 = 50 * 60 * 1_000;

/// What a load has done in one second.
#[derive(Clone, Copy, Debug)]
pub struct Second<'a> {
    /// Number of requests that were sent.
    pub sent: u64,
    /// Number of complete responses.
    pub completed: u64,
    /// Number of responses with a status of 400 or more, or with a failed check.
    pub unexpected: u64,
    /// Number of requests that failed without a complete response.
    pub failed: u64,
    /// Number of requests that were sent, but got no response within the time-out.
    pub timed_out: u64,
    /// Number of requests that were not sent within the time-out.
    pub dropped: u64,
    /// Rate of the schedule in requests per second; `None` in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Number of connections in use.
    pub connections: u32,
    /// Latency of the completed requests, in nanoseconds.
    pub latency: &'a Histogram<u64>,
}

impl<'a> Second<'a> {
    /// A second without requests.
    pub fn of(latency: &'a Histogram<u64>) -> Self {
        Self {
            sent: 0,
            completed: 0,
            unexpected: 0,
            failed: 0,
            timed_out: 0,
            dropped: 0,
            offered_per_s: None,
            connections: 0,
            latency,
        }
    }
}

/// CPU and memory that a part of the rig used in the last second.
#[derive(Clone, Debug, PartialEq)]
pub struct PartUse {
    /// Name of the part.
    pub part: String,
    /// Role of the part: `data`, `control`, `origin`, `generator` or `service`.
    pub role: String,
    /// CPU time divided by wall-clock time; `None` if it could not be read.
    pub cpu_cores: Option<f64>,
    /// Memory without the page cache; `None` if it could not be read.
    pub memory_bytes: Option<u64>,
}

/// Counts of requests of a whole load, including the warm-up and the drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of requests that were sent.
    pub sent: u64,
    /// Number of complete responses.
    pub completed: u64,
    /// Number of responses with a status of 400 or more, or with a failed check.
    pub unexpected: u64,
    /// Number of requests that failed without a complete response.
    pub failed: u64,
    /// Number of requests that were sent, but got no response within the time-out.
    pub timed_out: u64,
    /// Number of requests that were not sent within the time-out.
    pub dropped: u64,
    /// Number of requests that still waited for a response when the load ended.
    pub in_flight: u64,
}

/// Whether a metric of a load is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The metric is valid.
    Valid,
    /// Only a lower or an upper bound is known.
    Bounded,
    /// The metric is invalid and excluded.
    Invalid,
}

/// The verdict on a metric of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Name of the metric: `throughput`, `cpu`, `p99`, ...
    pub metric: String,
    /// Whether the metric is valid.
    pub standing: Standing,
    /// Why the metric is not valid; empty if it is valid.
    pub reasons: Vec<String>,
}

impl Totals {
    fn add(&mut self, second: &Second<'_>) {
        self.sent += second.sent;
        self.completed += second.completed;
        self.unexpected += second.unexpected;
        self.failed += second.failed;
        self.timed_out += second.timed_out;
        self.dropped += second.dropped;
    }

    fn by_class(&self) -> [(&'static str, u64); 5] {
        [
            ("unexpected", self.unexpected),
            ("failed", self.failed),
            ("timed_out", self.timed_out),
            ("dropped", self.dropped),
            ("in_flight", self.in_flight),
        ]
    }
}

/// The counts of a load, or of one shard of it, and their series.
#[derive(Debug)]
pub(crate) struct Books {
    labels: Labels,
    target: Arc<Target>,
    since_ms: u64,
    /// Time of the latest samples.
    at_ms: u64,
    totals: Totals,
    buckets: Buckets,
    live: BTreeMap<(&'static str, Vec<String>), Arc<Series>>,
    /// How many series can still be added, for all loads together.
    room: usize,
    /// Series that were not added because of the limit.
    refused: BTreeSet<(&'static str, Vec<String>)>,
}

impl Books {
    /// Starts the counts of a load at `at_ms`. At most `room` series can be added.
    pub(crate) fn new(labels: &Labels, target: &Target, at_ms: u64, room: usize) -> Self {
        Self {
            labels: labels.clone(),
            target: Arc::new(target.clone()),
            since_ms: at_ms,
            at_ms,
            totals: Totals::default(),
            buckets: Buckets::default(),
            live: BTreeMap::new(),
            room,
            refused: BTreeSet::new(),
        }
    }

    /// Properties that all requests of the load have in common.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Number of series that were not added because of the limit.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// When the load started, in milliseconds since the Unix epoch.
    pub(crate) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    /// Time of the latest samples, in milliseconds since the Unix epoch.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Sets how many series can still be added.
    pub(crate) fn limit(&mut self, room: usize) {
        self.room = room;
    }

    /// How many series can still be added.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns samples of 0 for all counters, so that receivers see the counts of the first second as an increase.
    pub(crate) fn begin(&mut self) -> Batch {
        self.counters()
    }

    /// Adds what the load has done in a second, and returns the new samples.
    pub(crate) fn second(&mut self, now_ms: u64, second: &Second<'_>) -> Batch {
        self.advance(now_ms);
        self.totals.add(second);
        self.buckets.add(second.latency);
        let mut batch = self.counters();
        self.put(&mut batch, &CONNECTIONS, &[], Value::Number(second.connections.into()));
        if let Some(rate_per_s) = second.offered_per_s {
            self.put(&mut batch, &OFFERED, &[], Value::Number(rate_per_s));
        }
        batch
    }

    /// Adds CPU and memory of the parts of the rig, and returns the new samples.
    pub(crate) fn parts(&mut self, now_ms: u64, parts: &[PartUse]) -> Batch {
        self.advance(now_ms);
        let mut batch = Batch::new();
        for PartUse { part, role, cpu_cores, memory_bytes } in parts {
            let more = [("part", part.as_str()), ("role", role.as_str())];
            let memory = memory_bytes.map(|bytes| bytes as f64);
            for (family, value) in [(&CPU_CORES, *cpu_cores), (&MEMORY, memory)] {
                if let Some(value) = value {
                    self.put(&mut batch, family, &more, Value::Number(value));
                }
            }
        }
        batch
    }

    /// Replaces the totals with those of the finished load, and returns the new samples.
    pub(crate) fn whole(&mut self, now_ms: u64, totals: Totals) -> Batch {
        self.advance(now_ms);
        self.totals = totals;
        self.counters()
    }

    /// Adds the verdicts on a load. Their samples cover the time of the load, but at most the last 50 minutes.
    pub(crate) fn judged(&mut self, now_ms: u64, verdicts: &[Verdict]) -> Batch {
        self.advance(now_ms);
        let from_ms = self.since_ms.max(self.at_ms.saturating_sub(VERDICT_AGE_MAX_MS));
        let step_ms = ((self.at_ms - from_ms) / VERDICT_SAMPLES_MAX).max(VERDICT_STEP_MS);
        let times: Vec<u64> = (from_ms..self.at_ms).step_by(step_ms as usize).chain([self.at_ms]).collect();
        let mut batch = Batch::new();
        for Verdict { metric, standing, reasons } in verdicts {
            let value = match standing {
                Standing::Valid => 1.0,
                Standing::Bounded => 0.5,
                Standing::Invalid => 0.0,
            };
            let reasons: Vec<&str> =
                if reasons.is_empty() { vec![""] } else { reasons.iter().map(String::as_str).collect() };
            for reason in reasons {
                let more = [("metric", metric.as_str()), ("reason", reason)];
                if let Some(series) = self.series(&VALID, &more) {
                    let sample = |at_ms: &u64| Sample { at_ms: *at_ms, value: Value::Number(value) };
                    batch.push(Growth { series, samples: times.iter().map(sample).collect() });
                }
            }
        }
        batch
    }

    /// Ends all series of the load except the series of verdicts (`VALID`).
    pub(crate) fn end(&mut self, now_ms: u64) -> Batch {
        self.advance(now_ms);
        self.buckets = Buckets::default();
        self.close(|series| series.family.name != VALID.name)
    }

    /// Ends all series.
    pub(crate) fn finish(&mut self, now_ms: u64) -> Batch {
        self.advance(now_ms);
        self.close(|_| true)
    }

    fn close(&mut self, is_over: impl Fn(&Series) -> bool) -> Batch {
        let at_ms = self.at_ms;
        let mut batch = Batch::new();
        self.live.retain(|_, series| {
            let is_over = is_over(series);
            if is_over {
                let samples = vec![Sample { at_ms, value: Value::End }];
                batch.push(Growth { series: Arc::clone(series), samples });
            }
            !is_over
        });
        batch
    }

    /// Advances the time for samples. Times always increase, even if the clock is set back.
    fn advance(&mut self, now_ms: u64) {
        self.at_ms = now_ms.max(self.at_ms + 1);
    }

    fn counters(&mut self) -> Batch {
        let mut batch = Batch::new();
        let totals = self.totals;
        self.put(&mut batch, &SENT, &[], Value::Number(totals.sent as f64));
        self.put(&mut batch, &COMPLETED, &[], Value::Number(totals.completed as f64));
        for (class, count) in totals.by_class() {
            self.put(&mut batch, &ERRORS, &[("class", class)], Value::Number(count as f64));
        }
        let buckets = Arc::new(self.buckets.clone());
        self.put(&mut batch, &DURATION, &[], Value::Buckets(buckets));
        batch
    }

    fn put(
        &mut self,
        batch: &mut Batch,
        family: &'static Family,
        more: &[(&'static str, &str)],
        value: Value,
    ) {
        debug_assert_eq!(family.kind == Kind::Histogram, matches!(value, Value::Buckets(_)));
        let at_ms = self.at_ms;
        if let Some(series) = self.series(family, more) {
            batch.push(Growth { series, samples: vec![Sample { at_ms, value }] });
        }
    }

    /// Returns the series with these additional labels. `None` if the series is new and the limit of series is reached.
    fn series(&mut self, family: &'static Family, more: &[(&'static str, &str)]) -> Option<Arc<Series>> {
        debug_assert!(more.iter().map(|(name, _)| name).eq(family.labels));
        let key = (family.name, more.iter().map(|(_, value)| (*value).to_owned()).collect());
        if let Some(series) = self.live.get(&key) {
            return Some(Arc::clone(series));
        }
        let Some(room) = self.room.checked_sub(1) else {
            self.refused.insert(key);
            return None;
        };
        self.room = room;
        let series = Arc::new(Series {
            family,
            labels: self.labels.with(more),
            target: Arc::clone(&self.target),
            since_ms: self.since_ms,
        });
        self.live.insert(key, Arc::clone(&series));
        Some(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Books {
        let labels = Labels { run: "r".into(), load: "tail".into(), ..Labels::default() };
        Books::new(&labels, &Target::default(), 1_000, 1_000)
    }

    fn latencies(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(100, 3_600_000_000_000, 3).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    /// For each series of the metric `name`: its label `class`, `metric` or `part` (empty without such a label), and
    /// its latest value.
    fn values(batch: &Batch, name: &str) -> Vec<(String, f64)> {
        let of = batch.iter().filter(|growth| growth.series.family.name == name);
        of.map(|growth| {
            let own = ["class", "metric", "part"];
            let label = growth.series.labels.iter().find(|(name, _)| own.contains(name));
            let value = match &growth.samples.last().unwrap().value {
                Value::Number(value) => *value,
                Value::Buckets(buckets) => buckets.count as f64,
                Value::End => f64::NAN,
            };
            (label.map(|(_, value)| value.clone()).unwrap_or_default(), value)
        })
        .collect()
    }

    #[test]
    fn counters_begin_at_zero_and_add_up() {
        let mut books = books();
        let begin = books.begin();
        assert_eq!(values(&begin, SENT.name), [(String::new(), 0.0)]);
        assert_eq!(values(&begin, ERRORS.name).len(), 5);
        let latency = latencies(&[1_000_000, 2_000_000]);
        let second = Second { sent: 3, completed: 2, failed: 1, connections: 4, ..Second::of(&latency) };
        books.second(2_000, &second);
        let batch = books.second(3_000, &second);
        assert_eq!(values(&batch, SENT.name), [(String::new(), 6.0)]);
        assert_eq!(values(&batch, DURATION.name), [(String::new(), 4.0)]);
        assert!(values(&batch, ERRORS.name).contains(&("failed".into(), 2.0)));
        assert!(values(&batch, OFFERED.name).is_empty(), "a closed loop offers no rate");
        let whole = books.whole(3_000, Totals { sent: 7, in_flight: 1, ..Totals::default() });
        assert_eq!(values(&whole, SENT.name), [(String::new(), 7.0)]);
        assert!(values(&whole, ERRORS.name).contains(&("in_flight".into(), 1.0)));
    }

    #[test]
    fn times_only_grow() {
        let mut books = books();
        let latency = latencies(&[]);
        let times: Vec<u64> = [2_000, 2_000, 1_500]
            .map(|now_ms| books.second(now_ms, &Second::of(&latency))[0].samples[0].at_ms)
            .to_vec();
        assert_eq!(times, [2_000, 2_001, 2_002]);
    }

    #[test]
    fn verdicts_hold_for_the_whole_load() {
        let check = |ended_ms: u64, samples: usize| {
            let mut books = books();
            let reasons = vec!["host-noise".to_owned()];
            let verdicts = [
                Verdict { metric: "cpu".into(), standing: Standing::Valid, reasons: vec![] },
                Verdict { metric: "p99".into(), standing: Standing::Bounded, reasons },
            ];
            let batch = books.judged(ended_ms, &verdicts);
            assert_eq!(values(&batch, VALID.name), [("cpu".into(), 1.0), ("p99".into(), 0.5)]);
            let times: Vec<u64> = batch[0].samples.iter().map(|sample| sample.at_ms).collect();
            assert_eq!((times.len(), *times.last().unwrap()), (samples, ended_ms));
            assert!(times.is_sorted_by(|before, after| before < after));
        };
        check(4_500, 5);
        check(1_000 + 3_600 * 1_000, 601);
    }

    #[test]
    fn series_of_a_load_end_before_its_verdicts() {
        let mut books = books();
        let begun = books.begin().len();
        let verdict = Verdict { metric: "cpu".into(), standing: Standing::Valid, reasons: vec![] };
        books.judged(2_000, &[verdict]);
        assert_eq!(books.end(3_000).len(), begun);
        assert_eq!(books.finish(4_000).len(), 1);
        assert!(books.finish(5_000).is_empty());
    }

    #[test]
    fn the_number_of_series_is_limited() {
        let mut books = Books::new(&Labels::default(), &Target::default(), 1_000, 3);
        assert_eq!((books.begin().len(), books.room()), (3, 0));
        assert_eq!(books.begin().len(), 3, "known series continue");
    }
}
