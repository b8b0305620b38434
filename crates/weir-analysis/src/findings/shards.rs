//! The contribution of each agent to a load, so that an unusual agent is visible.

use weir_results::ShardResult;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Range, Repeated};
use crate::figures::quantity::time_ns;
use crate::points::axes::with_axes;
use crate::points::grouping::Group;
use crate::points::measured::Repeats;
use crate::verdicts::reasons::Metric;

pub(super) const FINDER: Finder = Finder { key: "shards", columns: &[&COLUMNS], find };

const INTRO: &str = "Several agents generated each load; the part of one agent is a shard. All other tables show \
    the whole load. Start is the deviation from the planned start, by the clock of the host that started the run.";

static COLUMNS: [Column; 7] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("agent", "Agent", Unit::Text, KEEP),
    Column::of("start", "Start", Unit::Nanoseconds, 5).bare(),
    Column::of("throughput", "Throughput", Unit::PerSecond, KEEP).bare(),
    Column::of("p50", "p50", Unit::Nanoseconds, 7).bare(),
    Column::of("p99", "p99", Unit::Nanoseconds, KEEP).bare(),
    Column::of("lateness_p99", "Lateness, p99", Unit::Nanoseconds, 6).bare(),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut repeats =
        measured.groups.iter().flat_map(|group| group.rows.iter().flat_map(|(_, repeats)| repeats.iter()));
    // With a single shard, there are no shards to compare.
    if !repeats.any(|repeat| repeat.measurement.record.shards.len() > 1) {
        return None;
    }
    let mut finding = Finding::new(FINDER.key, "Shards", INTRO);
    let mut rows = Vec::new();
    for group in measured.groups {
        for (gateway, repeats) in &group.rows {
            rows.extend(agents(repeats).into_iter().map(|agent| row(group, gateway, repeats, agent)));
        }
        finding.sentences.extend(spread(group));
    }
    finding.tables.push(Table { caption: "Shards".into(), columns: &COLUMNS, rows });
    (!finding.tables[0].rows.is_empty()).then_some(finding)
}

/// The agents of all repeats, in the order of first appearance.
fn agents<'a>(repeats: &'a Repeats<'_>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for shard in repeats.iter().flat_map(|repeat| &repeat.measurement.record.shards) {
        if !names.contains(&shard.agent.as_str()) {
            names.push(&shard.agent);
        }
    }
    names
}

fn row(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>, agent: &str) -> Row {
    let over_repeats = |metric: Metric, of: fn(&ShardResult) -> Option<f64>| {
        let repeated = repeats.iter().filter_map(|repeat| {
            let mut shards = repeat.measurement.record.shards.iter();
            let shard = shards.find(|shard| shard.agent == agent)?;
            Some(Repeated {
                repeat: repeat.cell.key.repeat,
                sample: of(shard).into(),
                reasons: repeat.reasons(metric).to_vec(),
                range: Range::default(),
            })
        });
        repeated.collect::<Vec<Repeated>>()
    };
    let latency = |of| Value::figure(&Figure::of(over_repeats(Metric::Latency, of)));
    let values = vec![
        Value::Missing,
        Value::text(agent),
        Value::figure(&Figure::of_difference(over_repeats(Metric::Latency, |shard| {
            Some(shard.start_offset_ns as f64)
        }))),
        Value::figure(&Figure::of(over_repeats(Metric::Throughput, |shard| Some(shard.rate_per_s)))),
        latency(|shard| shard.latency_ns.p50.map(|ns| ns as f64)),
        latency(|shard| shard.latency_ns.p99.map(|ns| ns as f64)),
        latency(|shard| shard.lateness_ns.as_ref()?.p99.map(|ns| ns as f64)),
    ];
    let mut axes = group.axes.clone();
    axes.insert("agent".into(), agent.into());
    Row { gateway: gateway.to_owned(), load: group.load.to_owned(), axes, values }
}

/// States the maximum time between the starts of a load's shards.
fn spread(group: &Group<'_>) -> Option<String> {
    let repeats = group.rows.iter().flat_map(|(_, repeats)| repeats.iter());
    let each = repeats.filter_map(|repeat| {
        let starts = || repeat.measurement.record.shards.iter().map(|shard| shard.start_offset_ns);
        Some(starts().max()? - starts().min()?)
    });
    let most_ns = each.max()?;
    let load = with_axes(group.load, group.axes);
    Some(format!("{load}: the shards started within {}.", time_ns(most_ns as f64)))
}
