//! Conclusions about users (connections) at the highest limit of the data plane.

use crate::figures::quantity::{percent, rate};
use crate::points::conclusions::{by_reason, join, with_interval};

use super::saturation::{Maximum, Saturation, full_where};
use super::{DataLimit, connections};

/// For the highest CPU limit, states which gateways saturate it, at which numbers of connections, and their throughput
/// at full load.
pub(super) fn conclude(limits: &[DataLimit], saturations: &[Saturation], full_share: f64) -> Vec<String> {
    let Some(limit) = limits.last().filter(|limit| limit.cpus.is_some()) else { return Vec::new() };
    let counted: Vec<&Saturation> = saturations
        .iter()
        .filter(|saturation| saturation.limit + 1 == limits.len() && !saturation.counted_at.is_empty())
        .collect();
    let (full, free): (Vec<&Saturation>, Vec<&Saturation>) =
        counted.into_iter().partition(|saturation| saturation.maximum.is_some());
    [reached(&full, &free, limit, full_share), carried(&full, limit)].into_iter().flatten().collect()
}

fn reached(full: &[&Saturation], free: &[&Saturation], limit: &DataLimit, full_share: f64) -> Option<String> {
    let said = |saturation: &&Saturation| {
        (full_where(&saturation.full_at, &saturation.counted_at), saturation.gateway.clone())
    };
    let mut words: Vec<String> = by_reason(full.iter().map(said).collect())
        .iter()
        .map(|(at, names)| format!("reached by {} {at}", join(names)))
        .collect();
    let not_reached = |saturation: &&Saturation| {
        // If a load is excluded, the sentence names the valid loads, because it is unknown whether the excluded load
        // saturated the limit.
        let is_whole = saturation.counted_at.len() == limit.closed.len();
        let numbers: Vec<String> = saturation.counted_at.iter().map(u32::to_string).collect();
        let with = match saturation.counted_at.as_slice() {
            _ if is_whole => String::new(),
            [one] => format!(" in the valid load with {}", connections(*one)),
            _ => format!(" in the valid loads with {} connections", join(&numbers)),
        };
        (with, saturation.gateway.clone())
    };
    words.extend(
        by_reason(free.iter().map(not_reached).collect())
            .iter()
            .map(|(with, names)| format!("not reached by {}{with}", join(names))),
    );
    let share = percent(full_share);
    (!words.is_empty()).then(|| format!("Full load ({share} of {}) is {}.", limit.words(), words.join("; ")))
}

fn carried(full: &[&Saturation], limit: &DataLimit) -> Option<String> {
    let mut maxima: Vec<(&str, &Maximum)> = full
        .iter()
        .filter_map(|saturation| Some((saturation.gateway.as_str(), saturation.maximum.as_ref()?)))
        .collect();
    maxima.sort_by(|(_, a), (_, b)| {
        let mean = |maximum: &Maximum| maximum.throughput_per_s.mean.unwrap_or(0.0);
        mean(b).total_cmp(&mean(a))
    });
    let said: Vec<String> = maxima
        .iter()
        .map(|(gateway, maximum)| {
            let most = with_interval(&maximum.throughput_per_s, rate);
            format!("{gateway} {most} at {}", connections(maximum.connections))
        })
        .collect();
    (!said.is_empty()).then(|| format!("Throughput of {} at full load: {}.", limit.words(), said.join("; ")))
}
