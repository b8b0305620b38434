//! Whether more connections saturate a CPU limit, and the throughput at a saturated limit.

use serde::Serialize;

use crate::figures::figure::{Figure, HEADLINE_REPEATS};
use crate::figures::quantity::{percent_of_limit, rate};
use crate::points::conclusions::{by_reason, join, why_no_headline, with_interval};
use crate::points::{Point, Row};

use super::trend::{self, Level};
use super::{DataLimit, connections};

/// Throughput of a gateway by number of connections, for one combination of CPU and memory limits of its data plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// The gateway's name.
    pub gateway: String,
    /// Index of the limit in the experiment's `limits`.
    pub limit: usize,
    /// Numbers of connections at which the load is valid, ascending.
    pub counted_at: Vec<u32>,
    /// Numbers of connections that saturate the CPU limit: the data plane uses at least the share
    /// [`weir_results::Thresholds::full_load_share`] of the limit.
    pub full_at: Vec<u32>,
    /// The highest throughput at full load; `None` if the limit is never saturated.
    pub maximum: Option<Maximum>,
    /// The analysis in words.
    pub analysis: String,
}

/// The highest throughput at full load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Maximum {
    /// Number of connections at which this throughput was measured.
    pub connections: u32,
    /// Complete responses per second.
    pub throughput_per_s: Figure,
    /// Throughput divided by the CPU limit in cores.
    pub per_core_per_s: Figure,
}

/// The values of a valid load at one number of connections.
struct Step<'a> {
    connections: u32,
    throughput: &'a Figure,
    /// Mean CPU use as share of the limit; `None` without a limit.
    share: Option<f64>,
}

/// Analyses `gateway` at the limit with index `place`.
pub(super) fn saturation(
    gateway: &str,
    place: usize,
    limit: &DataLimit,
    points: &[Point],
    full_share: f64,
) -> Saturation {
    let (mut steps, mut left_out) = (Vec::new(), Vec::new());
    for point in &limit.closed {
        let connections = points[*point].connections;
        match step(connections, points[*point].row(gateway), limit) {
            Ok(step) => steps.push(step),
            Err(why) => left_out.push((why, connections.to_string())),
        }
    }
    let is_full = |step: &&Step<'_>| step.share.is_some_and(|share| share >= full_share);
    let full: Vec<&Step<'_>> = steps.iter().filter(is_full).collect();
    let maximum = limit.cpus.and_then(|cpus| maximum(&full, cpus));
    let subject = Subject { gateway, limit };
    Saturation {
        gateway: gateway.to_owned(),
        limit: place,
        analysis: subject.analysis(&steps, &full, maximum.as_ref(), left_out),
        counted_at: numbers(steps.iter()),
        full_at: numbers(full.iter().copied()),
        maximum,
    }
}

/// Describes at which numbers of connections a limit is saturated: `at 8 connections`, `from 8 connections on`, `at 4
/// and 12 connections`.
pub(super) fn full_where(full_at: &[u32], counted_at: &[u32]) -> String {
    match full_at {
        [] => "nowhere".to_owned(),
        [one] => format!("at {}", connections(*one)),
        [first, ..] if counted_at.ends_with(full_at) => format!("from {} on", connections(*first)),
        several => {
            let named: Vec<String> = several.iter().map(u32::to_string).collect();
            format!("at {} connections", join(&named))
        }
    }
}

/// Returns the values at a number of connections, or why they are excluded.
fn step<'a>(connections: u32, row: Option<&'a Row>, limit: &DataLimit) -> Result<Step<'a>, String> {
    let row = row.ok_or("not measured")?;
    let throughput = &row.throughput_per_s;
    if !throughput.headline {
        return Err(why_no_headline(throughput));
    }
    let sampled = &row.cpu_share_of_limit;
    let share = sampled.mean.filter(|_| sampled.valid >= HEADLINE_REPEATS);
    match (limit.cpus, share) {
        (Some(_), None) => Err("CPU was not sampled".to_owned()),
        _ => Ok(Step { connections, throughput, share }),
    }
}

fn maximum(full: &[&Step<'_>], cpus: f64) -> Option<Maximum> {
    let (connections, throughput) = trend::best(&levels(full.iter().copied()))?;
    Some(Maximum { connections, throughput_per_s: throughput.clone(), per_core_per_s: throughput.over(cpus) })
}

/// The number of connections of each step.
fn numbers<'a: 'b, 'b>(steps: impl Iterator<Item = &'b Step<'a>>) -> Vec<u32> {
    steps.map(|step| step.connections).collect()
}

fn levels<'a: 'b, 'b>(steps: impl Iterator<Item = &'b Step<'a>>) -> Vec<Level<'a>> {
    steps.map(|step| (step.connections, step.throughput)).collect()
}

/// The gateway and the limit that the sentences are about.
struct Subject<'a> {
    gateway: &'a str,
    limit: &'a DataLimit,
}

impl Subject<'_> {
    fn analysis(
        &self,
        steps: &[Step<'_>],
        full: &[&Step<'_>],
        maximum: Option<&Maximum>,
        left_out: Vec<(String, String)>,
    ) -> String {
        let said = match (steps, full, maximum) {
            ([], _, _) => None,
            (_, [_, ..], Some(maximum)) => Some(self.filled(steps, full, maximum)),
            _ => Some(self.not_filled(steps)),
        };
        let left_out: Vec<String> = by_reason(left_out)
            .iter()
            .map(|(why, counts)| {
                let one = counts.len() == 1 && counts[0] == "1";
                format!("{} connection{} ({why})", join(counts), if one { "" } else { "s" })
            })
            .collect();
        let without = (!left_out.is_empty()).then(|| match said {
            Some(_) => format!("No conclusion at {}.", join(&left_out)),
            None => {
                let (gateway, limit) = (self.gateway, self.limit.words());
                format!("No conclusion about {gateway} with {limit}: {}.", join(&left_out))
            }
        });
        [said, without].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn filled(&self, steps: &[Step<'_>], full: &[&Step<'_>], maximum: &Maximum) -> String {
        let full_at = full_where(&numbers(full.iter().copied()), &numbers(steps.iter()));
        let trend = trend::words(&levels(full.iter().copied()));
        format!(
            "{} saturates {} {full_at} ({} of the limit): {}its maximum is {} at {}, {} per core.",
            self.gateway,
            self.limit.words(),
            shares(full.iter().copied()).unwrap_or_default(),
            trend.map(|words| format!("{words}; ")).unwrap_or_default(),
            with_interval(&maximum.throughput_per_s, rate),
            connections(maximum.connections),
            maximum.per_core_per_s.mean.map_or("n/a".into(), rate),
        )
    }

    fn not_filled(&self, steps: &[Step<'_>]) -> String {
        let levels = levels(steps.iter());
        let with = match (steps.first(), steps.last()) {
            (Some(first), Some(last)) if first.connections != last.connections => {
                format!("{} to {}", first.connections, connections(last.connections))
            }
            (first, _) => connections(first.map_or(0, |step| step.connections)),
        };
        let trend = trend::words(&levels).map(|words| format!(": {words}")).unwrap_or_default();
        let least = trend::best(&levels).map_or_else(String::new, |(at, throughput)| {
            let most = with_interval(throughput, rate);
            format!(" Its maximum is at least {most}, measured at {}.", connections(at))
        });
        match shares(steps.iter()) {
            Some(shares) => format!(
                "{} does not saturate {} with {with} ({shares} of the limit){trend}.{least}",
                self.gateway,
                self.limit.words()
            ),
            None => {
                format!("{} has no CPU limit to saturate ({with}){trend}.{least}", self.gateway)
            }
        }
    }
}

/// The range of CPU use as share of the limit: `98.1 %`, or `93.2 % to 98.1 %`. `None` without a limit.
fn shares<'a>(steps: impl Iterator<Item = &'a Step<'a>>) -> Option<String> {
    let shares: Vec<f64> = steps.filter_map(|step| step.share).collect();
    let least = percent_of_limit(shares.iter().copied().reduce(f64::min)?);
    let greatest = percent_of_limit(shares.iter().copied().reduce(f64::max)?);
    Some(if least == greatest { least } else { format!("{least} to {greatest}") })
}
