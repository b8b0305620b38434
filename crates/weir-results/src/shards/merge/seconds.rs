//! Merges the per-second series of all shards. Seconds are aligned by their time since the start of their shard.

use super::error::MergeError;
use super::histogram;
use crate::{LoadSecond, ShardRecord};

/// Merges the series of all shards.
///
/// If a load ends by time, its intervals are the same on every shard. Intervals at the end of a drain, or of a load
/// that ends by count, differ in length. The longest series defines the merged intervals. Each interval of a shard is
/// added to the merged interval in which it starts, so that every request is counted once.
pub(super) fn merged(shards: &[ShardRecord]) -> Result<Vec<LoadSecond>, MergeError> {
    let longest = shards.iter().max_by(|a, b| end_s(a).total_cmp(&end_s(b)));
    let Some(longest) = longest.map(|shard| &shard.record.seconds) else { return Ok(Vec::new()) };
    let mut parts: Vec<Vec<(&str, &LoadSecond)>> = vec![Vec::new(); longest.len()];
    for shard in shards {
        for second in &shard.record.seconds {
            let begun = longest.partition_point(|interval| interval.t_s <= second.t_s);
            // If even the longest series is empty, there is no interval to add to.
            if let Some(parts) = parts.get_mut(begun.saturating_sub(1)) {
                parts.push((&shard.agent, second));
            }
        }
    }
    longest.iter().zip(&parts).map(|(interval, parts)| sum(interval, parts)).collect()
}

fn end_s(shard: &ShardRecord) -> f64 {
    shard.record.seconds.iter().map(|second| second.t_s + second.length_s).fold(0.0, f64::max)
}

/// Adds all parts that belong to one interval.
fn sum(interval: &LoadSecond, parts: &[(&str, &LoadSecond)]) -> Result<LoadSecond, MergeError> {
    let count = |of: fn(&LoadSecond) -> u64| parts.iter().map(|(_, second)| of(second)).sum();
    let latencies = parts.iter().map(|(agent, second)| (*agent, &second.latency));
    Ok(LoadSecond {
        t_s: interval.t_s,
        length_s: interval.length_s,
        sustained: interval.sustained,
        sent: count(|second| second.sent),
        completed: count(|second| second.completed),
        unexpected: count(|second| second.unexpected),
        lost: count(|second| second.lost),
        latency: histogram(latencies, "a per-second latency histogram")?,
    })
}
