//! Merges the records of all shards of a load into one record, as if one machine had generated the load.
//!
//! Counts and histograms are added, quantiles and rates are computed from the sums, and nothing is averaged
//! (`docs/method.md#many-machines`). A record from another load is rejected; the error names its agent.

mod belong;
mod error;
mod evidence;
mod phase;
mod result;
mod seconds;
#[cfg(test)]
mod tests;

pub use error::MergeError;

use hdrhistogram::Histogram as Hdr;

use crate::{
    Histogram, HistogramError, LoadRecord, Requests, RouteResult, ShardRecord, ShardResult, StepRecord,
    add_routes,
};
use error::unreadable;
use phase::Phase;
use result::Measured;

/// Number of digits after the first digit of a rounded rate: enough for every rate, but few enough to hide the rounding
/// errors of a sum.
const RATE_DIGITS: usize = 11;

/// Merges the shards of one load.
///
/// # Errors
/// When the records are not from the same load, or when one of them is damaged.
///
/// ```
/// assert!(matches!(weir_results::merge(&[]), Err(weir_results::MergeError::Empty)));
/// ```
pub fn merge(shards: &[ShardRecord]) -> Result<LoadRecord, MergeError> {
    let Some(first) = shards.first() else { return Err(MergeError::Empty) };
    belong::check(shards)?;
    let phase = Phase::of_loads(shards)?;
    let measured: Vec<Measured<'_>> = shards.iter().map(Measured::of_load).collect();
    let steps = steps(shards)?;
    let result = match steps.is_empty() {
        true => result::merged(&measured, phase.duration_s)?,
        // The duration is the sum of the phases of all steps, because responses in the pauses between steps are
        // excluded.
        false => result::merged(&measured, steps.iter().map(|step| step.result.duration_s).sum())?,
    };
    Ok(LoadRecord {
        generator: evidence::merged(shards, &measured, result.duration_s)?,
        result,
        whole: requests(shards.iter().map(|shard| &shard.record.whole)),
        whole_uncertain: shards.iter().map(|shard| shard.record.whole_uncertain).sum(),
        phase_start_mono_ns: phase.start_ns,
        phase_end_mono_ns: phase.end_ns,
        latency: histogram(
            shards.iter().map(|shard| (&*shard.agent, &shard.record.latency)),
            "the latency histogram",
        )?,
        service_time: histogram(
            shards.iter().map(|shard| (&*shard.agent, &shard.record.service_time)),
            "the service time histogram",
        )?,
        lateness: match first.record.lateness {
            None => None,
            Some(_) => Some(histogram(
                shards.iter().filter_map(|shard| Some((&*shard.agent, shard.record.lateness.as_ref()?))),
                "the lateness histogram",
            )?),
        },
        seconds: seconds::merged(shards)?,
        routes: routes(shards)?,
        steps,
        shards: shards.iter().map(row).collect(),
        distributions: None,
    })
}

/// The row that is stored for a shard.
fn row(shard: &ShardRecord) -> ShardResult {
    let start_offset_ns = phase::start_offset_ns(shard);
    let row = ShardResult::of(&shard.agent, &shard.record, start_offset_ns, shard.clock_bound_ns);
    ShardResult { machine: shard.machine.clone(), ..row }
}

fn steps(shards: &[ShardRecord]) -> Result<Vec<StepRecord>, MergeError> {
    let steps = shards.iter().map(|shard| shard.record.steps.len()).min().unwrap_or(0);
    (0..steps).map(|nth| step(shards, nth)).collect()
}

/// Merges step `nth` of all shards. Every shard must have it.
fn step(shards: &[ShardRecord], nth: usize) -> Result<StepRecord, MergeError> {
    let steps = || shards.iter().map(|shard| (&*shard.agent, &shard.record.steps[nth]));
    let phase = Phase::of_steps(shards, nth)?;
    let measured: Vec<Measured<'_>> = shards.iter().map(|shard| Measured::of_step(shard, nth)).collect();
    let rate_per_s: Option<f64> = steps().map(|(_, step)| step.rate_per_s).sum();
    Ok(StepRecord {
        connections: steps().map(|(_, step)| step.connections).sum(),
        rate_per_s: rate_per_s.map(whole_rate_per_s),
        result: result::merged(&measured, phase.duration_s)?,
        latency: histogram(
            steps().map(|(agent, step)| (agent, &step.latency)),
            "the latency histogram of a step",
        )?,
        phase_start_mono_ns: phase.start_ns,
        phase_end_mono_ns: phase.end_ns,
        distributions: None,
    })
}

/// The offered rate of all shards: the sum of their rates. It is rounded, because binary sums are inexact: three rates
/// of 0.1 / 3 do not add up to exactly 0.1.
fn whole_rate_per_s(sum_per_s: f64) -> f64 {
    format!("{sum_per_s:.RATE_DIGITS$e}").parse().unwrap_or(sum_per_s)
}

fn routes(shards: &[ShardRecord]) -> Result<Vec<RouteResult>, MergeError> {
    let mut sum = Vec::new();
    for shard in shards {
        add_routes(&mut sum, &shard.record.routes)
            .map_err(|source| unreadable(&shard.agent, "the latency histogram of a route", source))?;
    }
    Ok(sum)
}

fn requests<'a>(books: impl Iterator<Item = &'a Requests>) -> Requests {
    let mut sum = Requests::default();
    books.for_each(|books| sum.add(books));
    sum
}

/// Adds the histograms in `parts`, one per shard, each with the name of its agent.
fn histogram<'a>(
    parts: impl Iterator<Item = (&'a str, &'a Histogram)>,
    name: &'static str,
) -> Result<Histogram, MergeError> {
    Ok(Histogram::encode(&decoded_sum(parts, name)?))
}

/// As [`histogram`], but returns the sum decoded.
fn decoded_sum<'a>(
    parts: impl Iterator<Item = (&'a str, &'a Histogram)>,
    name: &'static str,
) -> Result<Hdr<u64>, MergeError> {
    let mut sum: Option<Hdr<u64>> = None;
    for (agent, part) in parts {
        let part = part.decode().map_err(|source| unreadable(agent, name, source))?;
        match &mut sum {
            None => sum = Some(part),
            Some(sum) => sum
                .add(&part)
                .map_err(|error| unreadable(agent, name, HistogramError::Encoding(format!("{error:?}"))))?,
        }
    }
    sum.ok_or(MergeError::Empty)
}
