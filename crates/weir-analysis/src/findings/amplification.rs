//! How many requests an upstream gets for each request of a client, where it counts them by kind: a gateway that asks the
//! upstream about clients makes requests of its own.

use std::collections::BTreeMap;

use weir_results::{Counters, is_baseline};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::added::authentication_at;
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::quantity::count;
use crate::points::conclusions::join;
use crate::points::grouping::Group;
use crate::points::measured::Repeats;

pub(super) const FINDER: Finder = Finder { key: "amplification", columns: &[&COLUMNS], find };

/// Ratios closer to 1 than this are called none: a single request of the upstream's own doing.
const AMPLIFIED: f64 = 1.0005;

const INTRO: &str = "\
Requests that the upstream counted for each request that the load generator sent, over whole loads with their warm-up. The \
upstream counts by kind; its health checks and its own requests are no kind here. A gateway that asks the upstream who a \
client is makes more than one.";

static COLUMNS: [Column; 6] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("authentication", "Authentication", Unit::Text, 7),
    Column::of("sent", "Client requests", Unit::Count, 7),
    Column::of("upstream", "Upstream requests", Unit::Count, KEEP),
    Column::of("ratio", "Upstream per client request", Unit::Number, KEEP)
        .lower()
        .judged("amplification.ratio", 0.02)
        .drawn(),
    Column::of("kinds", "By kind", Unit::Text, 6),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Amplification", INTRO);
    let mut rows = Vec::new();
    for group in measured.groups {
        for (gateway, repeats) in &group.rows {
            let authentication = authentication_at(measured.run, group.axes);
            let Some((row, sentence)) = row(group, gateway, &authentication, repeats) else { continue };
            rows.push(row);
            finding.sentences.extend(sentence.filter(|_| !is_baseline(gateway)));
        }
    }
    let caption = "Upstream requests for each client request".to_owned();
    finding.tables = vec![Table { caption, columns: &COLUMNS, rows }];
    (!finding.tables[0].rows.is_empty()).then_some(finding)
}

/// The row of a gateway, and its sentence if it amplifies; `None` if the upstream does not count by kind.
fn row(
    group: &Group<'_>,
    gateway: &str,
    authentication: &str,
    repeats: &Repeats<'_>,
) -> Option<(Row, Option<String>)> {
    let counted: Vec<(u32, &Counters)> = repeats
        .iter()
        .map(|repeat| (repeat.cell.key.repeat, &repeat.measurement.counters))
        .filter(|(_, counters)| !counters.origin_by_kind.is_empty() && counters.generator_sent > 0)
        .collect();
    let sent: u64 = counted.iter().map(|(_, counters)| counters.generator_sent).sum();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, requests) in counted.iter().flat_map(|(_, counters)| &counters.origin_by_kind) {
        *kinds.entry(kind).or_default() += requests;
    }
    let upstream: u64 = kinds.values().sum();
    if sent == 0 {
        return None;
    }
    let ratio = |(repeat, counters): &(u32, &Counters)| {
        let upstream: u64 = counters.origin_by_kind.values().sum();
        let sample = Sample::Value(upstream as f64 / counters.generator_sent as f64);
        // Counts are exact on any host.
        Repeated { repeat: *repeat, sample, reasons: Vec::new(), range: Range::default() }
    };
    let ratio = Figure::of(counted.iter().map(ratio).collect()).headline_if(true);
    let by_kind: Vec<String> =
        kinds.iter().map(|(kind, requests)| format!("{kind} {}", count(*requests))).collect();
    let each = upstream as f64 / sent as f64;
    let sentence = (each > AMPLIFIED).then(|| {
        format!(
            "{gateway}, {} ({authentication}): {each:.2} upstream requests for each client request: {}.",
            group.load,
            join(&by_kind)
        )
    });
    let values = vec![
        Value::Missing,
        Value::Text { text: authentication.to_owned() },
        Value::count(sent),
        Value::count(upstream),
        Value::figure(&ratio),
        Value::Text { text: by_kind.join(", ") },
    ];
    let (load, axes) = (group.load.to_owned(), group.axes.clone());
    Some((Row { gateway: gateway.to_owned(), load, axes, values }, sentence))
}
