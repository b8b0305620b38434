//! Merges the series of shards, aligned by their offset from each shard's own start.

use super::error::{MergeError, unreadable};
use crate::{LoadSecond, ShardRecord};

/// The series of all shards.
///
/// A load that ends by time has the same intervals on every shard. The last ones of a drain, and those of a load that
/// ends by a count, are as long as a shard needed; they are added to the interval of the longest series in which they
/// start, so that every request is counted once.
pub(super) fn merged(shards: &[ShardRecord]) -> Result<Vec<LoadSecond>, MergeError> {
    let Some(longest) = shards.iter().max_by(|a, b| end_s(a).total_cmp(&end_s(b))) else {
        return Ok(Vec::new());
    };
    let mut sum = longest.record.seconds.clone();
    for shard in shards.iter().filter(|shard| shard.agent != longest.agent) {
        for second in &shard.record.seconds {
            let at = sum.partition_point(|interval| interval.t_s <= second.t_s).saturating_sub(1);
            match sum.get_mut(at) {
                Some(interval) => add(interval, second)
                    .map_err(|source| unreadable(&shard.agent, "latency of a second", source))?,
                None => sum.push(second.clone()),
            }
        }
    }
    Ok(sum)
}

fn end_s(shard: &ShardRecord) -> f64 {
    shard.record.seconds.iter().map(|second| second.t_s + second.length_s).fold(0.0, f64::max)
}

fn add(interval: &mut LoadSecond, second: &LoadSecond) -> Result<(), crate::HistogramError> {
    // All fields are named, so that a new one cannot be forgotten here.
    let LoadSecond { t_s: _, length_s: _, sustained: _, sent, completed, unexpected, lost, latency } = second;
    interval.sent += sent;
    interval.completed += completed;
    interval.unexpected += unexpected;
    interval.lost += lost;
    interval.latency.add(latency)
}
