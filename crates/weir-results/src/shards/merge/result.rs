//! Merges the results of one phase: the sustained phase of a whole load or of a step.

use std::collections::BTreeMap;

use super::error::MergeError;
use super::{decoded_sum, requests};
use crate::{
    Bytes, CpuSeconds, Distributions, Errors, Histogram, Http2Result, LoadResult, Reason, ShardRecord,
    TimesNs, TlsResult, Verdicts, add_counts,
};

/// Maximum number of distinct error messages, the same as for a load on one machine. Further messages are counted as
/// `other`.
const SAYINGS_MAX: usize = 16;

/// The results of one shard in a phase.
pub(super) struct Measured<'a> {
    pub(super) agent: &'a str,
    pub(super) result: &'a LoadResult,
    latency: &'a Histogram,
    /// Service times; `None` if the record of a step does not contain them.
    service_time: Option<&'a Histogram>,
    lateness: Option<&'a Histogram>,
    pub(super) distributions: Option<&'a Distributions>,
}

impl<'a> Measured<'a> {
    pub(super) fn of_load(shard: &'a ShardRecord) -> Self {
        let record = &shard.record;
        Self {
            agent: &shard.agent,
            result: &record.result,
            latency: &record.latency,
            service_time: Some(&record.service_time),
            lateness: record.lateness.as_ref(),
            distributions: record.distributions.as_ref(),
        }
    }

    /// The results of step `nth`. The shard must have this step.
    pub(super) fn of_step(shard: &'a ShardRecord, nth: usize) -> Self {
        let step = &shard.record.steps[nth];
        let distributions = step.distributions.as_ref();
        Self {
            agent: &shard.agent,
            result: &step.result,
            latency: &step.latency,
            service_time: distributions.and_then(|kept| kept.service_time.as_ref()),
            lateness: distributions.and_then(|kept| kept.lateness.as_ref()),
            distributions,
        }
    }

    /// Number of responses within the phase, computed from rate and duration.
    fn completed_in_phase(&self) -> u64 {
        (self.result.rate_per_s * self.result.duration_s).round() as u64
    }
}

/// Merges the results of all shards for a phase of `duration_s` seconds.
pub(super) fn merged(shards: &[Measured<'_>], duration_s: f64) -> Result<LoadResult, MergeError> {
    let Some(first) = shards.first() else { return Err(MergeError::Empty) };
    let results = || shards.iter().map(|shard| shard.result);
    let requests = requests(results().map(|result| &result.requests));
    let unanswered = requests.unanswered();
    let unsent = requests.scheduled.saturating_sub(requests.sent);
    let completed: u64 = shards.iter().map(Measured::completed_in_phase).sum();
    let latency = times(shards, "the latency histogram", unanswered, |shard| Some(shard.latency))?;
    let service_time = times(shards, "the service time histogram", unanswered, |shard| shard.service_time)?;
    Ok(LoadResult {
        schema_version: first.result.schema_version,
        model: first.result.model,
        duration_s,
        requests,
        rate_per_s: if duration_s > 0.0 { completed as f64 / duration_s } else { 0.0 },
        latency_ns: latency.unwrap_or_default(),
        service_time_ns: service_time.unwrap_or_default(),
        lateness_ns: times(shards, "the lateness histogram", unsent, |shard| shard.lateness)?,
        bytes: bytes(results().map(|result| result.bytes)),
        status: counts(results().map(|result| &result.status)),
        errors: errors(results().map(|result| &result.errors)),
        said: said(results().map(|result| &result.said)),
        protocol: first.result.protocol,
        tls: tls(shards)?,
        http2: http2(results().filter_map(|result| result.http2.as_ref())),
        cpu_s: cpu(results().map(|result| result.cpu_s)),
        bound_by: first.result.bound_by,
        verdicts: verdicts(results().map(|result| &result.verdicts)),
    })
}

/// Merges the histograms that `of` returns for the shards, and summarizes the merged histogram. `unanswered` requests
/// rank last. `None` if a shard lacks the histogram.
pub(super) fn times<'a>(
    shards: &'a [Measured<'a>],
    name: &'static str,
    unanswered: u64,
    of: impl Fn(&'a Measured<'a>) -> Option<&'a Histogram>,
) -> Result<Option<TimesNs>, MergeError> {
    let parts: Option<Vec<_>> = shards.iter().map(|shard| Some((shard.agent, of(shard)?))).collect();
    let Some(parts) = parts else { return Ok(None) };
    Ok(Some(TimesNs::of(&decoded_sum(parts.into_iter(), name)?, unanswered)))
}

fn bytes(parts: impl Iterator<Item = Bytes>) -> Bytes {
    parts.fold(Bytes::default(), |sum, part| Bytes {
        sent: sum.sent + part.sent,
        received: sum.received + part.received,
    })
}

fn cpu(parts: impl Iterator<Item = CpuSeconds>) -> CpuSeconds {
    parts.fold(CpuSeconds::default(), |sum, part| CpuSeconds {
        user: sum.user + part.user,
        system: sum.system + part.system,
    })
}

fn counts<'a>(parts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    parts.for_each(|part| add_counts(&mut sum, part));
    sum
}

fn errors<'a>(parts: impl Iterator<Item = &'a Errors>) -> Errors {
    let mut sum = Errors::default();
    parts.for_each(|part| sum.add(part));
    sum
}

fn said<'a>(parts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for (saying, count) in parts.flatten() {
        let is_kept = sum.contains_key(saying) || sum.len() < SAYINGS_MAX - 1;
        *sum.entry(if is_kept { saying.clone() } else { "other".into() }).or_default() += count;
    }
    sum
}

fn tls(shards: &[Measured<'_>]) -> Result<Option<TlsResult>, MergeError> {
    let parts: Option<Vec<&TlsResult>> = shards.iter().map(|shard| shard.result.tls.as_ref()).collect();
    let Some(parts) = parts else { return Ok(None) };
    let sum = |of: fn(&TlsResult) -> u64| parts.iter().map(|part| of(part)).sum::<u64>();
    Ok(Some(TlsResult {
        handshakes: sum(|part| part.handshakes),
        resumed: sum(|part| part.resumed),
        failed: sum(|part| part.failed),
        handshake_ns: handshake_ns(shards)?,
        negotiated: counts(parts.iter().map(|part| &part.negotiated)),
    }))
}

/// Summarizes the durations of TLS handshakes under load in all shards. If there were none, it summarizes the
/// handshakes before the load. A run on one machine follows the same rule.
fn handshake_ns(shards: &[Measured<'_>]) -> Result<TimesNs, MergeError> {
    if shards.iter().any(|shard| shard.distributions.is_none()) {
        return Ok(TimesNs::default());
    }
    let kinds: [fn(&Distributions) -> Option<&Histogram>; 2] =
        [|kept| kept.handshakes_under_load.as_ref(), |kept| kept.handshakes_before.as_ref()];
    for of in kinds {
        let parts = shards.iter().filter_map(|shard| Some((shard.agent, of(shard.distributions?)?)));
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            return Ok(TimesNs::of(&decoded_sum(parts.into_iter(), "the histogram of TLS handshakes")?, 0));
        }
    }
    Ok(TimesNs::default())
}

fn http2<'a>(mut parts: impl Iterator<Item = &'a Http2Result>) -> Option<Http2Result> {
    let mut sum = *parts.next()?;
    parts.for_each(|part| sum.add(part));
    Some(sum)
}

fn verdicts<'a>(parts: impl Iterator<Item = &'a Verdicts>) -> Verdicts {
    let mut sum = Verdicts::default();
    for Verdicts { throughput, latency, cpu } in parts {
        let metrics = [(&mut sum.throughput, throughput), (&mut sum.latency, latency), (&mut sum.cpu, cpu)];
        metrics.into_iter().for_each(|(all, reasons)| add_reasons(all, reasons));
    }
    sum
}

fn add_reasons(all: &mut Vec<Reason>, reasons: &[Reason]) {
    for reason in reasons {
        if !all.contains(reason) {
            all.push(*reason);
        }
    }
}
