//! Changes of a gateway under load: the time until a change takes effect, and the cost of changes.

use weir_results::Changed;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::headroom::{ChangeCost, ChangesOfKind, Quiet, change_sentence};

pub(super) const FINDER: Finder = Finder { key: "changes", columns: &[&COST, &AGAINST_QUIET, &KINDS], find };

const INTRO: &str = "\
weir checks with its own requests and handshakes when each change takes effect. Routes: requests to an added route \
return 200, to a removed route 404. Endpoints: an added endpoint receives its first request, a removed endpoint its \
last. Certificates: the gateway serves the new one. \"Near\" is the time from applying a change until one second \
after it takes effect, and \"rest\" is the rest of the phase. If changes follow each other closely, \"near\" is the \
whole phase. Then compare with the quiet load: the same rate and processes, but no changes.";

const AT_ONCE: &str = "at the first check";

static COST: [Column; 9] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("changes", "Changes", Unit::Count, KEEP),
    Column::of("effective_after", "Effective after", Unit::Nanoseconds, KEEP)
        .lower()
        .judged("changes.effective_after", 0.25)
        .zero(AT_ONCE)
        .drawn(),
    Column::of("effective_after_max", "At most", Unit::Nanoseconds, 4).lower().zero(AT_ONCE),
    Column::of("errors_near", "Errors near", Unit::Share, KEEP).lower(),
    Column::of("errors_rest", "Errors, rest", Unit::Share, 5).lower(),
    Column::of("p99_near", "p99 near", Unit::Nanoseconds, 7).lower().compared("changes.p99_near", 0.25),
    Column::of("p99_rest", "p99, rest", Unit::Nanoseconds, 7).lower(),
    Column::of("p99_ratio", "Near / rest", Unit::Number, KEEP).lower(),
];

static AGAINST_QUIET: [Column; 7] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("quiet_load", "Quiet load", Unit::Text, 4),
    Column::of("errors", "Errors", Unit::Share, KEEP).lower(),
    Column::of("errors_quiet", "Errors, quiet", Unit::Share, 7).lower(),
    Column::of("p99", "p99", Unit::Nanoseconds, 7).lower(),
    Column::of("p99_quiet", "p99, quiet", Unit::Nanoseconds, 7).lower(),
    Column::of("quiet_ratio", "Ratio to quiet", Unit::Number, KEEP)
        .lower()
        .compared("changes.quiet_ratio", 0.10),
];

static KINDS: [Column; 5] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("change", "Change", Unit::Text, KEEP),
    Column::of("count", "Changes", Unit::Count, 7),
    Column::of("kind_effective_after", "Effective after", Unit::Nanoseconds, KEEP)
        .lower()
        .compared("changes.kind_effective_after", 0.25)
        .zero(AT_ONCE),
    Column::of("kind_effective_after_max", "At most", Unit::Nanoseconds, KEEP).lower().zero(AT_ONCE),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let costs = &measured.headroom.change_costs;
    if costs.is_empty() {
        return None;
    }
    let mut finding = Finding::new(FINDER.key, "Changes under load", INTRO);
    finding.sentences = costs.iter().map(change_sentence).collect();
    finding.tables =
        [Some(of_costs(costs)), against_quiet(costs), of_kinds(costs)].into_iter().flatten().collect();
    Some(finding)
}

fn row(cost: &ChangeCost, values: Vec<Value>) -> Row {
    Row { gateway: cost.gateway.clone(), load: cost.load.clone(), axes: cost.axes.clone(), values }
}

fn of_costs(costs: &[ChangeCost]) -> Table {
    let is_of_routes = |cost: &ChangeCost| cost.by_kind.iter().all(|kind| kind.what == Changed::Routes);
    let what = if costs.iter().all(is_of_routes) { " of routes" } else { "" };
    let of = |cost: &ChangeCost| {
        let values = vec![
            Value::Missing,
            Value::count(cost.changes as u64),
            Value::figure(&cost.seen_after_ns),
            Value::number(cost.seen_after_ns_max as f64),
            Value::Part { part: cost.errors_near, of: cost.sent_near },
            Value::Part { part: cost.errors_rest, of: cost.sent_rest },
            Value::figure(&cost.p99_near_ns),
            Value::figure(&cost.p99_rest_ns),
            Value::figure(&cost.p99_ratio),
        ];
        row(cost, values)
    };
    Table { caption: format!("Cost of changes{what}"), columns: &COST, rows: costs.iter().map(of).collect() }
}

/// The table that shows each load with changes beside the same load without changes.
fn against_quiet(costs: &[ChangeCost]) -> Option<Table> {
    let of = |cost: &ChangeCost, quiet: &Quiet| {
        let [errors, sent] = [cost.errors_near + cost.errors_rest, cost.sent_near + cost.sent_rest];
        let values = vec![
            Value::Missing,
            Value::text(&quiet.load),
            Value::Part { part: errors, of: sent },
            Value::Part { part: quiet.errors, of: quiet.sent },
            Value::figure(&cost.p99_ns),
            Value::figure(&quiet.p99_ns),
            Value::figure(&quiet.p99_ratio),
        ];
        row(cost, values)
    };
    let rows: Vec<Row> = costs.iter().filter_map(|cost| Some(of(cost, cost.quiet.as_ref()?))).collect();
    let caption = "With and without changes".to_owned();
    (!rows.is_empty()).then_some(Table { caption, columns: &AGAINST_QUIET, rows })
}

/// The table with a row for each kind of change; `None` if only routes change.
fn of_kinds(costs: &[ChangeCost]) -> Option<Table> {
    let of = |cost: &ChangeCost, kind: &ChangesOfKind| {
        let values = vec![
            Value::Missing,
            Value::text(kind.what.to_string()),
            Value::count(kind.changes as u64),
            Value::figure(&kind.seen_after_ns),
            Value::number(kind.seen_after_ns_max as f64),
        ];
        let mut row = row(cost, values);
        row.axes.insert("change".to_owned(), kind.what.to_string().into());
        row
    };
    let has_others = costs.iter().flat_map(|cost| &cost.by_kind).any(|kind| kind.what != Changed::Routes);
    let rows = costs.iter().flat_map(|cost| cost.by_kind.iter().map(|kind| of(cost, kind)));
    has_others.then(|| Table {
        caption: "Time until changes take effect".into(),
        columns: &KINDS,
        rows: rows.collect(),
    })
}
