//! Checks that records are from the same load.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::error::{MergeError, unreadable};
use super::phase::warmup_ns;
use crate::{
    ArrivalModel, Distributions, HISTOGRAM_DIGITS, HISTOGRAM_HIGH_NS, HISTOGRAM_LOW_NS, Histogram,
    LoadRecord, LoadResult, Protocol, ShardRecord,
};

/// Tolerance for equal durations, because records contain seconds as binary floating-point numbers.
const SAME_DURATION_S: f64 = 1e-6;

/// Checks each record on its own, and compares it with the first one.
pub(super) fn check(shards: &[ShardRecord]) -> Result<(), MergeError> {
    let mut names = BTreeSet::new();
    for shard in shards {
        if !names.insert(&shard.agent) {
            return Err(MergeError::SameName { agent: shard.agent.clone() });
        }
        check_alone(shard)?;
        check_pair(&Pair { first: &shards[0], shard })?;
    }
    Ok(())
}

/// The first shard, and a shard that is compared with it.
struct Pair<'a> {
    first: &'a ShardRecord,
    shard: &'a ShardRecord,
}

impl Pair<'_> {
    /// Rejects the shard if `of` returns different values for the two records.
    fn same<T: PartialEq + Display>(
        &self,
        what: &'static str,
        of: impl Fn(&ShardRecord) -> T,
    ) -> Result<(), MergeError> {
        let (expected, found) = (of(self.first), of(self.shard));
        if expected == found { Ok(()) } else { Err(self.differs(what, found, expected)) }
    }

    fn same_duration(
        &self,
        what: &'static str,
        seconds_of: impl Fn(&ShardRecord) -> f64,
    ) -> Result<(), MergeError> {
        let (expected_s, found_s) = (seconds_of(self.first), seconds_of(self.shard));
        if (expected_s - found_s).abs() < SAME_DURATION_S {
            return Ok(());
        }
        Err(self.differs(what, format_args!("{found_s:.3} s"), format_args!("{expected_s:.3} s")))
    }

    fn differs(&self, what: &'static str, found: impl Display, expected: impl Display) -> MergeError {
        MergeError::Differs {
            agent: self.shard.agent.clone(),
            what,
            found: found.to_string(),
            other: self.first.agent.clone(),
            expected: expected.to_string(),
        }
    }
}

fn check_pair(pair: &Pair<'_>) -> Result<(), MergeError> {
    pair.same("schema version", |shard| shard.record.result.schema_version)?;
    pair.same("arrival model", |shard| match shard.record.result.model {
        ArrivalModel::Closed => "closed",
        ArrivalModel::Open => "open",
    })?;
    pair.same("protocol", |shard| match shard.record.result.protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
    })?;
    let present = |is_present| if is_present { "present" } else { "missing" };
    pair.same("TLS result", |shard| present(shard.record.result.tls.is_some()))?;
    pair.same("lateness histogram", |shard| present(shard.record.lateness.is_some()))?;
    pair.same("number of HTTP/2 streams", |shard| {
        shard.record.result.http2.map_or(0, |http2| http2.streams)
    })?;
    pair.same("planned start", |shard| shard.planned_start_ns)?;
    if !pair.first.lengths_differ {
        pair.same("number of steps", |shard| shard.record.steps.len())?;
        pair.same_duration("warm-up", |shard| warmup_ns(&shard.record) as f64 / 1e9)?;
        pair.same_duration("duration", |shard| shard.record.result.duration_s)?;
        for nth in 0..pair.first.record.steps.len() {
            pair.same_duration("duration of a step", |shard| shard.record.steps[nth].result.duration_s)?;
        }
    }
    Ok(())
}

/// Checks that the request counts of a record add up, and that its histograms have the range and precision that weir
/// uses.
fn check_alone(shard: &ShardRecord) -> Result<(), MergeError> {
    let LoadRecord { result, whole, latency, service_time, lateness, .. } = &shard.record;
    let LoadRecord { seconds, routes, steps, distributions, .. } = &shard.record;
    let of_steps = steps.iter().map(|step| &step.result);
    let books = of_steps.chain([result]).map(|LoadResult { requests, .. }| requests).chain([whole]);
    if !books.into_iter().all(crate::Requests::balance) {
        return Err(MergeError::Unbalanced { agent: shard.agent.clone() });
    }
    let of_load = [("the latency histogram", latency), ("the service time histogram", service_time)];
    let late = lateness.iter().map(|lateness| ("the lateness histogram", lateness));
    let by_second = seconds.iter().map(|second| ("a per-second latency histogram", &second.latency));
    let by_step = steps.iter().map(|step| ("the latency histogram of a step", &step.latency));
    for (what, histogram) in of_load.into_iter().chain(late).chain(by_second).chain(by_step) {
        check_bounds(shard, what, histogram, true)?;
    }
    let kept = steps.iter().filter_map(|step| step.distributions.as_ref()).chain(distributions);
    for (what, histogram) in kept.flat_map(Distributions::by_name) {
        check_bounds(shard, what, histogram, true)?;
    }
    for times in routes.iter().flat_map(|route| route.by_class.values()) {
        check_bounds(shard, "the latency histogram of a route", &times.latency, false)?;
    }
    Ok(())
}

/// Checks that a histogram has weir's bounds and precision. If `is_full` is false, the upper bound is not checked:
/// histograms of routes raise their upper bound as values grow.
fn check_bounds(
    shard: &ShardRecord,
    what: &'static str,
    histogram: &Histogram,
    is_full: bool,
) -> Result<(), MergeError> {
    let decoded = histogram.decode().map_err(|source| unreadable(&shard.agent, what, source))?;
    let is_ours = decoded.low() == HISTOGRAM_LOW_NS
        && decoded.sigfig() == HISTOGRAM_DIGITS
        && (!is_full || decoded.high() == HISTOGRAM_HIGH_NS);
    if is_ours { Ok(()) } else { Err(MergeError::Bounds { agent: shard.agent.clone(), what }) }
}
