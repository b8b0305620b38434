//! Phases of shards, on the coordinator's clock.

use super::error::MergeError;
use crate::{LoadRecord, ShardRecord};

/// The phase of a merged load or step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Duration of the longest phase among the shards, seconds. All phases are equally long if the load ends after a
    /// fixed time.
    pub(super) duration_s: f64,
}

/// The phase of one shard, on the coordinator's clock.
struct Span<'a> {
    agent: &'a str,
    start_ns: u64,
    end_ns: u64,
    duration_s: f64,
}

impl Phase {
    /// The sustained phase of the whole load.
    pub(super) fn of_loads(shards: &[ShardRecord]) -> Result<Self, MergeError> {
        let span = |shard: &'_ ShardRecord| {
            let record = &shard.record;
            (record.phase_start_mono_ns, record.phase_end_mono_ns, record.result.duration_s)
        };
        Self::of(shards, span)
    }

    /// The sustained phase of step `nth`. Every shard must have this step.
    pub(super) fn of_steps(shards: &[ShardRecord], nth: usize) -> Result<Self, MergeError> {
        let span = |shard: &'_ ShardRecord| {
            let step = &shard.record.steps[nth];
            (step.phase_start_mono_ns, step.phase_end_mono_ns, step.result.duration_s)
        };
        Self::of(shards, span)
    }

    fn of(
        shards: &[ShardRecord],
        span_of: impl Fn(&ShardRecord) -> (u64, u64, f64),
    ) -> Result<Self, MergeError> {
        let spans = shards.iter().map(|shard| {
            let (start_ns, end_ns, duration_s) = span_of(shard);
            let [start_ns, end_ns] =
                [start_ns, end_ns].map(|ns| ns.saturating_add_signed(shard.clock_offset_ns));
            Span { agent: &shard.agent, start_ns, end_ns, duration_s }
        });
        let spans: Vec<Span<'_>> = spans.collect();
        let last_start = spans.iter().max_by_key(|span| span.start_ns).ok_or(MergeError::Empty)?;
        let first_end = spans.iter().min_by_key(|span| span.end_ns).ok_or(MergeError::Empty)?;
        let duration_s = spans.iter().map(|span| span.duration_s).fold(0.0, f64::max);
        if first_end.end_ns < last_start.start_ns {
            let [agent, other] = [first_end, last_start].map(|span| span.agent.to_owned());
            return Err(MergeError::Apart { agent, other });
        }
        let lengths_differ = shards.iter().any(|shard| shard.lengths_differ);
        Ok(match lengths_differ {
            // The phase is the time in which all shards offered load, from the last start to the first end.
            false => Self { start_ns: last_start.start_ns, end_ns: first_end.end_ns, duration_s },
            // The load is complete when the last shard is complete, so the phase covers the time of all shards.
            true => Self {
                start_ns: spans.iter().map(|span| span.start_ns).min().unwrap_or_default(),
                end_ns: spans.iter().map(|span| span.end_ns).max().unwrap_or_default(),
                duration_s,
            },
        })
    }
}

/// Length of the warm-up in nanoseconds: the start of the first sustained second.
pub(super) fn warmup_ns(record: &LoadRecord) -> u64 {
    let first = record.seconds.iter().find(|second| second.sustained);
    first.map_or(0, |second| (second.t_s * 1e9).round() as u64)
}

/// Actual start of a shard's load minus the planned start, on the coordinator's clock, nanoseconds.
pub(super) fn start_offset_ns(shard: &ShardRecord) -> i64 {
    let start_ns = shard.record.phase_start_mono_ns.saturating_sub(warmup_ns(&shard.record));
    let here_ns = i128::from(start_ns) + i128::from(shard.clock_offset_ns);
    let offset_ns = here_ns - i128::from(shard.planned_start_ns);
    i64::try_from(offset_ns).unwrap_or(if offset_ns < 0 { i64::MIN } else { i64::MAX })
}
