//! Compares the number of upstream requests with the number of client requests. This requires an upstream that counts
//! its requests by kind. A gateway that authenticates clients at the upstream, for example, sends additional upstream
//! requests.

use std::collections::BTreeMap;

use weir_results::{DIRECT_TWIN, is_baseline};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::added::authentication_apart;
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::quantity::count;
use crate::points::axes::with_axes;
use crate::points::conclusions::join;
use crate::points::measured::Repeats;

pub(super) const FINDER: Finder = Finder { key: "amplification", columns: &[&COLUMNS], find };

/// Key of the column for the authentication method. It replaces the axes that select the method.
const AUTHENTICATION: &str = "authentication";

/// Ratios up to this value are not reported, because the upstream itself may make a few requests.
const AMPLIFIED: f64 = 1.0005;

const INTRO: &str = "\
Number of upstream requests per client request, over whole loads including warm-up. The upstream counts its requests \
by kind, without health checks and without its own requests. A gateway that authenticates clients at the upstream \
sends more than one upstream request per client request.";

static COLUMNS: [Column; 6] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of(AUTHENTICATION, "Authentication", Unit::Text, KEEP),
    Column::of("sent", "Client requests", Unit::Count, 7),
    Column::of("upstream", "Upstream requests", Unit::Count, 6),
    Column::of("ratio", "Upstream / client requests", Unit::Number, KEEP)
        .lower()
        .judged("amplification.ratio", 0.02),
    Column::of("kinds", "By kind", Unit::Text, 6),
];

/// Numbers of requests of a gateway, summed over loads and repeats.
#[derive(Clone, Debug, Default)]
struct Requests {
    sent: u64,
    /// Requests that the upstream received, by kind.
    upstream: BTreeMap<String, u64>,
}

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Amplification", INTRO);
    let mut rows = Vec::new();
    // Request counts for each gateway and each combination of authentication and other axes, in the order of
    // appearance.
    let mut totals: Vec<(String, String, Requests)> = Vec::new();
    for group in measured.groups {
        let (authentication, mut axes) = authentication_apart(measured.run, group.axes);
        let place = with_axes(&authentication, &axes);
        axes.insert(AUTHENTICATION.to_owned(), authentication.clone().into());
        for (gateway, repeats) in group.rows.iter().filter(|(gateway, _)| *gateway != DIRECT_TWIN) {
            let Some((values, requests)) = row(&authentication, repeats) else { continue };
            let (load, axes) = (group.load.to_owned(), axes.clone());
            rows.push(Row { gateway: (*gateway).to_owned(), load, axes, values });
            match totals.iter_mut().find(|(of, at, _)| of == gateway && *at == place) {
                Some((_, _, total)) => total.add(&requests),
                None => totals.push(((*gateway).to_owned(), place.clone(), requests)),
            }
        }
    }
    let amplified = totals.iter().filter(|(gateway, ..)| !is_baseline(gateway));
    finding.sentences =
        amplified.filter_map(|(gateway, place, total)| total.sentence(gateway, place)).collect();
    let caption = "Upstream requests per client request".to_owned();
    finding.tables = vec![Table { caption, columns: &COLUMNS, rows }];
    (!finding.tables[0].rows.is_empty()).then_some(finding)
}

/// The values of a gateway at a load; `None` if the upstream does not count by kind.
fn row(authentication: &str, repeats: &Repeats<'_>) -> Option<(Vec<Value>, Requests)> {
    let mut total = Requests::default();
    let mut ratios = Vec::new();
    for repeat in repeats.iter() {
        let counters = &repeat.measurement.counters;
        if counters.origin_by_kind.is_empty() || counters.generator_sent == 0 {
            continue;
        }
        let requests = Requests { sent: counters.generator_sent, upstream: counters.origin_by_kind.clone() };
        // Counts are exact even under host noise, so every repeat is valid.
        let (reasons, range) = (Vec::new(), Range::default());
        let sample = Sample::Value(requests.ratio());
        ratios.push(Repeated { repeat: repeat.cell.key.repeat, sample, reasons, range });
        total.add(&requests);
    }
    if ratios.is_empty() {
        return None;
    }
    let values = vec![
        Value::Missing,
        Value::Text { text: authentication.to_owned() },
        Value::count(total.sent),
        Value::count(total.upstream()),
        Value::figure(&Figure::of(ratios).headline_if(true)),
        Value::Text { text: total.kinds().join(", ") },
    ];
    Some((values, total))
}

impl Requests {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        for (kind, requests) in &other.upstream {
            *self.upstream.entry(kind.clone()).or_default() += requests;
        }
    }

    fn upstream(&self) -> u64 {
        self.upstream.values().sum()
    }

    fn ratio(&self) -> f64 {
        self.upstream() as f64 / self.sent as f64
    }

    /// Each kind with its number of requests.
    fn kinds(&self) -> Vec<String> {
        self.upstream.iter().map(|(kind, requests)| format!("{kind} {}", count(*requests))).collect()
    }

    /// A sentence about the amplification; `None` if there is no amplification.
    fn sentence(&self, gateway: &str, place: &str) -> Option<String> {
        let ratio = self.ratio();
        let words = if ratio < 1.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") };
        (ratio > AMPLIFIED).then(|| {
            let kinds = join(&self.kinds());
            format!("{gateway}, {place}: the upstream received {words} requests per client request: {kinds}.")
        })
    }
}
